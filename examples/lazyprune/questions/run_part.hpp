// SPDX-License-Identifier: MIT
// A part of a run's samples, for runs on several machines. A hash of the sample decides to which part it belongs, so that all machines
// agree and a sample's number in its file plays no role.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>

namespace lazyprune {
namespace program {

/// Part `number` of `of` parts, counted from 1.
struct run_part {
  std::size_t number = 1, of = 1;

  /// Reads "2/3". Throws `error` if the text is no part; `file` and `place` name the text in the error.
  static run_part parse(std::string_view text, std::string_view file = "--part", std::string_view place = {}) {
    const std::size_t slash = text.find('/');
    if (slash != text.npos) {
      const auto number = number_in<std::size_t>(text.substr(0, slash)), of = number_in<std::size_t>(text.substr(slash + 1));
      if (number && of && *number >= 1 && *number <= *of) return {*number, *of};
    }
    throw error(file, place, "K/N, with a K from 1 to N", text.empty() ? "nothing" : text);
  }

  std::string text() const { return std::to_string(number) + '/' + std::to_string(of); }

  /// Returns whether the sample with this hash belongs to the part.
  bool has(std::uint64_t digest) const { return digest % of + 1 == number; }

  friend bool operator==(const run_part&, const run_part&) = default;
};

}  // namespace program
}  // namespace lazyprune
