// SPDX-License-Identifier: MIT
// The bytes of a file, mapped or read. A mapped file must not change while it is in use. If it shrinks, the system may kill the process
// (SIGBUS); `mapped_file_fault` tells a handler which file it was. `file_access::read` has no such condition, but needs as much memory as
// the file has bytes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/descriptor.hpp>

namespace lazyprune {
inline namespace v0 {

enum class file_access : std::uint8_t { map, read };

namespace detail {

struct mapped_file_slot {
  std::atomic<const std::byte*> begin{};
  std::atomic<std::size_t> size{};
  std::atomic<const char*> complaint{};  // allocated with new[]; not null: the slot is in use
};

/// The mapped files of this process, for a signal handler. If no slot is free, a file is not among them.
class mapped_files {
 public:
  static mapped_file_slot* add(std::span<const std::byte> bytes, std::string_view complaint) {
    auto text = std::make_unique<char[]>(complaint.size() + 1);
    std::ranges::copy(complaint, text.get());
    for (mapped_file_slot& each : slots_) {
      const char* none = nullptr;
      if (!each.complaint.compare_exchange_strong(none, text.get())) continue;
      text.release();
      each.size = bytes.size();
      each.begin = bytes.data();
      return &each;
    }
    return nullptr;
  }
  static void remove(mapped_file_slot& which) {
    which.begin = nullptr;
    delete[] which.complaint.exchange(nullptr);
  }
  /// Returns the complaint of the file that is mapped there, or null. The complaint is never freed, because the caller may be a handler.
  static const char* find(const void* at) noexcept {
    for (mapped_file_slot& each : slots_) {
      const std::byte* const begin = each.begin;
      if (begin && std::greater_equal<const void*>{}(at, begin) && std::less<const void*>{}(at, begin + each.size))
        return each.complaint.exchange(nullptr);
    }
    return nullptr;
  }

 private:
  static_assert(std::atomic<const char*>::is_always_lock_free && std::atomic<std::size_t>::is_always_lock_free);
  static inline mapped_file_slot slots_[256]{};  // NOLINT(readability-identifier-naming): private members end in _
};

/// Frees a file's bytes. Unmaps them if they are mapped, else deletes them.
struct file_bytes_deleter {
  std::size_t mapped = 0;
  mapped_file_slot* slot = nullptr;
  void operator()(const std::byte* at) const {
    if (slot) mapped_files::remove(*slot);
    if (mapped > 0)
      ::munmap(const_cast<std::byte*>(at), mapped);
    else
      delete[] at;
  }
};

}  // namespace detail

/// For a handler of SIGBUS: `address` is siginfo_t::si_addr. Returns what to say if a mapped file is there, in the form of `error`: the
/// file shrank, or its disk failed. Else returns null. It is async-signal-safe. Call it only if the process then ends.
inline const char* mapped_file_fault(const void* address) noexcept { return detail::mapped_files::find(address); }

class mapped_file {
 public:
  /// Throws `error` if the file is missing, cannot be opened, is not a plain file, or has more than `limit` bytes. Throws `error` of code
  /// io if reading or mapping fails.
  explicit mapped_file(const std::filesystem::path& path, file_access how = file_access::map,
                       std::size_t limit = std::numeric_limits<std::size_t>::max())
      : name_(path.string()) {
    // Without O_NONBLOCK, opening a pipe would wait for its writer.
    file_descriptor file = open_file(path, O_RDONLY | O_NONBLOCK, name_, "a file that can be read");
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) throw error(name_, "stat", "to read its size", reason_of(errno), error_code::io);
    if (S_ISDIR(status.st_mode)) throw error(name_, "", "a file", "a directory");
    if (!S_ISREG(status.st_mode)) throw error(name_, "", "a plain file", "a pipe or device");
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ > limit) throw error(name_, "", "at most " + std::to_string(limit) + " bytes", std::to_string(size_));
    if (size_ == 0) return;  // an empty file cannot be mapped

    if (how == file_access::map) {
      void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
      if (at == MAP_FAILED) throw error(name_, "mmap", "to map " + std::to_string(size_) + " bytes", reason_of(errno), error_code::io);
      data_ = {static_cast<const std::byte*>(at), detail::file_bytes_deleter{size_}};
      const error fault(name_, "mmap", "to read its bytes", "a file that shrank, or a disk that failed", error_code::io);
      data_.get_deleter().slot = detail::mapped_files::add(bytes(), fault.what());
#ifdef RWF_NOWAIT
      file_ = std::move(file);
#endif
    } else {
      auto memory = std::make_unique_for_overwrite<std::byte[]>(size_);
      read_fully({memory.get(), size_}, name_, [&](std::byte* out, std::size_t n) { return ::read(file.get(), out, n); });
      data_ = {memory.release(), detail::file_bytes_deleter{}};
    }
  }

