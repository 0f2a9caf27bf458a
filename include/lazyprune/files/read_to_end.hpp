// SPDX-License-Identifier: MIT
// Reads text from a file, a pipe or the terminal.
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

/// The limit for input that may be endless because it is not a plain file.
inline constexpr std::size_t most_streamed_bytes = std::size_t{1} << 30;

/// Reads the open descriptor to its end. `name` is the name in errors. If the descriptor is not a plain file, `limit` is lowered to
/// most_streamed_bytes. Throws `error` if the descriptor is a folder, is not open for reading, or has more than `limit` bytes. Throws
/// `error` of code io if the system fails to read it.
inline std::string read_to_end(int descriptor, const std::string& name, std::size_t limit = std::numeric_limits<std::size_t>::max()) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw error(name, "stat", "to read its type and size", reason_of(errno), error_code::io);
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

/// Reads the file at this path to its end. Throws `error` as the function above, and also if the file cannot be opened. If the file is a
/// pipe without a writer, waits for a writer.
inline std::string read_to_end(const std::filesystem::path& path, std::size_t limit = std::numeric_limits<std::size_t>::max()) {
  const std::string name = path.string();
  const file_descriptor file = open_file(path, O_RDONLY | O_NOCTTY, name, "a file that can be read");
  return read_to_end(file.get(), name, limit);
}

}  // namespace v0
}  // namespace lazyprune
