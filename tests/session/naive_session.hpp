// SPDX-License-Identifier: MIT
// LazyLLM's bookkeeping a second time, as the paper draws it (Figure 4): per layer a dictionary of cached tokens and a dictionary of
// stored hidden states. Slow and obvious; what the session is held against.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <vector>

namespace naive {

using token = unsigned;

/// One pruning run. `score(layer, token)` is the score after that many layers of the step in progress.
struct rules {
  unsigned layers;
  std::function<std::size_t(unsigned done, std::size_t active, std::size_t known, bool prefill)> count;  // 0: does not prune
  unsigned keep_first = 0, keep_last = 0;
  bool before_first_layer = false;  // may drop tokens before layer 0
  enum { keep_all, bounded, none, chosen } store = keep_all;
  std::size_t store_rows = 0;                                       // bounded
  std::function<bool(token t, std::size_t rows)> admits = nullptr;  // chosen: is there a place for t, one of so many rows
};

struct layer {
  std::vector<token> active, rows, revived;
};

class session {
 public:
  explicit session(rules r) : rules_(std::move(r)), kv_(rules_.layers), aux_(rules_.layers + 1) {}

  std::vector<layer> step(std::size_t new_tokens, bool prefill, const std::function<float(unsigned done, token t)>& score) {
    known_ += static_cast<token>(new_tokens);
    std::set<token> active;
    for (token t = 0; t < known_; ++t) active.insert(t);
    std::set<token> carried;
    active = choose(0, active, carried, prefill, score);
    std::vector<layer> result;
    for (unsigned l = 0; l < rules_.layers; ++l) {
      layer now{{active.begin(), active.end()}, {}, {}};
      std::set<token> computed;
      for (const token t : active) {
        if (kv_[l].count(t)) continue;
        now.rows.push_back(t);
        if (l > 0 && !carried.count(t)) {
          now.revived.push_back(t);
          aux_[l].erase(t);
        }
        kv_[l].insert(t);
        computed.insert(t);
      }
      carried = computed;
      result.push_back(now);
      if (l + 1 < rules_.layers) active = choose(l + 1, active, carried, prefill, score);
    }
    return result;
  }

  bool cached(unsigned l, token t) const { return kv_[l].count(t) > 0; }
  bool stored(unsigned l, token t) const { return aux_[l].count(t) > 0; }

 private:
  std::set<token> choose(unsigned done, const std::set<token>& active, const std::set<token>& carried, bool prefill,
                         const std::function<float(unsigned, token)>& score) {
    // Who could go on: its keys are there already, or its hidden state is at hand or stored.
    std::vector<token> able;
    for (const token t : active)
      if (kv_[done].count(t) || (done == 0 ? !gone_.count(t) : carried.count(t) || aux_[done].count(t))) able.push_back(t);
    const std::size_t want = done == 0 && !rules_.before_first_layer ? 0 : rules_.count(done, active.size(), known_, prefill);
    if (want == 0) return {able.begin(), able.end()};

    const auto required = [&](token t) { return t + 1 == known_ || t < rules_.keep_first || t + rules_.keep_last >= known_; };
    std::vector<token> order = able;
    std::sort(order.begin(), order.end(), [&](token a, token b) {
      if (required(a) != required(b)) return required(a);
      const float x = score(done, a), y = score(done, b);
      const float u = std::isnan(x) ? -INFINITY : x, v = std::isnan(y) ? -INFINITY : y;
      return u != v ? u > v : a > b;
    });
    const std::size_t must = static_cast<std::size_t>(std::count_if(able.begin(), able.end(), required));
    const std::size_t keep = std::min(able.size(), std::max(want, must));
    const std::set<token> kept(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(keep));

    std::vector<token> dropped(order.begin() + static_cast<std::ptrdiff_t>(keep), order.end());
    std::vector<token> embeddings;
    bool arrivals = false;
    for (const token t : dropped) {
      const float s = std::isnan(score(done, t)) ? -INFINITY : score(done, t);
      for (auto& states : aux_)
        if (states.count(t)) states[t] = s;
      if (done > 0 && !kv_[done].count(t) && !aux_[done].count(t)) {
        aux_[done][t] = s;
        arrivals = true;
      }
      if (done == 0 && !kv_[0].count(t)) embeddings.push_back(t);
    }
    for (const token t : embeddings)
      if (rules_.store == rules::none || (rules_.store == rules::chosen && !rules_.admits(t, embeddings.size()))) gone_.insert(t);
    if (arrivals && rules_.store == rules::none)
      for (auto& states : aux_) states.clear();
    if (arrivals && rules_.store == rules::bounded) evict(done, kept);
    if (arrivals && rules_.store == rules::chosen) choose_stored(done, kept);
    return kept;
  }

  /// Rows about to be read stay, whatever the rule.
  void choose_stored(unsigned done, const std::set<token>& kept) {
    std::size_t rows = 0;
    for (const auto& states : aux_) rows += states.size();
    for (unsigned l = 0; l < aux_.size(); ++l)
      std::erase_if(aux_[l],
                    [&](const auto& state) { return !(l == done && kept.count(state.first)) && !rules_.admits(state.first, rows); });
  }

  /// Rows about to be read stay; of the others the least goes first, among equals the earlier position.
  void evict(unsigned done, const std::set<token>& kept) {
    for (;;) {
      std::size_t rows = 0;
      std::map<std::pair<float, token>, unsigned> by_score;
      for (unsigned l = 0; l < aux_.size(); ++l)
        for (const auto& [t, s] : aux_[l]) {
          ++rows;
          if (!(l == done && kept.count(t))) by_score[{s, t}] = l;
        }
      if (rows <= rules_.store_rows || by_score.empty()) return;
      const auto& [key, l] = *by_score.begin();
      aux_[l].erase(key.second);
    }
  }

  rules rules_;
  token known_ = 0;
  std::vector<std::set<token>> kv_;          // by layer
  std::vector<std::map<token, float>> aux_;  // input of a layer, and the score at the last drop
  std::set<token> gone_;                     // dropped before layer 0, never to come back
};

}  // namespace naive
