// SPDX-License-Identifier: MIT
// Runs a session with a scorer of this program. The program needs only the standard library.
#ifdef LAZYPRUNE_BY_SINGLE_HEADER
#include <lazyprune_single.hpp>
#else
#include <lazyprune/lazyprune.hpp>
#endif

struct newest_first {
  void score(const lazyprune::token_view& tokens, std::span<float> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(tokens.positions[i]);
  }
};
static_assert(lazyprune::importance_scorer<newest_first>);

int main() {
  const lazyprune::policy mine{newest_first{}, lazyprune::stages{{1, 0.5}}, lazyprune::top_k{}, lazyprune::keep_all{}};
  lazyprune::session session(mine, {.layers = 2, .max_tokens = 8});
  auto step = session.begin({.tokens = 8});
  step.enter(0);
  step.leave();
  const lazyprune::layer_plan& plan = step.enter(1);
  const bool newest = plan.active.size() == 4 && plan.active.front() == 4;
  step.leave();
  step.finish();
  return newest && session.stats().rows == 12 ? 0 : 1;
}
