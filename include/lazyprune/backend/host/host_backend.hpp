// SPDX-License-Identifier: MIT
// The base class of the backends in host memory.
#pragma once

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include <lazyprune/backend/host/host_kv_cache.hpp>
#include <lazyprune/backend/host/host_parameters.hpp>
#include <lazyprune/backend/host/host_rope_table.hpp>
#include <lazyprune/backend/memory/row_buffer.hpp>
#include <lazyprune/backend/memory/slot_blocks.hpp>
#include <lazyprune/backend/tensor_backend.hpp>

namespace lazyprune {
inline namespace v0 {

/// Buffers, caches and the operations that move rows. tensor_backend.hpp describes each operation.
template <std::floating_point T>
class host_backend {
 public:
  using scalar = T;
  using parameters = host_parameters<T>;
  using buffer = row_buffer<T>;
  using kv_layer = host_kv_cache<T>;
  using row_store = slot_blocks<T>;
  using rope_table = host_rope_table<T>;
  static constexpr std::size_t block_rows = 512;

  parameters load(std::span<const tensor> parts) const { return parameters(parts); }

  rope_table make_rope(std::span<const double> frequencies, double scale, std::size_t positions) const {
    return rope_table(frequencies, scale, positions);
  }

  void reserve(const operation_sizes&) const {}  // scratch memory grows when an operation needs more
  void reserve(kv_layer& kv, std::size_t slots) const { kv.reserve(slots); }
  void reserve_kept(row_store& store, std::size_t slots) const { store.hold(slots); }
  void reserve_stored(row_store& store, std::size_t slots) const { store.hold(slots); }

  void put(kv_layer& kv, std::span<const std::uint32_t> slots, rows_view<const T> k, rows_view<const T> v) const {
    assert(slots.size() == k.rows && k.rows == v.rows && k.columns == kv.width() && v.columns == kv.width());
    for (std::size_t r = 0; r < k.rows; ++r) kv.put(slots[r], k.row(r), v.row(r));
  }

  /// Copies the rows one after another, in the order of the lists. `from` and `to` may be views of the same buffer.
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

  void read_keys(const kv_layer& kv, std::span<const std::uint32_t> slots, T* out) const {
    for (const std::uint32_t slot : slots) out = std::copy_n(kv.key(slot), kv.width(), out);
  }

  void read_values(const kv_layer& kv, std::span<const std::uint32_t> slots, T* out) const {
    for (const std::uint32_t slot : slots) out = std::copy_n(kv.value(slot), kv.width(), out);
  }

  void add(rows_view<const T> x, rows_view<T> out) const {
    assert(x.rows == out.rows && x.columns == out.columns);
    for (std::size_t r = 0; r < x.rows; ++r) add_row(x.row(r), x.columns, out.row(r));
  }

  void read(rows_view<const T> x, T* out) const {
    for (std::size_t r = 0; r < x.rows; ++r) out = std::copy_n(x.row(r), x.columns, out);
  }

  void write(const T* numbers, rows_view<T> x) const {
    for (std::size_t r = 0; r < x.rows; ++r) std::copy_n(numbers + r * x.columns, x.columns, x.row(r));
  }

 protected:
  static void add_row(const T* x, std::size_t count, T* out) {
    for (std::size_t i = 0; i < count; ++i) out[i] += x[i];
  }
};

}  // namespace v0
}  // namespace lazyprune
