// SPDX-License-Identifier: MIT
// The input is a trace in JSON Lines. If reading it reports no error, its lines are written and read again, and the two traces are alike.
#include <lazyprune/files/trace_file.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <lazyprune/eval/trace_compare.hpp>

#include "fuzzed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lazyprune;
  using namespace lazyprune_test;
  const std::string path = file_of(text_of({data, size}));
  const bounded_work bounds(size, {.bytes = 128});
  unless_refused([&] {
    const std::vector<step_trace> steps = read_trace(path);
    never_refused([&] {
      std::string again;
      for (const step_trace& step : steps) again += to_line(step) + '\n';
      const trace_comparison same = compare_traces(steps, read_trace(file_of(again, 1)));
      must(same.alike, "a trace is read back as it was written");
      must(same.text().find("nan") == std::string::npos, "equal traces have no distance");
    });
  });
  return 0;
}
