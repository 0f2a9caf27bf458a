// SPDX-License-Identifier: MIT
// What the backends that compute in host memory share: buffers, caches, parameters, rope tables, and the operations that only move rows.
// Copies of a cache share its memory, block by block, until one of them writes. What only keeps account of memory is for memory of any
// kind: a class that is made with a number of elements, as aligned_array is.
#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lazyprune/backend/tensor_backend.hpp>
#include <lazyprune/core/error.hpp>

namespace lazyprune {
inline namespace v0 {

/// Uninitialised memory for `size` numbers on a cache line's boundary.
template <class T>
class aligned_array {
 public:
  static constexpr std::size_t alignment = 64;

  aligned_array() = default;
  explicit aligned_array(std::size_t size) : data_(size ? allocate(size) : nullptr), size_(size) {}

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }

  /// Memory for `size` numbers, the first `kept` of which are the first of this.
  aligned_array resized(std::size_t size, std::size_t kept) const {
    aligned_array other(size);
    std::copy_n(data(), kept, other.data());
    return other;
  }

 private:
  struct release {
    void operator()(T* data) const { ::operator delete (data, std::align_val_t{alignment}); }
  };

  static T* allocate(std::size_t size) {
    if (size > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length{};
    return static_cast<T*>(::operator new (size * sizeof(T), std::align_val_t{alignment}));
  }

  std::unique_ptr<T[], release> data_;
  std::size_t size_ = 0;
};

/// Memory of `size` numbers that copies of it share until one of them writes; they may belong to different threads.
template <class T, class Memory = aligned_array<T>>
class shared_array {
 public:
  shared_array() = default;
  explicit shared_array(std::size_t size) : shared_array(Memory(size)) {}
  shared_array(const shared_array& other) noexcept : at_(other.at_) {
    if (at_) at_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  shared_array(shared_array&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  shared_array& operator=(shared_array other) noexcept {
    std::swap(at_, other.at_);
    return *this;
  }
  ~shared_array() {
    if (at_ && at_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete at_;
  }

  const T* data() const { return at_->numbers.data(); }
  std::size_t bytes() const { return at_ ? at_->numbers.bytes() : 0; }
  bool shared() const { return at_ && at_->owners.load(std::memory_order_acquire) > 1; }

  /// To be written: what others hold as well is copied first.
  T* own() {
    if (shared()) {
      shared_array copy(at_->numbers.resized(at_->numbers.size(), at_->numbers.size()));
      std::swap(at_, copy.at_);
    }
    return at_->numbers.data();
  }

 private:
  struct memory {
    Memory numbers;
    std::atomic<std::size_t> owners{1};
  };
  explicit shared_array(Memory numbers) : at_(new memory{std::move(numbers)}) {}

  memory* at_ = nullptr;
};

/// Blocks of one size that are had ahead of their use, so that some number of them, in use or not, stays with their owner. A copy of it has
/// none: what is reserved belongs to one alone.
template <class T, class Memory = aligned_array<T>>
class spare_blocks {
 public:
  using block = shared_array<T, Memory>;

  spare_blocks() = default;
  spare_blocks(const spare_blocks&) noexcept {}
  spare_blocks(spare_blocks&&) noexcept = default;
  spare_blocks& operator=(spare_blocks other) noexcept {
    std::swap(held_, other.held_);
    std::swap(blocks_, other.blocks_);
    return *this;
  }

  std::size_t size() const { return blocks_.size(); }

  /// `total` blocks of `size` numbers stay, of which so many are in use.
  void reserve(std::size_t total, std::size_t in_use, std::size_t size) {
    blocks_.reserve(total);
    held_ = std::max(held_, total);
    while (in_use + blocks_.size() < held_) blocks_.emplace_back(size);
  }

  /// A block of `size` numbers to be used.
  block take(std::size_t size) {
    if (blocks_.empty()) return block(size);
    block last = std::move(blocks_.back());
    blocks_.pop_back();
    return last;
  }

  /// A block that is not used any more, and so many that are.
  void give(block unused, std::size_t in_use) noexcept {
    if (in_use + blocks_.size() < held_ && !unused.shared()) blocks_.push_back(std::move(unused));
  }

 private:
  std::size_t held_ = 0;
  std::vector<block> blocks_;
};

/// Slots of so many numbers each, in blocks: memory grows without copying what is there, and is given back with a block's last slot, but
/// for what is held.
template <class T, class Memory = aligned_array<T>>
class slot_blocks {
 public:
  static constexpr std::size_t block_slots = 64;

  explicit slot_blocks(std::size_t columns) : columns_(columns) {}

  std::size_t columns() const { return columns_; }
  std::size_t size() const { return size_; }  // slots in use
  std::size_t bytes() const { return (used_ + spare_.size()) * block_numbers() * sizeof(T); }

  /// Memory for the slots below `count`, which stays where none of them is in use.
  void hold(std::size_t count) { spare_.reserve((count + block_slots - 1) / block_slots, used_, block_numbers()); }

  /// Room for these slots, to be written.
  void reserve(std::span<const std::uint32_t> slots) {
    for (const std::uint32_t slot : slots) {
      if (blocks_.size() <= slot / block_slots) blocks_.resize(slot / block_slots + 1);
      block& b = blocks_[slot / block_slots];
      if (b.slots == 0) {
        b.data = spare_.take(block_numbers());
        ++used_;
      }
      b.data.own();
      size_ += (b.slots & bit_of(slot)) == 0;
      b.slots |= bit_of(slot);
    }
  }

  /// (columns), to be written: of a slot that there is room for since it was last shared.
  T* row(std::size_t slot) { return const_cast<T*>(std::as_const(*this).row(slot)); }
  /// (columns), of a slot in use.
  const T* row(std::size_t slot) const {
    assert(blocks_[slot / block_slots].slots & bit_of(slot));
    return blocks_[slot / block_slots].data.data() + slot % block_slots * columns_;
  }

  /// What these slots hold, each of them something, is not needed any more.
  void release(std::span<const std::uint32_t> slots) noexcept {
    for (const std::uint32_t slot : slots) {
      block& b = blocks_[slot / block_slots];
      assert(b.slots & bit_of(slot));
      b.slots &= ~bit_of(slot);
      --size_;
      free_if_unused(b);
    }
  }

  /// Nothing is needed any more but the slots that `visit(keep)` calls keep(slot) for, each of them in use.
  template <class Visit>
  void retain(Visit&& visit) noexcept {
    size_ = 0;
    for (block& b : blocks_) b.slots = 0;
    visit([this](std::uint32_t slot) {
      ++size_;
      blocks_[slot / block_slots].slots |= bit_of(slot);
    });
    for (block& b : blocks_) free_if_unused(b);
  }

 private:
  struct block {
    shared_array<T, Memory> data;  // (block_slots, columns), where a slot is in use
    std::uint64_t slots = 0;       // a bit for each that is
  };
  static_assert(block_slots == 64);

  static std::uint64_t bit_of(std::size_t slot) { return std::uint64_t{1} << slot % block_slots; }
  std::size_t block_numbers() const { return block_slots * columns_; }

  void free_if_unused(block& b) noexcept {
    if (b.slots != 0 || b.data.bytes() == 0) return;
    spare_.give(std::exchange(b.data, {}), --used_);
  }

  std::size_t columns_;
  std::size_t size_ = 0;
  std::size_t used_ = 0;  // blocks that have memory
  std::vector<block> blocks_;
  spare_blocks<T, Memory> spare_;
};

/// Rows put aside (slots, columns), as float or in half the memory; how numbers are rounded and read is the backend's. Copies share memory
/// until one of them writes.
template <class Memory = aligned_array<std::byte>>
class typed_rows {
 public:
  explicit typed_rows(std::size_t columns) : columns_(columns), blocks_(columns * size_of(dtype::f32)) {}

  std::size_t columns() const { return columns_; }
  dtype type() const { return type_; }                 // f32 or bf16
  std::size_t size() const { return blocks_.size(); }  // slots in use
  std::size_t bytes() const { return blocks_.bytes(); }

  /// Room for these slots. An empty store takes the type `as`, f32 or bf16; one that is not empty keeps its own.
  void reserve(std::span<const std::uint32_t> slots, dtype as) {
    take_type(as);
    blocks_.reserve(slots);
  }

  /// Memory for the slots below `count`, in the type that they will have; it stays where none of them is in use.
  void hold(std::size_t count, dtype as) {
    take_type(as);
    blocks_.hold(count);
  }

  /// The memory of a slot in use.
  const void* row(std::size_t slot) const { return blocks_.row(slot); }
  /// To be written: of a slot that there is room for since it was last shared.
  void* row(std::size_t slot) { return blocks_.row(slot); }

  void release(std::span<const std::uint32_t> slots) noexcept { blocks_.release(slots); }
  template <class Visit>
  void retain(Visit&& visit) noexcept {
    blocks_.retain(visit);
  }

 private:
  void take_type(dtype as) {
    if (blocks_.size() > 0 || as == type_) return;
    blocks_ = slot_blocks<std::byte, Memory>(columns_ * size_of(as));
    type_ = as;
  }

  std::size_t columns_;
  dtype type_ = dtype::f32;
  slot_blocks<std::byte, Memory> blocks_;
};

/// Activations (rows, columns), uninterrupted. Memory that was never written holds anything.
template <class T, class Memory = aligned_array<T>>
class row_buffer {
 public:
  explicit row_buffer(std::size_t columns) : columns_(columns) {}

  /// Room for so many rows at least; what is there stays. Grows by half, so that row after row costs little.
  void reserve(std::size_t rows) {
    const std::size_t needed = rows * columns_;
    if (needed > memory_.size()) memory_ = memory_.resized(std::max(needed, memory_.size() + memory_.size() / 2), rows_ * columns_);
    rows_ = std::max(rows_, rows);
  }

  rows_view<T> view() { return {memory_.data(), rows_, columns_, columns_}; }
  rows_view<const T> view() const { return {memory_.data(), rows_, columns_, columns_}; }
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  std::size_t columns_;
  std::size_t rows_ = 0;
  Memory memory_;
};

/// Keys and values of one layer, in blocks of slots.
template <class T>
class host_kv {
 public:
  static constexpr std::size_t block_slots = 256;

  host_kv(std::size_t kv_heads, std::size_t head_dim) : width_(kv_heads * head_dim) {}

  std::size_t size() const { return size_; }    // slots
  std::size_t width() const { return width_; }  // kv_heads * head_dim
  std::size_t bytes() const { return (blocks_.size() + spare_.size()) * block_numbers() * sizeof(T); }

  /// Memory for the slots below `slots`.
  void reserve(std::size_t slots) { spare_.reserve((slots + block_slots - 1) / block_slots, blocks_.size(), block_numbers()); }

  /// Forgets the slots from `size` on and keeps the memory.
  void truncate(std::size_t size) noexcept { size_ = std::min(size_, size); }

  /// (kv_heads * head_dim); the slots of one block follow each other.
  const T* key(std::size_t slot) const { return blocks_[slot / block_slots].data() + slot % block_slots * width_; }
  const T* value(std::size_t slot) const { return key(slot) + block_slots * width_; }

  /// Slots that are missing are made.
  void put(std::size_t slot, const T* key, const T* value) {
    while (blocks_.size() <= slot / block_slots) blocks_.push_back(spare_.take(block_numbers()));
    size_ = std::max(size_, slot + 1);
    T* const at = blocks_[slot / block_slots].own() + slot % block_slots * width_;
    std::copy_n(key, width_, at);
    std::copy_n(value, width_, at + block_slots * width_);
  }

 private:
  std::size_t block_numbers() const { return 2 * block_slots * width_; }

  std::size_t width_;
  std::size_t size_ = 0;
  std::vector<shared_array<T>> blocks_;  // (2, block_slots, width): keys, then values
  spare_blocks<T> spare_;
};

template <class T>
class host_parameters {
 public:
  /// Throws `error` unless the parts are vectors.
  explicit host_parameters(std::span<const tensor> parts) {
    for (const tensor& part : parts) {
      if (part.rows != 1) throw error("", "parameters", "a vector", std::to_string(part.rows) + " rows");
      const std::size_t at = values_.size();
      values_.resize(at + part.columns);
      widen(part, 0, part.columns, values_.data() + at);
    }
  }

  std::size_t size() const { return values_.size(); }
  std::size_t bytes() const { return values_.size() * sizeof(T); }
  const T* data() const { return values_.data(); }
  T operator[](std::size_t i) const { return values_[i]; }

 private:
  std::vector<T> values_;
};

template <class T>
class host_rope_table {
 public:
  host_rope_table(std::span<const double> frequencies, double scale, std::size_t positions)
      : half_(frequencies.size()), values_(2 * half_ * positions) {
    for (std::size_t p = 0; p < positions; ++p)
      for (std::size_t i = 0; i < half_; ++i) {
        const double angle = static_cast<double>(p) * frequencies[i], size = frequencies[i] == 0 ? 1.0 : scale;
        values_[2 * p * half_ + i] = static_cast<T>(size * std::cos(angle));
        values_[(2 * p + 1) * half_ + i] = static_cast<T>(size * std::sin(angle));
      }
  }

  std::size_t half() const { return half_; }  // head_dim / 2
  std::size_t bytes() const { return values_.size() * sizeof(T); }
  const T* cosines(position p) const { return values_.data() + 2 * p * half_; }      // (half)
  const T* sines(position p) const { return values_.data() + (2 * p + 1) * half_; }  // (half)

 private:
  std::size_t half_;
  std::vector<T> values_;  // (positions, 2, half)
};

namespace detail {

/// What `pack` is given: so many outputs in all. Throws `error` unless the parts can be stacked and `as` is a dtype to compute with.
inline std::size_t stacked_outputs(std::span<const tensor> parts, dtype as) {
  if (as == dtype::f16) throw error("", "pack", "f32 or bf16", name_of(as));
  if (parts.empty()) throw error("", "pack", "one part at least", "none");
  std::size_t outputs = 0;
  for (const tensor& part : parts) {
    if (part.columns != parts[0].columns)
      throw error("", "pack", std::to_string(parts[0].columns) + " inputs in every part", std::to_string(part.columns));
    outputs += part.rows;
  }
  return outputs;
}

/// Throws `error` unless there is one gate for each up.
inline void check_gated(const tensor& gate, const tensor& up) {
  if (gate.rows != up.rows) throw error("", "pack_gated", std::to_string(gate.rows) + " rows of up", std::to_string(up.rows));
}

}  // namespace detail

/// The part of a backend that is the same for all that compute in host memory: tensor_backend says what each operation means.
template <std::floating_point T>
class host_backend {
 public:
  using scalar = T;
  using parameters = host_parameters<T>;
  using buffer = row_buffer<T>;
  using kv_layer = host_kv<T>;
  using row_store = slot_blocks<T>;
  using rope_table = host_rope_table<T>;
  static constexpr std::size_t block_rows = 512;

  parameters load(std::span<const tensor> parts) const { return parameters(parts); }

  rope_table make_rope(std::span<const double> frequencies, double scale, std::size_t positions) const {
    return rope_table(frequencies, scale, positions);
  }

  void reserve(const operation_sizes&) const {}  // scratch of the host is had as it is needed
  void reserve(kv_layer& kv, std::size_t slots) const { kv.reserve(slots); }
  void reserve_kept(row_store& store, std::size_t slots) const { store.hold(slots); }
  void reserve_stored(row_store& store, std::size_t slots) const { store.hold(slots); }

  void put(kv_layer& kv, std::span<const std::uint32_t> slots, rows_view<const T> k, rows_view<const T> v) const {
    assert(slots.size() == k.rows && k.rows == v.rows && k.columns == kv.width() && v.columns == kv.width());
    for (std::size_t r = 0; r < k.rows; ++r) kv.put(slots[r], k.row(r), v.row(r));
  }

  /// Copies one row after the other: rows may move within one buffer.
  void copy_rows(rows_view<const T> from, std::span<const std::uint32_t> from_rows, rows_view<T> to,
                 std::span<const std::uint32_t> to_rows) const {
    assert(from_rows.size() == to_rows.size() && from.columns == to.columns);
    for (std::size_t i = 0; i < from_rows.size(); ++i) {
      const T* source = from.row(from_rows[i]);
      if (source != to.row(to_rows[i])) std::copy_n(source, from.columns, to.row(to_rows[i]));
    }
  }

  void keep_rows(rows_view<const T> x, std::span<const std::uint32_t> rows, row_store& store, std::span<const std::uint32_t> slots) const {
    store.reserve(slots);
    for (std::size_t i = 0; i < rows.size(); ++i) std::copy_n(x.row(rows[i]), x.columns, store.row(slots[i]));
  }

  void store_rows(rows_view<const T> x, std::span<const std::uint32_t> rows, row_store& store, std::span<const std::uint32_t> slots) const {
    keep_rows(x, rows, store, slots);
  }

  void take_rows(const row_store& store, std::span<const std::uint32_t> slots, rows_view<T> x, std::span<const std::uint32_t> rows) const {
    for (std::size_t i = 0; i < rows.size(); ++i) std::copy_n(store.row(slots[i]), x.columns, x.row(rows[i]));
  }

  void read_keys(const kv_layer& kv, std::span<const std::uint32_t> slots, float* out) const {
    for (const std::uint32_t slot : slots) out = copy_out(kv.key(slot), kv.width(), out);
  }

  void read_values(const kv_layer& kv, std::span<const std::uint32_t> slots, float* out) const {
    for (const std::uint32_t slot : slots) out = copy_out(kv.value(slot), kv.width(), out);
  }

  void add(rows_view<const T> x, rows_view<T> out) const {
    assert(x.rows == out.rows && x.columns == out.columns);
    for (std::size_t r = 0; r < x.rows; ++r) add_row(x.row(r), x.columns, out.row(r));
  }

  void read(rows_view<const T> x, T* out) const {
    for (std::size_t r = 0; r < x.rows; ++r) out = copy_out(x.row(r), x.columns, out);
  }

 protected:
  static void add_row(const T* x, std::size_t count, T* out) {
    for (std::size_t i = 0; i < count; ++i) out[i] += x[i];
  }

 private:
  template <class To>
  static To* copy_out(const T* from, std::size_t count, To* out) {
    return std::transform(from, from + count, out, [](T value) { return static_cast<To>(value); });
  }
};

}  // namespace v0
}  // namespace lazyprune
