// SPDX-License-Identifier: MIT
// The backend for processors: products by Eigen, the rest by xsimd, threads by OpenMP. Every operation is cut into the same pieces for
// any number of threads, and a piece is one thread's work from end to end, so that results are the same bits for all of them.
#pragma once

#include <lazyprune/backend/cpu/attention.hpp>
#include <lazyprune/backend/cpu/elementwise.hpp>
#include <lazyprune/backend/cpu/parallel.hpp>
#include <lazyprune/backend/cpu/product.hpp>
#include <lazyprune/backend/cpu/weights.hpp>
#include <lazyprune/backend/execution.hpp>
#include <lazyprune/backend/host.hpp>

namespace lazyprune::inline v0::inline LAZYPRUNE_ISA {

/// Computes in float, with weights in float or bf16. Scratch grows to the largest operation seen and is then reused.
///
/// A product of 1 to 16 rows gives each row the bits that it would have alone; so does one of more rows, up to the order of additions in
/// its last rows % 4: they, and products on different sides of that limit, may differ in rounding.
class cpu : public host_backend<float> {
 public:
  using matrix = cpu_matrix;

  cpu() : cpu(execution{}) {}

  /// Throws `error` for a negative number of threads. Without OpenMP there is one thread.
  explicit cpu(const execution& e) : threads_(e.threads == 0 ? detail::available_threads() : e.threads) {
    if (e.threads < 0) throw error("", "threads", "0 or more", std::to_string(e.threads));
  }

  int threads() const { return threads_; }

  /// Scratch memory.
  std::size_t bytes() const { return shared_.bytes() + local_.bytes() + seen_.capacity() * sizeof(std::size_t); }

  matrix pack(std::span<const tensor> parts, dtype as) const { return matrix(parts, as, threads_); }

  matrix pack_gated(const tensor& gate, const tensor& up, dtype as) const {
    detail::check_gated(gate, up);
    const tensor parts[] = {gate, up};
    return pack(parts, as);
  }

  void embed(const matrix& table, std::span<const std::uint32_t> ids, rows_view<float> out) const {
    std::visit(
        [&](const auto& values) {
          detail::for_tasks(threads_, ids.size(), [&](std::size_t r, std::size_t) {
            simd::widen(values.data() + ids[r] * table.stride(), table.inputs(), out.row(r));
          });
        },
        table.values());
  }

  void rms_norm(rows_view<const float> x, const parameters& weight, double epsilon, rows_view<float> out) const {
    assert(weight.size() == x.columns && out.columns == x.columns);
    detail::for_tasks(threads_, x.rows,
                      [&](std::size_t r, std::size_t) { simd::rms_norm(x.row(r), weight.data(), x.columns, epsilon, out.row(r)); });
  }

  void multiply(rows_view<const float> x, const matrix& w, const parameters* bias, rows_view<float> out) {
    assert(x.columns == w.inputs() && out.columns == w.outputs() && (!bias || bias->size() == w.outputs()));
    if (x.rows <= few_rows)
      return multiply_few(x, w, 1, [&](const panel& p, const sums& s) {
        for (std::size_t r = 0; r < x.rows; ++r)
          std::copy_n(s[0][r], p.outputs, out.row(r) + p.first), add_bias(bias, p.first, p.outputs, out.row(r) + p.first);
      });
    multiply_many(x, w, 1, [&](const panel& p, float* scratch) {
      const rows_view<float> tile = tile_of(out, p);
      start(bias, p.first, tile);
      add_panel(p, w, p.first, tile, scratch);
    });
  }

  void multiply_add(rows_view<const float> x, const matrix& w, const parameters* bias, rows_view<float> out) {
    assert(x.columns == w.inputs() && out.columns == w.outputs() && (!bias || bias->size() == w.outputs()));
    if (x.rows <= few_rows)
      return multiply_few(x, w, 1, [&](const panel& p, const sums& s) {
        for (std::size_t r = 0; r < x.rows; ++r)
          simd::add(s[0][r], p.outputs, out.row(r) + p.first), add_bias(bias, p.first, p.outputs, out.row(r) + p.first);
      });
    multiply_many(x, w, 1, [&](const panel& p, float* scratch) {
      const rows_view<float> tile = tile_of(out, p);
      for (std::size_t r = 0; r < tile.rows; ++r) add_bias(bias, p.first, p.outputs, tile.row(r));
      add_panel(p, w, p.first, tile, scratch);
    });
  }

