// SPDX-License-Identifier: MIT
// Numbers that evidence must not have: NaN and infinities.
#pragma once

#include <limits>

namespace lazyprune_test {

inline constexpr float infinity = std::numeric_limits<float>::infinity(), not_a_number = std::numeric_limits<float>::quiet_NaN();

}  // namespace lazyprune_test
