// SPDX-License-Identifier: MIT
// The input is the record of a run and, after a zero byte, a line of a fidelity's results. Each is written and read again.
#include <questions/comparison_file.hpp>
#include <questions/run_record.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <lazyprune/files/json.hpp>

#include "fuzzed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lazyprune;
  using namespace lazyprune::program;
  using namespace lazyprune_test;
  std::string_view rest = text_of({data, size});
  const std::string_view record_text = next_part(rest);
  const bounded_work bounds(size, {.bytes = 512, .microseconds = 1000});
  unless_refused([&] {
    const run_record record = parse_run_record(record_text, "run.json");
    never_refused([&] {
      must(parse_run_record(json_of(record), "again") == record, "a record is read back");
      std::size_t asks = 0;
      for (const recorded_sample& sample : record.samples) asks += sample.asks.size();
      must(record.in_order().size() == asks, "each ask has a place in the order");
      for (const run_place& place : record.in_order())
        must(place.ask < record.samples[place.sample].asks.size(), "a place in the order is an ask");
    });
  });
  unless_refused([&] {
    const recorded_comparison comparison = recorded_comparison::read(json_value::parse(rest, "comparisons.jsonl", rest.size()));
    never_refused([&] {
      const recorded_comparison again = recorded_comparison::read(json_value::parse(comparison.line(), "again", comparison.line().size()));
      must(again.ask == comparison.ask && again.value == comparison.value, "a comparison is read back");
    });
  });
  return 0;
}
