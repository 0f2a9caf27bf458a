// SPDX-License-Identifier: MIT
// Threads share a model and documents. Each thread has sequences of its own, and gets the bits that it gets alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <vector>

#include <unistd.h>

#include <counted_allocations.hpp>

#include "history.hpp"
#include "on_threads.hpp"
#include "soak_timer.hpp"

using namespace lazyprune;
using lazyprune_test::history, lazyprune_test::history_events, lazyprune_test::on_threads, lazyprune_test::shared_model;

namespace {

constexpr std::size_t threads = 16, operations = 40;

/// Runs a round of histories alone, one after the other, and then all of them at the same time. Every fourth of these computes on two
/// threads. Returns the number of histories with other results; adds to `seen`.
std::size_t differences_of_round(std::size_t round, history_events& seen) {
  const auto seed = [round](std::size_t i) { return static_cast<std::uint32_t>(round * threads + i); };
  std::vector<std::vector<std::uint64_t>> alone(threads), together(threads);
  std::vector<history_events> events(threads);
  {
    const shared_model with;
    for (std::size_t i = 0; i < threads; ++i) alone[i] = history(with, seed(i), 1).run(operations);
  }
  const shared_model with;  // another one, so that its rotary tables grow while the threads run
  on_threads(threads, [&](std::size_t i) {
    history own(with, seed(i), i % 4 == 0 ? 2 : 1);
    together[i] = own.run(operations);
    events[i] = own.seen();
  });
  std::size_t differences = 0;
  for (std::size_t i = 0; i < threads; ++i) {
    seen += events[i];
    for (std::size_t k = 0; k < operations; ++k) {
      if (alone[i][k] == together[i][k]) continue;
      ++differences;
      MESSAGE("round " << round << ", history " << i << ": other results from operation " << k << " on");
      break;
    }
  }
  return differences;
}

/// The process's resident memory, in bytes.
std::size_t resident() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("16 threads with random histories on one model get the bits of each history alone, and give all memory back") {
  const lazyprune_test::soak_timer time;
  history_events seen;
  constexpr std::size_t warm_up = 2;  // rounds in which the process makes what it keeps
  std::ptrdiff_t live = 0;
  std::size_t resident_before = 0, most_resident = 0;
  std::size_t round = 0;
  do {
    CAPTURE(round);
    REQUIRE(differences_of_round(round, seen) == 0);
    if (++round == warm_up) {
      live = lazyprune_test::live_bytes;
      resident_before = resident();
    }
    if (round > warm_up) {
      REQUIRE(lazyprune_test::live_bytes == live);
      most_resident = std::max(most_resident, resident());
    }
  } while (round <= warm_up || time.goes_on());
  CHECK(seen.fewest() > 0);
  const std::size_t growth = most_resident - std::min(most_resident, resident_before);
  MESSAGE(round << " rounds, " << round * threads * operations << " operations of " << threads << " sequences compared, resident memory "
                << (resident_before >> 10) << " KiB after " << warm_up << " rounds, at most " << (growth >> 10) << " KiB more later");
  if (lazyprune_test::counts_allocations) CHECK(growth <= std::size_t{16} << 20);  // ThreadSanitizer needs memory of its own
}
