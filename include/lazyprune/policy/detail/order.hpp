// SPDX-License-Identifier: MIT
// Orders and selects tokens by score. Higher scores come first. Among equal scores, later tokens come first. NaN is the lowest score. A
// token with a score of +inf is always selected.
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/core/types.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {
namespace detail {

/// An integer that has the same order as the score: NaN < -inf < ... < -0 = +0 < ... < +inf.
constexpr std::uint32_t ascending_key(float score) {
  if (score != score) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);
  return bits >> 31 ? ~bits : bits | 0x8000'0000u;
}

inline constexpr std::uint32_t required_key = ascending_key(std::numeric_limits<float>::infinity());

/// The number of required tokens: those with a score of +inf.
inline std::size_t required_of(std::span<const float> scores) {
  return static_cast<std::size_t>(
      std::ranges::count_if(scores, [](float score) { return score == std::numeric_limits<float>::infinity(); }));
}

/// The point at which a selection splits the tokens. The selection keeps all tokens whose ascending_key is higher than `key`, and `room`
/// tokens with this key.
struct cut {
  std::uint32_t key;
  std::size_t room;
};

/// Returns the cut that keeps `keep` <= keys.size() tokens, or all tokens with required_key if these are more. Reorders the keys. Takes
/// linear time on average.
inline cut cut_at(std::span<std::uint32_t> keys, std::size_t keep) {
  if (keep == 0) return {required_key, everything};
  const auto split = keys.begin() + static_cast<std::ptrdiff_t>(keep - 1);
  std::ranges::nth_element(keys, split, std::greater{});
  if (*split == required_key) return {required_key, everything};
  return {*split, keep - static_cast<std::size_t>(std::ranges::count_if(keys.first(keep), [&](auto key) { return key > *split; }))};
}

/// Keeps whole groups of neighbouring tokens, the best first, until at least `keep` tokens are kept. Writes their indices, ascending, into
/// kept (n), and returns their number. Before that, kept serves as scratch. A group that starts at `begin` ends before `end_of(begin)`.
/// Every group whose `key_of(begin, end)` is required_key is kept.
template <class End, class Key>
std::size_t best_groups(std::size_t n, std::size_t keep, std::span<std::uint32_t> kept, End end_of, Key key_of) {
  const auto keys = kept.first(n);
  for (std::size_t begin = 0, end; begin < n; begin = end) {
    end = end_of(begin);
    std::ranges::fill(keys.subspan(begin, end - begin), key_of(begin, end));
  }
  const cut cut = cut_at(keys, std::min(keep, n));

  auto equal = static_cast<std::size_t>(std::ranges::count(keys, cut.key));  // tokens from `begin` on that have the cut's key
  std::size_t count = 0;
  for (std::size_t begin = 0, end; begin < n; begin = end) {
    end = end_of(begin);
    const std::uint32_t key = key_of(begin, end);
    if (key < cut.key) continue;
    if (key == cut.key) {
      equal -= end - begin;
      if (equal >= cut.room) continue;  // the later groups are enough
    }
    for (std::size_t i = begin; i < end; ++i) kept[count++] = static_cast<std::uint32_t>(i);
  }
  return count;
}

/// Keeps the tokens with the `keep` best scores, or all tokens with a score of +inf if these are more. See best_groups.
inline std::size_t best(std::span<const float> scores, std::size_t keep, std::span<std::uint32_t> kept) {
  return best_groups(
      scores.size(), keep, kept, [](std::size_t i) { return i + 1; }, [&](std::size_t i, std::size_t) { return ascending_key(scores[i]); });
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
