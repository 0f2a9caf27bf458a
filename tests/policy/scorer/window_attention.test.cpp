// SPDX-License-Identifier: MIT
#include <lazyprune/policy/scorer/window_attention.hpp>

#include <doctest/doctest.h>

#include <string>
#include <type_traits>
#include <vector>

#include <fault.hpp>
#include "policy/contract.hpp"

using lazyprune_test::at;
using lazyprune_test::error_of;

namespace {

using namespace contract;

static_assert(std::is_trivially_copyable_v<window_attention>);

struct window_attention_values {
  static std::vector<window_attention> all() {
    return {{}, {.window = 1, .kernel = 1}, {.window = 5, .kernel = 5, .pool = pooling::mean}, {.window = 2, .kernel = 63}};
  }
};
TEST_CASE_TEMPLATE_INVOKE(scorer_contract, window_attention_values);

TEST_CASE("without pooling, the score is the mean over the queries and heads") {
  const std::vector<float> data{0.5f, 0.5f, 0.0f, 1.0f, 0.25f, 0.75f, 0.25f, 0.75f};  // (2 queries, 2 heads, 2 tokens)
  const std::vector<position> positions{3, 4};
  std::vector<float> out(2);
  window_attention{.window = 2, .kernel = 1}.score({data.data(), 2, 2, 2, positions}, out);
  CHECK(out == std::vector<float>{0.25f, 0.75f});
}

TEST_CASE("pooling takes the active neighbours that exist") {
  const std::vector<float> data{0.0f, 0.5f, 0.0f, 0.0f, 0.25f};
  const std::vector<position> positions{0, 1, 20, 21, 22};  // the neighbours are the next active tokens, at any distance
  std::vector<float> out(5);
  window_attention{.window = 1, .kernel = 3}.score({data.data(), 1, 1, 5, positions}, out);
  CHECK(out == std::vector<float>{0.5f, 0.5f, 0.5f, 0.25f, 0.25f});
  window_attention{.window = 1, .kernel = 3, .pool = pooling::mean}.score({data.data(), 1, 1, 5, positions}, out);
  CHECK(out == std::vector<float>{0.25f, static_cast<float>(0.5 / 3), static_cast<float>(0.5 / 3), static_cast<float>(0.25 / 3), 0.125f});
}

TEST_CASE("the scores follow the formula for every kernel") {
  std::mt19937 random(31);
  for (const std::size_t n : sizes)
    for (std::size_t kernel = 1; kernel <= pooling_kernel::largest; kernel += 2) {
      CAPTURE(n);
      CAPTURE(kernel);
      const std::size_t queries = 1 + random() % 4, heads = 1 + random() % 3;
      const std::vector<float> data = some_numbers(queries * heads * n, 0.0f, random);
      const std::vector<position> positions = some_positions(n, random);
      std::vector<double> mean(n);
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t r = 0; r < queries * heads; ++r) mean[i] += data[r * n + i];
        mean[i] /= static_cast<double>(queries * heads);
      }
      for (const pooling pool : {pooling::max, pooling::mean}) {
        std::vector<float> out(n);
        window_attention{.window = 4, .kernel = kernel, .pool = pool}.score({data.data(), queries, heads, n, positions}, out);
        for (std::size_t i = 0; i < n; ++i) {
          double most = 0, sum = 0, count = 0;
          for (std::size_t j = i - std::min(i, kernel / 2); j < std::min(n, i + kernel / 2 + 1); ++j) {
            most = std::max(most, mean[j]);
            sum += mean[j];
            ++count;
          }
          // The score is rounded to float before and after the pooling.
          REQUIRE(close(out[i], pool == pooling::max ? most : sum / count, 0x1.1p-23));
        }
      }
    }
}

TEST_CASE("a kernel must be odd and at most 63") {
  for (const std::size_t bad : {0u, 2u, 8u, 64u, 65u}) CHECK_THROWS_AS(static_cast<void>(window_attention{.kernel = bad}), error);
  CHECK_THROWS_AS(static_cast<void>(window_attention{.window = 0}), error);
  CHECK(error_of([] { pooling_kernel{8}; }) == at("", {"63", ", found 8"}));
}

}  // namespace
