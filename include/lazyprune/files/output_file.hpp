// SPDX-License-Identifier: MIT
// A file that gets its name only when it is complete. It is written under a temporary name, and renamed once all of it is on disk.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <sys/stat.h>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/descriptor.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

/// The names of unfinished files of this process, for a signal handler. A name is in at most one slot. The object and a signal
/// handler may both remove the file: no other object has the same name. If no slot is free, a signal leaves the file behind.
class unfinished_files {
 public:
  static std::atomic<const char*>* add(const char* path) {
    for (auto& slot : slots_) {
      const char* none = nullptr;
      if (slot.compare_exchange_strong(none, path)) return &slot;
    }
    return nullptr;
  }
  static void remove_all() noexcept {
    for (auto& slot : slots_)
      if (const char* const path = slot.exchange(nullptr)) ::unlink(path);
  }

 private:
  static_assert(std::atomic<const char*>::is_always_lock_free);
  static inline std::atomic<const char*> slots_[64]{};  // NOLINT(readability-identifier-naming): private members end in _
};

}  // namespace detail

/// Removes the files that this process has not committed. It is async-signal-safe, so handlers of signals that end the process may call it.
inline void remove_unfinished_files() noexcept { detail::unfinished_files::remove_all(); }

class output_file {
 public:
  /// Throws `error` if the file cannot be written. A device or pipe (/dev/stdout) is written directly. A symbolic link stays: the file that
  /// it leads to is replaced. The new file has the permissions of the old one. Without an old one, it has `permissions` less the process's
  /// umask.
  explicit output_file(std::filesystem::path path, mode_t permissions = 0666)
      : path_(std::move(path)), target_(behind_links(path_)), permissions_(permissions) {
    struct stat status {};
    const bool exists = ::stat(path_.c_str(), &status) == 0;
    if (!exists && errno != ENOENT) refuse_file(path_.string(), writable, errno);  // the old file's permissions would be lost
    if (exists && S_ISDIR(status.st_mode)) throw error(path_.string(), "", "a file to write", "a directory");
    if (exists && !S_ISREG(status.st_mode)) {
      file_ = open_file(path_, O_WRONLY, path_.string(), writable);
      return;
    }
    if (!path_.has_filename()) throw error(path_.string(), "", "the name of a file", "a directory");
    open_beside(exists ? &status : nullptr);
  }
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  ~output_file() { remove(); }

  /// Throws `error` of code io if there is no space or the disk fails.
  void write(std::string_view text) {
    if (buffer_.size() + text.size() > buffer_bytes) flush();
    if (text.size() > buffer_bytes)
      put(text);
    else
      buffer_.append(text);
  }

  /// Gives the file its name. Without this call, the destructor removes the written bytes, and an older file stays.
  void commit() {
    flush();
    if ((unfinished_ && !sync_file(file_.get())) || !file_.close()) fail("to write all of it");
    if (!unfinished_) return;
    if (std::rename(unfinished_->c_str(), target_.c_str()) != 0) fail("to rename it from " + unfinished_->string());
    take_back();
    unfinished_.reset();
    if (!sync_folder_of(target_)) throw error(path_.string(), "", "to write its name to the disk", reason_of(errno), error_code::io);
  }

 private:
  static constexpr std::size_t buffer_bytes = 1 << 16;
  static constexpr std::string_view writable = "a file that can be written";

  /// Opens a file with a new name beside the target. `before`: the status of the file that now has the target's name, or null.
  void open_beside(const struct stat* before) {
    struct stat status {};
    std::filesystem::path name;
    // Only this object writes to this name: it contains the process id, no other thread has the number, and no file has the name yet.
    static std::atomic<unsigned> numbers = 0;
    do {
      name = target_;
      name += ".unfinished-" + std::to_string(::getpid()) + "-" + std::to_string(numbers++);
    } while (::lstat(name.c_str(), &status) == 0);
    unfinished_ = std::make_unique<const std::filesystem::path>(std::move(name));
    slot_ = detail::unfinished_files::add(unfinished_->c_str());  // before the file exists, so that no signal leaves it behind
    try {
      file_ = open_file(*unfinished_, O_WRONLY | O_CREAT | O_EXCL, path_.string(), writable, before ? 0600 : permissions_);
      if (before && !take_permissions(file_.get(), *before))
        throw error(path_.string(), "", "to set the permissions of the old file", reason_of(errno), error_code::io);
    } catch (...) {
      if (file_.get() < 0)
        take_back();
      else
        remove();
      throw;
    }
  }

  /// Takes the temporary name out of its slot. If a signal handler already took it out, the handler may still be reading the name, so its
  /// memory is never freed.
  void take_back() {
    if (slot_ && !std::exchange(slot_, nullptr)->exchange(nullptr)) static_cast<void>(unfinished_.release());
  }

  void remove() {
    if (unfinished_) ::unlink(unfinished_->c_str());  // first, so that a signal in between leaves no file behind
    take_back();
    unfinished_.reset();
  }

  void put(std::string_view text) {
    const auto write = [&](const char* at, std::size_t n) { return ::write(file_.get(), at, n); };
    if (!write_fully(text, write)) fail("to write all of it");
  }

  void flush() {
    put(buffer_);
    buffer_.clear();
  }

  [[noreturn]] void fail(std::string_view expected) const {
    throw error(path_.string(), unfinished_ ? "not complete, so removed" : "unfinished", expected, reason_of(errno), error_code::io);
  }

  std::filesystem::path path_, target_;
  mode_t permissions_;
  std::unique_ptr<const std::filesystem::path> unfinished_;  // null: nothing to rename or remove
  std::atomic<const char*>* slot_ = nullptr;                 // the slot of unfinished_
  file_descriptor file_;
  std::string buffer_;
};

}  // namespace v0
}  // namespace lazyprune
