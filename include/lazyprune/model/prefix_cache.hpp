// SPDX-License-Identifier: MIT
// A prefix cache: keeps beginnings of prompts that were read, so that later prompts with the same beginning need not read it again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/model/generator.hpp>
#include <lazyprune/model/sequence.hpp>
#include <lazyprune/policy/presets.hpp>

namespace lazyprune {
inline namespace v0 {

/// Sequences that have read only chunks, the last used one first. A chunk runs the layers before the first that may prune. Their rows do
/// not depend on the question. So a kept beginning serves other questions, and policies whose chunks run as many layers or more. Each kept
/// sequence counts with all its memory, though forks share memory until they write to it. One thread at a time may use a cache. The
/// sequences that it returns may run on other threads.
template <tensor_backend Backend>
class prefix_cache {
 public:
  /// Keeps sequences of at most `most_bytes` together; 0: none. `question_tokens` is that of the continuous_batch which reads the prompts.
  explicit prefix_cache(std::size_t most_bytes, std::size_t question_tokens = 0)
      : most_bytes_(most_bytes), deepened_(2 * question_tokens) {}

  /// Returns a sequence under this session that already has the kept beginning that saves the most rows, or no tokens. It leaves at least
  /// the last piece of the prompt unread, so that the answer has the same bits as without the cache, if the backend gives a row the same
  /// bits in any batch. If the session's chunks run more layers than the kept ones, it leaves enough tokens for another chunk. The batch
  /// then runs that chunk through the missing layers, and the cache keeps the result. `expected`: see sequence::expect. The session must
  /// have no tokens.
  sequence<Backend> begin(const model<Backend>& net, any_session session, std::span<const token_id> prompt, std::size_t expected) {
    const layer_id depth = session.chunk_layers(phase::prefill);
    const rope_kind rope = rope_kind_for(net.config, expected);
    const auto all_but = [&](std::size_t rest) { return prompt.size() - std::min(prompt.size(), rest); };
    auto best = kept_.end();
    std::size_t saved = 0, shared = 0;
    for (auto at = kept_.begin(); at != kept_.end(); ++at) {
      if (at->depth > depth || at->seq.rope() != rope) continue;
      const std::size_t rest = std::max(detail::least_last_piece, at->depth < depth ? deepened_ : 0);
      const std::size_t common = std::min(common_tokens(at->seq.tokens(), prompt), all_but(rest));
      if (common * at->depth <= saved) continue;
      saved = common * at->depth;
      shared = common;
      best = at;
    }
    if (best == kept_.end()) return sequence<Backend>(net, std::move(session));
    kept_.splice(kept_.begin(), kept_, best);
    sequence<Backend> beginning = best->seq.fork();
    beginning.truncate(shared);  // the session may have no room for all that is kept
    return beginning.fork(std::move(session));
  }

  /// Sets the limit of the constructor to `most_bytes`, and drops what no longer fits.
  void limit(std::size_t most_bytes) {
    most_bytes_ = most_bytes;
    drop_oldest();
  }

  /// Keeps a fork of this sequence. Does nothing if it has read more than chunks. A kept sequence that it continues is dropped, because it
  /// serves no prompt better. Then the least recently used ones are dropped until the rest fits. Keeps nothing if this sequence alone does
  /// not fit, or if its chunks run no layers.
  void keep(const sequence<Backend>& seq) {
    const layer_id depth = seq.session().chunk_layers(phase::prefill);
    const std::size_t size = seq.bytes();
    if (size > most_bytes_ || depth == 0 || seq.session().queried()) return;
    for (auto at = kept_.begin(); at != kept_.end(); ++at) {
      if (at->depth != depth || at->seq.rope() != seq.rope()) continue;
      const std::size_t common = common_tokens(at->seq.tokens(), seq.tokens());
      if (common == seq.known()) {  // it is kept already
        kept_.splice(kept_.begin(), kept_, at);
        return;
      }
      if (common == at->seq.known()) {
        bytes_ -= at->bytes;
        kept_.erase(at);
        break;  // at most one kept sequence is a beginning of this one, because each `keep` drops the beginnings of what it adds
      }
    }
    kept_.push_front({seq.fork(), depth, size});
    bytes_ += size;
    drop_oldest();
  }

  /// Writes all kept sequences, the most recently used one first.
  void save(Backend& backend, byte_writer& to) const {
    to.text(format);
    to.number<std::uint64_t>(kept_.size());
    for (const entry& each : kept_) {
      to.number(each.depth);
      each.seq.save(backend, to);
    }
  }

  /// Keeps the sequences that `save` wrote for a model with the same weights, up to the first that does not fit. If the bytes are damaged
  /// or do not fit the model, throws `error` and keeps none of them.
  void load(Backend& backend, const model<Backend>& net, byte_reader& from) {
    if (const std::string found = from.text(64, "format"); found != format) from.refuse("format", std::string(format), found);
    std::list<entry> loaded;
    std::size_t bytes = 0;
    for (auto count = from.number<std::uint64_t>("sequences"); count > 0; --count) {
      const auto depth = from.number<layer_id>("chunk layers");
      if (depth == 0 || depth > net.config.layers)
        from.refuse("chunk layers", "1 to " + std::to_string(net.config.layers), std::to_string(depth));
      // Sequences that have read only chunks do not depend on their policies, so all get the dense policy.
      sequence<Backend> seq =
          sequence<Backend>::load(backend, net, any_session(dense(), {.layers = static_cast<layer_id>(net.config.layers)}), from);
      if (!is_beginning(seq, depth)) from.refuse("sequence", "only chunks through " + std::to_string(depth) + " layers", "other steps");
      const std::size_t size = seq.bytes();
      if (bytes_ + bytes + size > most_bytes_) break;
      bytes += size;
      loaded.push_back({std::move(seq), depth, size});
    }
    kept_.splice(kept_.end(), loaded);
    bytes_ += bytes;
  }

  std::size_t size() const { return kept_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct entry {
    sequence<Backend> seq;
    layer_id depth;  // the layers that were computed
    std::size_t bytes;
  };

  static constexpr std::string_view format = "lazyprune prefix cache 1";

  void drop_oldest() {
    while (bytes_ > most_bytes_) {
      bytes_ -= kept_.back().bytes;
      kept_.pop_back();
    }
  }

  /// Returns whether the sequence has read only chunks through `depth` layers.
  static bool is_beginning(const sequence<Backend>& seq, layer_id depth) {
    const frontier_table& tokens = seq.session().tokens();
    for (position t = 0; t < seq.known(); ++t)
      if (tokens.frontier(t) > depth || tokens.lost(t) || tokens.stored(t) || tokens.dropped_for_good(t)) return false;
    return !seq.session().queried();
  }

  static std::size_t common_tokens(std::span<const token_id> a, std::span<const token_id> b) {
    return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  }

  std::list<entry> kept_{};
  std::size_t most_bytes_, deepened_, bytes_ = 0;
};

}  // namespace v0
}  // namespace lazyprune
