// SPDX-License-Identifier: MIT
#include <lazyprune/eval/trace_compare.hpp>

#include <doctest/doctest.h>

#include <limits>

#include <lazyprune/files/trace_file.hpp>

#include <random_trace.hpp>
#include <test_data.hpp>

namespace {

using namespace lazyprune;
using trace = std::vector<step_trace>;
using positions = std::vector<position>;

/// Three steps of two layers; tokens are pruned after the first layer.
trace small() {
  return {{.step = 0,
           .tokens = {1, 5, 9},
           .layers = {{{0, 1, 2}, {0, 1, 2}, {}}, {{0, 2}, {0, 2}, {}}},
           .next = 7,
           .logits = {1, 2, 3},
           .margin = {0.5}},
          {.step = 1,
           .tokens = {7},
           .layers = {{{0, 1, 2, 3}, {3}, {}}, {{1, 3}, {1, 3}, {1}}},
           .next = 8,
           .logits = {4, 5, 6},
           .margin = {1e-7}},
          {.step = 2,
           .tokens = {8},
           .layers = {{{0, 1, 2, 3, 4}, {4}, {}}, {{0, 4}, {4}, {}}},
           .next = 2,
           .logits = {7, 8, 9},
           .margin = {0.1}}};
}

template <class Change>
trace changed(Change change) {
  trace t = small();
  change(t);
  return t;
}

}  // namespace

TEST_CASE("a trace equals itself") {
  const trace_comparison same = compare_traces(small(), small(), 0);
  CHECK(same.alike);
  CHECK_FALSE(same.first);
  CHECK(same.agreed == 3);
  CHECK(same.logits == logits_distance{.steps = 3, .most = 0, .at = 0});
  CHECK(same.text() ==
        "alike: 3 steps with the same tokens, active, rows, revived and next\n"
        "logits: 0 apart at most (step 0), tolerance 0\n");
}

TEST_CASE("a difference in each field is found at its place") {
  const auto found = [](auto change) {
    const trace_comparison c = compare_traces(small(), changed(change));
    CHECK_FALSE(c.alike);
    REQUIRE(c.first);
    CHECK(c.agreed == c.first->step);
    return *c.first;
  };
  CHECK(found([](trace& t) { t[2].tokens = {3}; }) == trace_difference{2, {}, trace_field::tokens, {8}, {3}, {}, {}});
  CHECK(found([](trace& t) { t[2].tokens = {8, 3}; }) == trace_difference{2, {}, trace_field::tokens, {}, {3}, {}, {}});
  CHECK(found([](trace& t) { t[1].layers.pop_back(); }) == trace_difference{1, {}, trace_field::layers, {2}, {1}, {}, {}});
  CHECK(found([](trace& t) { t[1].layers[0].active = {1, 2, 3}; }) == trace_difference{1, 0, trace_field::active, {0}, {}, {}, {}});
  CHECK(found([](trace& t) { t[2].layers[1].active = {1, 2, 4}; }) == trace_difference{2, 1, trace_field::active, {0}, {1, 2}, 0.1, 0.1});
  CHECK(found([](trace& t) { t[1].layers[1].rows = {3}; }) == trace_difference{1, 1, trace_field::rows, {1}, {}, {}, {}});
  CHECK(found([](trace& t) { t[1].layers[1].revived = {}; }) == trace_difference{1, 1, trace_field::revived, {1}, {}, {}, {}});
  CHECK(found([](trace& t) { t[1].next = 9; }) == trace_difference{1, {}, trace_field::next, {8}, {9}, {}, {}});
  CHECK(found([](trace& t) { t[1].logits.pop_back(); }) == trace_difference{1, {}, trace_field::logits, {3}, {2}, {}, {}});
  CHECK(found([](trace& t) { t.pop_back(); }) == trace_difference{2, {}, trace_field::steps, {3}, {2}, {}, {}});
  CHECK(found([](trace& t) { t.clear(); }) == trace_difference{0, {}, trace_field::steps, {3}, {0}, {}, {}});
}

