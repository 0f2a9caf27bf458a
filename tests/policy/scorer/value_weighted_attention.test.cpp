// SPDX-License-Identifier: MIT
#include <lazyprune/policy/scorer/value_weighted_attention.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <type_traits>
#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

static_assert(std::is_trivially_copyable_v<value_weighted_attention>);

struct value_weighted_attention_values {
  static std::vector<value_weighted_attention> all() { return {{vector_norm::l2}, {vector_norm::l1}}; }
};
TEST_CASE_TEMPLATE_INVOKE(scorer_contract, value_weighted_attention_values);

TEST_CASE("a query head uses the values of its value head") {
  const std::vector<float> attention{0.5f, 0.5f, 1.0f, 0.0f, 0.25f, 0.75f, 0.0f, 1.0f};  // (4 heads, 2 tokens)
  const std::vector<float> values{3.0f, -4.0f, 1.0f, 0.0f, 0.0f, 0.0f, -6.0f, 8.0f};     // (2 tokens, 2 value heads, 2)
  const std::vector<position> positions{0, 1};
  const value_view view{{attention.data(), 4, 2, positions}, values.data(), 2, 2, 4};
  std::vector<float> out(2);
  value_weighted_attention{}.score(view, out);
  CHECK(out[0] == (0.5f * 5 + 1.0f * 5 + 0.25f * 1 + 0.0f * 1) / 4);
  CHECK(out[1] == (0.5f * 0 + 0.0f * 0 + 0.75f * 10 + 1.0f * 10) / 4);
  value_weighted_attention{.norm = vector_norm::l1}.score(view, out);
  CHECK(out[0] == (0.5f * 7 + 1.0f * 7 + 0.25f * 1 + 0.0f * 1) / 4);
  CHECK(out[1] == (0.5f * 0 + 0.0f * 0 + 0.75f * 14 + 1.0f * 14) / 4);
}

TEST_CASE("the scores follow the formula") {
  std::mt19937 random(29);
  for (const std::size_t n : sizes)
    for (const auto& [heads, kv_heads] :
         {std::pair<std::size_t, std::size_t>{1, 1}, {8, 8}, {8, 2}, {7, 1}, {7, 3}})  // 7, 3: uneven groups
      for (const vector_norm norm : {vector_norm::l2, vector_norm::l1}) {
        const std::size_t head_dim = 1 + random() % 40;
        const std::vector<float> attention = some_numbers(heads * n, 0.0f, random);
        const std::vector<float> values = some_numbers(n * kv_heads * head_dim, -1.0f, random);
        const std::vector<position> positions = some_positions(n, random);
        std::vector<float> out(n);
        value_weighted_attention{norm}.score(
            {{attention.data(), heads, n, positions}, values.data(), kv_heads, head_dim, kv_heads * head_dim}, out);
        for (std::size_t i = 0; i < n; ++i) {
          long double sum = 0;
          for (std::size_t h = 0; h < heads; ++h) {
            long double squares = 0, sizes_sum = 0;
            for (std::size_t d = 0; d < head_dim; ++d) {
              const long double v = values[(i * kv_heads + h * kv_heads / heads) * head_dim + d];
              squares += v * v;
              sizes_sum += std::abs(v);
            }
            sum += attention[h * n + i] * (norm == vector_norm::l2 ? std::sqrt(squares) : sizes_sum);
          }
          // The sum is computed in double and rounded to float once.
          REQUIRE(close(out[i], sum / static_cast<long double>(heads), 0x1p-24 + 0x1p-44));
        }
      }
}

}  // namespace
