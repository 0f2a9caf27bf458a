// SPDX-License-Identifier: MIT
#include <lazyprune/session/trace.hpp>

#include <doctest/doctest.h>

#include <random_trace.hpp>

namespace {

using lazyprune::layer_trace;
using lazyprune::step_trace;

}  // namespace

TEST_CASE("steps are equal only if all their members are equal") {
  std::mt19937 random(1);
  const step_trace whole = lazyprune_test::random_trace(random).back();
  CHECK(whole == step_trace(whole));

  const auto differs = [&](auto change) {
    step_trace other = whole;
    change(other);
    return other != whole;
  };
  CHECK(differs([](step_trace& s) { ++s.step; }));
  CHECK(differs([](step_trace& s) { ++s.tokens[0]; }));
  CHECK(differs([](step_trace& s) { s.layers.pop_back(); }));
  CHECK(differs([](step_trace& s) { s.layers[2].active.pop_back(); }));
  CHECK(differs([](step_trace& s) { s.layers[2].rows.pop_back(); }));
  CHECK(differs([](step_trace& s) { s.layers[2].revived.push_back(7); }));
  CHECK(differs([](step_trace& s) { ++s.next; }));
  CHECK(differs([](step_trace& s) { s.logits[3] += 1 + std::abs(s.logits[3]); }));
  CHECK(differs([](step_trace& s) { s.margin[0] = s.margin[0] ? std::nullopt : std::optional(0.0); }));
}

TEST_CASE("several plans of one layer are added to one record") {
  const std::vector<position> active{0, 2, 5}, rows{2, 5}, more{1, 2, 6}, last{6};
  const std::vector<row_source> sources{{row_source::origin::stored, 0}, {row_source::origin::carried, 0}};
  layer_trace layer{};
  add_plan(layer, {.layer = 1, .active = active, .rows = rows, .sources = sources, .output_rows = 2});
  add_plan(layer, {.layer = 1, .active = more, .rows = last, .sources = std::span(sources).last(1), .output_rows = 1});
  CHECK(layer == layer_trace{{0, 1, 2, 5, 6}, {2, 5, 6}, {2}});
}

TEST_CASE("a missing margin differs from a margin of zero") {
  step_trace step{};
  step.layers.resize(2);
  step.margin = {std::nullopt};
  step_trace zero = step;
  zero.margin = {0.0};
  CHECK(step != zero);
  CHECK(step.logits.empty());
}

TEST_CASE("layers are equal only if all their members are equal") {
  CHECK(layer_trace{{1, 2}, {1}, {}} != layer_trace{{1, 2}, {}, {1}});
  CHECK(layer_trace{{1, 2}, {1}, {}} == layer_trace{{1, 2}, {1}, {}});
}
