// SPDX-License-Identifier: MIT
// Products of rows with a packed weight on several threads: how they are cut into tiles, and what becomes of a tile's sums.
#pragma once

#include <algorithm>

#include <lazyprune/backend/cpu/kernels/kernels.hpp>
#include <lazyprune/backend/cpu/packed_matrix.hpp>

namespace lazyprune::inline v0::inline LAZYPRUNE_COMPILED_ISA {

/// The sums are the same bits for any number of threads and, row by row, in any company.
class linear_layers {
 public:
  enum class finish { store, add, gate };

  linear_layers(isa path, int threads) : path_(path), threads_(threads) {}

  std::size_t bytes() const { return packed_.bytes() + sums_.bytes() + wide_.bytes(); }

  /// out (rows, outputs) = x w^T + bias, or += that; or (rows, ffn) = silu(x gate^T + b) * (x up^T + b').
  void multiply(rows_view<const float> x, const packed_matrix& w, const float* bias, finish how, rows_view<float> out) {
    const kernels::product_kernel& kernel = kernels::product_kernel_for(path_, w.type());
    const std::size_t blocks = (x.rows + most_rows - 1) / most_rows;
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t first = x.rows * b / blocks, rows = x.rows * (b + 1) / blocks - first;
      multiply_block(kernel, x.slice(first, rows), w, bias, how, out.slice(first, rows));
    }
  }

 private:
  static constexpr std::size_t most_rows = 512;      // that share one reading of the weights
  static constexpr std::size_t widening_strips = 4;  // from so many on, weights are widened once for all

  void multiply_block(const kernels::product_kernel& kernel, rows_view<const float> x, const packed_matrix& w, const float* bias,
                      finish how, rows_view<float> out) {
    const std::size_t strips = (x.rows + kernel.strip - 1) / kernel.strip, tiles = w.panels() / 2;
    const std::size_t row_bytes = w.depth() * kernel.element;
    const std::size_t strip_bytes = detail::whole_lines(kernel.padded(kernel.strip) * row_bytes / 4 + 16) * 4;
    auto* packed = reinterpret_cast<std::byte*>(packed_.take(strips * strip_bytes / 4));
    const auto rows_of = [&](std::size_t strip) { return std::min(kernel.strip, x.rows - strip * kernel.strip); };
    detail::for_tasks(threads_, strips, [&](std::size_t s, std::size_t) {
      kernel.pack(x.row(s * kernel.strip), x.stride, rows_of(s), x.columns, w.depth(), packed + s * strip_bytes);
    });

    const std::size_t depth = strips == 1 ? w.depth() : cut_depth(kernel, w.depth());
    const bool cut = depth < w.depth();
    const std::size_t group = strips == 1 ? 1 : group_of(kernel, tiles), tile_floats = kernel.padded(kernel.strip) * kernels::tile_outputs;
    const std::size_t per_thread = (cut ? strips * group : 1) * tile_floats;
    float* sums = sums_.take(static_cast<std::size_t>(threads_) * per_thread);
    const bool widens = kernel.widen && strips >= widening_strips;
    const std::size_t panel_floats = depth * kernels::panel_outputs, wide_per_thread = widens ? 2 * group * panel_floats : 0;
    float* wide = wide_.take(static_cast<std::size_t>(threads_) * wide_per_thread);
    const auto multiply = widens ? kernel.multiply_wide : kernel.multiply;
    detail::for_tasks(threads_, (tiles + group - 1) / group, [&](std::size_t task, std::size_t thread) {
      kernel.enter();
      const std::size_t first = task * group, last = std::min(tiles, first + group);
      std::size_t k = 0;
      do {
        const std::size_t count = std::min(depth, w.depth() - k);
        const auto panel = [&](std::size_t p) {
          if (!widens) return w.panel(p, k);
          return reinterpret_cast<const std::byte*>(wide + thread * wide_per_thread + (p - 2 * first) * panel_floats);
        };
        for (std::size_t p = 2 * first; widens && p < 2 * last; ++p)
          kernel.widen(w.panel(p, k), count, wide + thread * wide_per_thread + (p - 2 * first) * panel_floats);
        for (std::size_t s = 0; s < strips; ++s)
          for (std::size_t t = first; t < last; ++t) {
            float* tile = sums + thread * per_thread + (cut ? s * group + t - first : 0) * tile_floats;
            const std::size_t rows = rows_of(s);
            multiply(packed + s * strip_bytes + k * kernel.padded(rows) * kernel.element, rows, panel(2 * t), panel(2 * t + 1), count, tile,
                     k > 0);
            if (k + count == w.depth()) finish_tile(kernel, tile, t, bias, how, out.slice(s * kernel.strip, rows));
          }
        k += count;
      } while (k < w.depth());
      kernel.leave();
    });
  }

  /// Inputs to take at a time, so that what is read again stays in a cache.
  static std::size_t cut_depth(const kernels::product_kernel& kernel, std::size_t depth) {
    const detail::processor& here = detail::this_processor();
    const std::size_t strip_bytes = kernel.strip * kernel.element,
                      weight_bytes = kernel.group * 2 * kernels::line_bytes / kernel.line_inputs;
    const std::size_t fitting = std::max<std::size_t>(32, kernel.strip_in_l1 ? here.l1 * 3 / 4 / strip_bytes : here.l2 / 4 / weight_bytes);
    const std::size_t cuts = (depth + fitting - 1) / fitting;
    return (depth / cuts + 31) / 32 * 32;
  }

  /// Tiles of one task: few enough that every thread has some tasks.
  std::size_t group_of(const kernels::product_kernel& kernel, std::size_t tiles) const {
    return std::clamp<std::size_t>(tiles / (8 * static_cast<std::size_t>(threads_)), 1, kernel.group);
  }

  /// Tile t of the weight, with `sums` for the rows of `out`.
  static void finish_tile(const kernels::product_kernel& kernel, const float* sums, std::size_t t, const float* bias, finish how,
                          rows_view<float> out) {
    const bool gated = how == finish::gate;
    const std::size_t width = gated ? kernels::panel_outputs : kernels::tile_outputs, first = t * width;
    const std::size_t columns = std::min(width, out.columns - std::min(out.columns, first));
    if (columns == 0) return;
    float some[kernels::tile_outputs] = {};
    if (bias) {
      std::copy_n(bias + first, columns, some);
      if (gated) std::copy_n(bias + out.columns + first, columns, some + width);
    }
    const auto apply = gated ? kernel.gate : how == finish::add ? kernel.add : kernel.store;
    if (columns == width) return apply(sums, out.rows, some, out.row(0) + first, out.stride);
    for (std::size_t r = 0; r < out.rows; ++r) {
      float row[kernels::tile_outputs] = {};
      std::copy_n(out.row(r) + first, columns, row);
      apply(sums + r * kernels::tile_outputs, 1, some, row, width);
      std::copy_n(row, columns, out.row(r) + first);
    }
  }

  isa path_;
  int threads_;
  detail::workspace packed_;  // a block of rows
  detail::workspace sums_;    // of each thread's tiles
  detail::workspace wide_;    // each thread's weights, widened
};

}  // namespace lazyprune::inline v0::inline LAZYPRUNE_COMPILED_ISA
