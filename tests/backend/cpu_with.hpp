// SPDX-License-Identifier: MIT
// The backend cpu with one instruction set each, for tests that run with all of them; where the processor lacks one, they say so.
#pragma once

#include <lazyprune/backend/cpu.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace lazyprune_test {

template <lazyprune::isa Instructions>
struct cpu_with : lazyprune::cpu {
  static constexpr lazyprune::isa uses = Instructions;

  cpu_with() : cpu_with(lazyprune::execution{}) {}
  explicit cpu_with(const lazyprune::execution& e) : cpu(lazyprune::execution{.threads = e.threads, .instructions = Instructions}) {}
};

/// Whether the backend cannot be made here, with a word about it.
template <class Backend>
bool is_missing() {
  if constexpr (requires { Backend::uses; }) {
    if (lazyprune::has(Backend::uses)) return false;
    MESSAGE("skipped: this processor lacks " << std::string(name_of(Backend::uses)));
    return true;
  }
  return false;
}

/// Activations as the backend's products take them: rounded to bf16 where its instructions multiply nothing else.
template <class Backend>
std::vector<float> as_multiplied(std::vector<float> x, lazyprune::dtype weights) {
  if constexpr (requires { Backend::uses; })
    if (weights == lazyprune::dtype::bf16 && Backend::uses >= lazyprune::isa::avx512_bf16)
      for (float& number : x) number = lazyprune::float_of_bf16(lazyprune::bf16_of_float(number));
  return x;
}

}  // namespace lazyprune_test
