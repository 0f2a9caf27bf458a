// SPDX-License-Identifier: MIT
// Has the same functions as include/lazyprune/backend/cuda/wgmma.hpp, for the emulated device.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include <lazyprune/backend/cuda/device.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

inline constexpr bool has_wgmma = true;
inline constexpr unsigned wgmma_columns = 64;

inline unsigned wgmma_place(unsigned rows, unsigned row, unsigned column) {
  const unsigned piece = column % wgmma_columns / 8 ^ row % 8;
  return (column / wgmma_columns * rows + row) * wgmma_columns + piece * 8 + column % 8;
}

/// The fields of a matrix descriptor for 128-byte swizzling that products use: its address, and the distance between blocks of 64 columns.
class wgmma_operand {
 public:
  wgmma_operand(shared<const std::uint16_t> at, unsigned rows) : wgmma_operand(at.address(), rows * 128) {
    if (at_ % 1024 != 0) throw emulated::fault("wgmma: a matrix that does not begin at a multiple of 1024 bytes");
  }
  wgmma_operand from(unsigned place) const {
    const wgmma_operand part(at_ + place * 2, to_next_block_);
    if (part.at_ % 16 != 0 || (part.at_ & 0x380) != 0) throw emulated::fault("wgmma: an operand inside of eight rows");
    return part;
  }

  /// Returns the address of the piece of eight numbers that begins at (row, column). PTX: "Strides" and "Canonical layouts" of wgmma, for
  /// swizzle mode 128B. A pattern is eight rows of 128 bytes. In an address, the three bits above the lowest seven change the three below.
  std::uintptr_t piece(unsigned row, unsigned column) const {
    const std::uintptr_t plain = at_ + column / 64 * to_next_block_ + row / 8 * 1024 + row % 8 * 128 + column % 64 * 2;
    return plain ^ (plain >> 7 & 7) << 4;
  }

 private:
  wgmma_operand(std::uintptr_t at, std::uintptr_t to_next_block) : at_(at), to_next_block_(to_next_block) {}

  std::uintptr_t at_, to_next_block_;
};

inline void wgmma_fence(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulated::running_grid().call_together({file, line});
  emulated::running_grid().fence_products();
}
inline void wgmma_publish() { emulated::running_grid().publish_to_products(); }
inline void wgmma_commit(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulated::running_grid().call_together({file, line});
  emulated::running_grid().commit_products();
}

template <unsigned Tiles>
void wgmma_pin(float (&)[Tiles][4]) {}
template <unsigned But, unsigned Tiles>
void wgmma_wait(float (&)[Tiles][4], const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulated::running_grid().call_together({file, line});
  emulated::running_grid().wait_for_products(But);
}
template <unsigned But, unsigned Tiles, unsigned Operands>
void wgmma_wait(float (&d)[Tiles][4], const std::uint32_t (&)[Operands][1][4], const char* file = __builtin_FILE(),
                int line = __builtin_LINE()) {
  wgmma_wait<But>(d, file, line);
}

