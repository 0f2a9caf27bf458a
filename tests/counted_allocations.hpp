// SPDX-License-Identifier: MIT
// Counts allocations, so that tests can check that nothing allocates, or that all memory is given back. It can also make one allocation
// fail, or this one and all later ones. The header replaces the operators new and delete, so include it in only one translation unit of an
// executable. ThreadSanitizer does not let programs replace them, so with it nothing is counted.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LAZYPRUNE_TEST_COUNTS_NOTHING
#endif
#endif

namespace lazyprune_test {

#ifdef LAZYPRUNE_TEST_COUNTS_NOTHING
inline constexpr bool counts_allocations = false;
#else
inline constexpr bool counts_allocations = true;
#endif

// The counts of this thread.
inline thread_local std::size_t allocations = 0, allocated_bytes = 0;

// The allocations of all threads that are not freed, and their bytes. malloc may give a block a few more bytes than another of its size.
inline std::atomic<std::ptrdiff_t> live_allocations = 0, live_bytes = 0;

// Which of the coming allocations fails: 1 for the first, 2 for the second, 0 if no allocation fails.
inline thread_local std::size_t failing = 0;
inline thread_local bool failing_from_there = false;  // all later allocations fail, too

inline void count_allocation(std::size_t size) {
  ++allocations;
  allocated_bytes += size;
  if (failing == 0 || --failing > 0) return;
  failing = failing_from_there ? 1 : 0;
  throw std::bad_alloc();
}

inline void* count_live(void* p) noexcept {
  live_allocations.fetch_add(p ? 1 : 0, std::memory_order_relaxed);
  live_bytes.fetch_add(static_cast<std::ptrdiff_t>(::malloc_usable_size(p)), std::memory_order_relaxed);
  return p;
}

inline void free_counted(void* p) noexcept {
  live_allocations.fetch_sub(p ? 1 : 0, std::memory_order_relaxed);
  live_bytes.fetch_sub(static_cast<std::ptrdiff_t>(::malloc_usable_size(p)), std::memory_order_relaxed);
  std::free(p);
}

}  // namespace lazyprune_test

#ifndef LAZYPRUNE_TEST_COUNTS_NOTHING

// noinline: if GCC inlines these operators, it warns that memory from operator new is passed to free.
[[gnu::noinline]] void* operator new(std::size_t size) {
  lazyprune_test::count_allocation(size);
  if (void* p = std::malloc(size ? size : 1)) return lazyprune_test::count_live(p);
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  lazyprune_test::count_allocation(size);
  const auto step = static_cast<std::size_t>(alignment);
  if (void* p = std::aligned_alloc(step, std::max<std::size_t>(1, (size + step - 1) / step) * step)) return lazyprune_test::count_live(p);
  throw std::bad_alloc();
}
// std::stable_sort allocates with this operator. Without this definition, the sanitizers' operator would allocate, and the `delete` below
// would not match it.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return lazyprune_test::count_live(std::malloc(size ? size : 1));
}
[[gnu::noinline]] void operator delete(void* p) noexcept { lazyprune_test::free_counted(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { lazyprune_test::free_counted(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { lazyprune_test::free_counted(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { lazyprune_test::free_counted(p); }

#endif
