// SPDX-License-Identifier: MIT
// Handles the tokens that a selection drops. The store decides which hidden states get a slot. The other hidden states are lost.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/plan.hpp>
#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/session/frontier_table.hpp>
#include <lazyprune/session/selection.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

/// The state after a selection with `done` layers done. `active` holds the kept tokens, and `rows` holds the rows of the layer just done.
struct admission {
  layer_id done;
  std::span<const position> active;
  std::span<const position> rows;
  frontier_table& table;
  selection_scratch& scratch;

  /// Handles the dropped tokens that the selection left in the scratch. Appends the hidden states to save to `spills`. Appends to `losses`
  /// the tokens that no later plan will contain. If the store's list is wrong, returns the fault; every row then gets a slot.
  template <aux_store Store>
  std::optional<index_fault> admit(const Store& store, std::vector<spill>& spills, std::vector<position>& losses) const {
    if (drops_for_good(store)) {
      for (const position t : scratch.eligible) {
        table.drop_for_good(t);
        losses.push_back(t);
      }
      return std::nullopt;
    }
    note_arrivals();
    if (scratch.arrivals.empty()) return std::nullopt;
    list_states();
    const std::size_t n = scratch.stored.size();
    const std::span<std::uint32_t> kept = std::span(scratch.kept).first(n);
    const std::size_t admitted =
        store.admit(stored_rows{.scores = scratch.stored_scores, .positions = scratch.stored, .embeddings = embeddings()}, kept);
    const std::optional<index_fault> fault = fault_in(kept, admitted);
    if (!fault) lose_others(kept.first(admitted), losses);
    if (!embeddings()) take_in(spills);  // the engine looks embeddings up again
    return fault;
  }

 private:
  bool embeddings() const { return done == 0; }
  bool at_hand(position t) const { return table.frontier(t) == done; }  // its hidden state is the input of the layer to come

  void note_arrivals() const {
    scratch.arrivals.clear();
    for (std::size_t i = 0; i < scratch.eligible.size(); ++i) {
      const position t = scratch.eligible[i];
      table.rescore(t, scratch.eligible_scores[i]);
      if (at_hand(t) && !table.stored(t)) scratch.arrivals.push_back(t);
    }
  }

  bool read_next(position t) const { return at_hand(t) && std::ranges::binary_search(active, t); }

  void list_states() const {
    scratch.stored.clear();
    scratch.stored_scores.clear();
    if (embeddings() || table.stored_count() == 0) {
      scratch.stored = scratch.arrivals;
    } else {
      auto arrival = scratch.arrivals.begin();
      for (position t = 0; t < table.known(); ++t) {
        const bool arrives = arrival != scratch.arrivals.end() && *arrival == t;
        if (arrives) ++arrival;
        if (arrives || table.stored(t)) scratch.stored.push_back(t);
      }
    }
    for (const position t : scratch.stored)
      scratch.stored_scores.push_back(read_next(t) ? std::numeric_limits<float>::infinity() : table.score(t));
  }

  /// Loses the stored rows and arrivals that the store did not admit. A row that is about to be read always stays.
  void lose_others(std::span<const std::uint32_t> admitted, std::vector<position>& losses) const {
    auto next = admitted.begin();
    for (std::size_t i = 0; i < scratch.stored.size(); ++i) {
      const position t = scratch.stored[i];
      if (next != admitted.end() && *next == i) {
        ++next;
      } else if (!read_next(t)) {
        if (table.waiting(t))
          table.refuse_waiting(t);
        else
          table.lose(t);
        if (embeddings()) losses.push_back(t);
      }
    }
  }

  void take_in(std::vector<spill>& spills) const {
    std::size_t row = 0;
    for (const position t : scratch.arrivals) {
      if (table.lost(t)) continue;
      if (table.waiting(t)) {
        const std::uint32_t from = table.store_waiting(t);
        spills.push_back({.row = from, .slot = table.slot(t), .from = row_source::origin::waiting, .to = row_source::origin::stored});
      } else {
        table.store(t);
        while (rows[row] != t) ++row;
        spills.push_back({.row = static_cast<std::uint32_t>(row),
                          .slot = table.slot(t),
                          .from = row_source::origin::carried,
                          .to = row_source::origin::stored});
      }
    }
  }
};

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
