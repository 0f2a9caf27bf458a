// SPDX-License-Identifier: MIT
// The CPU backend. It chooses its kernels when it is constructed, and runs them on OpenMP's threads. The number of threads may change how
// an operation is cut into pieces, but not the order of the additions in a result. So results have the same bits for any number of threads.
#pragma once

#include <lazyprune/backend/cpu/attention.hpp>
#include <lazyprune/backend/cpu/isa.hpp>
#include <lazyprune/backend/cpu/linear_layers.hpp>
#include <lazyprune/backend/cpu/parallel.hpp>
#include <lazyprune/backend/cpu/stored_activations.hpp>
#include <lazyprune/backend/cpu/task_queue.hpp>
#include <lazyprune/backend/execution.hpp>
#include <lazyprune/backend/host/host_backend.hpp>

namespace lazyprune {
inline namespace v0 {

/// Computes in float, with weights in float or bf16, or quantized. Scratch memory grows to the largest operation seen and is then reused.
///
/// The order of additions in a product depends only on the instruction set and the number of inputs. So the product of a row has the same
/// bits for any number of threads and in any batch. See `execution::exact` for what products round.
class cpu : public host_backend<float> {
 public:
  using matrix = packed_matrix;
  using operand = packed_rows;
  using kv_layer = packed_kv;
  using row_store = stored_activations;

  cpu() : cpu(execution{}) {}

  /// Throws `error` if `e.threads` is negative or if the processor lacks `e.instructions`. Without OpenMP, there is one
  /// thread.
  explicit cpu(const execution& e)
      : threads_(e.threads == 0 ? detail::available_threads() : e.threads),
        instructions_(isa_of(e)),
        kv_type_(e.kv),
        stored_type_(e.kv == dtype::f32 || e.kv == dtype::bf16 ? e.kv : std::nullopt),
        kernels_(&kernels::kernels_of(instructions_)),
        int8_(e.exact ? nullptr : kernels::int8_kernel_of(instructions_)),
        layers_(instructions_, threads_),
        attention_(*kernels_, threads_) {
    if (e.threads < 0) throw error("", "threads", "0 or more", std::to_string(e.threads));
  }

  int threads() const { return threads_; }
  isa instructions() const { return instructions_; }

  /// Returns the kernels that pack activations for products with this weight, and multiply them.
  const kernels::product_kernel& kernel_for(const matrix& w) const { return w.panels() && int8_ ? *int8_ : kernels_->product(w.type()); }

  /// Returns the bytes of scratch memory.
  std::size_t bytes() const { return layers_.bytes() + attention_.bytes() + normed_.bytes(); }

  matrix pack(std::span<const tensor> parts, dtype as) const { return matrix(parts, as, threads_, kernels_->columns); }
  matrix pack_gated(const tensor& gate, const tensor& up, dtype as) const { return matrix(gate, up, as, threads_, kernels_->columns); }
  template <class Load>
  void pack_together(const Load& load) const {
    detail::with_tasks(threads_, load);
  }

  /// Calls work() inside an OpenMP parallel region, whose threads all operations in it share. OpenMP loops of others in it run on one
  /// thread.
  template <class Work>
  void in_one_team(const Work& work) const {
    detail::with_team(threads_, work);
  }

  /// Calls work(i) for each i below `count`, on the backend's threads.
  template <class Work>
  void in_parallel(std::size_t count, const Work& work) const {
    detail::for_tasks(threads_, count, [&](std::size_t i, std::size_t) { work(i); });
  }

  void embed(const matrix& table, std::span<const std::uint32_t> ids, double scale, rows_view<float> out) const {
    const auto by = static_cast<float>(scale);
    detail::for_tasks(team_for(out.rows * out.columns), ids.size(), [&](std::size_t r, std::size_t) {
      table.read(ids[r], out.row(r));
      if (by != 1.0f) std::transform(out.row(r), out.row(r) + out.columns, out.row(r), [by](float x) { return x * by; });
    });
  }

  void rms_norm(rows_view<const float> x, const parameters& weight, double epsilon, rows_view<float> out) const {
    assert(weight.size() == x.columns && out.columns == x.columns);
    detail::for_tasks(team_for(x.rows * x.columns), x.rows, [&](std::size_t r, std::size_t) {
      kernels_->elementwise.rms_norm(x.row(r), weight.data(), x.columns, epsilon, out.row(r));
    });
  }

  void prepare(operand& x, std::size_t rows, const matrix& w) const {
    assert(x.columns() == w.inputs());
    x.prepare(kernel_for(w), rows, w.depth());
  }

  void pack_rows(rows_view<const float> x, operand& out) const {
    assert(x.rows == out.rows() && x.columns == out.columns());
    detail::for_tasks(team_for(x.rows * x.columns), out.strips(),
                      [&](std::size_t s, std::size_t) { out.pack(s, 0, x.slice(s * out.strip(), out.rows_of(s))); });
  }

  void rms_norm(rows_view<const float> x, const parameters& weight, double epsilon, operand& out) {
    assert(weight.size() == x.columns && x.rows == out.rows() && x.columns == out.columns());
    const std::size_t floats = detail::whole_lines(out.strip() * x.columns);
    float* const room = normed_.take(static_cast<std::size_t>(threads_) * floats);
    detail::for_tasks(team_for(x.rows * x.columns), out.strips(), [&](std::size_t s, std::size_t thread) {
      const rows_view<float> normed{room + thread * floats, out.rows_of(s), x.columns, x.columns};
      for (std::size_t r = 0; r < normed.rows; ++r)
        kernels_->elementwise.rms_norm(x.row(s * out.strip() + r), weight.data(), x.columns, epsilon, normed.row(r));
      out.pack(s, 0, normed);
    });
  }

  using host_backend::read;
  void read(const operand& x, float* out) const {
    for (std::size_t r = 0; r < x.rows(); ++r)
      for (std::size_t i = 0; i < x.columns(); ++i) *out++ = x.number(r, i);
  }

  void multiply(const operand& x, const matrix& w, const parameters* bias, rows_view<float> out) {
    check_product(x, w, bias, false, out.rows, out.columns);
    layers_.multiply(x, w, bias ? bias->data() : nullptr, false, out);
  }

  void multiply_add(const operand& x, const matrix& w, const parameters* bias, rows_view<float> out) {
    check_product(x, w, bias, false, out.rows, out.columns);
    layers_.multiply(x, w, bias ? bias->data() : nullptr, true, out);
  }

  void gated_multiply(const operand& x, const matrix& w, const parameters* bias, gate_activation gate, operand& out) {
    check_product(x, w, bias, true, out.rows(), 2 * out.columns());
    layers_.multiply_gated(x, w, bias ? bias->data() : nullptr, gate, out);
  }

  void add(rows_view<const float> x, rows_view<float> out) const {
    assert(x.rows == out.rows && x.columns == out.columns);
    detail::for_tasks(team_for(x.rows * x.columns), x.rows, [&](std::size_t r, std::size_t) { add_row(x.row(r), x.columns, out.row(r)); });
  }

  void rotate(rows_view<float> x, std::size_t head_dim, std::span<const position> positions, const rope_table& rope) const {
    const std::size_t half = head_dim / 2;
    detail::for_tasks(team_for(x.rows * x.columns), x.rows, [&](std::size_t r, std::size_t) {
      for (float* head = x.row(r); head != x.row(r) + x.columns; head += head_dim)
        kernels_->elementwise.rotate(head, head + half, rope.cosines(positions[r]), rope.sines(positions[r]), half);
    });
  }

  using host_backend::reserve;
  void reserve(kv_layer& kv, std::size_t slots) const { kv.reserve(slots, kv_type_.value_or(kv.type())); }
  void reserve_kept(row_store& store, std::size_t slots) const { store.hold(slots, dtype::f32); }
  void reserve_stored(row_store& store, std::size_t slots) const { store.hold(slots, stored_type_.value_or(store.type())); }

  /// If the cache is empty and execution::kv is set, the cache takes the type execution::kv. Otherwise it keeps its type.
  void put(kv_layer& kv, std::span<const std::uint32_t> slots, rows_view<const float> k, rows_view<const float> v) const {
    kv.put(slots, k, v, kv_type_.value_or(kv.type()), threads_);
  }

  void keep_rows(rows_view<const float> x, std::span<const std::uint32_t> rows, row_store& store,
                 std::span<const std::uint32_t> slots) const {
    write_rows(x, rows, store, slots, dtype::f32);
  }

  /// If the store is empty and execution::kv is f32 or bf16, the store takes the type execution::kv. Otherwise it keeps its type.
  void store_rows(rows_view<const float> x, std::span<const std::uint32_t> rows, row_store& store,
                  std::span<const std::uint32_t> slots) const {
    write_rows(x, rows, store, slots, stored_type_.value_or(store.type()));
  }

  void take_rows(const row_store& store, std::span<const std::uint32_t> slots, rows_view<float> x,
                 std::span<const std::uint32_t> rows) const {
    detail::for_tasks(team_for(rows.size() * x.columns), rows.size(),
                      [&](std::size_t i, std::size_t) { store.read(slots[i], x.row(rows[i])); });
  }

  void read_keys(const kv_layer& kv, std::span<const std::uint32_t> slots, float* out) const {
    for_numbers(kv, slots, out, &kv_layer::key);
  }
  void read_values(const kv_layer& kv, std::span<const std::uint32_t> slots, float* out) const {
    for_numbers(kv, slots, out, &kv_layer::value);
  }

  void attend(rows_view<const float> q, const kv_layer& kv, const attention_rows& what, operand& out, std::size_t first,
              const attention_probe& probe) {
    assert(q.rows == what.rows.size() && what.active.size() == what.slots.size() && probe.queries <= q.rows);
    assert(q.columns == out.columns() && first + q.rows <= out.rows());
    attention_.attend(q, kv, what, out, first, probe);
  }

 private:
  /// Returns the number of threads for an operation that reads, computes and writes `numbers` numbers, at about 1/4 ns each.
  int team_for(std::size_t numbers) const { return detail::threads_for(threads_, numbers / 4); }

  /// In a gated product, `columns` is twice the number of results of a row.
  void check_product([[maybe_unused]] const operand& x, [[maybe_unused]] const matrix& w, [[maybe_unused]] const parameters* bias,
                     [[maybe_unused]] bool gated, [[maybe_unused]] std::size_t rows, [[maybe_unused]] std::size_t columns) const {
    assert(x.columns() == w.inputs() && &x.kernel() == &kernel_for(w) && x.rows() == rows);
    assert(w.gated() == gated && columns == w.outputs() && (!bias || bias->size() == w.outputs()));
  }

  void write_rows(rows_view<const float> x, std::span<const std::uint32_t> rows, row_store& store, std::span<const std::uint32_t> slots,
                  dtype as) const {
    store.reserve(slots, as);
    detail::for_tasks(team_for(rows.size() * x.columns), rows.size(),
                      [&](std::size_t i, std::size_t) { store.write(slots[i], x.row(rows[i])); });
  }

  void for_numbers(const kv_layer& kv, std::span<const std::uint32_t> slots, float* out,
                   float (kv_layer::*number)(std::size_t, std::size_t, std::size_t) const) const {
    const std::size_t d = kv.width() / kv.kv_heads();
    detail::for_tasks(detail::threads_for(threads_, slots.size() * kv.width()), slots.size(), [&](std::size_t i, std::size_t) {
      for (std::size_t n = 0; n < kv.width(); ++n) out[i * kv.width() + n] = (kv.*number)(slots[i], n / d, n % d);
    });
  }

  int threads_;
  isa instructions_;
  std::optional<dtype> kv_type_;      // execution::kv
  std::optional<dtype> stored_type_;  // execution::kv if it is f32 or bf16
  const kernels::kernel_set* kernels_;
  const kernels::product_kernel* int8_;  // for quantized weights; null if their products use other kernels
  linear_layers layers_;
  attention_layer attention_;
  detail::scratch_memory normed_;  // each thread's strip of norms before they are packed
};

static_assert(tensor_backend<cpu>);

}  // namespace v0
}  // namespace lazyprune
