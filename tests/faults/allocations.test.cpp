// SPDX-License-Identifier: MIT
// Allocations of the program fail. Then it says so in one line, and the next run goes on as if nothing had happened.
#include "faulty_runs.hpp"

using namespace lazyprune_test;

namespace {

/// Returns how many allocations the command makes after main has begun.
std::size_t allocations_of(faulty_folder& runs) {
  const program_result result = runs.run_with("list");
  REQUIRE_MESSAGE(result.code == 0, result.err);
  const std::vector<std::string> log = lines_of(file_text(runs.log()));
  REQUIRE(log.back().starts_with("new "));
  return std::stoul(log.back().substr(4));
}

void fail_allocation(faulty_folder& runs, const std::string& which) {
  CAPTURE(which);
  const program_result result = runs.run_with("new:" + which + ":0");
  REQUIRE(file_text(runs.log()) == "new \n");
  if (result.code == 0) return runs.check_results(result);  // the program can do without this memory
  check_complaint(result);
  CHECK(result.code == 3);
  CHECK(remains(runs.path(), true) == std::vector<std::string>{});
  runs.check_clean_rerun();
}

}  // namespace

TEST_CASE("each of the first 2,000 allocations fails once, then 500 of the others, and some fail with all later ones") {
  if (!test_all) {
    skip("a program without sanitizers, whose operator new can be replaced");
    return;
  }
  std::size_t faults = 0;
  for (const faulty_run& what : faulty_runs()) {
    CAPTURE(what.name);
    faulty_folder runs(what);
    const std::size_t all = allocations_of(runs), first = std::min<std::size_t>(all, 2000);
    REQUIRE(all > 2000);
    std::vector<std::size_t> alone = drawn(every_fault() ? first : 6 / one_in(2u), 1, first + 1);
    for (const std::size_t n : drawn(every_fault() ? 500 : 6 / one_in(2u), first + 1, all)) alone.push_back(n);
    for (const std::size_t n : alone) fail_allocation(runs, std::to_string(n));
    const std::vector<std::size_t> with_later = drawn(every_fault() ? 100 : 2, 1, all, 2);
    for (const std::size_t n : with_later) fail_allocation(runs, std::to_string(n) + "+");
    faults += alone.size() + with_later.size();
  }
  MESSAGE(faults << " faults");
}
