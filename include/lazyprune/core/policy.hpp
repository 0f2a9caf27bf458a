// SPDX-License-Identifier: MIT
// A pruning method as one value with four parts: a scorer, a schedule, a selector and a store. Presets return a policy, and a session runs
// it.
#pragma once

#include <utility>

#include <lazyprune/core/concepts.hpp>

namespace lazyprune {
inline namespace v0 {

/// `policy p{last_query_attention{}, stages{{9, 0.7}}, top_k{}, keep_all{}};`
template <class Scorer, class Schedule, class Selector, class Store>
struct policy {
  static_assert(!ambiguous_scorer<Scorer>,
                "Scorer takes several views: its score must take exactly one view type, not auto and not evidence of any kind");
  static_assert(importance_scorer<Scorer> || ambiguous_scorer<Scorer>,
                "Scorer needs: void score(const attention_view&, std::span<float>) const (or another view of core/views.hpp; with "
                "window_view also a member `window`; with every_layer<probe_view> also `window` and probes(layer); with "
                "every_layer<evidence> also needs())");
  static_assert(any_kind_of_schedule<Schedule>,
                "Schedule needs: std::size_t keep(const layer_context&) const, or std::size_t keep(const layer_context&, "
                "std::span<const float> scores) const");
  static_assert(!ambiguous_schedule<Schedule>,
                "Schedule has keep(context) and keep(context, scores): leave one of them out, or say which to call by sees_scores()");
  static_assert(token_selector<Selector>, "Selector needs: std::size_t select(const candidates&, std::span<std::uint32_t> kept) const");
  static_assert(aux_store<Store>, "Store needs: std::size_t admit(const stored_rows&, std::span<std::uint32_t> kept) const");

  Scorer scorer;
  Schedule schedule;
  Selector selector;
  Store store;

  constexpr policy(Scorer a, Schedule b, Selector c, Store d)
      : scorer(std::move(a)), schedule(std::move(b)), selector(std::move(c)), store(std::move(d)) {}

  friend bool operator==(const policy&, const policy&) = default;
};

}  // namespace v0
}  // namespace lazyprune
