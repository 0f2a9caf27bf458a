// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cuda/lists.hpp>

#include <doctest/doctest.h>

#include <numeric>
#include <random>
#include <vector>

#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

template <class T>
std::span<const T> list(const std::vector<T>& numbers) {
  return numbers;
}

/// Copies to the device, and their bytes.
struct sent {
  std::size_t copies, bytes;
  friend bool operator==(const sent&, const sent&) = default;
};
/// Returns the copies to the device since the last call of sent_now.
sent sent_now() {
  static sent before{};
  device::synchronize();
  const auto& all = emulated::the_device().to_device;
  const sent now{all.copies - before.copies, all.bytes - before.bytes};
  before = {all.copies, all.bytes};
  return now;
}

}  // namespace

TEST_CASE("lists on the device are not sent again; all others go in one copy") {
  device::lists all;
  const std::vector<std::uint32_t> a{1, 2, 3, 4, 5}, b(100, 7);
  const std::vector<std::uint64_t> c{1};
  sent_now();
  const auto [first_a, first_b, nothing] = all.send(list(a), list(b), std::span<const int>());
  CHECK(sent_now() == sent{1, 32 + 400});
  CHECK(nothing == nullptr);
  const auto [second_b, first_c, second_a] = all.send(list(b), list(c), list(a));
  CHECK(sent_now() == sent{1, 16});
  CHECK(second_a == first_a);
  CHECK(second_b == first_b);
  CHECK(numbers_at(first_a, 5) == a);
  CHECK(numbers_at(first_b, 100) == b);
  CHECK(numbers_at(first_c, 1) == c);

  std::vector<std::uint32_t> other = b;  // `other` differs only in the middle, which the hash does not read
  other[50] = 8;
  const auto [there, same] = all.send(list(other), list(other));
  CHECK(sent_now().copies == 1);
  CHECK(numbers_at(there, 100) == other);
  CHECK(numbers_at(same, 100) == other);
  all.send(list(b), list(other));
  all.send(std::span<const int>());
  CHECK(sent_now() == sent{0, 0});
}

TEST_CASE("a full buffer is filled again from its start: no list is overwritten while it is still read, and all are sent again when used") {
  device::lists all;
  std::mt19937 random(1);
  std::vector<std::uint32_t> expected(3 * 3000), got(expected.size());
  const std::vector<std::uint32_t> always{5, 6, 7};
  sent_now();
  for (std::uint32_t i = 0; i < 3000; ++i) {
    const std::vector<std::uint32_t> a(100 + i % 7, i % 1000), b(random() % 400, i);
    const auto [there_a, there_b, there_always] = all.send(list(a), list(b), list(always));
    const auto note = [&](std::size_t at, const std::uint32_t* from, const std::vector<std::uint32_t>& here) {
      if (here.empty()) return;
      cudaMemcpyAsync(&got[at], from + here.size() - 1, 4, cudaMemcpyDeviceToHost, device::stream());
      expected[at] = here.back();
    };
    note(3 * i, there_a, a);
    note(3 * i + 1, there_b, b);
    note(3 * i + 2, there_always, always);
  }
  CHECK(sent_now().bytes > 2 * all.bytes());  // the buffer was filled more than twice
  CHECK(got == expected);
  CHECK(all.bytes() == 1 << 20);

  const std::vector<std::uint32_t> large(1 << 20, 5);
  const auto [there] = all.send(list(large));
  CHECK(numbers_at(there + large.size() - 1, 1) == std::vector<std::uint32_t>{5});
  CHECK(numbers_at(std::get<0>(all.send(list(always))), 3) == always);
}

TEST_CASE("lists of the reserved size allocate nothing more") {
  device::lists all;
  all.reserve(1 << 20);
  device::synchronize();
  const std::size_t bytes = all.bytes(), allocations = emulated::the_device().allocations;
  for (std::uint32_t i = 0; i < 20; ++i) {
    const std::vector<std::uint32_t> a(1 << 17, i), b((1 << 17) - 4, i);
    all.send(list(a), list(b));
  }
  device::synchronize();
  CHECK(all.bytes() == bytes);
  CHECK(emulated::the_device().allocations == allocations);
}
