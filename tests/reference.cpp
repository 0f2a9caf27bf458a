// SPDX-License-Identifier: MIT
// The reference backend, compiled once and optimized for all tests. Where object files have copies of the same function, the linker takes
// the first copy. With the copies of this file, tests run fast although they are compiled without optimization.
#include <lazyprune/backend/reference.hpp>

template class lazyprune::reference<float>;
template class lazyprune::reference<double>;
