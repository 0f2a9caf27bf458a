// SPDX-License-Identifier: MIT
// Walks of random operations on sessions: steps, chunks, abandoned steps, calls out of order, truncations, adopted tokens, copies and
// sessions that take over others. Each session is compared with the naive one. A walk takes its decisions from a source of numbers.
#pragma once

#include <lazyprune/lazyprune.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "labelled_engine.hpp"
#include "naive_session.hpp"

namespace random_walk {

using namespace lazyprune;

/// Returns 32 bits.
using number_source = std::function<std::uint32_t()>;

/// A scorer that returns the attention of the last query's only head. The test chooses this attention.
struct head_scores {
  void score(const attention_view& view, std::span<float> out) const { std::ranges::transform(view.head(0), out.begin(), as_score); }
};
struct given_window_scores {
  std::size_t window = 3;
  void score(const window_view& view, std::span<float> out) const {
    std::ranges::transform(view.query(view.queries - 1).head(0), out.begin(), as_score);
  }
};
/// Sums the scores of head_scores over layers and steps.
struct summed_scores {
  void score(const every_layer<attention_view>& view, std::span<float> out) const {
    for (std::size_t i = 0; i < view.active(); ++i) out[i] = view.memory[view.now.positions[i]] += as_score(view.now(0, i));
  }
};
struct summed_window_scores {
  std::size_t window = 3;
  void score(const every_layer<window_view>& view, std::span<float> out) const {
    const attention_view last = view.now.query(view.now.queries - 1);
    for (std::size_t i = 0; i < view.active(); ++i) out[i] = view.memory[view.now.positions[i]] += as_score(last(0, i));
  }
};

/// Sums probes of the layers in `mask`; the other layers have no probes.
struct summed_probe_scores {
  std::size_t window = 3;
  unsigned mask = 1;
  static constexpr head_probe one[]{{.head = 0, .over = query_reduction::last}};
  std::span<const head_probe> probes(layer_id layer) const {
    return mask >> layer % 8 & 1 ? std::span<const head_probe>(one) : std::span<const head_probe>{};
  }
  void score(const every_layer<probe_view>& view, std::span<float> out) const {
    must(view.now.probes == probes(view.layer).size(), "the probes of this layer are shown, and no others");
    for (std::size_t i = 0; i < view.active(); ++i) {
      float& sum = view.memory[view.now.positions[i]];
      out[i] = view.now.probes > 0 ? sum += as_score(view.now.probe(0)[i]) : sum;
    }
  }
};

/// A scorer of positions. Scores of different steps, layers or tokens are equal only by chance.
struct hashed_positions {
  std::uint64_t seed;
  bool coarse;
  void score(const token_view& view, std::span<float> out) const {
    for (std::size_t i = 0; i < view.active(); ++i) out[i] = hashed_score(seed, view.known, view.done, view.positions[i], coarse);
  }
};

/// A schedule that looks its share up in a table by phase and done layers. A share of 0 means no pruning, and `with_keys` that the tokens
/// with keys go on (`all_with_keys`).
struct by_table {
  static constexpr double with_keys = -1;

  std::vector<double> prefill, decode;  // (layers)
  bool foretells;                       // whether `first` returns the first layer with pruning; if not, it returns 0

