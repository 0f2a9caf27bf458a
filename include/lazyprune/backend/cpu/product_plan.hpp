// SPDX-License-Identifier: MIT
// How the product of a block of rows and a weight is cut, so that what is read again stays in a cache and what is read next is there.
#pragma once

#include <algorithm>

#include <lazyprune/backend/cpu/isa.hpp>
#include <lazyprune/backend/cpu/packed_matrix.hpp>
#include <lazyprune/backend/cpu/parallel.hpp>

namespace lazyprune::inline v0::inline LAZYPRUNE_COMPILED_ISA {

/// A group of neighbouring tiles of the weight, and a run of their inputs: every strip of rows meets it before the next one.
struct product_part {
  std::size_t first, last;  // tiles
  std::size_t k, count;     // inputs
};

class product_plan {
 public:
  product_plan(const kernels::product_kernel& kernel, std::size_t rows, const packed_matrix& w, int threads)
      : kernel_(kernel),
        w_(w),
        rows_(rows),
        strips_((rows + kernel.strip - 1) / kernel.strip),
        tiles_(w.panels() / 2),
        group_(strips_ == 1 ? 1 : std::clamp<std::size_t>(tiles_ / (8 * static_cast<std::size_t>(threads)), 1, kernel.group)),
        depth_(strips_ == 1 ? w.depth() : cut_depth()),
        widens_(kernel.widen && strips_ >= widening_strips) {
    const std::size_t part_bytes = 2 * group_ * depth_ * input_bytes(), wide_bytes = 2 * group_ * panel_floats() * sizeof(float);
    reads_ahead_ = strips_ > 1 && (widens_ ? wide_bytes : part_bytes) + part_bytes <= detail::this_processor().l2 * 3 / 4;
  }

  std::size_t strips() const { return strips_; }
  std::size_t groups() const { return (tiles_ + group_ - 1) / group_; }  // for threads to share
  std::size_t group() const { return group_; }                           // tiles in one
  bool cut() const { return depth_ < w_.depth(); }                       // whether a tile's sums come from several parts
  bool widens() const { return widens_; }                                // a part's weights, before they are multiplied

  std::size_t strip_bytes() const { return detail::whole_lines(row_bytes() * w_.depth() / 4 + 16) * 4; }
  std::size_t tile_floats() const { return kernel_.padded(kernel_.strip) * kernels::tile_outputs; }
  std::size_t panel_floats() const { return depth_ * kernels::panel_outputs; }  // of a part, widened

  std::size_t rows_of(std::size_t strip) const { return std::min(kernel_.strip, rows_ - strip * kernel_.strip); }

  /// Where in the packed rows a strip's inputs from k on begin, in bytes.
  std::size_t packed_offset(std::size_t strip, std::size_t k) const {
    return strip * strip_bytes() + k * kernel_.padded(rows_of(strip)) * kernel_.element;
  }

  product_part first_part(std::size_t group) const { return part_of(group, 0); }

  /// The group's next inputs; the next group's first ones after the last.
  product_part after(const product_part& p) const {
    return p.k + p.count < w_.depth() ? part_of(p.first / group_, p.k + p.count) : part_of(p.first / group_ + 1, 0);
  }

  /// What a strip with the i-th tile of a part asks for: the even tiles share the next strip, the odd ones the weights of the next part.
  kernels::reading_ahead ahead(const product_part& p, std::size_t strip, std::size_t i, const std::byte* packed) const {
    const product_part next = after(p);
    if (reads_ahead_ && i % 2 == 0) {
      const std::size_t shares = (group_ + 1) / 2, step = row_bytes() / shares;
      const std::size_t from = strip + 1 < strips_ ? packed_offset(strip + 1, p.k) : packed_offset(0, next.k);
      return {packed + from + i / 2 * step * p.count, step};
    }
    if (reads_ahead_ && next.first + i < next.last) {
      const std::size_t shares = (strips_ + 3) / 4, bytes = next.count * input_bytes();  // each fourth strip reads one of four panels
      return {w_.panel(2 * (next.first + i - 1) + strip % 4, next.k) + strip / 4 * bytes / shares, bytes / shares / p.count + 1};
    }
    return {packed + packed_offset(strip, p.k), 0};
  }

 private:
  static constexpr std::size_t widening_strips = 4;  // from so many on, weights are widened once for all

  std::size_t row_bytes() const { return kernel_.padded(kernel_.strip) * kernel_.element; }  // of a strip, for each input
  std::size_t input_bytes() const { return kernels::line_bytes / kernel_.line_inputs; }      // of a panel, for each input

  product_part part_of(std::size_t group, std::size_t k) const {
    return {group * group_, std::min(tiles_, (group + 1) * group_), k, std::min(depth_, w_.depth() - k)};
  }

  std::size_t cut_depth() const {
    const detail::processor& here = detail::this_processor();
    const std::size_t fitting = std::max<std::size_t>(
        32, kernel_.strip_in_l1 ? here.l1 * 3 / 4 / (kernel_.strip * kernel_.element) : here.l2 / 4 / (kernel_.group * 2 * input_bytes()));
    const std::size_t cuts = (w_.depth() + fitting - 1) / fitting;
    return (w_.depth() / cuts + 31) / 32 * 32;
  }

  const kernels::product_kernel& kernel_;
  const packed_matrix& w_;
  std::size_t rows_, strips_, tiles_;
  std::size_t group_;
  std::size_t depth_;  // inputs of a part
  bool widens_;
  bool reads_ahead_;  // where L2 has room for it
};

}  // namespace lazyprune::inline v0::inline LAZYPRUNE_COMPILED_ISA
