// SPDX-License-Identifier: MIT
// A forward pass that can pause between layers. A long prompt's last step then need not delay the decode steps of other sequences.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include <lazyprune/model/transformer.hpp>

namespace lazyprune {
inline namespace v0 {

/// Runs one step of one sequence, like `forward`, but in parts. Between the parts, the workspace may run steps of other sequences. The
/// workspace, the sequence and the tokens must outlive this object. The sequence must not be used or moved before the step has ended. If
/// this object is destroyed before that, the step is abandoned (step_machine::abandon).
template <tensor_backend Backend>
class resumable_forward {
 public:
  /// Begins the step, but runs no layer. Throws as `forward` does.
  resumable_forward(workspace<Backend>& work, const sequence_step<Backend>& step)
      : work_(work), step_(step), rows_(work.model().config.hidden), pass_(std::in_place, work) {
    pass_->start(steps());
  }

  resumable_forward(const resumable_forward&) = delete;
  resumable_forward& operator=(const resumable_forward&) = delete;

  ~resumable_forward() {
    if (!pass_) return;
    try {
      pass_->abandon();
    } catch (...) {  // the sequence has forgotten the step, but its policy could not be constructed again
    }
  }

  /// Runs the next layer, and then more layers while all of them have at most about `most_rows` rows together. Returns whether the step has
  /// ended. If it has, `stopped` says whether an observer stopped it. If none did, `read_logits` reads the logits of its outputs, as after
  /// `forward`. If this function throws, the step is abandoned. But if an observer throws in `step_ends`, the step is already done. Do not
  /// call this function after the step has ended or was abandoned.
  bool resume(std::size_t most_rows) {
    bool paused = false;
    try {
      if (std::exchange(paused_, false)) pass_->exchange_rows(rows_);
      in_one_team(work_.backend(), [&] {
        std::size_t rows = 0;
        do {
          paused = pass_->next_layer();
          rows += pass_->rows_of_layer();
        } while (paused && rows + pass_->rows_of_layer() <= most_rows);
        if (!paused) pass_->finish(steps(), false);
      });
    } catch (...) {
      pass_.reset();  // the step has ended
      throw;
    }
    if (paused) {
      pass_->exchange_rows(rows_);  // so that other steps cannot overwrite this step's rows
      paused_ = true;
      return false;
    }
    stopped_ = pass_->stopped();
    pass_.reset();
    return true;
  }

  /// Returns whether an observer has stopped the step. The sequence has then forgotten it.
  bool stopped() const { return stopped_; }

 private:
  std::span<const sequence_step<Backend>> steps() const { return std::span(&step_, 1); }

  workspace<Backend>& work_;
  sequence_step<Backend> step_;
  typename Backend::buffer rows_;             // (rows of the layer that ran last, hidden), while the step is paused
  std::optional<transformer<Backend>> pass_;  // null after the step has ended
  bool paused_ = false, stopped_ = false;
};

}  // namespace v0
}  // namespace lazyprune
