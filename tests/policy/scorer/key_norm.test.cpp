// SPDX-License-Identifier: MIT
#include <lazyprune/policy/scorer/key_norm.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <type_traits>
#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

static_assert(std::is_trivially_copyable_v<key_norm>);

struct key_norm_values {
  static std::vector<key_norm> all() { return {key_norm{}}; }
};
TEST_CASE_TEMPLATE_INVOKE(scorer_contract, key_norm_values);

TEST_CASE("the score is minus the mean length of the keys") {
  const std::vector<float> keys{3.0f, -4.0f, 5.0f, 12.0f, 0.0f, 0.0f, -6.0f, 8.0f};  // (2 tokens, 2 heads, 2)
  const std::vector<position> positions{0, 1};
  std::vector<float> out(2);
  key_norm{}.score({keys.data(), 2, 2, 4, positions}, out);
  CHECK(out == std::vector<float>{-9.0f, -5.0f});
}

TEST_CASE("the scores follow the formula for every head width") {
  std::mt19937 random(41);
  for (std::size_t head_dim = 1; head_dim < 150; ++head_dim) {
    const std::size_t n = 1 + random() % 5, kv_heads = 1 + random() % 3;
    std::vector<float> keys = some_numbers(n * kv_heads * head_dim, -1.0f, random);
    if (random() % 4 == 0)
      for (float& k : keys) k *= 0x1p100f;  // squares beyond the range of float
    const std::vector<position> positions = some_positions(n, random);
    std::vector<float> out(n);
    key_norm{}.score({keys.data(), kv_heads, head_dim, kv_heads * head_dim, positions}, out);
    for (std::size_t i = 0; i < n; ++i) {
      long double sum = 0;
      for (std::size_t h = 0; h < kv_heads; ++h) {
        long double squares = 0;
        for (std::size_t d = 0; d < head_dim; ++d) {
          const long double k = keys[(i * kv_heads + h) * head_dim + d];
          squares += k * k;
        }
        sum += std::sqrt(squares);
      }
      // The sum is computed in double and rounded to float once.
      REQUIRE(close(-out[i], sum / static_cast<long double>(kv_heads), 0x1p-24 + 0x1p-44));
    }
  }
}

}  // namespace
