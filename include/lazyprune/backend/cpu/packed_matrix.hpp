// SPDX-License-Identifier: MIT
// A weight, packed once in the order in which products read it.
//
// A panel is 16 outputs. A line of a panel is one cache line: one input of each output (f32), or two inputs (bf16, the first in the lower
// half of 32 bits). Panels follow each other. Zeros pad the weight to an even number of panels and, in bf16, to a multiple of 32 inputs. In
// a gated weight, panels of the gate and of the up projection alternate, so that a tile has both.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <lazyprune/backend/cpu/kernels/convert.hpp>
#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>
#include <lazyprune/backend/cpu/task_queue.hpp>
#include <lazyprune/backend/large_array.hpp>
#include <lazyprune/backend/packing_checks.hpp>

namespace lazyprune {
inline namespace v0 {

/// A packed weight. It is immutable, and copies share its memory. A matrix that is made in the body of detail::with_tasks is complete when
/// with_tasks returns.
class packed_matrix {
 public:
  static constexpr std::size_t panel_outputs = kernels::panel_outputs;

  /// Stacks the parts along the outputs. Throws `error` if there are no parts, if they have different numbers of inputs, or if `as` is f16.
  packed_matrix(std::span<const tensor> parts, dtype as, int threads) : packed_matrix(parts, as, threads, false) {}

  /// A gated weight: outputs 0 to ffn - 1 are the gate's, and the next ffn outputs are the up projection's. Throws `error` as above, and
  /// also if `gate` and `up` have different numbers of rows.
  packed_matrix(const tensor& gate, const tensor& up, dtype as, int threads)
      : packed_matrix((detail::check_gated(gate, up), std::array{gate, up}), as, threads, true) {}

  std::size_t outputs() const { return outputs_; }
  std::size_t inputs() const { return inputs_; }
  std::size_t depth() const { return depth_; }  // padded inputs
  std::size_t panels() const { return panels_; }
  dtype type() const { return type_; }
  bool gated() const { return gated_; }
  std::size_t bytes() const { return values_.bytes(); }

  /// Returns the lines of panel p from input `first` on. `first` is a multiple of the number of inputs in a line.
  const std::byte* panel(std::size_t p, std::size_t first = 0) const { return values_.data() + p * panel_bytes_ + offset(first); }

  /// Writes the weights of one output (inputs) as float.
  void read(std::size_t output, float* to) const {
    const auto [p, lane] = place(output);
    for (std::size_t i = 0; i < inputs_; ++i) {
      const std::byte* at = panel(p) + kernels::panel_offset(type_, i, lane);
      if (type_ == dtype::f32) {
        std::memcpy(to + i, at, 4);
      } else {
        std::uint16_t bits;
        std::memcpy(&bits, at, 2);
        to[i] = float_of_bf16(bits);
      }
    }
  }

 private:
  struct lane_of_panel {
    std::size_t panel;
    std::size_t lane;
  };

  packed_matrix(std::span<const tensor> parts, dtype as, int threads, bool gated)
      : outputs_(detail::stacked_outputs(parts, as)),
        inputs_(parts[0].columns),
        depth_(as == dtype::f32 ? inputs_ : (inputs_ + 31) / 32 * 32),
        panels_(2 * (gated ? (outputs_ / 2 + 15) / 16 : (outputs_ + 31) / 32)),
        type_(as),
        gated_(gated),
        panel_bytes_(offset(depth_)),
        values_(panels_ * panel_bytes_) {
    fill(parts, threads);
  }

  std::size_t offset(std::size_t input) const { return kernels::panel_offset(type_, input, 0); }

  lane_of_panel place(std::size_t output) const {
    if (!gated_) return {output / panel_outputs, output % panel_outputs};
    const bool up = output >= outputs_ / 2;
    const std::size_t n = up ? output - outputs_ / 2 : output;
    return {2 * (n / panel_outputs) + up, n % panel_outputs};
  }

  /// The numbers of an output, in the type in which they are stored. If `numbers` is null, the output's numbers are zeros.
  struct source_row {
    dtype type = dtype::f32;
    const std::byte* numbers = nullptr;
  };

  /// The number of inputs that are read at a time. This many inputs of 16 rows fit into L2 and on the stack.
  static constexpr std::size_t part_inputs = 4 * row_reader::unit;

  /// Each task fills about one large_array::page, which is enough work for a task. The system clears a page when a thread first touches it,
  /// so the threads share this work too.
  void fill(std::span<const tensor> parts, int threads) {
    struct filling {
      packed_matrix matrix;  // shares the memory, which must outlive the tasks
      std::vector<tensor> parts;
    };
    const auto job = std::make_shared<filling>(filling{*this, {parts.begin(), parts.end()}});
    const auto panels_before = [this](std::size_t byte) { return std::min((byte + panel_bytes_ - 1) / panel_bytes_, panels_); };
    detail::with_tasks(threads, [&] {
      for (std::size_t page = 0; page < values_.bytes(); page += large_array::page)
        detail::give_task([job, first = panels_before(page), end = panels_before(page + large_array::page)] {
          for (std::size_t p = first; p < end; ++p) job->matrix.fill_panel(job->parts, p);
        });
    });
  }

  void fill_panel(std::span<const tensor> parts, std::size_t p) {
    // The 16 rows are read side by side. In `rooms` their distance is a cache line more than a power of two, to avoid cache conflicts.
    alignas(64) std::byte rooms[panel_outputs][part_inputs * 4 + kernels::line_bytes];
    for (std::size_t first = 0; first < depth_; first += part_inputs) {
      const std::size_t end = std::min(first + part_inputs, depth_), inputs = std::min(end, inputs_) - std::min(first, inputs_);
      source_row sources[panel_outputs];
      for (std::size_t lane = 0; lane < panel_outputs; ++lane) sources[lane] = source_of(parts, p, lane, first, inputs, rooms[lane]);
      fill_lines(sources, inputs, (offset(end) - offset(first)) / kernels::line_bytes, values_.data() + p * panel_bytes_ + offset(first));
    }
  }

  /// Returns the `count` numbers of an output from input `first` on, either where they are stored or in `room`.
  source_row source_of(std::span<const tensor> parts, std::size_t panel, std::size_t lane, std::size_t first, std::size_t count,
                       std::byte* room) const {
    std::size_t row = panel * panel_outputs + lane;
    if (gated_) {
      row = panel / 2 * panel_outputs + lane;
      parts = parts.subspan(panel % 2, 1);
    }
    for (const tensor& part : parts) {
      if (row < part.rows) return {part.type, part.row(row, first, count, room)};
      row -= part.rows;
    }
    return {};
  }

  /// Fills lines with `inputs` numbers of each output. A block of 16 lines takes a cache line of numbers from each output. If these numbers
  /// are stored in this matrix's type and fill the cache line, they are read in place.
  void fill_lines(const source_row (&sources)[panel_outputs], std::size_t inputs, std::size_t lines, std::byte* to) const {
    constexpr std::size_t block_lines = kernels::line_bytes / 4;
    const std::size_t numbers = kernels::line_bytes / size_of(type_);
    for (std::size_t line = 0; line < lines; line += block_lines, to += block_lines * kernels::line_bytes) {
      const std::size_t first = line / block_lines * numbers, count = std::min(numbers, inputs - std::min(inputs, first));
      alignas(64) std::byte converted[panel_outputs][kernels::line_bytes];
      const std::byte* rows[panel_outputs];
      for (std::size_t lane = 0; lane < panel_outputs; ++lane) {
        const source_row& source = sources[lane];
        if (source.numbers && source.type == type_ && count == numbers)
          rows[lane] = source.numbers + first * size_of(type_);
        else
          rows[lane] = convert(source, first, count, converted[lane]);
      }
      transpose(rows, std::min(block_lines, lines - line), to);
    }
  }

  /// Converts `count` numbers of an output to this matrix's type, pads them with zeros to a cache line, and returns `to`.
  const std::byte* convert(const source_row& source, std::size_t first, std::size_t count, std::byte* to) const {
    constexpr std::size_t most = kernels::line_bytes / 2;
    const std::size_t numbers = kernels::line_bytes / size_of(type_);
    alignas(64) std::byte some[most * 4] = {};  // an incomplete line, padded with zeros
    const std::byte* from = some;
    const dtype type = source.numbers ? source.type : type_;
    if (source.numbers) {
      const std::byte* stored = source.numbers + first * size_of(type);
      if (count == numbers)
        from = stored;
      else
        std::copy_n(stored, count * size_of(type), some);
    }
    if (type_ == dtype::f32)
      kernels::convert(type, from, numbers, reinterpret_cast<float*>(to));
    else
      kernels::convert(type, from, numbers, reinterpret_cast<std::uint16_t*>(to));
    return to;
  }

  /// Writes each of the first `lines` columns of 16 rows as a line. Elements have 32 bits.
  static void transpose(const std::byte* const (&rows)[panel_outputs], std::size_t lines, std::byte* to) {
#if defined(__SSE2__)
    const auto load = [&](std::size_t row, std::size_t column) {
      return _mm_castsi128_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[row] + column * 4)));
    };
    for (std::size_t column = 0; column < lines; column += 4)
      for (std::size_t row = 0; row < panel_outputs; row += 4) {
        __m128 a = load(row, column), b = load(row + 1, column), c = load(row + 2, column), d = load(row + 3, column);
        _MM_TRANSPOSE4_PS(a, b, c, d);
        const __m128 columns[] = {a, b, c, d};
        for (std::size_t i = 0; i < 4 && column + i < lines; ++i)
          _mm_store_ps(reinterpret_cast<float*>(to + (column + i) * kernels::line_bytes + row * 4), columns[i]);
      }
#else
    for (std::size_t column = 0; column < lines; ++column)
      for (std::size_t row = 0; row < panel_outputs; ++row)
        std::memcpy(to + column * kernels::line_bytes + row * 4, rows[row] + column * 4, 4);
#endif
  }

  std::size_t outputs_;
  std::size_t inputs_;
  std::size_t depth_;
  std::size_t panels_;
  dtype type_;
  bool gated_;
  std::size_t panel_bytes_;
  large_array values_;  // (panels, lines, 64)
};

}  // namespace v0
}  // namespace lazyprune
