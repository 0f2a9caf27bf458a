// SPDX-License-Identifier: MIT
#include "questions/growing_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include <sys/file.h>
#include <sys/stat.h>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/output_file.hpp>
#include <lazyprune/files/read_to_end.hpp>

namespace lazyprune {
namespace program {
namespace {

/// Returns the status of the regular file that a path leads to; nullopt if there is nothing. Throws `error` if there is something else,
/// such as a pipe: `commit` would replace it by a file. Also throws `error` if the system does not say what is there.
std::optional<struct stat> status_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) refuse_file(path.string(), "a file that can be written", errno);
    return std::nullopt;
  }
  if (S_ISDIR(status.st_mode)) throw error(path.string(), "", "a file to write", "a directory");
  if (!S_ISREG(status.st_mode)) throw error(path.string(), "", "a regular file to write", "a device, a pipe or a socket");
  return status;
}

bool has_bytes(const std::optional<struct stat>& status) { return status && status->st_size > 0; }

}  // namespace

growing_file::growing_file(std::filesystem::path path, bool resume, const std::function<void(const std::filesystem::path&)>& read)
    : path_(std::move(path)), target_(behind_links(path_)), unfinished_(target_) {
  const std::optional<struct stat> before = status_of(path_);
  if (!path_.has_filename()) throw error(path_.string(), "", "a file to write", "a directory");
  unfinished_ += ".unfinished";
  untouched_ = !has_bytes(status_of(unfinished_));
  replaces_ = !resume && before;
  if (!untouched_ && !resume) throw error(unfinished_.string(), "", "--resume, or no such file", "that of an interrupted run");
  file_ =
      open_file(unfinished_, O_RDWR | O_CREAT | O_APPEND, path_.string(), "a file that can be written", untouched_ && before ? 0600 : 0666);
  if (repeat_if_interrupted([&] { return ::flock(file_.get(), LOCK_EX | LOCK_NB); }) != 0) {
    if (errno == EWOULDBLOCK) throw error(unfinished_.string(), "", "no other process that writes to it", "one");
    fail("to lock it");
  }
  try {
    if (untouched_ && before && !take_permissions(file_.get(), *before)) fail("to give it the permissions of " + path_.string());
    if (resume) take_up(read);
  } catch (...) {
    remove_if_untouched();
    throw;
  }
}

growing_file::~growing_file() { remove_if_untouched(); }

void growing_file::remove_if_untouched() {
  if (untouched_) ::unlink(unfinished_.c_str());
}

/// Copies the finished file if the unfinished one has no lines of its own. It may be the beginning of such a copy, left behind by a process
/// that was killed here.
void growing_file::take_up(const std::function<void(const std::filesystem::path&)>& read) {
  const std::string begun = read_to_end(unfinished_);
  if (status_of(path_)) {
    std::string finished = read_to_end(path_);
    if (!finished.empty() && finished.back() != '\n') finished += '\n';
    if (finished.starts_with(begun)) {
      untouched_ = true;
      read(path_);
      put(std::string_view(finished).substr(begun.size()));
      return;
    }
  }
  drop_half_line();
  read(unfinished_);
}

void growing_file::add(std::string_view line) {
  put(std::string(line) + '\n');
  untouched_ = false;
}

void growing_file::commit() {
  sync();
  if (std::rename(unfinished_.c_str(), target_.c_str()) != 0) fail("to rename it from " + unfinished_.string());
  if (!sync_folder_of(target_)) fail("to keep its name on the disk");
  untouched_ = false;
}

void growing_file::commit(std::span<const std::size_t> order, const std::function<std::string(std::size_t)>& line_of) {
  if (std::ranges::is_sorted(order)) return commit();
  sync();  // until the ordered file is complete, the unfinished file is the only copy
  try {
    output_file file(path_);
    for (const std::size_t place : order) file.write(line_of(place) + '\n');
    file.commit();
  } catch (const error& fault) {
    if (fault.code() != error_code::io) throw;
    throw error(path_.string(), "unfinished: " + unfinished_.string(), "to put its lines in order", fault.what(), error_code::io);
  }
  ::unlink(unfinished_.c_str());
  untouched_ = false;
}

void growing_file::sync() {
  if (!sync_file(file_.get())) fail("to write all of it");
}

/// Writes with one call. If the program is killed, only the last line can be incomplete.
void growing_file::put(std::string_view text) {
  const auto write = [&](const char* at, std::size_t n) { return ::write(file_.get(), at, n); };
  if (write_fully(text, write)) return;
  const int reason = errno;
  drop_half_line();  // other threads may still add lines, which must begin on a new line
  errno = reason;
  fail("to add a line");
}

void growing_file::drop_half_line() {
  char last = '\n';
  ::off_t end = ::lseek(file_.get(), 0, SEEK_END);
  for (; end > 0; --end) {
    if (repeat_if_interrupted([&] { return ::pread(file_.get(), &last, 1, end - 1); }) != 1) fail("to read it");
    if (last == '\n') break;
  }
  if (end < 0 || repeat_if_interrupted([&] { return ::ftruncate(file_.get(), end); }) != 0)
    fail("to remove an incomplete line from its end");
}

void growing_file::fail(std::string_view expected) const {
  throw error(path_.string(), untouched_ ? "nothing was written" : "unfinished: " + unfinished_.string(), expected, reason_of(errno),
              error_code::io);
}

std::optional<std::filesystem::path> unfinished_file(const std::filesystem::path& path) {
  std::filesystem::path unfinished = behind_links(path);
  unfinished += ".unfinished";
  return status_of(unfinished) ? std::optional(unfinished) : std::nullopt;
}

std::optional<std::filesystem::path> newest_file(const std::filesystem::path& path) {
  const bool has_finished = status_of(path).has_value();
  const auto unfinished = unfinished_file(path);
  if (unfinished && (!has_finished || has_bytes(status_of(*unfinished)))) return unfinished;
  if (has_finished) return path;
  return std::nullopt;
}

}  // namespace program
}  // namespace lazyprune
