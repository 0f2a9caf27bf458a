// SPDX-License-Identifier: MIT
// error: Scorer needs: void score(const attention_view&, std::span<float>) const
#include "parts.hpp"

struct mine {
  void MEMBER(score, scores)(const attention_view&, std::span<float>) const {}
};

policy p{mine{}, right_schedule{}, right_selector{}, right_store{}};
