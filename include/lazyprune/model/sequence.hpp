// SPDX-License-Identifier: MIT
// A sequence: its tokens, their keys and values, its stored and waiting rows, and the session that plans for them. One class holds them, so
// that they always change together. A sequence can be forked, truncated, saved and loaded.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/finite.hpp>
#include <lazyprune/model/byte_stream.hpp>
#include <lazyprune/model/kv_cache.hpp>
#include <lazyprune/model/model.hpp>
#include <lazyprune/session/any_session.hpp>

namespace lazyprune {
inline namespace v0 {

template <tensor_backend Backend>
class transformer;

/// The model must outlive the sequence. A step that fails or is stopped is abandoned (step_machine::abandon): the sequence forgets the new
/// tokens of that step. Only one thread at a time may change a sequence. While none does, several threads may fork it at once, and each
/// fork may then run on a thread of its own, unless the sessions share a scratch (session_options::scratch).
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

  /// The bytes of the keys and values and of the stored and waiting rows. Forks share memory, but each fork counts all of it.
  std::size_t bytes() const { return kv_.bytes() + stored_.bytes() + waiting_.bytes(); }

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
    if (tokens == 0) {
      const forgets_with_session afterwards{*this};
      expected_ = 0;
      session_.truncate(0);
      return;
    }
    session_.truncate(tokens);
    tokens_.resize(tokens);
    kv_.truncate(computed());
    retain_rows();
  }

  /// Writes the tokens, keys, values, stored and waiting rows, and the state of the session. Call it between steps. If a policy has parts
  /// that change in steps, their changes are not written.
  void save(Backend& backend, byte_writer& to) const {
    const model_config& c = model_->config;
    const session_state state = session_.state();
    to.text(format);
    for (const std::size_t size : shape()) to.number<std::uint64_t>(size);
    to.number<std::uint64_t>(expected_);
    to.number<std::uint64_t>(known());
    to.numbers(tokens());
    for (const token_state& t : state.tokens) {
      to.number(t.frontier);
      to.number(static_cast<std::uint8_t>(t.hidden));
      to.number<std::uint8_t>(t.dropped_for_good);
      to.number(t.score);
    }
    to.number<std::uint8_t>(!state.memory.empty());
    to.numbers(std::span<const float>(state.memory));
    to.number<std::uint64_t>(state.queried_to);
    to.number<std::uint8_t>(state.queried);
    for (const std::size_t count : {state.stats.steps, state.stats.rows, state.stats.dense_rows, state.stats.revived})
      to.number<std::uint64_t>(count);
    for (layer_id l = 0; l < c.layers; ++l) {
      to.number<std::uint64_t>(state.stats.prefill_rows[l]);
      to.number<std::uint64_t>(state.stats.prefill_dense_rows[l]);
    }

    std::vector<typename Backend::scalar> numbers;
    for (layer_id l = 0; l < c.layers; ++l) {
      const std::vector<position> of_slots = kv_.tokens_of_slots(l);
      to.number<std::uint64_t>(of_slots.size());
      to.numbers(std::span<const position>(of_slots));
      in_blocks(of_slots.size(), [&](std::size_t first, std::size_t count) {
        numbers.resize(count * c.n_kv_heads * c.head_dim);
        for (const auto read : {&Backend::read_keys, &Backend::read_values}) {
          (backend.*read)(kv_.rows(l), numbered(first, count), numbers.data());
          const std::size_t width = numbers.size() / count;
          for (std::size_t i = 0; i < count; ++i)  // free slots may hold numbers of forgotten tokens, also NaN
            if (of_slots[first + i] == kv_cache<Backend>::free_slot) std::fill_n(numbers.data() + i * width, width, 0);
          to.row_numbers(std::span<const typename Backend::scalar>(numbers));
        }
      });
    }
    typename Backend::buffer rows(c.hidden);
    rows.reserve(block_rows);
    const auto save_rows = [&](const typename Backend::row_store& store, bool (frontier_table::*has)(position) const noexcept) {
      const std::vector<std::uint32_t> slots = slots_of_tokens(has);
      in_blocks(slots.size(), [&](std::size_t first, std::size_t count) {
        const rows_view<typename Backend::scalar> some = rows.view().slice(0, count);
        backend.take_rows(store, std::span(slots).subspan(first, count), some, numbered(0, count));
        numbers.resize(count * c.hidden);
        backend.read(some, numbers.data());
        to.row_numbers(std::span<const typename Backend::scalar>(numbers));
      });
    };
    save_rows(stored_, &frontier_table::stored);
    save_rows(waiting_, &frontier_table::waiting);
    to.checksum();
  }