TEST_CASE("only the first difference is reported") {
  const trace other = changed([](trace& t) {
    t[1].layers[1].active = {2, 3};
    t[1].layers[1].rows = {3};
    t[1].next = 3;
    t[2].tokens = {3};
    t.pop_back();
  });
  const trace_comparison c = compare_traces(small(), other);
  CHECK(c.first == trace_difference{1, 1, trace_field::active, {1}, {2}, 1e-7, 1e-7});
  CHECK(c.agreed == 1);
}

TEST_CASE("random traces differ where one list was changed") {
  std::mt19937 random(4);
  for (int run = 0; run < 500; ++run) {
    CAPTURE(run);
    const trace a = lazyprune_test::random_trace(random, {.layers = 3, .prompt = 12, .steps = 4, .vocabulary = 2});
    trace b = a;
    const std::size_t step = random() % 4, layer = random() % 3, what = random() % 3;
    positions layer_trace::*const part = what == 0 ? &layer_trace::active : what == 1 ? &layer_trace::rows : &layer_trace::revived;
    positions& list = b[step].layers[layer].*part;
    const auto t = static_cast<position>(random() % 12);
    const bool had = std::ranges::binary_search(list, t);
    if (had)
      std::erase(list, t);
    else
      list.insert(std::ranges::upper_bound(list, t), t);
    const trace_comparison c = compare_traces(a, b);
    REQUIRE(c.first);
    REQUIRE(c.first->step == step);
    REQUIRE(c.first->layer == layer);
    REQUIRE(static_cast<std::size_t>(c.first->what) == static_cast<std::size_t>(trace_field::active) + what);
    REQUIRE(c.first->only_a == (had ? positions{t} : positions{}));
    REQUIRE(c.first->only_b == (had ? positions{} : positions{t}));
    // Compare the traces in the other order.
    const trace_comparison back = compare_traces(b, a);
    REQUIRE(back.first->only_a == c.first->only_b);
    REQUIRE(back.first->only_b == c.first->only_a);
  }
}

TEST_CASE("a margin below 1e-6 in one of the two explains different active tokens") {
  const auto with_margins = [](std::optional<double> a, std::optional<double> b) {
    const trace left = changed([&](trace& t) { t[1].margin = {a}; });
    const trace right = changed([&](trace& t) { t[1].margin = {b}, t[1].layers[1].active = {2, 3}; });
    return compare_traces(left, right);
  };
  CHECK(with_margins(9e-7, 1).first->explained());
  CHECK(with_margins(1, 9e-7).first->explained());
  CHECK(with_margins({}, -9e-7).first->explained());  // a margin is negative if scores are negative
  CHECK(with_margins(0, {}).first->explained());
  CHECK_FALSE(with_margins(1e-6, 2e-6).first->explained());
  CHECK_FALSE(with_margins(-1e-3, 1).first->explained());
  CHECK_FALSE(with_margins({}, {}).first->explained());
  CHECK_FALSE(with_margins(0, 0).alike);  // explained, but still different

  CHECK(with_margins(9e-7, 1).text().find("9e-07 in A, 1 in B: below 1e-06, rounding can explain it") != std::string::npos);
  CHECK(with_margins(0.5, {}).text().find("0.5 in A, not recorded in B: not below 1e-06") != std::string::npos);
  CHECK(with_margins({}, {}).text().find("not recorded in A, not recorded in B: unknown if below") != std::string::npos);

  // A close choice explains what it decides. It does not explain different tokens before it, or different rows of the same active tokens.
  CHECK_FALSE(compare_traces(small(), changed([](trace& t) { t[1].layers[0].active = {1, 2, 3}; })).first->explained());
  const trace_comparison rows = compare_traces(small(), changed([](trace& t) { t[1].layers[1].rows = {3}; }));
  CHECK_FALSE(rows.first->explained());
  CHECK(rows.text().find("no close choice explains it") != std::string::npos);
}

