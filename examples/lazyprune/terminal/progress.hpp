// SPDX-License-Identifier: MIT
// A progress bar on stderr with the time left. It draws nothing if stderr is not a terminal.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>

#include <unistd.h>

namespace lazyprune {
namespace program {

class progress_bar {
 public:
  /// `what` is the label, and `unit` the unit that is counted. If `unit` is empty, neither a unit nor a rate is shown.
  explicit progress_bar(std::string what, std::string unit = {})
      : what_(std::move(what)), unit_(std::move(unit)), watched_(::isatty(STDERR_FILENO) == 1) {}
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;
  ~progress_bar() {
    if (drawn_) std::fputs("\r\x1b[K", stderr);
  }

  void show(std::size_t done, std::size_t of) {
    if (!watched_ || of == 0) return;
    if (!std::exchange(drawn_, true)) {
      first_ = done;
      start_ = clock::now();
    }
    const std::size_t columns = done * width / of;
    std::fprintf(stderr, "\r%s [%s%s] %zu/%zu%s%s%s\x1b[K", what_.c_str(), std::string(columns, '=').c_str(),
                 std::string(width - columns, ' ').c_str(), done, of, unit_.empty() ? "" : (' ' + unit_).c_str(), rate(done).c_str(),
                 time_left(done, of).c_str());
    std::fflush(stderr);
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t width = 40;

  std::string rate(std::size_t done) const {
    const double spent = std::chrono::duration<double>(clock::now() - start_).count();
    if (unit_.empty() || done <= first_ || spent <= 0) return "";
    return ", " + std::to_string(static_cast<std::size_t>(static_cast<double>(done - first_) / spent)) + ' ' + unit_ + "/s";
  }

  /// Estimates the time left from the rate so far. Returns an empty text in the first three seconds, while the count has not grown, and at
  /// the end.
  std::string time_left(std::size_t done, std::size_t of) const {
    const double spent = std::chrono::duration<double>(clock::now() - start_).count();
    if (done <= first_ || done >= of || spent < 3.0) return "";
    const auto seconds = static_cast<std::size_t>(spent / static_cast<double>(done - first_) * static_cast<double>(of - done));
    const auto two = [](std::size_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
    const std::string hours = seconds >= 3600 ? std::to_string(seconds / 3600) + ':' : "";
    return ", " + hours + two(seconds / 60 % 60) + ':' + two(seconds % 60) + " left";
  }

  std::string what_, unit_;
  bool watched_;
  bool drawn_ = false;
  std::size_t first_ = 0;  // `done` when the bar was first drawn, at time `start_`
  clock::time_point start_;
};

}  // namespace program
}  // namespace lazyprune
