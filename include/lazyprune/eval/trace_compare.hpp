// SPDX-License-Identifier: MIT
// Compares two traces of one input. Do two engines compute the same tokens at the same layers? Where do they first differ, and can rounding
// explain the difference? Once the kept sets differ, this difference may cause all later ones. So only the first difference is
// reported.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <string_view>

#include <lazyprune/core/finite.hpp>
#include <lazyprune/eval/position_ranges.hpp>
#include <lazyprune/session/trace.hpp>

namespace lazyprune {
inline namespace v0 {

/// The margin of a choice is the difference between the lowest kept score and the highest dropped score, relative to the lowest kept score.
/// Scores are floats and are rounded, so two engines may choose differently if the margin is below this number.
inline constexpr double rounding_margin = 1e-6;

enum class trace_field : std::uint8_t { steps, layers, tokens, active, rows, revived, logits, next };

constexpr std::string_view name_of(trace_field part) {
  constexpr std::array<std::string_view, 8> names{"steps", "layers", "tokens", "active", "rows", "revived", "logits", "next"};
  return names[static_cast<std::size_t>(part)];
}

/// The first difference between two traces.
struct trace_difference {
  std::size_t step;
  std::optional<layer_id> layer;  // set for active, rows and revived
  trace_field what;
  // active, rows, revived: the positions that only this trace has, ascending.
  // tokens: the first id that differs; empty if this trace has no more tokens.
  // next: the id. steps, layers, logits: how many of them this trace has.
  std::vector<std::uint32_t> only_a;
  std::vector<std::uint32_t> only_b;
  std::optional<double> margin_a;  // active: the margin of the choice that led to this layer, if recorded
  std::optional<double> margin_b;

  /// Returns whether the choice was so close, in at least one trace, that rounding can change it.
  bool explained() const {
    const auto close = [](const std::optional<double>& margin) { return margin && std::abs(*margin) < rounding_margin; };
    return close(margin_a) || close(margin_b);
  }
  friend bool operator==(const trace_difference&, const trace_difference&) = default;
};

/// The largest absolute difference between logits, over the steps with logits in both traces.
struct logits_distance {
  std::size_t steps = 0;  // how many were compared
  double most = 0;        // infinite if a logit is not a number
  std::size_t at = 0;     // the step of `most`
  friend bool operator==(const logits_distance&, const logits_distance&) = default;
};

struct trace_comparison {
  bool alike;                             // all fields are equal, except that logits may differ up to the tolerance
  std::optional<trace_difference> first;  // none: no field differs, except perhaps the logits
  std::size_t steps_a;
  std::size_t steps_b;
  std::size_t agreed;                       // steps before the first difference
  double tolerance;                         // for the logits
  logits_distance logits;                   // over all steps
  logits_distance logits_before;            // over the steps before the first difference, and that step if only `next` differs
  std::optional<std::size_t> first_beyond;  // the first step whose logits differ by more than the tolerance

  /// Returns a summary for readers: a few lines, each with a line break at its end.
  std::string text() const;
  friend bool operator==(const trace_comparison&, const trace_comparison&) = default;
};

/// Returns the positions of `a` that are not in `b`. All three lists ascend.
inline std::vector<position> only_in(std::span<const position> a, std::span<const position> b) {
  std::vector<position> rest;
  std::ranges::set_difference(a, b, std::back_inserter(rest));
  return rest;
}

/// Returns the largest absolute difference between the logits of two steps. Both steps must have the same number of logits. The result is
/// infinite if one logit is not a number.
inline double logits_apart(const step_trace& a, const step_trace& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.logits.size(); ++i) {
    if (a.logits[i] == b.logits[i]) continue;
    const double apart = std::abs(a.logits[i] - b.logits[i]);
    most = std::max(most, is_nan(apart) ? std::numeric_limits<double>::infinity() : apart);
  }
  return most;
}

/// Returns the number with up to three significant digits, and with an exponent if that is shorter.
inline std::string brief(double value) {
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::general, 3).ptr};
}

