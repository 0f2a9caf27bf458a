// SPDX-License-Identifier: MIT
// What is known of every token of a sequence: its frontier (the layers that have its keys and values), the slot of the aux store that
// holds its hidden state, and whether that state is lost. A hidden state is freed when the frontier moves on.
#pragma once

#include <cassert>
#include <vector>

#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

class frontier_table {
 public:
  static constexpr std::uint32_t no_slot = static_cast<std::uint32_t>(-1);

  void reserve(std::size_t tokens) {
    frontier_.reserve(tokens);
    slot_.reserve(tokens);
    score_.reserve(tokens);
    lost_.reserve(tokens);
    free_.reserve(tokens);
  }

  void clear() {
    frontier_.clear();
    slot_.clear();
    score_.clear();
    lost_.clear();
    free_.clear();
    slots_ = 0;
    lost_count_ = 0;
  }

  /// Adds new tokens at the end of the sequence.
  void append(std::size_t tokens) {
    const std::size_t known = frontier_.size() + tokens;
    frontier_.resize(known, 0);
    slot_.resize(known, no_slot);
    score_.resize(known, 0.0f);
    lost_.resize(known, false);
  }

  std::size_t known() const noexcept { return frontier_.size(); }
  layer_id frontier(position t) const noexcept { return frontier_[t]; }
  bool stored(position t) const noexcept { return slot_[t] != no_slot; }
  std::uint32_t slot(position t) const noexcept { return slot_[t]; }
  float score(position t) const noexcept { return score_[t]; }  // the one it had when it was last dropped

  /// A token is lost where neither its hidden state nor deeper keys and values can be had any more.
  bool lost(position t) const noexcept { return lost_[t] != 0; }
  std::size_t lost_count() const noexcept { return lost_count_; }

  /// Slots that were ever in use at once: the rows an engine's aux memory needs.
  std::size_t slots() const noexcept { return slots_; }
  std::size_t stored_count() const noexcept { return slots_ - free_.size(); }

  void advance(position t, layer_id to) noexcept {
    frontier_[t] = to;
    release(t);
  }
  void rescore(position t, float score) noexcept { score_[t] = score; }

  void store(position t) noexcept {
    assert(!stored(t) && !lost(t));
    if (free_.empty()) {
      slot_[t] = static_cast<std::uint32_t>(slots_++);
    } else {
      slot_[t] = free_.back();
      free_.pop_back();
    }
  }

  void lose(position t) noexcept {
    assert(!lost(t));
    release(t);
    lost_[t] = 1;
    ++lost_count_;
  }

 private:
  void release(position t) noexcept {
    if (!stored(t)) return;
    free_.push_back(slot_[t]);  // never more than the tokens reserved for
    slot_[t] = no_slot;
  }

  std::vector<layer_id> frontier_;   // (known)
  std::vector<std::uint32_t> slot_;  // (known)
  std::vector<float> score_;         // (known)
  std::vector<std::uint8_t> lost_;   // (known)
  std::vector<std::uint32_t> free_;  // slots given back
  std::size_t slots_ = 0;
  std::size_t lost_count_ = 0;
};

}  // namespace v0
}  // namespace lazyprune
