// SPDX-License-Identifier: MIT
// lazyprune compare: do two traces of one input agree?
#pragma once

#include <string>

namespace lazyprune {
namespace program {

struct compare_flags {
  std::string a, b;
  double tolerance = 1e-4;
};

/// Returns the exit code: 0 where they agree, 2 where they differ.
int compare(const compare_flags& flags);

}  // namespace program
}  // namespace lazyprune
