// SPDX-License-Identifier: MIT
// A bar on stderr while something takes long; nothing where nobody watches.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

#include <unistd.h>

class progress_bar {
 public:
  explicit progress_bar(std::string what) : what_(std::move(what)), watched_(::isatty(STDERR_FILENO) == 1) {}
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;
  ~progress_bar() {
    if (drawn_) std::fputs("\r\x1b[K", stderr);
  }

  void show(std::size_t done, std::size_t of) {
    if (!watched_ || of == 0) return;
    drawn_ = true;
    const std::size_t columns = done * width / of;
    std::fprintf(stderr, "\r%s [%s%s] %zu/%zu", what_.c_str(), std::string(columns, '=').c_str(), std::string(width - columns, ' ').c_str(),
                 done, of);
    std::fflush(stderr);
  }

 private:
  static constexpr std::size_t width = 40;
  std::string what_;
  bool watched_;
  bool drawn_ = false;
};
