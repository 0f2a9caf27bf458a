// SPDX-License-Identifier: MIT
// What policies are made of, and how they name it. Numbers can only hold what makes sense, so that policies stay aggregates and a wrong
// number is reported where it is written: `every{.n = 4, .share = 1.5}`. A policy names itself and its parameters once; its text, the
// checks of that text and its help follow (registry/parameters.hpp):
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
//   visit("key", member)                  a number, which is checked as its type says, a bool, a type with a text of its own, or an
//                                         optional one of these
//   visit("key", member, {"a", "b"})      an enumerator, by its name; the names are in its order
//   visit("key", member, layer_range{})   a number of layers, which depends on the model
//   visit(required("key"), ...)           a text must give it; the member's own default prunes nothing
//   visit(named_where_set("key"), ...)    a bool, which the text names only where it is true
//   visit.just_one("a", one, "b", other)  two optional members of which a text gives one
//
// A policy without parameters describes none: `template <class Visitor> void describe(Visitor&) {}`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

/// A share in (0, 1]; reports `error` for any other number. It has no == of its own: it compares as the double that it converts to.
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

/// A count of at least 1; reports `error` for 0. It compares as the number that it converts to.
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

/// Which numbers of layers a parameter can be, in a model of some number of them.
struct layer_range {
  std::optional<layer_id> least{};  // none: as early as the scorer knows anything, which is 0 or 1
  bool before_last = false;         // at most one layer less than the most that a selection can follow
};

/// A parameter's key.
struct parameter_key {
  std::string_view name;
  bool required = false;
  bool only_where_set = false;

  constexpr parameter_key(const char* key) : name(key) {}
  constexpr parameter_key(std::string_view key, bool must, bool where_set) : name(key), required(must), only_where_set(where_set) {}
};

/// The key of a parameter that a text must give.
constexpr parameter_key required(std::string_view key) { return {key, true, false}; }

/// The key of a bool that a text names only where it is true.
constexpr parameter_key named_where_set(std::string_view key) { return {key, false, true}; }

/// So many of n >= 1 tokens are `share` of them: ceil(share * n - 1e-9), at least 1, at most n. The small constant makes 0.1 of 30
/// tokens 3 of them, not the 4 of its rounding error.
inline std::size_t share_of(double share, std::size_t n) {
  const double count = std::ceil(share * static_cast<double>(n) - 1e-9);
  return static_cast<std::size_t>(std::clamp(count, 1.0, static_cast<double>(n)));
}

}  // namespace v0
}  // namespace lazyprune
