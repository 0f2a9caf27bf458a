// SPDX-License-Identifier: MIT
// Keeps whole pages of the sequence, for engines with a paged KV cache.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/arguments.hpp>
#include <lazyprune/policy/detail/order.hpp>

namespace lazyprune {
inline namespace v0 {

/// Page p holds the positions p * size to (p + 1) * size - 1. A page's score is the score of its best candidate. Pages are taken by falling
/// score until at least `keep` tokens are kept. Among pages with equal scores the later one is taken first. Pages with a required token
/// come first, and all these pages stay.
struct blocks {
  static constexpr std::string_view name = "blocks";
  positive size = 16;  // vLLM's default page

  std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const {
    const auto end_of = [&](std::size_t begin) { return end_of_page(c.positions, begin); };
    const auto key_of = [&](std::size_t begin, std::size_t end) {
      std::uint32_t key = 0;
      for (std::size_t i = begin; i < end; ++i) key = std::max(key, detail::ascending_key(c.scores[i]));
      return key;
    };
    return detail::best_groups(c.positions.size(), c.keep, kept, end_of, key_of);
  }

  /// Known if all pages without a required token have the same number of candidates.
  std::optional<kept_count> count(const candidates& c) const {
    kept_count kept{.required = 0, .group = 0, .page = size};
    for (std::size_t begin = 0, end; begin < c.positions.size(); begin = end) {
      end = end_of_page(c.positions, begin);
      if (detail::required_of(c.scores.subspan(begin, end - begin)) > 0)
        kept.required += end - begin;
      else if (kept.group == 0)
        kept.group = end - begin;
      else if (kept.group != end - begin)
        return std::nullopt;
    }
    if (kept.group == 0) kept.group = 1;
    return kept;
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("size", size);
  }

  friend bool operator==(const blocks&, const blocks&) = default;

 private:
  std::size_t end_of_page(std::span<const position> positions, std::size_t begin) const {
    const std::size_t page = positions[begin] / size;
    std::size_t end = begin + 1;
    while (end < positions.size() && positions[end] / size == page) ++end;
    return end;
  }
};

static_assert(token_selector<blocks>);

}  // namespace v0
}  // namespace lazyprune
