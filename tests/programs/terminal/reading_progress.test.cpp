// SPDX-License-Identifier: MIT
#include "terminal/reading_progress.hpp"

#include <vector>

#include <doctest/doctest.h>

#include <lazyprune/policy/presets.hpp>

using namespace lazyprune;
using lazyprune::program::reading_share;

namespace {

/// Reports a step that computes rows[l] rows in layer l, for its first rows.size() layers. Returns the share after each layer.
std::vector<double> after_layers(reading_share& progress, std::size_t tokens, std::size_t outputs, const std::vector<std::size_t>& rows) {
  constexpr layer_id layers = 4;
  const std::vector<token_id> ids(tokens);
  std::vector<double> shares;
  progress.step_begins(ids, outputs);
  for (layer_id l = 0; l < rows.size(); ++l) {
    const std::vector<position> positions(rows[l]);
    layer_plan plan{};
    plan.layer = l;
    plan.rows = positions;
    progress.layer_begins(plan);
    progress.layer_ends({.layer = l, .layers = layers, .margin = 0, .kv_bytes = 0, .stored_bytes = 0});
    shares.push_back(progress.share());
  }
  progress.step_ends(any_session(dense(), {.layers = layers}));
  return shares;
}

}  // namespace

TEST_CASE("a prompt read in one step: every layer has the same share") {
  reading_share progress(10);
  CHECK(progress.share() == 0);
  CHECK(after_layers(progress, 10, 1, {10, 10, 10, 10}) == std::vector{0.25, 0.5, 0.75, 1.0});
}

TEST_CASE("pruning increases the share, as less is left to compute") {
  reading_share progress(10);
  CHECK(after_layers(progress, 10, 1, {10, 10, 5, 5}) == std::vector{0.25, 0.5, 25.0 / 30, 1.0});
}

TEST_CASE("chunks that run all layers") {
  reading_share progress(8);
  CHECK(after_layers(progress, 4, 0, {4, 4, 4, 4}) == std::vector{4.0 / 32, 8.0 / 32, 12.0 / 32, 16.0 / 32});
  CHECK(after_layers(progress, 4, 1, {4, 4, 4, 4}) == std::vector{20.0 / 32, 24.0 / 32, 28.0 / 32, 1.0});
}

TEST_CASE("waiting rows of chunks count when the query's step computes them") {
  reading_share progress(12);
  CHECK(after_layers(progress, 4, 0, {4, 4}) == std::vector{4.0 / 48, 8.0 / 48});
  CHECK(after_layers(progress, 4, 0, {4, 4}) == std::vector{12.0 / 48, 16.0 / 48});
  CHECK(after_layers(progress, 4, 1, {4, 4, 12, 12}) == std::vector{20.0 / 48, 24.0 / 48, 36.0 / 48, 1.0});
}
