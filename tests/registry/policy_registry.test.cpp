// SPDX-License-Identifier: MIT
#include <lazyprune/registry/policy_registry.hpp>

#include <doctest/doctest.h>

#include <algorithm>

#include <fault.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/registry/make_session.hpp>
#include "policies.hpp"

namespace {

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

/// A custom scorer and schedule.
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

struct two_words : halve_once {
  static constexpr std::string_view name = "halve once";
};

}  // namespace

TEST_CASE("a registry can have custom parts beside the library's") {
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
  CHECK(error_of([&] { text({.scorer = "newest"}, 4, mine); }) == at("--scorer", {", oldest_first", ", found newest"}));
  CHECK(error_of([&] { text({.stages = "0:0.5"}, 4, mine); }) == at("--stages: 0:0.5", {mine.scorers_of_positions()}));
  CHECK(mine.scorers_of_positions().find("oldest_first") != std::string::npos);
  CHECK(error_of([&] { text({.schedule = "halve_once"}, 4, mine); }) == at("--schedule: halve_once", {"after"}));
  CHECK(error_of([&] { text(spec, 4, policies()); }) == at("--scorer", {", found oldest_first"}));
}

TEST_CASE("parts that are made at run time have a name and no keys") {
  struct least_id {
    scorer_needs needs() const { return {evidence_kind::ids, false, 0}; }
    void score(const every_layer<evidence>& shown, std::span<float> out) const {
      const id_view& text = std::get<id_view>(shown.now);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = weight / static_cast<float>(1 + text(i));
    }
    float weight;
  };
  policy_registry mine = policies();
  mine.add("least_id", any_scorer(least_id{2.0f}));
  mine.add("newest", any_scorer(recency{}));
  mine.add("third", any_schedule(every{2, 0.5}));
  CHECK(mine.scorers_of_positions() == "given_scores, newest, random and recency");
  const policy_spec spec = parse_policy("lazyllm --schedule third --scorer least_id");
  CHECK(text(spec, 4, mine) ==
        "--schedule third --scorer least_id --selector top_k --store keep_all --keep-first 0 --keep-last 0 --decode same");
  CHECK(error_of([&] { text({.scorer = "least_id:weight=1"}, 4, mine); }) == at("--scorer: least_id:weight=1", {", found weight"}));
  CHECK(error_of([&] { mine.add("least_id", any_scorer(recency{})); }) == at("registry: least_id"));
  CHECK(error_of([&] { mine.add("every", any_schedule(every{2, 0.5})); }) == at("registry: every"));
  for (const char* name : {"", "two words", "a:b", "Least"})
    CHECK(error_of([&] { mine.add(name, any_scorer(recency{})); }) == at("registry: name"));

  any_session session = make_session(spec, {.layers = 4}, mine);
  const std::vector<token_id> ids{9, 3, 8, 1, 7, 5};
  auto step = session.begin({ids.size()});
  CHECK(step.layers() == 4);
  for (layer_id l = 0; l < 2; ++l) {
    const std::span<const position> active = step.enter(l).active;
    CHECK(active.size() == 6);
    CHECK(step.wants() == (l == 1 ? evidence_kind::ids : evidence_kind::none));
    step.leave(l == 1 ? evidence(id_view{ids, active}) : evidence{});
  }
  const std::span<const position> active = step.enter(2).active;
  CHECK(std::vector(active.begin(), active.end()) == std::vector<position>{1, 3, 5});  // ids 3 and 1, and the query token
}

TEST_CASE("a registry can have custom presets") {
  policy_registry mine = policies();
  mine.add_preset("snap", "SnapKV's window", [](layer_id layers) {
    return policy{window_attention{.window = 8}, prompt_only{stages{{layers / 2, 0.5}}}, protect{top_k{}, 4}, none{}};
  });
  CHECK(text({.preset = "snap", .keep_last = 2}, 8, mine) ==
        "--stages 4:0.5 --scorer window_attention:window=8,kernel=7,pool=max --selector top_k --store none --keep-first 4 --keep-last 2 "
        "--decode dense");
  CHECK(mine.preset_help().ends_with("; dense: prunes nothing; snap: SnapKV's window"));
}

TEST_CASE("scorers_of_positions lists the scorers that need only positions") {
  policy_registry mine;
  CHECK(mine.scorers_of_positions().empty());
  mine.add<recency, key_norm>();
  CHECK(mine.scorers_of_positions() == "recency");
  mine.add<random_score>();
  CHECK(mine.scorers_of_positions() == "random and recency");
  mine.add<oldest_first>();
  CHECK(mine.scorers_of_positions() == "oldest_first, random and recency");
}

TEST_CASE("names with characters other than lower-case letters, digits and underscores are refused") {
  policy_registry mine;
  CHECK(error_of([&] { mine.add<two_words>(); }) == at("registry: name", {", found halve once"}));
  CHECK(error_of([&] { mine.add_preset("Mine", "", [](layer_id) { return dense(); }); }) == at("registry: name", {", found Mine"}));
}

TEST_CASE("a name that is in use is refused") {
  policy_registry mine = policies();
  mine.add<oldest_first>();
  CHECK(error_of([&] { mine.add<oldest_first>(); }) == at("registry: oldest_first"));
  CHECK(error_of([&] { mine.add_preset("dense", "", [](layer_id) { return dense(); }); }) == at("registry: dense"));
  CHECK(error_of([&] { mine.add_preset("custom", "", [](layer_id) { return dense(); }); }) == at("registry: custom"));
}
