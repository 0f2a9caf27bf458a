// SPDX-License-Identifier: MIT
// A policy of one's own, with the library's core alone.
#include <lazyprune/core/policy.hpp>
#include <lazyprune/version.hpp>

struct newest_first {
  void score(const lazyprune::token_view& tokens, std::span<float> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(tokens.positions[i]);
  }
};
static_assert(lazyprune::importance_scorer<newest_first>);

int main() {
  const lazyprune::position positions[] = {3, 5, 8};
  float scores[3] = {};
  newest_first{}.score({.positions = positions, .done = 0, .known = 9}, scores);
  return scores[2] == 8 ? 0 : 1;
}
