// SPDX-License-Identifier: MIT
// Runs a batch of sequences for `bench`: one step reads all prompts, then every step generates one token per sequence.
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

/// Adds up memory and rows over all sequences of a batch.
class batch_watch final : public step_observer {
 public:
  /// Returns the peak memory, measured at the end of each layer. Its `scratch` has only the waiting rows (layer_end::waiting_bytes).
  const memory_use& most() const { return memory_.most(); }
  /// The number of active tokens, summed over layers, sequences and steps.
  std::size_t kv_rows() const { return kv_rows_; }
  /// The sum of layer_end::scored_pairs over layers, sequences and steps.
  std::size_t scored_pairs() const { return scored_pairs_; }

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
    scored_pairs_ += end.scored_pairs;
  }

 private:
  void enter(layer_id layer) {
    layer_ = layer;
    together_ = {};
  }

  layer_id layer_ = 0;
  layer_end together_{};  // sums over the sequences that have computed layer_
  memory_watch memory_;
  std::size_t kv_rows_ = 0;
  std::size_t scored_pairs_ = 0;
};

/// Calls `wait` when a section of a step begins and when it ends. Put this observer before the step_timer in a list of observers, so that
/// the timer sees finished work. An empty `wait` does nothing.
class waiting_observer final : public step_observer {
 public:
  explicit waiting_observer(const std::function<void()>& wait) : wait_(wait) {}

  void section_begins(step_section) override { wait(); }
  void section_ends(step_section) override { wait(); }
  void wait() const {
    if (wait_) wait_();
  }

 private:
  const std::function<void()>& wait_;
};

/// Generates greedily in one new sequence per session. All prompts are read in one batch; each of the `steps` decode steps is a batch, too.
/// On a GPU, operations return before they are done. Pass a `wait` that blocks until they are done: without it, the times of the prefill's
/// sections are wrong. With it, the whole prefill is slower. Throws `error` if a logit is not finite. Also throws what lazyprune::forward
/// throws.
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
  std::vector<sequence<Backend>> sequences;
  sequences.reserve(count);
  std::vector<sequence_step<Backend>> batch;
  std::size_t most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sequences.emplace_back(work.model(), std::move(sessions[i]));
    sequences.back().expect(prompts[i].size() + steps);
    sequences.back().make_room(prompts[i].size() + steps);
    batch.push_back({sequences.back(), prompts[i], phase::prefill, 1, &in_prefill});
    result.tokens[i].reserve(steps + 1);
    most = std::max(most, prompts[i].size() + steps);
  }

  std::size_t prefill_kv_rows = 0;
  in_one_team(work.backend(), [&] {
    for (std::size_t k = 0; k <= steps; ++k) {
      const auto start = clock::now();
      if (k == 0) work.reserve(most);
      if (!forward(work, batch)) return;
      if (k == 0) waits.wait();
      timer.section_begins(step_section::logits);
      const auto logits = read_logits(work, 0, count);
      timer.section_ends(step_section::logits);
      if (!std::ranges::all_of(logits, [](auto l) { return is_finite(l); }))
        throw error("model", "step " + std::to_string(k) + ": logits", "finite numbers", "infinity or NaN");
      for (std::size_t i = 0; i < count; ++i) result.tokens[i].push_back(greedy(logits.subspan(i * vocabulary, vocabulary)));
      (k == 0 ? result.prefill_seconds : result.decode_seconds) += std::chrono::duration<double>(clock::now() - start).count();
      if (k == 0) {
        result.sections = timer.seconds();
        prefill_kv_rows = watch.kv_rows();
        result.scored_pairs = watch.scored_pairs();
      }
      for (std::size_t i = 0; i < count; ++i) batch[i] = {sequences[i], std::span(result.tokens[i]).last(1), phase::decode, 1, &watch};
    }
  });
  if (steps > 0) result.step_kv_rows = static_cast<double>(watch.kv_rows() - prefill_kv_rows) / static_cast<double>(steps);
  for (const sequence<Backend>& seq : sequences) result.prefill_rows.push_back(seq.session().stats().prefill_rows);
  result.memory = watch.most();
  result.memory.scratch += work.bytes(most);
  return result;
}

}  // namespace program
}  // namespace lazyprune
