// SPDX-License-Identifier: MIT
// The merges of a BPE model, found by the two tokens that they merge. They are in a hash table with open addressing, for speed: encoding
// looks up every pair of neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

class merge_table {
 public:
  struct merged {
    std::uint32_t rank;
    token_id whole;
  };

  /// Makes room for `count` merges.
  void reserve(std::size_t count) {
    std::size_t slots = 16;
    while (slots < 2 * count) slots *= 2;
    if (slots <= slots_.size()) return;
    const std::vector<slot> old = std::exchange(slots_, std::vector<slot>(slots));
    for (const slot& one : old)
      if (one.left != none) slots_[place(one.left, one.right)] = one;
  }

  /// Adds a merge. A pair that exists already gets the new rank and token.
  void set(token_id left, token_id right, merged what) {
    if (2 * (count_ + 1) > slots_.size()) reserve(2 * (count_ + 1));
    slot& at = slots_[place(left, right)];
    if (at.left == none) ++count_;
    at = {left, right, what};
  }

  /// Returns null if these two tokens are not merged.
  const merged* find(token_id left, token_id right) const {
    if (slots_.empty()) return nullptr;
    const slot& at = slots_[place(left, right)];
    return at.left == none ? nullptr : &at.what;
  }

 private:
  static constexpr token_id none = std::numeric_limits<token_id>::max();  // no token has this id

  struct slot {
    token_id left = none, right = none;
    merged what{};
  };

  /// Returns the index of the pair's slot, or of the free slot for it.
  std::size_t place(token_id left, token_id right) const {
    const std::uint64_t mixed = (std::uint64_t{left} << 32 | right) * 0x9e3779b97f4a7c15;
    for (std::size_t at = mixed >> 32;; ++at) {
      const slot& here = slots_[at & (slots_.size() - 1)];
      if (here.left == none || (here.left == left && here.right == right)) return at & (slots_.size() - 1);
    }
  }

  std::vector<slot> slots_;  // the size is a power of two; at most half of the slots are taken
  std::size_t count_ = 0;
};

}  // namespace v0
}  // namespace lazyprune
