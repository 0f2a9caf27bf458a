// SPDX-License-Identifier: MIT
// error: with window_view also a member `window`
#include "parts.hpp"

struct mine {
  std::size_t MEMBER(window, queries) = 8;
  void score(const window_view&, std::span<float>) const {}
};

policy p{mine{}, right_schedule{}, right_selector{}, right_store{}};
