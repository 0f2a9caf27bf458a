// SPDX-License-Identifier: MIT
// POSIX file descriptors that close themselves. The functions here repeat interrupted calls, and tell faults of the machine from faults of
// the user.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lazyprune/core/error.hpp>

namespace lazyprune {
inline namespace v0 {

inline std::string reason_of(int code) { return std::generic_category().message(code); }

template <class Call>
auto repeat_if_interrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

class file_descriptor {
 public:
  explicit file_descriptor(int number = -1) : number_(number) {}
  file_descriptor(file_descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  file_descriptor& operator=(file_descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~file_descriptor() { close(); }

  int get() const { return number_; }
  /// Closes the descriptor. Returns false, with errno set, if written bytes may be lost. EINTR is not an error, since the descriptor is
  /// closed even then.
  bool close() { return number_ < 0 || ::close(std::exchange(number_, -1)) == 0 || errno == EINTR; }

 private:
  int number_;
};

/// Throws that a file cannot be opened, for this errno: `error` if the path or the file's permissions are at fault, and `error` of code io
/// if the machine is. `name` is the file's name in errors.
[[noreturn]] inline void refuse_file(const std::string& name, std::string_view expected, int code) {
  for (const int machine : {EIO, ENOMEM, EMFILE, ENFILE, ENOSPC, EDQUOT})
    if (code == machine) throw error(name, "open", expected, reason_of(code), error_code::io);
  throw error(name, "", expected, reason_of(code));
}

/// Opens a file. Throws `error` if the path or the file's permissions are at fault, and `error` of code io if the machine is. `name` is the
/// file's name in errors. `mode`: the permissions of a new file, before the umask.
inline file_descriptor open_file(const std::filesystem::path& path, int flags, const std::string& name, std::string_view expected,
                                 mode_t mode = 0666) {
  file_descriptor file(repeat_if_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); }));
  if (file.get() >= 0) return file;
  refuse_file(name, expected, errno);
}

/// Follows the symbolic links from `path` and returns the path at their end. No file need exist there. Throws `error` as open_file does, so
/// that nobody takes a link for a file.
inline std::filesystem::path behind_links(std::filesystem::path path) {
  std::error_code failure;
  for (int links = 0; links < 40; ++links) {
    const std::filesystem::file_type type = std::filesystem::symlink_status(path, failure).type();
    if (type != std::filesystem::file_type::symlink && type != std::filesystem::file_type::none) break;
    const std::filesystem::path to = type == std::filesystem::file_type::none ? "" : std::filesystem::read_symlink(path, failure);
    if (failure) refuse_file(path.string(), "a file that can be written", failure.value());
    path = path.parent_path() / to;
  }
  return path;
}

/// Returns whether two paths lead to one file or folder. If there is none at one of them, returns false. Throws `error` as open_file does,
/// if the system does not say what is there.
inline bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto status_of = [](const std::filesystem::path& path) -> std::optional<struct stat> {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) return status;
    if (errno != ENOENT && errno != ENOTDIR) refuse_file(path.string(), "a file or folder that can be inspected", errno);
    return std::nullopt;
  };
  const auto one = status_of(a), other = status_of(b);
  return one && other && one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

/// Gives a new file the owner and permissions of the file that it will replace. If the owner cannot be changed, this function tries to
/// change only the group. Returns false, with errno set, if the permissions cannot be set.
inline bool take_permissions(int descriptor, const struct stat& of) {
  if (::fchown(descriptor, of.st_uid, of.st_gid) != 0 && ::fchown(descriptor, static_cast<uid_t>(-1), of.st_gid) != 0) errno = 0;
  return ::fchmod(descriptor, of.st_mode & 0777) == 0;
}

/// Waits until the written bytes are on the disk. Returns false, with errno set, if they may be lost. EINVAL is not an error, since a file
/// of that kind cannot be synced.
inline bool sync_file(int descriptor) {
  return repeat_if_interrupted([&] { return ::fsync(descriptor); }) == 0 || errno == EINVAL;
}

/// Syncs the folder of a file that was renamed, so that the new name survives a power failure. Returns false, with errno set, if the disk
/// fails or is full. Other failures are ignored, since some folders cannot be opened or synced.
inline bool sync_folder_of(const std::filesystem::path& file) {
  const std::filesystem::path parent = file.has_parent_path() ? file.parent_path() : ".";
  const file_descriptor folder(repeat_if_interrupted([&] { return ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  return folder.get() < 0 || sync_file(folder.get()) || (errno != EIO && errno != ENOSPC && errno != EDQUOT);
}

/// Fills `out`. `read(at, bytes)` is POSIX read: it may return fewer bytes than asked for, and 0 at the end of the file. Throws `error` of
/// code io if reading fails or the file ends before `out` is full.
template <class Read>
void read_fully(std::span<std::byte> out, const std::string& file, Read read) {
  constexpr std::size_t most = std::size_t{1} << 30;  // some systems refuse to read more at once
  for (std::size_t done = 0; done < out.size();) {
    const auto got = repeat_if_interrupted([&] { return read(out.data() + done, std::min(out.size() - done, most)); });
    if (got < 0) throw error(file, "byte " + std::to_string(done), "to read it", reason_of(errno), error_code::io);
    if (got == 0)
      throw error(file, "byte " + std::to_string(done), std::to_string(out.size()) + " bytes", "the end: the file shrank", error_code::io);
    done += static_cast<std::size_t>(got);
  }
}

/// Writes all of `text`. Returns false, with errno set, if that fails. `write(at, bytes)` is POSIX write: it may write fewer bytes than
/// given.
template <class Write>
bool write_fully(std::string_view text, Write write) {
  while (!text.empty()) {
    const auto put = repeat_if_interrupted([&] { return write(text.data(), text.size()); });
    if (put < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace v0
}  // namespace lazyprune
