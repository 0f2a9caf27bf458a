// SPDX-License-Identifier: MIT
// Makes any selector keep the first tokens (attention sinks, arXiv 2309.17453), the most recent tokens, and named positions.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/policy/position_spans.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

/// Makes the candidates at some positions required: the `first` positions of the sequence, the `last` ones up to the query token, and the
/// spans. `protect{top_k{}, 4, 64, {{900, 930}}}` requires the first 4 positions, the last 64, and 900 to 930. Required tokens count
/// towards `keep`. If more than `keep` tokens are required, the inner selector gets their number as `keep`. The positive scores of the
/// newly required tokens are added to `required_mass`.
template <class Selector>
struct protect {
  static_assert(token_selector<Selector>, "Selector needs: std::size_t select(const candidates&, std::span<std::uint32_t> kept) const");

  Selector selector;
  std::size_t first;
  std::size_t last;
  position_spans spans;

  explicit protect(Selector inner, std::size_t first_tokens = 0, std::size_t last_tokens = 0, position_spans places = {})
      : selector(std::move(inner)), first(first_tokens), last(last_tokens), spans(std::move(places)) {}

  std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const { return selector.select(with_required(c), kept); }

  std::optional<kept_count> count(const candidates& c) const { return count_of(selector, with_required(c)); }

  friend bool operator==(const protect&, const protect&) = default;

 private:
  /// The candidates for the inner selector. Sets the scores of the newly required ones to +inf.
  candidates with_required(const candidates& c) const {
    constexpr float inf = std::numeric_limits<float>::infinity();
    const position query = c.positions.back();
    auto span = spans.list().begin();
    candidates all = c;
    for (std::size_t i = 0; i < c.scores.size(); ++i) {
      const position p = c.positions[i];
      while (span != spans.list().end() && span->last < p) ++span;
      const bool in_span = span != spans.list().end() && span->first <= p;
      if (c.scores[i] == inf || (p >= first && query - p >= last && !in_span)) continue;
      if (c.scores[i] > 0.0f) all.required_mass += c.scores[i];
      c.scores[i] = inf;
    }
    all.keep = std::max(c.keep, static_cast<std::size_t>(std::ranges::count_if(c.scores, [](float s) { return s == inf; })));
    return all;
  }
};

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
