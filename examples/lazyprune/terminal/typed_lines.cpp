// SPDX-License-Identifier: MIT
#include "terminal/typed_lines.hpp"

#include <array>
#include <cerrno>
#include <iostream>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "terminal/interrupts.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/descriptor.hpp>
#include <lazyprune/files/utf8.hpp>

namespace lazyprune {
namespace program {

typed_lines::typed_lines() : typed_(::isatty(STDIN_FILENO) == 1) {}

/// Waits for input. Returns false after Ctrl-C. A plain read would not notice Ctrl-C, because the system restarts
/// it after a signal.
bool typed_lines::wait() const {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (!interrupted())
    if (::poll(&input, 1, -1) >= 0 || errno != EINTR) return true;
  return false;
}

std::optional<std::string> typed_lines::next() {
  std::optional<std::string> line = read_line();
  if (std::exchange(first_, false) && line) line = std::string(without_utf8_mark(*line));
  return line;
}

std::optional<std::string> typed_lines::read_line() {
  constexpr std::size_t longest = std::size_t{1} << 28;
  if (typed_) std::cerr << "> " << std::flush;
  for (;;) {
    if (const std::size_t end = read_.find('\n'); end != read_.npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return line;
    }
    if (read_.size() > longest) throw error("stdin", "", "lines of at most " + std::to_string(longest) + " bytes", "a longer one");
    std::array<char, 1 << 16> part;
    const bool any = wait();
    const auto got = any ? repeat_if_interrupted([&] { return ::read(STDIN_FILENO, part.data(), part.size()); }) : 0;
    if (got < 0) throw error("stdin", "", "to read it", reason_of(errno), error_code::io);
    if (got == 0) {
      if (typed_) std::cerr << std::endl;  // the shell's prompt then begins on a new line
      if (read_.empty() || !any) return std::nullopt;
      return std::exchange(read_, {});
    }
    read_.append(part.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace program
}  // namespace lazyprune
