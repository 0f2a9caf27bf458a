// SPDX-License-Identifier: MIT
// Data for the tests of the backends: random floats, stored weights, and outputs with a guard around them.
#pragma once

#include <lazyprune/backend/tensor_backend.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace lazyprune_test {

/// Returns normally distributed numbers. The same seed and count give the same numbers.
inline std::vector<float> normal_floats(std::size_t count, std::uint32_t seed, float deviation = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

/// A tensor with its memory, which is unaligned as in a checkpoint.
class stored {
 public:
  stored(const std::vector<float>& numbers, std::size_t rows, std::size_t columns, lazyprune::dtype type)
      : rows_(rows), columns_(columns), type_(type), bytes_(1 + numbers.size() * size_of(type)) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(numbers[i]);
      const auto kept = type == lazyprune::dtype::f32 ? bits : lazyprune::bf16_of_float(numbers[i]);
      std::memcpy(bytes_.data() + 1 + i * size_of(type), &kept, size_of(type));
    }
  }

  operator lazyprune::tensor() const { return {type_, rows_, columns_, bytes_.data() + 1}; }

 private:
  std::size_t rows_;
  std::size_t columns_;
  lazyprune::dtype type_;
  std::vector<std::byte> bytes_;
};

/// Copies the bytes of `from`, of which `in_place` has as many. If `refuses` is true, it refuses every third call.
class bytes_elsewhere final : public lazyprune::byte_source {
 public:
  bytes_elsewhere(const std::byte* in_place, const std::byte* from, bool refuses) : in_place_(in_place), from_(from), refuses_(refuses) {}
  bool copy(const std::byte* at, std::size_t bytes, std::byte* to) const noexcept override {
    if (calls_++ % 3 == 2 && refuses_) return false;
    std::memcpy(to, from_ + (at - in_place_), bytes);
    return true;
  }
  std::size_t calls() const { return calls_; }

 private:
  const std::byte* in_place_;
  const std::byte* from_;
  bool refuses_;
  mutable std::atomic<std::size_t> calls_{0};
};

/// Reads matrices of `rows` rows that are stored in reverse order, with the last row first.
class rows_from_the_end final : public lazyprune::row_reader {
 public:
  explicit rows_from_the_end(std::size_t rows) : rows_(rows) {}
  void read(const lazyprune::tensor& matrix, std::size_t row, std::size_t first, std::size_t count, std::byte* to) const override {
    const std::size_t size = size_of(matrix.type);
    std::memcpy(to, matrix.data + (rows_ - 1 - row) * matrix.row_bytes() + first * size, count * size);
  }

 private:
  std::size_t rows_;
};

/// A table with the extremes 0 and 255.
inline constexpr std::uint8_t code_table[16] = {1, 24, 255, 63, 79, 0, 106, 118, 129, 141, 153, 128, 181, 197, 217, 241};

/// The formats of GGUF's types, one of each shape.
inline constexpr lazyprune::block_format block_formats[] = {{32, 32, 4, 128, false, code_table},
                                                            {256, 32, 4, 128, false, code_table},
                                                            {32, 32, 8, 128, false},
                                                            {32, 32, 8, 0, true},
                                                            {32, 32, 4, 8, false},
                                                            {32, 32, 4, 0, true},
                                                            {32, 32, 5, 16, false},
                                                            {32, 32, 5, 0, true},
                                                            {256, 16, 4, 0, true},
                                                            {256, 16, 4, 4, false},
                                                            {256, 32, 4, 0, true},
                                                            {256, 32, 5, 0, true},
                                                            {256, 16, 6, 32, false}};

