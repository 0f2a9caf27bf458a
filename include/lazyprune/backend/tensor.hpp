// SPDX-License-Identifier: MIT
// A tensor as a checkpoint stores it, and the conversion of its numbers to float.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <lazyprune/backend/block_format.hpp>

namespace lazyprune {
inline namespace v0 {

/// q8_0 is a type of keys and values only (execution::kv). It has blocks of 32 numbers: an f16 scale, and a code of 8 bits for each number.
enum class dtype : std::uint8_t { f32, f16, bf16, q8_0 };

/// Returns the bytes of a number. `type` is not q8_0.
constexpr std::size_t size_of(dtype type) {
  assert(type != dtype::q8_0);
  return type == dtype::f32 ? 4 : 2;
}
constexpr std::string_view name_of(dtype type) {
  constexpr std::string_view names[] = {"f32", "f16", "bf16", "q8_0"};
  return names[static_cast<std::size_t>(type)];
}

struct tensor;

/// Copies bytes of tensors. This may be faster than to read them in place, for example in a mapped file.
class byte_source {
 public:
  virtual ~byte_source() = default;

  /// Copies `bytes` bytes at `from`, which belong to the data of one of the source's tensors. Returns false if it cannot copy them; they
  /// can still be read in place. Any number of threads may copy at once.
  virtual bool copy(const std::byte* from, std::size_t bytes, std::byte* to) const noexcept = 0;
};

/// Reads rows that are not plain numbers in memory: quantized rows, or rows in another order.
class row_reader {
 public:
  virtual ~row_reader() = default;

  /// Every read begins at a multiple of this many columns, so no read splits a block of a quantized type.
  static constexpr std::size_t unit = 256;

  /// Reads `count` numbers of a row, from column `first` on, and writes them to `to` in the matrix's type. `row` is a row of the
  /// reader, not of `matrix`: row r of `matrix` is the reader's row `matrix.first_row + r`. `first` is a multiple of `unit`. `count` is a
  /// multiple of `unit`, except at the end of a row. Any number of threads may read at once.
  virtual void read(const tensor& matrix, std::size_t row, std::size_t first, std::size_t count, std::byte* to) const = 0;

  /// Returns the bytes of a row, if row r of the reader is at `matrix.data + r * stored_row_bytes(matrix)`, and the reader reads a row from
  /// these bytes only. Else returns 0.
  virtual std::size_t stored_row_bytes(const tensor&) const { return 0; }

  /// Returns the format of the rows if a backend may keep their blocks, else null. The blocks then have the numbers that `read` gives.
  virtual const block_format* format() const { return nullptr; }
  /// Reads `count` blocks of a row, from block number `first` on, if format() is not null. Any number of threads may read at once.
  virtual void read_blocks(const tensor& matrix, std::size_t row, std::size_t first, std::size_t count, quantized_block* to) const {
    assert(!format());
    static_cast<void>(matrix), static_cast<void>(row), static_cast<void>(first), static_cast<void>(count), static_cast<void>(to);
  }
};

static_assert(std::endian::native == std::endian::little, "tensors are read as they are, and their numbers are little-endian");

/// A matrix (rows, columns), or a vector (1, columns), in row-major order, little-endian. The source of the tensor owns the data and the
/// reader. The data may be unaligned.
struct tensor {
  dtype type;
  std::size_t rows;
  std::size_t columns;
  const std::byte* data;
  const row_reader* reader = nullptr;  // null: `data` holds plain numbers; otherwise only the reader can read it
  std::size_t first_row = 0;           // the reader's row that is row 0 of this tensor
  /// Keep a copy of this pointer while you read `data`. When the last copy is gone, its deleter can tell the source that the data is no
  /// longer read.
  std::shared_ptr<const void> held{};
  bool widens = false;                  // whether a backend must not keep the blocks of quantized rows
  const byte_source* source = nullptr;  // null: the data can only be read in place

  /// Returns the format of the blocks if a backend may keep them, else null.
  const block_format* format() const {
    const block_format* const blocks = reader && !widens ? reader->format() : nullptr;
    return blocks && columns % blocks->inputs == 0 ? blocks : nullptr;
  }

  std::size_t row_bytes() const { return columns * size_of(type); }
  std::size_t bytes() const { return rows * row_bytes(); }

  /// Returns the bytes of a row in the data, or 0 if its rows are not stored one after another.
  std::size_t stored_row_bytes() const { return reader ? reader->stored_row_bytes(*this) : row_bytes(); }
  /// Copies `count` rows from row r on to `room` (count * stored_row_bytes() bytes), and returns a tensor of these rows. If the source does
  /// not copy them, returns nothing.
  std::optional<tensor> copied_rows(std::size_t r, std::size_t count, std::byte* room) const {
    const std::size_t stored = source ? stored_row_bytes() : 0;
    if (stored == 0 || !source->copy(data + (first_row + r) * stored, count * stored, room)) return std::nullopt;
    return tensor{.type = type, .rows = count, .columns = columns, .data = room, .reader = reader, .widens = widens};
  }

  /// Returns a pointer to the numbers of a row. They are in the data or, if there is a reader, in `room` (row_bytes() bytes).
  const std::byte* row(std::size_t r, std::byte* room) const { return row(r, 0, columns, room); }
  /// Returns a pointer to `count` numbers of a row, from column `first` on. row_reader::read has the rules for `first` and `count`.
  const std::byte* row(std::size_t r, std::size_t first, std::size_t count, std::byte* room) const {
    if (!reader) return data + r * row_bytes() + first * size_of(type);
    reader->read(*this, first_row + r, first, count, room);
    return room;
  }
};

constexpr float float_of_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

/// Rounds to nearest, ties to even; NaN stays NaN.
constexpr std::uint16_t bf16_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fff'ffffu) > 0x7f80'0000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

constexpr float float_of_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f80'0000u | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal
  return sign ? -magnitude : magnitude;
}

/// Rounds to nearest, ties to even; NaN stays NaN. Numbers from 65520 on become infinity.
constexpr std::uint16_t f16_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fff'ffffu;
  if (magnitude > 0x7f80'0000u) return static_cast<std::uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
  if (magnitude >= 0x4780'0000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65536 or more
  if (magnitude < 0x3880'0000u) {                                                    // less than 2^-14: subnormal
    // Adding 1/2 rounds to a multiple of 2^-24, because the neighbours of 1/2 are 2^-24 away.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f00'0000u));
  }
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x3800'0000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13));
}

/// Converts `count` numbers of a tensor without a reader, from element `first` on, to T (float or double).
template <class T>
void widen(const tensor& from, std::size_t first, std::size_t count, T* out) {
  assert(!from.reader);
  const std::byte* at = from.data + first * size_of(from.type);
  for (std::size_t i = 0; i < count; ++i) {
    if (from.type == dtype::f32) {
      float value;
      std::memcpy(&value, at + i * 4, 4);
      out[i] = value;
    } else {
      std::uint16_t bits;
      std::memcpy(&bits, at + i * 2, 2);
      out[i] = from.type == dtype::bf16 ? float_of_bf16(bits) : float_of_f16(bits);
    }
  }
}

/// Converts all numbers of a tensor to T.
template <class T>
void widen(const tensor& from, T* out) {
  std::vector<std::byte> room(from.reader ? from.row_bytes() : 0);
  for (std::size_t r = 0; r < from.rows; ++r) {
    const tensor row{from.type, 1, from.columns, from.row(r, room.data())};
    widen(row, 0, row.columns, out + r * row.columns);
  }
}

}  // namespace v0
}  // namespace lazyprune
