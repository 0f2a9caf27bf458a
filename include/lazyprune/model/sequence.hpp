// SPDX-License-Identifier: MIT
// One conversation: its tokens, their keys and values, the rows put aside, and the session that plans for them. They change together, and
// so always belong together. It forks, and it goes back.
#pragma once

#include <algorithm>
#include <concepts>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lazyprune/model/kv_cache.hpp>
#include <lazyprune/model/model.hpp>
#include <lazyprune/session/any_session.hpp>

namespace lazyprune {
inline namespace v0 {

template <tensor_backend Backend>
class transformer;

/// The model must outlive it. A step that fails or is stopped is abandoned (step_machine::abandon): its new tokens are forgotten.
template <tensor_backend Backend>
class sequence {
 public:
  /// A new sequence. Throws `error` where the session is for another number of layers, or has begun.
  sequence(const lazyprune::model<Backend>& m, any_session session)
      : model_(&m), session_(std::move(session)), kv_(m.config, m.kv_types()), stored_(new_store(m)), waiting_(m.config.hidden) {
    if (session_.layers() != m.config.layers)
      throw error("session", "layers", std::to_string(m.config.layers) + " as in the model", std::to_string(session_.layers()));
    if (session_.known() > 0) throw error("session", "tokens", "none yet", std::to_string(session_.known()));
  }

  sequence(sequence&&) noexcept = default;
  sequence& operator=(sequence&&) noexcept = default;

  /// Between steps: a sequence that goes on as this one would, with the same limit. The two share memory, block by block, until one of them
  /// writes: any number of answers take up one document.
  sequence fork() const { return sequence(*this, session_.clone()); }

  /// The same under another policy, that of a session without tokens: many ways to prune go on from one beginning, each as if it had read
  /// that itself. Throws `error` where they may not, see step_machine::take_over.
  sequence fork(any_session under) const {
    under.take_over(session_);
    return sequence(*this, std::move(under));
  }

  const lazyprune::model<Backend>& model() const { return *model_; }
  std::span<const token_id> tokens() const { return tokens_; }  // (known)
  std::size_t known() const { return tokens_.size(); }
  const any_session& session() const { return session_; }
  const kv_cache<Backend>& kv() const { return kv_; }
  const typename Backend::row_store& stored_rows() const { return stored_; }    // (slots, hidden): the Aux Cache's
  const typename Backend::row_store& waiting_rows() const { return waiting_; }  // (slots, hidden): where chunks ended

  /// Says, before the first token comes, how long the text will get in all: with LongRoPE its frequencies are chosen by that, once. What is
  /// reserved says so too, and so does the first step.
  void expect(std::size_t tokens) {
    if (known() == 0) expected_ = std::max(expected_, tokens);
  }
  /// The rotary positions of its layers without a window.
  rope_kind rope() const { return rope_kind_for(model_->config, expected_); }

  /// Makes room in the session for a text of so many tokens, or of its limit where that is less. It sets no limit and changes none.
  void make_room(std::size_t tokens) {
    session_.make_room(tokens);
    tokens_.reserve(std::min(tokens, session_.limit()));
  }

  /// Makes room in the session for so many tokens, which is a limit from then on.
  void reserve(std::size_t tokens) {
    expect(tokens);
    tokens_.reserve(tokens);
    session_.reserve(tokens);
  }

  /// The same, and the backend's memory, so that steps allocate none of it for this sequence: keys and values of so many tokens at every
  /// layer, and rows put aside, `stored` of them at a time for the Aux Cache and `waiting` where chunks end, each `tokens` at most. It
  /// stays where tokens are forgotten, and forks have none of it. What they share is still copied when one of them writes.
  void reserve(Backend& backend, std::size_t tokens, std::size_t stored, std::size_t waiting) {
    reserve(tokens);
    kv_.reserve(backend, tokens);
    backend.reserve_stored(stored_, stored);
    backend.reserve_kept(waiting_, waiting);
  }

  /// Forgets the tokens from `tokens` <= known on, and keeps the memory of their keys and values for those to come; see
  /// step_machine::truncate.
  void truncate(std::size_t tokens) {
    session_.truncate(tokens);
    tokens_.resize(tokens);
    if (tokens == 0) expected_ = 0;
    kv_.truncate(tokens);
    retain_rows();
  }

  /// Forgets all tokens, and the statistics. The memory of keys and values is kept for those to come.
  void clear() {
    const forgets_with_session afterwards{*this};
    session_.reset();
    expected_ = 0;
  }

 private:
  friend class transformer<Backend>;

  /// Its rows take the type of the weights where the backend leaves that open.
  static typename Backend::row_store new_store(const lazyprune::model<Backend>& m) {
    if constexpr (std::constructible_from<typename Backend::row_store, std::size_t, dtype>)
      return typename Backend::row_store(m.config.hidden, m.stored_type());
    else
      return typename Backend::row_store(m.config.hidden);
  }

  sequence(const sequence& other, any_session session)
      : model_(other.model_),
        session_(std::move(session)),
        expected_(other.expected_),
        kv_(other.kv_),
        stored_(other.stored_),
        waiting_(other.waiting_) {
    tokens_.reserve(other.tokens_.capacity());
    tokens_ = other.tokens_;
  }

  /// Makes room for so many tokens more, so that taking them in cannot fail.
  void grow_by(std::size_t tokens) {
    const std::size_t needed = known() + tokens;
    if (needed > tokens_.capacity()) tokens_.reserve(std::max(needed, 2 * tokens_.capacity()));
  }

  void abandon() {
    const forgets_with_session afterwards{*this};
    session_.abandon();
  }

  /// Forgets what the session knows nothing of any more, also where the session throws: a user's policy that could not be made anew.
  struct forgets_with_session {
    sequence& text;
    ~forgets_with_session() {
      const frontier_table& table = text.session_.tokens();
      text.tokens_.resize(table.known());
      text.kv_.retain([&](layer_id l, position t) { return t < table.known() && l < table.frontier(t) && !table.gone(t); });
      text.retain_rows();
    }
  };

  /// Gives back the memory of rows in slots that the session has freed.
  void retain_rows() noexcept {
    const frontier_table& table = session_.tokens();
    retain_rows(stored_, table.stored_count(), &frontier_table::stored);
    retain_rows(waiting_, table.waiting_count(), &frontier_table::waiting);
  }

  void retain_rows(typename Backend::row_store& rows, std::size_t count, bool (frontier_table::*has)(position) const noexcept) noexcept {
    if (rows.size() == count) return;
    const frontier_table& table = session_.tokens();
    rows.retain([&](auto&& keep) {
      for (position t = 0; t < table.known(); ++t)
        if ((table.*has)(t)) keep(table.slot(t));
    });
  }

  const lazyprune::model<Backend>* model_;
  any_session session_;
  std::vector<token_id> tokens_;
  std::size_t expected_ = 0;  // tokens in all
  kv_cache<Backend> kv_;
  typename Backend::row_store stored_;
  typename Backend::row_store waiting_;
};

}  // namespace v0
}  // namespace lazyprune
