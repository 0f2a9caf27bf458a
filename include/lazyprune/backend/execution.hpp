// SPDX-License-Identifier: MIT
// What every backend is made from.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <lazyprune/backend/tensor.hpp>

// Attention hides keys behind infinities, and the bits of every operation are promised: such flags break both. Policies and sessions may be
// compiled with them.
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "lazyprune's backends cannot be compiled with -ffast-math, -Ofast or -ffinite-math-only: leave the flag out for this file"
#endif

namespace lazyprune {
inline namespace v0 {

/// What the backend `cpu` computes with, each name with all that stand before it.
enum class isa : std::uint8_t {
  portable,     // what every processor of its kind has: SSE2 on x86-64, NEON on 64-bit ARM
  avx2,         // AVX2, FMA, F16C
  avx512,       // AVX-512 F, BW, DQ, VL
  avx512_bf16,  // VDPBF16PS
  amx,          // tiles of bf16
};

inline constexpr isa every_isa[] = {isa::portable, isa::avx2, isa::avx512, isa::avx512_bf16, isa::amx};

constexpr std::string_view name_of(isa i) {
  constexpr std::string_view names[] = {"portable", "avx2", "avx512", "avx512_bf16", "amx"};
  return names[static_cast<std::size_t>(i)];
}

struct execution {
  int threads = 0;  // 0: all that the process may use, by its processors and its CPU quota. Results do not depend on it
  std::optional<isa> instructions = {};  // none: the best for this processor
  /// How the backends `cpu` and `cuda` keep keys, values and stored rows: f32, or bf16 in half the memory. None: as the model's weights
  /// that make them are, so that a model in bf16 is computed in bf16 throughout (model::kv_types).
  std::optional<dtype> kv = {};

  /// Activations stay float wherever they are multiplied. portable, avx2 and avx512 keep them so in any case. avx512_bf16 and amx round
  /// them to bf16 where they meet weights in bf16, and queries and attention weights where they meet keys and values in bf16; where `exact`
  /// is set, avx512's kernels take the place of theirs, and give the bits of avx512 and avx2.
  bool exact = false;
};

}  // namespace v0
}  // namespace lazyprune
