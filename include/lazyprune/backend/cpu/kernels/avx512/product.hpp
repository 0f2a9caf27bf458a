// SPDX-License-Identifier: MIT
// Products in AVX-512: tiles of 12 rows and both panels, 24 sums of the 32 registers.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include <lazyprune/backend/cpu/isa.hpp>
#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>

#define LAZYPRUNE_AVX512 LAZYPRUNE_TARGET("avx512f,avx512bw,avx512dq,avx512vl")
#define LAZYPRUNE_AVX512_INLINE LAZYPRUNE_AVX512 __attribute__((always_inline)) inline

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 about its own intrinsics
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx512 {

inline constexpr std::size_t strip = 12;
inline constexpr std::size_t ahead = 24 * line_bytes;  // how far memory is asked in advance

/// v[i][j] and v[j][i] change places.
LAZYPRUNE_AVX512_INLINE void transpose(__m512 (&v)[16]) {
  __m512 pairs[16], fours[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    fours[i] = _mm512_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm512_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    fours[i + 2] = _mm512_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm512_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512 even_top = _mm512_shuffle_f32x4(fours[i], fours[i + 4], 0x88),
                 even_bottom = _mm512_shuffle_f32x4(fours[i + 8], fours[i + 12], 0x88),
                 odd_top = _mm512_shuffle_f32x4(fours[i], fours[i + 4], 0xdd),
                 odd_bottom = _mm512_shuffle_f32x4(fours[i + 8], fours[i + 12], 0xdd);
    v[i] = _mm512_shuffle_f32x4(even_top, even_bottom, 0x88);
    v[i + 4] = _mm512_shuffle_f32x4(odd_top, odd_bottom, 0x88);
    v[i + 8] = _mm512_shuffle_f32x4(even_top, even_bottom, 0xdd);
    v[i + 12] = _mm512_shuffle_f32x4(odd_top, odd_bottom, 0xdd);
  }
}

/// The first `left` lanes, 16 at most.
LAZYPRUNE_AVX512_INLINE __mmask16 mask_of(std::size_t left) { return static_cast<__mmask16>(left < 16 ? (1u << left) - 1 : 0xffffu); }

/// x[0..15], and zeros from `left` on.
LAZYPRUNE_AVX512_INLINE __m512 load_some(const float* x, std::size_t left) { return _mm512_maskz_loadu_ps(mask_of(left), x); }

/// The order is (depth, rows). A store of 16 lanes covers what the one before it wrote too much.
LAZYPRUNE_AVX512 inline void pack(const float* x, std::size_t stride, std::size_t rows, std::size_t inputs, std::size_t depth,
                                  std::byte* packed) {
  auto* to = reinterpret_cast<float*>(packed);
  for (std::size_t k = 0; k < depth; k += 16) {
    const std::size_t left = k < inputs ? inputs - k : 0;
    __m512 block[16];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < 16; ++r) block[r] = load_some(x + (r < rows ? r : 0) * stride + k, left);
    transpose(block);
    for (std::size_t i = 0; i < 16 && k + i < depth; ++i, to += rows) _mm512_storeu_ps(to, block[i]);
  }
}

template <int Rows>
LAZYPRUNE_AVX512_INLINE void load(__m512 (&sums)[Rows][2], const float* from, bool more) {
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p)
      sums[r][p] = more ? _mm512_loadu_ps(from + static_cast<std::size_t>(r) * tile_outputs + 16 * p) : _mm512_setzero_ps();
}

template <int Rows>
LAZYPRUNE_AVX512_INLINE void store(const __m512 (&sums)[Rows][2], float* to) {
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p) _mm512_storeu_ps(to + static_cast<std::size_t>(r) * tile_outputs + 16 * p, sums[r][p]);
}

/// sums += each row's number times a line of either panel.
template <std::size_t Stride, int Rows>
LAZYPRUNE_AVX512_INLINE void add_lines(__m512 (&sums)[Rows][2], const float* x, __m512 first, __m512 second) {
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
    const __m512 number = _mm512_set1_ps(x[static_cast<std::size_t>(r) * Stride]);
    sums[r][0] = _mm512_fmadd_ps(number, first, sums[r][0]);
    sums[r][1] = _mm512_fmadd_ps(number, second, sums[r][1]);
  }
}

LAZYPRUNE_AVX512_INLINE void prefetch(const void* line) { _mm_prefetch(static_cast<const char*>(line) + ahead, _MM_HINT_T0); }

