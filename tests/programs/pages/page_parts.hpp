// SPDX-License-Identifier: MIT
// Finding one's way in the text of a page.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

namespace lazyprune_test {

inline std::size_t count(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

/// What stands between the first `from` and the next `to`.
inline std::string between(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  const std::size_t end = text.find(to, at + from.size());
  REQUIRE(end != text.npos);
  return text.substr(at + from.size(), end - at - from.size());
}

}  // namespace lazyprune_test
