// SPDX-License-Identifier: MIT
// error: Scorer needs: void score(const attention_view&, std::span<float>) const
// A session of it, typed and erased, has no more to say.
#include <lazyprune/session/any_session.hpp>

#include "parts.hpp"

struct mine {
  void MEMBER(score, scores)(const attention_view&, std::span<float>) const {}
};

void drives() {
  const policy p{mine{}, right_schedule{}, right_selector{}, right_store{}};
  session typed{p, {.layers = 2}};
  any_session erased{p, {.layers = 2}};
  auto step = typed.begin({.tokens = 1});
  (void)erased.begin({.tokens = 1});
  step.enter(0);
  step.leave();
  step.finish();
}
