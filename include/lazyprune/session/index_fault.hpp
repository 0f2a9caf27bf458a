// SPDX-License-Identifier: MIT
// The check of what a selector or a store writes. Its indices are the user's: a wrong list must not write past a span or drop a token
// unseen.
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
  std::size_t below;     // the choices: each index is below this number, and there are at most so many
  std::size_t count;     // indices that were announced
  std::uint32_t index;   // the first wrong one; meaningless where too many were announced
  std::uint32_t before;  // the one before it; 0 for the first

  bool too_many() const { return count > below; }
  /// What was found, for an error: "13 of them", "12" or "7 after 9".
  std::string found() const {
    if (too_many()) return std::to_string(count) + " of them";
    return std::to_string(index) + (index < below ? " after " + std::to_string(before) : "");
  }
  friend bool operator==(const index_fault&, const index_fault&) = default;
};

/// The first fault in the `count` indices that were written to the front of `room`, which has a place for each choice. None where they
/// ascend and each names a choice. O(count).
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
