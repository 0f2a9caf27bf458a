// SPDX-License-Identifier: MIT
#include <lazyprune/policy/scorer/accumulated_attention.hpp>

#include <doctest/doctest.h>

#include <type_traits>
#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

static_assert(std::is_trivially_copyable_v<accumulated_attention>);

struct accumulated_attention_values {
  static std::vector<accumulated_attention> all() {
    return {{layer_reduction::sum, memory_span::sequence},
            {layer_reduction::sum, memory_span::step},
            {layer_reduction::max, memory_span::sequence},
            {layer_reduction::max, memory_span::step}};
  }
};
TEST_CASE_TEMPLATE_INVOKE(scorer_contract, accumulated_attention_values);

TEST_CASE("attention is accumulated by position, for the active tokens") {
  const std::vector<position> positions{1, 3};
  const std::vector<float> data{0.5f, 0.25f, 0.0f, 0.75f};  // (2 heads, 2 tokens)
  std::vector<float> memory{9.0f, 0.5f, 9.0f, 0.25f};
  std::vector<float> out(2);
  const every_layer<attention_view> view{{data.data(), 2, 2, positions}, 2, memory};
  accumulated_attention{}.score(view, out);
  CHECK(out == std::vector<float>{0.75f, 0.75f});
  CHECK(memory == std::vector<float>{9.0f, 0.75f, 9.0f, 0.75f});
  accumulated_attention{.over = layer_reduction::max}.score(view, out);
  CHECK(out == std::vector<float>{0.75f, 0.75f});
  CHECK(memory == std::vector<float>{9.0f, 0.75f, 9.0f, 0.75f});
}

TEST_CASE("since = step: the first layer clears the memory of all positions") {
  const std::vector<position> positions{1, 3};
  const std::vector<float> data{0.5f, 0.25f};
  std::vector<float> memory{9.0f, 9.0f, 9.0f, 9.0f};
  std::vector<float> out(2);
  const accumulated_attention fresh{.since = memory_span::step};
  fresh.score({{data.data(), 1, 2, positions}, 0, memory}, out);
  CHECK(memory == std::vector<float>{0.0f, 0.5f, 0.0f, 0.25f});
  fresh.score({{data.data(), 1, 2, positions}, 1, memory}, out);
  CHECK(out == std::vector<float>{1.0f, 0.5f});
}

TEST_CASE("the scores follow a record of all attention seen") {
  std::mt19937 random(37);
  for (const accumulated_attention scorer : accumulated_attention_values::all())
    for (int run = 0; run < 50; ++run) {
      const std::size_t known = 1 + random() % 40, heads = 1 + random() % 4;
      std::vector<float> memory(known);
      std::vector<std::vector<double>> seen(known);  // means, by position
      for (int step = 0; step < 3; ++step)
        for (layer_id layer = 0; layer < 5; ++layer) {
          std::vector<position> positions;
          for (position p = 0; p < known; ++p)
            if (p + 1 == known || random() % 3) positions.push_back(p);
          const std::size_t n = positions.size();
          const std::vector<float> data = some_numbers(heads * n, 0.0f, random);
          std::vector<float> out(n);
          scorer.score({{data.data(), heads, n, positions}, layer, memory}, out);

          if (layer == 0 && scorer.since == memory_span::step) seen.assign(known, {});
          for (std::size_t i = 0; i < n; ++i) {
            double mean = 0;
            for (std::size_t h = 0; h < heads; ++h) mean += data[h * n + i] / static_cast<double>(heads);
            std::vector<double>& values = seen[positions[i]];
            values.push_back(mean);
            const double expected = scorer.over == layer_reduction::sum ? std::accumulate(values.begin(), values.end(), 0.0)
                                                                        : *std::max_element(values.begin(), values.end());
            // Each added term rounds the memory to float once. There are at most 15 terms.
            REQUIRE(close(out[i], expected, 16 * 0x1p-24));
          }
        }
    }
}

}  // namespace
