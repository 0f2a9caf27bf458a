// SPDX-License-Identifier: MIT
// error: Schedule needs: std::size_t keep(const layer_context&) const
#include "parts.hpp"

struct mine {
  std::size_t MEMBER(keep, keeps)(const layer_context& c) const { return c.active; }
};

policy p{right_scorer{}, mine{}, right_selector{}, right_store{}};
