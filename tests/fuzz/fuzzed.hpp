// SPDX-License-Identifier: MIT
// Shared by the fuzz targets: files in memory, the bounds of memory and time, and errors of one line.
#pragma once

#include <lazyprune/core/error.hpp>
#ifdef LAZYPRUNE_HAVE_UNICODE
#include <lazyprune/text/unicode/installed.hpp>
#else
#include <lazyprune/text/tokenizer/unicode.hpp>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <span>
#include <string>
#include <string_view>

#include <sanitizer/allocator_interface.h>
#include <sys/mman.h>
#include <unistd.h>

namespace lazyprune_test {

#ifdef LAZYPRUNE_HAVE_UNICODE
inline const lazyprune::unicode* const characters = &lazyprune::installed_unicode();
#else
inline const lazyprune::unicode* const characters = nullptr;
#endif

/// Ends the program if `holds` is false. The fuzzer then reports the input.
inline void must(bool holds, std::string_view promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %.*s\n", static_cast<int>(promise.size()), promise.data());
  std::abort();
}

/// Calls `call`, which may throw `error` of one line.
template <class Call>
void unless_refused(Call call) {
  try {
    call();
  } catch (const lazyprune::error& fault) {
    must(std::string_view(fault.what()).find('\n') == std::string_view::npos, "an error has one line");
  }
}

/// Calls `call` and ends the program if it throws `error`. For what follows a successful read, also in a call of unless_refused().
template <class Call>
void never_refused(Call call) {
  try {
    call();
  } catch (const lazyprune::error& fault) {
    must(false, fault.what());
  }
}

inline std::string_view text_of(std::span<const std::uint8_t> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Removes the text up to the first zero byte, or all of the text, from `rest`, and returns it without that byte.
inline std::string_view next_part(std::string_view& rest) {
  const std::string_view part = rest.substr(0, rest.find('\0'));
  rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  return part;
}

/// Returns the path of a file in memory with these bytes. The next call with the same `number` overwrites it.
inline std::string file_of(std::string_view bytes, std::size_t number = 0) {
  static int files[4] = {-1, -1, -1, -1};
  int& file = files[number];
  if (file < 0) file = ::memfd_create("input", 0);
  must(::ftruncate(file, 0) == 0 && ::pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
       "a file in memory can be written");
  return "/proc/self/fd/" + std::to_string(file);
}

namespace detail {

inline thread_local std::size_t allocated = 0, most_allocated = 0;  // bytes

inline void count_allocation(const volatile void*, std::size_t bytes) {
  allocated += bytes;
  most_allocated = std::max(most_allocated, allocated);
}
inline void count_release(const volatile void* memory) {
  if (memory) allocated -= std::min(allocated, __sanitizer_get_allocated_size(memory));
}

inline std::uint64_t microseconds() {
  std::timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000 + static_cast<std::uint64_t>(now.tv_nsec) / 1000;
}

}  // namespace detail

/// The bounds of reading an input. The time is the processor's, in a build with sanitizers.
struct work_bounds {
  std::size_t bytes = 40;  // for each byte of the input: json_value needs so many for a list of {}
  std::size_t more_bytes = std::size_t{1} << 18;
  std::size_t microseconds = 100;  // for each byte of the input
  std::size_t more_microseconds = 100000;
};

/// Ends the program at the end of the scope if the work in it held more memory at once, or took longer, than an input of this size may.
class bounded_work {
 public:
  explicit bounded_work(std::size_t input, work_bounds most = {}) : input_(input), most_(most) {
    static const bool counts = __sanitizer_install_malloc_and_free_hooks(detail::count_allocation, detail::count_release) != 0;
    must(counts, "allocations can be counted");
    detail::allocated = detail::most_allocated = 0;
    begin_ = detail::microseconds();
  }
  bounded_work(const bounded_work&) = delete;
  bounded_work& operator=(const bounded_work&) = delete;

  ~bounded_work() {
    const std::uint64_t time = detail::microseconds() - begin_, most_time = most_.more_microseconds + most_.microseconds * input_;
    const std::size_t most = most_.more_bytes + most_.bytes * input_;
    if (detail::most_allocated <= most && time <= most_time) return;
    std::fprintf(stderr, "an input of %zu bytes took %zu bytes of memory (bound: %zu) and %llu us (bound: %llu)\n", input_,
                 detail::most_allocated, most, static_cast<unsigned long long>(time), static_cast<unsigned long long>(most_time));
    std::abort();
  }

 private:
  std::size_t input_;
  work_bounds most_;
  std::uint64_t begin_;
};

}  // namespace lazyprune_test
