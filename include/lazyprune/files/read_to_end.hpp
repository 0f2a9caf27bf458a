// SPDX-License-Identifier: MIT
// Text from wherever a user has it: a file, a pipe, the terminal.
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <string>

#include <sys/stat.h>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/descriptor.hpp>

namespace lazyprune {
inline namespace v0 {

/// What is not a plain file may have no end.
inline constexpr std::size_t most_streamed_bytes = std::size_t{1} << 30;

/// What the open descriptor gives to its end; `name` is for errors. Throws `error` where it cannot be read or gives more than `limit`
/// bytes, or most_streamed_bytes if it is no plain file; one of code io where reading fails.
inline std::string read_to_end(int descriptor, const std::string& name, std::size_t limit = std::numeric_limits<std::size_t>::max()) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw error(name, "stat", "to know what it is", reason_of(errno), error_code::io);
  if (!S_ISREG(status.st_mode)) limit = std::min(limit, most_streamed_bytes);

  std::string text;
  std::array<char, 1 << 16> part;
  for (;;) {
    const auto got = repeat_if_interrupted([&] { return ::read(descriptor, part.data(), part.size()); });
    if (got == 0) return text;
    if (got < 0 && (errno == EISDIR || errno == EBADF)) throw error(name, "", "a file or pipe that can be read", reason_of(errno));
    if (got < 0) throw error(name, "byte " + std::to_string(text.size()), "to read it", reason_of(errno), error_code::io);
    text.append(part.data(), static_cast<std::size_t>(got));
    if (text.size() > limit) throw error(name, "", "at most " + std::to_string(limit) + " bytes", "more");
  }
}

/// The same of a path. Throws `error` also where it cannot be opened. A pipe that has no writer yet is waited for.
inline std::string read_to_end(const std::filesystem::path& path, std::size_t limit = std::numeric_limits<std::size_t>::max()) {
  const std::string name = path.string();
  const file_descriptor file = open_file(path, O_RDONLY | O_NOCTTY, name, "a file that can be read");
  return read_to_end(file.get(), name, limit);
}

}  // namespace v0
}  // namespace lazyprune
