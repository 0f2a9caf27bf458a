// SPDX-License-Identifier: MIT
// Reads files into memory on a thread of its own, while other threads compute.
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

/// Reads ranges of files, one after another. The files must outlive this object. The destructor drops all ranges that are not read yet.
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
    } catch (const std::system_error&) {  // without a thread, pages are read on first use
    }
  }

 private:
  static constexpr std::size_t at_once = std::size_t{4} << 20;  // bytes; few, because the destructor waits for the part being read

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (more_.wait(lock, stop, [&] { return !parts_.empty(); }) && !stop.stop_requested()) {
      const auto [file, part] = parts_.front();
      parts_.pop_front();
      lock.unlock();
      file->prefetch(part);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any more_;
  std::deque<std::pair<const mapped_file*, std::span<const std::byte>>> parts_;
  std::jthread thread_;  // the last member, so that its thread ends before the other members are destroyed
};

}  // namespace v0
}  // namespace lazyprune
