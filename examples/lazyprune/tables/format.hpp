// SPDX-License-Identifier: MIT
// Numbers and tables as people read them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

#include <lazyprune/core/error.hpp>

/// `digits` after the point.
inline std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// Three digits that mean something: "0.123", "12.3", "1234".
inline std::string three_digits(double value) {
  const double size = std::abs(value);
  return fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
}

inline std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return three_digits(seconds * 1e6) + " us";
  if (seconds < 1.0) return three_digits(seconds * 1e3) + " ms";
  return three_digits(seconds) + " s";
}

inline std::string bytes_text(std::size_t bytes) {
  const double size = static_cast<double>(bytes);
  if (bytes < 1024) return std::to_string(bytes) + " B";
  if (size < 1024.0 * 1024.0) return three_digits(size / 1024.0) + " KiB";
  if (size < 1024.0 * 1024.0 * 1024.0) return three_digits(size / (1024.0 * 1024.0)) + " MiB";
  return three_digits(size / (1024.0 * 1024.0 * 1024.0)) + " GiB";
}

inline std::string percent_text(double share) { return fixed(100.0 * share, 1) + " %"; }

/// One line, whatever bytes the names and values in it have.
inline std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      line += c;
    } else {
      char digits[5];
      std::snprintf(digits, sizeof digits, "\\x%02x", static_cast<unsigned char>(c));
      line += digits;
    }
  }
  return line;
}

/// Characters of UTF-8 text.
inline std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; }));
}

/// At least `width` columns, the text at their right end.
inline std::string right(const std::string& text, std::size_t width) {
  return std::string(std::max(columns_of(text), width) - columns_of(text), ' ') + text;
}
inline std::string left(const std::string& text, std::size_t width) {
  return text + std::string(std::max(columns_of(text), width) - columns_of(text), ' ');
}

/// A bar of at most `width` columns.
inline std::string bar(double share, std::size_t width) {
  std::string text;
  const auto columns = static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
  for (std::size_t i = 0; i < columns; ++i) text += "\xe2\x96\x88";
  return text;
}

/// Throws `error` unless it is one of the forms in which tables are printed.
inline void check_output(const std::string& format) {
  if (format != "md" && format != "json" && format != "csv") throw lazyprune::error("--output", "", "md, json or csv", format);
}
