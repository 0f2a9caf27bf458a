// SPDX-License-Identifier: MIT
// Helpers to search the text of a page.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

namespace lazyprune_test {

inline std::size_t count(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

/// Returns the text between the first `from` and the next `to`.
inline std::string between(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  const std::size_t end = text.find(to, at + from.size());
  REQUIRE(end != text.npos);
  return text.substr(at + from.size(), end - at - from.size());
}

/// True if elements are closed in order, attributes are quoted, and there is no bare & or <.
inline bool well_formed_xml(std::string_view xml) {
  std::vector<std::string_view> open;
  const auto references_end = [](std::string_view text) {
    for (std::size_t at = text.find('&'); at != text.npos; at = text.find('&', at + 1)) {
      const std::size_t end = text.find_first_not_of("#abcdefghijklmnopqrstuvwxyz0123456789", at + 1);
      if (end == text.npos || text[end] != ';') return false;
    }
    return true;
  };
  while (!xml.empty()) {
    const std::size_t begin = std::min(xml.find('<'), xml.size());
    if (!references_end(xml.substr(0, begin))) return false;
    xml.remove_prefix(begin);
    if (xml.empty()) break;
    std::size_t end = 1;
    for (bool quoted = false; end < xml.size() && (quoted || xml[end] != '>'); ++end) {
      if (xml[end] == '"') quoted = !quoted;
      if (xml[end] == '<') return false;
      if (xml[end] == '=' && !quoted && xml.substr(end + 1, 1) != "\"") return false;
    }
    if (end >= xml.size()) return false;
    const std::string_view tag = xml.substr(1, end - 1), name = tag.substr(0, tag.find_first_of(" /", 1));
    if (!references_end(tag)) return false;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    xml.remove_prefix(end + 1);
  }
  return open.empty();
}

}  // namespace lazyprune_test
