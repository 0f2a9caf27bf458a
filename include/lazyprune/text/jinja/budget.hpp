// SPDX-License-Identifier: MIT
// What a rendering may cost: steps, which also pay for bytes that are read and written, and levels of nesting. It bounds time and memory
// alike.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <lazyprune/core/error.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

/// A fault in a rendering, without its place: who runs the template adds that.
[[noreturn]] inline void refuse(std::string_view expected, std::string_view found = {}, error_code code = error_code::bad_input) {
  throw error("", "", expected, found, code);
}

class budget {
 public:
  static constexpr std::size_t bytes_written_per_step = 16, bytes_read_per_step = 64, most_levels = 400;

  explicit budget(std::size_t steps) : steps_(steps), left_(steps) {}

  void step(std::size_t count = 1) {
    if (count > left_) refuse("a template that ends within " + std::to_string(steps_) + " steps", "more");
    left_ -= count;
  }
  /// To be called before the bytes are there: memory is refused, not regretted.
  void write(std::size_t bytes) { step(bytes / bytes_written_per_step + 1); }
  void read(std::size_t bytes) { step(bytes / bytes_read_per_step + 1); }
  std::size_t used() const { return steps_ - left_; }

  /// A level of nesting, while it lives.
  class level {
   public:
    explicit level(budget& work) : work_(work) {
      if (work_.levels_ == most_levels) refuse("a template of at most " + std::to_string(most_levels) + " nested levels", "more");
      ++work_.levels_;
    }
    level(const level&) = delete;
    level& operator=(const level&) = delete;
    ~level() { --work_.levels_; }

   private:
    budget& work_;
  };

 private:
  std::size_t steps_, left_, levels_ = 0;
};

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
