// SPDX-License-Identifier: MIT
// One type for the sessions of all policies. Models run such a session.
#pragma once

#include <memory>
#include <utility>

#include <lazyprune/session/session.hpp>

namespace lazyprune {
inline namespace v0 {

/// Each function does the same as the function of that name in `session` or `step_machine`.
class any_session {
 public:
  template <class Scorer, class Schedule, class Selector, class Store>
  any_session(session<Scorer, Schedule, Selector, Store> s)
      : machine_(std::make_unique<session<Scorer, Schedule, Selector, Store>>(std::move(s))) {}

  template <class Scorer, class Schedule, class Selector, class Store>
  any_session(policy<Scorer, Schedule, Selector, Store> p, const session_options& options) : any_session(session(std::move(p), options)) {}

  /// A step accepts every view. `leave` checks at run time whether the view has the kind that the scorer needs.
  template <class View>
  static constexpr bool takes = true;

  step<any_session> begin(const step_request& request) {
    machine_->begin(request);
    return step<any_session>(*machine_);
  }

  void check(const step_request& request) const { machine_->check(request); }

  /// A session that goes on as this one would, with the same limit. Call it between steps.
  any_session clone() const { return any_session(machine_->clone()); }

  void reserve(std::size_t max_tokens) { machine_->reserve(max_tokens); }
  void make_room(std::size_t tokens) { machine_->make_room(tokens); }
  std::size_t limit() const noexcept { return machine_->limit(); }
  void reset() { machine_->reset(); }
  void truncate(std::size_t tokens) { machine_->truncate(tokens); }
  void adopt(std::size_t tokens) { machine_->adopt(tokens); }
  void take_over(const any_session& other) { machine_->take_over(*other.machine_); }
  void abandon() { machine_->abandon(); }
  bool queried() const noexcept { return machine_->queried(); }
  session_state state() const { return machine_->state(); }
  void restore(const session_state& saved) { machine_->restore(saved); }
  layer_id layers() const noexcept { return machine_->layers(); }
  layer_id chunk_layers(phase phase) const noexcept { return machine_->chunk_layers(phase); }
  std::size_t evidence_window() const noexcept { return machine_->evidence_window(); }
  /// Returns whether a decode step may read several drafted tokens at once. It may if no decode step prunes and the scorer remembers
  /// nothing of it. A scorer that remembers would see only the step's last tokens, and `truncate` would not undo what a rejected draft
  /// changed.
  bool may_speculate() const noexcept { return chunk_layers(phase::decode) == layers() && !remembers(); }
  bool remembers() const noexcept { return machine_->remembers(); }
  std::size_t known() const noexcept { return machine_->known(); }
  const frontier_table& tokens() const noexcept { return machine_->tokens(); }
  const statistics& stats() const noexcept { return machine_->stats(); }
  std::span<const position> losses() const noexcept { return machine_->losses(); }

 private:
  explicit any_session(std::unique_ptr<step_machine> machine) : machine_(std::move(machine)) {}

  std::unique_ptr<step_machine> machine_;
};

}  // namespace v0
}  // namespace lazyprune
