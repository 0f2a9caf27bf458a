// SPDX-License-Identifier: MIT
// A session of any policy behind one type: what a model drives. It costs a few virtual calls a layer, which no measurement has shown.
#pragma once

#include <memory>

#include <lazyprune/session/session.hpp>

namespace lazyprune {
inline namespace v0 {

/// What is behind an any_session. The functions are those of `session` and `step`.
class session_interface {
 public:
  virtual ~session_interface() = default;
  virtual void begin(std::size_t new_tokens, phase phase) = 0;
  virtual const layer_plan& enter(layer_id layer) noexcept = 0;
  virtual evidence_kind wants() const noexcept = 0;
  virtual std::size_t window() const noexcept = 0;
  virtual void leave(const evidence& shown) noexcept = 0;
  void leave() noexcept { leave(evidence{}); }
  virtual std::span<const spill> spills() const noexcept = 0;
  virtual float margin() const noexcept = 0;
  virtual void finish() noexcept = 0;
  virtual void reserve(std::size_t max_tokens) = 0;
  virtual void reset() = 0;
  virtual layer_id layers() const noexcept = 0;
  virtual const frontier_table& tokens() const noexcept = 0;
  virtual const statistics& stats() const noexcept = 0;
};

template <class Session>
class session_adapter final : public session_interface {
 public:
  using session_interface::leave;
  explicit session_adapter(Session session) : session_(std::move(session)) {}

  void begin(std::size_t new_tokens, phase phase) override { session_.begin(new_tokens, phase); }
  const layer_plan& enter(layer_id layer) noexcept override { return session_.enter(layer); }
  evidence_kind wants() const noexcept override { return session_.wants(); }
  std::size_t window() const noexcept override { return session_.window(); }
  void leave(const evidence& shown) noexcept override {
    if constexpr (std::same_as<typename Session::evidence_type, evidence>)
      return session_.leave(shown);
    else if constexpr (!Session::scores_positions)
      if (const auto* wanted = std::get_if<typename Session::evidence_type>(&shown)) return session_.leave(*wanted);
    session_.leave();
  }
  std::span<const spill> spills() const noexcept override { return session_.spills(); }
  float margin() const noexcept override { return session_.margin(); }
  void finish() noexcept override { session_.finish(); }
  void reserve(std::size_t max_tokens) override { session_.reserve(max_tokens); }
  void reset() override { session_.reset(); }
  layer_id layers() const noexcept override { return session_.layers(); }
  const frontier_table& tokens() const noexcept override { return session_.tokens(); }
  const statistics& stats() const noexcept override { return session_.stats(); }

 private:
  Session session_;
};

class any_session {
 public:
  template <class Scorer, class Schedule, class Selector, class Store>
  any_session(session<Scorer, Schedule, Selector, Store> s)
      : impl_(std::make_unique<session_adapter<session<Scorer, Schedule, Selector, Store>>>(std::move(s))) {}

  template <class Scorer, class Schedule, class Selector, class Store>
  any_session(policy<Scorer, Schedule, Selector, Store> p, session_options options) : any_session(session(std::move(p), options)) {}

  step<session_interface> begin(std::size_t new_tokens, phase phase) {
    impl_->begin(new_tokens, phase);
    return step(*impl_);
  }
  void reserve(std::size_t max_tokens) { impl_->reserve(max_tokens); }
  void reset() { impl_->reset(); }
  layer_id layers() const noexcept { return impl_->layers(); }
  std::size_t known() const noexcept { return impl_->tokens().known(); }
  const frontier_table& tokens() const noexcept { return impl_->tokens(); }
  const statistics& stats() const noexcept { return impl_->stats(); }

 private:
  std::unique_ptr<session_interface> impl_;
};

}  // namespace v0
}  // namespace lazyprune
