// SPDX-License-Identifier: MIT
// SnapKV's score (arXiv 2404.14469): the attention of the prompt's last queries, pooled so that a token's neighbours stay with it.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/policy/arguments.hpp>
#include <lazyprune/policy/scorer/detail/sums.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

/// The number of neighbouring tokens that are pooled, with the scored token in the middle: an odd number from 1 (no pooling) to 63. Throws
/// `error` for other numbers. Two kernels compare as their numbers do.
class pooling_kernel {
 public:
  static constexpr std::size_t largest = 63;

  using number = std::size_t;
  static constexpr bool holds(std::size_t tokens) { return tokens % 2 == 1 && tokens <= largest; }
  static std::string expected() { return "an odd number from 1 to " + std::to_string(largest); }

  constexpr pooling_kernel(std::size_t tokens) : tokens_(tokens) {
    if (!holds(tokens)) report_error(error("", "", expected(), std::to_string(tokens)));
  }
  constexpr operator std::size_t() const { return tokens_; }

 private:
  std::size_t tokens_;
};

enum class pooling : std::uint8_t { max, mean };

/// The score is the mean probability over the heads and the last `window` queries of this step, pooled. Pooling takes the maximum or mean
/// over the `kernel` active tokens around each token, fewer at the ends. SnapKV does this for every head separately; here all heads keep
/// the same tokens. The defaults are those of the paper's LongBench runs. SnapKV's code pools by the mean over 5 tokens.
struct window_attention {
  static constexpr std::string_view name = "window_attention";
  positive window = 32;
  pooling_kernel kernel = 7;
  pooling pool = pooling::max;

  void score(const window_view& view, std::span<float> out) const {
    const auto add = [&](std::size_t first, std::span<double> sums) {
      for (std::size_t q = 0; q < view.queries; ++q) detail::add_heads(view.query(q), first, sums);
    };
    const auto parts = static_cast<double>(view.queries * view.heads);
    detail::sum_tokens(view.active(), add, [&](std::size_t i, double sum) { out[i] = static_cast<float>(sum / parts); });
    if (kernel > 1) pool_in_place(out.first(view.active()));
  }

  head_reduction over_heads() const { return head_reduction::mean; }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("window", window);
    visit("kernel", kernel);
    visit("pool", pool, {"max", "mean"});
  }

  friend bool operator==(const window_attention&, const window_attention&) = default;

 private:
  void pool_in_place(std::span<float> scores) const {
    const std::size_t reach = kernel / 2;
    std::array<float, pooling_kernel::largest + 1> around;  // a ring buffer: the original score of token j is at j % 64
    std::size_t end = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      for (; end < scores.size() && end <= i + reach; ++end) around[end % around.size()] = scores[end];
      const std::size_t begin = i - std::min(i, reach);
      float most = around[begin % around.size()];
      double sum = 0.0;
      for (std::size_t j = begin; j < end; ++j) {
        most = std::max(most, around[j % around.size()]);
        sum += around[j % around.size()];
      }
      scores[i] = pool == pooling::max ? most : static_cast<float>(sum / static_cast<double>(end - begin));
    }
  }
};

static_assert(importance_scorer<window_attention>);

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
