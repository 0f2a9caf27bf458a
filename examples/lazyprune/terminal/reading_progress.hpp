// SPDX-License-Identifier: MIT
// Shows the progress of a prefill: a bar on a terminal, and an early estimate of the time to the first token.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <optional>
#include <span>

#include "tables/number_text.hpp"
#include "terminal/progress.hpp"

#include <lazyprune/model/observer.hpp>

namespace lazyprune {
namespace program {

/// The share of a prompt's rows that has been computed. One row is one token in one layer. The layers to come are assumed to compute as
/// many rows as the last one did. A pruned prompt is therefore done sooner than the share says.
class reading_share final : public step_observer {
 public:
  explicit reading_share(std::size_t prompt) : prompt_(prompt) {}

  /// From 0 to 1.
  double share() const { return done_ == 0 ? 0.0 : static_cast<double>(done_) / static_cast<double>(done_ + left_); }

  void step_begins(std::span<const token_id> tokens, std::size_t outputs) override {
    step_ = tokens.size();
    begun_ += step_;
    is_chunk_ = outputs == 0;
  }
  void layer_begins(const layer_plan& plan) override { rows_ = plan.rows.size(); }
  void layer_ends(const layer_end& end) override {
    done_ += rows_;
    ended_ = end.layer + 1;
    left_ = (prompt_ - std::min(prompt_, begun_)) * end.layers + rows_ * (end.layers - ended_);
    if (is_chunk_ || ended_ <= waits_at_) left_ += waiting_ * (end.layers - waits_at_);  // later layers compute the waiting rows
  }
  void step_ends(const any_session&) override {
    waiting_ = is_chunk_ ? waiting_ + step_ : 0;
    waits_at_ = ended_;
  }

 private:
  std::size_t prompt_;
  std::size_t done_ = 0, left_ = 0;         // rows, summed over layers
  std::size_t begun_ = 0, step_ = 0;        // tokens of all steps so far; tokens of this step
  std::size_t rows_ = 0, ended_ = 0;        // rows of the current layer; layers of this step that are done
  std::size_t waiting_ = 0, waits_at_ = 0;  // tokens of earlier chunks whose rows wait, and the layer where they wait
  bool is_chunk_ = false;
};

/// Draws the bar during the prefill.
class reading_progress final : public step_observer {
 public:
  /// With `tells`, the estimated time to the first token is printed on stderr if it is 5 s or more.
  reading_progress(std::size_t prompt, bool tells) : prompt_(prompt), tells_(tells), share_(prompt) {}

  void step_begins(std::span<const token_id> tokens, std::size_t outputs) override {
    share_.step_begins(tokens, outputs);
    is_last_ = outputs > 0;
  }
  void layer_begins(const layer_plan& plan) override { share_.layer_begins(plan); }
  void layer_ends(const layer_end& end) override {
    if (is_read_) return;
    share_.layer_ends(end);
    tell();
    if (!bar_) bar_.emplace("reading", "tokens");
    bar_->show(static_cast<std::size_t>(share_.share() * static_cast<double>(prompt_)), prompt_);
  }
  void step_ends(const any_session& session) override {
    share_.step_ends(session);
    if (is_last_) end();
  }

  /// Removes the bar.
  void end() {
    is_read_ = true;
    bar_.reset();
  }

 private:
  using clock = std::chrono::steady_clock;
  struct mark {
    clock::time_point when;
    double share;
  };

  /// Prints the estimate once, as soon as the speed is known. The first layer is not timed, because it waits for memory and threads.
  void tell() {
    constexpr double enough = 0.3, long_wait = 5.0;  // seconds
    const clock::time_point now = clock::now();
    if (!tells_) return;
    if (!first_) {
      first_ = {now, share_.share()};
      return;
    }
    const double spent = std::chrono::duration<double>(now - first_->when).count();
    if (spent < enough) return;
    tells_ = false;
    const double left = spent / (share_.share() - first_->share) * (1 - share_.share());
    if (left < long_wait) return;
    bar_.reset();
    std::cerr << "about " << fixed(left, 0) << " s to the first token" << std::endl;
  }

  std::size_t prompt_;
  bool tells_;
  reading_share share_;
  bool is_last_ = false, is_read_ = false;
  std::optional<mark> first_;  // the first layer's end
  std::optional<progress_bar> bar_;
};

}  // namespace program
}  // namespace lazyprune
