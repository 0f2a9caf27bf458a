// SPDX-License-Identifier: MIT
// The types of a part's parameters, and how a part names its parameters. Each type admits only valid numbers. Parts therefore need no
// constructor that checks the numbers, and can stay aggregates. A wrong number is reported where it is written:
// `every{.n = 4, .share = 1.5}`. A part names itself and its parameters once. The registry derives the part's text, the checks of this text
// and the part's help from these names (registry/parameters.hpp):
//
//   struct window_attention {
//     static constexpr std::string_view name = "window_attention";
//     positive window = 32;
//     pooling pool = pooling::max;
//
//     template <class Visitor>
//     void describe(Visitor& visit) {
//       visit("window", window);
//       visit("pool", pool, {"max", "mean"});
//     }
//   };
//
//   visit("key", member)                  a number, which its type checks; a bool; a type with a text form of its own; or an optional
//                                         of one of these
//   visit("key", member, {"a", "b"})      an enumerator, by its name; the names are in the order of the enumerators
//   visit("key", member, layer_range{})   a number of layers; its bounds depend on the model
//   visit(required("key"), ...)           a text must give this parameter; in C++ it has a default, and a schedule
//                                         with this default prunes nothing
//   visit(named_where_set("key"), ...)    a bool; the text names it only if it is true
//   visit.just_one("a", one, "b", other)  two optional members; a text gives exactly one of them
//
// A part without parameters describes none: `template <class Visitor> void describe(Visitor&) {}`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/core/types.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

/// A share in (0, 1]. Throws `error` for any other number. It has no == of its own: it compares as the double that it converts to.
class fraction {
 public:
  using number = double;
  static constexpr bool holds(double value) { return value > 0.0 && value <= 1.0; }
  static std::string expected() { return "a share in (0, 1]"; }

  constexpr fraction(double value) : value_(value) {
    if (!holds(value)) report_error(error("", "", expected(), text_of_number(value)));
  }
  constexpr operator double() const { return value_; }

 private:
  double value_;
};

/// A count of at least 1. Throws `error` for 0. It compares as the number that it converts to.
class positive {
 public:
  using number = std::size_t;
  static constexpr bool holds(std::size_t value) { return value > 0; }
  static std::string expected() { return "a whole number of at least 1"; }

  constexpr positive(std::size_t value) : value_(value) {
    if (!holds(value)) report_error(error("", "", expected(), "0"));
  }
  constexpr operator std::size_t() const { return value_; }

 private:
  std::size_t value_;
};

/// The bounds of a parameter that is a number of layers. The upper bound depends on the model.
struct layer_range {
  std::optional<layer_id> least{};  // without a value: 0 if the scorer needs only positions, else 1
  bool before_last = false;         // the upper bound is one layer lower than for other parameters
};

/// The key of a parameter.
struct parameter_key {
  std::string_view name;
  bool required = false;
  bool only_where_set = false;

  constexpr parameter_key(const char* key) : name(key) {}
  constexpr parameter_key(std::string_view key, bool must, bool where_set) : name(key), required(must), only_where_set(where_set) {}
};

/// The key of a parameter that a text must give.
constexpr parameter_key required(std::string_view key) { return {key, true, false}; }

/// The key of a bool that a text names only if it is true.
constexpr parameter_key named_where_set(std::string_view key) { return {key, false, true}; }

/// The number of tokens in a share of n >= 1 tokens: ceil(share * n - 1e-9), at least 1, at most n. The small constant corrects rounding
/// errors: 0.1 of 30 tokens is 3, not 4.
inline std::size_t share_of(double share, std::size_t n) {
  const double count = std::ceil(share * static_cast<double>(n) - 1e-9);
  return static_cast<std::size_t>(std::clamp(count, 1.0, static_cast<double>(n)));
}

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
