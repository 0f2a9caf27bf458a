// SPDX-License-Identifier: MIT
// A second implementation of LazyLLM's bookkeeping, as the paper draws it (Figure 4). Each layer has a set of cached tokens, a dictionary
// of stored hidden states, and a set of waiting rows. This implementation is slow and simple. Tests compare the session with it.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <vector>

namespace naive {

using token = unsigned;

/// The rules of one pruning method.
struct rules {
  unsigned layers;
  // How many tokens go on. 0: no pruning; with_keys: the tokens that have keys in the next layer, and the required ones.
  std::function<std::size_t(unsigned done, std::size_t active, std::size_t known, bool prefill)> count;
  static constexpr std::size_t with_keys = static_cast<std::size_t>(-1);
  unsigned keep_first = 0, keep_last = 0;
  bool before_first_layer = false;                     // may drop tokens before layer 0
  bool sums = false;                                   // a score sums the layers where the token was active, without the model's last
  std::function<bool(unsigned layer)> adds = nullptr;  // with sums: whether this layer's scores are added; null: all are
  enum { keep_all, bounded, none, for_good, chosen } store = keep_all;
  std::size_t store_rows = 0;                                       // the size of a bounded store
  std::function<bool(token t, std::size_t rows)> admits = nullptr;  // for chosen: whether t, one of `rows` rows, gets a slot
  std::function<unsigned(bool prefill)> chunk_layers = nullptr;     // the number of layers that a chunk runs
  // The evidence of each layer is the attention of the last `window` tokens, without tokens that the last step with outputs knew. 0 means
  // that no rows are evidence.
  unsigned window = 0;
};

struct layer {
  std::vector<token> active, rows, revived, waited;
  std::size_t output_rows = 0;
  std::size_t evidence_rows = 0;  // the number of rows whose attention is the evidence; 0 in a chunk, and if rules::window is 0
  friend bool operator==(const layer&, const layer&) = default;
};

struct counts {
  std::size_t steps = 0, rows = 0, dense_rows = 0, revived = 0;
  std::vector<std::size_t> prefill_rows, prefill_dense_rows;
};

class session {
 public:
  using scores = std::function<float(unsigned done, token t)>;

  explicit session(rules r) : rules_(std::move(r)), kv_(rules_.layers), aux_(rules_.layers + 1), wait_(rules_.layers + 1) {
    counted.prefill_rows.resize(rules_.layers);
    counted.prefill_dense_rows.resize(rules_.layers);
  }

  counts counted;

  /// Runs a whole step with one output. `score(done, token)` is the token's score after `done` layers of the step.
  std::vector<layer> step(std::size_t new_tokens, bool prefill, const scores& score) {
    begin(new_tokens, prefill, 1);
    std::vector<layer> plans;
    for (unsigned l = 0; l < layers(); ++l) {
      plans.push_back(enter(score));
      leave(score);
    }
    finish();
    return plans;
  }

  void begin(std::size_t new_tokens, bool prefill, std::size_t outputs) {
    known_ += static_cast<token>(new_tokens);
    new_ = static_cast<token>(new_tokens);
    prefill_ = prefill;
    outputs_ = outputs;
    queried_ |= outputs > 0;
    next_ = 0;
    carried_.clear();
    losses_.clear();
    count_dense(new_, true);
  }

  /// The number of layers in the current step.
  unsigned layers() const { return outputs_ > 0 ? rules_.layers : rules_.chunk_layers(prefill_); }

