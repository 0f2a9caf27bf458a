// SPDX-License-Identifier: MIT
// One forward pass, as an engine runs it: enter and leave each layer in order, then finish.
#pragma once

#include <concepts>
#include <optional>

#include <lazyprune/session/step_machine.hpp>

namespace lazyprune {
inline namespace v0 {

/// A handle of the step that a session (or any_session) has begun. It must not outlive the session. If the handle is destroyed before the
/// step is finished, some hidden states may be saved nowhere. The session then refuses the next step until `abandon` or `reset`.
template <class Session>
class step {
 public:
  explicit step(step_machine& machine) noexcept : machine_(&machine) {}

  /// The number of layers in this step: all of them, or those that a chunk runs.
  layer_id layers() const noexcept { return machine_->depth_; }

  /// The plan of the next layer; `layer` must be that layer's number. Valid until the layer is left. If the call is out of order, the plan
  /// is empty, and the step stays unfinished.
  const layer_plan& enter(layer_id layer) noexcept { return machine_->enter(layer); }

  /// The evidence that the entered layer has to yield; `none` if the session decides nothing after this layer.
  evidence_kind wants() const noexcept { return machine_->wanted(); }
  bool wants_scores() const noexcept { return wants() != evidence_kind::none; }
  /// The number of queries that a window_view or probe_view of the entered layer must have: min(the scorer's window, rows of this layer).
  /// If the scorer gathers windows or probes at every layer, it is the number of the step's evidence rows (`evidence_window`).
  std::size_t window() const noexcept { return machine_->window(); }
  /// The probes that the scorer reads at the entered layer, in the order in which a probe_view shows them; empty if it reads none.
  std::span<const head_probe> probes() const noexcept { return machine_->probes_wanted(); }
  /// `mean` or `max` if the scorer reads only the mean or only the maximum over the heads. An attention_view or window_view may then have
  /// one head that holds this mean or maximum. nullopt: the scorer reads each head.
  std::optional<head_reduction> over_heads() const noexcept { return machine_->heads_read(); }

  /// Ends the layer. `shown` is the evidence that the layer wants, if it wants any. It is read only during the call. If the evidence is
  /// missing, has another kind or size, or has a number that is not finite, nothing is pruned and `finish` reports it. Evidence that is not
  /// wanted is ignored.
  void leave(const evidence& shown = {}) noexcept { machine_->leave(shown); }
  template <class View>
    requires std::constructible_from<evidence, const View&>
  void leave(const View& view) noexcept {
    static_assert(Session::template takes<View>, "the session's scorer takes another view; where policies vary, leave with evidence(view)");
    machine_->leave(view);
  }

  /// Tells how many of the active tokens of the entered layer go on, if the engine may choose them itself (engine_choice.hpp). The engine
  /// then either shows evidence as usual, or leaves with the tokens that it chose. Writes the standing of each active token to `out` if it
  /// has room for all of them. nullopt: nothing is to be decided (`wants` is none), or the engine must show the evidence. It must in three
  /// cases. The number of kept tokens may depend on scores (top_p, threshold, adaptive schedules). The scorer may gather evidence at every
  /// layer. Under blocks, the pages that compete may have unequal numbers of tokens.
  std::optional<selection_quota> quota(std::span<candidacy> out = {}) const noexcept { return machine_->quota(out); }

  /// Ends the layer with the tokens that the engine chose. The result is the same as with evidence that gives the same scores. If the
  /// choice is wrong, or if there is no quota, nothing is pruned and `finish` reports it.
  template <std::same_as<chosen_tokens> Chosen>
  void leave(const Chosen& chosen) noexcept {
    machine_->leave(chosen);
  }

  /// Throws if the choice is wrong, or if there is no quota. The error is the one that `finish` would throw if this choice were the first
  /// fault of the step, but it names `leave`. Changes nothing.
  void check(const chosen_tokens& chosen) const { machine_->check_choice(chosen); }

  /// Writes the counts of the layers after the entered one, if there is a quota and the counts do not depend on the choice. An engine can
  /// then start the work of all these layers before it knows which tokens its device chose. Later it reads the choices back, leaves this
  /// layer with the first one, and enters and leaves the other layers in order. Returns the number of layers for which the counts are
  /// known, even if `out` has room for fewer. They are the layers from the next one on, until a schedule or a selector needs more than
  /// counts. The result is 0 if the store is neither keep_all nor none, if an active token has keys in the next layer already, or if it is
  /// in the aux store. So the counts are known for a prompt and its chunks, but not for later steps over pruned tokens.
  std::size_t counts(std::span<layer_counts> out) const noexcept { return machine_->counts(out); }

  /// The slot of the aux store that a row gets, if `rows` rows are stored before it from now on. Rows are stored layer by layer, and in the
  /// order of their positions. The answer is right for the layers whose `counts` are known. If the quota's `stores_dropped` is false,
  /// no row gets a slot there.
  std::uint32_t slot_after(std::size_t rows) const noexcept { return machine_->tokens().slot_after(rows); }

  /// The hidden states that must be saved before they are overwritten: rows of the layer just left, and waiting rows that move to the aux
  /// store. Valid until the next `enter` or `finish`.
  std::span<const spill> spills() const noexcept { return machine_->spills(); }

  /// The margin of the selection after the layer just left: (least kept - best dropped) / |least kept|, in scores. Tokens that are kept
  /// whatever their score do not count. The margin is defined for selection by score alone (top_k). It is NaN if nothing was dropped, if
  /// only such tokens were kept, or if a kept token scored lower than a dropped one (blocks). If the scores also decide the number of
  /// tokens (top_p, adaptive), the margin says nothing about that number.
  float margin() const noexcept { return machine_->margin(); }

  /// Finds the pages that hold an active token of the entered layer. A page has `size` >= 1 positions. Writes as many page numbers as fit
  /// to `out`, ascending. Returns the number of pages found, even if fewer fit: at most ceil(known / size), and 0 outside a layer.
  std::size_t pages(std::size_t size, std::span<std::uint32_t> out) const noexcept { return machine_->pages(size, out); }

  /// Ends the step after all its layers. Throws `error` for the first fault in the step. The code is wrong_order if wanted evidence did not
  /// come, or if a choice came where there was no quota. It is bad_input if evidence has a number that is not finite, a choice is wrong, a
  /// selector or a store wrote a wrong list, or a schedule pruned too early or after a layer that its `prunes_after` denies. After such a
  /// fault, or if layers are missing, the step stays unfinished, and the next `begin` throws.
  void finish() { machine_->finish(); }

  /// Throws the error that `finish` would throw, and changes nothing. Use it for a batch that must finish all steps or none.
  void check_finish() const { machine_->check_finish(); }

 private:
  step_machine* machine_;
};

}  // namespace v0
}  // namespace lazyprune
