// SPDX-License-Identifier: MIT
// The tensor types of GGUF files (github.com/ggml-org/ggml): blocks of a few numbers with common scales. They are dequantized to the same
// bits as in gguf-py. An f16 scale has 11 significant bits, and the whole numbers that multiply it have at most 13 bits together. So every
// product is exact in float, and only the sum after it is rounded. A compiler may therefore fuse the product and the sum without changing
// the result.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include <lazyprune/backend/block_format.hpp>
#include <lazyprune/backend/tensor.hpp>

namespace lazyprune {
inline namespace v0 {

struct ggml_type {
  std::uint32_t id;  // in files
  std::string_view name;
  std::uint32_t values, bytes;  // in a block
  /// Dequantizes `blocks` blocks to float. The pointer is null if the type is not supported. Plain types have blocks of one value.
  void (*dequantize)(const std::byte* from, std::size_t blocks, float* out) = nullptr;
  const block_format* format = nullptr;  // null: backends cannot keep the blocks of this type
  /// Takes blocks apart, if `format` is not null.
  void (*read_blocks)(const std::byte* from, std::size_t blocks, quantized_block* to) = nullptr;
};

namespace detail {

/// A block's bytes as numbers.
struct block_bytes {
  const std::byte* at;
  int operator[](std::size_t i) const { return std::to_integer<int>(at[i]); }
  int signed_byte(std::size_t i) const { return static_cast<std::int8_t>(at[i]); }
  float half(std::size_t i) const { return float_of_f16(word(i)); }
  std::uint16_t word(std::size_t i) const { return static_cast<std::uint16_t>((*this)[i] | (*this)[i + 1] << 8); }
  block_bytes operator+(std::size_t i) const { return {at + i}; }
};

template <std::size_t Values, std::size_t Bytes, void (*Block)(block_bytes, float*)>
void each_block(const std::byte* from, std::size_t blocks, float* out) {
  for (std::size_t i = 0; i < blocks; ++i) Block({from + i * Bytes}, out + i * Values);
}

template <dtype Type>
void read_plain(const std::byte* from, std::size_t count, float* out) {
  widen({Type, 1, count, from}, 0, count, out);
}

// The types below are described by their blocks: a function takes apart the bits of a block. `to` does not overlap the block, and
// __restrict says so. Bytes may alias all other types, so without __restrict a compiler reads the bytes one by one.

/// Dequantizes blocks of a format, `Bytes` bytes each, which `Read` takes apart.
template <const block_format& Format, std::size_t Bytes, void (*Read)(block_bytes, quantized_block&)>
void each_coded_block(const std::byte* from, std::size_t blocks, float* __restrict out) {
  constexpr bool several = Format.groups() > 1;
  quantized_block b;
  for (std::size_t i = 0; i < blocks; ++i) {
    Read({from + i * Bytes}, b);
    const float common = float_of_f16(b.scale), common_least = float_of_f16(b.least);
    for (std::size_t g = 0; g < Format.groups(); ++g, out += Format.group) {
      const float scale = several ? common * static_cast<float>(b.scales[g]) : common;
      const float least = several ? common_least * static_cast<float>(b.leasts[g]) : common_least;
      const std::uint8_t* const codes = b.codes + g * Format.group;
      for (std::size_t j = 0; j < Format.group; ++j) {
        const float number = scale * static_cast<float>(Format.meant(codes[j]) - Format.offset);
        out[j] = Format.has_least ? number - least : number;
      }
    }
  }
}

/// Reads blocks of a type, `Bytes` bytes each.
template <std::size_t Bytes, void (*Read)(block_bytes, quantized_block&)>
void read_each(const std::byte* from, std::size_t blocks, quantized_block* to) {
  for (std::size_t i = 0; i < blocks; ++i) Read({from + i * Bytes}, to[i]);
}

/// Calls work(i) for each i below `Count`. In it, i is a constant. Compilers vectorize shifts of bytes only by constants.
template <std::size_t Count, class Work>
constexpr void for_constants(const Work& work) {
  [&]<std::size_t... I>(std::index_sequence<I...>) { (work(std::integral_constant<std::size_t, I>{}), ...); }
  (std::make_index_sequence<Count>{});
}

constexpr std::uint8_t low_byte(int i) { return static_cast<std::uint8_t>(i); }

inline constexpr block_format q8_0{32, 32, 8, 128, false};

inline void read_q8_0(block_bytes b, quantized_block& __restrict to) {
  to.scale = b.word(0);
  for (std::size_t j = 0; j < 32; ++j) to.codes[j] = low_byte(b[2 + j] ^ 128);
}

/// In Q4_0 and similar types, the low halves of 16 bytes are the first 16 codes, and the high halves are the other 16. Eight bytes are
/// shifted at once, because GCC makes slow code of a loop over bytes.
inline void read_halves(block_bytes b, std::uint8_t* codes) {
  constexpr std::uint64_t low_halves = 0x0f0f'0f0f'0f0f'0f0f;
  for (std::size_t j = 0; j < 16; j += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, b.at + j, 8);
    const std::uint64_t first = eight & low_halves, other = eight >> 4 & low_halves;
    std::memcpy(codes + j, &first, 8);
    std::memcpy(codes + 16 + j, &other, 8);
  }
}

inline constexpr block_format q4_0{32, 32, 4, 8, false};

inline void read_q4_0(block_bytes b, quantized_block& __restrict to) {
  to.scale = b.word(0);
  read_halves(b + 2, to.codes);
}

inline constexpr block_format q4_1{32, 32, 4, 0, true};

/// Q4_1 and Q5_1 add a least number. The other types subtract one.
inline std::uint16_t negated(std::uint16_t half) { return static_cast<std::uint16_t>(half ^ 0x8000u); }

inline void read_q4_1(block_bytes b, quantized_block& __restrict to) {
  to.scale = b.word(0), to.least = negated(b.word(2));
  read_halves(b + 4, to.codes);
}

/// `b`: four bytes with the fifth bits of 32 codes, then sixteen bytes with the low four bits.
inline void read_five_bits(block_bytes b, std::uint8_t* __restrict codes) {
  const int low = b.word(0), high = b.word(2);
  read_halves(b + 4, codes);
  for (std::size_t j = 0; j < 16; ++j) codes[j] = low_byte(codes[j] | (low >> j & 1) << 4);
  for (std::size_t j = 0; j < 16; ++j) codes[16 + j] = low_byte(codes[16 + j] | (high >> j & 1) << 4);
}

inline constexpr block_format q5_0{32, 32, 5, 16, false};

inline void read_q5_0(block_bytes b, quantized_block& __restrict to) {
  to.scale = b.word(0);
  read_five_bits(b + 2, to.codes);
}

inline constexpr block_format q5_1{32, 32, 5, 0, true};

inline void read_q5_1(block_bytes b, quantized_block& __restrict to) {
  to.scale = b.word(0), to.least = negated(b.word(2));
  read_five_bits(b + 4, to.codes);
}

// The K types: 256 codes in groups of 16 or 32. The scale of a group is a whole number times a common scale.

inline constexpr block_format q2_k{256, 16, 4, 0, true};

inline void read_q2_k(block_bytes b, quantized_block& __restrict to) {
  to.scale = b.word(80), to.least = b.word(82);
  for_constants<16>([&](auto i) {
    to.scales[i] = static_cast<std::int8_t>(b[i] & 15), to.leasts[i] = low_byte(b[i] >> 4);
    const block_bytes q = b + 16 + 32 * (i / 8) + 16 * (i % 2);
    for (std::size_t j = 0; j < 16; ++j) to.codes[16 * i + j] = low_byte(q[j] >> 2 * (i % 8 / 2) & 3);
  });
}

inline constexpr block_format q3_k{256, 16, 4, 4, false};

inline void read_q3_k(block_bytes b, quantized_block& __restrict to) {
  to.scale = b.word(108);
  const block_bytes scales = b + 96;
  for_constants<16>([&](auto i) {
    const int scale = (scales[i % 8] >> 4 * (i / 8) & 15) | (scales[8 + i % 4] >> 2 * (i / 4) & 3) << 4;
    to.scales[i] = static_cast<std::int8_t>(scale - 32);
    const block_bytes q = b + 32 + 32 * (i / 8) + 16 * (i % 2), third = b + 16 * (i % 2);
    for (std::size_t j = 0; j < 16; ++j) to.codes[16 * i + j] = low_byte((q[j] >> 2 * (i % 8 / 2) & 3) + (third[j] >> i / 2 & 1) * 4);
  });
}

/// Reads the common scales of Q4_K and Q5_K, and the eight pairs of 6-bit numbers that they pack into twelve bytes.
inline void read_packed_scales(block_bytes b, quantized_block& __restrict to) {
  to.scale = b.word(0), to.least = b.word(2);
  b = b + 4;
  for (std::size_t i = 0; i < 4; ++i) {
    to.scales[i] = static_cast<std::int8_t>(b[i] & 63), to.leasts[i] = low_byte(b[4 + i] & 63);
    to.scales[4 + i] = static_cast<std::int8_t>((b[8 + i] & 15) | (b[i] >> 6) << 4);
    to.leasts[4 + i] = low_byte(b[8 + i] >> 4 | (b[4 + i] >> 6) << 4);
  }
}

inline constexpr block_format q4_k{256, 32, 4, 0, true};

inline void read_q4_k(block_bytes b, quantized_block& __restrict to) {
  read_packed_scales(b, to);
  for_constants<8>([&](auto i) {
    const block_bytes q = b + 16 + 32 * (i / 2);
    for (std::size_t j = 0; j < 32; ++j) to.codes[32 * i + j] = low_byte(q[j] >> 4 * (i % 2) & 15);
  });
}

inline constexpr block_format q5_k{256, 32, 5, 0, true};

inline void read_q5_k(block_bytes b, quantized_block& __restrict to) {
  read_packed_scales(b, to);
  for_constants<8>([&](auto i) {
    const block_bytes q = b + 48 + 32 * (i / 2), fifth = b + 16;
    for (std::size_t j = 0; j < 32; ++j) to.codes[32 * i + j] = low_byte((q[j] >> 4 * (i % 2) & 15) | (fifth[j] >> i & 1) << 4);
  });
}

inline constexpr block_format q6_k{256, 16, 6, 32, false};

inline void read_q6_k(block_bytes b, quantized_block& __restrict to) {
  to.scale = b.word(208);
  for (std::size_t i = 0; i < 16; ++i) to.scales[i] = static_cast<std::int8_t>(b.signed_byte(192 + i));
  for_constants<8>([&](auto i) {
    const block_bytes low = b + 64 * (i / 4) + 32 * (i % 2), high = b + 128 + 32 * (i / 4);
    for (std::size_t j = 0; j < 32; ++j)
      to.codes[32 * i + j] = low_byte((low[j] >> 4 * (i % 4 / 2) & 15) | (high[j] >> 2 * (i % 4) & 3) << 4);
  });
}

// In these types, four bits select one of sixteen values.

/// The values of the IQ4 types, plus 128.
inline constexpr std::uint8_t iq4_codes[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

inline constexpr block_format iq4_nl{32, 32, 4, 128, false, iq4_codes};

inline void read_iq4_nl(block_bytes b, quantized_block& __restrict to) {
  to.scale = b.word(0);
  read_halves(b + 2, to.codes);
}

inline constexpr block_format iq4_xs{256, 32, 4, 128, false, iq4_codes};

inline void read_iq4_xs(block_bytes b, quantized_block& __restrict to) {
  to.scale = b.word(0);
  for (std::size_t i = 0; i < 8; ++i) {
    const int scale = (b[4 + i / 2] >> 4 * (i % 2) & 15) | (b.word(2) >> 2 * i & 3) << 4;
    to.scales[i] = static_cast<std::int8_t>(scale - 32);
    read_halves(b + 8 + 16 * i, to.codes + 32 * i);
  }
}

inline constexpr std::array<float, 16> mxfp4_values = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};  // twice the real values

/// Backends cannot keep these blocks, because their scales have more exponents than f16. The scale of the block is 2^(e - 127). It is
/// halved here because mxfp4_values are doubled. For e = 0 and e = 1, the halved scale is subnormal.
inline void read_mxfp4(block_bytes b, float* out) {
  const auto e = static_cast<std::uint32_t>(b[0]);
  const auto scale = std::bit_cast<float>(e < 2 ? 0x0020'0000u << e : (e - 1) << 23);
  for (std::size_t j = 0; j < 16; ++j) {
    out[j] = scale * mxfp4_values[static_cast<std::size_t>(b[1 + j] & 15)];
    out[16 + j] = scale * mxfp4_values[static_cast<std::size_t>(b[1 + j] >> 4)];
  }
}

inline constexpr ggml_type ggml_types[] = {
    {0, "F32", 1, 4, read_plain<dtype::f32>},
    {1, "F16", 1, 2, read_plain<dtype::f16>},
    {2, "Q4_0", 32, 18, each_coded_block<q4_0, 18, read_q4_0>, &q4_0, read_each<18, read_q4_0>},
    {3, "Q4_1", 32, 20, each_coded_block<q4_1, 20, read_q4_1>, &q4_1, read_each<20, read_q4_1>},
    {6, "Q5_0", 32, 22, each_coded_block<q5_0, 22, read_q5_0>, &q5_0, read_each<22, read_q5_0>},
    {7, "Q5_1", 32, 24, each_coded_block<q5_1, 24, read_q5_1>, &q5_1, read_each<24, read_q5_1>},
    {8, "Q8_0", 32, 34, each_coded_block<q8_0, 34, read_q8_0>, &q8_0, read_each<34, read_q8_0>},
    {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84, each_coded_block<q2_k, 84, read_q2_k>, &q2_k, read_each<84, read_q2_k>},
    {11, "Q3_K", 256, 110, each_coded_block<q3_k, 110, read_q3_k>, &q3_k, read_each<110, read_q3_k>},
    {12, "Q4_K", 256, 144, each_coded_block<q4_k, 144, read_q4_k>, &q4_k, read_each<144, read_q4_k>},
    {13, "Q5_K", 256, 176, each_coded_block<q5_k, 176, read_q5_k>, &q5_k, read_each<176, read_q5_k>},
    {14, "Q6_K", 256, 210, each_coded_block<q6_k, 210, read_q6_k>, &q6_k, read_each<210, read_q6_k>},
    {15, "Q8_K", 256, 292},
    {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98},
    {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18, each_coded_block<iq4_nl, 18, read_iq4_nl>, &iq4_nl, read_each<18, read_iq4_nl>},
    {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136, each_coded_block<iq4_xs, 136, read_iq4_xs>, &iq4_xs, read_each<136, read_iq4_xs>},
    {24, "I8", 1, 1},
    {25, "I16", 1, 2},
    {26, "I32", 1, 4},
    {27, "I64", 1, 8},
    {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2, read_plain<dtype::bf16>},
    {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},
    {39, "MXFP4", 32, 17, each_block<32, 17, read_mxfp4>},
    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},
};

}  // namespace detail

/// Returns the type with this number, or null. The numbers 4, 5, 31 to 33 and 36 to 38 were types once.
constexpr const ggml_type* ggml_type_of(std::uint32_t id) {
  for (const ggml_type& type : detail::ggml_types)
    if (type.id == id) return &type;
  return nullptr;
}

/// Returns the type with this name, or null.
constexpr const ggml_type* ggml_type_of(std::string_view name) {
  for (const ggml_type& type : detail::ggml_types)
    if (type.name == name) return &type;
  return nullptr;
}

}  // namespace v0
}  // namespace lazyprune
