// SPDX-License-Identifier: MIT
// POSIX file descriptors: closed when they go, calls that signals interrupt repeated, and whose fault a failed call is.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
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
  /// False, with errno, where the last of what was written is lost. EINTR is no fault: the descriptor is closed.
  bool close() { return number_ < 0 || ::close(std::exchange(number_, -1)) == 0 || errno == EINTR; }

 private:
  int number_;
};

/// Throws `error` where the name or its permissions are at fault, one of code io where the machine is. Both speak of the file `name`.
/// `mode`: the permissions of a file that is created, less the umask.
inline file_descriptor open_file(const std::filesystem::path& path, int flags, const std::string& name, std::string_view expected,
                                 mode_t mode = 0666) {
  file_descriptor file(repeat_if_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); }));
  if (file.get() >= 0) return file;
  const int code = errno;
  for (const int machine : {EIO, ENOMEM, EMFILE, ENFILE, ENOSPC, EDQUOT})
    if (code == machine) throw error(name, "open", expected, reason_of(code), error_code::io);
  throw error(name, "", expected, reason_of(code));
}

/// The file that a name leads to, from link to link. It need not exist.
inline std::filesystem::path behind_links(std::filesystem::path path) {
  std::error_code failure;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(path, failure); ++links) {
    const std::filesystem::path to = std::filesystem::read_symlink(path, failure);
    if (failure) break;
    path = path.parent_path() / to;
  }
  return path;
}

/// Gives a new file the owner and permissions of the file that it will replace. A process that may not give files away keeps its own as
/// the owner. False, with errno, where the permissions cannot be set.
inline bool take_permissions(int descriptor, const struct stat& of) {
  if (::fchown(descriptor, of.st_uid, of.st_gid) != 0 && ::fchown(descriptor, static_cast<uid_t>(-1), of.st_gid) != 0) errno = 0;
  return ::fchmod(descriptor, of.st_mode & 0777) == 0;
}

/// Syncs the folder of a file that has got its name, so that the name too outlives a power failure. False, with errno, where the disk
/// fails. A folder that cannot be opened or synced is no fault.
inline bool sync_folder_of(const std::filesystem::path& file) {
  const std::filesystem::path parent = file.has_parent_path() ? file.parent_path() : ".";
  const file_descriptor folder(repeat_if_interrupted([&] { return ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  return folder.get() < 0 || ::fsync(folder.get()) == 0 || errno != EIO;
}

/// Fills `out`. `read(at, bytes)` is POSIX read: it may give less than asked for, and 0 at the end of the file.
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

/// Writes all of `text`; false, with errno, where that fails. `write(at, bytes)` is POSIX write: it may take less than given.
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
