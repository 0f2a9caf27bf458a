// SPDX-License-Identifier: MIT
// What every backend is made from.
#pragma once

namespace lazyprune::inline v0 {

struct execution {
  int threads = 0;  // 0: all that the process may use. Results do not depend on it
};

}  // namespace lazyprune::inline v0
