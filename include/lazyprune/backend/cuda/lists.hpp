// SPDX-License-Identifier: MIT
// Copies the host's lists to the device: positions, slots, ranges, addresses. A list that is already on the device is not sent again, so
// layers with the same tokens share their lists.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_set>

#include <lazyprune/backend/cuda/locked_memory.hpp>
#include <lazyprune/backend/cuda/memory.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// Lists are appended to a page-locked buffer on the host, and copied to the same offsets of a buffer on the device. They stay there until
/// the buffer is full. The object then waits for all work on the device, forgets all lists, and fills the buffer again from offset 0. So it
/// never overwrites a list that a copy or a kernel still reads.
class lists {
 public:
  lists() = default;
  lists(const lists&) = delete;
  lists& operator=(const lists&) = delete;
  ~lists() { end(); }

  std::size_t bytes() const { return there_.bytes(); }

  /// Returns the device address of each list of an operation, or null for an empty list. Work that is queued before the next call may use
  /// these addresses. All lists that are not yet on the device are sent in one copy.
  template <class... T>
  std::tuple<const T*...> send(std::span<const T>... given) {
    static_assert((std::is_trivially_copyable_v<T> && ...));
    std::array<list_bytes, sizeof...(T)> all{list_bytes(reinterpret_cast<const char*>(given.data()), given.size_bytes())...};
    find_or_put(all);
    return std::apply([this](const auto&... list) { return std::tuple<const T*...>(reinterpret_cast<const T*>(address(list))...); }, all);
  }

  /// Makes room for operations that have up to `size` bytes of lists each. Such operations then allocate nothing.
  void reserve(std::size_t size) {
    if (size <= there_.size()) return;
    end();
    const std::size_t room = std::max(least, 8 * size);
    here_ = locked_memory(room, "lists");
    there_ = {};
    there_ = array<std::byte, purpose::scratch>(room);
  }

 private:
  using list_bytes = std::string_view;
  static constexpr std::size_t alignment = 16, least = std::size_t{1} << 20;

  /// Hashes a list's size, its first 64 bytes and its last 64 bytes. So a long list is read in full only once in a look-up: when the list
  /// is compared with a known list.
  struct hash {
    std::size_t operator()(list_bytes list) const {
      const std::size_t end = std::min<std::size_t>(list.size(), 64);
      const std::hash<list_bytes> of;
      return (of(list.substr(0, end)) * 31 + of(list.substr(list.size() - end))) * 31 + list.size();
    }
  };

  static std::size_t padded(list_bytes list) { return (list.size() + alignment - 1) / alignment * alignment; }
  const std::byte* address(list_bytes here) const { return here.empty() ? nullptr : there_.data() + (here.data() - begin()); }
  char* begin() const { return reinterpret_cast<char*>(here_.data()); }

  /// Replaces each list by its copy in `here_`. Appends and sends the lists that had no copy.
  template <std::size_t Count>
  void find_or_put(std::array<list_bytes, Count>& all) {
    std::array<list_bytes, Count> found;
    std::size_t missing = 0, size = 0;
    for (std::size_t i = 0; i < Count; ++i) {
      const auto known = known_.find(all[i]);
      if (known != known_.end()) found[i] = *known;
      size += padded(all[i]);
      missing += padded(all[i]) - padded(found[i]);
    }
    if (missing > there_.size() - used_) {
      begin_again(size);
      found = {};
    }
    const std::size_t first = used_;
    for (std::size_t i = 0; i < Count; ++i) {
      if (found[i].size() == all[i].size()) continue;
      std::memcpy(begin() + used_, all[i].data(), all[i].size());
      found[i] = list_bytes(begin() + used_, all[i].size());
      used_ += padded(all[i]);
    }
    all = found;
    if (used_ == first) return;
    check(cudaMemcpyAsync(there_.data() + first, begin() + first, used_ - first, cudaMemcpyHostToDevice, stream()), "lists");
    known_.insert(all.begin(), all.end());
  }

  void begin_again(std::size_t size) {
    if (begin()) synchronize();
    known_.clear();
    used_ = 0;
    reserve(size);
  }

  void end() noexcept {
    known_.clear();
    used_ = 0;
    if (!begin()) return;
    try {
      synchronize();
    } catch (const error&) {  // a device that failed reads no list
    }
    here_ = {};
  }

  locked_memory here_;
  array<std::byte, purpose::scratch> there_;  // the bytes of `here_`, on the device
  std::size_t used_ = 0;
  std::unordered_set<list_bytes, hash> known_;  // the lists in `here_`
};

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
