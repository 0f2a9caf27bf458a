// SPDX-License-Identifier: MIT
// The device and the streams of all backend objects (contexts) of a process, and the order of their work.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
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

/// Where a context queues its work, and from where it takes memory.
struct place {
  int device;
  cudaStream_t stream;
  cuda_allocator memory;
};

/// Puts all work of the process in one order, on one device. Sequences of different contexts may share memory, and contexts may have
/// different streams. So if a context queues work after another context, its stream first waits for the stream of the other one. Work that
/// threads queue at the same time has no order. It does not need one, because threads do not use the same sequence at the same time.
class work_order {
 public:
  /// Returns the object of this process. It is never destroyed, because the driver may end before it.
  static work_order& of_process() {
    static work_order& one = *new work_order;
    return one;
  }

  /// Returns the place of a context with these settings. The first call chooses the device of the process. Throws `error` if there is no
  /// such device, or (unsupported) if the process computes on another one.
  place place_of(const cuda_settings& settings) {
    if (settings.device) check_number(*settings.device);
    const int wanted = settings.device ? *settings.device : current_device();
    const std::lock_guard lock(mutex_);
    begin(wanted);
    if (wanted != own_->device)
      throw error("cuda", "device", "device " + std::to_string(own_->device) + ", on which this process computes", std::to_string(wanted),
                  error_code::unsupported);
    return {wanted, settings.stream ? static_cast<cudaStream_t>(settings.stream) : own_->stream, settings.allocator};
  }

  /// Returns the place where this thread queues its next work. It is the place of the context whose operation the thread is in. Outside of
  /// operations, it is the place of the last work.
  place next() {
    const std::lock_guard lock(mutex_);
    if (!here) {
      if (!own_) begin(current_device());
      return last_;
    }
    if (here->stream != last_.stream) order(last_.stream, here->stream);
    return last_ = *here;
  }

  /// Returns the stream of the last work. What is queued there comes after all earlier work.
  cudaStream_t last_stream() noexcept {
    const std::lock_guard lock(mutex_);
    return last_.stream;
  }

  /// After this call, the process does not use the stream of `it` any more, unless another context has this stream, too.
  void leave(const place& it) noexcept {
    const std::lock_guard lock(mutex_);
    if (last_.stream == it.stream && it.stream != own_->stream && cudaEventRecord(event_, it.stream) == cudaSuccess)
      cudaStreamWaitEvent(own_->stream, event_, 0);
    if (last_.stream == it.stream) last_ = *own_;
  }

 private:
  friend class at_place;
  static inline thread_local const place* here = nullptr;

  static void check_number(int device) {
    int count = 0;
    check(cudaGetDeviceCount(&count), "device");
    if (device < 0 || device >= count)
      throw error("cuda", "device", "a device below " + std::to_string(count), std::to_string(device), error_code::bad_input);
  }

  /// Makes the process's own stream. Freed memory stays in the driver's pool, so that it can be allocated again without a system call.
  void begin(int device) {
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
  }

  void order(cudaStream_t earlier, cudaStream_t later) {
    check(cudaEventRecord(event_, earlier), "stream");
    check(cudaStreamWaitEvent(later, event_, 0), "stream");
  }

  std::mutex mutex_;
  std::optional<place> own_;  // the place of contexts without settings
  place last_{};              // of the last work
  cudaEvent_t event_ = nullptr;
};

/// While an object of this class exists, this thread queues its work at the place, and the place's device is the thread's current device.
class at_place {
 public:
  explicit at_place(const place& there) : before_(work_order::here), device_(current_device()), other_(device_ != there.device) {
    if (other_) check(cudaSetDevice(there.device), "device");
    work_order::here = &there;
  }
  at_place(const at_place&) = delete;
  at_place& operator=(const at_place&) = delete;
  ~at_place() {
    work_order::here = before_;
    if (other_) cudaSetDevice(device_);
  }

 private:
  const place* before_;
  int device_;
  bool other_;
};

/// Returns the stream for this thread's next work. See work_order::next.
inline cudaStream_t stream() { return work_order::of_process().next().stream; }

/// Waits until all queued work is done.
inline void synchronize() { check(cudaStreamSynchronize(stream()), "the device's work"); }

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
