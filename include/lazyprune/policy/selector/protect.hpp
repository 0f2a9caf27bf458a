// SPDX-License-Identifier: MIT
// Makes any selector keep the first tokens (attention sinks, arXiv 2309.17453), the most recent ones, and those at places that are named.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/position_spans.hpp>

namespace lazyprune {
inline namespace v0 {

/// `protect{top_k{}, 4, 64, {{900, 930}}}`: the candidates at positions 0..first-1, at the `last` positions up to the query token, itself
/// included, and in the spans become required; they count towards `keep`, and are kept alone where they are more. Their positive scores go
/// to `required_mass`.
template <class Selector>
struct protect {
  static_assert(token_selector<Selector>, "Selector needs: std::size_t select(const candidates&, std::span<std::uint32_t> kept) const");

  Selector selector;
  std::size_t first;
  std::size_t last;
  position_spans spans;

  explicit protect(Selector inner, std::size_t first_tokens = 0, std::size_t last_tokens = 0, position_spans places = {})
      : selector(std::move(inner)), first(first_tokens), last(last_tokens), spans(std::move(places)) {}

  std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const {
    constexpr float inf = std::numeric_limits<float>::infinity();
    const position query = c.positions.back();
    double required_mass = c.required_mass;
    auto span = spans.list().begin();
    for (std::size_t i = 0; i < c.scores.size(); ++i) {
      const position p = c.positions[i];
      while (span != spans.list().end() && span->last < p) ++span;
      const bool in_span = span != spans.list().end() && span->first <= p;
      if (c.scores[i] == inf || (p >= first && query - p >= last && !in_span)) continue;
      if (c.scores[i] > 0.0f) required_mass += c.scores[i];
      c.scores[i] = inf;
    }
    candidates all = c;
    all.keep = std::max(c.keep, static_cast<std::size_t>(std::ranges::count(c.scores, inf)));
    all.required_mass = static_cast<float>(std::min<double>(required_mass, std::numeric_limits<float>::max()));
    return selector.select(all, kept);
  }

  friend bool operator==(const protect&, const protect&) = default;
};

}  // namespace v0
}  // namespace lazyprune