  std::size_t keep(const layer_context& c) const {
    const double share = (c.step == phase::prefill ? prefill : decode)[c.done];
    if (share == with_keys) return all_with_keys;
    return share == 0.0 ? everything : static_cast<std::size_t>(std::ceil(share * static_cast<double>(c.active) - 1e-9));
  }
  layer_id first(phase step, layer_id) const {
    const std::vector<double>& shares = step == phase::prefill ? prefill : decode;
    const auto pruning = std::ranges::find_if(shares, [](double share) { return share != 0.0; });
    return foretells ? static_cast<layer_id>(pruning - shares.begin()) : 0;
  }
};

inline by_table random_table(const number_source& random, unsigned layers) {
  by_table table{std::vector<double>(layers), std::vector<double>(layers), random() % 4 != 0};
  const bool late = random() % 2;
  for (auto* shares : {&table.prefill, &table.decode})
    for (std::size_t done = 0; done < layers; ++done)
      if (random() % 2 && !(late && done < layers / 2)) (*shares)[done] = 0.05 + 0.95 * 0x1p-32 * random();
  if (random() % 3 == 0) table.decode.assign(layers, 0.0);  // no pruning in decode steps
  if (random() % 3 == 0) table.decode = table.prefill;
  const bool all = random() % 3 == 0;
  for (double& share : table.decode)
    if (share != 0.0 && (all || random() % 4 == 0)) share = by_table::with_keys;
  return table;
}

/// A store that admits most rows. It chooses them by position and by the number of rows. It may therefore refuse a stored row later, even
/// if this row is about to be read. `refused_reads` counts refused rows that were about to be read (score +inf).
struct by_hash {
  std::size_t* refused_reads;
  static bool admits(position t, std::size_t rows) { return ((t * 0x9e3779b1u + rows * 0x85ebca6bu) >> 7) % 4 != 0; }
  std::size_t admit(const stored_rows& rows, std::span<std::uint32_t> kept) const {
    std::size_t n = 0;
    for (std::size_t i = 0; i < rows.positions.size(); ++i) {
      if (admits(rows.positions[i], rows.positions.size()))
        kept[n++] = static_cast<std::uint32_t>(i);
      else if (rows.scores[i] == std::numeric_limits<float>::infinity())
        ++*refused_reads;
    }
    return n;
  }
};

enum class kind { attention, positions, window, sums, window_sums, probe_sums };

/// Counts events in the walks, so that a test can check that each kind occurred.
struct events {
  std::size_t refused_reads = 0, waited = 0, revived = 0, moved = 0, losses = 0, abandoned = 0, abandoned_unsaved = 0, truncated = 0,
              adopted = 0, cloned = 0, outputs = 0, taken_over = 0, not_taken_over = 0, gathered = 0, probed = 0, not_probed = 0,
              with_keys = 0;
};

using walked_session = session<any_scorer, by_table, protect<top_k>, any_store>;

/// A session, its engine, and the naive session to compare with.
struct world {
  walked_session session;
  labelled_engine engine;
  naive::session expected;
  kind scores;
};

/// Operations on up to three sessions, each compared with the naive session after every operation.
class walk {
 public:
  /// `random` decides what happens. `seed` and its numbers decide the scores.
  walk(std::uint32_t seed, number_source random, const any_store& store, naive::rules rules, events& seen)
      : seed_(seed), random_(std::move(random)), seen_(seen), rules_(std::move(rules)), store_(store) {
    coarse_ = random_() % 2;
    layers_ = static_cast<layer_id>(1 + random_() % 6);
    worlds_.push_back(new_world());
  }

  void go(int operations) {
    for (int i = 0; i < operations; ++i) {
      CAPTURE(seed_);
      CAPTURE(i);
      world& w = worlds_[random_() % worlds_.size()];
      const auto what = random_() % 18;
      CAPTURE(what);
      if (w.session.known() > 100 || what == 11)
        truncate(w);
      else if (what == 12)
        adopt(w);
      else if (what == 13)
        clone();
      else if (what > 15)
        take_over(w, what == 16);
      else
        step(w, what);
      for (const world& each : worlds_) compare(each);
    }
  }

 private:
  static constexpr std::size_t most_tokens = 200;

