// SPDX-License-Identifier: MIT
// An engine without numbers. Its "hidden states" are labels, so that the input of every row can be checked. Its members are its memory, so
// a copy of the engine has a copy of the memory.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <lazyprune/core/evidence.hpp>
#include <lazyprune/session/step.hpp>

#include <doctest/doctest.h>

#include "naive_session.hpp"

/// A REQUIRE that costs nothing if the condition holds.
inline void must(bool fact, const char* what) {
  if (!fact) FAIL(std::string(what));  // doctest would print the address of a pointer
}

/// Returns a hash of the arguments as a score. It has 24 bits in [0, 1), or one of five values if `coarse`. Sometimes it is NaN or +inf.
inline float hashed_score(std::uint64_t seed, std::uint64_t step, std::uint64_t done, std::uint64_t t, bool coarse) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15u + step * 0xbf58476d1ce4e5b9u + done * 0x94d049bb133111ebu + t * 0xd6e8feb86659fd93u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  if (z % 97 == 0) return std::numeric_limits<float>::quiet_NaN();
  if (z % 31 == 0) return std::numeric_limits<float>::infinity();
  return coarse ? static_cast<float>(z % 5) : static_cast<float>(z >> 40) * 0x1p-24f;
}

/// Evidence must be finite, but scores need not be. as_evidence codes a score as a finite number, and as_score decodes it.
inline float as_evidence(float score) { return std::isnan(score) ? -1.0f : std::isinf(score) ? -2.0f : score; }
inline float as_score(float evidence) {
  if (evidence == -1.0f) return std::numeric_limits<float>::quiet_NaN();
  return evidence == -2.0f ? std::numeric_limits<float>::infinity() : evidence;
}

/// The memory of one sequence, and the operations by which an engine follows its session.
class labelled_engine {
 public:
  void begin(std::size_t new_tokens) {
    for (; new_tokens > 0; --new_tokens) names_.push_back(next_name_++);
  }

  /// Gathers the inputs of the plan's rows. Checks that each input belongs to this layer and token.
  naive::layer enter(const lazyprune::layer_plan& plan) {
    using origin = lazyprune::row_source::origin;
    naive::layer seen{{plan.active.begin(), plan.active.end()}, {plan.rows.begin(), plan.rows.end()}, {}, {}, plan.output_rows, 0};
    must(plan.sources.size() == plan.rows.size(), "each row has a source");
    std::vector<label> input;
    for (std::size_t i = 0; i < plan.rows.size(); ++i) {
      const auto [from, index] = plan.sources[i];
      if (from == origin::embedding) input.push_back({names_.at(index), 0});
      if (from == origin::carried) input.push_back(rows_.at(index));
      if (from == origin::stored) input.push_back(stored_.at(index));
      if (from == origin::waiting) input.push_back(waiting_.at(index));
      if (from == origin::stored) seen.revived.push_back(plan.rows[i]);
      if (from == origin::waiting) seen.waited.push_back(plan.rows[i]);
      must(input.back() == label{names_.at(plan.rows[i]), plan.layer}, "a row's input is the output of the layer before for that token");
    }
    rows_ = input;
    layer_ = plan.layer;
    std::size_t row = 0;
    for (const lazyprune::position t : plan.active) {
      while (row < plan.rows.size() && plan.rows[row] < t) ++row;
      const bool computed = row < plan.rows.size() && plan.rows[row] == t;
      must(cached(t, layer_) != computed, "an active token either has its keys already or is a row of this layer, never both");
    }
    return seen;
  }

  /// Ends the layer: caches the keys of its rows.
  void leave() {
    for (label& row : rows_) {
      keys_.insert({row.token, row.layer});
      ++row.layer;
    }
  }

  void save(std::span<const lazyprune::spill> spills) {
    using origin = lazyprune::row_source::origin;
    for (const lazyprune::spill& s : spills) {
      const label row = s.from == origin::waiting ? waiting_.at(s.row) : rows_.at(s.row);
      must(row.layer == layer_ + 1, "what is saved is an input of the next layer");
      std::vector<label>& memory = s.to == origin::waiting ? waiting_ : stored_;
      if (memory.size() <= s.slot) memory.resize(s.slot + 1, {0, 0});
      memory[s.slot] = row;
    }
  }

  /// Follows a truncation, an abandoned step or a take_over: forgets each token's keys at its frontier in `table` and at later layers.
  void follow(const lazyprune::frontier_table& table) {
    names_.resize(table.known());
    for (lazyprune::position t = 0; t < table.known(); ++t)
      keys_.erase(keys_.lower_bound({names_[t], table.frontier(t)}),
                  keys_.upper_bound({names_[t], std::numeric_limits<lazyprune::layer_id>::max()}));
  }
  void adopt(std::size_t tokens, lazyprune::layer_id layers) {
    for (begin(tokens); tokens > 0; --tokens)
      for (lazyprune::layer_id l = 0; l < layers; ++l) keys_.insert({names_[names_.size() - tokens], l});
  }

  std::size_t stored_rows() const { return stored_.size(); }
  std::size_t waiting_rows() const { return waiting_.size(); }
  std::size_t computed() const { return keys_.size(); }

  /// Runs a step of the session. `score(done, token)` is the attention that the engine shows. Returns the plans.
  template <class Session, class Score>
  std::vector<naive::layer> step(Session& session, const lazyprune::step_request& request, Score&& score) {
    auto step = session.begin(request);
    begin(request.tokens);
    std::vector<naive::layer> plans;
    std::vector<float> attention;
    for (lazyprune::layer_id l = 0; l < step.layers(); ++l) {
      const lazyprune::layer_plan& plan = step.enter(l);
      plans.push_back(enter(plan));
      attention.clear();
      for (const lazyprune::position t : plan.active) attention.push_back(score(l + 1, t));
      if (step.wants_scores())
        step.leave(lazyprune::evidence(lazyprune::attention_view{attention.data(), 1, attention.size(), plan.active}));
      else
        step.leave();
      leave();
      save(step.spills());
    }
    step.finish();
    return plans;
  }

 private:
  struct label {
    unsigned token;             // its name, unique even if another token had this position before
    lazyprune::layer_id layer;  // the hidden state is the input of this layer
    friend bool operator==(const label&, const label&) = default;
  };

  bool cached(lazyprune::position t, lazyprune::layer_id layer) const { return keys_.count({names_.at(t), layer}) > 0; }

  std::vector<unsigned> names_;  // (known)
  unsigned next_name_ = 0;
  std::vector<label> rows_, stored_, waiting_;
  std::set<std::pair<unsigned, lazyprune::layer_id>> keys_;
  lazyprune::layer_id layer_ = 0;
};
