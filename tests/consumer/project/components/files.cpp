// SPDX-License-Identifier: MIT
#include <lazyprune/files/checkpoint.hpp>

#include <cstddef>

std::size_t files(const lazyprune::checkpoint& model) { return model.tensors().size(); }
