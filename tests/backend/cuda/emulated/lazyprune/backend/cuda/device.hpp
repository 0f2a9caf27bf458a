// SPDX-License-Identifier: MIT
// Has the same functions as include/lazyprune/backend/cuda/device.hpp, for the emulated device. It replaces that header if this folder
// comes first in the include path.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include <lazyprune/backend/tensor.hpp>

#define LAZYPRUNE_UNROLL

namespace emulated {

inline memory& seen_by_threads() { return running_grid().of(); }
inline const knowledge& running_thread() { return grid::running->knows; }

/// A number in device memory, as a device thread sees it.
template <class T>
class reference {
 public:
  explicit reference(std::uintptr_t at) : at_(at) {}
  reference(const reference&) = default;
  operator T() const { return seen_by_threads().read<T>(at_, running_thread()); }
  const reference& operator=(const T& value) const {
    seen_by_threads().write<T>(at_, value, running_thread());
    return *this;
  }
  const reference& operator=(const reference& other) const { return *this = static_cast<T>(other); }
  const reference& operator+=(const T& value) const { return *this = static_cast<T>(*this) + value; }
  const reference& operator*=(const T& value) const { return *this = static_cast<T>(*this) * value; }

 private:
  std::uintptr_t at_;
};

/// A pointer that device threads can dereference.
template <class T>
class pointer {
 public:
  pointer() = default;
  pointer(T* p) : at_(reinterpret_cast<std::uintptr_t>(p)) {}
  explicit pointer(std::uintptr_t at) : at_(at) {}
  operator pointer<const T>() const requires(!std::is_const_v<T>) { return pointer<const T>(at_); }
  explicit operator bool() const { return at_ != 0; }

  decltype(auto) operator[](std::size_t i) const {
    if constexpr (std::is_const_v<T>)
      return seen_by_threads().read<std::remove_const_t<T>>(at_ + i * sizeof(T), running_thread());
    else
      return reference<T>(at_ + i * sizeof(T));
  }
  decltype(auto) operator*() const { return (*this)[0]; }
  pointer operator+(std::size_t i) const { return pointer(at_ + i * sizeof(T)); }
  std::uintptr_t address() const { return at_; }

 private:
  std::uintptr_t at_ = 0;
};

}  // namespace emulated

template <class T>
T atomicAdd(emulated::pointer<T> at, T value) {
  return emulated::running_grid().atomic<T>(at.address(), [value](T old) { return static_cast<T>(old + value); });
}