  layer enter(const scores& score) {
    all_is_saved();
    const unsigned l = next_;
    if (l == 0) {
      active_.clear();
      for (token t = 0; t < (outputs_ > 0 ? known_ : chunk_end()); ++t)
        if (!left_out_.count(t)) active_.insert(t);
      if (outputs_ > 0 && rules_.before_first_layer)
        choose(score);
      else
        keep_able();
    }
    layer now{{active_.begin(), active_.end()}, {}, {}, {}, 0, 0};
    for (token t = first_evidence_row(); rules_.window > 0 && outputs_ > 0 && t < known_; ++t) now.evidence_rows += !left_out_.count(t);
    for (const token t : active_) {
      if (kv_[l].count(t)) continue;
      now.rows.push_back(t);
      if (aux_[l].count(t)) now.revived.push_back(t);
      if (wait_[l].count(t)) now.waited.push_back(t);
    }
    now.output_rows = l + 1 == rules_.layers ? outputs_ : now.rows.size();
    rows_ = now.rows;
    counted.rows += now.rows.size();
    counted.revived += now.revived.size();
    if (prefill_) counted.prefill_rows[l] += now.rows.size();
    return now;
  }

  /// If `score` is empty, nothing is dropped.
  void leave(const scores& score) {
    const unsigned l = next_++;
    carried_.clear();
    for (const token t : rows_) {
      kv_[l].insert(t);
      aux_[l].erase(t);
      wait_[l].erase(t);
      carried_.insert(t);
    }
    if (next_ == rules_.layers) return;
    if (outputs_ > 0) {
      if (score && rules_.sums)
        for (const token t : active_) sums_[t] += !rules_.adds || rules_.adds(l) ? score(next_, t) : 0.0f;
      if (score)
        choose(score);
      else
        keep_able();
    } else if (next_ == layers()) {
      for (const token t : carried_) {
        wait_[next_].insert(t);
        unsaved_[t] = next_;
      }
    } else {
      keep_able();
    }
  }

  void finish() {
    all_is_saved();
    if (outputs_ > 0) asked_to_ = known_;
    ++counted.steps;
  }

  void abandon() {
    for (const auto& [t, l] : unsaved_) aux_[l].erase(t);
    for (const auto& [t, l] : unsaved_)
      if (!moving_.count(t)) wait_[l].erase(t);
    unsaved_.clear();
    moving_.clear();
    refused_.clear();
    count_dense(new_, false);
    truncate(known_ - new_);
  }

  void truncate(std::size_t n) {
    const auto first = static_cast<token>(n);
    const auto late = [&](const auto& entry) {
      if constexpr (requires { entry.first; })
        return entry.first >= first;
      else
        return entry >= first;
    };
    for (auto& keys : kv_) std::erase_if(keys, late);
    for (auto& states : aux_) std::erase_if(states, late);
    for (auto& states : wait_) std::erase_if(states, late);
    std::erase_if(gone_, late);
    std::erase_if(left_out_, late);
    std::erase_if(losses_, late);
    std::erase_if(sums_, late);
    known_ = first;
    queried_ &= known_ > 0;
    asked_to_ = std::min(asked_to_, first);
    while (!queried_ && asked_to_ > 0 && !kv_.back().count(asked_to_ - 1)) --asked_to_;  // back to the last adopted token that is left
    forget_tail();
  }

  void adopt(std::size_t tokens) {
    if (tokens == 0) return;
    for (; tokens > 0; --tokens, ++known_)
      for (auto& keys : kv_) keys.insert(known_);
    asked_to_ = known_;
  }

  /// Returns true if take_over(other) is allowed. `other` must have run only chunks, each with at most as many layers as a chunk of this
  /// session. Each token must have no keys, or all keys, or a waiting row. take_over forgets the keys of the tokens from `end` on, so these
  /// tokens are not checked.
  bool may_take_over(const session& other) const {
    if (other.queried_) return false;
    const token end =
        rules_.window == 0 ? other.known_ : std::max(other.asked_to_, other.known_ - std::min(other.known_, rules_.window - 1));
    for (token t = 0; t < end; ++t) {
      unsigned frontier = 0;
      while (frontier < rules_.layers && other.cached(frontier, t)) ++frontier;
      const bool at_hand = frontier == 0 || frontier == rules_.layers || other.waiting(frontier, t);
      if (frontier > rules_.chunk_layers(true) || !at_hand) return false;
    }
    return true;
  }
  session anew() const { return session(rules_); }
  void take_over(const session& other) {
    known_ = other.known_;
    kv_ = other.kv_;
    wait_ = other.wait_;
    counted = other.counted;
    asked_to_ = other.asked_to_;
    forget_tail();
  }

