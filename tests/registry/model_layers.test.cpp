// SPDX-License-Identifier: MIT
#include <lazyprune/registry/model_layers.hpp>

#include <doctest/doctest.h>

#include <fault.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/registry/make_session.hpp>
#include "policies.hpp"
#include "registry/spec_with.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;
using lazyprune_test::fault;
using lazyprune_test::unsupported;

namespace {

/// `alternating` is a model with 26 layers, of which every sixth sees all tokens. `windows_but_last` has two layers, and only the last one
/// sees all tokens.
const model_layers alternating(26, std::vector<layer_id>{6, 12, 18, 24}), windows_but_last(2, std::vector<layer_id>{});

fault fault_in(const policy_spec& spec, const model_layers& layers = alternating) {
  return error_of([&] { text(spec, layers, policies()); });
}

at alternate(std::string where, std::string found) { return unsupported(std::move(where), {"6, 12, 18 or 24", "after " + found}); }

}  // namespace

TEST_CASE("if attention scores the tokens, a stage is refused unless the layer before the stage sees all tokens") {
  CHECK(fault_in(with({{"--stages", "6:0.5,18:0.5"}})) == "no error");
  CHECK(fault_in(with({{"--stages", "6:0.5,7:0.5"}})) == alternate("--stages: 6:0.5,7:0.5", "7"));
  CHECK(fault_in(with({{"--policy", "static"}, {"--stages", "3:0.5"}})) == alternate("--stages: 3:0.5", "3"));
  for (const char* scorer : {"window_attention", "prompt_window_attention", "value_weighted_attention", "accumulated_attention"})
    CHECK(fault_in(with({{"--stages", "7:0.5"}, {"--scorer", scorer}})) == alternate("--stages: 7:0.5", "7"));
  for (const char* scorer : {"key_norm", "recency", "random"})
    CHECK(fault_in(with({{"--stages", "7:0.5"}, {"--scorer", scorer}})) == "no error");
  CHECK(fault_in(with({{"--stages", "1:0.5"}}), windows_but_last) == unsupported("--stages: 1:0.5", {"after 1"}));
  CHECK(fault_in(with({{"--stages", "7:0.5"}}), 26) == "no error");
}

TEST_CASE("other schedules are refused if they prune after a layer that sees only a window") {
  CHECK(fault_in(with({{"--schedule", "every:n=6,share=0.9"}})) == "no error");
  CHECK(fault_in(with({{"--schedule", "every:n=4,share=0.9"}})) == alternate("--schedule: every:n=4,share=0.9", "4"));
  CHECK(fault_in(with({{"--schedule", "budget:after=12,tokens=100"}})) == "no error");
  CHECK(fault_in(with({{"--schedule", "budget:after=11,tokens=100"}})) == alternate("--schedule: budget:after=11,tokens=100", "11"));
  CHECK(fault_in(with({{"--schedule", "linear:share=0.5"}})) == alternate("--schedule: linear:from=0,share=0.5", "1"));
  CHECK(fault_in(with({{"--schedule", "adaptive:from=6,every=6"}})) == "no error");
  CHECK(fault_in(with({{"--schedule", "adaptive:from=5,every=6"}})) ==
        alternate("--schedule: adaptive:from=5,every=6,mass=0.9,least=0.1", "5"));
  CHECK(fault_in(with({{"--policy", "streaming"}})) == "no error");
}

TEST_CASE("a schedule without prunes_after could prune after every layer from first() on") {
  struct every_sixth {  // prunes only long prompts
    std::size_t keep(const layer_context& c) const { return c.done % 6 == 0 && c.known > 10'000 ? c.active / 2 : everything; }
    layer_id first(phase, layer_id) const { return 6; }
  };
  struct saying : every_sixth {
    bool prunes_after(layer_id done, phase, layer_id) const { return done % 6 == 0; }
  };
  struct saying_wrong_layers : every_sixth {
    bool prunes_after(layer_id done, phase, layer_id) const { return done == 10; }
  };
  CHECK(pruned_in_a_window(alternating, every_sixth{}) == 7);
  CHECK(!pruned_in_a_window(alternating, saying{}));
  CHECK(pruned_in_a_window(alternating, saying_wrong_layers{}) == 10);
  CHECK(!pruned_in_a_window(26, every_sixth{}));
}

TEST_CASE("a preset's stages move to the nearest allowed layer, of two equally near ones to the later, and no layer gets two stages") {
  CHECK(text({}, alternating, policies()).starts_with("--stages 6:0.7,18:0.7,24:0.7 "));  // moved from 7, 15, 23
  CHECK(text(with({{"--policy", "static"}}), alternating, policies()).starts_with("--stages 6:0.7,18:0.7,24:0.7 "));
  CHECK(text(with({{"--policy", "pyramid_drop"}}), alternating, policies()).starts_with("--stages 6:0.5,12:0.5,24:0.5 "));  // 7, 14, 21
  CHECK(text({}, {26, std::vector<layer_id>{13}}, policies()).starts_with("--stages 13:0.7 "));
  CHECK(text({}, {6, std::vector<layer_id>{2, 4, 6}}, policies()).starts_with("--stages 2:0.7,4:0.7 "));  // moved from 1, 3, 5
  CHECK(text({}, windows_but_last, policies()) == "--policy dense");
  CHECK(moved_to(alternating, stages{{20, 0.5}}) == stages{{18, 0.5}});
  CHECK(moved_to(alternating, stages{{21, 0.5}}) == stages{{24, 0.5}});
  CHECK(moved_to(26, stages{{20, 0.5}}) == stages{{20, 0.5}});
  CHECK(moved_to({12, std::vector<layer_id>{0, 6, 12}}, stages{{1, 0.7}, {11, 0.5}}) ==
        stages{{6, 0.7}});  // nothing is pruned after 0 or 12
  CHECK(moved_to({4, std::vector<layer_id>{4}}, stages{{2, 0.5}}) == stages{});
  CHECK(make_session({}, alternating, {}, policies()).chunk_layers(phase::prefill) == 6);
}
