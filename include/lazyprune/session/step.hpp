// SPDX-License-Identifier: MIT
// One forward pass, as an engine drives it: enter and leave each layer in order, then finish.
#pragma once

#include <utility>

#include <lazyprune/core/evidence.hpp>
#include <lazyprune/core/plan.hpp>

namespace lazyprune {
inline namespace v0 {

/// A handle on the step that a session (or any_session) has begun; it must not outlive the session. A step that is dropped before
/// it is finished leaves hidden states behind that nobody has: the session then refuses the next one until it is reset.
template <class Session>
class step {
 public:
  explicit step(Session& session) noexcept : session_(&session) {}

  /// The plan of the next layer, which must be `layer`. Valid until the layer is left.
  const layer_plan& enter(layer_id layer) noexcept { return session_->enter(layer); }

  /// The evidence that the layer entered has to yield; none where nothing is decided.
  evidence_kind wants() const noexcept { return session_->wants(); }
  bool wants_scores() const noexcept { return wants() != evidence_kind::none; }
  /// Queries that a window_view has to hold here: min(the scorer's window, rows of this layer).
  std::size_t window() const noexcept { return session_->window(); }

  /// The layer is done. `view` is the evidence where it is wanted: read during the call only.
  void leave() noexcept { session_->leave(); }
  template <class View>
  void leave(const View& view) noexcept {
    session_->leave(view);
  }

  /// Rows of the layer just left whose outputs are to be saved before they are overwritten. Valid until the next enter.
  std::span<const spill> spills() const noexcept { return session_->spills(); }

  /// How clear the selection after the layer just left was, where it is by score alone (top_k): (least kept - best dropped) / |least kept|
  /// score, the tokens that are kept whatever their score aside. NaN where nothing was chosen, or where a lower score was kept than one
  /// dropped (blocks). It says nothing of how close a count was that the scores decided (top_p, adaptive).
  float margin() const noexcept { return session_->margin(); }

  void finish() noexcept { session_->finish(); }

 private:
  Session* session_;
};

}  // namespace v0
}  // namespace lazyprune
