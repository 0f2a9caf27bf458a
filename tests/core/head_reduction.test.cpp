// SPDX-License-Identifier: MIT
#include <lazyprune/core/head_reduction.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace lazyprune;

TEST_CASE("reduce_heads gives the maximum, or the mean, which is summed in double and rounded once") {
  // Added from left to right, 2^24 + 1 + 1 is 2^24 in float and 2^24 + 2 in double.
  const std::size_t n = 200, stride = 203;
  std::vector<float> heads(3 * stride, -7.0f);
  std::vector<position> active(n);
  for (std::size_t i = 0; i < n; ++i) {
    active[i] = static_cast<position>(3 * i);
    heads[i] = i % 2 ? 0x1p24f : static_cast<float>(i);
    heads[stride + i] = 1.0f;
    heads[2 * stride + i] = 1.0f;
  }
  const attention_view attention{heads.data(), 3, stride, active};
  std::vector<float> out(n + 1, 9.0f);
  reduce_heads(attention, head_reduction::mean, std::span(out).first(n));
  for (std::size_t i = 0; i < n; ++i) REQUIRE(out[i] == static_cast<float>((i % 2 ? 0x1p24 + 2 : static_cast<double>(i) + 2) / 3));
  reduce_heads(attention, head_reduction::max, std::span(out).first(n));
  for (std::size_t i = 0; i < n; ++i) REQUIRE(out[i] == (i % 2 ? 0x1p24f : i == 0 ? 1.0f : static_cast<float>(i)));
  CHECK(out[n] == 9.0f);
}

TEST_CASE("one head is its own mean and maximum, to the bit") {
  const std::vector<float> head{0.1f, 0.3f, 0x1p-149f, 0.0f};
  const std::vector<position> active{0, 1, 5, 6};
  for (const auto over : {head_reduction::mean, head_reduction::max}) {
    std::vector<float> out(4);
    reduce_heads({head.data(), 1, 4, active}, over, out);
    CHECK(out == head);
  }
}

TEST_CASE("reduce_queries gives the last row, the maximum, or the mean, which is summed in double and rounded once") {
  const std::size_t n = 200, stride = 203;
  std::vector<float> queries(3 * stride, -7.0f);
  for (std::size_t i = 0; i < n; ++i) {
    queries[i] = i % 2 ? 0x1p24f : static_cast<float>(i);
    queries[stride + i] = 1.0f;
    queries[2 * stride + i] = i == 4 ? 9.0f : 1.0f;
  }
  std::vector<float> out(n + 1, 9.5f);
  const auto reduce = [&](query_reduction over) { reduce_queries(queries.data(), 3, stride, over, std::span(out).first(n)); };
  reduce(query_reduction::mean);
  for (std::size_t i = 0; i < n; ++i) {
    const double sum = (i % 2 ? 0x1p24 : static_cast<double>(i)) + (i == 4 ? 10 : 2);
    REQUIRE(out[i] == static_cast<float>(sum / 3));
  }
  reduce(query_reduction::last);
  for (std::size_t i = 0; i < n; ++i) REQUIRE(out[i] == (i == 4 ? 9.0f : 1.0f));
  reduce(query_reduction::max);
  for (std::size_t i = 0; i < n; ++i) REQUIRE(out[i] == (i == 4 ? 9.0f : i % 2 ? 0x1p24f : i == 0 ? 1.0f : static_cast<float>(i)));
  CHECK(out[n] == 9.5f);
}
