// SPDX-License-Identifier: MIT
// error: Selector needs: std::size_t select(const candidates&, std::span<std::uint32_t> kept) const
#include "parts.hpp"

struct mine {
  std::size_t MEMBER(select, choose)(const candidates& c, std::span<std::uint32_t>) const { return c.keep; }
};

policy p{right_scorer{}, right_schedule{}, mine{}, right_store{}};
