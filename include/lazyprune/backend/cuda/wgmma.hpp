// SPDX-License-Identifier: MIT
// Products of a warpgroup (PTX: wgmma). The tests replace this header as they replace device.hpp.
//
// A warpgroup is four warps, the first of which has a number that is a multiple of four. All its threads call these functions together. A
// product is asynchronous: it may read its operands and change its sums at any time until wgmma_wait returns for its group.
#pragma once

#include <cstdint>

#include <lazyprune/backend/cuda/device.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// This constant is true in code that is compiled for compute capability 9.0a. Only such code has these instructions.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool has_wgmma = true;
#else
inline constexpr bool has_wgmma = false;
#endif

inline constexpr unsigned wgmma_columns = 64, wgmma_pattern_bytes = 1024;

/// Returns the place, in numbers, at which wgmma expects number (row, column) of a matrix in shared memory. A matrix is cut into blocks of
/// 64 columns, each with `rows` rows of 128 bytes. In row i, the piece p of eight numbers is at piece p ^ (i % 8), so that eight rows of
/// one piece are in different banks (PTX: 128-byte swizzling).
__device__ __forceinline__ unsigned wgmma_place(unsigned rows, unsigned row, unsigned column) {
  const unsigned piece = column % wgmma_columns / 8 ^ row % 8;
  return (column / wgmma_columns * rows + row) * wgmma_columns + piece * 8 + column % 8;
}

/// A matrix of bf16 numbers in shared memory, at the places that wgmma_place gives. It begins at a multiple of 1,024 bytes.
struct wgmma_operand {
  std::uint64_t descriptor;

  __device__ __forceinline__ wgmma_operand(const std::uint16_t* at, unsigned rows)
      : descriptor((static_cast<unsigned>(__cvta_generic_to_shared(at)) & 0x3ffffu) >> 4 |
                   static_cast<std::uint64_t>(rows * wgmma_columns * 2 >> 4) << 16 | std::uint64_t{wgmma_pattern_bytes >> 4} << 32 |
                   std::uint64_t{1} << 62) {}  // 1: the pattern of wgmma_place
  __device__ __forceinline__ explicit wgmma_operand(std::uint64_t bits) : descriptor(bits) {}
  /// The part of the matrix that begins at number `place`: the first of 16 columns, or of a row whose number is a multiple of eight.
  __device__ __forceinline__ wgmma_operand from(unsigned place) const { return wgmma_operand(descriptor + place / 8); }
};

/// Stands before the first product after a change of the registers that products read or write.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
/// Lets later products of any thread read what this thread wrote to shared memory. A barrier must follow before they begin.
__device__ __forceinline__ void wgmma_publish() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }
/// Closes the group of the products that were begun since the last call.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }

/// Keeps the compiler from moving the computation of these numbers behind later calls of this header, or a use of them before earlier ones.
template <unsigned Tiles>
__device__ __forceinline__ void wgmma_pin(float (&d)[Tiles][4]) {
  LAZYPRUNE_UNROLL for (unsigned n = 0; n < Tiles; ++n)
      LAZYPRUNE_UNROLL for (unsigned e = 0; e < 4; ++e) asm volatile("" : "+f"(d[n][e])::"memory");
}

/// Waits for all groups except the last `But` groups. `d`: the sums of the products that are then complete. `a`: their operands in
/// registers, which the compiler must not reuse before.
template <unsigned But, unsigned Tiles>
__device__ __forceinline__ void wgmma_wait(float (&d)[Tiles][4]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(But) : "memory");
  wgmma_pin(d);
}
template <unsigned But, unsigned Tiles, unsigned Operands>
__device__ __forceinline__ void wgmma_wait(float (&d)[Tiles][4], const std::uint32_t (&a)[Operands][1][4]) {
  wgmma_wait<But>(d);
  LAZYPRUNE_UNROLL for (unsigned i = 0; i < Operands; ++i)
      LAZYPRUNE_UNROLL for (unsigned e = 0; e < 4; ++e) asm volatile("" ::"r"(a[i][0][e]) : "memory");
}

#define LAZYPRUNE_SUMS(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define LAZYPRUNE_32_SUMS                                                                                                              \
  LAZYPRUNE_SUMS(0), LAZYPRUNE_SUMS(1), LAZYPRUNE_SUMS(2), LAZYPRUNE_SUMS(3), LAZYPRUNE_SUMS(4), LAZYPRUNE_SUMS(5), LAZYPRUNE_SUMS(6), \
      LAZYPRUNE_SUMS(7)
#define LAZYPRUNE_64_SUMS                                                                                                                  \
  LAZYPRUNE_32_SUMS, LAZYPRUNE_SUMS(8), LAZYPRUNE_SUMS(9), LAZYPRUNE_SUMS(10), LAZYPRUNE_SUMS(11), LAZYPRUNE_SUMS(12), LAZYPRUNE_SUMS(13), \
      LAZYPRUNE_SUMS(14), LAZYPRUNE_SUMS(15)
#define LAZYPRUNE_32_NAMES                                                                                                        \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, " \
  "%27, %28, %29, %30, %31"
#define LAZYPRUNE_64_NAMES                                                                                           \
  LAZYPRUNE_32_NAMES                                                                                                 \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, " \
  "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/// Begins the product d = a b, or d += a b if `adds`, with a (64, 16) and b (16, 128). `a` has the rows of a, and `b` the columns of b.
/// Warp w of the warpgroup has the rows 16 w to 16 w + 15 of d, in tiles of eight columns, and each tile as mma's d.
__device__ __forceinline__ void wgmma(float (&d)[16][4], wgmma_operand a, wgmma_operand b, bool adds) {
  asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" LAZYPRUNE_64_NAMES
               "}, %64, %65, adds, 1, 1, 0, 0;\n}\n"
               : LAZYPRUNE_64_SUMS
               : "l"(a.descriptor), "l"(b.descriptor), "r"(static_cast<int>(adds)));
}
/// Begins the product d += a b, with a (64, 16) and b (16, 64) or (16, 128). Each warp has its 16 rows of a in registers, as mma's a. `b`
/// has the rows of b.
__device__ __forceinline__ void wgmma_by_rows(float (&d)[8][4], const std::uint32_t (&a)[4], wgmma_operand b) {
  asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %37, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LAZYPRUNE_32_NAMES
               "}, {%32, %33, %34, %35}, %36, adds, 1, 1, 1;\n}\n"
               : LAZYPRUNE_32_SUMS
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor), "r"(1));
}
__device__ __forceinline__ void wgmma_by_rows(float (&d)[16][4], const std::uint32_t (&a)[4], wgmma_operand b) {
  asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %69, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" LAZYPRUNE_64_NAMES
               "}, {%64, %65, %66, %67}, %68, adds, 1, 1, 1;\n}\n"
               : LAZYPRUNE_64_SUMS
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor), "r"(1));
}
#undef LAZYPRUNE_64_NAMES
#undef LAZYPRUNE_32_NAMES
#undef LAZYPRUNE_64_SUMS
#undef LAZYPRUNE_32_SUMS
#undef LAZYPRUNE_SUMS

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
