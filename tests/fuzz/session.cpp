// SPDX-License-Identifier: MIT
// The input is a walk of operations on sessions (session/random_walk.hpp). Its first bytes choose the store and the scores, and each later
// byte is a decision. After every operation, each session is compared with the naive one.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <span>

#include "../session/random_walk.hpp"
#include "fuzzed.hpp"

namespace {

using namespace lazyprune;

/// Makes failed assertions end the program. The fuzzer then reports the input.
void abort_on_failure() {
  static doctest::Context context;
  context.setAsDefaultForAssertsOutOfTestCases();
  context.setAssertHandler([](const doctest::AssertData& failed) {
    std::cerr << failed.m_file << ':' << failed.m_line << ": " << failed.m_expr << " -> " << failed.m_decomp << '\n';
    std::abort();
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool ready = (abort_on_failure(), true);
  if (!ready || size < 4) return 0;
  const lazyprune_test::bounded_work bounds(size, {.more_bytes = std::size_t{1} << 20, .microseconds = 5000});
  std::span<const std::uint8_t> left(data + 4, size - 4);
  const auto next = [&left]() -> std::uint32_t {
    if (left.empty()) return 0;
    const std::uint32_t byte = left.front();
    left = left.subspan(1);
    return byte * 0x01010101u;  // a decision may look at the lowest bits or at the highest
  };
  random_walk::events seen;
  naive::rules rules{.layers = 0, .count = {}, .store = naive::rules::keep_all, .store_rows = 1u + data[1] % 9};
  any_store store = keep_all{};
  switch (data[0] % 5) {
    case 0:
      break;
    case 1:
      rules.store = naive::rules::bounded;
      store = bounded{rules.store_rows};
      break;
    case 2:
      rules.store = naive::rules::none;
      store = none{};
      break;
    case 3:
      rules.store = naive::rules::for_good;
      store = none{.for_good = true};
      break;
    default:
      rules.store = naive::rules::chosen;
      rules.admits = random_walk::by_hash::admits;
      store = random_walk::by_hash{&seen.refused_reads};
  }
  random_walk::walk walk(data[2] * 256u + data[3], next, store, rules, seen);
  while (!left.empty()) walk.go(1);
  return 0;
}
