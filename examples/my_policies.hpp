// SPDX-License-Identifier: MIT
// Custom parts of policies, one example of each kind. POLICIES.md explains them. custom_policy.cpp runs them. custom_program.cpp is the
// whole command line with them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <unordered_map>

#include <lazyprune/lazyprune.hpp>
#include <lazyprune/registry/shipped_policies.hpp>

namespace mine {

/// A scorer. A token matters if any head attends to it strongly, or if the token before it matters. Answers tend to
/// follow the words that the query finds.
struct loud_neighbours {
  static constexpr std::string_view name = "loud_neighbours";
  float carry = 0.5f;

  void score(const lazyprune::attention_view& attention, std::span<float> out) const {
    std::ranges::fill(out, 0.0f);
    for (std::size_t h = 0; h < attention.heads; ++h)
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::max(out[i], attention(h, i));
    for (std::size_t i = out.size(); i-- > 1;) out[i] = std::max(out[i], carry * out[i - 1]);
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("carry", carry);
  }
};
static_assert(lazyprune::importance_scorer<loud_neighbours>);

/// A scorer that looks at the token ids. The rarer a token is in the text, the more it matters: names and numbers are rare, "the" is not.
struct rare_ids {
  static constexpr std::string_view name = "rare_ids";

  void score(const lazyprune::id_view& tokens, std::span<float> out) const {
    std::unordered_map<lazyprune::token_id, float> times;
    for (const lazyprune::token_id id : tokens.ids) ++times[id];
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = 1.0f / times[tokens(i)];
  }

  template <class Visitor>
  void describe(Visitor&) {}
};
static_assert(lazyprune::importance_scorer<rare_ids>);

/// A schedule. After every `n` layers it keeps half of the tokens, but never fewer than `least`.
struct halve_every {
  static constexpr std::string_view name = "halve_every";
  lazyprune::positive n = 1;
  std::size_t least = 1;

  std::size_t keep(const lazyprune::layer_context& c) const {
    return c.done > 0 && c.done % n == 0 ? std::max((c.active + 1) / 2, least) : lazyprune::everything;
  }
  lazyprune::layer_id first(lazyprune::phase, lazyprune::layer_id layers) const {
    return static_cast<lazyprune::layer_id>(std::min<std::size_t>(n, layers));
  }
  bool prunes_after(lazyprune::layer_id done, lazyprune::phase, lazyprune::layer_id) const { return done > 0 && done % n == 0; }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit(lazyprune::required("n"), n, lazyprune::layer_range{.least = 1});
    visit("least", least);
  }
};
static_assert(lazyprune::foretelling_schedule<halve_every> && lazyprune::layer_naming_schedule<halve_every>);

/// A selector. It keeps all tokens whose score is at least `share` of the mean, however many the schedule asks for.
struct above_mean {
  static constexpr std::string_view name = "above_mean";
  float share = 1;

  std::size_t select(const lazyprune::candidates& c, std::span<std::uint32_t> kept) const {
    double sum = c.required_mass;
    for (const float score : c.scores) sum += std::isfinite(score) ? score : 0.0f;
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < c.scores.size(); ++i)
      if (c.scores[i] >= share * sum / static_cast<double>(c.scores.size())) kept[count++] = i;  // the query token's score is +inf
    return count;
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("share", share);
  }
};
static_assert(lazyprune::token_selector<above_mean>);

/// A store. It keeps the latest `rows` dropped tokens. It also keeps all rows with the score +infinity, because they are read next.
struct latest {
  static constexpr std::string_view name = "latest";
  std::size_t rows = std::numeric_limits<std::size_t>::max();

  std::size_t admit(const lazyprune::stored_rows& all, std::span<std::uint32_t> kept) const {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < all.scores.size(); ++i)
      if (all.scores.size() - i <= rows || all.scores[i] == std::numeric_limits<float>::infinity()) kept[count++] = i;
    return count;
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit(lazyprune::required("rows"), rows);
  }
};
static_assert(lazyprune::aux_store<latest>);

/// A decorator. It wraps any selector and keeps every `n`-th token of the text, so that no stretch of it goes unseen.
template <lazyprune::token_selector Selector>
struct anchored {
  static constexpr std::string_view name = "anchored";
  lazyprune::positive n = 32;
  Selector selector{};

  std::size_t select(const lazyprune::candidates& c, std::span<std::uint32_t> kept) const {
    for (std::size_t i = 0; i < c.scores.size(); ++i)
      if (c.positions[i] % n == 0) c.scores[i] = std::numeric_limits<float>::infinity();
    return selector.select(c, kept);
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("n", n);
  }
};
static_assert(lazyprune::token_selector<anchored<lazyprune::top_k>>);

/// The policies of the library, together with these.
inline lazyprune::policy_registry policies() {
  lazyprune::policy_registry all = lazyprune::shipped_policies();
  all.add<loud_neighbours, rare_ids, halve_every, above_mean, latest, anchored<lazyprune::top_k>>();
  all.add_preset("mine", "half of the tokens after each third of the layers, some of every part", [](lazyprune::layer_id layers) {
    const halve_every thirds{.n = std::max<std::size_t>(layers / 3, 1), .least = 16};
    return lazyprune::policy{loud_neighbours{}, thirds, anchored<lazyprune::top_k>{}, latest{.rows = 4096}};
  });
  return all;
}

}  // namespace mine
