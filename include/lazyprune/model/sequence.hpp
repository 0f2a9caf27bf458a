// SPDX-License-Identifier: MIT
// One conversation: its tokens, their keys and values, the rows put aside, and the session that plans for them. They change together, and
// so always belong together.
#pragma once

#include <algorithm>
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

/// The model must outlive it. A step that fails or is stopped leaves rows behind that nobody has: the sequence then refuses the next one,
/// as its session does, until it is cleared.
template <tensor_backend Backend>
class sequence {
 public:
  /// A new sequence. Throws `error` where the session is for another number of layers, or has begun.
  sequence(const lazyprune::model<Backend>& m, any_session session)
      : model_(&m), session_(std::move(session)), kv_(m.config), stored_(m.config.hidden) {
    if (session_.layers() != m.config.layers)
      throw error("session", "layers", std::to_string(m.config.layers) + " as in the model", std::to_string(session_.layers()));
    if (session_.known() > 0) throw error("session", "tokens", "none yet", std::to_string(session_.known()));
  }

  const lazyprune::model<Backend>& model() const { return *model_; }
  std::span<const token_id> tokens() const { return tokens_; }  // (known)
  std::size_t known() const { return tokens_.size(); }
  const any_session& session() const { return session_; }
  const kv_cache<Backend>& kv() const { return kv_; }
  const typename Backend::row_store& stored_rows() const { return stored_; }  // (slots, hidden): the Aux Cache's

  /// Makes room in the session for so many tokens, which is a limit from then on.
  void reserve(std::size_t tokens) {
    tokens_.reserve(tokens);
    session_.reserve(tokens);
  }

  /// Forgets all tokens. The memory of keys and values is kept for those to come.
  void clear() {
    typename Backend::row_store none(model_->config.hidden);
    session_.reset();
    tokens_.clear();
    kv_.clear();
    stored_ = std::move(none);
  }

 private:
  friend class transformer<Backend>;

  /// Makes room for so many tokens more, so that taking them in cannot fail.
  void make_room(std::size_t tokens) {
    const std::size_t needed = known() + tokens;
    if (needed > tokens_.capacity()) tokens_.reserve(std::max(needed, 2 * tokens_.capacity()));
  }

  const lazyprune::model<Backend>* model_;
  any_session session_;
  std::vector<token_id> tokens_;
  kv_cache<Backend> kv_;
  typename Backend::row_store stored_;
};

}  // namespace v0
}  // namespace lazyprune
