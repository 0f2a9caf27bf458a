// SPDX-License-Identifier: MIT
#include <lazyprune/policy/scorer/calibrated_attention.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <fault.hpp>
#include "policy/contract.hpp"

using lazyprune_test::at;
using lazyprune_test::error_of;

namespace {

using namespace contract;

constexpr auto last = query_reduction::last, max = query_reduction::max, mean = query_reduction::mean;

const std::vector<calibrated_probe> some_probes{
    {.after = 2, .layer = 1, .head = 3, .queries = last, .block = block_pooling::max, .weight = 0.5f},
    {.after = 2, .layer = 0, .head = 0, .queries = mean, .block = block_pooling::mean, .weight = -1.25f},
    {.after = 2, .layer = 1, .head = 3, .queries = last, .block = block_pooling::mean, .weight = 2.0f, .counts_for = counted_block::next},
    {.after = 3, .layer = 2, .head = 1, .queries = max, .block = block_pooling::max, .weight = 1.0f},
};

struct calibrated_attention_values {
  static std::vector<calibrated_attention> all() {
    return {{},
            {.chosen = calibration(some_probes)},
            {.window = 1, .block = 3, .chosen = calibration(some_probes)},
            {.block = 2, .chosen = calibration(some_probes), .following = 2}};
  }
};
TEST_CASE_TEMPLATE_INVOKE(scorer_contract, calibrated_attention_values);

/// Returns the term of one probe for each active token, computed in double from the definition.
std::vector<double> term(const calibrated_probe& p, std::span<const float> probability, const std::vector<position>& positions,
                         std::size_t block) {
  std::map<std::size_t, std::vector<double>> of_block;
  for (std::size_t i = 0; i < positions.size(); ++i)
    of_block[positions[i] / block].push_back(positions[i] < 4 ? 0.0 : static_cast<double>(probability[i]));
  std::map<std::size_t, double> value;
  double sum = 0, squares = 0;
  for (const auto& [b, all] : of_block) {
    double pooled = 0;
    for (const double x : all) pooled = p.block == block_pooling::max ? std::max(pooled, x) : pooled + x / static_cast<double>(all.size());
    sum += value[b] = std::log(pooled + (p.block == block_pooling::max ? 1e-6 : 1e-7));
  }
  const double average = sum / static_cast<double>(value.size());
  for (const auto& [b, x] : value) squares += (x - average) * (x - average);
  const double deviation = std::sqrt(squares / static_cast<double>(value.size()));
  std::vector<double> terms;
  for (const position t : positions) {
    const std::size_t read = t / block - (p.counts_for == counted_block::next ? 1 : 0);
    terms.push_back(deviation == 0 || !value.contains(read) ? 0 : static_cast<double>(p.weight) * (value[read] - average) / deviation);
  }
  return terms;
}

}  // namespace

TEST_CASE("the score is the weighted sum of standardised logarithms of pooled probabilities, over the layers done in the step") {
  std::mt19937 random(7);
  for (const std::size_t n : {std::size_t{1}, std::size_t{5}, std::size_t{40}, std::size_t{333}})
    for (const std::size_t block : {std::size_t{1}, std::size_t{8}, std::size_t{32}}) {
      CAPTURE(n);
      CAPTURE(block);
      const calibrated_attention scorer{.block = block, .chosen = calibration(some_probes)};
      const std::vector<position> positions = some_positions(n, random);
      std::vector<float> memory(positions.back() + std::size_t{1}, 99.0f), out(n);
      std::vector<double> expected(n);
      for (layer_id layer = 0; layer < 4; ++layer) {
        const auto reads = scorer.probes(layer);
        const std::vector<float> data = some_numbers(reads.size() * n, 0.0f, random);
        for (const calibrated_probe& p : scorer.chosen->list()) {
          if (p.layer != layer) continue;
          const auto row = static_cast<std::size_t>(std::ranges::find(reads, head_probe{p.head, p.queries}) - reads.begin());
          REQUIRE(row < reads.size());
          const std::vector<double> terms = term(p, std::span(data).subspan(row * n, n), positions, block);
          for (std::size_t i = 0; i < n; ++i) expected[i] += terms[i];
        }
        scorer.score({probe_view{data.data(), reads.size(), n, positions}, layer, memory}, out);
        for (std::size_t i = 0; i < n; ++i) REQUIRE(std::abs(static_cast<double>(out[i]) - expected[i]) < 1e-4);
      }
    }
}

