// SPDX-License-Identifier: MIT
// A sequence: its tokens, their keys and values, its stored and waiting rows, and the session that plans for them. One class holds them, so
// that they always change together. A sequence can be forked and truncated.
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

/// The model must outlive the sequence. A step that fails or is stopped is abandoned (step_machine::abandon): the sequence forgets the new
/// tokens of that step.
template <tensor_backend Backend>
class sequence {
 public:
  /// Makes an empty sequence. Throws `error` if the session has another number of layers than the model, or already has tokens.
  sequence(const lazyprune::model<Backend>& m, any_session session)
      : model_(&m), session_(std::move(session)), kv_(m.config, m.kv_types()), stored_(new_store(m)), waiting_(m.config.hidden) {
    if (session_.layers() != m.config.layers)
      throw error("session", "layers", std::to_string(m.config.layers) + " as in the model", std::to_string(session_.layers()));
    if (session_.known() > 0) throw error("session", "tokens", "none yet", std::to_string(session_.known()));
  }

  sequence(sequence&&) noexcept = default;
  sequence& operator=(sequence&&) noexcept = default;

  /// Returns a copy that continues as this one would, with the same limit. Call it between steps. The copy and the original share each
  /// block of memory until one of them writes to it. So many answers can share the memory of one document.
  sequence fork() const { return sequence(*this, session_.clone()); }

  /// Returns a copy under another policy. `under` is a session without tokens. Several policies can thus continue from one prefix, as if
  /// each had read it. Throws `error` if the policies do not allow this (step_machine::take_over).
  sequence fork(any_session under) const {
    under.take_over(session_);
    sequence copy(*this, std::move(under));
    copy.kv_.truncate(copy.computed());
    copy.retain_rows();
    return copy;
  }

  const lazyprune::model<Backend>& model() const { return *model_; }
  std::span<const token_id> tokens() const { return tokens_; }  // (known)
  std::size_t known() const { return tokens_.size(); }
  const any_session& session() const { return session_; }
  const kv_cache<Backend>& kv() const { return kv_; }
  const typename Backend::row_store& aux_cache() const { return stored_; }      // (slots, hidden): the Aux Cache
  const typename Backend::row_store& waiting_rows() const { return waiting_; }  // (slots, hidden): waiting rows (core/plan.hpp)

  /// Raises the expected length of the whole sequence to `tokens` tokens, if it is lower. LongRoPE chooses its frequencies by this length.
  /// Call it before the first token; later calls change nothing. `reserve` and the first step also call it.
  void expect(std::size_t tokens) {
    if (known() == 0) expected_ = std::max(expected_, tokens);
  }
  /// The kind of rotary table for layers without a window.
  rope_kind rope() const { return rope_kind_for(model_->config, expected_); }

  /// Makes room in the session for `tokens` tokens, or for the session's limit if the limit is lower. Does not set or change the limit.
  void make_room(std::size_t tokens) {
    session_.make_room(tokens);
    tokens_.reserve(std::min(tokens, session_.limit()));
  }

  /// Makes room in the session for `tokens` tokens. From then on this number is the session's limit.
  void reserve(std::size_t tokens) {
    expect(tokens);
    tokens_.reserve(tokens);
    session_.reserve(tokens);
  }

  /// Like `reserve(tokens)`, but also reserves the backend's memory for this sequence, so that steps do not allocate it. The memory holds
  /// keys and values of `tokens` tokens at every layer, `stored` rows in the Aux Cache and `waiting` waiting rows. `stored` and `waiting`
  /// are at most `tokens`. The memory stays when tokens are forgotten. A fork does not get this memory. A write to a block that is shared
  /// with a fork still copies the block.
  void reserve(Backend& backend, std::size_t tokens, std::size_t stored, std::size_t waiting) {
    reserve(tokens);
    kv_.reserve(backend, tokens);
    backend.reserve_stored(stored_, stored);
    backend.reserve_kept(waiting_, waiting);
  }

  /// Forgets all but the first `tokens` tokens; `tokens` is at most known(). Keeps the memory of the keys and values for new tokens. See
  /// step_machine::truncate.
  void truncate(std::size_t tokens) {
    session_.truncate(tokens);
    tokens_.resize(tokens);
    if (tokens == 0) expected_ = 0;
    kv_.truncate(computed());
    retain_rows();
  }

  /// Forgets all tokens, the statistics and the memory of the scorer. Keeps the memory of the keys and values for new tokens.
  void clear() {
    const forgets_with_session afterwards{*this};
    session_.reset();
    expected_ = 0;
  }

 private:
  friend class transformer<Backend>;

  /// Makes an empty Aux Cache. Its rows have the type model::stored_type, if the backend lets the caller choose the type.
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

  /// Makes room for `tokens` more tokens, so that adding them cannot fail.
  void grow_by(std::size_t tokens) {
    const std::size_t needed = known() + tokens;
    if (needed > tokens_.capacity()) tokens_.reserve(std::max(needed, 2 * tokens_.capacity()));
  }

  void abandon() {
    const forgets_with_session afterwards{*this};
    session_.abandon();
  }

  /// When this object is destroyed, the sequence forgets the tokens and rows that the session no longer has. So this also happens if the
  /// session throws because it cannot construct a user's policy again.
  struct forgets_with_session {
    sequence& seq;
    ~forgets_with_session() {
      const frontier_table& table = seq.session_.tokens();
      seq.tokens_.resize(table.known());
      seq.kv_.retain([&](layer_id l, position t) { return t < table.known() && l < table.frontier(t) && !table.dropped_for_good(t); });
      seq.retain_rows();
    }
  };

  /// The number of tokens up to the last one that is computed at layer 0 and not dropped for good. After `truncate` and `take_over` there
  /// may be tokens after that one: if the scorer gathers windows, the next step computes the last tokens again
  /// (step_machine::evidence_window).
  std::size_t computed() const noexcept {
    const frontier_table& table = session_.tokens();
    std::size_t n = table.known();
    while (n > 0 && (table.frontier(static_cast<position>(n - 1)) == 0 || table.dropped_for_good(static_cast<position>(n - 1)))) --n;
    return n;
  }

  /// Frees the rows in slots that the session has freed.
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
  std::size_t expected_ = 0;  // expected length of the whole sequence, in tokens
  kv_cache<Backend> kv_;
  typename Backend::row_store stored_;
  typename Backend::row_store waiting_;
};

}  // namespace v0
}  // namespace lazyprune
