// SPDX-License-Identifier: MIT
// Reads the lines of a file, a pipe or stdin, one at a time. Only one line and a buffer of 64 KiB are in memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <sys/stat.h>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/descriptor.hpp>

namespace lazyprune {
inline namespace v0 {

class line_reader {
 public:
  /// The path "-" means stdin. A line may have up to `limit` bytes. Throws `error` if the file is missing, cannot be opened, or is a
  /// directory.
  explicit line_reader(const std::filesystem::path& path, std::size_t limit = std::size_t{1} << 28)
      : name_(path == "-" ? "stdin" : path.string()), limit_(limit) {
    if (path != "-") file_ = open_file(path, O_RDONLY, name_, "a file that can be read");
    struct stat status {};
    if (::fstat(descriptor(), &status) != 0) throw error(name_, "", "a file to read", reason_of(errno), error_code::io);
    if (S_ISDIR(status.st_mode)) throw error(name_, "", "a file to read", "a directory");
  }

  /// Returns the next line without its line break, or nullopt after the last line. Bytes after the last line break count as a line. Throws
  /// `error` if the line is too long. The next call then returns the line after it. Throws `error` of code io if reading fails.
  std::optional<std::string> next() {
    std::string line;
    bool any = false, too_long = false;
    ++number_;
    complete_ = false;
    for (;;) {
      if (rest_.empty() && !fill()) break;
      any = true;
      const std::size_t end = rest_.find('\n');
      const std::string_view piece = rest_.substr(0, end);
      too_long = too_long || line.size() + piece.size() > limit_;
      if (!too_long) line += piece;
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      complete_ = end != std::string_view::npos;
      if (complete_) break;
    }
    if (too_long) throw error(name_, "line " + std::to_string(number_), "at most " + std::to_string(limit_) + " bytes", "more");
    if (any) return line;
    return std::nullopt;
  }

  /// The number of the line that the last call of `next` returned, refused or looked for. The first line is number 1.
  std::size_t number() const { return number_; }
  /// Returns whether that line had a line break. The last line of a file that is still written may have none.
  bool complete() const { return complete_; }
  const std::string& name() const { return name_; }

 private:
  int descriptor() const { return file_.get() >= 0 ? file_.get() : STDIN_FILENO; }

  bool fill() {
    buffer_.resize(std::size_t{1} << 16);
    const auto got = repeat_if_interrupted([&] { return ::read(descriptor(), buffer_.data(), buffer_.size()); });
    if (got < 0) throw error(name_, "line " + std::to_string(number_), "to read it", reason_of(errno), error_code::io);
    rest_ = std::string_view(buffer_).substr(0, static_cast<std::size_t>(got));
    return got > 0;
  }

  std::string name_;
  std::size_t limit_;
  file_descriptor file_;  // none: stdin
  std::string buffer_;
  std::string_view rest_;  // the bytes in buffer_ that are not used yet
  std::size_t number_ = 0;
  bool complete_ = false;  // whether the last line had a line break
};

}  // namespace v0
}  // namespace lazyprune