  void gated_multiply(rows_view<const float> x, const matrix& w, const parameters* bias, rows_view<float> out) {
    assert(x.columns == w.inputs() && 2 * out.columns == w.outputs() && (!bias || bias->size() == w.outputs()));
    const std::size_t ffn = w.outputs() / 2;
    if (x.rows <= few_rows)
      return multiply_few(x, w, 2, [&](const panel& p, sums& s) {
        for (std::size_t r = 0; r < x.rows; ++r) {
          add_bias(bias, p.first, p.outputs, s[0][r]);
          add_bias(bias, ffn + p.first, p.outputs, s[1][r]);
          simd::gate(s[0][r], s[1][r], p.outputs, out.row(r) + p.first);
        }
      });
    multiply_many(x, w, 2, [&](const panel& p, float* scratch) {
      const rows_view<float> gate = tile_of(out, p);
      const rows_view<float> up{scratch + 2 * panel_outputs * panel_depth, p.rows, p.outputs, panel_outputs};
      start(bias, p.first, gate);
      add_panel(p, w, p.first, gate, scratch);
      start(bias, ffn + p.first, up);
      add_panel(p, w, ffn + p.first, up, scratch);
      for (std::size_t r = 0; r < p.rows; ++r) simd::gate(gate.row(r), up.row(r), p.outputs, gate.row(r));
    });
  }

  void rotate(rows_view<float> x, std::size_t head_dim, std::span<const position> positions, const rope_table& rope) const {
    const std::size_t half = head_dim / 2;
    detail::for_tasks(threads_, x.rows, [&](std::size_t r, std::size_t) {
      for (float* head = x.row(r); head != x.row(r) + x.columns; head += head_dim)
        simd::rotate(head, head + half, rope.cosines(positions[r]), rope.sines(positions[r]), half);
    });
  }

  void attend(rows_view<const float> q, const kv_layer& kv, const attention_rows& what, rows_view<float> out,
              const attention_probe& probe) {
    assert(q.rows == what.rows.size() && what.active.size() == what.slots.size() && probe.queries <= q.rows);
    if (q.rows == 0) return;
    const std::size_t active = what.active.size();
    const simd::few_queries few(threads_, kv, what);
    seen_.clear();
    for (const position row : what.rows)
      seen_.push_back(static_cast<std::size_t>(std::ranges::upper_bound(what.active, row) - what.active.begin()));

    const std::size_t unprobed = q.rows - probe.queries;
    if (q.rows <= few_attending) {
      const std::size_t heads = what.shape.heads;
      const std::size_t own = unprobed ? detail::whole_lines(q.rows * heads * active) : 0;
      float* scratch = shared_.take(own + few.scratch(q.rows));
      float* rows = own ? scratch : probe.data;
      const std::size_t stride = own ? active : probe.stride;
      few.probabilities(q, seen_.data(), rows, stride);
      few.weigh(rows, stride, out, scratch + own);
      for (std::size_t i = 0; own && i < probe.queries * heads; ++i)
        std::copy_n(rows + (unprobed * heads + i) * active, active, probe.data + i * probe.stride);
      return;
    }

    const simd::key_blocks keys(kv, what);
    const std::size_t kv_heads = what.shape.kv_heads, queries = simd::query_block::queries(what.shape);
    const std::size_t size = simd::query_block::scratch(what.shape);
    float* scratch = local(size);
    detail::for_tasks_in_turn(threads_, kv_heads * ((q.rows + queries - 1) / queries), [&](std::size_t task, std::size_t thread) {
      const std::size_t first = task / kv_heads * queries, count = std::min(queries, q.rows - first);
      simd::query_block block(what.shape, scratch + thread * size);
      block.attend(q.slice(first, count), task % kv_heads, keys, seen_.data() + first, out.slice(first, count));
    });
    if (probe.queries) few.probabilities(q.slice(unprobed, probe.queries), seen_.data() + unprobed, probe.data, probe.stride);
  }

 private:
  static constexpr std::size_t few_rows = 16;      // up to here a product is bound by memory
  static constexpr std::size_t few_attending = 4;  // up to here the probabilities are worth keeping
  static constexpr std::size_t few_outputs = 16;   // per task: a cache line
  static constexpr std::size_t many_rows = 512;    // that share one reading of the weights
  static constexpr std::size_t panel_outputs = 128;
  static constexpr std::size_t panel_depth = 256;  // sums are cut here: both factors' pieces stay in the cache

  using sums = float[2][few_rows][few_outputs];

  /// One thread's piece of a product.
  struct panel {
    const float* x;         // packed, in pieces of panel_depth
    std::size_t first_row;  // and so on, of the output
    std::size_t rows;
    std::size_t first;
    std::size_t outputs;
  };

