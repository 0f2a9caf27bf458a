// SPDX-License-Identifier: MIT
// error: Scorer takes several views: its score must take exactly one view type, not auto and not evidence of any kind
#include "parts.hpp"

struct mine {
  void score(const MEMBER(key_view, evidence) &, std::span<float>) const {}
};

policy p{mine{}, right_schedule{}, right_selector{}, right_store{}};
