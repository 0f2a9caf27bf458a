// SPDX-License-Identifier: MIT
#pragma once

#include <lazyprune/backend/execution.hpp>

#include <span>

namespace lazyprune_test {

/// Returns the instruction sets that this architecture knows. kernels_of gives the portable kernels for all others.
inline std::span<const lazyprune::isa> paths_here() {
#if defined(__x86_64__)
  return lazyprune::every_isa;
#else
  return std::span(lazyprune::every_isa).first(1);
#endif
}

}  // namespace lazyprune_test