  const std::string& name() const { return name_; }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  /// Returns whether the file is mapped. The pages of a mapped file are read into memory on first use.
  bool mapped() const { return data_.get_deleter().mapped != 0; }
  /// Copies these bytes if the file is mapped and they are in memory already. This takes half of the time that it takes to read them in
  /// place, because the system need not map their pages. Returns whether it has copied them.
  bool copy(std::span<const std::byte> part, std::byte* to) const noexcept {
#ifdef RWF_NOWAIT
    const iovec all{to, part.size()};
    const auto got = repeat_if_interrupted([&] { return ::preadv2(file_.get(), &all, 1, static_cast<off_t>(offset(part)), RWF_NOWAIT); });
    return got >= 0 && static_cast<std::size_t>(got) == part.size();
#else
    static_cast<void>(part), static_cast<void>(to);
    return false;
#endif
  }
  /// Returns whether `copy` would probably copy all of these bytes: whether it copies one byte of each MiB.
  bool can_copy(std::span<const std::byte> part) const noexcept {
    constexpr std::size_t step = std::size_t{1} << 20;
    std::byte one;
    for (; !part.empty(); part = part.subspan(std::min(step, part.size())))
      if (!copy(part.first(1), &one)) return false;
    return mapped();
  }
  /// Reads these bytes into memory if the file is mapped, so that other threads need not wait for them.
  void prefetch(std::span<const std::byte> part) const {
#ifdef MADV_POPULATE_READ
    // MADV_POPULATE_READ reads some hundred KB at a time, as sequential reads do. MADV_WILLNEED makes the pages available one by one, which
    // takes ten times the system time. A reader then waits for each page separately.
    if (advise(part, MADV_POPULATE_READ)) return;
#endif
    // A call of MADV_WILLNEED makes Linux read at most the device's read_ahead_kb, so this code makes a call for every 512 KiB.
    constexpr std::size_t at_once = std::size_t{1} << 19;
    for (; !part.empty(); part = part.subspan(std::min(at_once, part.size())))
      advise(part.first(std::min(at_once, part.size())), MADV_WILLNEED);
  }
  /// Tells the system that these bytes are not needed soon. If they are mapped, they no longer count as this process's memory.
  void release(std::span<const std::byte> part) const { advise(part, MADV_DONTNEED); }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_.get()), size_}; }

 private:
  std::size_t offset(std::span<const std::byte> part) const { return static_cast<std::size_t>(part.data() - data_.get()); }

  /// Gives the system advice about all pages that contain these bytes. Returns false if the system does not accept the advice. This is not
  /// an error, since advice is only a hint.
  bool advise(std::span<const std::byte> part, int advice) const {
    if (!mapped() || part.empty()) return true;
    const std::size_t first = offset(part), page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t begin = first / page * page;
    return ::madvise(const_cast<std::byte*>(data_.get()) + begin, first + part.size() - begin, advice) == 0;
  }

  std::string name_;
  std::size_t size_ = 0;
  file_descriptor file_;  // open if the file is mapped and the system can read without waiting
  std::unique_ptr<const std::byte[], detail::file_bytes_deleter> data_;
};

}  // namespace v0
}  // namespace lazyprune
