// SPDX-License-Identifier: MIT
// The budget of a rendering: a number of steps and of nested levels. Steps also pay for bytes that are read and written, so that the budget
// limits both time and memory.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <lazyprune/core/error.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

/// Throws an `error` without file and place. chat_template::render adds these.
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
  /// Pays for bytes to write. Call this before the bytes are allocated, so that the budget limits memory.
  void write(std::size_t bytes) { step(bytes / bytes_written_per_step + 1); }
  void read(std::size_t bytes) { step(bytes / bytes_read_per_step + 1); }
  std::size_t used() const { return steps_ - left_; }

  /// Counts one level of nesting during its lifetime. The constructor throws `error` if there are too many levels.
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