namespace lazyprune {
inline namespace v0 {
namespace device {

template <class T>
using global = emulated::pointer<T>;
template <class T>
using shared = emulated::pointer<T>;

template <class T>
shared<T> shared_memory(std::size_t offset) {
  if (offset >= emulated::running_grid().shared_bytes())
    throw emulated::fault("shared memory from byte " + std::to_string(offset) + " on: the block has less");
  return shared<T>(emulated::running_grid().shared_at(offset));
}

template <class Wide, class T>
Wide load(emulated::pointer<T> from) {
  return emulated::seen_by_threads().read<Wide>(from.address(), emulated::running_thread());
}
template <class Wide, class T>
void store(emulated::pointer<T> to, const Wide& value) {
  emulated::seen_by_threads().write<Wide>(to.address(), value, emulated::running_thread());
}

template <class Wide, class T>
bool fits(emulated::pointer<T> at) {
  return at.address() % sizeof(Wide) == 0;
}

template <class T>
void copy_async(shared<T> to, global<const T> from, bool there) {
  emulated::running_grid().copy_async(to.address(), from.address(), there);
}
inline void commit_copies() { emulated::running_grid().commit_copies(); }
template <unsigned But>
void wait_for_copies() {
  emulated::running_grid().wait_for_copies(But);
}

inline void wait_for_earlier_work() {}

inline float widen(std::uint16_t bits) { return float_of_bf16(bits); }
inline std::uint16_t round_to_bf16(float value) { return bf16_of_float(value); }
inline std::uint32_t pair_of_bf16(float low, float high) {
  return bf16_of_float(low) | static_cast<std::uint32_t>(bf16_of_float(high)) << 16;
}

inline float exp2_fast(float x) {
  const float power = std::exp2(x);
  return power < std::numeric_limits<float>::min() ? 0.0f : power;
}

namespace detail {

struct eight_halves {
  std::uint16_t half[8];
};

/// Loads four 8 x 8 matrices of 16-bit numbers from shared memory. Each lane passes the address of one row, so eight lanes together pass a
/// matrix. Each lane gets two numbers of matrix i in to[i].
template <bool Transposed>
void load_matrices(std::uint32_t (&to)[4], shared<const std::uint16_t> row, emulated::site where) {
  if (!emulated::running_grid().is_shared(row.address())) throw emulated::fault("ldmatrix: a row that is not in shared memory");
  struct registers {
    std::uint32_t number[4];
  };
  const emulated::meeting<eight_halves, registers> spread = [](const auto& rows, auto& got) {
    for (unsigned lane = 0; lane < emulated::lanes; ++lane)
      for (unsigned matrix = 0; matrix < 4; ++matrix) {
        const unsigned by = lane / 4, at = lane % 4 * 2;
        const auto element = [&](unsigned r, unsigned c) -> std::uint32_t { return rows[matrix * 8 + r].half[c]; };
        got[lane].number[matrix] = Transposed ? element(at, by) | element(at + 1, by) << 16 : element(by, at) | element(by, at + 1) << 16;
      }
  };
  const auto mine = std::bit_cast<eight_halves>(load<uint4>(row));
  const registers got = emulated::running_grid().meet(spread, mine, where);
  std::memcpy(to, got.number, sizeof to);
}

}  // namespace detail

inline void ldmatrix(std::uint32_t (&to)[4], shared<const std::uint16_t> row, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE()) {
  detail::load_matrices<false>(to, row, {file, line});
}
inline void ldmatrix_transposed(std::uint32_t (&to)[4], shared<const std::uint16_t> row, const char* file = __builtin_FILE(),
                                int line = __builtin_LINE()) {
  detail::load_matrices<true>(to, row, {file, line});
}

inline void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], const char* file = __builtin_FILE(),
                int line = __builtin_LINE()) {
  struct fragments {
    std::uint32_t a[4], b[2];
  };
  struct sums {
    float number[4];
  };
  const emulated::meeting<fragments, sums> multiply = [](const auto& brought, auto& got) {
    float left[16][16], right[16][8], product[16][8];
    const auto half = [](std::uint32_t pair, unsigned which) { return float_of_bf16(static_cast<std::uint16_t>(pair >> 16 * which)); };
    for (unsigned lane = 0; lane < emulated::lanes; ++lane)
      for (unsigned which = 0; which < 2; ++which) {
        const unsigned group = lane / 4, column = lane % 4 * 2 + which;
        for (unsigned r = 0; r < 4; ++r) left[group + r % 2 * 8][column + r / 2 * 8] = half(brought[lane].a[r], which);
        for (unsigned r = 0; r < 2; ++r) right[column + r * 8][group] = half(brought[lane].b[r], which);
      }
    for (unsigned i = 0; i < 16; ++i) {
      float sum[8] = {};
      for (unsigned k = 0; k < 16; ++k)
        for (unsigned j = 0; j < 8; ++j) sum[j] += left[i][k] * right[k][j];
      std::memcpy(product[i], sum, sizeof sum);
    }
    for (unsigned lane = 0; lane < emulated::lanes; ++lane)
      for (unsigned r = 0; r < 4; ++r) got[lane].number[r] = product[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2];
  };
  const sums got = emulated::running_grid().meet(multiply, fragments{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, {file, line});
  for (unsigned r = 0; r < 4; ++r) d[r] += got.number[r];
}

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
