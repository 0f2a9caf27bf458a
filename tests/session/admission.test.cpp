// SPDX-License-Identifier: MIT
#include <lazyprune/session/admission.hpp>

#include <lazyprune/policy/store/bounded.hpp>
#include <lazyprune/policy/store/keep_all.hpp>
#include <lazyprune/policy/store/none.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace {

using namespace lazyprune;

using origin = row_source::origin;
using positions = std::vector<position>;

/// Eight tokens after layer 1 of a step. Token 0 is stored at layer 2, and token 1 waits there. Tokens 2 and 3 have a deeper frontier.
/// Tokens 4 to 7 are the rows of layer 1.
struct scene {
  frontier_table table;
  selection_scratch scratch;
  positions active, rows{4, 5, 6, 7};
  std::vector<spill> spills;
  positions losses;

  scene() {
    scratch.reserve(8);
    table.append(8);
    for (position t = 0; t < 8; ++t) table.advance(t, t == 2 || t == 3 ? 3 : 2);
    table.store(0);
    table.rescore(0, 0.5f);
    table.wait(1);
  }
  template <class Store>
  void drop(const Store& store, const positions& kept, const positions& dropped, const std::vector<float>& scores) {
    active = kept;
    scratch.eligible = dropped;
    scratch.eligible_scores = scores;
    admission{2, active, rows, table, scratch}.admit(store, spills, losses);
  }
};

}  // namespace

TEST_CASE("dropped rows get slots in the store, and waiting rows move there") {
  scene s;
  s.drop(keep_all{}, {0, 3, 7}, {1, 2, 4, 5, 6}, {0.1f, 0.2f, 0.3f, 0.4f, 0.5f});
  REQUIRE(s.spills.size() == 4);
  CHECK(s.spills[0] == spill{.row = 0, .slot = s.table.slot(1), .from = origin::waiting, .to = origin::stored});
  CHECK(s.spills[1] == spill{.row = 0, .slot = s.table.slot(4), .from = origin::carried, .to = origin::stored});
  CHECK(s.spills[3] == spill{.row = 2, .slot = s.table.slot(6), .from = origin::carried, .to = origin::stored});
  CHECK(s.table.stored(1));
  CHECK(s.table.waiting_count() == 1);  // token 1's slot is freed when the spills are saved
  CHECK(!s.table.stored(2));            // token 2 has no hidden state at layer 2
  CHECK(s.table.score(2) == 0.2f);
  CHECK(s.losses.empty());
}

TEST_CASE("a row that waits at another layer goes on waiting") {
  scene s;
  s.table.advance(1, 3);
  s.table.wait(1);
  s.drop(none{}, {0, 3, 7}, {1, 4}, {0.1f, 0.3f});
  CHECK(s.table.waiting(1));
  CHECK(s.table.lost(4));
  CHECK(s.spills.empty());
}

TEST_CASE("a row about to be read stays; the store chooses among the others by their last scores") {
  scene kept;
  kept.drop(bounded{1}, {0, 3, 7}, {1, 4, 5, 6}, {0.1f, 0.3f, 0.9f, 0.2f});
  CHECK(kept.table.stored(0));
  CHECK(kept.table.score(0) == 0.5f);
  CHECK(kept.table.lost(5));
  CHECK(kept.table.lost(1));
  CHECK(kept.table.waiting_count() == 1);  // token 1 holds its slot, because the step may still be abandoned
  kept.table.free_refused();
  CHECK(kept.table.waiting_count() == 0);

  scene dropped;
  dropped.drop(bounded{1}, {3, 7}, {0, 1, 4, 5, 6}, {0.6f, 0.1f, 0.3f, 0.9f, 0.2f});
  CHECK(dropped.table.lost(0));
  CHECK(dropped.table.stored(5));
  CHECK(dropped.table.stored_count() == 1);
}

TEST_CASE("a wrong list of the store is reported, and every dropped row gets a slot") {
  struct repeats {
    std::size_t admit(const stored_rows&, std::span<std::uint32_t> kept) const {
      kept[0] = kept[1] = 1;
      return 2;
    }
  };
  scene s;
  s.active = {0, 3, 7};
  s.scratch.eligible = {1, 4, 5};
  s.scratch.eligible_scores = {0.1f, 0.3f, 0.9f};
  const auto fault = admission{2, s.active, s.rows, s.table, s.scratch}.admit(repeats{}, s.spills, s.losses);
  CHECK(fault == index_fault{.below = 4, .count = 2, .index = 1, .before = 1});
  for (const position t : {0u, 1u, 4u, 5u}) CHECK(s.table.stored(t));
  CHECK(s.table.lost_count() == 0);
  CHECK(s.spills.size() == 3);
}

TEST_CASE("a token dropped for good is in no later plan, even if it has keys and values") {
  scene s;
  s.drop(none{.for_good = true}, {3, 7}, {0, 1, 2, 4}, {0.6f, 0.1f, 0.3f, 0.9f});
  CHECK(s.losses == positions{0, 1, 2, 4});
  for (const position t : s.losses) CHECK(s.table.dropped_for_good(t));
  CHECK(s.table.stored_count() + s.table.waiting_count() == 0);
  CHECK(s.spills.empty());
}

TEST_CASE("a token that is lost before layer 0 is in no later plan") {
  scene s;
  s.table.append(2);
  s.scratch.reserve(10);
  s.active = {9};
  s.scratch.eligible = {2, 8};
  s.scratch.eligible_scores = {0.5f, 0.5f};
  admission{0, s.active, {}, s.table, s.scratch}.admit(none{}, s.spills, s.losses);
  CHECK(s.losses == positions{8});  // token 2 has keys and values in the first layers
  CHECK(s.table.lost(8));
  CHECK(!s.table.lost(2));
}
