// SPDX-License-Identifier: MIT
// A weight, packed once in the order in which products read it.
//
// A weight is cut into tiles of 32 outputs (kernels/product_kernel.hpp), which follow each other. Zeros pad it to whole tiles and, in bf16,
// to a multiple of 32 inputs. In a gated weight, the first half of a tile has outputs of the gate, and the second half has the same outputs
// of the up projection.
//
// A quantized weight can stay quantized. Its tiles then consist of panels (kernels/panel_layout.hpp). Kernels multiply them by activations
// in 8 bits, or they unpack them to lines of bf16. Unpacked, they have the bits of a weight that was rounded to bf16 when it was packed.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <lazyprune/backend/cpu/kernels/convert.hpp>
#include <lazyprune/backend/cpu/kernels/panel_layout.hpp>
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
  /// Stacks the parts along the outputs. Throws `error` if there are no parts, if they have different numbers of inputs, or if `as` is f16.
  packed_matrix(std::span<const tensor> parts, dtype as, int threads, kernels::columns_writer columns = kernels::write_columns)
      : packed_matrix(parts, as, threads, columns, false) {}

  /// A gated weight: outputs 0 to ffn - 1 are the gate's, and the next ffn outputs are the up projection's. Throws `error` as above, and
  /// also if `gate` and `up` have different numbers of rows.
  packed_matrix(const tensor& gate, const tensor& up, dtype as, int threads, kernels::columns_writer columns = kernels::write_columns)
      : packed_matrix((detail::check_gated(gate, up), std::array{gate, up}), as, threads, columns, true) {}

  std::size_t outputs() const { return outputs_; }
  std::size_t inputs() const { return inputs_; }
  std::size_t depth() const { return depth_; }  // padded inputs
  std::size_t tiles() const { return tiles_; }
  dtype type() const { return type_; }  // f32 or bf16; bf16 if the weight is quantized
  /// The layout of a quantized weight. Null if the weight is stored as plain numbers.
  const kernels::panel_layout* panels() const { return panels_ ? &*panels_ : nullptr; }
  /// The inputs of a block of a product are a multiple of this, except at the end.
  std::size_t granule() const { return panels_ ? panels_->format.inputs : 32; }
  bool gated() const { return gated_; }
  std::size_t bytes() const { return values_.bytes(); }

  /// Returns the bytes of this many inputs of a tile, which are whole lines or panels.
  std::size_t stored_bytes(std::size_t inputs) const { return offset(inputs); }

  /// Returns the lines or panels of tile t from input `first` on. `first` is a multiple of the number of inputs in a line or panel.
  const std::byte* tile(std::size_t t, std::size_t first = 0) const { return values_.data() + t * tile_bytes_ + offset(first); }

  /// Writes the weights of one output (inputs) as float. Quantized weights are rounded to bf16.
  void read(std::size_t output, float* to) const {
    const auto [t, lane] = place(output);
    if (panels_) return read_panels(t, lane, to);
    const std::byte* at = tile(t) + kernels::tile_offset(type_, 0, lane);
    if (type_ == dtype::f32) {
      for (std::size_t i = 0; i < inputs_; ++i, at += kernels::line_bytes) std::memcpy(to + i, at, 4);
      return;
    }
    for (std::size_t i = 0; i < inputs_; i += 2, at += kernels::line_bytes) {
      std::uint16_t pair[2];
      std::memcpy(pair, at, sizeof pair);
      to[i] = float_of_bf16(pair[0]);
      if (i + 1 < inputs_) to[i + 1] = float_of_bf16(pair[1]);
    }
  }

 private:
  static constexpr std::size_t half_outputs = kernels::half_outputs;

  struct lane_of_tile {
    std::size_t tile;
    std::size_t lane;
  };

  packed_matrix(std::span<const tensor> parts, dtype as, int threads, kernels::columns_writer columns, bool gated)
      : outputs_(detail::stacked_outputs(parts, as)),
        inputs_(parts[0].columns),
        depth_(as == dtype::f32 ? inputs_ : (inputs_ + 31) / 32 * 32),
        tiles_(gated ? (outputs_ / 2 + 15) / 16 : (outputs_ + 31) / 32),
        type_(as),
        gated_(gated),
        panels_(layout_for(parts, as)),
        tile_bytes_(offset(depth_)),
        values_(tiles_ * tile_bytes_) {
    fill(parts, threads, columns);
  }

  /// Returns the layout of panels if the weight stays quantized. All parts must then have one format, for which there are kernels. In f32,
  /// numbers stay exact, so weights do not stay quantized.
  static std::optional<kernels::panel_layout> layout_for(std::span<const tensor> parts, dtype as) {
    const block_format* const first = parts[0].format();
    if (as != dtype::bf16 || !first || !kernels::panel_layout::has_kernels(*first)) return std::nullopt;
    for (const tensor& part : parts)
      if (!part.format() || !(*part.format() == *first)) return std::nullopt;
    return kernels::panel_layout(*first);
  }

  std::size_t offset(std::size_t input) const {
    return panels_ ? input / panels_->format.inputs * panels_->bytes : kernels::tile_offset(type_, input, 0);
  }

  void read_panels(std::size_t t, std::size_t lane, float* to) const {
    const block_format& format = panels_->format;
    for (std::size_t first = 0; first < inputs_; first += format.inputs)
      for (std::size_t group = 0; group < format.groups(); ++group) {
        const kernels::panel_layout::factors by = panels_->factors_of(tile(t, first), group, lane);
        for (std::size_t i = group * format.group; i < (group + 1) * format.group; ++i)
          to[first + i] = float_of_bf16(bf16_of_float(by.number(panels_->code(tile(t, first), i, lane))));
      }
  }

  lane_of_tile place(std::size_t output) const {
    if (!gated_) return {output / kernels::tile_outputs, output % kernels::tile_outputs};
    const bool up = output >= outputs_ / 2;
    const std::size_t n = up ? output - outputs_ / 2 : output;
    return {n / half_outputs, n % half_outputs + (up ? half_outputs : 0)};
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
  void fill(std::span<const tensor> parts, int threads, kernels::columns_writer columns) {
    struct filling {
      packed_matrix matrix;  // shares the memory, which must outlive the tasks
      std::vector<tensor> parts;
    };
    const auto job = std::make_shared<filling>(filling{*this, {parts.begin(), parts.end()}});
    std::size_t room_bytes = 0;  // of the rows of a tile, if their source can copy them
    for (const tensor& part : parts)
      if (part.source) room_bytes = std::max(room_bytes, part.stored_row_bytes() * kernels::tile_outputs);
    const auto tiles_before = [this](std::size_t byte) { return std::min((byte + tile_bytes_ - 1) / tile_bytes_, tiles_); };
    detail::with_tasks(threads, [&] {
      for (std::size_t page = 0; page < values_.bytes(); page += large_array::page)
        detail::give_task([job, room_bytes, columns, first = tiles_before(page), end = tiles_before(page + large_array::page)] {
          const std::unique_ptr<std::byte[]> room(room_bytes > 0 ? new (std::nothrow) std::byte[room_bytes] : nullptr);
          for (std::size_t t = first; t < end; ++t) {
            const tile_rows rows(job->matrix, job->parts, t, room.get());
            if (job->matrix.panels())
              job->matrix.fill_panels(rows, t, columns);
            else
              job->matrix.fill_lines(rows, t, columns);
          }
        });
    });
  }

  /// The row of a part that is an output. If `part` is null, the output is padding.
  struct row_of_part {
    const tensor* part = nullptr;
    std::size_t row = 0;
  };

  /// The rows of the outputs of a tile. Rows that their source can copy are copied to `room`, if it is not null.
  class tile_rows {
   public:
    tile_rows(const packed_matrix& matrix, std::span<const tensor> parts, std::size_t t, std::byte* room) {
      for (std::size_t lane = 0; lane < rows_.size(); ++lane) rows_[lane] = matrix.row_of(parts, t, lane);
      for (std::size_t lane = 0, next; room && lane < rows_.size(); lane = next) {
        const row_of_part from = rows_[lane];
        for (next = lane + 1; next < rows_.size() && rows_[next].part == from.part && rows_[next].row == from.row + next - lane;) ++next;
        std::optional<tensor> copy;
        if (from.part) copy = from.part->copied_rows(from.row, next - lane, room);
        if (!copy) continue;
        room += (next - lane) * from.part->stored_row_bytes();
        copies_[lane] = std::move(*copy);
        for (std::size_t i = lane; i < next; ++i) rows_[i] = {&copies_[lane], i - lane};
      }
    }
    tile_rows(const tile_rows&) = delete;  // rows_ has pointers to copies_

    row_of_part operator[](std::size_t lane) const { return rows_[lane]; }

   private:
    std::array<row_of_part, kernels::tile_outputs> rows_;
    std::array<tensor, kernels::tile_outputs> copies_;
  };

  /// Fills the panels of a tile.
  void fill_panels(const tile_rows& rows, std::size_t t, kernels::columns_writer columns) {
    const std::size_t inputs = panels_->format.inputs, most = row_reader::unit / inputs;  // blocks of a row that are read at a time
    const auto blocks = std::make_unique<quantized_block[]>(kernels::tile_outputs * most);
    for (std::size_t first = 0; first < depth_; first += row_reader::unit) {
      const std::size_t count = std::min(most, (depth_ - first) / inputs);
      for (std::size_t lane = 0; lane < kernels::tile_outputs; ++lane)
        if (const row_of_part from = rows[lane]; from.part)
          from.part->reader->read_blocks(*from.part, from.part->first_row + from.row, first / inputs, count, &blocks[lane * most]);
      for (std::size_t b = 0; b < count; ++b)
        panels_->write(&blocks[b], most, values_.data() + t * tile_bytes_ + offset(first + b * inputs), columns);
    }
  }

  /// Fills the lines of a tile.
  void fill_lines(const tile_rows& rows, std::size_t t, kernels::columns_writer columns) {
    // The rows of half a tile are read side by side. In `rooms` their distance is a cache line more than a power of two, to avoid cache
    // conflicts.
    alignas(64) std::byte rooms[half_outputs][part_inputs * 4 + kernels::cache_line];
    for (std::size_t first = 0; first < depth_; first += part_inputs) {
      const std::size_t end = std::min(first + part_inputs, depth_), inputs = std::min(end, inputs_) - std::min(first, inputs_);
      for (std::size_t half = 0; half < 2; ++half) {
        source_row sources[half_outputs];
        for (std::size_t lane = 0; lane < half_outputs; ++lane)
          sources[lane] = source_of(rows[half * half_outputs + lane], first, inputs, rooms[lane]);
        fill_half(sources, inputs, (offset(end) - offset(first)) / kernels::line_bytes,
                  values_.data() + t * tile_bytes_ + offset(first) + half * kernels::cache_line, columns);
      }
    }
  }

  row_of_part row_of(std::span<const tensor> parts, std::size_t t, std::size_t lane) const {
    std::size_t row = t * kernels::tile_outputs + lane;
    if (gated_) {
      row = t * half_outputs + lane % half_outputs;
      parts = parts.subspan(lane / half_outputs, 1);
    }
    for (const tensor& part : parts) {
      if (row < part.rows) return {&part, row};
      row -= part.rows;
    }
    return {};
  }

  /// Returns the `count` numbers of an output from input `first` on, either where they are stored or in `room`.
  static source_row source_of(row_of_part from, std::size_t first, std::size_t count, std::byte* room) {
    if (!from.part) return {};
    return {from.part->type, from.part->row(from.row, first, count, room)};
  }

  /// Fills half of these lines with `inputs` numbers of each of 16 outputs. A block of 16 lines takes a cache line of numbers from each
  /// output. If these numbers are stored in this matrix's type and fill the cache line, they are read in place.
  void fill_half(const source_row (&sources)[half_outputs], std::size_t inputs, std::size_t lines, std::byte* to,
                 kernels::columns_writer columns) const {
    constexpr std::size_t block_lines = kernels::cache_line / 4;
    const std::size_t numbers = kernels::cache_line / size_of(type_);
    for (std::size_t line = 0; line < lines; line += block_lines, to += block_lines * kernels::line_bytes) {
      const std::size_t first = line / block_lines * numbers, count = std::min(numbers, inputs - std::min(inputs, first));
      alignas(64) std::byte converted[half_outputs][kernels::cache_line];
      const std::byte* rows[half_outputs];
      for (std::size_t lane = 0; lane < half_outputs; ++lane) {
        const source_row& source = sources[lane];
        if (source.numbers && source.type == type_ && count == numbers)
          rows[lane] = source.numbers + first * size_of(type_);
        else
          rows[lane] = convert(source, first, count, converted[lane]);
      }
      columns(rows, std::min(block_lines, lines - line), kernels::line_bytes, to);
    }
  }

  /// Converts `count` numbers of an output to this matrix's type, pads them with zeros to a cache line, and returns `to`.
  const std::byte* convert(const source_row& source, std::size_t first, std::size_t count, std::byte* to) const {
    constexpr std::size_t most = kernels::cache_line / 2;
    const std::size_t numbers = kernels::cache_line / size_of(type_);
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

  std::size_t outputs_;
  std::size_t inputs_;
  std::size_t depth_;
  std::size_t tiles_;
  dtype type_;
  bool gated_;
  std::optional<kernels::panel_layout> panels_;
  std::size_t tile_bytes_;
  large_array values_;  // (tiles, lines, 128), or (tiles, panels)
};

}  // namespace v0
}  // namespace lazyprune