  std::size_t known() const { return known_; }
  bool cached(unsigned l, token t) const { return kv_[l].count(t) > 0; }
  bool stored(unsigned l, token t) const { return aux_[l].count(t) > 0; }
  bool waiting(unsigned l, token t) const { return wait_[l].count(t) > 0; }  // true also for a refused row, until the spills are saved
  const std::set<token>& losses() const { return losses_; }

  token first_evidence_row() const { return std::max(asked_to_, known_ - std::min(known_, rules_.window)); }

 private:
  void count_dense(std::size_t tokens, bool more) {
    const auto add = [&](std::size_t& sum, std::size_t n) { sum = more ? sum + n : sum - n; };
    add(counted.dense_rows, tokens * rules_.layers);
    if (prefill_)
      for (std::size_t& sum : counted.prefill_dense_rows) add(sum, tokens);
  }

  /// Returns the first token that a chunk leaves for a later step. The evidence of that step may include the attention of this token and of
  /// later tokens, at every layer.
  token chunk_end() const { return rules_.window == 0 ? known_ : std::max(asked_to_, known_ - std::min(known_, rules_.window - 1)); }
  void forget_tail() {
    for (token t = chunk_end(); t < known_; ++t) {
      if (left_out_.count(t) || !kv_[0].count(t)) continue;
      for (auto& keys : kv_) keys.erase(t);
      for (auto& states : aux_) states.erase(t);
      for (auto& states : wait_) states.erase(t);
      sums_.erase(t);
    }
  }

  /// Marks all spills as saved, and frees the slots of the waiting rows that moved.
  void all_is_saved() {
    for (const auto* leaving : {&moving_, &refused_})
      for (const auto& [t, l] : *leaving) wait_[l].erase(t);
    moving_.clear();
    refused_.clear();
    unsaved_.clear();
  }

  /// Returns true if the token can enter the next layer: it has keys there, or its hidden state is carried, stored or waiting.
  bool able(token t) const {
    if (kv_[next_].count(t)) return true;
    if (next_ == 0) return !gone_.count(t);
    return carried_.count(t) || aux_[next_].count(t) || (wait_[next_].count(t) && !refused_.count(t));
  }
  void keep_able() {
    std::erase_if(active_, [&](token t) { return !able(t); });
  }

  float score_of(const scores& score, token t) const {
    const float s = rules_.sums ? sums_.at(t) : score(next_, t);
    return std::isnan(s) ? -INFINITY : s;
  }

  void choose(const scores& score) {
    const unsigned done = next_;
    const std::size_t want = rules_.count(done, active_.size(), known_, prefill_);
    keep_able();
    if (want == 0) return;
    if (want == rules::with_keys) return keep_with_keys();

    const auto required = [&](token t) {
      if (rules_.window > 0 && t >= first_evidence_row()) return true;
      return t + outputs_ >= known_ || t < rules_.keep_first || t + rules_.keep_last >= known_;
    };
    std::vector<token> order(active_.begin(), active_.end());
    std::sort(order.begin(), order.end(), [&](token a, token b) {
      if (required(a) != required(b)) return required(a);
      const float u = score_of(score, a), v = score_of(score, b);
      return u != v ? u > v : a > b;
    });
    const auto must = static_cast<std::size_t>(std::count_if(order.begin(), order.end(), required));
    const std::size_t keep = std::min(order.size(), std::max(want, must));
    drop({order.begin() + static_cast<std::ptrdiff_t>(keep), order.end()}, [&](token t) { return score_of(score, t); });
  }

  void keep_with_keys() {
    std::vector<token> dropped;
    for (const token t : active_)
      if (!kv_[next_].count(t) && t + outputs_ < known_ && (rules_.window == 0 || t < first_evidence_row())) dropped.push_back(t);
    drop(dropped, [&](token t) {
      for (const auto& states : aux_)
        if (const auto at = states.find(t); at != states.end()) return at->second;
      return 0.0f;
    });
  }

