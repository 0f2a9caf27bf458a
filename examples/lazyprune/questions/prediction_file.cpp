// SPDX-License-Identifier: MIT
#include "questions/prediction_file.hpp"

#include <utility>

#include <lazyprune/eval/records.hpp>

namespace lazyprune {
namespace program {

prediction_file::prediction_file(const std::filesystem::path& path, bool resume)
    : file_(path, resume, [this](const std::filesystem::path& earlier) {
        line_reader lines(earlier, longest_json_line);
        done_ = read_predictions(lines);
      }) {}

void prediction_file::add(eval_prediction prediction) {
  file_.add(to_line(prediction));
  done_.push_back(std::move(prediction));
}

void prediction_file::commit(std::span<const std::size_t> order) {
  file_.commit(order, [&](std::size_t place) { return to_line(done_[place]); });
}

}  // namespace program
}  // namespace lazyprune