/// Returns a block of a format with random numbers. The same numbers give the same block.
inline lazyprune::quantized_block random_block(const lazyprune::block_format& format, std::uint32_t row, std::uint32_t block) {
  std::mt19937 random(row * 1000 + block + 1);
  lazyprune::quantized_block b;
  b.scale = static_cast<std::uint16_t>((random() & 1) << 15 | (0x2000 + random() % 0x0800));  // +-2^-7 to 2^-5
  b.least = format.has_least ? static_cast<std::uint16_t>((random() & 1) << 15 | (0x2800 + random() % 0x0800)) : std::uint16_t{0};
  for (std::size_t g = 0; g < format.groups() && format.groups() > 1; ++g) {
    b.scales[g] = static_cast<std::int8_t>(format.has_least ? static_cast<int>(random() % 64) : static_cast<int>(random() % 256) - 128);
    b.leasts[g] = static_cast<std::uint8_t>(random() % 64);
  }
  for (std::size_t i = 0; i < format.inputs; ++i) b.codes[i] = static_cast<std::uint8_t>(random() >> 8 & ((1u << format.bits) - 1));
  return b;
}

/// Returns number i of a block, by the definition in block_format.hpp.
inline float number_of(const lazyprune::block_format& format, const lazyprune::quantized_block& b, std::size_t i) {
  const bool groups = format.groups() > 1;
  const double scale = static_cast<double>(lazyprune::float_of_f16(b.scale)) * (groups ? b.scales[i / format.group] : 1);
  const double least = static_cast<double>(lazyprune::float_of_f16(b.least)) * (groups ? b.leasts[i / format.group] : 1);
  return static_cast<float>(scale * (format.meant(b.codes[i]) - format.offset) - (format.has_least ? least : 0.0));
}

/// Reads matrices of random blocks. A backend may keep the blocks if `keeps` is true.
class rows_of_blocks final : public lazyprune::row_reader {
 public:
  rows_of_blocks(const lazyprune::block_format& format, bool keeps) : format_(format), keeps_(keeps) {}

  const lazyprune::block_format* format() const override { return keeps_ ? &format_ : nullptr; }
  void read_blocks(const lazyprune::tensor&, std::size_t row, std::size_t first, std::size_t count,
                   lazyprune::quantized_block* to) const override {
    for (std::size_t b = first; b < first + count; ++b)
      *to++ = random_block(format_, static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(b));
  }
  void read(const lazyprune::tensor& matrix, std::size_t row, std::size_t first, std::size_t count, std::byte* to) const override {
    for (std::size_t i = first; i < first + count; i += format_.inputs) {
      const auto b = random_block(format_, static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(i / format_.inputs));
      for (std::size_t j = 0; j < format_.inputs; ++j, to += size_of(matrix.type)) {
        const float number = number_of(format_, b, j);
        const auto bits = matrix.type == lazyprune::dtype::f32 ? std::bit_cast<std::uint32_t>(number) : lazyprune::bf16_of_float(number);
        std::memcpy(to, &bits, size_of(matrix.type));
      }
    }
  }

  /// A matrix that this object reads.
  lazyprune::tensor matrix(std::size_t rows, std::size_t columns, std::size_t first_row = 0) const {
    return {lazyprune::dtype::bf16, rows, columns, nullptr, this, first_row};
  }

 private:
  lazyprune::block_format format_;
  bool keeps_;
};

inline std::vector<lazyprune::tensor> only(const stored& s) { return {s}; }

/// Rows in the middle of other memory, each with a gap behind it. The gaps and the memory around hold a number that no operation may
/// change.
template <class T>
class guarded {
 public:
  /// `gap` is how many numbers lie between rows. With 5, most rows are aligned only for single numbers.
  guarded(std::size_t rows, std::size_t columns, std::span<const float> numbers = {}, std::size_t gap = 5)
      : rows_(rows), columns_(columns), stride_(columns + gap), memory_((rows + 2) * stride_, guard) {
    for (std::size_t i = 0; i < numbers.size(); ++i) view().row(i / columns)[i % columns] = static_cast<T>(numbers[i]);
  }

