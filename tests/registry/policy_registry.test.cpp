// SPDX-License-Identifier: MIT
#include <lazyprune/registry/policy_registry.hpp>

#include <doctest/doctest.h>

#include <algorithm>

#include <lazyprune/lazyprune.hpp>
#include <lazyprune/registry/make_session.hpp>
#include "policies.hpp"

namespace {

using namespace lazyprune;

/// A user's own scorer and schedule.
struct oldest_first {
  static constexpr std::string_view name = "oldest_first";
  fraction slope = 0.5;

  void score(const token_view& tokens, std::span<float> out) const {
    std::ranges::transform(tokens.positions, out.begin(), [&](position p) { return static_cast<float>(-slope * p); });
  }
  template <class Visitor>
  void describe(Visitor& visit) {
    visit("slope", slope);
  }
};
struct halve_once {
  static constexpr std::string_view name = "halve_once";
  layer_id after = 1;

  std::size_t keep(const layer_context& c) const { return c.done == after ? (c.active + 1) / 2 : everything; }
  template <class Visitor>
  void describe(Visitor& visit) {
    visit(required("after"), after, layer_range{});
  }
};

std::string fault(auto&& call) {
  try {
    call();
  } catch (const error& e) {
    return e.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("a user's own policies stand beside the library's") {
  policy_registry mine = policies();
  mine.add<oldest_first, halve_once>();
  const policy_spec spec{.schedule = "halve_once:after=0", .scorer = "oldest_first:slope=0.25"};
  CHECK(text(spec, 4, mine) ==
        "--schedule halve_once:after=0 --scorer oldest_first:slope=0.25 --selector top_k --store keep_all --keep-first 0 --keep-last 0 "
        "--decode same");

  any_session session = make_session(spec, {.layers = 4}, mine);
  auto step = session.begin({6, phase::prefill});
  const std::span<const position> active = step.enter(0).active;
  CHECK(std::vector(active.begin(), active.end()) == std::vector<position>{0, 1, 5});  // the query token and the first two

  CHECK(mine.scorers().help().ends_with(" oldest_first:slope="));
  CHECK(mine.schedules().help().ends_with(" halve_once:after="));
  CHECK(fault([&] { text({.scorer = "newest"}, 4, mine); }).ends_with(", oldest_first, found newest"));
  CHECK(fault([&] { text({.stages = "0:0.5"}, 4, mine); }).find("only the scorers " + mine.scorers_of_positions()) != std::string::npos);
  CHECK(mine.scorers_of_positions().find("oldest_first") != std::string::npos);
  CHECK(fault([&] { text({.schedule = "halve_once"}, 4, mine); }) == "--schedule: halve_once: expected the key after, found none");
  CHECK(fault([&] { text(spec, 4, policies()); }).find("found oldest_first") != std::string::npos);
}

TEST_CASE("a user's own preset") {
  policy_registry mine = policies();
  mine.add_preset("snap", "SnapKV's window", [](layer_id layers) {
    return policy{window_attention{.window = 8}, prompt_only{stages{{layers / 2, 0.5}}}, protect{top_k{}, 4}, none{}};
  });
  CHECK(text({.preset = "snap", .keep_last = 2}, 8, mine) ==
        "--stages 4:0.5 --scorer window_attention:window=8,kernel=7,pool=max --selector top_k --store none --keep-first 4 --keep-last 2 "
        "--decode dense");
  CHECK(mine.preset_help().ends_with("; dense; snap: SnapKV's window"));
}

TEST_CASE("the scorers that know something before the first layer, by name") {
  policy_registry mine;
  CHECK(mine.scorers_of_positions().empty());
  mine.add<recency, key_norm>();
  CHECK(mine.scorers_of_positions() == "recency");
  mine.add<random_score>();
  CHECK(mine.scorers_of_positions() == "random and recency");
  mine.add<oldest_first>();
  CHECK(mine.scorers_of_positions() == "oldest_first, random and recency");
}

TEST_CASE("a name is taken once") {
  policy_registry mine = policies();
  mine.add<oldest_first>();
  CHECK(fault([&] { mine.add<oldest_first>(); }) == "registry: oldest_first: expected one policy of that name, found two");
  CHECK(fault([&] { mine.add_preset("dense", "", [](layer_id) { return dense(); }); }) ==
        "registry: dense: expected one preset of that name, found two");
}
