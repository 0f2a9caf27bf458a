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
  /// come. It is bad_input if evidence has a number that is not finite, a selector or a store wrote a wrong list, or a schedule pruned too
  /// early or after a layer that its `prunes_after` denies. After such a fault, or if layers are missing, the step stays unfinished, and
  /// the next `begin` throws.
  void finish() { machine_->finish(); }

  /// Throws the error that `finish` would throw, and changes nothing. Use it for a batch that must finish all steps or none.
  void check_finish() const { machine_->check_finish(); }

 private:
  step_machine* machine_;
};

}  // namespace v0
}  // namespace lazyprune
