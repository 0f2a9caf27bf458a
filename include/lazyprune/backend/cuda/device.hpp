// SPDX-License-Identifier: MIT
// The operations of kernels that the tests replace: pointers into device memory, and PTX instructions. Everything else in the kernels is
// plain CUDA: threadIdx, __syncthreads, __shfl_xor_sync. The tests have another header of this name. With that header, the same kernels run
// thread by thread on an emulated device (tests/backend/cuda/emulated).
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

/// Stands before loops that must be unrolled, so that arrays indexed by the loop stay in registers.
#define LAZYPRUNE_UNROLL _Pragma("unroll")

namespace lazyprune {
inline namespace v0 {
namespace device {

/// Pointers into device memory (global) and into a block's shared memory (shared). Only device threads dereference them. They access one
/// number by [], and several at once by load and store.
template <class T>
using global = T*;
template <class T>
using shared = T*;

/// Returns the thread block's dynamic shared memory from byte `offset` on. The launch sets the size of this memory.
template <class T>
__device__ __forceinline__ shared<T> shared_memory(std::size_t offset) {
  extern __shared__ __align__(1024) uint4 bytes_of_the_block[];  // as wgmma's operands need it
  return reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(bytes_of_the_block) + offset);
}

/// Loads or stores all numbers of a Wide (float4, uint4) in one access. The address must be a multiple of sizeof(Wide).
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

/// Starts a copy of 16 bytes from global to shared memory (PTX: cp.async). If `there` is false, the copy writes zeros instead. The next
/// commit_copies closes the group that this copy belongs to. The copy is complete when this thread has waited for the group. Other threads
/// see the copied bytes only after a barrier.
template <class T>
__device__ __forceinline__ void copy_async(T* to, const T* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
/// Waits for all groups of this thread except the last `But` groups.
template <unsigned But>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(But) : "memory");
}

/// Waits until all earlier work of the stream is done (PTX: griddepcontrol). Every kernel that launch_early launches calls this function in
/// each thread before it reads numbers that earlier work wrote, and before it writes any. Also lets the next kernel of the stream begin.
__device__ __forceinline__ void wait_for_earlier_work() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

// A bf16 number is represented by its bits, as on the host. Rounding is to nearest, ties to even.
__device__ __forceinline__ float widen(std::uint16_t bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
__device__ __forceinline__ std::uint16_t round_to_bf16(float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); }
/// Rounds two numbers to bf16 and packs them, with `low` in the lower 16 bits.
__device__ __forceinline__ std::uint32_t pair_of_bf16(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// Returns 2^x with a relative error of at most 2^-22, or 0 if the result would be subnormal (PTX: ex2.approx.ftz).
__device__ __forceinline__ float exp2_fast(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(power) : "f"(x));
  return power;
}

/// Loads four matrices of 8 x 8 bf16 numbers from shared memory (PTX: ldmatrix .x4). Lane i passes the address of row i % 8 of matrix i /
/// 8. The address must be a multiple of 16 bytes. From each matrix, lane i gets the numbers 2 (i % 4) and 2 (i % 4) + 1 of row i / 4.
__device__ __forceinline__ void ldmatrix(std::uint32_t (&to)[4], const std::uint16_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}
/// Loads four matrices as ldmatrix does, and transposes them. From each matrix, lane i gets number i / 4 of the rows 2 (i % 4) and 2 (i %
/// 4) + 1.
__device__ __forceinline__ void ldmatrix_transposed(std::uint32_t (&to)[4], const std::uint16_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// Computes d += a b by one warp, with a (16, 16) and b (16, 8) in bf16 and d (16, 8) in float. PTX's mma .m16n8k16 defines which numbers
/// each lane holds.
__device__ __forceinline__ void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