  /// Makes a world without tokens, with a random policy and the walk's store.
  world new_world() {
    const auto scores = static_cast<kind>(random_() % 6);
    const by_table table = random_table(random_, layers_);
    naive::rules rules = rules_;
    rules.layers = layers_;
    rules.count = [table, &seen = seen_](unsigned done, std::size_t active, std::size_t, bool prefill) -> std::size_t {
      const double share = (prefill ? table.prefill : table.decode)[done];
      if (share == by_table::with_keys) ++seen.with_keys;
      if (share == by_table::with_keys) return naive::rules::with_keys;
      return share == 0.0 ? 0 : std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(share * static_cast<double>(active) - 1e-9)));
    };
    rules.keep_first = static_cast<unsigned>(random_() % 2 ? random_() % 6 : 0);
    rules.keep_last = static_cast<unsigned>(random_() % 2 ? random_() % 6 : 0);
    rules.before_first_layer = scores == kind::positions;
    const bool gathers = scores == kind::window_sums || scores == kind::probe_sums;
    const auto mask = static_cast<unsigned>(random_() % 256);
    rules.sums = scores == kind::sums || gathers;
    if (scores == kind::probe_sums) rules.adds = [mask](unsigned layer) { return (mask >> layer % 8 & 1) != 0; };
    if (gathers) rules.window = static_cast<unsigned>(1 + random_() % 5);
    rules.chunk_layers = [table, scores, layers = layers_](bool prefill) {
      const std::vector<double>& shares = prefill ? table.prefill : table.decode;
      unsigned first = 0;
      while (table.foretells && first < layers && shares[first] == 0.0) ++first;
      if (scores != kind::positions) first = std::max(first, 1u);
      if (scores == kind::window && first < layers) --first;
      return first;
    };
    selection_scratch* scratch = random_() % 2 ? &scratch_ : nullptr;
    walked_session session({scorer(scores, rules.window, mask), table, protect(top_k{}, rules.keep_first, rules.keep_last), store_},
                           {.layers = layers_, .max_tokens = random_() % 2 ? most_tokens : 0, .scratch = scratch});
    return {session, {}, naive::session(rules), scores};
  }

  any_scorer scorer(kind scores, std::size_t window, unsigned mask) const {
    switch (scores) {
      case kind::attention:
        return head_scores{};
      case kind::positions:
        return hashed_positions{seed_, coarse_};
      case kind::window:
        return given_window_scores{};
      case kind::sums:
        return summed_scores{};
      case kind::window_sums:
        return summed_window_scores{window};
      default:
        return summed_probe_scores{window, mask};
    }
  }

  std::size_t any_below(std::size_t n) { return random_() % n; }

  void truncate(world& w) {
    const std::size_t n = any_below(8) == 0 ? 0 : w.session.known() - any_below(std::min<std::size_t>(w.session.known(), 60) + 1);
    w.session.truncate(n);
    w.engine.follow(w.session.tokens());
    w.expected.truncate(n);
    ++seen_.truncated;
  }

  void adopt(world& w) {
    const std::size_t n = any_below(12);
    w.session.adopt(n);
    w.engine.adopt(n, layers_);
    w.expected.adopt(n);
    ++seen_.adopted;
  }

  void clone() {
    put(world(worlds_[any_below(worlds_.size())]));
    ++seen_.cloned;
  }

  void put(world next) {
    if (worlds_.size() < 3)
      worlds_.push_back(std::move(next));
    else
      worlds_[any_below(3)] = std::move(next);
  }

  /// Lets a new session with another policy take over the tokens of `w`. A later prefill must then see the same tokens as if the new
  /// session had read all tokens itself. With `anew`, `w` first starts again with a few chunks, because other sequences can seldom be taken
  /// over.
  void take_over(world& w, bool anew) {
    if (anew) {
      w.session.truncate(0);
      w.engine.follow(w.session.tokens());
      w.expected.truncate(0);
      for (auto chunks = 1 + any_below(2); chunks > 0; --chunks) step(w, 7);
    }
    world next = new_world();
    if (!next.expected.may_take_over(w.expected)) {
      CHECK_THROWS_AS(next.session.take_over(w.session), error);
      must(next.session.known() == 0, "a session that takes nothing over stays as it is");
      ++seen_.not_taken_over;
      return;
    }
    next.session.take_over(w.session);
    next.engine = w.engine;
    next.engine.follow(next.session.tokens());
    next.expected.take_over(w.expected);
    seen_.taken_over += w.session.known() > 0;
    compare(next);
    same_as_whole(next);
    put(std::move(next));
  }

  /// Runs a prefill in a copy of `taken` and compares it with a naive session that reads all tokens at once.
  void same_as_whole(const world& taken) {
    world w = taken;
    naive::session whole = w.expected.anew();
    const std::size_t tokens = 1 + any_below(8), known = w.session.known() + tokens;
    const naive::session::scores score = scores_of(w.scores == kind::positions ? known : ++salt_);
    const std::vector<naive::layer> wanted = whole.step(known, true, score);
    auto step = w.session.begin({tokens});
    w.engine.begin(tokens);
    for (layer_id l = 0; l < layers_; ++l) {
      plan_ = step.enter(l);
      must(w.engine.enter(plan_).active == wanted[l].active,
           "after take_over the active tokens are those of a session that read all tokens");
      leave(step, score);
      w.engine.leave();
      w.engine.save(step.spills());
    }
    step.finish();
    w.expected = whole;
    compare_tokens(w);
  }

  /// Runs a step. `what` chooses its kind. 0..6: a step with a query. 7, 8: a chunk. 9, 10: an abandoned step. 14: a step with a call out
  /// of order. 15: a step in which evidence may be missing.
  void step(world& w, std::size_t what) {
    const bool prefill = w.session.known() == 0 || any_below(3) == 0;  // a later prefill is a chat turn
    const std::size_t tokens = prefill ? 1 + any_below(24) : 1 + any_below(2);
    const bool chunk = what == 7 || what == 8 || (what > 8 && any_below(2));
    const std::size_t outputs = chunk ? 0 : any_below(3) == 0 ? 1 + any_below(tokens) : 1;
    const bool blind = what == 15;
    const bool stops = what == 9 || what == 10 || what == 14;
    const std::size_t known = w.session.known() + tokens, salt = w.scores == kind::positions ? known : ++salt_;
    const naive::session::scores score = scores_of(salt);

    auto step = w.session.begin({tokens, prefill ? phase::prefill : phase::decode, outputs});
    w.engine.begin(tokens);
    w.expected.begin(tokens, prefill, outputs);
    must(step.layers() == w.expected.layers(), "a chunk ends where it should");
    const std::size_t calls = stops ? any_below(2 * step.layers() + 1) : 2 * step.layers();
    bool missed = false;
    for (std::size_t call = 0; call < calls; ++call) {
      const auto l = static_cast<layer_id>(call / 2);
      if (call % 2 == 0) {
        plan_ = step.enter(l);
        const naive::layer seen = w.engine.enter(plan_), wanted = w.expected.enter(score);
        must(seen.active == wanted.active, "active");
        must(seen.rows == wanted.rows, "rows");
        must(seen.revived == wanted.revived, "revived");
        must(seen.waited == wanted.waited, "waited");
        must(seen.output_rows == wanted.output_rows, "output_rows");
        const evidence_kind wants = step.wants();
        if (w.scores == kind::probe_sums && outputs > 0) ++(wants == evidence_kind::probes ? seen_.probed : seen_.not_probed);
        if (wants == evidence_kind::probes || (w.scores == kind::window_sums && wants == evidence_kind::window)) {
          must(step.window() == wanted.evidence_rows, "evidence rows");
          const std::span<const naive::token> rows = std::span(seen.rows).last(step.window());
          must(rows.back() + 1 == w.session.known() && rows.front() >= w.expected.first_evidence_row(),
               "the last rows are the evidence rows");
          ++seen_.gathered;
        }
        seen_.waited += seen.waited.size();
        seen_.revived += seen.revived.size();
      } else if (step.wants_scores() && blind && any_below(2)) {
        missed = true;
        step.leave();
        w.engine.leave();
        w.expected.leave(nullptr);
        w.engine.save(step.spills());
      } else {
        leave(step, score);
        w.engine.leave();
        w.expected.leave(score);
        // If the step is given up now, its spills are not saved.
        if (call + 1 < calls || !stops) w.engine.save(step.spills());
        if (call + 1 == calls && stops && !step.spills().empty()) ++seen_.abandoned_unsaved;
        for (const spill& s : step.spills()) seen_.moved += s.from == row_source::origin::waiting;
      }
    }
    seen_.outputs += outputs > 1;
    seen_.losses += w.session.losses().size();
    if (!stops && !missed) {
      step.finish();
      w.expected.finish();
      return;
    }
    if (what == 14) misuse(w, step, calls);
    if (missed) CHECK_THROWS_AS(step.finish(), error);
    CHECK_THROWS_AS((void)w.session.begin({1}), error);
    CHECK_THROWS_AS(w.session.truncate(0), error);
    CHECK_THROWS_AS(w.session.adopt(1), error);
    CHECK_THROWS_AS((void)walked_session(w.session), error);
    w.session.abandon();
    w.engine.follow(w.session.tokens());
    w.expected.abandon();
    must(w.session.known() + tokens == known, "the new tokens are forgotten");
    ++seen_.abandoned;
  }

  naive::session::scores scores_of(std::size_t salt) const {
    return [this, salt](unsigned done, naive::token t) { return hashed_score(seed_, salt, done, t, coarse_); };
  }

  template <class Step>
  void leave(Step& step, const naive::session::scores& score) {
    const std::size_t n = plan_.active.size(), queries = std::max<std::size_t>(step.window(), 1);
    numbers_.assign(queries * n, -1.0f);
    for (std::size_t i = 0; i < n; ++i) numbers_[(queries - 1) * n + i] = as_evidence(score(plan_.layer + 1, plan_.active[i]));
    if (step.wants() == evidence_kind::attention)
      step.leave(attention_view{numbers_.data(), 1, n, plan_.active});
    else if (step.wants() == evidence_kind::window)
      step.leave(window_view{numbers_.data(), queries, 1, n, plan_.active});
    else if (step.wants() == evidence_kind::probes)
      step.leave(probe_view{numbers_.data() + (queries - 1) * n, step.probes().size(), n, plan_.active});
    else
      step.leave();
  }

  /// Makes a call out of order after `calls` calls of enter and leave.
  template <class Step>
  void misuse(world& w, Step& step, std::size_t calls) {
    const auto next = static_cast<layer_id>((calls + 1) / 2);
    if (calls % 2 == 1 && any_below(2)) {
      step.finish();  // inside a layer
    } else if (calls % 2 == 1 || any_below(2)) {
      const layer_plan& plan = step.enter(calls % 2 == 1 ? next : next + 1);
      must(plan.active.empty() && plan.rows.empty() && plan.output_rows == 0, "the plan of a layer out of order is empty");
    } else {
      step.leave();  // no layer is entered
    }
    const layer_plan& plan = step.enter(next);
    must(plan.active.empty() && !step.wants_scores(), "nothing goes on after a call out of order");
    step.finish();
    CHECK_THROWS_AS((void)w.session.begin({1}), error);
  }

  void compare(const world& w) const {
    compare_tokens(w);
    const statistics& seen = w.session.stats();
    const naive::counts& wanted = w.expected.counted;
    must(seen.steps == wanted.steps && seen.rows == wanted.rows && seen.dense_rows == wanted.dense_rows && seen.revived == wanted.revived &&
             seen.prefill_rows == wanted.prefill_rows && seen.prefill_dense_rows == wanted.prefill_dense_rows,
         "statistics");
  }

  void compare_tokens(const world& w) const {
    const frontier_table& tokens = w.session.tokens();
    must(tokens.known() == w.expected.known(), "known");
    std::set<std::uint32_t> stored, waiting;
    for (position t = 0; t < tokens.known(); ++t) {
      const layer_id frontier = tokens.frontier(t);
      for (layer_id l = 0; l < layers_; ++l) {
        must(w.expected.cached(l, t) == (l < frontier), "frontier");
        must(w.expected.stored(l, t) == (l == frontier && tokens.stored(t)), "stored");
        must(w.expected.waiting(l, t) == (l == frontier && tokens.waiting(t)), "waiting");
      }
      if (tokens.stored(t)) must(stored.insert(tokens.slot(t)).second && tokens.slot(t) < tokens.slots(), "a slot of its own");
      if (tokens.waiting(t)) must(waiting.insert(tokens.slot(t)).second && tokens.slot(t) < tokens.waiting_slots(), "a slot of its own");
    }
    must(stored.size() == tokens.stored_count() && waiting.size() == tokens.waiting_count(), "no slot is forgotten");
    must(std::ranges::equal(w.session.losses(), w.expected.losses()), "losses");
  }

  std::uint32_t seed_;
  number_source random_;
  events& seen_;
  naive::rules rules_;  // the rules of each world, without its policy
  any_store store_;
  bool coarse_;
  layer_id layers_;
  selection_scratch scratch_;
  std::vector<world> worlds_;
  layer_plan plan_{};
  std::vector<float> numbers_;
  std::size_t salt_ = 1000;
};

}  // namespace random_walk
