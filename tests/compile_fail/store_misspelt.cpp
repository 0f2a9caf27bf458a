// SPDX-License-Identifier: MIT
// error: Store needs: std::size_t admit(const stored_rows&, std::span<std::uint32_t> kept) const
#include "parts.hpp"

struct mine {
  std::size_t MEMBER(admit, accept)(const stored_rows&, std::span<std::uint32_t>) const { return 0; }
};

policy p{right_scorer{}, right_schedule{}, right_selector{}, mine{}};