namespace detail {

inline trace_difference count_difference(std::size_t step, trace_field what, std::size_t a, std::size_t b) {
  return {step, {}, what, {static_cast<std::uint32_t>(a)}, {static_cast<std::uint32_t>(b)}, {}, {}};
}

inline std::optional<double> margin_into(const step_trace& trace, std::size_t layer) {
  return layer > 0 && layer <= trace.margin.size() ? trace.margin[layer - 1] : std::nullopt;
}

/// Returns the first difference in the fields that a step's logits depend on.
inline std::optional<trace_difference> difference_before_logits(const step_trace& a, const step_trace& b) {
  if (a.tokens != b.tokens) {
    const auto [in_a, in_b] = std::ranges::mismatch(a.tokens, b.tokens);
    trace_difference found{a.step, {}, trace_field::tokens, {}, {}, {}, {}};
    if (in_a != a.tokens.end()) found.only_a.push_back(*in_a);
    if (in_b != b.tokens.end()) found.only_b.push_back(*in_b);
    return found;
  }
  if (a.layers.size() != b.layers.size()) return count_difference(a.step, trace_field::layers, a.layers.size(), b.layers.size());
  for (std::size_t l = 0; l < a.layers.size(); ++l) {
    const auto compare = [&](trace_field what, std::vector<position> layer_trace::*part) -> std::optional<trace_difference> {
      const auto &in_a = a.layers[l].*part, &in_b = b.layers[l].*part;
      if (in_a == in_b) return {};
      trace_difference found{a.step, static_cast<layer_id>(l), what, only_in(in_a, in_b), only_in(in_b, in_a), {}, {}};
      if (what == trace_field::active) {
        found.margin_a = margin_into(a, l);
        found.margin_b = margin_into(b, l);
      }
      return found;
    };
    if (auto found = compare(trace_field::active, &layer_trace::active)) return found;
    if (auto found = compare(trace_field::rows, &layer_trace::rows)) return found;
    if (auto found = compare(trace_field::revived, &layer_trace::revived)) return found;
  }
  return {};
}

inline void add(logits_distance& distance, double apart, std::size_t step) {
  ++distance.steps;
  if (apart <= distance.most) return;
  distance.most = apart;
  distance.at = step;
}

inline std::string text_of(const trace_difference& d) {
  std::string text = "differ first at step " + std::to_string(d.step);
  if (d.layer) text += ", layer " + std::to_string(*d.layer);
  text.append(": ").append(name_of(d.what)).append("\n");
  if (!d.layer) {
    const auto value = [](const std::vector<std::uint32_t>& v) { return v.empty() ? "none" : std::to_string(v.front()); };
    return text + "  " + value(d.only_a) + " in A, " + value(d.only_b) + " in B\n";
  }
  const auto positions = [](const std::vector<position>& p) {
    return p.empty() ? "none" : position_ranges(p, 12) + " (" + std::to_string(p.size()) + ")";
  };
  text += "  positions only in A: " + positions(d.only_a) + "; only in B: " + positions(d.only_b) + "\n";
  if (d.what != trace_field::active) return text + "  the active tokens are the same here, so no close choice explains it\n";
  const auto margin = [](const std::optional<double>& m) { return m ? brief(*m) : "not recorded"; };
  text += "  margin of the choice that led here: " + margin(d.margin_a) + " in A, " + margin(d.margin_b) + " in B: ";
  return text +
         (d.explained()              ? "below "
          : d.margin_a || d.margin_b ? "not below "
                                     : "perhaps below ") +
         brief(rounding_margin) + (d.explained() ? ", so rounding can explain it\n" : "; below that, rounding could explain it\n");
}

}  // namespace detail

/// Compares two traces step by step. Within a step it compares in the order of computation: tokens, layers, logits, next. Positions must
/// ascend, as in every trace that was read from a file. A tolerance of 0 asks for equal logits.
inline trace_comparison compare_traces(const std::vector<step_trace>& a, const std::vector<step_trace>& b, double tolerance = 1e-4) {
  trace_comparison result{.alike = false,
                          .first = {},
                          .steps_a = a.size(),
                          .steps_b = b.size(),
                          .agreed = 0,
                          .tolerance = tolerance,
                          .logits = {},
                          .logits_before = {},
                          .first_beyond = {}};
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t s = 0; s < common; ++s) {
    if (!result.first) result.first = detail::difference_before_logits(a[s], b[s]);
    if (!a[s].logits.empty() && !b[s].logits.empty()) {
      if (a[s].logits.size() == b[s].logits.size()) {
        const double apart = logits_apart(a[s], b[s]);
        if (!result.first) detail::add(result.logits_before, apart, a[s].step);
        detail::add(result.logits, apart, a[s].step);
        if (apart > tolerance && !result.first_beyond) result.first_beyond = a[s].step;
      } else if (!result.first) {
        result.first = detail::count_difference(s, trace_field::logits, a[s].logits.size(), b[s].logits.size());
      }
    }
    if (!result.first && a[s].next != b[s].next) result.first = {s, {}, trace_field::next, {a[s].next}, {b[s].next}, {}, {}};
    if (!result.first) ++result.agreed;
  }
  if (!result.first && a.size() != b.size()) result.first = detail::count_difference(common, trace_field::steps, a.size(), b.size());
  result.alike = !result.first && !result.first_beyond;
  return result;
}

inline std::string trace_comparison::text() const {
  std::string out = alike ? "alike: " : "different: ";
  if (first)
    out += "the traces " + detail::text_of(*first) + "  steps that agree before it: " + std::to_string(agreed) + " of " +
           std::to_string(std::max(steps_a, steps_b)) + "; what comes later may follow from it\n";
  else
    out += std::to_string(agreed) + " steps with the same tokens, active, rows, revived and next" + (alike ? "\n" : ", but not logits\n");
  if (logits.steps == 0) return out + "logits: not recorded in both traces\n";
  const auto distance = [](const logits_distance& d) { return brief(d.most) + " apart at most (step " + std::to_string(d.at) + ")"; };
  out += "logits: " + distance(logits) + ", tolerance " + brief(tolerance);
  if (first_beyond) out += ", exceeded first at step " + std::to_string(*first_beyond);
  if (first && logits_before.steps > 0) out += "; before the first difference " + distance(logits_before);
  return out + "\n";
}

}  // namespace v0
}  // namespace lazyprune
