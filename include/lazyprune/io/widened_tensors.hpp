// SPDX-License-Identifier: MIT
// What cannot be handed on as it lies in a file: tensors of quantized types, and those whose rows stand in another order. They are written
// anew, by all processors, in memory that lives until it is given back.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include <lazyprune/backend/large_array.hpp>
#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/io/ggml_type.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

/// The place, among the rows of a llama in a GGUF file, of a row of its q or k: there each head's two halves are interleaved, for a rotary
/// embedding that turns neighbours.
constexpr std::size_t interleaved_row(std::size_t row, std::size_t head_dim) {
  const std::size_t in_head = row % head_dim, half = head_dim / 2;
  return row - in_head + in_head % half * 2 + in_head / half;
}

/// Calls work(first, last) for parts of `rows` rows, on as many threads as are worth it.
template <class Work>
void in_parts(std::size_t rows, std::size_t columns, Work work) {
  constexpr std::size_t worth_a_thread = std::size_t{1} << 18;  // numbers
  const std::size_t parts = std::clamp<std::size_t>(rows * columns / worth_a_thread, 1, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::jthread> others;
  for (std::size_t p = 1; p < parts; ++p) others.emplace_back(work, rows * p / parts, rows * (p + 1) / parts);
  work(std::size_t{0}, rows / parts);
}

}  // namespace detail

/// Tensors written anew. One thread uses it at a time.
class widened_tensors {
 public:
  /// A tensor (rows, columns) of whole blocks, as float or bf16. `head_dim`: of a tensor whose rows are interleaved, else 0.
  tensor widen(const ggml_type& type, const std::byte* data, std::size_t rows, std::size_t columns, dtype to, std::size_t head_dim = 0) {
    const std::size_t row_bytes = columns / type.values * type.bytes;
    std::byte* const out = make(rows * columns * size_of(to));
    detail::in_parts(rows, columns, [&, out](std::size_t first, std::size_t last) {
      // A part of a row at a time, so that what is written as bf16 is rounded while the caches have it.
      constexpr std::size_t part = 4096;
      static_assert(part % 256 == 0);
      float values[part];
      for (std::size_t row = first; row < last; ++row) {
        const std::byte* from = data + (head_dim > 0 ? detail::interleaved_row(row, head_dim) : row) * row_bytes;
        std::byte* at = out + row * columns * size_of(to);
        for (std::size_t done = 0; done < columns; done += part) {
          const std::size_t count = std::min(part, columns - done), blocks = count / type.values;
          type.dequantize(from, blocks, values);
          from += blocks * type.bytes;
          at = store(values, count, to, at);
        }
      }
    });
    return {to, rows, columns, out};
  }

  /// A tensor of a plain type, its interleaved rows in their own order.
  tensor reorder(const tensor& t, std::size_t head_dim) {
    const std::size_t row_bytes = t.columns * size_of(t.type);
    std::byte* const out = make(t.bytes());
    for (std::size_t row = 0; row < t.rows; ++row)
      std::memcpy(out + row * row_bytes, t.data + detail::interleaved_row(row, head_dim) * row_bytes, row_bytes);
    return {t.type, t.rows, t.columns, out};
  }

  /// Gives the memory of one of these back; false where it is none of them. The next ones may be made in it: the first touch of new memory
  /// takes about as long as widening into it.
  bool release(const tensor& t) {
    const auto found = made_.find(t.data);
    if (found == made_.end()) return false;
    large_array memory = std::move(found->second);
    made_.erase(found);
    if (memory.bytes() <= largest_spare) {
      large_array& smaller = *std::ranges::min_element(spare_, {}, &large_array::bytes);
      if (smaller.bytes() < memory.bytes()) smaller = std::move(memory);
    }
    return true;
  }

 private:
  std::byte* make(std::size_t bytes) {
    const auto spare = std::ranges::find_if(spare_, [&](const large_array& memory) { return memory.bytes() >= bytes; });
    large_array memory = spare == spare_.end() ? large_array(bytes) : std::exchange(*spare, large_array());
    std::byte* const at = memory.data();
    made_.emplace(at, std::move(memory));
    return at;
  }

  static std::byte* store(const float* values, std::size_t count, dtype to, std::byte* out) {
    if (to == dtype::f32) {
      std::memcpy(out, values, count * 4);
      return out + count * 4;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint16_t bits = bf16_of_float(values[i]);
      std::memcpy(out + 2 * i, &bits, 2);
    }
    return out + count * 2;
  }

  static constexpr std::size_t largest_spare = std::size_t{128} << 20;

  std::map<const std::byte*, large_array> made_;
  std::array<large_array, 2> spare_;  // two, since gate and up are packed together
};

}  // namespace v0
}  // namespace lazyprune
