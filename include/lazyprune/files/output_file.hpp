// SPDX-License-Identifier: MIT
// A file that is whole wherever it exists: written beside its place and renamed once all of it is on the disk.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include <sys/stat.h>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/descriptor.hpp>

namespace lazyprune {
inline namespace v0 {

class output_file {
 public:
  /// Throws `error` where the name cannot be written to. A device or pipe (/dev/stdout) is written to as it is.
  explicit output_file(std::filesystem::path path) : path_(std::move(path)) {
    struct stat status {};
    const bool exists = ::stat(path_.c_str(), &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) throw error(path_.string(), "", "a file to write", "a directory");
    if (exists && !S_ISREG(status.st_mode)) {
      file_ = open_file(path_, O_WRONLY, path_.string(), writable);
      return;
    }
    if (!path_.has_filename()) throw error(path_.string(), "", "the name of a file", "a directory");
    // Nobody else writes to this name: it is of this process, and not left over by an earlier one with its number.
    for (int n = 0;; ++n) {
      unfinished_ = path_;
      unfinished_ += ".unfinished-" + std::to_string(::getpid()) + "-" + std::to_string(n);
      if (::lstat(unfinished_.c_str(), &status) != 0) break;
    }
    try {
      file_ = open_file(unfinished_, O_WRONLY | O_CREAT | O_EXCL, path_.string(), writable);
    } catch (...) {
      unfinished_.clear();  // not ours to remove
      throw;
    }
  }
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  ~output_file() {
    if (!unfinished_.empty()) ::unlink(unfinished_.c_str());
  }

  /// Throws one of code io where there is no room, or the disk fails.
  void write(std::string_view text) {
    if (buffer_.size() + text.size() > buffer_bytes) flush();
    if (text.size() > buffer_bytes)
      put(text);
    else
      buffer_.append(text);
  }

  /// Gives the file its name. Without it, nothing is left of what was written, and what stood there before stays.
  void commit() {
    flush();
    const bool stored = unfinished_.empty() || ::fsync(file_.get()) == 0 || errno == EINVAL;  // EINVAL: this kind cannot be synced
    if (!stored || !file_.close()) fail("to write all of it");
    if (unfinished_.empty()) return;
    if (std::rename(unfinished_.c_str(), path_.c_str()) != 0) fail("to rename it from " + unfinished_.string());
    unfinished_.clear();
  }

 private:
  static constexpr std::size_t buffer_bytes = 1 << 16;
  static constexpr std::string_view writable = "a file that can be written";

  void put(std::string_view text) {
    const auto write = [&](const char* at, std::size_t n) { return ::write(file_.get(), at, n); };
    if (!write_fully(text, write)) fail("to write all of it");
  }

  void flush() {
    put(buffer_);
    buffer_.clear();
  }

  [[noreturn]] void fail(std::string_view expected) const {
    throw error(path_.string(), unfinished_.empty() ? "unfinished" : "unfinished and removed", expected, reason_of(errno), error_code::io);
  }

  std::filesystem::path path_, unfinished_;  // unfinished_: empty where there is nothing to rename or remove
  file_descriptor file_;
  std::string buffer_;
};

}  // namespace v0
}  // namespace lazyprune
