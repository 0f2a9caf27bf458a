// SPDX-License-Identifier: MIT
// The device and the streams of all backend objects (contexts) of a process, and the order of their work.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include <lazyprune/backend/cuda/check.hpp>
#include <lazyprune/backend/execution.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

inline int current_device() {
  int number = 0;
  check(cudaGetDevice(&number), "device");
  return number;
}

inline int attribute_of_device(cudaDeviceAttr which) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, current_device()), "device");
  return value;
}

/// The device and the stream in which a context queues its work, and the allocator from which it takes memory.
struct place {
  int device;
  cudaStream_t stream;
  cuda_allocator memory;
};

/// Puts the work of all contexts of the process in order, on one device. Sequences of different contexts may share memory, and contexts may
/// have different streams. So when an operation begins, its stream waits for all operations of other streams that have ended by then.
/// Operations that threads run at the same time have no order. They need none, because threads do not use the same sequence at the same
/// time.
class work_order {
 public:
  /// Returns the object of this process. It is never destroyed, because the driver may end before it.
  static work_order& of_process() {
    static work_order& one = *new work_order;
    return one;
  }

  /// Returns the place of a new context with these settings. The first call chooses the device of the process. Throws `error` if there is
  /// no such device, or (unsupported) if the process computes on another one.
  place place_of(const cuda_settings& settings) {
    if (settings.device) check_number(*settings.device);
    const int wanted = settings.device ? *settings.device : current_device();
    const std::lock_guard lock(mutex_);
    make_own(wanted);
    if (wanted != own_->device)
      throw error("cuda", "device", "device " + std::to_string(own_->device) + ", on which this process computes", std::to_string(wanted),
                  error_code::unsupported);
    last_ = {wanted, settings.stream ? static_cast<cudaStream_t>(settings.stream) : own_->stream, settings.allocator};
    ++lines_[last_.stream].contexts;
    return last_;
  }

  /// A context with this place ends. If no other context has its stream, the process does not use the stream any more.
  void leave(const place& it) noexcept {
    const std::lock_guard lock(mutex_);
    if (last_.stream == it.stream) last_ = *own_;
    if (--lines_[it.stream].contexts > 0 || it.stream == own_->stream) return;
    static_cast<void>(wait_for_others(own_->stream));
    ++lines_[own_->stream].ended;  // who waits for this stream also waits for the work of the stream that goes
    lines_.erase(it.stream);
    for (auto& [other, work] : lines_) work.seen.erase(it.stream);  // another stream may get this address
  }

  /// Calls work(place) for work that consists of one call of the runtime or of an allocator. The place is that of the operation which this
  /// thread is in. Outside of operations, it is the place of the last operation, or of the last new context.
  template <class Work>
  void queue(const Work& work) {
    const std::lock_guard lock(mutex_);
    make_own(current_device_or_first());
    const place& at = here ? *here : last_;
    static_cast<void>(wait_for_others(at.stream));
    work(at);
    ++lines_[at.stream].ended;
  }

  /// Returns the stream of the place that `queue` would choose. Outside of operations, the caller must wait for the work that it queues.
  cudaStream_t stream() {
    if (here) return here->stream;
    const std::lock_guard lock(mutex_);
    make_own(current_device_or_first());
    check(wait_for_others(last_.stream), "stream");
    return last_.stream;
  }

 private:
  friend class at_place;
  static inline thread_local const place* here = nullptr;

  /// The work of one stream.
  struct line {
    std::size_t contexts = 0;
    std::size_t ended = 0;                          // operations
    std::map<cudaStream_t, std::size_t> seen = {};  // by stream: how many of its operations this stream has waited for
  };

  static void check_number(int device) {
    int count = 0;
    check(cudaGetDeviceCount(&count), "device");
    if (device < 0 || device >= count)
      throw error("cuda", "device", "a device below " + std::to_string(count), std::to_string(device), error_code::bad_input);
  }

  int current_device_or_first() const { return own_ ? own_->device : current_device(); }

  /// Makes the process's own stream. Freed memory stays in the driver's pool, so that it can be allocated again without a system call.
  void make_own(int device) {
    if (own_) return;
    const int before = current_device();
    check(cudaSetDevice(device), "device");
    place made{device, nullptr, {}};
    check(cudaStreamCreateWithFlags(&made.stream, cudaStreamNonBlocking), "stream");
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "event");
    cudaMemPool_t pool;
    check(cudaDeviceGetDefaultMemPool(&pool, device), "memory pool");
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "memory pool");
    check(cudaSetDevice(before), "device");
    own_ = last_ = made;
    lines_[made.stream];
  }

  /// Lets the stream wait for all operations of other streams that have ended.
  cudaError_t wait_for_others(cudaStream_t stream) noexcept {
    line& own = lines_[stream];
    for (const auto& [other, work] : lines_) {
      std::size_t& seen = own.seen[other];
      if (other == stream || seen == work.ended) continue;
      cudaError_t answer = cudaEventRecord(event_, other);
      if (answer == cudaSuccess) answer = cudaStreamWaitEvent(stream, event_, 0);
      if (answer != cudaSuccess) return answer;
      seen = work.ended;
    }
    return cudaSuccess;
  }

  void operation_begins(const place& there) {
    const std::lock_guard lock(mutex_);
    check(wait_for_others(there.stream), "stream");
    last_ = there;
  }
  void operation_ends(const place& there) noexcept {
    const std::lock_guard lock(mutex_);
    ++lines_[there.stream].ended;
  }

  std::mutex mutex_;
  std::optional<place> own_;  // the place of contexts without settings
  place last_{};
  std::map<cudaStream_t, line> lines_;
  cudaEvent_t event_ = nullptr;
};

/// An operation of a context. While this object exists, this thread queues its work at the context's place, and the place's device is the
/// thread's current device. Operations may be nested.
class at_place {
 public:
  explicit at_place(const place& there) : there_(there), before_(work_order::here), device_(current_device()) {
    if (device_ != there.device) check(cudaSetDevice(there.device), "device");
    work_order::of_process().operation_begins(there);
    work_order::here = &there;
  }
  at_place(const at_place&) = delete;
  at_place& operator=(const at_place&) = delete;
  ~at_place() {
    work_order::here = before_;
    work_order::of_process().operation_ends(there_);
    if (device_ != there_.device) cudaSetDevice(device_);
  }

 private:
  const place& there_;
  const place* before_;
  int device_;
};

/// Returns the stream for this thread's next work. See work_order::stream.
inline cudaStream_t stream() { return work_order::of_process().stream(); }

/// Waits until all work that this thread knows of is done.
inline void synchronize() { check(cudaStreamSynchronize(stream()), "the device's work"); }

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
