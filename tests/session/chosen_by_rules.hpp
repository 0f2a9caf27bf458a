// SPDX-License-Identifier: MIT
// Chooses tokens as session/engine_choice.hpp describes it, by sorting. Tests compare sessions and kernels with it.
#pragma once

#include <lazyprune/session/engine_choice.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

namespace lazyprune_test {

/// Returns the indices of the chosen tokens, ascending. `scores`, `positions` and `standing` are those of the active tokens.
inline std::vector<std::uint32_t> chosen_by_rules(std::span<const float> scores, std::span<const lazyprune::position> positions,
                                                  std::span<const lazyprune::candidacy> standing, const lazyprune::selection_quota& quota) {
  using lazyprune::candidacy;
  struct group {
    bool required = false;
    float best = -std::numeric_limits<float>::infinity();
    std::vector<std::uint32_t> members{};
  };
  std::map<std::size_t, group> groups;
  for (std::uint32_t i = 0; i < scores.size(); ++i) {
    if (standing[i] == candidacy::excluded) continue;
    group& g = groups[positions[i] / quota.page];
    g.members.push_back(i);
    g.required |= standing[i] == candidacy::required;
    if (scores[i] > g.best) g.best = std::min(scores[i], std::numeric_limits<float>::max());
  }
  std::vector<group> order;
  for (const auto& [page, g] : groups) order.insert(order.begin(), g);  // the last page first
  std::stable_sort(order.begin(), order.end(), [](const group& a, const group& b) {
    if (a.required != b.required) return a.required;
    return !a.required && a.best > b.best;
  });
  std::vector<std::uint32_t> chosen;
  for (const group& g : order)
    if (g.required || chosen.size() < quota.count) chosen.insert(chosen.end(), g.members.begin(), g.members.end());
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace lazyprune_test
