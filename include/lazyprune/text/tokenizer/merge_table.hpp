// SPDX-License-Identifier: MIT
// The merges of a BPE model by the two tokens that they merge: one open table, since a text asks it for every pair of neighbours.
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

  /// Makes room for so many merges.
  void reserve(std::size_t count) {
    std::size_t slots = 16;
    while (slots < 2 * count) slots *= 2;
    if (slots <= slots_.size()) return;
    const std::vector<slot> old = std::exchange(slots_, std::vector<slot>(slots));
    for (const slot& one : old)
      if (one.left != none) slots_[place(one.left, one.right)] = one;
  }

  /// A pair that is there already gets the new rank.
  void set(token_id left, token_id right, merged what) {
    if (2 * (count_ + 1) > slots_.size()) reserve(2 * (count_ + 1));
    slot& at = slots_[place(left, right)];
    if (at.left == none) ++count_;
    at = {left, right, what};
  }

  /// Null where these two are not merged.
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

  /// Where the pair is, or the free slot for it.
  std::size_t place(token_id left, token_id right) const {
    const std::uint64_t mixed = (std::uint64_t{left} << 32 | right) * 0x9e3779b97f4a7c15;
    for (std::size_t at = mixed >> 32;; ++at) {
      const slot& here = slots_[at & (slots_.size() - 1)];
      if (here.left == none || (here.left == left && here.right == right)) return at & (slots_.size() - 1);
    }
  }

  std::vector<slot> slots_;  // a power of two, at most half of them taken
  std::size_t count_ = 0;
};

}  // namespace v0
}  // namespace lazyprune
