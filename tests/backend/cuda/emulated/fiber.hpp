// SPDX-License-Identifier: MIT
// Fibers, on which the threads of the emulated device run. Each fiber has its own stack, and one fiber runs at a time. ucontext creates
// fibers. setjmp and longjmp switch between them: unlike swapcontext, they need no system call.
#pragma once

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LAZYPRUNE_EMULATED_ASAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(LAZYPRUNE_EMULATED_ASAN)
#undef LAZYPRUNE_EMULATED_ASAN
#define LAZYPRUNE_EMULATED_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define LAZYPRUNE_EMULATED_ASAN 0
#endif

namespace emulated {

// Declares longjmp under the name of its symbol, because _FORTIFY_SOURCE replaces longjmp by a version that refuses a jump to another
// stack.
extern "C" [[noreturn]] void emulated_jump(jmp_buf, int) __asm__("_longjmp");

class fiber {
 public:
  /// Makes a fiber for the calling host thread. This thread already runs, on its own stack.
  fiber() = default;

  /// Makes a fiber that will run work(argument). `work` must never return.
  fiber(void (*work)(void*), void* argument) : work_(work), argument_(argument) {
    stack_ = ::mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack_ == MAP_FAILED) throw std::bad_alloc();
    ::mprotect(stack_, guard_bytes, PROT_NONE);  // a guard page: stacks grow down
    bottom_ = static_cast<std::byte*>(stack_) + guard_bytes;
    // If all stacks began at the same offset in a page, they would evict each other's cache lines.
    size_ = stack_bytes - guard_bytes - made_++ % 32 * 17 * 64;
    ::getcontext(&first_);
    first_.uc_stack.ss_sp = bottom_;
    first_.uc_stack.ss_size = size_;
    first_.uc_link = nullptr;
    ::makecontext(&first_, &fiber::enter, 0);
  }
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;
  ~fiber() {
    if (!stack_) return;
#if LAZYPRUNE_EMULATED_ASAN
    __asan_unpoison_memory_region(bottom_, size_);
#endif
    ::munmap(stack_, stack_bytes);
  }

  /// Switches from the running fiber `from` to `to`. Returns when another fiber switches back to `from`.
  [[gnu::noinline]] static void change(fiber& from, fiber& to) {
    if (_setjmp(from.place_) == 0) {
#if LAZYPRUNE_EMULATED_ASAN
      leaving_ = &from;
      __sanitizer_start_switch_fiber(&from.fake_stack_, to.bottom_, to.size_);
#endif
      if (to.begun_ || !to.stack_) emulated_jump(to.place_, 1);
      to.begun_ = true;
      beginning_ = &to;
      ::setcontext(&to.first_);
    }
    from.arrive();
  }

 private:
  static constexpr std::size_t guard_bytes = 4096, stack_bytes = (LAZYPRUNE_EMULATED_ASAN ? 512 : 128) * 1024;

  static void enter() {
    fiber& self = *beginning_;
    self.arrive();
    self.work_(self.argument_);
    __builtin_unreachable();
  }

  void arrive() {
#if LAZYPRUNE_EMULATED_ASAN
    const void* bottom;
    std::size_t size;
    __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &size);
    if (!leaving_->stack_) {  // this is the stack of a host thread; only the sanitizer knows its bounds
      leaving_->bottom_ = const_cast<void*>(bottom);
      leaving_->size_ = size;
    }
#endif
  }

  inline static fiber *beginning_ = nullptr, *leaving_ = nullptr;  // one for all fibers: only one device runs at a time
  inline static std::size_t made_ = 0;

  void (*work_)(void*) = nullptr;
  void* argument_ = nullptr;
  void* stack_ = nullptr;
  void* bottom_ = nullptr;
  std::size_t size_ = 0;
  void* fake_stack_ = nullptr;
  bool begun_ = false;
  ucontext_t first_;  // the start of the fiber
  jmp_buf place_;     // the place at which the fiber was left
};

}  // namespace emulated
