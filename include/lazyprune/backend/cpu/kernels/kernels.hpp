// SPDX-License-Identifier: MIT
// All kernels, and the set of kernels of each instruction set. The kernels of AVX2, AVX-512 and AMX are compiled for their own
// instructions, whatever the flags of the translation unit. The portable kernels and all other code are compiled with the flags of the
// translation unit. So compile the whole program for the oldest processor that it must run on.
//
// A program of several units can compile the kernels once: it defines LAZYPRUNE_KERNELS_ELSEWHERE for all units, and
// LAZYPRUNE_KERNELS_HERE, too, for one of them (cmake/cpu_kernels.cpp).
#pragma once

#include <lazyprune/backend/cpu/isa.hpp>
#include <lazyprune/backend/cpu/kernels/attention_kernel.hpp>
#include <lazyprune/backend/cpu/kernels/elementwise_kernel.hpp>
#include <lazyprune/backend/cpu/kernels/panel_layout.hpp>
#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>
#if !defined(LAZYPRUNE_KERNELS_ELSEWHERE) || defined(LAZYPRUNE_KERNELS_HERE)
#include <lazyprune/backend/cpu/kernels/portable/attention.hpp>
#include <lazyprune/backend/cpu/kernels/portable/elementwise.hpp>
#include <lazyprune/backend/cpu/kernels/portable/int8_product.hpp>
#include <lazyprune/backend/cpu/kernels/portable/product.hpp>
#if defined(__x86_64__)
#include <lazyprune/backend/cpu/kernels/amx/attention.hpp>
#include <lazyprune/backend/cpu/kernels/amx/product.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/attention.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/elementwise.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/int8_product.hpp>
#include <lazyprune/backend/cpu/kernels/avx512/attention.hpp>
#include <lazyprune/backend/cpu/kernels/avx512/elementwise.hpp>
#include <lazyprune/backend/cpu/kernels/avx512_bf16/attention.hpp>
#include <lazyprune/backend/cpu/kernels/avx512_vnni/int8_product.hpp>
#include <lazyprune/backend/cpu/kernels/avx_vnni/int8_product.hpp>
#endif
#endif

#ifdef LAZYPRUNE_KERNELS_ELSEWHERE
#define LAZYPRUNE_KERNELS_INLINE
#else
#define LAZYPRUNE_KERNELS_INLINE inline
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {

/// The kernels of one instruction set.
struct kernel_set {
  const product_kernel& f32;               // multiplies by tiles in f32
  const product_kernel& bf16;              // multiplies by tiles in bf16
  const attention_kernel& attention_f32;   // for tiles of keys and values in f32
  const attention_kernel& attention_bf16;  // for tiles of keys and values in bf16
  const elementwise_kernel& elementwise;
  columns_writer columns = write_columns;  // writes tiles of weights

  const product_kernel& product(dtype tiles) const { return tiles == dtype::f32 ? f32 : bf16; }
  const attention_kernel& attention(dtype tiles) const { return tiles == dtype::f32 ? attention_f32 : attention_bf16; }

  /// Returns the type of the tiles of keys and values.
  dtype tiles_of(dtype kv) const {
    if (kv == dtype::q8_0) return bf16.unpack_q8_0 ? dtype::bf16 : dtype::f32;
    return kv == dtype::f16 ? dtype::f32 : kv;
  }
};

/// Returns the kernels of the path. The processor must have its instructions.
LAZYPRUNE_KERNELS_INLINE const kernel_set& kernels_of(isa path);

/// Returns the kernels for products of activations in 8 bits with quantized weights. The products have the same bits on all paths but
/// portable. Null for amx: its byte instruction sums 64 inputs, but only 32 share a scale. With half of its inputs idle, it is no faster
/// than TDPBF16PS.
LAZYPRUNE_KERNELS_INLINE const product_kernel* int8_kernel_of(isa path, const detail::processor& here = detail::this_processor());

#if !defined(LAZYPRUNE_KERNELS_ELSEWHERE) || defined(LAZYPRUNE_KERNELS_HERE)
LAZYPRUNE_KERNELS_INLINE const kernel_set& kernels_of([[maybe_unused]] isa path) {
#if defined(__x86_64__)
  static constexpr kernel_set with_avx2{avx2::f32, avx2::bf16, avx2::attention, avx2::attention, avx2::elementwise};
  static constexpr kernel_set with_avx512{avx512::f32,       avx512::bf16,        avx512::attention,
                                          avx512::attention, avx512::elementwise, avx512::write_columns};
  static constexpr kernel_set with_avx512_bf16{avx512::f32,         avx512_bf16::bf16,    avx512::attention, avx512_bf16::attention,
                                               avx512::elementwise, avx512::write_columns};
  static constexpr kernel_set with_amx{avx512::f32,    amx::bf16,           avx512::attention,
                                       amx::attention, avx512::elementwise, avx512::write_columns};
  if (path == isa::avx2) return with_avx2;
  if (path == isa::avx512) return with_avx512;
  if (path == isa::avx512_bf16) return with_avx512_bf16;
  if (path == isa::amx) return with_amx;
#endif
  static constexpr kernel_set on_any{portable::f32, portable::bf16, portable::attention, portable::attention, portable::elementwise};
  return on_any;
}

LAZYPRUNE_KERNELS_INLINE const product_kernel* int8_kernel_of(isa path, [[maybe_unused]] const detail::processor& here) {
#if defined(__x86_64__)
  if (path == isa::avx2) return here.avx_vnni ? &avx_vnni::int8 : &avx2::int8;
  if (path == isa::avx512 || path == isa::avx512_bf16) return here.avx512_vnni ? &avx512_vnni::int8 : &avx2::int8;
#endif
  return path == isa::portable ? &portable::int8 : nullptr;
}
#endif

}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#undef LAZYPRUNE_KERNELS_INLINE
