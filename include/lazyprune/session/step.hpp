// SPDX-License-Identifier: MIT
// One forward pass, as an engine drives it: enter and leave each layer in order, then finish.
#pragma once

#include <concepts>
#include <optional>

#include <lazyprune/session/step_machine.hpp>

namespace lazyprune {
inline namespace v0 {

/// A handle on the step that a session (or any_session) has begun; it must not outlive the session. A step that is dropped before it is
/// finished leaves hidden states behind that nobody has: the session then refuses the next one until that is abandoned, or all reset.
template <class Session>
class step {
 public:
  explicit step(step_machine& machine) noexcept : machine_(&machine) {}

  /// The layers of this step: all of them, or those that a chunk runs.
  layer_id layers() const noexcept { return machine_->depth_; }

  /// The plan of the next layer, which must be `layer`. Valid until the layer is left. Out of order the plan is empty, and the step
  /// counts as unfinished.
  const layer_plan& enter(layer_id layer) noexcept { return machine_->enter(layer); }

  /// The evidence that the layer entered has to yield; none where nothing is decided.
  evidence_kind wants() const noexcept { return machine_->wanted(); }
  bool wants_scores() const noexcept { return wants() != evidence_kind::none; }
  /// Queries that a window_view has to hold here: min(the scorer's window, rows of this layer).
  std::size_t window() const noexcept { return machine_->window(); }
  /// All that the scorer reads of the heads: an attention_view or window_view of one head that holds it does as well. None: each of them.
  std::optional<head_reduction> over_heads() const noexcept { return machine_->heads_read(); }

  /// The layer is done. `shown` is the evidence where it is wanted: read during the call only. Where it does not come, is of another kind
  /// or size, or has a number that is not finite, nothing is pruned, and `finish` reports it. Evidence that is not wanted decides nothing.
  void leave(const evidence& shown = {}) noexcept { machine_->leave(shown); }
  template <class View>
    requires std::constructible_from<evidence, const View&>
  void leave(const View& view) noexcept {
    static_assert(Session::template takes<View>, "the session's scorer takes another view; where policies vary, leave with evidence(view)");
    machine_->leave(view);
  }

  /// Rows whose outputs are to be saved before they are overwritten, of the layer just left. Valid until the next enter.
  std::span<const spill> spills() const noexcept { return machine_->spills(); }

  /// How clear the selection after the layer just left was, where it is by score alone (top_k): (least kept - best dropped) / |least kept|
  /// score, the tokens that are kept whatever their score aside. NaN where nothing was chosen, or where a lower score was kept than one
  /// dropped (blocks). It says nothing of how close a count was that the scores decided (top_p, adaptive).
  float margin() const noexcept { return machine_->margin(); }

  /// Writes, ascending, the numbers of the pages of `size` >= 1 positions that hold an active token of the layer entered, as many as
  /// `out` has room for, and returns how many there are: at most ceil(known / size). Outside a layer there are none.
  std::size_t pages(std::size_t size, std::span<std::uint32_t> out) const noexcept { return machine_->pages(size, out); }

  /// All layers are left. Reports `error` where something went wrong in the step, and the first such fault: evidence that was wanted did
  /// not come (wrong_order); evidence has a number that is not finite, a selector or a store wrote a list that is wrong, or a schedule
  /// prunes sooner than it says (bad_input). The step is then unfinished, as it is where layers are missing: the next `begin` says so.
  void finish() { machine_->finish(); }

  /// Reports the error that `finish` would, and changes nothing: for a batch whose steps are to be finished all or none.
  void check_finish() const { machine_->check_finish(); }

 private:
  step_machine* machine_;
};

}  // namespace v0
}  // namespace lazyprune
