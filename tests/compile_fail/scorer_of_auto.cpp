// SPDX-License-Identifier: MIT
// error: Scorer takes several views: its score must take exactly one view type, not auto and not evidence of any kind
// A session and an any_session with this scorer add no other errors.
#include <lazyprune/session/any_session.hpp>

#include "parts.hpp"

struct mine {
  void score(const MEMBER(attention_view, auto) &, std::span<float>) const {}
};

void drives() {
  const policy p{mine{}, right_schedule{}, right_selector{}, right_store{}};
  session typed{p, {.layers = 2}};
  any_session erased{p, {.layers = 2}};
}
