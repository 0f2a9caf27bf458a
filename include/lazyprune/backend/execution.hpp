// SPDX-License-Identifier: MIT
// The settings that every backend is constructed from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <lazyprune/backend/tensor.hpp>

// Attention gives the score -infinity to keys that a row does not see, and the kernels fix the order of their additions. The flags below
// would break both. Files that use only policies and sessions may be compiled with these flags.
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "lazyprune's backends cannot be compiled with -ffast-math, -Ofast or -ffinite-math-only: leave the flag out for this file"
#endif

namespace lazyprune {
inline namespace v0 {

/// The instruction sets of the backend `cpu`. Each one includes all that are listed before it.
enum class isa : std::uint8_t {
  portable,     // what every processor of the architecture has: SSE2 on x86-64, NEON on 64-bit ARM
  avx2,         // AVX2, FMA, F16C
  avx512,       // AVX-512 F, BW, DQ, VL
  avx512_bf16,  // VDPBF16PS
  amx,          // AMX-TILE, AMX-BF16
};

inline constexpr isa every_isa[] = {isa::portable, isa::avx2, isa::avx512, isa::avx512_bf16, isa::amx};

constexpr std::string_view name_of(isa i) {
  constexpr std::string_view names[] = {"portable", "avx2", "avx512", "avx512_bf16", "amx"};
  return names[static_cast<std::size_t>(i)];
}

/// The types of keys and values of the backend `cpu`.
inline constexpr dtype every_kv_type[] = {dtype::f32, dtype::bf16, dtype::f16, dtype::q8_0};

/// The functions that the backend `cuda` takes device memory from. If they are null, it takes memory from the device's default pool. The
/// functions must stay valid until all memory is released. Several threads may call them at once.
struct cuda_allocator {
  /// Returns memory that work of the stream (a cudaStream_t) may use from now on, at a multiple of 256 bytes; null: there is too little.
  void* (*allocate)(void* user, std::size_t bytes, void* stream) = nullptr;
  /// Takes memory back. Work that is already in the stream may still use it. It may be another stream than `allocate` was called with.
  void (*release)(void* user, void* memory, std::size_t bytes, void* stream) = nullptr;
  void* user = nullptr;
};

/// The device, stream and allocator of the backend `cuda`. All objects of a process compute on one device.
struct cuda_settings {
  std::optional<int> device = {};  // its number; nullopt: the current device of the thread that makes the backend
  /// A cudaStream_t of this device, for all work of this backend. It must outlive the backend. Null means a stream of the library's own, so
  /// CUDA's default stream is cudaStreamLegacy here.
  void* stream = nullptr;
  cuda_allocator allocator = {};
};

struct execution {
  /// The number of host threads. Any number gives the same results. 0 means as many as the processors and the CPU quota of this process
  /// allow. On `cpu`, 0 means OMP_NUM_THREADS if that is set.
  int threads = 0;
  std::optional<isa> instructions = {};  // nullopt: the fastest on this processor
  /// The type of keys and values: f32 or bf16 or, on `cpu`, also f16 or q8_0. Stored rows take the type, too, if it is f32 or bf16. Without
  /// a value, a layer's keys and values are bf16 if the weights that compute them are bf16, else f32 (model::kv_types). Stored rows are
  /// bf16 if the keys and values of all layers are bf16. Attention converts f16 and q8_0 to f32. On avx512_bf16 and amx it converts q8_0 to
  /// bf16.
  std::optional<dtype> kv = {};

  /// If true, activations stay float in every product. For `cuda`, see cuda.hpp. By default, all paths of `cpu` but amx round activations
  /// to 8 bits before a product with quantized weights. avx512_bf16 and amx round activations to bf16 before a product with bf16 weights,
  /// and queries and attention weights before a product with keys and values in bf16 or q8_0. On amx, and with `exact`, products round
  /// quantized weights to bf16. With `exact`, avx512_bf16 and amx use the kernels of avx512. Their results then have the same bits as those
  /// of avx512 and avx2.
  bool exact = false;

  cuda_settings cuda = {};
};

}  // namespace v0
}  // namespace lazyprune
