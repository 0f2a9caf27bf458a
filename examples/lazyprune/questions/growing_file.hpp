// SPDX-License-Identifier: MIT
// A file of lines that grows while a run makes them and survives a kill. FILE.unfinished holds the lines in the order in which they were
// made. It is renamed to FILE when all are made. If FILE is a symbolic link, both files lie in the folder of the link's target.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <lazyprune/files/descriptor.hpp>

namespace lazyprune {
namespace program {

class growing_file {
 public:
  /// `resume`: goes on after the last line of an earlier run, finished or not. An incomplete last line is dropped. `read` is called with
  /// the file that holds the earlier lines, if there is one. Throws `error` if the path cannot be written, if it leads to a device or a
  /// pipe, or if another process writes to it. Also throws `error` if there is an unfinished file and `resume` is false. Throws `error`
  /// with code io if the disk fails.
  growing_file(std::filesystem::path path, bool resume, const std::function<void(const std::filesystem::path&)>& read);
  growing_file(const growing_file&) = delete;
  growing_file& operator=(const growing_file&) = delete;
  ~growing_file();

  /// True if `commit` will replace a finished file.
  bool replaces() const { return replaces_; }

  /// Adds a line, without its line break. Throws `error` with code io if the disk is full or fails. Earlier lines stay in the file.
  void add(std::string_view line);

  /// Renames the file to its final name.
  void commit();

  /// Renames the file to its final name, with the lines in this order. `line_of(place)` returns a line without its line break.
  void commit(std::span<const std::size_t> order, const std::function<std::string(std::size_t)>& line_of);

 private:
  void take_up(const std::function<void(const std::filesystem::path&)>& read);
  void remove_if_untouched();
  void sync();
  void put(std::string_view text);
  void drop_half_line();
  [[noreturn]] void fail(std::string_view expected) const;

  std::filesystem::path path_, target_, unfinished_;  // target_: path_ without symbolic links
  bool untouched_;  // true: FILE has every line of the unfinished file, so the destructor removes the unfinished file
  bool replaces_;
  file_descriptor file_;
};

/// Returns FILE.unfinished of a run that has not ended; nullopt if there is none. Throws `error` if it is not a regular file.
std::optional<std::filesystem::path> unfinished_file(const std::filesystem::path& path);

/// Returns FILE.unfinished of a run that has not ended, or else FILE; nullopt if there is neither. A run that has not yet made a line does
/// not count if there is a FILE. Throws `error` if one of them is not a regular file.
std::optional<std::filesystem::path> newest_file(const std::filesystem::path& path);

}  // namespace program
}  // namespace lazyprune
