// SPDX-License-Identifier: MIT
// The state of every token of a sequence. A token's frontier is the number of layers that have its keys and values. A token may have a slot
// of the aux store or of the waiting rows. The slot holds the token's hidden state, and is freed when the frontier moves on. A token is
// lost if its hidden state is gone.
#pragma once

#include <algorithm>
#include <cassert>
#include <vector>

#include <lazyprune/core/types.hpp>
#include <lazyprune/session/session_state.hpp>

namespace lazyprune {
inline namespace v0 {

/// The slots of an engine's memory. Each holds one row or is free. The memory needs `size()` slots.
class slot_pool {
 public:
  void reserve(std::size_t slots) { free_.reserve(std::max(slots, size_)); }
  void clear() noexcept {
    free_.clear();
    size_ = 0;
  }
  std::uint32_t take() noexcept {
    if (free_.empty()) return static_cast<std::uint32_t>(size_++);
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give(std::uint32_t slot) noexcept { free_.push_back(slot); }  // allocates nothing: no more slots are free than tokens were reserved

  /// The slot that the call of `take` after `calls` more calls will return, if no slot is given back before.
  std::uint32_t after(std::size_t calls) const noexcept {
    return calls < free_.size() ? free_[free_.size() - 1 - calls] : static_cast<std::uint32_t>(size_ + calls - free_.size());
  }

  /// The largest number of slots that were in use at one time.
  std::size_t size() const noexcept { return size_; }
  std::size_t in_use() const noexcept { return size_ - free_.size(); }

 private:
  std::vector<std::uint32_t> free_;
  std::size_t size_ = 0;
};

class frontier_table {
 public:
  static constexpr std::size_t bytes_per_token =
      sizeof(layer_id) + sizeof(std::uint32_t) + sizeof(float) + sizeof(std::uint8_t) + 2 * sizeof(std::uint32_t);
  static constexpr std::uint32_t no_slot = static_cast<std::uint32_t>(-1);

  void reserve(std::size_t tokens) {
    frontier_.reserve(tokens);
    slot_.reserve(tokens);
    score_.reserve(tokens);
    state_.reserve(tokens);
    stored_.reserve(tokens);
    waiting_.reserve(tokens);
  }

  void clear() noexcept {
    truncate(0);
    stored_.clear();
    waiting_.clear();
  }

  /// Adds tokens at the end of the sequence. `frontier` is the number of layers that already have their keys and values.
  void append(std::size_t tokens, layer_id frontier = 0) {
    const std::size_t known = frontier_.size() + tokens;
    frontier_.resize(known, frontier);
    slot_.resize(known, no_slot);
    score_.resize(known, 0.0f);
    state_.resize(known, 0);
  }

  /// Forgets all tokens from position `tokens` <= known on, and frees their slots.
  void truncate(std::size_t tokens) noexcept {
    for (auto t = static_cast<position>(tokens); t < known(); ++t) {
      refused_ -= lost(t) && has_slot(t);
      release(t);
      lost_count_ -= lost(t);
      gone_count_ -= dropped_for_good(t);
    }
    frontier_.resize(tokens);
    slot_.resize(tokens);
    score_.resize(tokens);
    state_.resize(tokens);
  }

  std::size_t known() const noexcept { return frontier_.size(); }
  layer_id frontier(position t) const noexcept { return frontier_[t]; }
  bool stored(position t) const noexcept { return has_slot(t) && !waiting(t); }
  bool waiting(position t) const noexcept { return (state_[t] & is_waiting) != 0; }
  bool has_slot(position t) const noexcept { return slot_[t] != no_slot; }
  std::uint32_t slot(position t) const noexcept { return slot_[t]; }  // a slot of the stored rows, or of the waiting rows
  float score(position t) const noexcept { return score_[t]; }        // the token's score when it was last dropped

  /// Returns whether the token's hidden state is gone. No deeper keys and values can then be computed for it.
  bool lost(position t) const noexcept { return (state_[t] & is_lost) != 0; }
  std::size_t lost_count() const noexcept { return lost_count_; }

  /// Returns whether every plan leaves the token out, although it may have keys and values.
  bool dropped_for_good(position t) const noexcept { return (state_[t] & is_gone) != 0; }
  std::size_t gone_count() const noexcept { return gone_count_; }

  /// Returns whether nothing can change for the token any more. The token has passed all layers, or never will.
  bool settled(position t, layer_id layers) const noexcept { return frontier_[t] == layers || (state_[t] & (is_lost | is_gone)) != 0; }

  /// The number of rows that the engine's aux store must hold: the largest number of slots in use at one time.
  std::size_t slots() const noexcept { return stored_.size(); }
  std::size_t stored_count() const noexcept { return stored_.in_use(); }
  /// The slot that the row gets which is stored after `rows` more rows, if no slot is freed before.
  std::uint32_t slot_after(std::size_t rows) const noexcept { return stored_.after(rows); }
  /// The number of waiting rows that the engine must hold: the largest number of slots in use at one time. The engine keeps these rows
  /// exactly as it computed them.
  std::size_t waiting_slots() const noexcept { return waiting_.size(); }
  std::size_t waiting_count() const noexcept { return waiting_.in_use(); }

  void advance(position t, layer_id to) noexcept {
    frontier_[t] = to;
    release(t);
  }
  void rescore(position t, float score) noexcept { score_[t] = score; }

  void store(position t) noexcept {
    assert(!has_slot(t) && !lost(t));
    slot_[t] = stored_.take();
  }
  void wait(position t) noexcept {
    assert(!has_slot(t) && !lost(t));
    slot_[t] = waiting_.take();
    state_[t] |= is_waiting;
  }

  /// Moves a waiting row to a slot of the store, and returns the slot that it leaves. This slot stays taken until `free_waiting`.
  std::uint32_t store_waiting(position t) noexcept {
    assert(waiting(t));
    const std::uint32_t from = slot_[t];
    slot_[t] = no_slot;
    state_[t] &= static_cast<std::uint8_t>(~is_waiting);
    store(t);
    return from;
  }
  void free_waiting(std::uint32_t slot) noexcept { waiting_.give(slot); }

  /// Loses a waiting row. Its slot stays taken until `free_refused`.
  void refuse_waiting(position t) noexcept {
    assert(waiting(t) && !lost(t));
    state_[t] |= is_lost;
    ++lost_count_;
    ++refused_;
  }
  void free_refused() noexcept {
    for_refused([this](position t) { release(t); });
  }
  /// Undoes all calls of refuse_waiting since the last free_refused.
  void take_back_refusals() noexcept {
    for_refused([this](position t) {
      state_[t] &= static_cast<std::uint8_t>(~is_lost);
      --lost_count_;
    });
  }
  /// Undoes store_waiting.
  void wait_again(position t, std::uint32_t slot) noexcept {
    release(t);
    slot_[t] = slot;
    state_[t] |= is_waiting;
  }

  void lose(position t) noexcept {
    assert(!lost(t));
    release(t);
    state_[t] |= is_lost;
    ++lost_count_;
  }

  /// Forgets the token's keys, values and hidden state: it can be embedded again.
  void restart(position t) noexcept {
    refused_ -= lost(t) && has_slot(t);
    release(t);
    lost_count_ -= lost(t);
    state_[t] &= static_cast<std::uint8_t>(~is_lost);
    frontier_[t] = 0;
    score_[t] = 0.0f;
  }

  /// Adds a token in this state at the end. Its row takes the next slot.
  void append(const token_state& state) {
    const auto t = static_cast<position>(known());
    append(1, state.frontier);
    score_[t] = state.score;
    if (state.hidden == hidden_state::stored) store(t);
    if (state.hidden == hidden_state::waiting) wait(t);
    if (state.hidden == hidden_state::lost) lose(t);
    if (state.dropped_for_good) drop_for_good(t);
  }

  token_state state(position t) const noexcept {
    const hidden_state hidden = lost(t)       ? hidden_state::lost
                                : waiting(t)  ? hidden_state::waiting
                                : has_slot(t) ? hidden_state::stored
                                              : hidden_state::none;
    return {frontier_[t], hidden, dropped_for_good(t), score_[t]};
  }

  /// Drops the token for good.
  void drop_for_good(position t) noexcept {
    release(t);
    gone_count_ += !dropped_for_good(t);
    state_[t] |= is_gone;
  }

 private:
  static constexpr std::uint8_t is_lost = 1, is_gone = 2, is_waiting = 4;

  template <class Visitor>
  void for_refused(const Visitor& visit) noexcept {
    for (position t = 0; refused_ > 0; ++t) {
      if (!lost(t) || !has_slot(t)) continue;
      visit(t);
      --refused_;
    }
  }

  void release(position t) noexcept {
    if (!has_slot(t)) return;
    (waiting(t) ? waiting_ : stored_).give(slot_[t]);
    slot_[t] = no_slot;
    state_[t] &= static_cast<std::uint8_t>(~is_waiting);
  }

  std::vector<layer_id> frontier_;   // (known)
  std::vector<std::uint32_t> slot_;  // (known)
  std::vector<float> score_;         // (known)
  std::vector<std::uint8_t> state_;  // (known)
  slot_pool stored_, waiting_;
  std::size_t lost_count_ = 0;
  std::size_t gone_count_ = 0;  // tokens that are dropped for good
  std::size_t refused_ = 0;     // tokens that are lost but still hold their waiting slots
};

}  // namespace v0
}  // namespace lazyprune
