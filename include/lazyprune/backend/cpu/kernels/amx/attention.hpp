// SPDX-License-Identifier: MIT
// The running softmax beside AMX. The tile registers compute products while the vector registers compute exponentials, if a few
// instructions of one alternate with a few of the other. So `soften` computes the next scores between its rows.
#pragma once

#include <lazyprune/backend/cpu/kernels/amx/product.hpp>
#include <lazyprune/backend/cpu/kernels/avx512_bf16/attention.hpp>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own intrinsics
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace amx {

using avx512_bf16::softmax_weight;
using avx512_bf16::store_weights;
using avx512_bf16::vec;
using avx512_bf16::weight_of;

/// The products of a score_task, spread evenly over the rows of a softmax. One step multiplies 32 inputs of a tile of keys.
class side_work {
 public:
  LAZYPRUNE_AMX_INLINE side_work(const score_task* task, std::size_t softmax_rows) : softmax_rows_(softmax_rows) {
    if (!task) return;
    task_ = *task;
    steps_ = task->tiles * (task->depth / register_inputs);
    asm volatile("" ::: "memory");  // needed because the compiler does not know which memory the tile loads read
  }

  LAZYPRUNE_AMX_INLINE void after_row() {
    for (due_ += steps_; due_ >= softmax_rows_; due_ -= softmax_rows_) step();
  }

 private:
  LAZYPRUNE_AMX_INLINE void step() {
    const bool both = task_.rows > register_rows;
    if (input_ == 0) clear_sums();
    add_products<false>(task_.queries + input_ * (both ? 2 : 1) * cache_line / 2, task_.keys, both);
    task_.keys += step_bytes;
    input_ += register_inputs;
    if (input_ < task_.depth) return;
    store_sums(task_.scores, both);
    asm volatile("" ::: "memory");
    task_.scores += task_.tile_floats;
    input_ = 0;
  }

  score_task task_{};  // `keys` and `scores` move on with the steps
  std::size_t softmax_rows_;
  std::size_t steps_ = 0;  // of the task
  std::size_t due_ = 0;    // steps that are due, times softmax_rows_
  std::size_t input_ = 0;  // of the tile of keys
};

#define LAZYPRUNE_KERNEL LAZYPRUNE_AMX
#define LAZYPRUNE_KERNEL_INLINE LAZYPRUNE_AMX_INLINE
#include <lazyprune/backend/cpu/kernels/shared/softmax.inc>
#undef LAZYPRUNE_KERNEL
#undef LAZYPRUNE_KERNEL_INLINE

// With 128 keys at once, the scores of two pieces and the weights of one take 40 KiB. They stay in L1, which has 48 KiB.
inline constexpr attention_kernel attention = [] {
  attention_kernel k = avx512_bf16::attention;
  k.most_tiles = 4;
  k.scores_ahead = true;
  k.soften = soften;
  return k;
}();

}  // namespace amx
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
