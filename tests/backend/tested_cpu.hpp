// SPDX-License-Identifier: MIT
// The backend cpu with the instruction set that is being tested.
#pragma once

#include <lazyprune/backend/cpu.hpp>

#include <vector>

#include "../tested_path.hpp"

namespace lazyprune_test {

struct tested_cpu : lazyprune::cpu {
  explicit tested_cpu(const lazyprune::execution& e = {}) : cpu(tested_execution(e)) {}

  /// Returns true if products with bf16 weights, keys or values round the other operand to bf16.
  bool rounds() const { return instructions() >= lazyprune::isa::avx512_bf16; }
};

}  // namespace lazyprune_test
