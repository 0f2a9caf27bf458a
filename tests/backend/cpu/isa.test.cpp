// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/isa.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>

#include <lazyprune/backend/cpu.hpp>

using namespace lazyprune;

namespace {

/// LAZYPRUNE_ISA for the time of a test.
class variable {
 public:
  explicit variable(const char* value) {
    if (const char* old = std::getenv("LAZYPRUNE_ISA")) before_ = old;
    set(value);
  }
  ~variable() { set(before_ ? before_->c_str() : nullptr); }
  variable(const variable&) = delete;

 private:
  static void set(const char* value) {
    if (value)
      ::setenv("LAZYPRUNE_ISA", value, 1);
    else
      ::unsetenv("LAZYPRUNE_ISA");
  }

  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("each instruction set has all that stand before it") {
  for (std::size_t i = 1; i < std::size(every_isa); ++i)
    if (has(every_isa[i])) CHECK(has(every_isa[i - 1]));
}

TEST_CASE("what the compiler's library finds is found, and no more") {
  __builtin_cpu_init();
  if (has(isa::avx2)) CHECK((__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
  if (has(isa::avx512))
    CHECK((__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl")));
  if (!__builtin_cpu_supports("avx2")) CHECK(!has(isa::avx2));
  CHECK(detail::this_processor().l1 >= 8 << 10);
  CHECK(detail::this_processor().l2 >= detail::this_processor().l1);
}

TEST_CASE("the environment names an instruction set; what is asked for in code comes first") {
  const variable unset(nullptr);
  CHECK(isa_of({}) == best_isa());
  for (const isa i : every_isa) {
    if (!has(i)) continue;
    const variable named(std::string(name_of(i)).c_str());
    CHECK(isa_of({}) == i);
    CHECK(cpu().instructions() == i);
    CHECK(isa_of({.instructions = isa::avx2}) == isa::avx2);
  }
  const variable empty("");
  CHECK(isa_of({}) == best_isa());
}

TEST_CASE("an instruction set that is not there, or no instruction set, is refused when the backend is made") {
  std::string available;
  for (const isa i : every_isa)
    if (has(i)) available += (available.empty() ? "" : ", ") + std::string(name_of(i));
  const std::string expected = ": expected what this processor has: " + available + ", found ";
  for (const char* name : {"avx3", "AVX2", "avx2 ", "generic"}) {
    const variable wrong(name);
    CHECK_THROWS_WITH_AS(cpu(), ("LAZYPRUNE_ISA" + expected + name).c_str(), error);
  }
  const variable unset(nullptr);
  for (const isa i : every_isa)
    if (!has(i)) {
      const std::string name(name_of(i));
      CHECK_THROWS_WITH_AS(cpu(execution{.instructions = i}), ("instructions" + expected + name).c_str(), error);
      const variable lacking(name.c_str());
      CHECK_THROWS_WITH_AS(cpu(), ("LAZYPRUNE_ISA" + expected + name).c_str(), error);
    }
}
