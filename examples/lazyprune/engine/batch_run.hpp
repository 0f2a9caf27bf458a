// SPDX-License-Identifier: MIT
// Sequences that read their prompts together and then generate a token each a step: what bench measures.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.hpp"

#include <lazyprune/core/finite.hpp>
#include <lazyprune/model/transformer.hpp>

namespace lazyprune {
namespace program {

/// Watches the sequences of a batch as one.
class batch_watch final : public step_observer {
 public:
  /// The most at the end of any layer; of the scratch it has the rows that wait.
  const memory_use& most() const { return memory_.most(); }
  /// Active tokens over layers, sequences and steps.
  std::size_t kv_rows() const { return kv_rows_; }

  void step_begins(std::span<const token_id>, std::size_t) override { enter(0); }
  void layer_begins(const layer_plan& plan) override {
    if (plan.layer != layer_) enter(plan.layer);
    kv_rows_ += plan.active.size();
  }
  void layer_ends(const layer_end& end) override {
    together_.kv_bytes += end.kv_bytes;
    together_.stored_bytes += end.stored_bytes;
    together_.waiting_bytes += end.waiting_bytes;
    memory_.layer_ends(together_);
  }

 private:
  void enter(layer_id layer) {
    layer_ = layer;
    together_ = {};
  }

  layer_id layer_ = 0;
  layer_end together_{};  // of the sequences that have left the layer
  memory_watch memory_;
  std::size_t kv_rows_ = 0;
};

/// Before each part of a step begins, and before it counts as ended.
class waiting_observer final : public step_observer {
 public:
  explicit waiting_observer(const std::function<void()>& wait) : wait_(wait) {}

  void part_begins(step_part) override { wait(); }
  void part_ends(step_part) override { wait(); }
  void wait() const {
    if (wait_) wait_();
  }

 private:
  const std::function<void()>& wait_;
};

/// Generates greedily in new sequences, one a session: the prompts are one batch, and so is each of `steps` steps that follow. Where
/// operations return before they are done, a prefill's parts take what they take only with `wait`, which waits for them, and the whole then
/// takes longer. Throws `error` where the model yields logits that are no numbers, and as lazyprune::forward does.
template <tensor_backend Backend>
batch_run run_batch(workspace<Backend>& work, std::vector<any_session> sessions, std::span<const std::vector<token_id>> prompts,
                    std::size_t steps, const std::function<void()>& wait = {}) {
  using clock = std::chrono::steady_clock;
  const std::size_t count = prompts.size(), vocabulary = work.model().config.vocabulary;
  batch_run result;
  result.tokens.resize(count);
  batch_watch watch;
  step_timer timer;
  waiting_observer waits(wait);
  step_observers in_prefill{&watch, &waits, &timer};
  std::vector<sequence<Backend>> texts;
  texts.reserve(count);
  std::vector<sequence_step<Backend>> batch;
  std::size_t most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    texts.emplace_back(work.model(), std::move(sessions[i]));
    texts.back().expect(prompts[i].size() + steps);
    texts.back().make_room(prompts[i].size() + steps);
    batch.push_back({texts.back(), prompts[i], phase::prefill, 1, &in_prefill});
    result.tokens[i].reserve(steps + 1);
    most = std::max(most, prompts[i].size() + steps);
  }

  std::size_t prefill_kv_rows = 0;
  for (std::size_t k = 0; k <= steps; ++k) {
    const auto start = clock::now();
    if (k == 0) work.reserve(most);
    if (!forward(work, batch)) break;
    if (k == 0) waits.wait();
    timer.part_begins(step_part::logits);
    const auto logits = read_logits(work, 0, count);
    timer.part_ends(step_part::logits);
    if (!std::ranges::all_of(logits, [](auto l) { return is_finite(l); }))
      throw error("model", "step " + std::to_string(k) + ": logits", "finite numbers", "others");
    for (std::size_t i = 0; i < count; ++i) result.tokens[i].push_back(greedy(logits.subspan(i * vocabulary, vocabulary)));
    (k == 0 ? result.prefill_seconds : result.decode_seconds) += std::chrono::duration<double>(clock::now() - start).count();
    if (k == 0) {
      result.parts = timer.seconds();
      prefill_kv_rows = watch.kv_rows();
    }
    for (std::size_t i = 0; i < count; ++i) batch[i] = {texts[i], std::span(result.tokens[i]).last(1), phase::decode, 1, &watch};
  }
  if (steps > 0) result.step_kv_rows = static_cast<double>(watch.kv_rows() - prefill_kv_rows) / static_cast<double>(steps);
  for (const sequence<Backend>& text : texts) result.prefill_rows.push_back(text.session().stats().prefill_rows);
  result.memory = watch.most();
  result.memory.scratch += work.bytes(most);
  return result;
}

}  // namespace program
}  // namespace lazyprune
