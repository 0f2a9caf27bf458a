// SPDX-License-Identifier: MIT
#include <lazyprune/eval/metric.hpp>

#include <cstddef>

std::size_t eval() { return name_of(lazyprune::eval_metric::qa_f1).size(); }
