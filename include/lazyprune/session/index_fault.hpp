// SPDX-License-Identifier: MIT
// Checks the indices that a selector or a store writes. Users can write selectors and stores of their own. A wrong list must not make the
// session write past a span or drop a token silently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace lazyprune {
inline namespace v0 {

/// Why a list of indices is wrong.
struct index_fault {
  std::size_t below;     // the number of choices: every index must be below it, and there may be at most `below` indices
  std::size_t count;     // the number of indices that the selector or store returned
  std::uint32_t index;   // the first wrong index; meaningless if `count` is too large
  std::uint32_t before;  // the index before it; 0 for the first

  bool too_many() const { return count > below; }
  /// The `found` text of an error: "13 of them", "12" or "7 after 9".
  std::string found() const {
    if (too_many()) return std::to_string(count) + " of them";
    return std::to_string(index) + (index < below ? " after " + std::to_string(before) : "");
  }
  friend bool operator==(const index_fault&, const index_fault&) = default;
};

/// The first fault in a list of indices; nullopt if they ascend and are below `below`. O(list).
inline std::optional<index_fault> fault_in_list(std::span<const std::uint32_t> list, std::size_t below) noexcept {
  if (list.size() > below) return index_fault{below, list.size(), 0, 0};
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::uint32_t before = i > 0 ? list[i - 1] : 0;
    if (list[i] >= below || (i > 0 && list[i] <= before)) return index_fault{below, list.size(), list[i], before};
  }
  return std::nullopt;
}

/// The first fault in the `count` indices at the front of `room`. `room` has a place for each choice.
inline std::optional<index_fault> fault_in(std::span<const std::uint32_t> room, std::size_t count) noexcept {
  if (count > room.size()) return index_fault{room.size(), count, 0, 0};
  return fault_in_list(room.first(count), room.size());
}

}  // namespace v0
}  // namespace lazyprune
