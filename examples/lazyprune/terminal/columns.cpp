// SPDX-License-Identifier: MIT
#include "terminal/columns.hpp"

#include <algorithm>
#include <cmath>

namespace lazyprune {
namespace program {
namespace {

std::string spaces_to(std::size_t width, std::string_view text) { return std::string(width - std::min(columns_of(text), width), ' '); }

}  // namespace

std::string one_line(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f)
      line += c;
    else
      line.append("\\x").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
  }
  return line;
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; }));
}

std::string right(std::string_view text, std::size_t width) { return spaces_to(width, text).append(text); }
std::string left(std::string_view text, std::size_t width) { return std::string(text) + spaces_to(width, text); }

std::string bar(double share, std::size_t width) {
  std::string text;
  const auto columns = static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
  for (std::size_t i = 0; i < columns; ++i) text += "\xe2\x96\x88";
  return text;
}

}  // namespace program
}  // namespace lazyprune