  static rows_view<float> tile_of(rows_view<float> out, const panel& p) {
    return {out.row(p.first_row) + p.first, p.rows, p.outputs, out.stride};
  }

  static void add_bias(const parameters* bias, std::size_t first, std::size_t count, float* to) {
    if (bias) simd::add(bias->data() + first, count, to);
  }

  static void start(const parameters* bias, std::size_t first, rows_view<float> tile) {
    for (std::size_t r = 0; r < tile.rows; ++r)
      if (bias)
        std::copy_n(bias->data() + first, tile.columns, tile.row(r));
      else
        std::fill_n(tile.row(r), tile.columns, 0.0f);
  }

  /// `per_thread` floats for each thread.
  float* local(std::size_t per_thread) { return local_.take(static_cast<std::size_t>(threads_) * per_thread); }

  /// finish(panel, sums) for every few outputs of one part of w, or of both parts.
  template <class Finish>
  void multiply_few(rows_view<const float> x, const matrix& w, std::size_t parts, const Finish& finish) {
    const std::size_t outputs = w.outputs() / parts, stride = w.stride();
    float* arranged = shared_.take(x.rows * stride);
    std::visit(
        [&](const auto& values) {
          simd::arrange(x, stride, values.data(), arranged);
          detail::for_tasks(threads_, (outputs + few_outputs - 1) / few_outputs, [&](std::size_t task, std::size_t) {
            const std::size_t first = task * few_outputs;
            const panel p{nullptr, 0, x.rows, first, std::min(few_outputs, outputs - first)};
            sums s;
            for (std::size_t part = 0; part < parts; ++part)
              simd::multiply_few(arranged, x.rows, values.data() + (part * outputs + first) * stride, p.outputs, stride, s[part][0],
                                 few_outputs);
            finish(p, s);
          });
        },
        w.values());
  }

  /// compute(panel, scratch) for every panel of one part of w, or of both parts.
  template <class Compute>
  void multiply_many(rows_view<const float> x, const matrix& w, std::size_t parts, const Compute& compute) {
    const std::size_t outputs = w.outputs() / parts;
    const std::size_t per_thread = 2 * panel_outputs * panel_depth + (parts == 2 ? many_rows * panel_outputs : 0);
    float* scratch = local(per_thread);
    float* packed = shared_.take(std::min(x.rows, many_rows) * x.columns);
    for (std::size_t first_row = 0; first_row < x.rows; first_row += many_rows) {
      const std::size_t rows = std::min(many_rows, x.rows - first_row);
      detail::for_tasks(threads_, (x.columns + panel_depth - 1) / panel_depth, [&](std::size_t piece, std::size_t) {
        const std::size_t k = piece * panel_depth;
        simd::pack_rows({x.row(first_row) + k, rows, std::min(panel_depth, x.columns - k), x.stride}, packed + k * rows);
      });
      detail::for_tasks(threads_, (outputs + panel_outputs - 1) / panel_outputs, [&](std::size_t task, std::size_t thread) {
        const std::size_t first = task * panel_outputs;
        compute(panel{packed, first_row, rows, first, std::min(panel_outputs, outputs - first)}, scratch + thread * per_thread);
      });
    }
  }

  /// tile += x times the weights from `output` on.
  static void add_panel(const panel& p, const matrix& w, std::size_t output, rows_view<float> tile, float* scratch) {
    float* packed = scratch + panel_outputs * panel_depth;
    for (std::size_t k = 0; k < w.inputs(); k += panel_depth) {
      const std::size_t depth = std::min(panel_depth, w.inputs() - k);
      std::visit(
          [&](const auto& values) {
            simd::pack_weights(piece(values.data() + output * w.stride() + k, w.stride(), tile.columns, depth, scratch), packed);
          },
          w.values());
      simd::add_product(p.x + k * p.rows, packed, depth, tile);
    }
  }

  static rows_view<const float> piece(const float* w, std::size_t stride, std::size_t outputs, std::size_t depth, float*) {
    return {w, outputs, depth, stride};
  }

  static rows_view<const float> piece(const std::uint16_t* w, std::size_t stride, std::size_t outputs, std::size_t depth, float* widened) {
    for (std::size_t n = 0; n < outputs; ++n) simd::widen(w + n * stride, depth, widened + n * panel_depth);
    return {widened, outputs, depth, panel_depth};
  }

  int threads_;
  detail::workspace shared_;  // of one operation
  detail::workspace local_;   // of its threads
  std::vector<std::size_t> seen_;
};

static_assert(tensor_backend<cpu>);

}  // namespace lazyprune::inline v0::inline LAZYPRUNE_ISA
