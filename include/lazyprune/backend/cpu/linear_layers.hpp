// SPDX-License-Identifier: MIT
// Products of rows with a packed weight on several threads, and the epilogues that write a tile's sums.
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
  enum class epilogue { store, add, gate_silu, gate_gelu_tanh };

  linear_layers(const kernels::kernel_set& set, int threads) : kernels_(&set), threads_(threads) {}

  std::size_t bytes() const { return packed_.bytes() + sums_.bytes() + wide_.bytes(); }

  /// Computes out (rows, outputs) = x w^T + bias (store) or out += x w^T + bias (add). With a gated weight, computes
  /// out (rows, ffn) = act(x gate^T + b) * (x up^T + b'), where act is silu or GELU.
  void multiply(rows_view<const float> x, const packed_matrix& w, const float* bias, epilogue how, rows_view<float> out) {
    const kernels::product_kernel& kernel = kernels_->product(w.type());
    const std::size_t blocks = (x.rows + most_rows - 1) / most_rows;
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t first = x.rows * b / blocks, rows = x.rows * (b + 1) / blocks - first;
      multiply_block(kernel, x.slice(first, rows), w, {how, bias, out.slice(first, rows)});
    }
  }

 private:
  static constexpr std::size_t most_rows = 512;  // rows that share one pass over the weights, at most

  /// The epilogue of complete sums, and its operands.
  struct ending {
    epilogue how;
    const float* bias;  // null: no bias
    rows_view<float> out;
  };

  /// A thread's scratch memory.
  struct thread_floats {
    float* sums;  // the sums of tiles
    float* wide;  // a block's weights, widened
  };

  void multiply_block(const kernels::product_kernel& kernel, rows_view<const float> x, const packed_matrix& w, const ending& end) {
    const product_plan plan(kernel, x.rows, w, threads_);
    auto* packed = reinterpret_cast<std::byte*>(packed_.take(plan.strips() * plan.strip_bytes() / 4));
    detail::for_tasks(detail::threads_for(threads_, x.rows * x.columns / 4), plan.strips(), [&](std::size_t s, std::size_t) {
      kernel.pack(x.row(s * plan.strip()), x.stride, plan.rows_of(s), x.columns, w.depth(), packed + plan.packed_offset(s, 0));
    });

    const auto threads = static_cast<std::size_t>(threads_);
    const std::size_t sum_floats = (plan.cut() ? plan.strips() * plan.group() : 1) * plan.tile_floats();
    const std::size_t wide_floats = plan.widens() ? 2 * plan.group() * plan.panel_floats() : 0;
    float* const sums = sums_.take(threads * sum_floats);
    float* const wide = wide_.take(threads * wide_floats);
    // A multiplication takes about 1/64 ns. With fewer than four rows, reading the weights takes as long as the products of four rows.
    const std::size_t nanoseconds = w.outputs() * w.depth() / 64 * std::max<std::size_t>(x.rows, 4);
    detail::for_tasks(detail::threads_for(threads_, nanoseconds), plan.groups(), [&](std::size_t group, std::size_t thread) {
      kernel.enter();
      product_block block = plan.first_block(group);
      for (const std::size_t first = block.first; block.first == first; block = plan.after(block))
        multiply_block(kernel, plan, block, packed, {sums + thread * sum_floats, wide + thread * wide_floats}, end);
      kernel.leave();
    });
  }

  static void multiply_block(const kernels::product_kernel& kernel, const product_plan& plan, const product_block& block,
                             const std::byte* packed, const thread_floats& room, const ending& end) {
    const packed_matrix& w = plan.weight();
    const block_prefetch prefetch(plan, block, packed);
    const bool complete = block.k + block.count == w.depth();
    const auto multiply = plan.widens() ? kernel.multiply_wide : kernel.multiply;
    const auto wide = [&](std::size_t p) { return room.wide + (p - 2 * block.first) * plan.panel_floats(); };
    const auto panel = [&](std::size_t p) { return plan.widens() ? reinterpret_cast<const std::byte*>(wide(p)) : w.panel(p, block.k); };
    for (std::size_t p = 2 * block.first; plan.widens() && p < 2 * block.last; ++p) kernel.widen(w.panel(p, block.k), block.count, wide(p));
    for (std::size_t s = 0; s < plan.strips(); ++s)
      for (std::size_t t = block.first; t < block.last; ++t) {
        float* const tile = room.sums + (plan.cut() ? s * plan.group() + t - block.first : 0) * plan.tile_floats();
        multiply(packed + plan.packed_offset(s, block.k), plan.rows_of(s), panel(2 * t), panel(2 * t + 1), block.count, tile,
                 {block.k > 0, prefetch.of(s, t - block.first)});
        if (complete) apply_epilogue(kernel, tile, t, end.bias, end.how, end.out.slice(s * plan.strip(), plan.rows_of(s)));
      }
  }

  /// Applies the epilogue to `sums`, the sums of the rows of `out` for tile t of the weight.
  static void apply_epilogue(const kernels::product_kernel& kernel, const float* sums, std::size_t t, const float* bias, epilogue how,
                             rows_view<float> out) {
    const bool gated = how == epilogue::gate_silu || how == epilogue::gate_gelu_tanh;
    const std::size_t width = gated ? kernels::panel_outputs : kernels::tile_outputs, first = t * width;
    const std::size_t columns = std::min(width, out.columns - std::min(out.columns, first));
    if (columns == 0) return;
    float some[kernels::tile_outputs] = {};
    if (bias) {
      std::copy_n(bias + first, columns, some);
      if (gated) std::copy_n(bias + out.columns + first, columns, some + width);
    }
    const auto apply = how == epilogue::store       ? kernel.store
                       : how == epilogue::add       ? kernel.add
                       : how == epilogue::gate_silu ? kernel.gate_silu
                                                    : kernel.gate_gelu_tanh;
    if (columns == width) return apply(sums, out.rows, some, out.row(0) + first, out.stride);
    for (std::size_t r = 0; r < out.rows; ++r) {
      float row[kernels::tile_outputs] = {};
      std::copy_n(out.row(r) + first, columns, row);
      apply(sums + r * kernels::tile_outputs, 1, some, row, width);
      std::copy_n(row, columns, out.row(r) + first);
    }
  }

  const kernels::kernel_set* kernels_;
  int threads_;
  detail::scratch_memory packed_;  // the packed rows
  detail::scratch_memory sums_;    // the sums of each thread's tiles
  detail::scratch_memory wide_;    // each thread's weights, widened
};

}  // namespace v0
}  // namespace lazyprune