namespace detail {

/// The numbers that a lane brings to a warp's product. They are its registers of a, or one piece of a's rows, and some pieces of b.
template <unsigned N>
struct brought_to_product {
  static constexpr unsigned pieces = N / 16;  // of b, for each lane
  eight_halves a, b[pieces];
};

/// Computes a warp's 16 rows of d = a b, or adds them, with a (16, 16) and b (16, N). If `InRegisters`, a lane brings its registers of
/// mma's a, and the pieces of b are those of its rows, one row after another. Otherwise they are those of its columns.
template <unsigned N, bool InRegisters>
void multiply_warp(float (&d)[N / 8][4], bool adds, const brought_to_product<N>& mine, emulated::site where) {
  struct sums {
    float number[N / 8][4];
  };
  const emulated::meeting<brought_to_product<N>, sums> multiply = [](const auto& brought, auto& got) {
    float left[16][16], right[16][N], product[16][N] = {};
    for (unsigned lane = 0; lane < emulated::lanes; ++lane) {
      for (unsigned e = 0; e < 8; ++e) {
        const float number = float_of_bf16(brought[lane].a.half[e]);
        if (InRegisters)
          left[lane / 4 + e / 2 % 2 * 8][lane % 4 * 2 + e % 2 + e / 4 * 8] = number;
        else
          left[lane / 2][lane % 2 * 8 + e] = number;
      }
      for (unsigned i = 0; i < brought[lane].pieces; ++i)
        for (unsigned e = 0; e < 8; ++e) {
          const float number = float_of_bf16(brought[lane].b[i].half[e]);
          const unsigned piece = i * emulated::lanes + lane;
          if (InRegisters)
            right[piece / (N / 8)][piece % (N / 8) * 8 + e] = number;
          else
            right[piece % 2 * 8 + e][piece / 2] = number;
        }
    }
    for (unsigned i = 0; i < 16; ++i)
      for (unsigned k = 0; k < 16; ++k)
        for (unsigned j = 0; j < N; ++j) product[i][j] += left[i][k] * right[k][j];
    for (unsigned lane = 0; lane < emulated::lanes; ++lane)
      for (unsigned n = 0; n < N / 8; ++n)
        for (unsigned r = 0; r < 4; ++r) got[lane].number[n][r] = product[lane / 4 + r / 2 * 8][n * 8 + lane % 4 * 2 + r % 2];
  };
  const sums got = emulated::running_grid().meet(multiply, mine, where);
  for (unsigned n = 0; n < N / 8; ++n)
    for (unsigned r = 0; r < 4; ++r) d[n][r] = (adds ? d[n][r] : 0) + got.number[n][r];
}

inline eight_halves piece_for_product(const wgmma_operand& of, unsigned row, unsigned column) {
  return std::bit_cast<eight_halves>(emulated::running_grid().read_for_product<uint4>(of.piece(row, column)));
}

template <unsigned Tiles>
void begin_by_rows(float (&d)[Tiles][4], const std::uint32_t (&a)[4], wgmma_operand b, emulated::site where) {
  emulated::running_grid().call_together(where);
  emulated::running_grid().begin_product([&d, &a, b, where] {
    brought_to_product<Tiles * 8> mine{};
    std::memcpy(&mine.a, a, sizeof a);
    for (unsigned i = 0; i < mine.pieces; ++i) {
      const unsigned piece = i * emulated::lanes + threadIdx.x % emulated::lanes;
      mine.b[i] = piece_for_product(b, piece / Tiles, piece % Tiles * 8);
    }
    multiply_warp<Tiles * 8, true>(d, true, mine, where);
  });
}

}  // namespace detail

inline void wgmma(float (&d)[16][4], wgmma_operand a, wgmma_operand b, bool adds, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  const emulated::site where{file, line};
  emulated::running_grid().call_together(where);
  emulated::running_grid().begin_product([&d, a, b, adds, where] {
    const unsigned lane = threadIdx.x % emulated::lanes, warp = threadIdx.x / emulated::lanes % 4;
    detail::brought_to_product<128> mine{};
    mine.a = detail::piece_for_product(a, warp * 16 + lane / 2, lane % 2 * 8);
    for (unsigned i = 0; i < mine.pieces; ++i) {
      const unsigned piece = i * emulated::lanes + lane;
      mine.b[i] = detail::piece_for_product(b, piece / 2, piece % 2 * 8);
    }
    detail::multiply_warp<128, false>(d, adds, mine, where);
  });
}

inline void wgmma_by_rows(float (&d)[8][4], const std::uint32_t (&a)[4], wgmma_operand b, const char* file = __builtin_FILE(),
                          int line = __builtin_LINE()) {
  detail::begin_by_rows(d, a, b, {file, line});
}
inline void wgmma_by_rows(float (&d)[16][4], const std::uint32_t (&a)[4], wgmma_operand b, const char* file = __builtin_FILE(),
                          int line = __builtin_LINE()) {
  detail::begin_by_rows(d, a, b, {file, line});
}

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