  void drop(const std::vector<token>& dropped, const std::function<float(token t)>& score) {
    const unsigned done = next_;
    for (const token t : dropped) active_.erase(t);

    if (rules_.store == rules::for_good) {
      for (const token t : dropped) {
        left_out_.insert(t);
        losses_.insert(t);
        for (auto& states : aux_) states.erase(t);
        for (auto& states : wait_) states.erase(t);
      }
      return;
    }
    std::vector<token> arrivals;
    for (const token t : dropped) {
      for (auto& states : aux_)
        if (states.count(t)) states[t] = score(t);
      if (!kv_[done].count(t) && (done == 0 || !aux_[done].count(t))) arrivals.push_back(t);
    }
    if (done == 0) {
      for (const token t : arrivals) {
        if (rules_.store != rules::none && !(rules_.store == rules::chosen && !rules_.admits(t, arrivals.size()))) continue;
        gone_.insert(t);
        losses_.insert(t);
      }
      return;
    }
    for (const token t : arrivals) aux_[done][t] = score(t);
    if (arrivals.empty()) return;
    if (rules_.store == rules::none)
      for (auto& states : aux_) states.clear();
    if (rules_.store == rules::bounded) evict();
    if (rules_.store == rules::chosen) choose_stored();
    for (const token t : arrivals) {
      const bool admitted = aux_[done].count(t) > 0, waited = wait_[done].count(t) > 0;
      if (admitted) unsaved_[t] = done;
      if (admitted && waited) moving_[t] = done;
      if (!admitted && waited) refused_[t] = done;
    }
  }

  /// Returns true if the row is about to be read. Such a row stays under every rule.
  bool read_next(unsigned l, token t) const { return l == next_ && active_.count(t); }

  void choose_stored() {
    std::size_t rows = 0;
    for (const auto& states : aux_) rows += states.size();
    for (unsigned l = 0; l < aux_.size(); ++l)
      std::erase_if(aux_[l], [&](const auto& state) { return !read_next(l, state.first) && !rules_.admits(state.first, rows); });
  }

  /// Evicts rows in the order of their scores, the lowest first. Among equal scores the earlier position goes first.
  void evict() {
    for (;;) {
      std::size_t rows = 0;
      std::map<std::pair<float, token>, unsigned> by_score;
      for (unsigned l = 0; l < aux_.size(); ++l)
        for (const auto& [t, s] : aux_[l]) {
          ++rows;
          if (!read_next(l, t)) by_score[{s, t}] = l;
        }
      if (rows <= rules_.store_rows || by_score.empty()) return;
      const auto& [key, l] = *by_score.begin();
      aux_[l].erase(key.second);
    }
  }

  rules rules_;
  token known_ = 0;
  std::vector<std::set<token>> kv_;          // by layer
  std::vector<std::map<token, float>> aux_;  // by layer: the stored inputs, each with the token's score when it was last dropped
  std::vector<std::set<token>> wait_;        // by layer: the waiting inputs
  std::set<token> gone_;                     // dropped before layer 0 and lost
  std::set<token> left_out_;                 // dropped for good
  std::set<token> losses_;                   // lost since the last begin
  std::map<token, float> sums_;
  bool queried_ = false;  // true after a step with outputs
  token asked_to_ = 0;    // the number of tokens known after the last step with outputs, or after a later `adopt`

  // The step in progress.
  token new_ = 0;
  bool prefill_ = true;
  std::size_t outputs_ = 1;
  unsigned next_ = 0;  // the layer entered, or to be entered next
  std::set<token> active_, carried_;
  std::vector<token> rows_;
  std::map<token, unsigned> unsaved_;  // hidden states to save before the next layer is entered, each with the layer whose input it is
  std::map<token, unsigned> moving_;   // the unsaved hidden states that still hold a slot of the waiting rows
  std::map<token, unsigned> refused_;  // waiting rows that the store refused
};

}  // namespace naive
