// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx2/convert.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/contract.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

/// Returns true if the vector code and tensor.hpp give the same bits for numbers from unaligned memory, eight at a time.
template <class Bits>
bool agree(dtype type, const std::vector<Bits>& bits) {
  std::vector<std::byte> memory(1 + bits.size() * sizeof(Bits));
  std::memcpy(memory.data() + 1, bits.data(), bits.size() * sizeof(Bits));
  std::vector<float> wide(bits.size()), expected(bits.size());
  std::vector<std::uint16_t> narrow(bits.size());
  kernels::avx2::convert(type, memory.data() + 1, bits.size(), wide.data());
  kernels::avx2::convert(type, memory.data() + 1, bits.size(), narrow.data());
  widen(tensor{type, 1, bits.size(), memory.data() + 1}, 0, bits.size(), expected.data());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const bool nan = std::isnan(expected[i]);  // the bits of a NaN may differ: F16C makes a NaN quiet
    if (nan ? !std::isnan(wide[i]) : std::bit_cast<std::uint32_t>(wide[i]) != std::bit_cast<std::uint32_t>(expected[i])) return false;
    if (nan ? !std::isnan(float_of_bf16(narrow[i])) : narrow[i] != bf16_of_float(expected[i])) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("every 16-bit number is converted as in tensor.hpp") {
  if (is_missing(isa::avx2)) return;
  std::vector<std::uint16_t> all(0x10000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  CHECK(agree(dtype::f16, all));
  CHECK(agree(dtype::bf16, all));
}

TEST_CASE("floats are rounded as in tensor.hpp: ties, ends of the range, subnormal numbers, NaN") {
  if (is_missing(isa::avx2)) return;
  std::vector<std::uint32_t> some;
  for (std::uint32_t upper = 0; upper < 0x10000; upper += 3)
    for (const std::uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) some.push_back(upper << 16 | lower);
  some.resize(some.size() / 8 * 8);
  CHECK(agree(dtype::f32, some));
}
