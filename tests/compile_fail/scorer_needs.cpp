// SPDX-License-Identifier: MIT
// error: with every_layer<evidence> also needs()
#include <lazyprune/session/any_session.hpp>

#include "parts.hpp"

struct mine {
  scorer_needs MEMBER(needs, wants)() const { return {.kind = evidence_kind::attention, .every_layer = false, .window = 0}; }
  void score(const every_layer<evidence>&, std::span<float>) const {}
};

policy p{mine{}, right_schedule{}, right_selector{}, right_store{}};
session typed{p, {.layers = 2}};
any_session erased{p, {.layers = 2}};
