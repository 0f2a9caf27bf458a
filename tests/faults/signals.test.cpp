// SPDX-License-Identifier: MIT
// Signals end the program at random moments. No prediction is lost or made twice, and the results are those of an undisturbed run.
#include <chrono>
#include <csignal>
#include <thread>

#include "faulty_runs.hpp"

using namespace lazyprune_test;

namespace {

using clock_type = std::chrono::steady_clock;

std::chrono::microseconds time_of(const faulty_folder& runs) {
  const auto start = clock_type::now();
  runs.clear();
  REQUIRE(runs.start()->wait().code == 0);
  return std::chrono::duration_cast<std::chrono::microseconds>(clock_type::now() - start);
}

/// Kills the command `times` times, each time at a random moment, and lets it go on. A command that has ended begins anew.
void kill_at_random(const faulty_run& what, const std::vector<int>& signals, int times, unsigned seed) {
  CAPTURE(what.name);
  faulty_folder runs(what);
  const auto whole = time_of(runs);
  std::mt19937 random(seed);
  runs.clear();
  std::vector<std::string> before;
  for (int killed = 0; killed < times;) {
    const int signal = signals[static_cast<std::size_t>(killed) % signals.size()];
    CAPTURE(killed);
    CAPTURE(signal);
    const auto program = runs.start();
    std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution<long>(0, whole.count())(random)));
    program->send(signal);
    const program_result result = program->wait();
    if (!what.predictions.empty()) {
      const std::vector<std::string> now = runs.predictions();
      for (const std::string& line : before) REQUIRE(std::ranges::count(now, line) == 1);  // its times say that it was not made again
      before = now;
    }
    if (signal != SIGKILL && result.code != 0) {
      CHECK(result.code == 128 + signal);
      CHECK(result.err.find("lazyprune: ") == std::string::npos);
      CHECK(remains(runs.path(), true) == std::vector<std::string>{});
    }
    if (result.code == 0) {
      if (signal != SIGINT || what.name != "run") CHECK(what.results(runs.path()) == runs.expected());  // Ctrl-C ends an answer early
      if (signal != SIGKILL) CHECK(remains(runs.path(), false) == std::vector<std::string>{});
      runs.clear();
      before.clear();
    } else {
      ++killed;
    }
  }
  // Unfinished files of killed processes may stay. Each run makes its own.
  const program_result last = runs.start()->wait();
  REQUIRE_MESSAGE(last.code == 0, last.err);
  CHECK(what.results(runs.path()) == runs.expected());
  if (!what.predictions.empty())
    for (const std::string& line : before) CHECK(std::ranges::count(runs.predictions(), line) == 1);
}

}  // namespace

TEST_CASE("SIGKILL at random moments: nothing is lost, nothing is made twice, and the tables are the same") {
  for (const faulty_run& what : faulty_runs()) kill_at_random(what, {SIGKILL}, every_fault() ? 34 : 3, 3);
}

TEST_CASE("SIGTERM, SIGHUP, SIGQUIT and SIGINT at random moments leave no temporary file, and the next run goes on") {
  for (const faulty_run& what : faulty_runs()) kill_at_random(what, {SIGTERM, SIGHUP, SIGQUIT, SIGINT}, every_fault() ? 40 : 4, 4);
}
