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

/// The first fault in the `count` indices at the front of `room`. `room` has a place for each choice. nullopt if the indices ascend and
/// each names a choice. O(count).
inline std::optional<index_fault> fault_in(std::span<const std::uint32_t> room, std::size_t count) noexcept {
  const std::size_t below = room.size();
  if (count > below) return index_fault{below, count, 0, 0};
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t before = i > 0 ? room[i - 1] : 0;
    if (room[i] >= below || (i > 0 && room[i] <= before)) return index_fault{below, count, room[i], before};
  }
  return std::nullopt;
}

}  // namespace v0
}  // namespace lazyprune
