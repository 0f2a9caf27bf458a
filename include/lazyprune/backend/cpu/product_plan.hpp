// SPDX-License-Identifier: MIT
// How the product of packed rows and a weight is cut into blocks. Numbers that are read again stay in a cache, and the next block's numbers
// are prefetched.
#pragma once

#include <algorithm>

#include <lazyprune/backend/cpu/isa.hpp>
#include <lazyprune/backend/cpu/packed_matrix.hpp>
#include <lazyprune/backend/cpu/packed_rows.hpp>

namespace lazyprune {
inline namespace v0 {

/// A group of neighbouring tiles of the weight, and a range of their inputs. Every strip of rows is multiplied by this block before the
/// next block begins.
struct product_block {
  std::size_t first, last;  // the tiles first to last - 1
  std::size_t k, count;     // the inputs k to k + count - 1
};

/// The strips `first` to `first + count - 1` of packed rows.
struct strip_range {
  std::size_t first, count;
};

/// Cuts outputs into tiles, and inputs into ranges. The cuts change the order of the work, but not the results.
class product_plan {
 public:
  product_plan(const packed_rows& x, strip_range strips, const packed_matrix& w, int threads,
               const detail::processor& here = detail::this_processor())
      : x_(x),
        w_(w),
        strips_(strips),
        tiles_(w.panels() / 2),
        group_(strips.count == 1 ? least_group() : group_size(threads)),
        depth_(strips.count == 1 ? w.depth() : cut_depth(here)),
        widens_(x.kernel().widen && strips.count >= widening_strips) {
    if (strips.count == 1) return;
    const auto fits = [&] {  // whether the weights of this block and the next fit into L2, with a quarter of L2 left for sums and rows
      const std::size_t weights = depth_ * panel_input_bytes(), wide = panel_floats() * sizeof(float);
      return 2 * group_ * (weights + (widens_ ? wide : weights)) <= here.l2 * 3 / 4;
    };
    // With few rows, products wait for weights. A smaller group that can prefetch the next block is faster than a larger one that cannot.
    while (group_ > 2 && !fits()) group_ = group_ / 4 * 2;
    prefetches_ = fits();
  }

  const packed_rows& rows() const { return x_; }
  const packed_matrix& weight() const { return w_; }
  strip_range strips() const { return strips_; }
  std::size_t groups() const { return (tiles_ + group_ - 1) / group_; }  // the threads share them
  std::size_t group() const { return group_; }                           // tiles in a group
  bool cut() const { return depth_ < w_.depth(); }                       // whether a tile's sums come from several blocks
  bool widens() const { return widens_; }                                // whether a block's weights are widened before the product
  bool prefetches() const { return prefetches_; }

  std::size_t panel_input_bytes() const { return kernels::line_bytes / kernel().line_inputs; }  // bytes of a panel, for each input
  std::size_t tile_floats() const { return kernel().padded(x_.strip()) * kernels::tile_outputs; }
  std::size_t panel_floats() const { return depth_ * kernels::panel_outputs; }  // floats of a block's panel, widened

  product_block first_block(std::size_t group) const { return block_of(group, 0); }

  /// Returns the block of the group's next inputs. After the group's last inputs, returns the first block of the next group.
  product_block after(const product_block& p) const {
    return p.k + p.count < w_.depth() ? block_of(p.first / group_, p.k + p.count) : block_of(p.first / group_ + 1, 0);
  }

 private:
  static constexpr std::size_t widening_strips = 4;  // with this many strips or more, weights are widened once for all strips

  product_block block_of(std::size_t group, std::size_t k) const {
    return {group * group_, std::min(tiles_, (group + 1) * group_), k, std::min(depth_, w_.depth() - k)};
  }

  const kernels::product_kernel& kernel() const { return x_.kernel(); }

  /// The outputs of a gated product are packed. Packing takes 32 of them, which are two tiles.
  std::size_t least_group() const { return w_.gated() ? 2 : 1; }

  /// Returns the number of tiles in a group. The number is small, so that every thread has several groups. It is 1 or even, because
  /// block_prefetch makes pairs of an even and an odd tile.
  std::size_t group_size(int threads) const {
    const std::size_t fair = std::clamp(tiles_ / (8 * static_cast<std::size_t>(threads)), least_group(), kernel().group);
    return fair == 1 ? 1 : fair / 2 * 2;
  }

  /// Returns the number of inputs in a block. The number is so small that a strip stays in L1 or the group's weights stay in L2, as
  /// product_kernel::strip_in_l1 says.
  std::size_t cut_depth(const detail::processor& here) const {
    const std::size_t strip_bytes = kernel().strip * kernel().element, weight_bytes = kernel().group * 2 * panel_input_bytes();
    const std::size_t fitting =
        std::max<std::size_t>(32, kernel().strip_in_l1 ? here.l1 * 3 / 4 / strip_bytes : here.l2 / 4 / weight_bytes);
    const std::size_t cuts = (w_.depth() + fitting - 1) / fitting;
    return (w_.depth() / cuts + 31) / 32 * 32;
  }

  const packed_rows& x_;
  const packed_matrix& w_;
  strip_range strips_;
  std::size_t tiles_;
  std::size_t group_;
  std::size_t depth_;  // inputs of a block
  bool widens_;
  bool prefetches_ = false;  // whether L2 has room for the next block beside this one
};

/// Says which memory to prefetch while a block is computed. The product of a strip and tile i of this block prefetches a share of the
/// weights of tile i of the next block. Many strips do not fit into L2 together, so with many strips the tiles alternate. At an even tile,
/// the product prefetches a share of the next strip. At an odd tile i, it prefetches a share of the weights of the next block's tiles i - 1
/// and i.
class block_prefetch {
 public:
  block_prefetch(const product_plan& plan, const product_block& block)
      : plan_(plan), block_(block), next_(plan.after(block)), pairs_(plan.strips().count >= many_strips && plan.group() > 1) {
    const auto rounded_up = [](std::size_t bytes, std::size_t blocks) { return blocks == 0 ? 0 : (bytes + blocks - 1) / blocks; };
    row_step_ = rounded_up(plan.rows().input_bytes(), plan.group() >> pairs_);
    shares_ = plan.strips().count >> (1 + pairs_);
    const std::size_t bytes = next_.count * plan.panel_input_bytes();
    share_bytes_ = shares_ == 0 ? 0 : bytes / shares_;
    weight_step_ = rounded_up(bytes, shares_ * block.count);
  }

  /// Returns the prefetch for the product of a strip and tile i of the block.
  kernels::prefetch_run of(std::size_t strip, std::size_t i) const {
    const auto [first, count] = plan_.strips();
    const kernels::prefetch_run nothing = kernels::no_prefetch(plan_.rows().strip_data(strip, block_.k));
    if (!plan_.prefetches()) return nothing;
    if (pairs_ && i % 2 == 0) {
      const std::byte* from =
          strip + 1 < first + count ? plan_.rows().strip_data(strip + 1, block_.k) : plan_.rows().strip_data(first, next_.k);
      return {from + i / 2 * row_step_ * block_.count, row_step_};
    }
    const std::size_t place = strip - first, share = place >> (1 + pairs_), panel = place & (pairs_ ? 3u : 1u);
    if (share >= shares_ || next_.first + i >= next_.last) return nothing;
    const std::size_t tile = next_.first + i - (pairs_ ? 1 : 0);
    return {plan_.weight().panel(2 * tile + panel, next_.k) + share * share_bytes_, weight_step_};
  }

 private:
  static constexpr std::size_t many_strips = 8;

  const product_plan& plan_;
  product_block block_, next_;
  bool pairs_;            // whether even and odd tiles prefetch different things
  std::size_t row_step_;  // bytes of the next strip that a tile prefetches, for each input
  std::size_t shares_;    // how many shares a panel of the next block's weights has; a tile prefetches one share
  std::size_t share_bytes_;
  std::size_t weight_step_;  // bytes of a share that a tile prefetches, for each input
};

}  // namespace v0
}  // namespace lazyprune
