// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/isa.hpp>

#include <doctest/doctest.h>

#include <lazyprune/backend/cpu.hpp>

#include <fault.hpp>

using namespace lazyprune;
using lazyprune_test::error_of;
using lazyprune_test::unsupported;

TEST_CASE("a processor with an instruction set has all sets that are listed before it") {
  for (std::size_t i = 1; i < std::size(every_isa); ++i)
    if (has(every_isa[i])) CHECK(has(every_isa[i - 1]));
}

TEST_CASE("AVX2 and AVX-512 are found only if the compiler's library finds them, too") {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (has(isa::avx2)) CHECK((__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
  if (has(isa::avx512))
    CHECK((__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl")));
  if (detail::this_processor().avx512_vnni) CHECK(__builtin_cpu_supports("avx512vnni"));
  if (!__builtin_cpu_supports("avx2")) CHECK(!has(isa::avx2));
#else
  CHECK(!has(isa::avx2));  // only x86-64 has it
#endif
  CHECK(detail::this_processor().l1 >= 8 << 10);
  CHECK(detail::this_processor().l2 >= detail::this_processor().l1);
}

TEST_CASE("the default is the fastest instruction set; with `exact`, the fastest that does not round activations") {
  CHECK(isa_of({}) == best_isa());
  for (const isa i : every_isa) {
    if (!has(i)) continue;
    CHECK(isa_of({.instructions = i}) == i);
    CHECK(isa_named(name_of(i), "here") == i);
    CHECK(cpu(execution{.instructions = i}).instructions() == i);
    CHECK(cpu(execution{.instructions = i, .exact = true}).instructions() == std::min(i, isa::avx512));
  }
}

TEST_CASE("a missing or unknown instruction set is refused when the backend is constructed") {
  std::string available;
  for (const isa i : every_isa)
    if (has(i)) available += (available.empty() ? "" : ", ") + std::string(name_of(i));
  const auto refused = [&](std::string where, std::string_view name) {
    return unsupported(std::move(where), {available + ", found " + std::string(name)});
  };
  for (const std::string name : {"avx3", "AVX2", "avx2 ", "generic"})
    CHECK(error_of([&] { isa_named(name, "LAZYPRUNE_ISA"); }) == refused("LAZYPRUNE_ISA", name));
  for (const isa i : every_isa)
    if (!has(i)) {
      const std::string name(name_of(i));
      CHECK(error_of([&] { isa_named(name, "here"); }) == refused("here", name));
      for (const bool exact : {false, true})
        CHECK(error_of([&] { cpu(execution{.instructions = i, .exact = exact}); }) == refused("instructions", name));
    }
}
