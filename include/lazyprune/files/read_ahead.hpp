// SPDX-License-Identifier: MIT
// Files come into memory while others compute: a thread of its own waits for them.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include <lazyprune/files/mapped_file.hpp>

namespace lazyprune {
inline namespace v0 {

/// Asks for parts of files, one after the other. The files must outlive it; what is still to be asked for when it ends is forgotten.
class read_ahead {
 public:
  void ask(const mapped_file& file, std::span<const std::byte> part) {
    {
      const std::lock_guard lock(mutex_);
      for (; !part.empty(); part = part.subspan(std::min(at_once, part.size())))
        parts_.emplace_back(&file, part.first(std::min(at_once, part.size())));
    }
    try {
      if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
      more_.notify_one();
    } catch (const std::system_error&) {  // no thread to be had: pages come when they are read
    }
  }

 private:
  static constexpr std::size_t at_once = std::size_t{4} << 20;  // so that its end is not waited for

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (more_.wait(lock, stop, [&] { return !parts_.empty(); }) && !stop.stop_requested()) {
      const auto [file, part] = parts_.front();
      parts_.pop_front();
      lock.unlock();
      file->come_into_memory(part);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any more_;
  std::deque<std::pair<const mapped_file*, std::span<const std::byte>>> parts_;
  std::jthread thread_;  // the last member: it ends before what it uses
};

}  // namespace v0
}  // namespace lazyprune
