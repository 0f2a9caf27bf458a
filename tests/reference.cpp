// SPDX-License-Identifier: MIT
// The reference, compiled once and optimized for all tests: of a function's copies linkers take the first that they meet, so that tests whose
// compiling takes longer than their work need not be.
#include <lazyprune/backend/reference.hpp>

template class lazyprune::reference<float>;
template class lazyprune::reference<double>;
