// SPDX-License-Identifier: MIT
// Observers watch a step while it runs. They record its plans, time and memory. Without an observer, a step only checks null pointers and
// reads no clock.
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
#include <lazyprune/model/sampler.hpp>
#include <lazyprune/session/any_session.hpp>
#include <lazyprune/session/trace.hpp>

namespace lazyprune {
inline namespace v0 {

/// The sections of a step's time. They do not overlap. A batch gathers rows, and computes most of a layer, once for all sequences. So
/// gathering and the sections from `norm` on are reported only if all sequences in the layer share one observer.
enum class step_section : std::uint8_t {
  policy,  // scoring, selecting, planning, and waiting for the tokens that a backend chose (choosing_backend)
  moving,  // embedding, gathering, saving and reviving rows
  attention,
  logits,   // the last norm, and the product of the head with the row whose logits are read
  norm,     // the norms before the attention and before the feed-forward block
  qkv,      // the query, key and value projections
  rope,     // the norms of queries and keys, RoPE, and writing to the KV cache
  output,   // the output projection. This and `down` include adding to the residual stream, and Gemma's norms before that
  gate_up,  // the gate and up projections, and the activation
  down,     // the down projection
};

/// The state at the end of a layer, after its spilled rows are saved. If the layer was queued (step_observer::stops), the bytes are those
/// after all queued layers.
struct layer_end {
  layer_id layer;
  layer_id layers;                // number of layers of the model
  float margin;                   // step::margin
  std::size_t kv_bytes;           // keys and values of the whole sequence
  std::size_t stored_bytes;       // stored rows (Aux Cache)
  std::size_t waiting_bytes = 0;  // waiting rows, whose chunk ended before the last layer
  std::size_t scored_pairs =
      0;  // probabilities that the backend computed for the scorer, of a query and an active token, counted for each head or probe
};

/// Base class of observers. An observer is told of a sequence's steps while they run, alone or in a batch. Functions that are not
/// overridden do nothing. If an observer throws before `step_ends`, its step is abandoned, and so are all other steps of the batch. If
/// `step_ends` throws, all these steps are already done and are not abandoned.
class step_observer {
 public:
  virtual ~step_observer() = default;

  /// Called before each layer. If it returns true, the step stops there and is abandoned (step_machine::abandon). In a batch, all steps
  /// stop. If the backend chooses tokens (choosing_backend), layers are queued before they are computed. The function is then called before
  /// each layer is queued. After the wait for all of them, it is called again before each `layer_begins`. A stop takes effect no earlier
  /// than the end of this wait if it is asked for during the wait.
  virtual bool stops() { return false; }

  /// `tokens` are the new tokens of the step. The last `outputs` of them are outputs, whose logits can be read; a chunk has 0 outputs.
  virtual void step_begins([[maybe_unused]] std::span<const token_id> tokens, [[maybe_unused]] std::size_t outputs) {}
  /// The plan is valid during the call.
  virtual void layer_begins([[maybe_unused]] const layer_plan& plan) {}
  virtual void layer_ends([[maybe_unused]] const layer_end& end) {}
  virtual void section_begins([[maybe_unused]] step_section section) {}
  /// Not called if the section failed.
  virtual void section_ends([[maybe_unused]] step_section section) {}
  /// Returns whether a `forward` that returns no logits must read them for this observer. A `forward` that returns logits reports them in
  /// any case.
  virtual bool wants_logits() const { return false; }
  /// Called with the logits after the step's last token, (vocabulary), in the backend's scalar type. Not called for a chunk or a stopped
  /// step.
  virtual void logits([[maybe_unused]] std::span<const float> logits) {}
  virtual void logits([[maybe_unused]] std::span<const double> logits) {}
  /// Called last. Not called for a step that was stopped or failed.
  virtual void step_ends([[maybe_unused]] const any_session& session) {}
};

/// Passes each call on to several observers, in order. Ignores null pointers.
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
  void section_begins(step_section section) override {
    for (step_observer* o : all_) o->section_begins(section);
  }
  void section_ends(step_section section) override {
    for (step_observer* o : all_) o->section_ends(section);
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

/// Seconds in each section, of one step or summed over several.
struct step_seconds {
  double policy = 0;
  double moving = 0;
  double attention = 0;
  double logits = 0;
  double norm = 0;
  double qkv = 0;
  double rope = 0;
  double output = 0;
  double gate_up = 0;
  double down = 0;
};

/// Adds up the seconds of each section over all steps. A device may compute after the host has queued the work. Its time then counts in the
/// section in which the host waits: `policy`, `attention` or `logits`.
class step_timer final : public step_observer {
 public:
  const step_seconds& seconds() const { return seconds_; }

  void section_begins(step_section) override { start_ = clock::now(); }
  void section_ends(step_section section) override {
    const double passed = std::chrono::duration<double>(clock::now() - start_).count();
    using in = step_seconds;
    constexpr double in::*of[] = {&in::policy, &in::moving, &in::attention, &in::logits,  &in::norm,
                                  &in::qkv,    &in::rope,   &in::output,    &in::gate_up, &in::down};
    seconds_.*of[static_cast<std::size_t>(section)] += passed;
  }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point start_{};
  step_seconds seconds_;
};

/// Memory besides the weights, in bytes. Each member is its largest value during the whole generation.
struct memory_use {
  std::size_t kv = 0;        // keys and values
  std::size_t store = 0;     // stored rows (Aux Cache)
  std::size_t scratch = 0;   // waiting rows, and workspace::bytes for the length of the sequence
  std::size_t together = 0;  // largest sum of kv and store at one moment; the store may shrink while kv grows
  std::size_t total() const { return together + scratch; }
};

/// Records the most memory that keys, values, stored rows and waiting rows took.
class memory_watch final : public step_observer {
 public:
  /// In the result, `scratch` is only the bytes of the waiting rows. The caller adds workspace::bytes.
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

/// Records each step of a sequence as a trace. Chunks are merged into the record of the next step with outputs, as if all were one step.
/// Steps that the sequence forgets later stay in the record.
class trace_recorder final : public step_observer {
 public:
  explicit trace_recorder(bool with_logits = false) : with_logits_(with_logits) {}

  /// The complete steps, numbered from 0.
  const std::vector<step_trace>& steps() const { return steps_; }
  std::vector<step_trace> take() { return std::move(steps_); }

  void step_begins(std::span<const token_id> tokens, std::size_t outputs) override {
    if (steps_.size() == steps_.capacity()) steps_.reserve(2 * steps_.size() + 1);  // step_ends needs this room and must not fail
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
    now_.next = greedy(logits);
    if (with_logits_) now_.logits.assign(logits.begin(), logits.end());
  }

  bool with_logits_;
  bool is_chunk_ = false;
  step_trace now_{};
  step_trace chunks_{};  // the merged chunks since the last step with outputs
  std::vector<step_trace> steps_;
};

}  // namespace v0
}  // namespace lazyprune
