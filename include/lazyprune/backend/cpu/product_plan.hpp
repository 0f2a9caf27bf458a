// SPDX-License-Identifier: MIT
// How the product of packed rows and a weight is cut into blocks. Numbers that are read again stay in a cache, and the next block's numbers
// are prefetched.
#pragma once

#include <algorithm>

#include <lazyprune/backend/cpu/packed_matrix.hpp>
#include <lazyprune/backend/cpu/packed_rows.hpp>
#include <lazyprune/backend/cpu/tuning.hpp>

namespace lazyprune {
inline namespace v0 {

/// The strips `first` to `first + count - 1` of packed rows.
struct strip_range {
  std::size_t first, count;
};

/// A group of neighbouring tiles of the weight, a range of their inputs, and the strips that are multiplied by them.
struct product_block {
  std::size_t first, last;  // the tiles first to last - 1
  std::size_t k, count;     // the inputs k to k + count - 1
  strip_range strips;
};

/// Cuts outputs into tiles, inputs into ranges, and the whole into tasks. The cuts change the order of the work, but not the results.
///
/// A task is one group of tiles, with all strips, if the threads then get nearly equal shares. Otherwise the pairs of a group and a strip
/// are put in one list, group after group, and each task is a piece of the list. All pieces have nearly equal work, so a piece may begin
/// and end within a group.
class product_plan {
 public:
  product_plan(const packed_rows& x, strip_range strips, const packed_matrix& w, int threads, const product_tuning& tuning)
      : x_(x),
        w_(w),
        tuning_(tuning),
        strips_(strips),
        tiles_(w.tiles()),
        unpacks_(w.panels() && x.rows_of(strips.first) > x.kernel().panel_rows),
        group_(strips.count == 1 ? least_group() : group_size(static_cast<std::size_t>(threads))),
        depth_(strips.count == 1 && !unpacks_ ? w.depth() : cut_depth(strips.count == 1 ? tuning.unpacked_inputs : tuning.inputs)),
        widens_(x.kernel().widen && strips.count >= tuning.widening_strips) {
    if (strips.count > 1) {
      const auto fits = [&] {  // whether the weights of this block and the next fit into L2
        const std::size_t stored = w.stored_bytes(depth_), wide = wide_floats() * sizeof(float);
        const std::size_t read = widens_ ? wide : unpacks_ ? unpacked_floats() * sizeof(float) : stored;
        return group_ * (stored + read) <= tuning.weight_bytes;
      };
      // With few rows, products wait for weights. A smaller group that can prefetch the next block is faster than a larger one that cannot.
      while (group_ > 2 && !fits()) group_ = group_ / 4 * 2;
      prefetches_ = fits();
    }
    const bool alone = strips.count == 1 && !w.panels(), many_rows = x.rows_of(strips.first) >= tuning.many_rows;
    ahead_ = alone && (!many_rows || tuning.far > 0) ? tuning.stream_ahead : tuning.ahead;
    far_ = alone && many_rows ? tuning.far : 0;
    const auto team = static_cast<std::size_t>(threads);
    const std::size_t equal = (groups() + team - 1) / team * team;  // the number of groups, rounded up to a multiple of the threads
    tasks_ = strips.count == 1 || equal * finest_shares <= groups() * (finest_shares + 1) ? groups() : equal;
  }

  const packed_rows& rows() const { return x_; }
  const packed_matrix& weight() const { return w_; }
  strip_range strips() const { return strips_; }
  std::size_t tasks() const { return tasks_; }
  std::size_t group() const { return group_; }      // tiles in a group
  bool cut() const { return depth_ < w_.depth(); }  // whether a tile's sums come from several blocks
  bool unpacks() const { return unpacks_; }         // whether a block's quantized weights are unpacked before the product
  bool widens() const { return widens_; }           // whether a block's weights are widened before the product
  bool prefetches() const { return prefetches_; }
  /// Returns true if, in a block of this many strips, even tiles prefetch rows and odd tiles prefetch weights.
  bool alternates(std::size_t strips) const { return strips >= tuning_.many_strips && group_ > 1; }
  std::size_t tile_input_bytes() const { return kernels::line_bytes / kernel().line_inputs; }  // bytes of a tile, for each input
  std::size_t sum_floats() const { return x_.strip() * kernels::tile_outputs; }                // floats of the sums of a strip and a tile
  std::size_t wide_floats() const { return depth_ * kernels::tile_outputs; }                   // floats of a block's tile, widened
  /// Returns the floats of a block's tile when it is unpacked.
  std::size_t unpacked_floats() const {
    return unpacks_ ? depth_ / kernels::pack_inputs * kernel().unpacked_bytes(w_.panels()->format) / sizeof(float) : 0;
  }
  /// How many bytes ahead a tile's lines are prefetched into L1, in a block of this many strips. 0 is good only if its weights are in L2.
  std::size_t ahead(std::size_t strips) const { return ahead_ > 0 || (prefetches_ && strips > 1) ? ahead_ : tuning_.stream_ahead; }
  std::size_t far() const { return far_; }  // how many bytes ahead a plan of one strip prefetches them into L2; 0: it does not

  /// Prefetches the first lines of the tile after tile t. Without this, no memory would be read while the sums of tile t are used. Does
  /// nothing if the plan has several strips, or if the weight is quantized.
  void prefetch_after(std::size_t t) const {
    if (strips_.count > 1 || t + 1 >= tiles_ || w_.panels()) return;
    const std::byte* const next = w_.tile(t + 1);
    for (std::size_t at = 0; at < tuning_.next_tile; at += kernels::cache_line) __builtin_prefetch(next + at);
  }

  /// Calls work(block, next) for each block of a task, in order. `next` is the block that a thread computes after this one if it takes the
  /// next task. After the last task, `next` has no tiles.
  template <class Work>
  void for_blocks(std::size_t task, const Work& work) const {
    const place end = begin_of(task + 1);
    for (place at = begin_of(task); at.group < end.group || (at.group == end.group && at.strip < end.strip); at = {at.group + 1, 0}) {
      const bool whole = at.group < end.group;  // whether the task has the group's last strip
      const strip_range strips = strips_between(at.strip, whole ? strips_.count : end.strip);
      const product_block after =
          whole ? block_of(at.group + 1, 0, strips_) : block_of(at.group, 0, strips_between(end.strip, strips_.count));
      for (std::size_t k = 0; k < w_.depth(); k += depth_)
        work(block_of(at.group, k, strips), k + depth_ < w_.depth() ? block_of(at.group, k + depth_, strips) : after);
    }
  }

 private:
  static constexpr std::size_t finest_shares = 20;  // the largest share of a thread is at most 1/20 larger than the mean

  /// A task begins at this strip of this group. The strip is counted from the first strip of the plan.
  struct place {
    std::size_t group, strip;
  };

  /// Returns the strips `begin` to `end - 1`, counted from the first strip of the plan.
  strip_range strips_between(std::size_t begin, std::size_t end) const { return {strips_.first + begin, end - begin}; }

  std::size_t groups() const { return (tiles_ + group_ - 1) / group_; }

  place begin_of(std::size_t task) const {
    if (tasks_ == groups()) return {task, 0};
    if (task == tasks_) return {groups(), 0};
    // The work is counted in strips of a tile. All groups but the last one have the same number of tiles.
    const std::size_t work = tiles_ * strips_.count * task / tasks_, group = work / (group_ * strips_.count);
    const std::size_t tiles = std::min(group_, tiles_ - group * group_);
    const std::size_t strip = (work - group * group_ * strips_.count + tiles / 2) / tiles;
    return strip < strips_.count ? place{group, strip} : place{group + 1, 0};
  }

  product_block block_of(std::size_t group, std::size_t k, strip_range strips) const {
    return {std::min(tiles_, group * group_), std::min(tiles_, (group + 1) * group_), k, std::min(depth_, w_.depth() - k), strips};
  }

  const kernels::product_kernel& kernel() const { return x_.kernel(); }

  /// The outputs of a gated product are packed. Packing takes 32 of them, which are two tiles.
  std::size_t least_group() const { return w_.gated() ? 2 : 1; }

  /// Returns the number of tiles in a group. The larger a group, the more tiles use a strip while it is in a cache. With several threads,
  /// a strip of a group is at most a twentieth of a thread's share, because tasks are cut between strips. The number is 1 or even, because
  /// block_prefetch makes pairs of an even and an odd tile.
  std::size_t group_size(std::size_t threads) const {
    const std::size_t fair = threads == 1 ? tiles_ + 1 : tiles_ * strips_.count / (finest_shares * threads);
    const std::size_t size = std::clamp(std::min(fair, tiles_ + 1), least_group(), tuning_.group);
    return size == 1 ? 1 : size / 2 * 2;
  }

  /// Returns the number of inputs in a block: at most `most`, but at least a granule.
  std::size_t cut_depth(std::size_t most) const {
    const std::size_t granule = w_.granule(), whole = std::max(most / granule, std::size_t{1}) * granule;
    const std::size_t cuts = (w_.depth() + whole - 1) / whole;
    return (w_.depth() / cuts + granule - 1) / granule * granule;
  }

  const packed_rows& x_;
  const packed_matrix& w_;
  product_tuning tuning_;
  strip_range strips_;
  std::size_t tiles_;
  bool unpacks_;
  std::size_t group_;
  std::size_t depth_;  // inputs of a block
  bool widens_;
  bool prefetches_ = false;  // whether L2 has room for the next block beside this one
  std::size_t ahead_ = 0, far_ = 0;
  std::size_t tasks_;
};

/// Says which memory to prefetch while a block is computed. The product of a strip and tile i of this block prefetches a share of the
/// weights of tile i of the next block. Many strips do not fit into L2 together, so with many strips the tiles alternate. At an even tile,
/// the product prefetches a share of the next strip. At an odd tile i, it prefetches a share of the next block's tile i - 1 or i, in turn.
/// If the plan has one strip and `far` is not 0, the product prefetches the lines of its own tile.
class block_prefetch {
 public:
  block_prefetch(const product_plan& plan, const product_block& block, const product_block& next)
      : plan_(plan), block_(block), next_(next), pairs_(plan.alternates(block.strips.count)) {
    const auto rounded_up = [](std::size_t bytes, std::size_t blocks) { return blocks == 0 ? 0 : (bytes + blocks - 1) / blocks; };
    row_step_ = rounded_up(plan.rows().input_bytes(), plan.group() >> pairs_);
    shares_ = block.strips.count == 1 ? 0 : block.strips.count >> pairs_;  // one strip alone could prefetch only half of the lines
    const std::size_t bytes = plan.weight().stored_bytes(next_.count);
    share_bytes_ = shares_ == 0 ? 0 : bytes / shares_;
    weight_step_ = rounded_up(bytes, shares_ * block.count);
  }

  /// Returns the prefetch for the product of a strip and tile i of the block.
  kernels::prefetch_run of(std::size_t strip, std::size_t i) const {
    const auto [first, count] = block_.strips;
    const kernels::prefetch_run nothing = kernels::no_prefetch(plan_.rows().strip_data(strip, block_.k));
    if (plan_.far() > 0) return {plan_.weight().tile(block_.first + i, block_.k) + plan_.far(), plan_.tile_input_bytes()};
    if (!plan_.prefetches()) return nothing;
    if (pairs_ && i % 2 == 0) {
      const std::byte* from =
          strip + 1 < first + count ? plan_.rows().strip_data(strip + 1, block_.k) : plan_.rows().strip_data(next_.strips.first, next_.k);
      return {from + i / 2 * row_step_ * block_.count, row_step_};
    }
    const std::size_t place = strip - first, share = place >> pairs_;
    if (share >= shares_ || next_.first + i >= next_.last) return nothing;
    const std::size_t tile = next_.first + i - (pairs_ && place % 2 == 0 ? 1 : 0);
    return {plan_.weight().tile(tile, next_.k) + share * share_bytes_, weight_step_};
  }

 private:
  const product_plan& plan_;
  product_block block_, next_;
  bool pairs_;            // whether even and odd tiles prefetch different things
  std::size_t row_step_;  // bytes of the next strip that a tile prefetches, for each input
  std::size_t shares_;    // how many shares a tile of the next block has; a product prefetches one share
  std::size_t share_bytes_;
  std::size_t weight_step_;  // bytes of a share that a tile prefetches, for each input
};

}  // namespace v0
}  // namespace lazyprune
