// SPDX-License-Identifier: MIT
// Tests of the rules that every scorer, schedule, selector and store must keep. The test of a part instantiates the suite of its kind. It
// passes a struct whose `all()` returns the values to try:
//
//   using namespace contract;
//   struct top_p_values { static std::vector<top_p> all() { return {{0.5}, {1.0}}; } };
//   TEST_CASE_TEMPLATE_INVOKE(selector_contract, top_p_values);
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include <lazyprune/core/concepts.hpp>

namespace {
namespace contract {

using namespace lazyprune;

inline constexpr float inf = std::numeric_limits<float>::infinity();

/// Numbers of tokens: small ones, and numbers around powers of two, because blocks of tokens have such sizes.
inline constexpr std::size_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257};

/// Ascending positions with gaps, as pruning leaves them.
inline std::vector<position> some_positions(std::size_t n, std::mt19937& random) {
  std::vector<position> positions(n);
  position next = 0;
  const auto gap = 1 + random() % 4;
  for (position& p : positions) {
    p = next + static_cast<position>(random() % gap);
    next = p + 1;
  }
  return positions;
}

/// Scores as selectors and stores get them: smooth, with many ties, or of both signs. Some lists have -inf (in place of NaN), and some have
/// +inf.
inline std::vector<float> some_scores(std::size_t n, std::mt19937& random) {
  std::vector<float> scores(n);
  const auto kind = random() % 3;
  std::uniform_real_distribution<float> smooth(kind == 0 ? 0.0f : -1.0f, 1.0f);
  for (float& s : scores) s = kind == 2 ? static_cast<float>(random() % 4) - 1.0f : smooth(random);
  if (random() % 4 == 0)
    for (float& s : scores)
      if (random() % 8 == 0) s = -inf;
  if (random() % 4 == 0)
    for (float& s : scores)
      if (random() % 8 == 0) s = inf;
  return scores;
}

/// Evidence of one kind for tests. It can show the same numbers with different strides, with NaN between the rows.
template <class View>
class evidence;

/// Rows of numbers in memory, with NaN between the rows.
class padded_rows {
 public:
  padded_rows(const std::vector<float>& dense, std::size_t columns, std::size_t gap)
      : stride(columns + gap), memory_(dense.size() / columns * stride, std::numeric_limits<float>::quiet_NaN()) {
    for (std::size_t i = 0; i < dense.size(); ++i) memory_[i / columns * stride + i % columns] = dense[i];
  }
  const float* data() const { return memory_.data(); }

  std::size_t stride;

 private:
  std::vector<float> memory_;
};

inline std::vector<float> some_numbers(std::size_t n, float least, std::mt19937& random) {
  std::vector<float> numbers(n);
  std::uniform_real_distribution<float> draw(least, 1.0f);
  for (float& x : numbers) x = random() % 8 == 0 ? 0.0f : draw(random);
  return numbers;
}

template <>
class evidence<attention_view> {
 public:
  evidence(std::size_t n, std::mt19937& random, std::size_t = 0)
      : heads_(1 + random() % 5), positions_(some_positions(n, random)), numbers_(some_numbers(heads_ * n, 0.0f, random)) {}

  template <class Use>
  void show(std::size_t gap, Use use) const {
    const padded_rows rows(numbers_, positions_.size(), gap);
    use(attention_view{rows.data(), heads_, rows.stride, positions_});
  }

 private:
  std::size_t heads_;
  std::vector<position> positions_;
  std::vector<float> numbers_;
};

template <>
class evidence<window_view> {
 public:
  evidence(std::size_t n, std::mt19937& random, std::size_t window)
      : queries_(1 + random() % window),
        heads_(1 + random() % 3),
        positions_(some_positions(n, random)),
        numbers_(some_numbers(queries_ * heads_ * n, 0.0f, random)) {}

  template <class Use>
  void show(std::size_t gap, Use use) const {
    const padded_rows rows(numbers_, positions_.size(), gap);
    use(window_view{rows.data(), queries_, heads_, rows.stride, positions_});
  }

 private:
  std::size_t queries_, heads_;
  std::vector<position> positions_;
  std::vector<float> numbers_;
};

template <>
class evidence<probe_view> {
 public:
  static constexpr std::size_t most = 16;  // the scorers of these tests read no more probes at a layer

