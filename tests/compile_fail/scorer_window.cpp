// SPDX-License-Identifier: MIT
// error: with window_view also a member `window`
// A session with this scorer adds no other errors.
#include <lazyprune/session/any_session.hpp>

#include "parts.hpp"

struct mine {
  std::size_t MEMBER(window, queries) = 8;
  void score(const window_view&, std::span<float>) const {}
};

policy p{mine{}, right_schedule{}, right_selector{}, right_store{}};
session typed{p, {.layers = 2}};
any_session erased{p, {.layers = 2}};
