// SPDX-License-Identifier: MIT
// Emulates AVX-512, AVX512-BF16, AVX512-VNNI, AMX and VPDPBUSD of AVX-VNNI by plain loops that follow the manuals, so that their kernels
// can be tested on any processor. Include this file before all others (-include). It replaces the instructions that the kernels use. It
// also replaces the calls that ask about the processor, which then seems to have all these instruction sets.
#pragma once

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define LAZYPRUNE_TARGET(instructions)
#define LAZYPRUNE_VECTOR "m"

namespace emulated {

struct alignas(64) floats {
  float lane[16];
};
struct alignas(64) integers {
  std::uint32_t lane[16];
};
struct alignas(64) halves {
  std::uint16_t lane[32];

  halves() = default;
  explicit halves(const integers& bits) { std::memcpy(lane, bits.lane, 64); }
  explicit operator integers() const { return std::bit_cast<integers>(*this); }
};

template <class F>
floats each(F f) {
  floats result;
  for (int i = 0; i < 16; ++i) result.lane[i] = f(i);
  return result;
}

inline floats load(const float* from) {
  return each([&](int i) { return from[i]; });
}
inline floats load_masked(unsigned mask, const float* from) {
  return each([&](int i) { return mask >> i & 1 ? from[i] : 0.0f; });
}
inline void store_masked(float* to, unsigned mask, floats v) {
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) to[i] = v.lane[i];
}
inline floats choose(unsigned mask, floats otherwise, floats chosen) {
  return each([&](int i) { return (mask >> i & 1 ? chosen : otherwise).lane[i]; });
}
inline void store(float* to, floats v) { std::memcpy(to, v.lane, 64); }
inline floats all(float value) {
  return each([&](int) { return value; });
}
inline floats add(floats a, floats b) {
  return each([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline floats subtract(floats a, floats b) {
  return each([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline floats multiply(floats a, floats b) {
  return each([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline floats divide(floats a, floats b) {
  return each([&](int i) { return a.lane[i] / b.lane[i]; });
}
inline floats least(floats a, floats b) {
  return each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline floats most(floats a, floats b) {
  return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline floats fused(floats a, floats b, floats c) {
  return each([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
}
inline floats fused_negative(floats a, floats b, floats c) {
  return each([&](int i) { return std::fma(-a.lane[i], b.lane[i], c.lane[i]); });
}
inline floats nearest(floats a) {
  return each([&](int i) { return std::nearbyint(a.lane[i]); });
}
inline floats scaled(floats a, floats n) {
  return each([&](int i) {
    const float power = std::floor(n.lane[i]);
    return std::isnan(power) ? power : std::scalbn(a.lane[i], static_cast<int>(std::clamp(power, -1000.0f, 1000.0f)));
  });
}

inline floats interleave(floats a, floats b, int half) {
  return each([&](int i) { return (i % 2 ? b : a).lane[i / 4 * 4 + 2 * half + i % 4 / 2]; });
}
inline floats shuffle(floats a, floats b, int choice) {
  return each([&](int i) { return (i % 4 < 2 ? a : b).lane[i / 4 * 4 + (choice >> 2 * (i % 4) & 3)]; });
}
inline floats shuffle_quarters(floats a, floats b, int choice) {
  return each([&](int i) { return (i < 8 ? a : b).lane[(choice >> 2 * (i / 4) & 3) * 4 + i % 4]; });
}

inline integers load_bits(const void* from) {
  integers result;
  std::memcpy(result.lane, from, 64);
  return result;
}
inline void store_bits(void* to, integers v) { std::memcpy(to, v.lane, 64); }
inline integers all_bits(int value) {
  integers result;
  for (std::uint32_t& lane : result.lane) lane = static_cast<std::uint32_t>(value);
  return result;
}
inline integers both(integers a, integers b) {
  for (int i = 0; i < 16; ++i) a.lane[i] &= b.lane[i];
  return a;
}
inline unsigned greater(integers a, integers b) {
  unsigned mask = 0;
  for (int i = 0; i < 16; ++i)
    mask |= static_cast<unsigned>(static_cast<std::int32_t>(a.lane[i]) > static_cast<std::int32_t>(b.lane[i])) << i;
  return mask;
}
inline integers shifted(integers a, unsigned bits) {
  for (std::uint32_t& lane : a.lane) lane <<= bits;
  return a;
}
inline integers shifted_right(integers a, unsigned bits) {
  for (std::uint32_t& lane : a.lane) lane >>= bits;
  return a;
}
inline integers shifted_right_by(integers a, __m128i bits) { return shifted_right(a, static_cast<unsigned>(_mm_cvtsi128_si32(bits))); }
/// Shifts numbers of 16 bits.
inline integers halves_shifted(integers a, unsigned bits) {
  for (std::uint32_t& lane : a.lane) lane = (lane & 0xffff'0000u) << bits | ((lane & 0xffffu) << bits & 0xffffu);
  return a;
}
inline integers halves_shifted_right(integers a, unsigned bits) {
  for (std::uint32_t& lane : a.lane) lane = (lane >> 16 >> bits << 16) | (lane & 0xffffu) >> bits;
  return a;
}
/// Repeats 16 bytes four times.
inline integers repeated(__m128i quarter) {
  integers result;
  for (int i = 0; i < 4; ++i) std::memcpy(result.lane + 4 * i, &quarter, 16);
  return result;
}
/// Returns the bytes of `a` that `places` names, in each quarter. A place has four bits, and a byte with the highest bit gives 0.
inline integers bytes_chosen(integers a, integers places) {
  std::uint8_t from[64], where[64], to[64];
  std::memcpy(from, a.lane, 64), std::memcpy(where, places.lane, 64);
  for (int i = 0; i < 64; ++i) to[i] = where[i] & 0x80 ? 0 : from[i / 16 * 16 + (where[i] & 15)];
  std::memcpy(a.lane, to, 64);
  return a;
}
inline integers exclusive(integers a, integers b) {
  for (int i = 0; i < 16; ++i) a.lane[i] ^= b.lane[i];
  return a;
}
/// Returns the lanes of two registers that `places` names: 0 to 15 are those of `a`.
inline integers chosen(integers a, integers places, integers b) {
  integers result;
  for (int i = 0; i < 16; ++i) result.lane[i] = (places.lane[i] & 16 ? b : a).lane[places.lane[i] & 15];
  return result;
}
/// Returns the halves of lanes that `places` names, 0 to 31.
inline integers halves_chosen(integers places, integers a) {
  std::uint16_t from[32], where[32], to[32];
  std::memcpy(from, a.lane, 64), std::memcpy(where, places.lane, 64);
  for (int i = 0; i < 32; ++i) to[i] = from[where[i] & 31];
  std::memcpy(a.lane, to, 64);
  return a;
}
/// Multiplies numbers of 16 bits with signs, and adds two neighbouring products.
inline integers pairs_multiplied(integers a, integers b) {
  const auto half = [](std::uint32_t lane, int i) { return std::int32_t{static_cast<std::int16_t>(lane >> 16 * i)}; };
  for (int i = 0; i < 16; ++i)
    a.lane[i] = static_cast<std::uint32_t>(half(a.lane[i], 0) * half(b.lane[i], 0)) +
                static_cast<std::uint32_t>(half(a.lane[i], 1) * half(b.lane[i], 1));
  return a;
}
/// VPDPBUSD: adds four neighbouring products of bytes without signs and bytes with signs.
inline std::uint32_t byte_products_added(std::uint32_t sum, std::uint32_t a, std::uint32_t b) {
  for (int i = 0; i < 32; i += 8) sum += static_cast<std::uint32_t>(static_cast<int>(a >> i & 0xff) * static_cast<std::int8_t>(b >> i));
  return sum;
}
inline integers add_byte_products(integers sums, integers a, integers b) {
  for (int i = 0; i < 16; ++i) sums.lane[i] = byte_products_added(sums.lane[i], a.lane[i], b.lane[i]);
  return sums;
}
inline __m256i add_byte_products(__m256i sums, __m256i a, __m256i b) {
  std::uint32_t of[3][8];
  std::memcpy(of[0], &sums, 32), std::memcpy(of[1], &a, 32), std::memcpy(of[2], &b, 32);
  for (int i = 0; i < 8; ++i) of[0][i] = byte_products_added(of[0][i], of[1][i], of[2][i]);
  std::memcpy(&sums, of[0], 32);
  return sums;
}
inline integers either(integers a, integers b) {
  for (int i = 0; i < 16; ++i) a.lane[i] |= b.lane[i];
  return a;
}
inline integers sum(integers a, integers b) {
  for (int i = 0; i < 16; ++i) a.lane[i] += b.lane[i];
  return a;
}
inline integers nearest_integers(floats a) {
  integers result;
  for (int i = 0; i < 16; ++i)
    result.lane[i] =
        std::abs(a.lane[i]) < 0x1p31f ? static_cast<std::uint32_t>(static_cast<std::int32_t>(std::nearbyint(a.lane[i]))) : 0x80000000u;
  return result;
}
inline floats as_floats(integers a) { return std::bit_cast<floats>(a); }
inline integers as_bits(floats a) { return std::bit_cast<integers>(a); }

template <class Byte>
integers from_bytes(__m128i from) {
  Byte bytes[16];
  std::memcpy(bytes, &from, 16);
  integers result;
  for (int i = 0; i < 16; ++i) result.lane[i] = static_cast<std::uint32_t>(static_cast<std::int32_t>(bytes[i]));
  return result;
}
inline floats to_floats(integers a) {
  return each([&](int i) { return static_cast<float>(static_cast<std::int32_t>(a.lane[i])); });
}
inline floats from_halves(__m256i from) {
  std::uint16_t bits[16];
  std::memcpy(bits, &from, 32);
  return each([&](int i) {
    const int exponent = bits[i] >> 10 & 31, mantissa = bits[i] & 1023;
    const float size = exponent == 31  ? mantissa ? NAN : INFINITY
                       : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                       : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
    return bits[i] & 0x8000 ? -size : size;
  });
}
inline floats permuted(integers order, floats a) {
  return each([&](int i) { return a.lane[order.lane[i] & 15]; });
}
inline floats fused_less(floats a, floats b, floats c) {
  return each([&](int i) { return std::fma(a.lane[i], b.lane[i], -c.lane[i]); });
}

// In bf16 arithmetic, subnormal operands and results become zero.
inline float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
inline float wide(std::uint16_t half) { return flushed(std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16)); }
inline std::uint16_t narrow(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(flushed(x));
  if (std::isnan(x)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline halves rounded(floats upper, floats lower) {
  halves result;
  for (int i = 0; i < 32; ++i) result.lane[i] = narrow(i < 16 ? lower.lane[i] : upper.lane[i - 16]);
  return result;
}
inline float fused_flushed(float a, float b, float c) { return flushed(std::fma(a, b, flushed(c))); }

/// VDPBF16PS: adds the second product of each pair before the first.
inline floats add_pairs(floats sums, halves a, halves b) {
  return each([&](int i) {
    const float second = fused_flushed(wide(a.lane[2 * i + 1]), wide(b.lane[2 * i + 1]), sums.lane[i]);
    return fused_flushed(wide(a.lane[2 * i]), wide(b.lane[2 * i]), second);
  });
}

// AMX. Using a tile register before the registers are configured ends the program, as in hardware.
struct tiles {
  bool ready = false;
  std::uint8_t rows[8] = {};
  std::uint16_t row_bytes[8] = {};
  std::uint8_t data[8][16][64] = {};
};
inline thread_local tiles registers;

inline void require(bool fine) {
  if (!fine) std::abort();
}

inline void load_setup(const void* from) {
  std::uint8_t setup[64];
  std::memcpy(setup, from, 64);
  require(setup[0] == 1 && setup[1] == 0);
  registers = {};
  registers.ready = true;
  for (int t = 0; t < 8; ++t) {
    std::memcpy(&registers.row_bytes[t], setup + 16 + 2 * t, 2);
    registers.rows[t] = setup[48 + t];
    require(registers.row_bytes[t] <= 64 && registers.rows[t] <= 16);
  }
}
inline void release() { registers = {}; }

inline void load_tile(int t, const void* from, std::size_t stride) {
  require(registers.ready);
  for (int r = 0; r < registers.rows[t]; ++r)
    std::memcpy(registers.data[t][r], static_cast<const std::uint8_t*>(from) + static_cast<std::size_t>(r) * stride,
                registers.row_bytes[t]);
}
inline void store_tile(int t, void* to, std::size_t stride) {
  require(registers.ready);
  for (int r = 0; r < registers.rows[t]; ++r)
    std::memcpy(static_cast<std::uint8_t*>(to) + static_cast<std::size_t>(r) * stride, registers.data[t][r], registers.row_bytes[t]);
}
inline void clear_tile(int t) {
  require(registers.ready);
  std::memset(registers.data[t], 0, sizeof registers.data[t]);
}

/// TDPBF16PS: one chain sums the first products of all pairs, another chain sums the second products. The sum of both chains is then added
/// to the earlier sum.
inline void add_tile_product(int sums, int a, int b) {
  const tiles& t = registers;
  require(t.ready && t.row_bytes[a] / 4 == t.rows[b] && t.rows[sums] == t.rows[a] && t.row_bytes[sums] == t.row_bytes[b]);
  for (int m = 0; m < t.rows[sums]; ++m)
    for (int n = 0; n < t.row_bytes[sums] / 4; ++n) {
      float chain[2] = {}, sum;
      for (int k = 0; k < t.rows[b]; ++k)
        for (int i = 0; i < 2; ++i) {
          std::uint16_t x, y;
          std::memcpy(&x, &t.data[a][m][4 * k + 2 * i], 2);
          std::memcpy(&y, &t.data[b][k][4 * n + 2 * i], 2);
          chain[i] = fused_flushed(wide(x), wide(y), chain[i]);
        }
      std::memcpy(&sum, &t.data[sums][m][4 * n], 4);
      sum = flushed(flushed(sum) + flushed(chain[0] + chain[1]));
      std::memcpy(&registers.data[sums][m][4 * n], &sum, 4);
    }
}

/// Gives the processor's own answers, but sets the bits of the emulated instruction sets.
inline int cpuid(unsigned leaf, unsigned subleaf, unsigned* eax, unsigned* ebx, unsigned* ecx, unsigned* edx) {
  const int known = __get_cpuid_count(leaf, subleaf, eax, ebx, ecx, edx);
  if (leaf == 7 && subleaf == 0) {
    *ebx |= 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
    *ecx |= 1u << 11;
    *edx |= 1u << 22 | 1u << 24;
  }
  if (leaf == 7 && subleaf == 1) *eax |= 1u << 4 | 1u << 5;
  return known;
}

/// Grants permission for the tile registers (ARCH_REQ_XCOMP_PERM). Other system calls go to the system.
template <class... Arguments>
long call(long number, Arguments... arguments) {
  return number == SYS_arch_prctl ? 0 : ::syscall(number, arguments...);
}

}  // namespace emulated

#define __get_cpuid_count emulated::cpuid
#undef _xgetbv
#define _xgetbv(which) 0x600e7ull
#define syscall emulated::call

#undef _mm512_roundscale_ps
#undef _mm512_cmpgt_epi32_mask
#undef _mm512_shuffle_ps
#undef _mm512_slli_epi16
#undef _mm512_srli_epi16
#undef _mm256_dpbusd_avx_epi32
#undef _mm512_shuffle_f32x4
#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_dpbf16ps

#define __m512 emulated::floats
#define __m512i emulated::integers
#define __m512bh emulated::halves
#define _mm512_loadu_ps emulated::load
#define _mm512_maskz_loadu_ps emulated::load_masked
#define _mm512_storeu_ps emulated::store
#define _mm512_mask_storeu_ps emulated::store_masked
#define _mm512_mask_blend_ps emulated::choose
#define _mm512_cmpgt_epi32_mask emulated::greater
#define _mm512_setzero_ps() emulated::all(0)
#define _mm512_set1_ps emulated::all
#define _mm512_add_ps emulated::add
#define _mm512_sub_ps emulated::subtract
#define _mm512_mul_ps emulated::multiply
#define _mm512_div_ps emulated::divide
#define _mm512_min_ps emulated::least
#define _mm512_max_ps emulated::most
#define _mm512_fmadd_ps emulated::fused
#define _mm512_fnmadd_ps emulated::fused_negative
#define _mm512_roundscale_ps(x, how) emulated::nearest(x)
#define _mm512_scalef_ps emulated::scaled
#define _mm512_unpacklo_ps(a, b) emulated::interleave(a, b, 0)
#define _mm512_unpackhi_ps(a, b) emulated::interleave(a, b, 1)
#define _mm512_shuffle_ps emulated::shuffle
#define _mm512_shuffle_f32x4 emulated::shuffle_quarters
#define _mm512_loadu_si512 emulated::load_bits
#define _mm512_storeu_si512 emulated::store_bits
#define _mm512_set1_epi32 emulated::all_bits
#define _mm512_and_si512 emulated::both
#define _mm512_slli_epi32 emulated::shifted
#define _mm512_srli_epi32 emulated::shifted_right
#define _mm512_srl_epi32 emulated::shifted_right_by
#define _mm512_slli_epi16 emulated::halves_shifted
#define _mm512_srli_epi16 emulated::halves_shifted_right
#define _mm512_or_si512 emulated::either
#define _mm512_xor_si512 emulated::exclusive
#define _mm512_broadcast_i32x4 emulated::repeated
#define _mm512_shuffle_epi8 emulated::bytes_chosen
#define _mm512_permutex2var_epi32 emulated::chosen
#define _mm512_permutexvar_epi16 emulated::halves_chosen
#define _mm512_madd_epi16 emulated::pairs_multiplied
#define _mm512_dpbusd_epi32 emulated::add_byte_products
#define _mm256_dpbusd_avx_epi32 emulated::add_byte_products
#define _mm512_castsi512_ps emulated::as_floats
#define _mm512_castps_si512 emulated::as_bits
#define _mm512_add_epi32 emulated::sum
#define _mm512_cvtps_epi32 emulated::nearest_integers
#define _mm512_cvtepi32_ps emulated::to_floats
#define _mm512_cvtepi8_epi32 emulated::from_bytes<std::int8_t>
#define _mm512_cvtepu8_epi32 emulated::from_bytes<std::uint8_t>
#define _mm512_cvtph_ps emulated::from_halves
#define _mm512_permutexvar_ps emulated::permuted
#define _mm512_fmsub_ps emulated::fused_less
#define _mm512_cvtne2ps_pbh emulated::rounded
#define _mm512_dpbf16_ps emulated::add_pairs
#define _tile_loadconfig emulated::load_setup
#define _tile_release emulated::release
#define _tile_zero emulated::clear_tile
#define _tile_loadd emulated::load_tile
#define _tile_stream_loadd emulated::load_tile  // differs only in its hint
#define _tile_stored emulated::store_tile
#define _tile_dpbf16ps emulated::add_tile_product
