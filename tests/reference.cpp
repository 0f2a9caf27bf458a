// SPDX-License-Identifier: MIT
// The reference backend, compiled once and optimized for all tests. The linker takes the first copy of a function that it meets. Tests that
// take longer to compile than to run can therefore be compiled without optimization.
#include <lazyprune/backend/reference.hpp>

template class lazyprune::reference<float>;
template class lazyprune::reference<double>;
