// SPDX-License-Identifier: MIT
// A scorer that was chosen at run time, whatever evidence it needs.
#pragma once

#include <cassert>
#include <concepts>
#include <memory>
#include <utility>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/detail/held_policy.hpp>

namespace lazyprune {
inline namespace v0 {

/// `any_scorer chosen = fused ? any_scorer(key_norm{}) : last_query_attention{};` The engine is asked for what the scorer in it needs. One
/// virtual call a layer.
class any_scorer {
  struct base : detail::policy_interface<base> {
    virtual scorer_needs needs() const = 0;
    virtual void score(const every_layer<evidence>& shown, std::span<float> out) = 0;
  };
  template <class Scorer>
  struct holder final : detail::policy_holder<base, holder<Scorer>, Scorer> {
    using detail::policy_holder<base, holder, Scorer>::policy_holder;
    scorer_needs needs() const override { return needs_of(this->policy); }
    void score(const every_layer<evidence>& shown, std::span<float> out) override {
      if constexpr (chosen_scorer<Scorer>) {
        this->policy.score(shown, out);
      } else {
        const auto* now = std::get_if<evidence_of<Scorer>>(&shown.now);
        assert(now && "the evidence is of the kind that is needed");
        if constexpr (std::same_as<view_of<Scorer>, evidence_of<Scorer>>)
          this->policy.score(*now, out);
        else
          this->policy.score(view_of<Scorer>{*now, shown.layer, shown.memory}, out);
      }
    }
  };

 public:
  template <class Scorer>
    requires(!std::same_as<Scorer, any_scorer>)
  any_scorer(Scorer chosen) : held_(std::make_unique<holder<Scorer>>(std::move(chosen))) {
    static_assert(importance_scorer<Scorer>, "Scorer needs: void score(const attention_view&, std::span<float>) const (or another view)");
  }

  scorer_needs needs() const { return (*held_).needs(); }

  /// `shown.now` is of the kind that is needed; `shown.memory` is empty unless it is needed at every layer.
  void score(const every_layer<evidence>& shown, std::span<float> out) { (*held_).score(shown, out); }

  /// The scorer in it, null where it is of another type.
  template <class Scorer>
  const Scorer* target() const noexcept {
    return held_.template target<Scorer>();
  }

  friend bool operator==(const any_scorer&, const any_scorer&) = default;

 private:
  detail::held_policy<base> held_;
};

static_assert(chosen_scorer<any_scorer>);

}  // namespace v0
}  // namespace lazyprune
