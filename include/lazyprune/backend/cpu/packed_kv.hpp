// SPDX-License-Identifier: MIT
// The KV cache of one layer, packed in the order in which products read it. For each head, a block of slots has two packed weights: keys
// and values. The weight of the keys has an output for each slot and an input for each dimension. The weight of the values has an output
// for each dimension and an input for each slot. So attention is two products, in prefill and in decode steps, and nothing is packed again.
// Copies share blocks until one of them writes.
//
// In f32 and bf16, the weights are tiles (product_kernel.hpp). For f16 and q8_0, see kv_layout.hpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include <lazyprune/backend/cpu/kernels/convert.hpp>
#include <lazyprune/backend/cpu/kernels/int8_rows.hpp>
#include <lazyprune/backend/cpu/kernels/kernels.hpp>
#include <lazyprune/backend/cpu/kernels/kv_layout.hpp>
#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>
#include <lazyprune/backend/cpu/parallel.hpp>
#include <lazyprune/backend/memory/block_pool.hpp>
#include <lazyprune/backend/tensor_backend.hpp>

namespace lazyprune {
inline namespace v0 {

class packed_kv {
 public:
  static constexpr std::size_t block_slots = 256;
  static constexpr std::size_t block_tiles = block_slots / kernels::tile_outputs;

  packed_kv(std::size_t kv_heads, std::size_t head_dim, dtype type = dtype::f32)
      : kv_heads_(kv_heads),
        head_dim_(head_dim),
        value_tiles_((head_dim + kernels::tile_outputs - 1) / kernels::tile_outputs),
        type_(type) {}

  std::size_t size() const { return size_; }                   // slots
  std::size_t width() const { return kv_heads_ * head_dim_; }  // numbers of a slot's key, and of its value
  std::size_t kv_heads() const { return kv_heads_; }
  dtype type() const { return type_; }
  /// Returns whether slots of the two caches have the same number of heads and dimensions.
  bool like(const packed_kv& other) const { return kv_heads_ == other.kv_heads_ && head_dim_ == other.head_dim_; }
  /// Returns the inputs of a tile of keys.
  std::size_t key_depth() const { return type_ == dtype::f32 || type_ == dtype::f16 ? head_dim_ : padded_depth(); }
  std::size_t value_tiles() const { return value_tiles_; }  // tiles of values
  std::size_t blocks() const { return (size_ + block_slots - 1) / block_slots; }
  std::size_t bytes() const { return (blocks_.size() + spare_.size()) * block_bytes(); }

  /// Returns the bytes of a slot in a cache of this type, padding included.
  static std::size_t slot_bytes(std::size_t kv_heads, std::size_t head_dim, dtype type) {
    return kv_heads * packed_kv(kv_heads, head_dim, type).head_bytes() / block_slots;
  }

  /// Forgets the slots from `size` on and keeps the memory.
  void truncate(std::size_t size) noexcept {
    written_ = std::max(written_, size_);
    size_ = std::min(size_, size);
  }

  /// Allocates memory for the slots below `slots`. An empty cache takes the type `as`.
  void reserve(std::size_t slots, dtype as) {
    take_type(as);
    spare_.reserve((slots + block_slots - 1) / block_slots, blocks_.size(), block_bytes());
  }

  /// Zeroes the numbers of slots that hold no token's rows any more, if any numbers of the cache may be infinite or NaN. Attention
  /// multiplies such slots by 0 if their neighbours are in use. Blocks that are shared stay shared in all usual cases.
  void forget(std::span<const std::uint32_t> slots) {
    if (!unusual_) return;
    for (const std::uint32_t slot : slots) wipe(slot, slot + 1);
  }

  /// Writes the rows of k and v (rows, kv_heads * head_dim) to these slots, which ascend. Creates missing slots. An empty cache takes the
  /// type `as`. Any other cache keeps its type.
  void put(std::span<const std::uint32_t> slots, rows_view<const float> k, rows_view<const float> v, dtype as, int threads) {
    assert(slots.size() == k.rows && k.rows == v.rows && k.columns == width() && v.columns == width());
    if (slots.empty()) return;
    take_type(as);
    const std::size_t before = blocks(), size = std::max<std::size_t>(size_, slots.back() + 1);
    const std::size_t after = (size + block_slots - 1) / block_slots;
    while (blocks_.size() < after) blocks_.push_back(spare_.take(block_bytes()));
    for (std::size_t b = before; b < after; ++b)  // attention multiplies unused slots by 0, so they must be finite
      std::memset(blocks_[b].own(), 0, block_bytes());
    for (const std::uint32_t slot : slots) blocks_[slot / block_slots].own();
    if (written_ > size_ && size_ % block_slots != 0) wipe(size_, std::min(written_, before * block_slots));
    written_ = size_ = size;
    std::atomic<bool> unusual = false;
    detail::for_tasks(detail::threads_for(threads, 2 * k.rows * width()), kv_heads_, [&](std::size_t head, std::size_t) {
      const auto row = [&](rows_view<const float> rows, std::size_t r) { return rows.row(r) + head * head_dim_; };
      for (std::size_t r = 0, count = 1; r < k.rows; r += count) {
        // In bf16, a line of values has two slots, so two slots are written together if possible.
        const bool both = type_ == dtype::bf16 && slots[r] % 2 == 0 && r + 1 < k.rows && slots[r + 1] == slots[r] + 1;
        count = both ? 2 : 1;
        for (std::size_t i = r; i < r + count; ++i) {
          put_key(slots[i], head, row(k, i));
          if (!usual(row(k, i)) || !usual(row(v, i))) unusual = true;
        }
        if (both)
          put_values(slots[r], head, row(v, r), row(v, r + 1));
        else
          put_value(slots[r], head, row(v, r));
      }
    });
    unusual_ = unusual_ || unusual;
  }

  /// Replaces all slots: slot i becomes a copy of slot slots[i] of `from`, which has the same heads. After the last one, the other slots of
  /// its tile are copies of it, too.
  void copy(const packed_kv& from, std::span<const std::uint32_t> slots, int threads) {
    assert(from.kv_heads_ == kv_heads_ && from.head_dim_ == head_dim_);
    truncate(0);
    take_type(from.type_);
    const std::size_t tiles = (slots.size() + kernels::tile_outputs - 1) / kernels::tile_outputs;
    while (blocks_.size() * block_tiles < tiles) blocks_.push_back(spare_.take(block_bytes()));
    for (std::size_t b = 0; b * block_tiles < tiles; ++b) blocks_[b].own();
    written_ = size_ = slots.size();
    detail::for_tasks(detail::threads_for(threads, slots.size() * width() / 4), tiles * kv_heads_, [&](std::size_t task, std::size_t) {
      const std::size_t head = task / tiles, first = task % tiles * kernels::tile_outputs;
      std::uint32_t of_tile[kernels::tile_outputs];
      for (std::size_t i = 0; i < kernels::tile_outputs; ++i) of_tile[i] = slots[std::min(first + i, slots.size() - 1)];
      copy_keys(from, of_tile, first, head);
      copy_values(from, of_tile, first, head);
    });
  }

  /// Returns whether products need tiles that `unpack_keys` and `unpack_values` write.
  bool needs_unpacking() const { return type_ == dtype::f16 || type_ == dtype::q8_0; }

  /// Unpacks a tile of keys (key_depth() inputs).
  void unpack_keys(const kernels::product_kernel& product, const std::byte* tile, std::byte* to) const {
    if (type_ == dtype::f16)
      product.unpack_f16(tile, key_depth(), to);
    else
      product.unpack_q8_0(tile, key_depth(), false, to);
  }
  /// Unpacks `slots` slots of a tile of values.
  void unpack_values(const kernels::product_kernel& product, const std::byte* tile, std::size_t slots, std::byte* to) const {
    if (type_ == dtype::f16)
      product.unpack_f16(tile, slots, to);
    else
      product.unpack_q8_0(tile, slots, true, to);
  }

  /// Returns a tile of keys: 32 slots of the block.
  const std::byte* key_tile(std::size_t block, std::size_t head, std::size_t tile) const {
    return head_of(block, head) + tile * key_tile_bytes();
  }

  /// Returns a tile of values: 32 dimensions, from slot `first` of the block on.
  const std::byte* value_tile(std::size_t block, std::size_t head, std::size_t tile, std::size_t first) const {
    return head_of(block, head) + block_tiles * key_tile_bytes() + tile * value_tile_bytes() + tile_bytes(first);
  }

  /// Return number `i` of a slot's key or value.
  float key(std::size_t slot, std::size_t head, std::size_t i) const {
    const std::size_t output = slot % kernels::tile_outputs;
    return read(key_tile_of(slot, head), i, output, output);
  }
  float value(std::size_t slot, std::size_t head, std::size_t i) const {
    const std::size_t in_tile = slot % kernels::tile_outputs;
    return read(value_tile_of(slot, head, i / kernels::tile_outputs), in_tile, i % kernels::tile_outputs, in_tile);
  }

 private:
  using panel = kernels::q8_0_panel;

  /// Changes the type of an empty cache, and frees its blocks.
  void take_type(dtype as) {
    if (size_ > 0 || as == type_) return;
    type_ = as;
    blocks_.clear();
    spare_ = {};
  }

  /// Returns whether the numbers of a head are finite in every type that the cache may have. Reads their bits (core/finite.hpp).
  bool usual(const float* numbers) const {
    constexpr std::uint32_t limit = std::bit_cast<std::uint32_t>(0x1p15f);  // f16 has no numbers from 2^16 on
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < head_dim_; ++i) most = std::max(most, std::bit_cast<std::uint32_t>(numbers[i]) & 0x7fff'ffffu);
    return most < limit;
  }

  /// Zeroes forgotten slots of a block. Attention multiplies them by 0, which would give NaN if an old number were not finite.
  void wipe(std::size_t first, std::size_t last) {
    blocks_[first / block_slots].own();
    const std::vector<float> zeros(head_dim_);
    for (std::size_t slot = first; slot < last; ++slot)
      for (std::size_t head = 0; head < kv_heads_; ++head) put_key(slot, head, zeros.data()), put_value(slot, head, zeros.data());
  }

  std::size_t padded_depth() const { return (head_dim_ + 31) / 32 * 32; }
  /// Returns the bytes of so many inputs of a tile. `inputs` is a multiple of two in bf16, and of 32 in q8_0.
  std::size_t tile_bytes(std::size_t inputs) const {
    if (type_ == dtype::q8_0) return inputs / panel::inputs * panel::bytes;
    return type_ == dtype::f16 ? inputs * kernels::f16_line::bytes : kernels::tile_offset(type_, inputs, 0);
  }
  std::size_t key_tile_bytes() const { return tile_bytes(key_depth()); }
  std::size_t value_tile_bytes() const { return tile_bytes(block_slots); }
  std::size_t head_bytes() const { return block_tiles * key_tile_bytes() + value_tiles_ * value_tile_bytes(); }
  std::size_t block_bytes() const { return kv_heads_ * head_bytes(); }

  const std::byte* head_of(std::size_t block, std::size_t head) const { return blocks_[block].data() + head * head_bytes(); }

  const std::byte* key_tile_of(std::size_t slot, std::size_t head) const {
    return key_tile(slot / block_slots, head, slot % block_slots / kernels::tile_outputs);
  }
  /// Returns a tile of values, from the start of the slot's group of 32 slots on.
  const std::byte* value_tile_of(std::size_t slot, std::size_t head, std::size_t tile) const {
    return value_tile(slot / block_slots, head, tile, slot % block_slots / kernels::tile_outputs * kernels::tile_outputs);
  }

  static void write(const std::byte* at, const void* numbers, std::size_t bytes) {
    std::memcpy(const_cast<std::byte*>(at), numbers, bytes);
  }

  /// Writes `count` elements of `Size` bytes, each `line` bytes after the one before.
  template <std::size_t Size>
  static void scatter(const void* elements, std::size_t count, std::size_t line, const std::byte* at) {
    const auto* from = static_cast<const std::byte*>(elements);
    for (std::size_t i = 0; i < count; ++i, from += Size, at += line) write(at, from, Size);
  }

  /// Writes `lines` lines of 32 elements, `line` bytes apart. Element i of a line comes from from[i], which is then `line` bytes further
  /// on.
  template <std::size_t Size>
  static void gather(const std::byte* const* from, std::size_t lines, std::size_t line, const std::byte* to) {
    for (std::size_t i = 0; i < kernels::tile_outputs; ++i) {
      const std::byte* const of = from[i];
      for (std::size_t l = 0; l < lines; ++l) write(to + l * line + i * Size, of + l * line, Size);
    }
  }

  /// Copies the keys of 32 slots to the slots from `first` on, a whole tile.
  void copy_keys(const packed_kv& from, const std::uint32_t (&slots)[kernels::tile_outputs], std::size_t first, std::size_t head) {
    const std::size_t size = type_ == dtype::f16 ? 2 : type_ == dtype::q8_0 ? 1 : 4;
    const std::byte *to = key_tile_of(first, head), *tiles[kernels::tile_outputs], *at[kernels::tile_outputs];
    for (std::size_t i = 0; i < kernels::tile_outputs; ++i) {
      tiles[i] = from.key_tile_of(slots[i], head);
      at[i] = tiles[i] + slots[i] % kernels::tile_outputs * size;
    }
    if (type_ == dtype::f16) return gather<2>(at, key_depth(), kernels::f16_line::bytes, to);
    if (type_ != dtype::q8_0) return gather<4>(at, key_tile_bytes() / kernels::line_bytes, kernels::line_bytes, to);
    for (std::size_t p = 0; p < key_depth() / panel::inputs; ++p, to += panel::bytes) {
      const std::byte *scales[kernels::tile_outputs], *codes[kernels::tile_outputs];
      for (std::size_t i = 0; i < kernels::tile_outputs; ++i) {
        scales[i] = tiles[i] + p * panel::bytes + slots[i] % kernels::tile_outputs * 2;
        codes[i] = at[i] + p * panel::bytes + panel::codes;
      }
      gather<2>(scales, 1, 0, to);
      gather<1>(codes, panel::inputs, kernels::tile_outputs, to + panel::codes);
    }
  }

  /// Copies the values of 32 slots to the slots from `first` on.
  void copy_values(const packed_kv& from, const std::uint32_t (&slots)[kernels::tile_outputs], std::size_t first, std::size_t head) {
    for (std::size_t tile = 0; tile < value_tiles_; ++tile) {
      const std::byte *const to = value_tile_of(first, head, tile), *lines[kernels::tile_outputs];
      for (std::size_t i = 0; i < kernels::tile_outputs; ++i) lines[i] = from.value_tile_of(slots[i], head, tile);
      for (std::size_t i = 0; i < kernels::tile_outputs; ++i) {
        const std::size_t input = slots[i] % kernels::tile_outputs;
        if (type_ == dtype::q8_0) {
          write(to + 2 * i, lines[i] + 2 * input, 2);
          write(to + panel::line(i), lines[i] + panel::line(input), kernels::tile_outputs);
        } else if (type_ != dtype::bf16) {
          write(to + tile_bytes(i), lines[i] + tile_bytes(input), tile_bytes(1));
        } else if (i % 2 == 0) {
          const std::size_t next = slots[i + 1] % kernels::tile_outputs;
          if (input % 2 == 0 && slots[i + 1] == slots[i] + 1)
            write(to + tile_bytes(i), lines[i] + tile_bytes(input), kernels::line_bytes);
          else
            join_pairs(lines[i] + tile_bytes(input / 2 * 2), input % 2, lines[i + 1] + tile_bytes(next / 2 * 2), next % 2,
                       to + tile_bytes(i));
        }
      }
    }
  }

  /// Writes a line of values in bf16 from one half of two other lines. A half is 0 or 1: the lower or the upper 16 bits.
  static void join_pairs(const std::byte* lower, std::size_t lower_half, const std::byte* upper, std::size_t upper_half,
                         const std::byte* to) {
    std::uint32_t line[kernels::tile_outputs];
    const auto to_lower = static_cast<unsigned>(16 * lower_half), to_upper = static_cast<unsigned>(16 * (1 - upper_half));
    for (std::size_t i = 0; i < kernels::tile_outputs; ++i) {
      std::uint32_t a, b;
      std::memcpy(&a, lower + 4 * i, 4);
      std::memcpy(&b, upper + 4 * i, 4);
      line[i] = (a >> to_lower & 0xffffu) | (b << to_upper & 0xffff0000u);
    }
    write(to, line, sizeof line);
  }

  // Up to 32 numbers of a row, from number `first` on, in the cache's types. Zeros follow the last number of the row.

  struct in_bf16 {
    in_bf16(const float* row, std::size_t first, std::size_t size) {
      kernels::convert(dtype::f32, reinterpret_cast<const std::byte*>(row + first), std::min(kernels::tile_outputs, size - first), numbers);
    }
    std::uint16_t numbers[kernels::tile_outputs] = {};
  };

  /// Returns the nearest number that f16 can hold, if the number is finite. An infinite key would make NaN of all rows that read its tile.
  static float within_f16(float x) {
    constexpr float most = 65504.0f;
    return std::abs(x) <= std::numeric_limits<float>::max() ? std::clamp(x, -most, most) : x;
  }

  struct in_f16 {
    in_f16(const float* row, std::size_t first, std::size_t size) {
      const std::size_t count = std::min(kernels::tile_outputs, size - first);
      float within[kernels::tile_outputs];
      for (std::size_t i = 0; i < count; ++i) within[i] = within_f16(row[first + i]);
      kernels::round_to_f16(within, count, numbers);
    }
    std::uint16_t numbers[kernels::tile_outputs] = {};
  };

  /// The codes are rounded as activations are (int8_rows.hpp).
  struct in_q8_0 {
    in_q8_0(const float* row, std::size_t first, std::size_t size) {
      static const auto pack = kernels::int8_kernel_of(has(isa::avx2) ? isa::avx2 : isa::portable)->pack;
      std::byte packed[kernels::int8_block::row_bytes];
      pack(row + first, size, 1, std::min(panel::inputs, size - first), panel::inputs, packed);
      float exact;
      std::memcpy(&exact, packed + kernels::int8_block{1}.scale(0), sizeof exact);
      scale = f16_of_float(within_f16(exact));
      std::memcpy(codes, packed, sizeof codes);
    }
    std::uint16_t scale;
    std::byte codes[panel::inputs];
  };

  /// Writes a key. A line has one dimension of 32 slots or, in bf16, two dimensions.
  void put_key(std::size_t slot, std::size_t head, const float* key) {
    const std::byte* tile = key_tile_of(slot, head);
    const std::size_t output = slot % kernels::tile_outputs;
    for (std::size_t first = 0; first < head_dim_; first += kernels::tile_outputs, tile += tile_bytes(kernels::tile_outputs)) {
      const std::size_t count = std::min(kernels::tile_outputs, head_dim_ - first);
      if (type_ == dtype::f32) scatter<4>(key + first, count, kernels::line_bytes, tile + 4 * output);
      if (type_ == dtype::bf16) scatter<4>(in_bf16(key, first, head_dim_).numbers, (count + 1) / 2, kernels::line_bytes, tile + 4 * output);
      if (type_ == dtype::f16) scatter<2>(in_f16(key, first, head_dim_).numbers, count, kernels::f16_line::bytes, tile + 2 * output);
      if (type_ != dtype::q8_0) continue;
      const in_q8_0 some(key, first, head_dim_);
      write(tile + 2 * output, &some.scale, 2);
      scatter<1>(some.codes, count, kernels::tile_outputs, tile + panel::codes + output);
    }
  }

  /// Writes a value. A line has 32 dimensions of one slot or, in bf16, of two slots.
  void put_value(std::size_t slot, std::size_t head, const float* value) {
    const std::byte* tile = value_tile_of(slot, head, 0);
    const std::size_t input = slot % kernels::tile_outputs;
    for (std::size_t first = 0; first < head_dim_; first += kernels::tile_outputs, tile += value_tile_bytes()) {
      const std::size_t count = std::min(kernels::tile_outputs, head_dim_ - first);
      if (type_ == dtype::f32) {
        write(tile + tile_bytes(input), value + first, count * 4);
      } else if (type_ == dtype::f16) {
        write(tile + tile_bytes(input), in_f16(value, first, head_dim_).numbers, count * 2);
      } else if (type_ == dtype::bf16) {
        const in_bf16 some(value, first, head_dim_);
        for (std::size_t i = 0; i < count; ++i) write(tile + kernels::tile_offset(type_, input, i), some.numbers + i, 2);
      } else {
        const in_q8_0 some(value, first, head_dim_);
        write(tile + 2 * input, &some.scale, 2);
        write(tile + panel::line(input), some.codes, count);
      }
    }
  }

  /// Writes the values of slots `slot` and `slot + 1` in bf16. `slot` is even.
  void put_values(std::size_t slot, std::size_t head, const float* value, const float* next) {
    const std::byte* line = value_tile_of(slot, head, 0) + kernels::tile_offset(type_, slot % kernels::tile_outputs, 0);
    for (std::size_t first = 0; first < head_dim_; first += kernels::tile_outputs, line += value_tile_bytes()) {
      const in_bf16 lower(value, first, head_dim_), upper(next, first, head_dim_);
      std::uint32_t pairs[kernels::tile_outputs];
      for (std::size_t i = 0; i < kernels::tile_outputs; ++i)
        pairs[i] = lower.numbers[i] | static_cast<std::uint32_t>(upper.numbers[i]) << 16;
      write(line, pairs, std::min(kernels::tile_outputs, head_dim_ - first) * 4);
    }
  }

  /// Reads a number of a tile. In q8_0, `slot` is the place of the number's scale.
  float read(const std::byte* tile, std::size_t input, std::size_t output, std::size_t slot) const {
    if (type_ == dtype::q8_0) {
      const std::byte* const at = tile + tile_bytes(input / panel::inputs * panel::inputs);
      return panel::scale(at, slot) * static_cast<float>(std::to_integer<std::int8_t>(at[panel::line(input % panel::inputs) + output]));
    }
    const std::size_t at = type_ == dtype::f16 ? tile_bytes(input) + 2 * output : kernels::tile_offset(type_, input, output);
    float number;
    lazyprune::widen(tensor{type_, 1, 1, tile + at}, 0, 1, &number);
    return number;
  }

  std::size_t kv_heads_;
  std::size_t head_dim_;
  std::size_t value_tiles_;
  dtype type_;
  std::size_t size_ = 0;
  std::size_t written_ = 0;                      // if greater than size_, the slots from size_ to written_ - 1 may hold forgotten numbers
  bool unusual_ = false;                         // whether a slot may hold or have held numbers that are not finite
  std::vector<shared_array<std::byte>> blocks_;  // each block: (kv_heads, keys and values)
  block_pool<std::byte> spare_;
};

}  // namespace v0
}  // namespace lazyprune
