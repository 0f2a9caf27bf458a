// SPDX-License-Identifier: MIT
// error: Schedule has keep(context) and keep(context, scores): leave one of them out, or say which to call by sees_scores()
#include "parts.hpp"

struct mine {
  std::size_t keep(const layer_context& c, std::span<const float> MEMBER(, = {})) const { return c.active; }
};

policy p{right_scorer{}, mine{}, right_selector{}, right_store{}};
