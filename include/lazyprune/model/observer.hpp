// SPDX-License-Identifier: MIT
// Observers look on while a step runs: they record what it did and what it took in time and memory. A step that nobody looks at pays for
// checks of a null pointer and reads no clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <lazyprune/core/finite.hpp>
#include <lazyprune/core/plan.hpp>
#include <lazyprune/session/any_session.hpp>
#include <lazyprune/session/trace.hpp>

namespace lazyprune {
inline namespace v0 {

/// What a step's time is divided into; the rest passes in the linear layers, norms and rotations.
enum class step_part : std::uint8_t {
  policy,  // scoring, selecting, planning
  moving,  // gathering, spilling and reviving rows; in a batch nobody is told of the gathering, which is done for all at once
  attention,
  logits,  // the product of the rows whose logits are read with the head
};

/// What there is to know when a layer is done and its spilled rows are saved.
struct layer_end {
  layer_id layer;
  layer_id layers;                // of the model
  float margin;                   // step::margin
  std::size_t kv_bytes;           // keys and values, of the whole sequence
  std::size_t stored_bytes;       // rows put aside
  std::size_t waiting_bytes = 0;  // rows that wait where a chunk ended
};

/// One that is told of a sequence's steps while they run, also in a batch with those of others. What is not overridden does nothing. An
/// observer may throw: the step is then abandoned, a batch with all its steps.
class step_observer {
 public:
  virtual ~step_observer() = default;

  /// Asked before each layer: true ends the step there, as if it had not been asked for (step_machine::abandon); a batch with all its
  /// steps.
  virtual bool stops() { return false; }

  /// Of the new tokens the last `outputs` are finished; none in a chunk.
  virtual void step_begins([[maybe_unused]] std::span<const token_id> tokens, [[maybe_unused]] std::size_t outputs) {}
  /// The plan is valid during the call.
  virtual void layer_begins([[maybe_unused]] const layer_plan& plan) {}
  virtual void layer_ends([[maybe_unused]] const layer_end& end) {}
  virtual void part_begins([[maybe_unused]] step_part part) {}
  /// Does not come where the part failed.
  virtual void part_ends([[maybe_unused]] step_part part) {}
  /// Whether a batch has to read the logits for it. Where `forward` returns them, it is told of them anyway.
  virtual bool wants_logits() const { return false; }
  /// The logits after the step's last token (vocabulary), in the backend's scalars. A step that is stopped has none, and neither has a
  /// chunk.
  virtual void logits([[maybe_unused]] std::span<const float> logits) {}
  virtual void logits([[maybe_unused]] std::span<const double> logits) {}
  /// Comes after all else, and not for a step that is stopped or fails.
  virtual void step_ends([[maybe_unused]] const any_session& session) {}
};

/// Tells several observers, in order. Null pointers are left out.
class step_observers final : public step_observer {
 public:
  step_observers(std::initializer_list<step_observer*> all) : step_observers(std::span<step_observer* const>(all)) {}
  explicit step_observers(std::span<step_observer* const> all) {
    std::ranges::copy_if(all, std::back_inserter(all_), [](const step_observer* o) { return o != nullptr; });
  }

  bool stops() override {
    return std::ranges::any_of(all_, [](step_observer* o) { return o->stops(); });
  }
  void step_begins(std::span<const token_id> tokens, std::size_t outputs) override {
    for (step_observer* o : all_) o->step_begins(tokens, outputs);
  }
  void layer_begins(const layer_plan& plan) override {
    for (step_observer* o : all_) o->layer_begins(plan);
  }
  void layer_ends(const layer_end& end) override {
    for (step_observer* o : all_) o->layer_ends(end);
  }
  void part_begins(step_part part) override {
    for (step_observer* o : all_) o->part_begins(part);
  }
  void part_ends(step_part part) override {
    for (step_observer* o : all_) o->part_ends(part);
  }
  bool wants_logits() const override {
    return std::ranges::any_of(all_, [](const step_observer* o) { return o->wants_logits(); });
  }
  void logits(std::span<const float> logits) override {
    for (step_observer* o : all_) o->logits(logits);
  }
  void logits(std::span<const double> logits) override {
    for (step_observer* o : all_) o->logits(logits);
  }
  void step_ends(const any_session& session) override {
    for (step_observer* o : all_) o->step_ends(session);
  }

 private:
  std::vector<step_observer*> all_;
};

/// The seconds of a step's parts.
struct step_seconds {
  double policy = 0;
  double moving = 0;
  double attention = 0;
  double logits = 0;
};

/// Adds up what the parts of steps take.
class step_timer final : public step_observer {
 public:
  const step_seconds& seconds() const { return seconds_; }

  void part_begins(step_part) override { start_ = clock::now(); }
  void part_ends(step_part part) override {
    const double passed = std::chrono::duration<double>(clock::now() - start_).count();
    constexpr double step_seconds::*of[] = {&step_seconds::policy, &step_seconds::moving, &step_seconds::attention, &step_seconds::logits};
    seconds_.*of[static_cast<std::size_t>(part)] += passed;
  }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point start_{};
  step_seconds seconds_;
};

/// Bytes beside the weights: the most that each kind came to.
struct memory_use {
  std::size_t kv = 0;
  std::size_t store = 0;
  std::size_t scratch = 0;   // a workspace, of the model's rotary table what the sequence's length takes, and rows that wait
  std::size_t together = 0;  // keys, values and stored rows at once: the one grows as the other is taken back
  std::size_t total() const { return together + scratch; }
};

/// Notes the most memory that keys, values and stored rows take.
class memory_watch final : public step_observer {
 public:
  /// Of the scratch it has the rows that wait: workspace::bytes says the rest.
  const memory_use& most() const { return most_; }

  void layer_ends(const layer_end& end) override {
    most_.kv = std::max(most_.kv, end.kv_bytes);
    most_.store = std::max(most_.store, end.stored_bytes);
    most_.together = std::max(most_.together, end.kv_bytes + end.stored_bytes);
    most_.scratch = std::max(most_.scratch, end.waiting_bytes);
  }

 private:
  memory_use most_;
};

/// Writes down what each step of a sequence does. Chunks belong to the step with a query that follows them: they make one record, as if the
/// whole had been one step. It does not know which of them the sequence has forgotten since.
class trace_recorder final : public step_observer {
 public:
  explicit trace_recorder(bool with_logits = false) : with_logits_(with_logits) {}

  /// The finished steps, numbered from 0.
  const std::vector<step_trace>& steps() const { return steps_; }
  std::vector<step_trace> take() { return std::move(steps_); }

  void step_begins(std::span<const token_id> tokens, std::size_t outputs) override {
    if (steps_.size() == steps_.capacity()) steps_.reserve(2 * steps_.size() + 1);  // a step that has ended is not to fail
    now_ = chunks_;
    now_.step = steps_.size();
    now_.tokens.insert(now_.tokens.end(), tokens.begin(), tokens.end());
    is_chunk_ = outputs == 0;
  }
  void layer_begins(const layer_plan& plan) override {
    if (now_.layers.size() <= plan.layer) now_.layers.resize(plan.layer + 1);
    add_plan(now_.layers[plan.layer], plan);
  }
  void layer_ends(const layer_end& end) override {
    if (!is_chunk_ && end.layer + 1 < end.layers)
      now_.margin.push_back(is_finite(end.margin) ? std::optional<double>(end.margin) : std::nullopt);
  }
  void logits(std::span<const float> logits) override { note(logits); }
  void logits(std::span<const double> logits) override { note(logits); }
  bool wants_logits() const override { return true; }
  void step_ends(const any_session&) override {
    if (is_chunk_) {
      chunks_ = std::move(now_);
    } else {
      steps_.push_back(std::move(now_));
      chunks_ = {};
    }
  }

 private:
  template <class Scalar>
  void note(std::span<const Scalar> logits) {
    now_.next = static_cast<token_id>(std::ranges::max_element(logits) - logits.begin());
    if (with_logits_) now_.logits.assign(logits.begin(), logits.end());
  }

  bool with_logits_;
  bool is_chunk_ = false;
  step_trace now_{};
  step_trace chunks_{};  // before the next step with a query
  std::vector<step_trace> steps_;
};

}  // namespace v0
}  // namespace lazyprune
