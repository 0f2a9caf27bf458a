// SPDX-License-Identifier: MIT
// Wraps the backend cuda for tests whose rows are in host memory. Each operation copies its rows to the device and back, including the gaps
// between rows.
#pragma once

#include <lazyprune/backend/cuda.hpp>

#include <cstddef>
#include <map>
#include <span>
#include <vector>

namespace lazyprune_test {

class hosted_cuda {
 public:
  using scalar = float;
  using parameters = lazyprune::cuda_backend::parameters;
  using matrix = lazyprune::cuda_backend::matrix;
  using operand = lazyprune::cuda_backend::operand;
  using kv_layer = lazyprune::cuda_backend::kv_layer;
  using row_store = lazyprune::cuda_backend::row_store;
  using rope_table = lazyprune::cuda_backend::rope_table;
  using in = lazyprune::rows_view<const float>;
  using out = lazyprune::rows_view<float>;
  using ids = std::span<const std::uint32_t>;

  explicit hosted_cuda(const lazyprune::execution& e = {}) : made_(e), exact_(e.exact) {}

  /// Returns true if operands of products with bf16 weights are rounded to bf16.
  bool rounds() const { return !exact_; }
  /// Returns true if a gated product of this many rows rounds the inputs of the gate, when it writes results in bf16.
  bool rounds_gate_inputs(std::size_t rows, const matrix& w) const {
    return w.type() == lazyprune::dtype::bf16 && !lazyprune::device::products::are_few(rows, w);
  }
  std::size_t bytes() const { return made_.bytes(); }

  matrix pack(std::span<const lazyprune::tensor> parts, lazyprune::dtype as) { return made_.pack(parts, as); }
  matrix pack_gated(const lazyprune::tensor& gate, const lazyprune::tensor& up, lazyprune::dtype as) {
    return made_.pack_gated(gate, up, as);
  }
  parameters load(std::span<const lazyprune::tensor> parts) { return made_.load(parts); }
  rope_table make_rope(std::span<const double> frequencies, double scale, std::size_t n) { return made_.make_rope(frequencies, scale, n); }

  void embed(const matrix& table, ids rows, double scale, out to) { made_.embed(table, rows, scale, visit(to)), leave(); }
  void rms_norm(in x, const parameters& weight, double epsilon, out to) {
    const out there = visit(to);
    made_.rms_norm(visit(x), weight, epsilon, there), leave();
  }
  void prepare(operand& x, std::size_t rows, const matrix& w) { made_.prepare(x, rows, w); }
  void pack_rows(in x, operand& to) { made_.pack_rows(visit(x), to), leave(); }
  void rms_norm(in x, const parameters& weight, double epsilon, operand& to) { made_.rms_norm(visit(x), weight, epsilon, to), leave(); }
  void multiply(const operand& x, const matrix& w, const parameters* bias, out to) { made_.multiply(x, w, bias, visit(to)), leave(); }
  void multiply_add(const operand& x, const matrix& w, const parameters* bias, out to) {
    made_.multiply_add(x, w, bias, visit(to)), leave();
  }
  void gated_multiply(const operand& x, const matrix& w, const parameters* bias, lazyprune::gate_activation gate, operand& to) {
    made_.gated_multiply(x, w, bias, gate, to), leave();
  }
  void add(in x, out to) { made_.add(visit(x), visit(to)), leave(); }
  void rotate(out x, std::size_t head_dim, std::span<const lazyprune::position> positions, const rope_table& rope) {
    made_.rotate(visit(x), head_dim, positions, rope), leave();
  }
  void reserve(const lazyprune::operation_sizes& most) { made_.reserve(most); }
  void reserve(kv_layer& kv, std::size_t slots) { made_.reserve(kv, slots); }
  void reserve_kept(row_store& store, std::size_t slots) { made_.reserve_kept(store, slots); }
  void reserve_stored(row_store& store, std::size_t slots) { made_.reserve_stored(store, slots); }
  void put(kv_layer& kv, ids slots, in k, in v) { made_.put(kv, slots, visit(k), visit(v)), leave(); }
  void attend(in q, const kv_layer& kv, const lazyprune::attention_rows& what, operand& to, std::size_t first,
              const lazyprune::attention_probe& probe) {
    made_.attend(visit(q), kv, what, to, first, probe), leave();
  }
  void copy_rows(in from, ids from_rows, out to, ids to_rows) {
    const out there = visit(to);
    made_.copy_rows(visit(from), from_rows, there, to_rows), leave();
  }
  void keep_rows(in x, ids rows, row_store& store, ids slots) { made_.keep_rows(visit(x), rows, store, slots), leave(); }
  void store_rows(in x, ids rows, row_store& store, ids slots) { made_.store_rows(visit(x), rows, store, slots), leave(); }
  void take_rows(const row_store& store, ids slots, out x, ids rows) { made_.take_rows(store, slots, visit(x), rows), leave(); }
  void read_keys(const kv_layer& kv, ids slots, float* to) { made_.read_keys(kv, slots, to); }
  void read_values(const kv_layer& kv, ids slots, float* to) { made_.read_values(kv, slots, to); }
  void read(in x, float* to) { made_.read(visit(x), to), leave(); }
  void read(const operand& x, float* to) { made_.read(x, to); }
  void write(const float* numbers, out x) { made_.write(numbers, visit(x)), leave(); }

 private:
  using memory = lazyprune::device::array<float, lazyprune::device::purpose::activations>;
  struct guest {
    memory there;
    float* back = nullptr;  // the host address to copy the rows back to; null if they are only read
    std::size_t size;
  };

  /// Returns a copy of the rows on the device. Until `leave`, calls with the same rows return the same copy.
  template <class T>
  lazyprune::rows_view<T> visit(lazyprune::rows_view<T> rows) {
    const std::size_t size = rows.rows > 0 ? (rows.rows - 1) * rows.stride + rows.columns : 0;
    auto found = guests_.find(rows.data);
    if (found == guests_.end()) {
      found = guests_.emplace(rows.data, guest{memory(size), nullptr, size}).first;
      cudaMemcpyAsync(found->second.there.data(), rows.data, size * sizeof(float), cudaMemcpyHostToDevice, lazyprune::device::stream());
    }
    if constexpr (!std::is_const_v<T>) found->second.back = rows.data;
    return {found->second.there.data(), rows.rows, rows.columns, rows.stride};
  }

  /// Copies written rows back to the host.
  void leave() {
    for (auto& [from, g] : guests_)
      if (g.back) cudaMemcpyAsync(g.back, g.there.data(), g.size * sizeof(float), cudaMemcpyDeviceToHost, lazyprune::device::stream());
    lazyprune::device::synchronize();
    guests_.clear();
  }

  lazyprune::cuda_backend made_;
  bool exact_;
  std::map<const float*, guest> guests_;
};

}  // namespace lazyprune_test