/// Weights in f32.
template <int Rows, bool Packed = true>
LAZYPRUNE_AVX512 inline void multiply_rows(const float* x, const float* first, const float* second, std::size_t depth, float* to,
                                           const tile_mode& mode) {
  __m512 sums[Rows][2];
  load(sums, to, mode.more);
  prefetch_run next = mode.next;
  for (std::size_t k = 0; k < depth; ++k, x += Packed ? Rows : 1, first += panel_outputs, second += panel_outputs, next.from += next.step) {
    prefetch(first);
    prefetch(second);
    if constexpr (Packed) prefetch_l2(next.from);
    add_lines<Packed ? 1 : unpacked_stride>(sums, x, _mm512_loadu_ps(first), _mm512_loadu_ps(second));
  }
  store(sums, to);
}

/// Weights in bf16, widened in registers: the first of two inputs is the lower half of their bits, the second the upper.
template <int Rows>
LAZYPRUNE_AVX512 inline void multiply_rows(const float* x, const std::uint32_t* first, const std::uint32_t* second, std::size_t depth,
                                           float* to, const tile_mode& mode) {
  __m512 sums[Rows][2];
  load(sums, to, mode.more);
  prefetch_run next = mode.next;
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  for (std::size_t k = 0; k < depth; k += 2, x += 2 * Rows, first += panel_outputs, second += panel_outputs, next.from += 2 * next.step) {
    prefetch(first);
    prefetch(second);
    prefetch_l2(next.from);
    const __m512i a = _mm512_loadu_si512(first), b = _mm512_loadu_si512(second);
    add_lines<1>(sums, x, _mm512_castsi512_ps(_mm512_slli_epi32(a, 16)), _mm512_castsi512_ps(_mm512_slli_epi32(b, 16)));
    add_lines<1>(sums, x + Rows, _mm512_castsi512_ps(_mm512_and_si512(a, upper)), _mm512_castsi512_ps(_mm512_and_si512(b, upper)));
  }
  store(sums, to);
}

/// Widening takes places of the multiplications where there are two for 512 bits, as in Intel's cores.
LAZYPRUNE_AVX512 inline void widen(const std::byte* lines, std::size_t depth, float* wide) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  for (std::size_t k = 0; k < depth; k += 2, lines += line_bytes, wide += tile_outputs) {
    const __m512i pairs = _mm512_loadu_si512(lines);
    _mm512_storeu_si512(wide, _mm512_slli_epi32(pairs, 16));
    _mm512_storeu_si512(wide + panel_outputs, _mm512_and_si512(pairs, upper));
  }
}

template <class Weight, int... Less>
LAZYPRUNE_AVX512 inline void multiply_any(std::integer_sequence<int, Less...>, const std::byte* packed, std::size_t rows,
                                          const std::byte* first, const std::byte* second, std::size_t depth, float* sums,
                                          const tile_mode& mode) {
  constexpr void (*by_rows[])(const float*, const Weight*, const Weight*, std::size_t, float*,
                              const tile_mode&) = {multiply_rows<Less + 1>...};
  by_rows[rows - 1](reinterpret_cast<const float*>(packed), reinterpret_cast<const Weight*>(first), reinterpret_cast<const Weight*>(second),
                    depth, sums, mode);
}

template <class Weight>
LAZYPRUNE_AVX512 inline void multiply(const std::byte* packed, std::size_t rows, const std::byte* first, const std::byte* second,
                                      std::size_t depth, float* sums, const tile_mode& mode) {
  multiply_any<Weight>(std::make_integer_sequence<int, strip>{}, packed, rows, first, second, depth, sums, mode);
}

template <int... Less>
LAZYPRUNE_AVX512 inline void multiply_any_unpacked(std::integer_sequence<int, Less...>, const float* x, std::size_t rows,
                                                   const float* first, const float* second, std::size_t depth, float* sums, bool more) {
  constexpr void (*by_rows[])(const float*, const float*, const float*, std::size_t, float*,
                              const tile_mode&) = {multiply_rows<Less + 1, false>...};
  by_rows[rows - 1](x, first, second, depth, sums, {more, no_prefetch(x)});
}

LAZYPRUNE_AVX512 inline void multiply_unpacked(const float* x, std::size_t rows, const std::byte* first, const std::byte* second,
                                               std::size_t depth, float* sums, bool more) {
  multiply_any_unpacked(std::make_integer_sequence<int, strip>{}, x, rows, reinterpret_cast<const float*>(first),
                        reinterpret_cast<const float*>(second), depth, sums, more);
}

