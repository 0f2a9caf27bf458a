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

struct stream {
  std::deque<std::function<void()>> work;
};

class device {
 public:
  memory store;
  emulated::grid threads{store};
  std::recursive_mutex one_at_a_time;
  std::size_t launches = 0;
  std::size_t waits = 0;  // how often the host waited for a stream
  struct {
    std::size_t copies = 0, bytes = 0;
  } to_device, to_host;                                // copies made so far
  std::size_t allocations = 0;                         // the number of allocations of device memory and page-locked host memory
  std::map<void (*)(), std::size_t> shared_asked_for;  // by kernel: the bytes that it may have

  device() { streams_.push_back(std::make_unique<stream>()); }

  stream* default_stream() { return streams_.front().get(); }
  stream* make_stream() {
    const std::lock_guard lock(one_at_a_time);
    streams_.push_back(std::make_unique<stream>());
    return streams_.back().get();
  }
  void end_stream(stream* s) {
    const std::lock_guard lock(one_at_a_time);
    synchronize(s);
    std::erase_if(streams_, [s](const auto& other) { return other.get() == s; });
  }

  void give(stream* to, std::function<void()> work) {
    const std::lock_guard lock(one_at_a_time);
    (to ? to : default_stream())->work.push_back(std::move(work));
  }

  /// Does work of all streams until the stream `until` has no work left. After a fault, the remaining work of all streams is dropped.
  void synchronize(stream* until) {
    const std::lock_guard lock(one_at_a_time);
    ++waits;
    if (!until) until = default_stream();
    while (!until->work.empty()) step();
  }
  void synchronize_all() {
    const std::lock_guard lock(one_at_a_time);
    for (auto& s : streams_) synchronize(s.get());
  }

 private:
  void step() {
    std::vector<stream*> busy;
    for (auto& s : streams_)
      if (!s->work.empty()) busy.push_back(s.get());
    stream& turn = *busy[turns_++ * 0x9e3779b97f4a7c15u % busy.size()];
    const std::function<void()> work = std::move(turn.work.front());
    turn.work.pop_front();
    try {
      work();
    } catch (...) {
      for (auto& s : streams_) s->work.clear();
      throw;
    }
  }

  std::vector<std::unique_ptr<stream>> streams_;
  std::uint64_t turns_ = 1;
};

/// The only device of the machine.
inline device only_device;
inline device& the_device() { return only_device; }

}  // namespace emulated
