// SPDX-License-Identifier: MIT
// The emulated device: its memory, its grid, and streams. Each stream does its work in order. Streams work only while the host waits for
// one of them, and they take turns at random. Because of this delay, the tests find code that does not wait for work on which it depends.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "grid.hpp"

namespace emulated {

/// An event that streams reach and wait for. Each record of it is reached by itself, because its streams differ.
struct event {
  std::shared_ptr<bool> last_reached = std::make_shared<bool>(true);
};

/// Work of a stream. If `after` is given, it can begin when this record of an event has been reached.
struct work {
  std::function<void()> run;
  std::shared_ptr<const bool> after = nullptr;
};

struct stream {
  int device;
  std::deque<work> queue;
};

class device {
 public:
  memory store;
  emulated::grid threads{store};
  std::recursive_mutex one_at_a_time;
  std::map<void (*)(), std::size_t> launched;  // by kernel: how often
  std::size_t waits = 0;  // how often the host waited for a stream
  struct {
    std::size_t copies = 0, bytes = 0;
  } to_device, to_host;                                // copies made so far
  std::size_t allocations = 0;                         // the number of allocations of device memory and page-locked host memory
  std::map<void (*)(), std::size_t> shared_asked_for;  // by kernel: the bytes that it may have

  bool wgmma = true;          // whether kernels say that they were compiled with wgmma
  int devices = 1;            // those after the first have nothing but a number
  int multiprocessors = 108;  // what the device says that it has

  device() { make_stream(); }

  stream* default_stream() { return streams_.front().get(); }
  stream* make_stream() {
    const std::lock_guard lock(one_at_a_time);
    streams_.push_back(std::make_unique<stream>(stream{current(), {}}));
    return streams_.back().get();
  }

  /// The current device of the calling thread.
  static int& current() {
    static thread_local int number = 0;
    return number;
  }
  void end_stream(stream* s) {
    const std::lock_guard lock(one_at_a_time);
    synchronize(s);
    std::erase_if(streams_, [s](const auto& other) { return other.get() == s; });
  }

  void give(stream* to, std::function<void()> work) {
    const std::lock_guard lock(one_at_a_time);
    (to ? to : default_stream())->queue.push_back({std::move(work)});
  }

  void record(event* e, stream* in) {
    const std::lock_guard lock(one_at_a_time);
    e->last_reached = std::make_shared<bool>(false);
    give(in, [reached = e->last_reached] { *reached = true; });
  }
  void wait(const event* e, stream* in) {
    const std::lock_guard lock(one_at_a_time);
    (in ? in : default_stream())->queue.push_back({[] {}, e->last_reached});
  }

  /// Does work of all streams until the stream `until` has no work left. After a fault, the remaining work of all streams is dropped.
  void synchronize(stream* until) {
    const std::lock_guard lock(one_at_a_time);
    ++waits;
    if (!until) until = default_stream();
    while (!until->queue.empty()) step();
  }
  void synchronize_all() {
    const std::lock_guard lock(one_at_a_time);
    for (auto& s : streams_) synchronize(s.get());
  }

 private:
  void step() {
    std::vector<stream*> busy;
    for (auto& s : streams_)
      if (!s->queue.empty() && (!s->queue.front().after || *s->queue.front().after)) busy.push_back(s.get());
    if (busy.empty()) throw fault("streams wait for events that never come");
    stream& turn = *busy[turns_++ * 0x9e3779b97f4a7c15u % busy.size()];
    const std::function<void()> run = std::move(turn.queue.front().run);
    turn.queue.pop_front();
    try {
      run();
    } catch (...) {
      for (auto& s : streams_) s->queue.clear();
      throw;
    }
  }

  std::vector<std::unique_ptr<stream>> streams_;
  std::uint64_t turns_ = 1;
};

/// The first device of the machine. Kernels run on no other.
inline device only_device;
inline device& the_device() { return only_device; }

}  // namespace emulated
