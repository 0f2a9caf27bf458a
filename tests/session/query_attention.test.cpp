// SPDX-License-Identifier: MIT
#include <lazyprune/session/query_attention.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <fault.hpp>

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

TEST_CASE("query_attention is the softmax of q.k / sqrt(head_dim), for grouped heads and scattered slots too") {
  constexpr std::size_t heads = 6, kv_heads = 2, head_dim = 8, slots = 40, stride = 20;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> q(heads * head_dim), k(slots * stride);
  for (float& x : q) x = normal(random);
  for (float& x : k) x = normal(random);
  const std::vector<position> active{0, 3, 4, 9, 11, 30};
  const std::vector<std::uint32_t> places{7, 1, 39, 0, 22, 5};
  std::vector<float> out(heads * 10, -1.0f);
  const attention_view view =
      query_attention(q.data(), heads, key_rows<float>{k.data(), kv_heads, head_dim, stride, places}, active, out.data(), 10);
  CHECK(view.heads == heads);
  CHECK(view.active() == active.size());
  for (std::size_t h = 0; h < heads; ++h) {
    std::vector<double> p(active.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      double dot = 0;
      for (std::size_t d = 0; d < head_dim; ++d) dot += double{q[h * head_dim + d]} * k[places[i] * stride + h / 3 * head_dim + d];
      p[i] = std::exp(dot / std::sqrt(8.0));
    }
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    // The products reach 30 and are rounded to float before exp. This gives exp a relative error of up to 30 * 6e-8, once in the numerator
    // and once in the sum.
    for (std::size_t i = 0; i < p.size(); ++i) CHECK(view(h, i) == doctest::Approx(p[i] / sum).epsilon(4e-6));
    for (std::size_t i = p.size(); i < 10; ++i) CHECK(out[h * 10 + i] == -1.0f);
  }
}

TEST_CASE("without slots, token i is in slot i; large products do not overflow") {
  const std::vector<float> q{1e4f, 0.0f}, k{1.0f, 0.0f, -1.0f, 0.0f, 1.0f, 0.0f};
  const std::vector<position> active{0, 1, 2};
  std::vector<float> out(3);
  query_attention(q.data(), 1, key_rows<float>{k.data(), 1, 2, 2, {}}, active, out.data(), 3);
  CHECK(out == std::vector<float>{0.5f, 0.0f, 0.5f});
}

TEST_CASE("with several queries, a row does not see later tokens") {
  constexpr std::size_t heads = 4, kv_heads = 2, head_dim = 4, query_stride = 20;
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> q(3 * query_stride), k(10 * kv_heads * head_dim);
  for (float& x : q) x = normal(random);
  for (float& x : k) x = normal(random);
  const std::vector<position> active{0, 2, 5, 7, 8, 9}, rows{5, 8, 9};
  const std::vector<std::uint32_t> places{9, 3, 1, 0, 4, 2};
  const key_rows<float> keys{k.data(), kv_heads, head_dim, kv_heads * head_dim, places};
  std::vector<float> out(rows.size() * heads * active.size(), -1.0f), one(heads * active.size());
  const window_view all = query_attention(q.data(), query_stride, heads, keys, active, rows, out.data());
  CHECK(all.queries == 3);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::size_t seen = r == 0 ? 3 : r == 1 ? 5 : 6;
    key_rows<float> some = keys;
    some.slots = std::span(places).first(seen);
    const attention_view alone =
        query_attention(q.data() + r * query_stride, heads, some, std::span(active).first(seen), one.data(), active.size());
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < active.size(); ++i) CHECK(all.query(r)(h, i) == (i < seen ? alone(h, i) : 0.0f));
  }
}

TEST_CASE("a query or a key that is not finite is an error that names the token's position") {
  const std::vector<position> active{2, 3, 7}, rows{3, 7};
  const auto said = [&](std::size_t of_query, std::size_t of_key, float number) {
    std::vector<float> q(2 * 4, 0.0f), k(3 * 2, 0.5f), out(2 * 2 * 3);
    if (of_query < q.size()) q[of_query] = number;
    if (of_key < k.size()) k[of_key] = number;
    return error_of([&] { query_attention(q.data(), 4, 2, key_rows<float>{k.data(), 1, 2, 2, {}}, active, rows, out.data()); });
  };
  constexpr std::size_t no_place = 99;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(said(no_place, no_place, infinity) == "no error");
  CHECK(said(3, no_place, infinity) == at("query_attention: query of the token at position 3", {", found inf"}));
  CHECK(said(4, no_place, -infinity) == at("query_attention: query of the token at position 7", {", found -inf"}));
  CHECK(said(no_place, 2, infinity) == at("query_attention: key of the token at position 3"));
  CHECK(said(no_place, 5, std::numeric_limits<float>::quiet_NaN()) == at("query_attention: key of the token at position 7"));
}
