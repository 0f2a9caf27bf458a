// SPDX-License-Identifier: MIT
// The input is a file of samples and predictions in JSON Lines. Each line is read as both. A prediction is written and read again, and
// scored by each metric.
#include <lazyprune/eval/records.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/eval/tasks.hpp>

#include "fuzzed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lazyprune;
  using namespace lazyprune_test;
  const std::string path = file_of(text_of({data, size}));
  const bounded_work bounds(size, {.bytes = 256, .microseconds = 2000});
  const auto pass_over = [](const error& fault) { must(std::string_view(fault.what()).find('\n') == std::string_view::npos, "one line"); };
  unless_refused([&] {
    line_reader samples(path);
    read_samples(samples, pass_over);
    line_reader lines(path);
    const std::vector<eval_prediction> predictions = read_predictions(lines, pass_over);
    never_refused([&] {
      std::string again;
      for (const eval_prediction& each : predictions) again += to_line(each) + '\n';
      line_reader written(file_of(again, 1));
      must(read_predictions(written).size() == predictions.size(), "a prediction is read back");
    });
    for (const std::string_view name : {"qasper", "gov_report", "trec", "passage_count", "lcc", "niah_single_1", "qa_1"})
      unless_refused([&] {
        line_reader scored(path);
        const eval_summary summary = score_predictions(scored, *find_task(name), "m", pass_over, {.resamples = 10});
        must(summary.score.mean >= 0 && summary.score.mean <= 100, "a score is a percentage");
      });
  });
  return 0;
}