  evidence(std::size_t n, std::mt19937& random, std::size_t = 0)
      : positions_(some_positions(n, random)), numbers_(some_numbers(most * n, 0.0f, random)) {}

  template <class Use>
  void show(std::size_t gap, Use use) const {
    const padded_rows rows(numbers_, positions_.size(), gap);
    use(probe_view{rows.data(), most, rows.stride, positions_});
  }

 private:
  std::vector<position> positions_;
  std::vector<float> numbers_;
};

template <>
class evidence<key_view> {
 public:
  evidence(std::size_t n, std::mt19937& random, std::size_t = 0)
      : kv_heads_(1 + random() % 3),
        head_dim_(1 + random() % 20),
        positions_(some_positions(n, random)),
        numbers_(some_numbers(n * kv_heads_ * head_dim_, -1.0f, random)) {}

  template <class Use>
  void show(std::size_t gap, Use use) const {
    const padded_rows rows(numbers_, kv_heads_ * head_dim_, gap);
    use(key_view{rows.data(), kv_heads_, head_dim_, rows.stride, positions_});
  }

 private:
  std::size_t kv_heads_, head_dim_;
  std::vector<position> positions_;
  std::vector<float> numbers_;
};

template <>
class evidence<value_view> {
 public:
  evidence(std::size_t n, std::mt19937& random, std::size_t = 0)
      : kv_heads_(1 + random() % 3),
        heads_(kv_heads_ * (1 + random() % 3)),
        head_dim_(1 + random() % 20),
        positions_(some_positions(n, random)),
        attention_(some_numbers(heads_ * n, 0.0f, random)),
        values_(some_numbers(n * kv_heads_ * head_dim_, -1.0f, random)) {}

  template <class Use>
  void show(std::size_t gap, Use use) const {
    const padded_rows attention(attention_, positions_.size(), gap);
    const padded_rows values(values_, kv_heads_ * head_dim_, gap);
    use(value_view{{attention.data(), heads_, attention.stride, positions_}, values.data(), kv_heads_, head_dim_, values.stride});
  }

 private:
  std::size_t kv_heads_, heads_, head_dim_;
  std::vector<position> positions_;
  std::vector<float> attention_, values_;
};

template <>
class evidence<token_view> {
 public:
  evidence(std::size_t n, std::mt19937& random, std::size_t = 0)
      : done_(static_cast<layer_id>(random() % 4)), positions_(some_positions(n, random)) {}

  template <class Use>
  void show(std::size_t, Use use) const {
    use(token_view{positions_, done_, positions_.back() + std::size_t{1}});
  }

 private:
  layer_id done_;
  std::vector<position> positions_;
};

/// The scorer's memory is part of the evidence, and a scorer changes it. So each call of `show` starts with a fresh copy.
template <class View>
class evidence<every_layer<View>> {
 public:
  evidence(std::size_t n, std::mt19937& random, std::size_t window)
      : now_(n, random, window), layer_(static_cast<layer_id>(random() % 3)), memory_(some_numbers(4 * n, 0.0f, random)) {}

  template <class Use>
  void show(std::size_t gap, Use use) const {
    now_.show(gap, [&](const View& now) {
      std::vector<float> memory = memory_;
      use(every_layer<View>{now, layer_, std::span(memory).first(now.positions.back() + std::size_t{1})});
    });
  }

