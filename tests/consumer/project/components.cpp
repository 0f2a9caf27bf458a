// SPDX-License-Identifier: MIT
// What the components bring, and that their packages are found.
#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/eval/metric.hpp>
#include <lazyprune/files/gguf.hpp>
#include <lazyprune/model/sequence.hpp>

#include <cstddef>

std::size_t components() {
  const lazyprune::cpu backend;
  return static_cast<std::size_t>(backend.threads()) + name_of(lazyprune::eval_metric::qa_f1).size();
}
