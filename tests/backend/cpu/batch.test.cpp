// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/batch.hpp>

#include <doctest/doctest.h>

#include <string_view>
#include <typeinfo>

namespace lazyprune {
inline namespace v0 {
inline namespace LAZYPRUNE_COMPILED_ISA {
struct of_this_isa {};
}  // namespace LAZYPRUNE_COMPILED_ISA
}  // namespace v0
}  // namespace lazyprune

TEST_CASE("what depends on the instruction set lives in a namespace of its name, and is reached without it") {
  const std::string_view symbol = typeid(lazyprune::of_this_isa).name();  // what the linker sees
  CHECK(symbol.find(lazyprune::compiled_isa) != symbol.npos);
}

TEST_CASE("the name says what the compiler was told") {
  const std::string_view name = lazyprune::compiled_isa;
#if defined(__AVX512BW__)
  CHECK(name == "avx512bw");
#elif defined(__AVX2__) && defined(__FMA__)
  CHECK(name == "avx2_fma");
#elif defined(__x86_64__) && !defined(__SSE3__)
  CHECK(name == "sse2");
#else
  CHECK(name != "avx2_fma");
#endif
}

TEST_CASE("a batch is as wide as the registers") {
#if defined(__AVX512BW__)
  CHECK(lazyprune::batch::size == 16);
#elif defined(__AVX__)
  CHECK(lazyprune::batch::size == 8);
#else
  CHECK(lazyprune::batch::size == 4);
#endif
}