 private:
  evidence<View> now_;
  layer_id layer_;
  std::vector<float> memory_;
};

template <class Scorer>
std::size_t window_of(const Scorer& scorer) {
  if constexpr (std::same_as<evidence_of<Scorer>, window_view>)
    return scorer.window;
  else
    return 0;
}

TEST_CASE_TEMPLATE_DEFINE("contract of scorers", Values, scorer_contract) {
  std::mt19937 random(7);
  for (auto scorer : Values::all()) {
    using scorer_type = decltype(scorer);
    static_assert(importance_scorer<scorer_type>);
    CHECK(scorer == scorer_type(scorer));
    for (const std::size_t n : sizes) {
      CAPTURE(n);
      const evidence<view_of<scorer_type>> shown(n, random, window_of(scorer));
      constexpr float guard = -12345.0f;
      std::vector<float> tight(n + 8, guard), wide(n + 8, 99.0f), again(n + 8, guard);
      const auto into = [&](std::vector<float>& out) { return [&](const auto& view) { scorer.score(view, std::span(out).first(n)); }; };
      shown.show(0, into(tight));
      shown.show(3, into(wide));
      shown.show(3, into(again));

      const auto active = static_cast<std::ptrdiff_t>(n);
      CHECK(std::all_of(tight.begin(), tight.begin() + active, [](float s) { return std::isfinite(s) && s != guard; }));
      CHECK(std::all_of(tight.begin() + active, tight.end(), [](float s) { return s == guard; }));  // nothing beyond the active tokens
      CHECK(std::equal(tight.begin(), tight.begin() + active, wide.begin()));                       // reads nothing between the rows
      CHECK(again == tight);                                                                        // depends only on the view
    }
  }
}

TEST_CASE_TEMPLATE_DEFINE("contract of schedules", Values, schedule_contract) {
  std::mt19937 random(7);
  for (const auto& schedule : Values::all()) {
    using schedule_type = std::decay_t<decltype(schedule)>;
    static_assert(chosen_schedule<schedule_type> || layer_schedule<schedule_type> != adaptive_schedule<schedule_type>);
    CHECK(schedule == schedule_type(schedule));
    static_assert(foretelling_schedule<schedule_type>);
    for (const layer_id layers : {1u, 2u, 3u, 8u, 33u}) {
      layer_id first_seen[] = {layers, layers};  // by phase: how many layers were done at the first pruning
      std::vector<bool> pruned[] = {std::vector<bool>(layers), std::vector<bool>(layers)};  // by phase and number of layers done
      for (layer_id done = 0; done < layers; ++done)
        for (const std::size_t known : sizes)
          for (const phase step : {phase::prefill, phase::decode}) {
            const layer_context context{done, layers, 1 + random() % known, known, step};
            CAPTURE(layers);
            CAPTURE(done);
            CAPTURE(known);
            CAPTURE(context.active);
            std::size_t keep;
            if constexpr (!adaptive_schedule<schedule_type>) {
              keep = schedule.keep(context);
              CHECK(schedule.keep(context) == keep);
            } else {
              std::vector<float> scores = some_scores(context.active, random);
              if (random() % 4 == 0) scores[random() % scores.size()] = std::numeric_limits<float>::quiet_NaN();
              keep = schedule.keep(context, scores);
              CHECK(schedule.keep(context, scores) == keep);
            }
            CHECK((keep == everything || keep == all_with_keys || (keep >= 1 && keep <= context.active)));
            layer_id& first = first_seen[static_cast<std::size_t>(step)];
            if (keep != everything) first = std::min(first, done);
            if (keep != everything && keep != all_with_keys) pruned[static_cast<std::size_t>(step)][done] = true;
          }
      for (const phase step : {phase::prefill, phase::decode}) {
        CAPTURE(layers);
        CHECK(schedule.first(step, layers) == first_seen[static_cast<std::size_t>(step)]);
        CHECK(first_pruning(schedule, step, layers) == schedule.first(step, layers));
        for (layer_id done = 0; done < layers; ++done) {
          CAPTURE(done);
          CHECK(could_prune(schedule, done, step, layers) == pruned[static_cast<std::size_t>(step)][done]);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE_DEFINE("contract of selectors", Values, selector_contract) {
  std::mt19937 random(7);
  for (const auto& selector : Values::all()) {
    using selector_type = std::decay_t<decltype(selector)>;
    static_assert(token_selector<selector_type>);
    CHECK(selector == selector_type(selector));
    for (int run = 0; run < 40; ++run)
      for (const std::size_t n : sizes) {
        CAPTURE(run);
        CAPTURE(n);
        const std::vector<position> positions = some_positions(n, random);
        std::vector<float> scores = some_scores(n, random);
        scores.back() = inf;
        const std::size_t keep = 1 + random() % n;
        const float required_mass = static_cast<float>(random() % 3);

        const auto select = [&](std::vector<float> from, std::uint32_t garbage) {
          std::vector<std::uint32_t> kept(n + 4, garbage);
          std::fill(kept.end() - 4, kept.end(), 0xdead'beefu);
          const std::size_t count = selector.select(candidates{from, positions, keep, required_mass}, std::span(kept).first(n));
          CHECK(std::all_of(kept.end() - 4, kept.end(), [](auto k) { return k == 0xdead'beefu; }));
          for (std::size_t i = 0; i < n; ++i) CHECK((from[i] == scores[i] || from[i] == inf));  // a wrapper may only raise scores to +inf
          REQUIRE(count <= n);
          kept.resize(count);
          return kept;
        };
        const std::vector<std::uint32_t> kept = select(scores, 0);

        REQUIRE(!kept.empty());
        CHECK(std::adjacent_find(kept.begin(), kept.end(), std::greater_equal{}) == kept.end());  // ascending, none twice
        CHECK(kept.back() == n - 1);                                                              // in range, and the query token is kept
        for (std::uint32_t i = 0; i < n; ++i)
          if (scores[i] == inf) CHECK(std::binary_search(kept.begin(), kept.end(), i));
        CHECK(select(scores, 0xffff'ffffu) == kept);  // the old contents of `kept` do not matter

        // A number of kept tokens that is told without the scores is right.
        std::vector<float> unknown = scores;
        for (float& s : unknown) s = s == inf ? inf : 0.0f;
        const std::size_t least = std::max<std::size_t>(keep, static_cast<std::size_t>(std::count(scores.begin(), scores.end(), inf)));
        const std::optional<kept_count> told = count_of(selector, candidates{unknown, positions, least});
        if (told) CHECK(told->of(least, n) == kept.size());
        if (told) CHECK(told->required >= static_cast<std::size_t>(std::count(unknown.begin(), unknown.end(), inf)));

        // If a kept token scores higher, it is still kept.
        const std::uint32_t better = kept[random() % kept.size()];
        std::vector<float> raised = scores;
        if (std::isfinite(raised[better])) {
          raised[better] += 0.25f;
          std::swap(raised, scores);
          const std::vector<std::uint32_t> then = select(scores, 0);
          CHECK(std::binary_search(then.begin(), then.end(), better));
        }
      }
  }
}

TEST_CASE_TEMPLATE_DEFINE("contract of stores", Values, store_contract) {
  std::mt19937 random(7);
  for (const auto& store : Values::all()) {
    using store_type = std::decay_t<decltype(store)>;
    static_assert(aux_store<store_type>);
    CHECK(store == store_type(store));
    for (int run = 0; run < 40; ++run)
      for (const std::size_t n : sizes) {
        CAPTURE(run);
        CAPTURE(n);
        const std::vector<position> positions = some_positions(n, random);
        const std::vector<float> scores = some_scores(n, random);
        const bool embeddings = random() % 2 == 0;
        const auto admit = [&](std::uint32_t garbage) {
          std::vector<std::uint32_t> kept(n, garbage);
          const std::size_t count = store.admit(stored_rows{scores, positions, embeddings}, kept);
          REQUIRE(count <= n);
          kept.resize(count);
          return kept;
        };
        const std::vector<std::uint32_t> kept = admit(0);
        CHECK(std::adjacent_find(kept.begin(), kept.end(), std::greater_equal{}) == kept.end());  // ascending, none twice
        CHECK((kept.empty() || kept.back() < n));
        for (std::uint32_t i = 0; i < n; ++i)
          if (scores[i] == inf) CHECK(std::binary_search(kept.begin(), kept.end(), i));  // the row of such a token is about to be read
        CHECK(admit(0xffff'ffffu) == kept);
        if (const std::optional<bool> all = admits_all(store))
          CHECK(kept.size() == (*all ? n : static_cast<std::size_t>(std::count(scores.begin(), scores.end(), inf))));
      }
    CHECK(store.admit(stored_rows{{}, {}}, {}) == 0);
  }
}

/// Returns whether the relative error of `found` is at most `part`.
inline bool close(float found, long double expected, double part) { return std::abs(found - expected) <= part * std::abs(expected); }

/// Finds the k best scores by sorting. Returns their indices, ascending. Higher scores rank first. Among equal scores later ones rank
/// first. NaN ranks last. If more than k scores are +inf, all of these are returned.
inline std::vector<std::uint32_t> best_by_sorting(const std::vector<float>& scores, std::size_t k) {
  std::vector<std::uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto value = [&](std::uint32_t i) { return std::isnan(scores[i]) ? -inf : scores[i]; };
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return value(a) != value(b) ? value(a) > value(b) : a > b; });
  const auto required = static_cast<std::size_t>(std::count(scores.begin(), scores.end(), inf));
  order.resize(std::min(std::max(k, required), order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace contract
}  // namespace
