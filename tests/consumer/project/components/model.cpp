// SPDX-License-Identifier: MIT
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/model/sequence.hpp>

#include <cstddef>

std::size_t model() { return sizeof(lazyprune::sequence<lazyprune::reference<float>>); }
