// SPDX-License-Identifier: MIT
// Products of packed rows with a packed weight on several threads, and the epilogues that write a tile's sums.
#pragma once

#include <algorithm>

#include <lazyprune/backend/cpu/kernels/kernels.hpp>
#include <lazyprune/backend/cpu/packed_matrix.hpp>
#include <lazyprune/backend/cpu/product_plan.hpp>

namespace lazyprune {
inline namespace v0 {

/// The sums of a row have the same bits for any number of threads and in any batch.
class linear_layers {
 public:
  /// The kernels of `path` pack the rows that will be multiplied.
  linear_layers(isa path, int threads) : linear_layers(tuning_of(path), threads) {}
  /// Cuts products by these numbers.
  linear_layers(const product_tunings& tuning, int threads) : threads_(threads), tuning_(tuning) {}

  std::size_t bytes() const { return sums_.bytes() + wide_.bytes() + unpacked_.bytes() + gated_.bytes(); }

  /// Computes out (rows, outputs) = x w^T + bias. `x` is packed for w. If `adds` is true, adds the result to `out`.
  void multiply(const packed_rows& x, const packed_matrix& w, const float* bias, bool adds, rows_view<float> out) {
    multiply(x, w, {.apply = adds ? x.kernel().add : x.kernel().store, .bias = bias, .outputs = out.columns, .rows = out});
  }

  /// Computes out (rows, ffn) = act(x gate^T + b) * (x up^T + b') with a gated weight, where act is silu or GELU. `out` is prepared.
  void multiply_gated(const packed_rows& x, const packed_matrix& w, const float* bias, gate_activation gate, packed_rows& out) {
    ending end{.apply = gate == gate_activation::silu ? x.kernel().gate_silu : x.kernel().gate_gelu_tanh,
               .bias = bias,
               .outputs = out.columns(),
               .rows = {}};
    // If the rows of a strip are also a strip of `out`, they are packed as soon as they are computed.
    if (out.strip() == x.strip()) {
      end.packed = &out;
    } else {
      end.rows = out.plain();
      end.counted = &out;
    }
    multiply(x, w, end);
  }

 private:
  /// Says what to do with complete sums.
  struct ending {
    void (*apply)(const float* sums, std::size_t rows, const float* bias, float* out, std::size_t stride);  // of a product_kernel
    const float* bias;                                                                                      // null: no bias
    std::size_t outputs;             // in a gated product, half of the weight's outputs
    rows_view<float> rows;           // where the results go, if they are not packed
    packed_rows* packed = nullptr;   // if set, the results go here
    packed_rows* counted = nullptr;  // if set, `rows` are the plain rows of this
  };

  /// A thread's scratch memory.
  struct thread_floats {
    float* sums;      // the sums of tiles
    float* wide;      // a block's weights, widened
    float* unpacked;  // a block's weights, unpacked
    float* gated;     // (strip, outputs of a group): results before they are packed
  };

  void multiply(const packed_rows& x, const packed_matrix& w, const ending& end) {
    const product_tuning& tuning = x.kernel().int8 ? tuning_.int8 : w.type() == dtype::f32 ? tuning_.f32 : tuning_.bf16;
    const std::size_t passes = (x.rows() + tuning.pass_rows - 1) / tuning.pass_rows;
    for (std::size_t p = 0; p < passes; ++p) {
      const std::size_t first = x.strips() * p / passes, last = x.strips() * (p + 1) / passes;
      multiply_strips(product_plan(x, {first, last - first}, w, threads_, tuning), end);
    }
  }

  void multiply_strips(const product_plan& plan, const ending& end) {
    const kernels::product_kernel& kernel = plan.rows().kernel();
    const packed_matrix& w = plan.weight();
    const auto threads = static_cast<std::size_t>(threads_);
    const std::size_t sum_floats = (plan.cut() ? plan.strips().count * plan.group() : 1) * plan.sum_floats();
    const std::size_t wide_floats = plan.widens() ? plan.group() * plan.wide_floats() : 0;
    const std::size_t unpacked_floats = plan.unpacks() ? plan.group() * plan.unpacked_floats() : 0;
    const std::size_t gated_floats = end.packed ? plan.rows().strip() * plan.group() * kernels::half_outputs : 0;
    float* const sums = sums_.take(threads * sum_floats);
    float* const wide = wide_.take(threads * wide_floats);
    float* const unpacked = unpacked_.take(threads * unpacked_floats);
    float* const gated = gated_.take(threads * gated_floats);
    // A multiplication takes about 1/64 ns. With fewer than four rows, reading the weights takes as long as the products of four rows.
    const std::size_t rows = std::max<std::size_t>(4, plan.strips().count * plan.rows().strip());
    const std::size_t nanoseconds = w.outputs() * w.depth() / 64 * rows;
    detail::for_tasks(detail::threads_for(threads_, nanoseconds), plan.tasks(), [&](std::size_t task, std::size_t thread) {
      const thread_floats room{sums + thread * sum_floats, wide + thread * wide_floats, unpacked + thread * unpacked_floats,
                               gated + thread * gated_floats};
      kernel.enter();
      plan.for_blocks(task, [&](const product_block& block, const product_block& next) {
        multiply_block(plan, block, block_prefetch(plan, block, next), room, end);
      });
      kernel.leave();
    });
  }

  static void multiply_block(const product_plan& plan, const product_block& block, const block_prefetch& prefetch,
                             const thread_floats& room, const ending& end) {
    const packed_rows& x = plan.rows();
    const packed_matrix& w = plan.weight();
    const kernels::product_kernel& kernel = x.kernel();
    const block_format* const format = w.panels() ? &w.panels()->format : nullptr;
    const bool complete = block.k + block.count == w.depth();
    const auto multiply = plan.widens() ? kernel.multiply_wide : kernel.multiply;
    const auto wide = [&](std::size_t t) { return room.wide + (t - block.first) * plan.wide_floats(); };
    const auto unpacked = [&](std::size_t t) {
      return reinterpret_cast<std::byte*>(room.unpacked + (t - block.first) * plan.unpacked_floats());
    };
    const auto narrow = [&](std::size_t t) -> const std::byte* { return plan.unpacks() ? unpacked(t) : w.tile(t, block.k); };
    const auto weights = [&](std::size_t t) { return plan.widens() ? reinterpret_cast<const std::byte*>(wide(t)) : narrow(t); };
    for (std::size_t t = block.first; plan.unpacks() && t < block.last; ++t)
      kernel.unpack(*w.panels(), w.tile(t, block.k), block.count, unpacked(t));
    for (std::size_t t = block.first; plan.widens() && t < block.last; ++t) kernel.widen(narrow(t), block.count, wide(t));

    const std::size_t width = w.gated() ? kernels::half_outputs : kernels::tile_outputs;  // outputs of a tile
    const std::size_t first_output = std::min(block.first * width, end.outputs), last_output = std::min(block.last * width, end.outputs);
    const auto [first_strip, strips] = block.strips;
    for (std::size_t s = first_strip; s < first_strip + strips; ++s) {
      // The results for all outputs of the block.
      const rows_view<float> results = end.packed
                                           ? rows_view<float>{room.gated, x.rows_of(s), last_output - first_output, plan.group() * width}
                                           : columns(end.rows.slice(s * x.strip(), x.rows_of(s)), first_output, last_output);
      for (std::size_t t = block.first; t < block.last; ++t) {
        float* const sums = room.sums + (plan.cut() ? (s - first_strip) * plan.group() + t - block.first : 0) * plan.sum_floats();
        const kernels::tile_mode mode{block.k > 0, prefetch.of(s, t - block.first), plan.ahead(strips), format};
        if (format && !plan.unpacks())
          kernel.multiply_panels(*w.panels(), x.strip_data(s, block.k), x.rows_of(s), w.tile(t, block.k), block.count, sums, mode);
        else
          multiply(x.strip_data(s, block.k), x.rows_of(s), weights(t), block.count, sums, mode);
        if (!complete) continue;
        plan.prefetch_after(t);
        const std::size_t first = std::min(t * width, end.outputs), last = std::min(first + width, end.outputs);
        apply(end, w.gated(), sums, first, columns(results, first - first_output, last - first_output));
      }
      if (complete && end.packed) end.packed->pack(s, first_output, results);
      if (complete && end.counted) end.counted->wrote(s * x.strip(), x.rows_of(s), last_output - first_output);
    }
  }

  static rows_view<float> columns(rows_view<float> rows, std::size_t first, std::size_t last) {
    return {rows.data + first, rows.rows, last - first, rows.stride};
  }

  /// Writes the results of one tile to `out`, from `sums`, the complete sums of the tile. `first` is the tile's first output.
  static void apply(const ending& end, bool gated, const float* sums, std::size_t first, rows_view<float> out) {
    if (out.columns == 0) return;
    const std::size_t width = gated ? kernels::half_outputs : kernels::tile_outputs;
    float some[kernels::tile_outputs] = {};
    if (end.bias) {
      std::copy_n(end.bias + first, out.columns, some);
      if (gated) std::copy_n(end.bias + end.outputs + first, out.columns, some + width);
    }
    if (out.columns == width) return end.apply(sums, out.rows, some, out.data, out.stride);
    for (std::size_t r = 0; r < out.rows; ++r) {
      float row[kernels::tile_outputs] = {};
      std::copy_n(out.row(r), out.columns, row);
      end.apply(sums + r * kernels::tile_outputs, 1, some, row, width);
      std::copy_n(row, out.columns, out.row(r));
    }
  }

  int threads_;
  product_tunings tuning_;
  detail::scratch_memory sums_;      // the sums of each thread's tiles
  detail::scratch_memory wide_;      // each thread's weights, widened
  detail::scratch_memory unpacked_;  // each thread's weights, unpacked
  detail::scratch_memory gated_;     // each thread's results before they are packed
};

}  // namespace v0
}  // namespace lazyprune
