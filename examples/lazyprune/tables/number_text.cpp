// SPDX-License-Identifier: MIT
#include "tables/number_text.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace lazyprune {
namespace program {

std::string fixed(double value, int digits) {
  std::array<char, 352> text;  // the largest double has 309 digits before the point
  if (!std::isfinite(value)) return "–";
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits).ptr};
}

std::string three_digits(double value) {
  const double size = std::abs(value);
  return fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return three_digits(seconds * 1e6) + " us";
  if (seconds < 1.0) return three_digits(seconds * 1e3) + " ms";
  return three_digits(seconds) + " s";
}

std::string bytes_text(std::size_t bytes) {
  const double size = static_cast<double>(bytes);
  if (bytes < 1024) return std::to_string(bytes) + " B";
  if (size < 1024.0 * 1024.0) return three_digits(size / 1024.0) + " KiB";
  if (size < 1024.0 * 1024.0 * 1024.0) return three_digits(size / (1024.0 * 1024.0)) + " MiB";
  return three_digits(size / (1024.0 * 1024.0 * 1024.0)) + " GiB";
}

std::string percent_text(double share) { return fixed(100.0 * share, 1) + " %"; }

}  // namespace program
}  // namespace lazyprune