LAZYPRUNE_AVX512 inline void store(const float* sums, std::size_t rows, const float* bias, float* out, std::size_t stride) {
  for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (std::size_t i = 0; i < tile_outputs; i += 16)
      _mm512_storeu_ps(out + r * stride + i, _mm512_add_ps(_mm512_loadu_ps(sums + r * tile_outputs + i), _mm512_loadu_ps(bias + i)));
}

LAZYPRUNE_AVX512 inline void add(const float* sums, std::size_t rows, const float* bias, float* out, std::size_t stride) {
  for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (std::size_t i = 0; i < tile_outputs; i += 16) {
      const __m512 sum = _mm512_add_ps(_mm512_loadu_ps(sums + r * tile_outputs + i), _mm512_loadu_ps(bias + i));
      _mm512_storeu_ps(out + r * stride + i, _mm512_add_ps(_mm512_loadu_ps(out + r * stride + i), sum));
    }
}

// As in AVX2, bit for bit.
LAZYPRUNE_AVX512_INLINE __m512 powers_of_two(__m512 x) {
  return _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(log2_e)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

LAZYPRUNE_AVX512_INLINE __m512 exp_of_rest_less_one(__m512 x, __m512 n) {
  __m512 rest = _mm512_fnmadd_ps(n, _mm512_set1_ps(log_2_upper), x);
  rest = _mm512_fnmadd_ps(n, _mm512_set1_ps(log_2_lower), rest);
  __m512 sum = _mm512_set1_ps(exp_terms[0]);
#pragma GCC unroll 5
  for (int i = 1; i < 6; ++i) sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(exp_terms[i]));
  return _mm512_fmadd_ps(sum, _mm512_mul_ps(rest, rest), rest);
}

LAZYPRUNE_AVX512_INLINE __m512 exp_of_rest(__m512 x, __m512 n) { return _mm512_add_ps(exp_of_rest_less_one(x, n), _mm512_set1_ps(1.0f)); }

LAZYPRUNE_AVX512_INLINE __m512 exp(__m512 x) {
  x = _mm512_min_ps(_mm512_set1_ps(exp_limit), _mm512_max_ps(_mm512_set1_ps(-exp_limit), x));
  const __m512 n = powers_of_two(x);
  return _mm512_scalef_ps(exp_of_rest(x, n), n);
}

template <gate_activation Activation>
LAZYPRUNE_AVX512_INLINE __m512 activated(__m512 x) {
  __m512 exponent = _mm512_sub_ps(_mm512_setzero_ps(), x);
  if constexpr (Activation == gate_activation::gelu_tanh)
    exponent = _mm512_mul_ps(_mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(gelu_cubic), _mm512_set1_ps(gelu_linear)), x);
  return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), exp(exponent)));
}

template <gate_activation Activation>
LAZYPRUNE_AVX512 inline void gate(const float* sums, std::size_t rows, const float* bias, float* out, std::size_t stride) {
  const __m512 gate_bias = _mm512_loadu_ps(bias), up_bias = _mm512_loadu_ps(bias + panel_outputs);
  for (std::size_t r = 0; r < rows; ++r) {
    const __m512 g = _mm512_add_ps(_mm512_loadu_ps(sums + r * tile_outputs), gate_bias);
    const __m512 u = _mm512_add_ps(_mm512_loadu_ps(sums + r * tile_outputs + panel_outputs), up_bias);
    _mm512_storeu_ps(out + r * stride, _mm512_mul_ps(activated<Activation>(g), u));
  }
}

inline constexpr product_kernel f32{.strip = strip,
                                    .granule = 1,
                                    .element = 4,
                                    .line_inputs = 1,
                                    .group = 8,
                                    .strip_in_l1 = true,
                                    .enter = nothing,
                                    .leave = nothing,
                                    .pack = pack,
                                    .multiply = multiply<float>,
                                    .widen = nullptr,
                                    .multiply_wide = nullptr,
                                    .multiply_unpacked = multiply_unpacked,
                                    .store = store,
                                    .add = add,
                                    .gate_silu = gate<gate_activation::silu>,
                                    .gate_gelu_tanh = gate<gate_activation::gelu_tanh>};

inline constexpr product_kernel bf16 = [] {
  product_kernel k = f32;
  k.line_inputs = 2;
  k.multiply = multiply<std::uint32_t>;
  k.widen = widen;
  k.multiply_wide = multiply<float>;
  return k;
}();

}  // namespace avx512
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