TEST_CASE("logits: how far they differ, at which step, and whether that is too far") {
  const trace near = changed([](trace& t) { t[0].logits[1] += 0.25, t[2].logits[0] -= 0.5; });
  const trace_comparison over = compare_traces(small(), near, 0.25);
  CHECK_FALSE(over.alike);
  CHECK_FALSE(over.first);
  CHECK(over.logits == logits_distance{3, 0.5, 2});
  CHECK(over.logits_before == over.logits);
  CHECK(over.text() ==
        "different: 3 steps with the same tokens, active, rows, revived and next, but not logits\n"
        "logits: 0.5 apart at most (step 2), tolerance 0.25, exceeded first at step 2\n");
  CHECK(over.first_beyond == 2);
  CHECK(compare_traces(small(), near, 0.1).first_beyond == 0);  // the first such step, not the one with the largest distance
  CHECK(compare_traces(small(), near, 0.5).alike);
  CHECK_FALSE(compare_traces(small(), near, 0.5).first_beyond);

  const trace parted = changed([](trace& t) { t[0].logits[1] += 0.25, t[1].layers[0].active = {3}, t[2].logits[0] -= 0.5; });
  const trace_comparison before = compare_traces(small(), parted, 1);
  CHECK(before.logits == logits_distance{3, 0.5, 2});
  CHECK(before.logits_before == logits_distance{1, 0.25, 0});
  CHECK(before.text() ==
        "different: the traces differ first at step 1, layer 0: active\n"
        "  positions only in A: 0-2 (3); only in B: none\n"
        "  margin of the choice that led here: not recorded in A, not recorded in B: unknown if below 1e-06, where rounding could explain "
        "it\n"
        "  steps that agree before it: 1 of 3; what comes later may follow from it\n"
        "logits: 0.5 apart at most (step 2), tolerance 1; before the first difference 0.25 apart at most (step 0)\n");

  // The logits of a step do not depend on the token that follows.
  CHECK(compare_traces(small(), changed([](trace& t) { t[1].next = 0; })).logits_before.steps == 2);

  const trace without = changed([](trace& t) {
    for (step_trace& s : t) s.logits.clear();
  });
  CHECK(compare_traces(small(), without, 0).alike);
  CHECK(compare_traces(small(), without, 0).text().find("logits: not recorded in both traces") != std::string::npos);

  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  CHECK_FALSE(compare_traces(small(), changed([&](trace& t) { t[1].logits[0] = nan; })).alike);
  const trace infinite = changed([&](trace& t) { t[1].logits[0] = infinity; });
  CHECK(compare_traces(infinite, infinite).alike);
}

TEST_CASE("values are shown in full, long lists are cut") {
  CHECK(compare_traces(small(), changed([](trace& t) { t[1].next = 9; }))
            .text()
            .starts_with("different: the traces differ first at step 1: next\n  8 in A, 9 in B\n"));
  CHECK(compare_traces(small(), changed([](trace& t) { t.pop_back(); }))
            .text()
            .starts_with("different: the traces differ first at step 2: steps\n  3 in A, 2 in B\n"));
  const trace scattered = changed([](trace& t) {
    t[0].layers[1].active.clear();
    for (position p = 0; p < 40; p += 2) t[0].layers[1].active.push_back(p);
  });
  CHECK(compare_traces(small(), scattered).text().find("only in B: 4,6,8,10,12,14,16,18,20,22,24,26,... (18)") != std::string::npos);
}

TEST_CASE("real traces: equal to themselves, and different where the schedules differ") {
  const auto folder = test_data("traces");
  if (folder.empty()) return;
  const trace hard = read_trace(folder / "pocket_hard.jsonl"), paper = read_trace(folder / "pocket_paper.jsonl");
  CHECK(compare_traces(hard, hard, 0).alike);
  const trace_comparison c = compare_traces(hard, paper);
  REQUIRE(c.first);
  // Both runs read the same prompt. Both first prune after two layers, one to 30 % and the other to 70 %.
  CHECK(c.first->step == 0);
  CHECK(c.first->layer == 2);
  CHECK(c.first->only_a.empty());
  CHECK(c.first->only_b.size() == paper[0].layers[2].active.size() - hard[0].layers[2].active.size());
  CHECK_FALSE(c.first->explained());
}
