// SPDX-License-Identifier: MIT
// Prunes once, to a budget: a number of tokens, or a share of the rows that the dense model computes.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/policy/arguments.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

/// The budget that applies after `after` layers. Exactly one of `tokens` and `cost` gives it.
struct budget_target {
  layer_id after = 0;
  std::optional<positive> tokens = {};
  std::optional<fraction> cost = {};
  friend bool operator==(const budget_target&, const budget_target&) = default;
};

/// `budget({.after = 8, .tokens = 512})`: at most 512 tokens go on after 8 layers. `budget({.after = 8, .cost = 0.5})`: all layers together
/// see half as many tokens as in a dense step. Let n be the number of known tokens, and k the number that go on. Then k is the solution of
///   after * n + (layers - after) * k = cost * layers * n,
/// rounded up. k is 1 if the first `after` layers alone use up the cost.
class budget {
 public:
  static constexpr std::string_view name = "budget";

  /// A budget without a target keeps everything.
  budget() = default;

  /// Throws `error` unless exactly one of `tokens` and `cost` is given.
  explicit budget(const budget_target& target) : target_(target) {
    if (target.tokens.has_value() == target.cost.has_value())
      report_error(error("", "budget", "either tokens or cost", target.tokens ? "both" : "neither"));
  }

  std::size_t keep(const layer_context& context) const {
    if (context.done != target_.after || !(target_.tokens || target_.cost)) return everything;
    if (target_.tokens) return std::min<std::size_t>(*target_.tokens, context.active);
    const double left = context.layers - context.done;
    return std::min(context.active, share_of((*target_.cost * context.layers - context.done) / left, context.known));
  }

  layer_id first(phase, layer_id layers) const { return target_.tokens || target_.cost ? std::min(target_.after, layers) : layers; }

  bool prunes_after(layer_id done, phase, layer_id) const { return (target_.tokens || target_.cost) && done == target_.after; }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit(required("after"), target_.after, layer_range{});
    visit.just_one("tokens", target_.tokens, "cost", target_.cost);
  }

  friend bool operator==(const budget&, const budget&) = default;

 private:
  budget_target target_{};
};

static_assert(layer_schedule<budget>);

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
