// SPDX-License-Identifier: MIT
#include <lazyprune/policy/schedule/any_schedule.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <lazyprune/policy/schedule/adaptive.hpp>
#include <lazyprune/policy/schedule/by_phase.hpp>
#include <lazyprune/policy/schedule/every.hpp>
#include <lazyprune/policy/schedule/prompt_only.hpp>
#include <lazyprune/policy/schedule/stages.hpp>
#include "policy/contract.hpp"

namespace {

using namespace contract;

static_assert(chosen_schedule<any_schedule> && chosen_schedule<prompt_only<any_schedule>>);
static_assert(chosen_schedule<by_phase<stages, any_schedule>> && chosen_schedule<by_phase<any_schedule, any_schedule>>);
static_assert(adaptive_schedule<by_phase<adaptive, any_schedule>> && !layer_schedule<by_phase<adaptive, any_schedule>>);
static_assert(!token_selector<any_schedule> && !aux_store<any_schedule> && !chosen_schedule<stages> && !chosen_schedule<adaptive>);

struct schedules {
  static std::vector<any_schedule> all() {
    return {stages{{2, 0.5}}, adaptive{}, any_schedule(prompt_only(any_schedule(every{.n = 3, .share = 0.5}))),
            by_phase(stages{{1, 0.5}}, any_schedule(adaptive{}))};
  }
};
TEST_CASE_TEMPLATE_INVOKE(schedule_contract, schedules);

const std::vector<float> sharp{8.0f, 1.0f, 1.0f};
constexpr layer_context prompt{1, 8, 3, 3, phase::prefill}, token{1, 8, 3, 3, phase::decode};

TEST_CASE("any_schedule prunes as its inner schedule does, and sees the scores if the inner schedule sees them") {
  const any_schedule plain = every{.n = 1, .share = 0.1};
  CHECK(!plain.sees_scores());
  CHECK(plain.keep({2, 8, 100, 100, phase::prefill}) == 10);
  const any_schedule by_score = adaptive{.mass = 0.5};
  CHECK(by_score.sees_scores());
  CHECK(by_score.keep(prompt, sharp) == 1);
}

TEST_CASE("a wrapper of any_schedule sees the scores if a schedule inside it sees them") {
  const prompt_only plain(any_schedule(stages{{1, 0.5}})), by_score(any_schedule(adaptive{.mass = 0.5}));
  CHECK(!plain.sees_scores());
  CHECK(plain.keep(prompt) == 2);
  CHECK(plain.keep(token) == everything);
  CHECK(by_score.sees_scores());
  CHECK(by_score.keep(prompt, sharp) == 1);
  CHECK(by_score.keep(token, sharp) == everything);

  const by_phase none(any_schedule(stages{{1, 0.5}}), any_schedule(stages{}));
  const by_phase one(stages{{1, 0.5}}, any_schedule(adaptive{.mass = 0.5}));
  CHECK(!none.sees_scores());
  CHECK(none.keep(prompt) == 2);
  CHECK(one.sees_scores());
  CHECK(one.keep(prompt, sharp) == 2);
  CHECK(one.keep(token, sharp) == 1);
}

TEST_CASE("`first` is 0 for a schedule that does not define `first`, also inside wrappers") {
  struct halves {
    std::size_t keep(const layer_context& c) const { return c.done < 5 ? everything : (c.active + 1) / 2; }
  };
  struct says_it_wrong : halves {
    layer_id first() const { return 5; }
  };
  static_assert(!foretelling_schedule<halves> && !foretelling_schedule<says_it_wrong>);
  CHECK(first_pruning(halves{}, phase::prefill, 8) == 0);
  CHECK(first_pruning(says_it_wrong{}, phase::prefill, 8) == 0);
  CHECK(any_schedule(halves{}).first(phase::prefill, 8) == 0);
  CHECK(prompt_only(any_schedule(halves{})).first(phase::prefill, 8) == 0);
  CHECK(prompt_only(halves{}).first(phase::decode, 8) == 8);  // prompt_only never prunes a decode step
  CHECK(by_phase(halves{}, every{.n = 3, .share = 0.5}).first(phase::prefill, 8) == 0);
  CHECK(by_phase(halves{}, any_schedule(every{.n = 3, .share = 0.5})).first(phase::decode, 8) == 3);
}

TEST_CASE("a copy does not change with its original, and target() returns the schedule") {
  any_schedule schedule = stages{{2, 0.5}};
  const any_schedule copy = schedule;
  schedule = stages{{3, 0.5}};
  CHECK(*copy.target<stages>() == stages{{2, 0.5}});
  CHECK(*schedule.target<stages>() == stages{{3, 0.5}});
  schedule = every{.n = 2, .share = 0.5};
  CHECK(schedule.target<stages>() == nullptr);
  CHECK(*schedule.target<every>() == every{.n = 2, .share = 0.5});
  schedule = copy;
  CHECK(*schedule.target<stages>() == stages{{2, 0.5}});
}

}  // namespace