  /// Reads a sequence that `save` wrote for a model with the same weights. `session` must have no tokens, and the policy of the
  /// saved session (see step_machine::restore). The backend must store keys, values and rows in the same types as the saving one. Throws
  /// `error` if the bytes are damaged, or if they do not fit the model or the session.
  static sequence load(Backend& backend, const lazyprune::model<Backend>& m, any_session session, byte_reader& from) {
    sequence seq(m, std::move(session));
    seq.read(backend, from);
    return seq;
  }

  /// Forgets all tokens, the statistics and the memory of the scorer. Keeps the memory of the keys and values for new tokens.
  void clear() {
    const forgets_with_session afterwards{*this};
    session_.reset();
    expected_ = 0;
  }

 private:
  friend class transformer<Backend>;

  static constexpr std::string_view format = "lazyprune sequence 1";
  static constexpr std::size_t block_rows = 256;  // rows that are saved or loaded at a time

  std::array<std::size_t, 5> shape() const {
    const model_config& c = model_->config;
    return {c.layers, c.hidden, c.n_kv_heads, c.head_dim, c.vocabulary};
  }

  void read(Backend& backend, byte_reader& from) {
    const model_config& c = model_->config;
    if (const std::string found = from.text(64, "format"); found != format) from.refuse("format", std::string(format), found);
    constexpr std::string_view names[] = {"layers", "hidden size", "KV heads", "head size", "vocabulary"};
    for (std::size_t i = 0; i < std::size(names); ++i)
      if (const auto found = from.number<std::uint64_t>(names[i]); found != shape()[i])
        from.refuse(names[i], std::to_string(shape()[i]) + " as in the model", std::to_string(found));
    expected_ = from.number<std::uint64_t>("expected length");
    const auto length = from.number<std::uint64_t>("tokens");
    const std::size_t most = std::min(c.max_positions, session_.limit());
    if (length > most) from.refuse("tokens", "at most " + std::to_string(most), std::to_string(length));
    from.append(tokens_, length, "tokens");
    for (const token_id id : tokens_)
      if (id >= c.vocabulary) from.refuse("tokens", "ids below " + std::to_string(c.vocabulary), std::to_string(id));
    const session_state state = read_state(from);
    try {
      session_.restore(state);
    } catch (const error& e) {
      from.refuse("state", "one that fits the session", e.what());
    }

    typename Backend::buffer keys(c.n_kv_heads * c.head_dim), values(c.n_kv_heads * c.head_dim), rows(c.hidden);
    for (layer_id l = 0; l < c.layers; ++l) {
      const std::vector<position> of_slots = read_slots(from, l);
      in_blocks(of_slots.size(), [&](std::size_t first, std::size_t count) {
        const auto k = read_rows(backend, from, keys, count, "keys"), v = read_rows(backend, from, values, count, "values");
        kv_.put_back(backend, l, first, std::span(of_slots).subspan(first, count), k, v);
      });
    }
    const std::vector<std::uint32_t> stored = slots_of_tokens(&frontier_table::stored), waiting = slots_of_tokens(&frontier_table::waiting);
    in_blocks(stored.size(), [&](std::size_t first, std::size_t count) {
      backend.store_rows(read_rows(backend, from, rows, count, "stored rows"), numbered(0, count), stored_,
                         std::span(stored).subspan(first, count));
    });
    in_blocks(waiting.size(), [&](std::size_t first, std::size_t count) {
      backend.keep_rows(read_rows(backend, from, rows, count, "waiting rows"), numbered(0, count), waiting_,
                        std::span(waiting).subspan(first, count));
    });
    from.checksum();
  }