  lazyprune::rows_view<T> view() { return {memory_.data() + stride_, rows_, columns_, stride_}; }
  lazyprune::rows_view<const T> view() const { return {memory_.data() + stride_, rows_, columns_, stride_}; }
  T operator()(std::size_t r, std::size_t i) const { return view().row(r)[i]; }

  bool untouched() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const std::size_t r = i / stride_, column = i % stride_;
      if ((r == 0 || r > rows_ || column >= columns_) && memory_[i] != guard) return false;
    }
    return true;
  }

  friend bool operator==(const guarded&, const guarded&) = default;

 private:
  static constexpr T guard = T(-12345);

  std::size_t rows_;
  std::size_t columns_;
  std::size_t stride_;
  std::vector<T> memory_;
};

/// Puts the rows into the cache's next slots.
template <class Backend, class Scalar>
void append(Backend& backend, typename Backend::kv_layer& kv, lazyprune::rows_view<Scalar> k, lazyprune::rows_view<Scalar> v) {
  std::vector<std::uint32_t> slots(k.rows);
  std::iota(slots.begin(), slots.end(), static_cast<std::uint32_t>(kv.size()));
  backend.put(kv, slots, k, v);
}

/// A sequence in a cache: its active tokens, their slots, and the active tokens that have queries (`rows`).
struct attention_sample {
  enum class layout { run, late_run, scattered };

  /// Neighbouring active tokens are up to `furthest` positions apart.
  attention_sample(lazyprune::attention_shape model, std::size_t active_tokens, std::size_t row_tokens, layout where, std::uint32_t seed,
                   std::size_t furthest = 3)
      : shape(model) {
    std::mt19937 random(seed);
    const std::size_t before = where == layout::run ? 0 : 100;  // how many slots hold tokens that are not active
    total = before + active_tokens;
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < active_tokens; ++i) {
      next += 1 + static_cast<std::uint32_t>(random() % furthest);
      active.push_back(next);
      slots.push_back(static_cast<std::uint32_t>(before + i));
    }
    if (where == layout::scattered) {
      slots.resize(total);
      for (std::size_t i = 0; i < total; ++i) slots[i] = static_cast<std::uint32_t>(i);
      std::ranges::shuffle(slots, random);
      slots.resize(active_tokens);
    }
    rows = active;  // a random choice that includes the last token
    if (!rows.empty()) std::shuffle(rows.begin(), rows.end() - 1, random);
    rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(row_tokens));
    std::ranges::sort(rows);
    q = normal_floats(rows.size() * shape.heads * shape.head_dim, seed + 1);
    k = normal_floats(total * shape.kv_heads * shape.head_dim, seed + 2);
    v = normal_floats(total * shape.kv_heads * shape.head_dim, seed + 3);
  }

  std::size_t q_width() const { return shape.heads * shape.head_dim; }
  std::size_t kv_width() const { return shape.kv_heads * shape.head_dim; }
  lazyprune::attention_rows what() const { return {shape, rows, active, slots}; }

  /// Returns a cache that was filled in three steps.
  template <class Backend>
  typename Backend::kv_layer cache(Backend& backend) const {
    using scalar = typename Backend::scalar;
    typename Backend::kv_layer kv(shape.kv_heads, shape.head_dim);
    const guarded<scalar> keys(total, kv_width(), k), values(total, kv_width(), v);
    for (std::size_t at = 0, step = 0; at < total; ++step) {
      const std::size_t count = step < 2 ? std::min(total - at, total / 3) : total - at;
      append(backend, kv, keys.view().slice(at, count), values.view().slice(at, count));
      at += count;
    }
    return kv;
  }

  lazyprune::attention_shape shape;
  std::size_t total;  // slots of the cache
  std::vector<lazyprune::position> active;
  std::vector<lazyprune::position> rows;
  std::vector<std::uint32_t> slots;
  std::vector<float> q;  // (rows, heads * head_dim)
  std::vector<float> k;  // (total, kv_heads * head_dim)
  std::vector<float> v;  // (total, kv_heads * head_dim)
};

}  // namespace lazyprune_test
