// SPDX-License-Identifier: MIT
#include <lazyprune/policy/scorer/last_query_attention.hpp>

#include <doctest/doctest.h>

#include <type_traits>
#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

static_assert(std::is_trivially_copyable_v<last_query_attention>);

struct last_query_attention_values {
  static std::vector<last_query_attention> all() { return {{head_reduction::mean}, {head_reduction::max}}; }
};
TEST_CASE_TEMPLATE_INVOKE(scorer_contract, last_query_attention_values);

TEST_CASE("the score is the mean or the maximum over the heads") {
  // (heads, active); a row begins every 4 numbers
  const std::vector<float> data{0.5f, 0.25f, 0.25f, 9.0f, 0.0f, 0.75f, 0.25f, 9.0f};
  const std::vector<position> positions{0, 5, 7};
  const attention_view view{data.data(), 2, 4, positions};
  std::vector<float> out(3);
  last_query_attention{}.score(view, out);
  CHECK(out == std::vector<float>{0.25f, 0.5f, 0.25f});
  last_query_attention{.over = head_reduction::max}.score(view, out);
  CHECK(out == std::vector<float>{0.5f, 0.75f, 0.25f});
}

TEST_CASE("the mean is summed in double and rounded once") {
  std::mt19937 random(23);
  for (const std::size_t n : sizes)
    for (const std::size_t heads : {1u, 3u, 32u, 128u}) {
      const std::vector<float> data = some_numbers(heads * n, 0.0f, random);
      const std::vector<position> positions = some_positions(n, random);
      std::vector<float> out(n);
      last_query_attention{}.score({data.data(), heads, n, positions}, out);
      for (std::size_t i = 0; i < n; ++i) {
        long double sum = 0;
        for (std::size_t h = 0; h < heads; ++h) sum += data[h * n + i];
        // 128 additions in double lose at most 2^-46 of the sum. The result is the nearest float, or the next one if both are almost
        // equally near.
        REQUIRE(close(out[i], sum / static_cast<long double>(heads), 0x1p-24 + 0x1p-46));
      }
    }
}

}  // namespace
