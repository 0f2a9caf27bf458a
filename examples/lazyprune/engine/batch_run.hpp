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
  /// The sum of layer_end::scored_pairs over layers, sequences and steps.
  std::size_t scored_pairs() const { return scored_pairs_; }

  void step_begins(std::span<const token_id>, std::size_t) override { enter(0); }
  void layer_begins(const layer_plan& plan) override {
    if (plan.layer != layer_) enter(plan.layer);
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
  std::size_t scored_pairs_ = 0;
};

/// Adds up the work of each layer of each step over the sequences of a batch.
class work_watch final : public step_observer {
 public:
  explicit work_watch(const model_config& config) : config_(config) {}

  /// (steps, layers)
  std::vector<layer_work> take() { return std::move(layers_); }

  void step_begins(std::span<const token_id>, std::size_t) override { layer_ = none; }
  void layer_begins(const layer_plan& plan) override {
    if (plan.layer != layer_) layers_.emplace_back();
    layer_ = plan.layer;
    layer_work& work = layers_.back();
    work.rows += plan.rows.size();
    work.outputs += plan.output_rows;
    const std::size_t window = config_.window(plan.layer);
    const auto up_to = [&](std::size_t end) {  // the number of active tokens before position `end`
      return static_cast<std::size_t>(std::ranges::lower_bound(plan.active, end) - plan.active.begin());
    };
    const auto unseen = [&](position row) { return window == 0 || row < window ? 0 : up_to(row - window + 1); };
    const auto outputs = plan.rows.last(plan.output_rows);
    for (const position row : outputs) work.pairs += up_to(std::size_t{row} + 1) - unseen(row);
    if (!outputs.empty()) work.keys += plan.active.size() - unseen(outputs.front());
  }

 private:
  static constexpr auto none = static_cast<layer_id>(-1);

  const model_config& config_;
  layer_id layer_ = none;
  std::vector<layer_work> layers_;
};

/// Calls wait(section) when a section of a step begins and when it ends. Put this observer before the step_timer in a list of observers, so
/// that the timer sees finished work. An empty `wait` does nothing.
class waiting_observer final : public step_observer {
 public:
  explicit waiting_observer(const std::function<void(step_section)>& wait) : wait_(wait) {}

  void section_begins(step_section section) override { wait(section); }
  void section_ends(step_section section) override { wait(section); }
  void wait(step_section section) const {
    if (wait_) wait_(section);
  }

 private:
  const std::function<void(step_section)>& wait_;
};

/// Generates greedily in one new sequence per session. All prompts are read in one batch; each of the `steps` decode steps is a batch, too.
/// On a GPU, operations return before they are done. Pass a `wait` that blocks until they are done. If it does not
/// block for a section, the time of this section is wrong. Each wait makes the prefill slower. Throws `error` if a logit is not finite.
/// Also throws what lazyprune::forward throws.
template <tensor_backend Backend>
batch_run run_batch(workspace<Backend>& work, std::vector<any_session> sessions, std::span<const std::vector<token_id>> prompts,
                    std::size_t steps, const std::function<void(step_section)>& wait = {}) {
  using clock = std::chrono::steady_clock;
  const std::size_t count = prompts.size(), vocabulary = work.model().config.vocabulary;
  batch_run result;
  result.tokens.resize(count);
  batch_watch watch;
  step_timer timer;
  waiting_observer waits(wait);
  work_watch of_steps(work.model().config);
  step_observers in_prefill{&watch, &waits, &timer}, in_decode{&watch, &of_steps};
  std::vector<sequence<Backend>> sequences;
  sequences.reserve(count);
  std::vector<sequence_step<Backend>> batch;
  std::size_t most = 0, rows = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sequences.emplace_back(work.model(), std::move(sessions[i]));
    sequences.back().expect(prompts[i].size() + steps);
    sequences.back().make_room(prompts[i].size() + steps);
    batch.push_back({sequences.back(), prompts[i], phase::prefill, 1, &in_prefill});
    result.tokens[i].reserve(steps + 1);
    most = std::max(most, prompts[i].size() + steps);
    rows += prompts[i].size();
  }
  // An engine makes this room once for many prompts, so it is not timed.
  work.reserve({.tokens = most, .rows = rows, .outputs = count});

  in_one_team(work.backend(), [&] {
    for (std::size_t k = 0; k <= steps; ++k) {
      const auto start = clock::now();
      if (!forward(work, batch)) return;
      if (k == 0) waits.wait(step_section::logits);
      timer.section_begins(step_section::logits);
      const auto logits = read_logits(work, 0, count);
      timer.section_ends(step_section::logits);
      if (!std::ranges::all_of(logits, [](auto l) { return is_finite(l); }))
        throw error("model", "step " + std::to_string(k) + ": logits", "finite numbers", "infinity or NaN");
      for (std::size_t i = 0; i < count; ++i) result.tokens[i].push_back(greedy(logits.subspan(i * vocabulary, vocabulary)));
      (k == 0 ? result.prefill_seconds : result.decode_seconds) += std::chrono::duration<double>(clock::now() - start).count();
      if (k == 0) {
        result.sections = timer.seconds();
        result.scored_pairs = watch.scored_pairs();
      }
      for (std::size_t i = 0; i < count; ++i) batch[i] = {sequences[i], std::span(result.tokens[i]).last(1), phase::decode, 1, &in_decode};
    }
  });
  result.step_layers = of_steps.take();
  for (const sequence<Backend>& seq : sequences) result.prefill_rows.push_back(seq.session().stats().prefill_rows);
  result.memory = watch.most();
  result.memory.scratch += work.bytes(most);
  return result;
}

}  // namespace program
}  // namespace lazyprune
