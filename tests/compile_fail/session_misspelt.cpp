// SPDX-License-Identifier: MIT
// error: Scorer needs: void score(const attention_view&, std::span<float>) const
// A session and an any_session with a wrong part add no other errors.
#include <lazyprune/session/any_session.hpp>

#include "parts.hpp"

struct scorer {
  void MEMBER(score, scores)(const attention_view&, std::span<float>) const {}
};
struct schedule {
  std::size_t MEMBER(keep, keeps)(const layer_context& c) const { return c.active; }
};
struct selector {
  std::size_t MEMBER(select, choose)(const candidates& c, std::span<std::uint32_t>) const { return c.keep; }
};
struct store {
  std::size_t MEMBER(admit, accept)(const stored_rows&, std::span<std::uint32_t>) const { return 0; }
};

template <class Policy>
void drive(const Policy& p) {
  session typed{p, {.layers = 2}};
  any_session erased{p, {.layers = 2}};
  auto step = typed.begin({.tokens = 1});
  (void)erased.begin({.tokens = 1});
  step.enter(0);
  step.leave();
  step.finish();
}

void drive_all() {
  drive(policy{scorer{}, right_schedule{}, right_selector{}, right_store{}});
  drive(policy{right_scorer{}, schedule{}, right_selector{}, right_store{}});
  drive(policy{right_scorer{}, right_schedule{}, selector{}, right_store{}});
  drive(policy{right_scorer{}, right_schedule{}, right_selector{}, store{}});
}