TEST_CASE("a token's score is the largest of its sum and the sums of the two blocks before it, less 1 for each block of distance") {
  const calibrated_attention scorer{.block = 2, .chosen = calibration::read("1.0.0.last.max@1/2.1.0.last.max@1"), .following = 2};
  calibrated_attention without = scorer;
  without.following.reset();
  const auto scores = [](const calibrated_attention& by, layer_id layer, const std::vector<position>& positions,
                         const std::vector<float>& probability, std::vector<float>& memory) {
    std::vector<float> out(positions.size());
    by.score({probe_view{probability.data(), 1, positions.size(), positions}, layer, memory}, out);
    return out;
  };
  std::vector<float> memory(12, 99.0f), sums(12, 99.0f);

  // Blocks of two: (4, 5), (6, 7), (9) and (11). The first is far above the others.
  const std::vector<position> positions{4, 5, 6, 7, 9, 11};
  const std::vector<float> probability{0.5f, 0.25f, 1e-5f, 1e-5f, 1e-5f, 1e-6f};
  const std::vector<float> out = scores(scorer, 0, positions, probability, memory);
  const std::vector<float> alone = scores(without, 0, positions, probability, sums);
  CHECK(memory == sums);
  REQUIRE(alone[0] - 2 > alone[4]);
  const std::vector<float> first{alone[0],     alone[1],     alone[0] - 1,
                                 alone[0] - 1, alone[0] - 2, std::max({alone[5], alone[4] - 1, alone[3] - 2})};
  CHECK(out == first);

  // The block of 4 and 5 is pruned: it keeps its sum, and the blocks after it their neighbour.
  const std::vector<position> left{6, 7, 9, 11};
  const std::vector<float> later{0.125f, 0.125f, 0.25f, 0.5f};
  const std::vector<float> out_of_left = scores(scorer, 1, left, later, memory);
  const std::vector<float> alone_of_left = scores(without, 1, left, later, sums);
  REQUIRE(alone[0] - 1 > alone_of_left[0]);
  REQUIRE(alone[0] - 2 > std::max(alone_of_left[2], alone_of_left[0] - 1));
  const std::vector<float> second{alone[0] - 1, alone[0] - 1, alone[0] - 2,
                                  std::max({alone_of_left[3], alone_of_left[2] - 1, alone_of_left[1] - 2})};
  CHECK(out_of_left == second);

  // No block comes before the first one.
  const std::vector<position> beginning{0, 1};
  const std::vector<float> of_beginning{0.5f, 0.25f};
  CHECK(scores(scorer, 0, beginning, of_beginning, memory) == scores(without, 0, beginning, of_beginning, sums));
}

TEST_CASE("two probes of a layer that share a head and a reduction over the queries are read once") {
  const calibration c(some_probes);
  const std::vector<head_probe> first{{0, mean}}, second{{3, last}}, third{{1, max}};
  CHECK(std::ranges::equal(c.reads(0), first));
  CHECK(std::ranges::equal(c.reads(1), second));
  CHECK(std::ranges::equal(c.reads(2), third));
  CHECK(c.reads(3).empty());
  CHECK(calibrated_attention{}.probes(0).empty());
}

TEST_CASE("all tokens score 0 if there are no probes, or if the probe sees no difference between the tokens") {
  const std::vector<position> positions{4, 5, 70};
  const std::vector<float> same(3, 0.25f);
  std::vector<float> memory(71), out(3, 7.0f);
  calibrated_attention{}.score({probe_view{nullptr, 0, 0, positions}, 0, memory}, out);
  CHECK(out == std::vector<float>(3));
  const calibrated_attention one{.chosen = calibration::read("1.0.0.last.max@3")};
  one.score({probe_view{same.data(), 1, 3, positions}, 0, memory}, out);
  CHECK(out == std::vector<float>(3));
}

TEST_CASE("the text of a calibration is read back as the same probes") {
  const calibration c(some_probes);
  CHECK(c.text() == "2.0.0.mean.mean@-1.25/2.1.3.last.max@0.5/2.1.3.last.mean.next@2/3.2.1.max.max@1");
  CHECK(calibration::read(c.text()) == c);
  for (const char* wrong :
       {"2.0.0.mean.mean", "2.0.0.mean@1", "2.0.0.most.mean@1", "2.0.0.mean.last@1", "2.0.0.mean.mean@x", "2.0.0.mean.mean@1/",
        "2.0.0.mean.mean@inf", "-2.0.0.mean.mean@1", "2.0.0.0.mean.mean@1", "2.0.0.mean.mean.all@1", "2.0.0.mean.mean.next.next@1"})
    CHECK_MESSAGE(!calibration::read(wrong), wrong);
}

TEST_CASE("impossible probes are refused") {
  CHECK(error_of([] { calibration(std::vector<calibrated_probe>{}); }) == at("probes", {"at least one probe", "none"}));
  CHECK(error_of([] { calibration::read("4294967295.4294967294.0.last.max@1"); }) ==
        at("probes: probe 4294967295.4294967294.0.last.max@1", {"a layer below 65536", "4294967294"}));
  CHECK(error_of([] { calibration::read("2.2.0.last.max@1"); }) == at("probes: probe 2.2.0.last.max@1", {"a layer before 2", "2"}));
  CHECK(error_of([] { calibration::read("2.0.0.last.max@1/4.1.0.last.max@1"); }) ==
        at("probes: probe 4.1.0.last.max@1", {"a layer from 2 on, where the stage before it ends", "1"}));
  CHECK(error_of([] {
          calibration({{2, 0, 0, last, block_pooling::max, std::numeric_limits<float>::infinity()}});
        }) == at("probes: probe 2.0.0.last.max@inf", {"a finite weight", "inf"}));
}

TEST_CASE("with blocks of one token, a token sees the sum of the token before it, also of the first token") {
  const calibrated_attention scorer{.block = 1, .chosen = calibration::read("1.0.0.last.max@1"), .following = 1};
  std::vector<float> memory{50.0f, 7.0f, 2.0f}, out(2);
  const std::vector<position> positions{1, 2};
  scorer.score({probe_view{nullptr, 0, 0, positions}, 1, memory}, out);
  CHECK(out == std::vector<float>{49.0f, 6.0f});
}
