// SPDX-License-Identifier: MIT
// The words that kernels are written with where CUDA's own would tie them to a real device: pointers into its memory, and what is said
// in PTX. All else is CUDA's: threadIdx, __syncthreads, __shfl_xor_sync. The tests have another header of this name, under which the same
// kernels run thread by thread on an imitated device (tests/backend/cuda/emulated).
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

/// Before a loop whose numbers live in registers.
#define LAZYPRUNE_UNROLL _Pragma("unroll")

namespace lazyprune {
inline namespace v0 {
namespace device {

/// A pointer into the device's memory, or into that of a block: followed by threads of the device alone, number by number with [], or
/// several at once with load and store.
template <class T>
using global = T*;
template <class T>
using shared = T*;

/// The block's shared memory, of which the launch said how much there is, from this byte on.
template <class T>
__device__ __forceinline__ shared<T> shared_memory(std::size_t offset) {
  extern __shared__ uint4 bytes_of_the_block[];
  return reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(bytes_of_the_block) + offset);
}

/// All the numbers that a Wide (float4, uint4) holds, from one that lies at a multiple of its size.
template <class Wide, class T>
__device__ __forceinline__ Wide load(T* from) {
  return *reinterpret_cast<const Wide*>(from);
}
template <class Wide, class T>
__device__ __forceinline__ void store(T* to, const Wide& value) {
  *reinterpret_cast<Wide*>(to) = value;
}

/// Returns true if a Wide can be loaded from this address, or stored to it.
template <class Wide, class T>
__device__ __forceinline__ bool fits(T* at) {
  return reinterpret_cast<std::uintptr_t>(at) % sizeof(Wide) == 0;
}

/// 16 bytes from global into shared memory, or zeros where they are not there: begun, and done when somebody waits for the group that the
/// next commit_copies closes (PTX: cp.async). Only the thread that waited sees them; others do after a barrier.
template <class T>
__device__ __forceinline__ void copy_async(T* to, const T* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
/// Until all groups of this thread are done but so many, the last ones.
template <unsigned But>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(But) : "memory");
}

// bf16 as its bits, as the host has it; rounded to nearest, ties to even.
__device__ __forceinline__ float widen(std::uint16_t bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
__device__ __forceinline__ std::uint16_t round_to_bf16(float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); }
/// Two of them: the first in the lower half.
__device__ __forceinline__ std::uint32_t pair_of_bf16(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// 2^x, off by 2^-22 of itself at most; 0 where that would be a subnormal number (PTX: ex2.approx.ftz).
__device__ __forceinline__ float exp2_fast(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(power) : "f"(x));
  return power;
}

/// Four matrices of 8 x 8 numbers of bf16 out of shared memory (PTX: ldmatrix .x4): lane i brings the address of row i % 8 of matrix i / 8,
/// at a multiple of 16 bytes, and gets of each matrix the numbers 2 (i % 4) and the next of row i / 4.
__device__ __forceinline__ void ldmatrix(std::uint32_t (&to)[4], const std::uint16_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}
/// The same of the transposed matrices: numbers i / 4 of the rows 2 (i % 4) and the next.
__device__ __forceinline__ void ldmatrix_transposed(std::uint32_t (&to)[4], const std::uint16_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// d += a b of a warp, a (16, 16) and b (16, 8) in bf16, d (16, 8) in float, in the fragments of PTX's mma .m16n8k16.
__device__ __forceinline__ void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