  /// Reads the token of each slot of a layer. Throws `error` unless each token with keys in this layer has one slot, and other tokens have
  /// none.
  std::vector<position> read_slots(byte_reader& from, layer_id l) const {
    const frontier_table& table = session_.tokens();
    const auto count = from.number<std::uint64_t>("slots");
    const std::size_t most = model_->config.max_positions;
    if (count > most) from.refuse("slots", "at most " + std::to_string(most), std::to_string(count));
    std::vector<position> of_slots;
    from.append(of_slots, count, "slots");
    std::vector<bool> missing(known());
    for (position t = 0; t < known(); ++t) missing[t] = has_keys(table, l, t);
    for (const position t : of_slots) {
      if (t == kv_cache<Backend>::free_slot) continue;
      if (t >= known() || !missing[t])
        from.refuse("slots", "one slot for each token with keys",
                    "another for token " + std::to_string(t) + " in layer " + std::to_string(l));
      missing[t] = false;
    }
    if (const auto t = std::ranges::find(missing, true); t != missing.end())
      from.refuse("slots", "a slot for each token with keys", "none for token " + std::to_string(t - missing.begin()));
    return of_slots;
  }

  session_state read_state(byte_reader& from) const {
    session_state state{.layers = session_.layers()};
    for (std::size_t t = 0; t < known(); ++t) {
      token_state token{.frontier = from.number<layer_id>("frontier")};
      const auto hidden = from.number<std::uint8_t>("hidden state");
      if (hidden > static_cast<std::uint8_t>(hidden_state::lost)) from.refuse("hidden state", "0 to 3", std::to_string(hidden));
      token.hidden = static_cast<hidden_state>(hidden);
      token.dropped_for_good = from.number<std::uint8_t>("token") != 0;
      token.score = from.number<float>("score");
      state.tokens.push_back(token);
    }
    if (from.number<std::uint8_t>("memory") != 0) from.append(state.memory, known(), "memory");
    state.queried_to = from.number<std::uint64_t>("queried tokens");
    state.queried = from.number<std::uint8_t>("queried") != 0;
    for (std::size_t* count : {&state.stats.steps, &state.stats.rows, &state.stats.dense_rows, &state.stats.revived})
      *count = from.number<std::uint64_t>("statistics");
    for (layer_id l = 0; l < state.layers; ++l) {
      state.stats.prefill_rows.push_back(from.number<std::uint64_t>("statistics"));
      state.stats.prefill_dense_rows.push_back(from.number<std::uint64_t>("statistics"));
    }
    return state;
  }

  static rows_view<typename Backend::scalar> read_rows(Backend& backend, byte_reader& from, typename Backend::buffer& buffer,
                                                       std::size_t count, std::string_view what) {
    buffer.reserve(block_rows);
    const rows_view<typename Backend::scalar> rows = buffer.view().slice(0, count);
    std::vector<typename Backend::scalar> numbers(count * rows.columns);
    from.row_numbers(std::span(numbers), what);
    if (!std::ranges::all_of(numbers, [](auto number) { return is_finite(number); }))
      from.refuse(what, "finite numbers", "infinity or NaN");
    backend.write(numbers.data(), rows);
    return rows;
  }

  /// Cuts `size` rows into blocks, and calls work(first, count) for each block.
  template <class Work>
  static void in_blocks(std::size_t size, const Work& work) {
    for (std::size_t first = 0; first < size; first += block_rows) work(first, std::min(block_rows, size - first));
  }

  /// Returns whether the cache has a token's keys and values in this layer.
  static bool has_keys(const frontier_table& table, layer_id l, position t) { return l < table.frontier(t) && !table.dropped_for_good(t); }

  /// The slots of the tokens for which `has` is true, in the order of the tokens.
  std::vector<std::uint32_t> slots_of_tokens(bool (frontier_table::*has)(position) const noexcept) const {
    std::vector<std::uint32_t> slots;
    for (position t = 0; t < known(); ++t)
      if ((session_.tokens().*has)(t)) slots.push_back(session_.tokens().slot(t));
    return slots;
  }

  static std::vector<std::uint32_t> numbered(std::size_t first, std::size_t count) {
    std::vector<std::uint32_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), static_cast<std::uint32_t>(first));
    return numbers;
  }

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
      seq.kv_.retain([&](layer_id l, position t) { return t < table.known() && has_keys(table, l, t); });
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
