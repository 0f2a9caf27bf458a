// SPDX-License-Identifier: MIT
// A file's bytes, mapped or read. A mapped file must not change or shrink while it is in use: the system then kills the process
// (SIGBUS); `file_access::read` has no such condition, and costs its size in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <sys/mman.h>
#include <sys/stat.h>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/descriptor.hpp>

namespace lazyprune {
inline namespace v0 {

enum class file_access : std::uint8_t { map, read };

namespace detail {

/// Gives a file's bytes back: to the system where they are mapped, else to the heap.
struct file_bytes_deleter {
  std::size_t mapped = 0;
  void operator()(const std::byte* at) const {
    if (mapped > 0)
      ::munmap(const_cast<std::byte*>(at), mapped);
    else
      delete[] at;
  }
};

}  // namespace detail

class mapped_file {
 public:
  /// Throws `error` where there is no such file, it cannot be opened, is no plain file, or has more than `limit` bytes; one of code io
  /// where reading fails.
  explicit mapped_file(const std::filesystem::path& path, file_access how = file_access::map,
                       std::size_t limit = std::numeric_limits<std::size_t>::max())
      : name_(path.string()) {
    // Opening a pipe for reading would wait for its writer, without O_NONBLOCK.
    const file_descriptor file = open_file(path, O_RDONLY | O_NONBLOCK, name_, "a file that can be read");
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) throw error(name_, "stat", "to know its size", reason_of(errno), error_code::io);
    if (S_ISDIR(status.st_mode)) throw error(name_, "", "a file", "a directory");
    if (!S_ISREG(status.st_mode)) throw error(name_, "", "a plain file", "a pipe or device");
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ > limit) throw error(name_, "", "at most " + std::to_string(limit) + " bytes", std::to_string(size_));
    if (size_ == 0) return;  // an empty file cannot be mapped

    if (how == file_access::map) {
      void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
      if (at == MAP_FAILED) throw error(name_, "mmap", "to map " + std::to_string(size_) + " bytes", reason_of(errno), error_code::io);
      data_ = {static_cast<const std::byte*>(at), detail::file_bytes_deleter{size_}};
    } else {
      auto memory = std::make_unique_for_overwrite<std::byte[]>(size_);
      read_fully({memory.get(), size_}, name_, [&](std::byte* out, std::size_t n) { return ::read(file.get(), out, n); });
      data_ = {memory.release(), detail::file_bytes_deleter{0}};
    }
  }

  const std::string& name() const { return name_; }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  /// Whether its pages come into memory as they are read, or are there.
  bool mapped() const { return data_.get_deleter().mapped != 0; }
  /// Reads this part, where it is mapped, so that others find it in memory.
  void come_into_memory(std::span<const std::byte> part) const {
#ifdef MADV_POPULATE_READ
    // Pages come as a reader's do: some hundred KB in one piece, ahead of what is waited for. Those of MADV_WILLNEED come one by one, which
    // takes ten times the system's time, and who needs one of them waits for it alone.
    if (advise(part, MADV_POPULATE_READ)) return;
#endif
    constexpr std::size_t at_once = std::size_t{1} << 19;  // Linux reads no more ahead than a device's read_ahead_kb, whatever is asked for
    for (; !part.empty(); part = part.subspan(std::min(at_once, part.size())))
      advise(part.first(std::min(at_once, part.size())), MADV_WILLNEED);
  }
  /// Says that this part will not be read soon: where it is mapped, it no longer counts as this process's memory.
  void release(std::span<const std::byte> part) const { advise(part, MADV_DONTNEED); }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_.get()), size_}; }

 private:
  /// Advises about the pages that the part has a share in. It is no more than a hint, so that a failure does not matter: systems differ in
  /// what they know.
  bool advise(std::span<const std::byte> part, int advice) const {
    if (!mapped() || part.empty()) return true;
    const auto first = static_cast<std::size_t>(part.data() - data_.get()), page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t begin = first / page * page;
    return ::madvise(const_cast<std::byte*>(data_.get()) + begin, first + part.size() - begin, advice) == 0;
  }

  std::string name_;
  std::size_t size_ = 0;
  std::unique_ptr<const std::byte[], detail::file_bytes_deleter> data_;
};

}  // namespace v0
}  // namespace lazyprune
