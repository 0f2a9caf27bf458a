// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cuda/memory.hpp>

#include <doctest/doctest.h>

#include <lazyprune/backend/memory/shared_array.hpp>

#include <fault.hpp>
#include <tested_device.hpp>

#include "on_device.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::bytes_held, lazyprune_test::numbers_at;
using lazyprune_test::error_of;

namespace {

using numbers = device::array<int, device::purpose::aux_cache>;

void write(int* there, std::vector<int> here) {
  cudaMemcpyAsync(there, here.data(), here.size() * sizeof(int), cudaMemcpyHostToDevice, device::stream());
  device::synchronize();
}

}  // namespace

TEST_CASE("device memory is allocated, moved, enlarged and freed") {
  device::synchronize();  // complete earlier frees
  const std::size_t held = bytes_held();
  {
    numbers a(3);
    write(a.data(), {1, 2, 3});
    const numbers larger = a.resized(5, 2), moved = std::move(a);
    CHECK(larger.bytes() == 20);
    CHECK(numbers_at(larger.data(), 2) == std::vector{1, 2});
    CHECK(numbers_at(moved.data(), 3) == std::vector{1, 2, 3});
    CHECK(a.data() == nullptr);
    CHECK(numbers(0).data() == nullptr);
    CHECK_THROWS_AS(numbers(SIZE_MAX / 2), std::bad_array_new_length);
  }
  device::synchronize();
  CHECK(bytes_held() == held);
}

TEST_CASE("too little memory is an error with the purpose and the bytes") {
  CHECK(error_of([&] { numbers(std::size_t{1} << 50); }) ==
        at("cuda: stored rows", {"4503599627370496", "cudaErrorMemoryAllocation"}, error_code::no_memory));
}

TEST_CASE("arrays shared by copies are copied on the device when one of them writes") {
  shared_array<int, numbers> one(2);
  write(one.own(), {1, 2});
  shared_array<int, numbers> other = one;
  CHECK(other.data() == one.data());
  write(other.own(), {3, 4});
  CHECK(numbers_at(one.data(), 2) == std::vector{1, 2});
  CHECK(numbers_at(other.data(), 2) == std::vector{3, 4});
}

TEST_CASE("scratch grows and is reused") {
  device::scratch<float> some;
  CHECK(some.bytes() == 0);
  float* const first = some.reserve(10);
  CHECK(some.reserve(5) == first);
  CHECK(some.bytes() == 40);
  some.reserve(11);
  CHECK(some.bytes() == 44);
}
