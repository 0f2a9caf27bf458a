// SPDX-License-Identifier: MIT
// Byte-pair encoding of one word by ranked merges, as in the `tokenizers` library. The pair with the lowest rank is merged first. Among
// pairs of equal rank, the leftmost is merged first. A character without a piece falls back to bytes or is unknown.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/tokenizer/merge_table.hpp>
#include <lazyprune/text/tokenizer/vocabulary.hpp>

namespace lazyprune {
inline namespace v0 {

struct bpe_options {
  std::optional<token_id> unknown;  // nullopt: unknown characters are dropped
  bool fuse_unknown = false;        // a run of unknown characters becomes one token
  bool byte_fallback = false;       // an unknown character becomes the pieces <0x..> of its bytes, if all of these exist
  bool ignore_merges = false;       // a word that is a piece becomes that piece without merging
};

class bpe {
 public:
  bpe() = default;
  bpe(vocabulary pieces, bpe_options options) : pieces_(std::move(pieces)), options_(options) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      constexpr std::string_view digits = "0123456789ABCDEF";
      bytes_[byte] = pieces_.find(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + '>');
    }
  }

  const vocabulary& pieces() const { return pieces_; }
  const bpe_options& options() const { return options_; }

  /// Makes room for this number of merges.
  void reserve(std::size_t merges) { merges_.reserve(merges); }

  /// Adds the merge with the next rank. Throws `error` without file and place if one of its pieces is not in the vocabulary.
  void merge(std::string_view left, std::string_view right) {
    const auto known = [&](std::string_view piece) {
      const auto id = pieces_.find(piece);
      if (!id) throw error("", "", "pieces of the vocabulary", in_quotes(piece));
      return *id;
    };
    const token_id left_id = known(left), right_id = known(right);
    merge(left_id, right_id, known(std::string(left).append(right)));
  }
  void merge(token_id left, token_id right, token_id whole) { merges_.set(left, right, {ranks_++, whole}); }

  /// Adds a merge for every two pieces that together make a piece. The rank is the id of the piece that they make. Vocabularies without
  /// a list of merges need this.
  void merge_by_rank() {
    for (token_id whole = 0; whole < pieces_.size(); ++whole) {
      const std::string_view text = pieces_.piece(whole).value_or("");
      if (text.empty()) continue;
      for (std::size_t at = utf8_length(text[0]); at < text.size(); at += utf8_length(text[at])) {
        const auto left = pieces_.find(text.substr(0, at)), right = left ? pieces_.find(text.substr(at)) : std::nullopt;
        if (right) merges_.set(*left, *right, {whole, whole});
      }
    }
  }

  /// Encodes a well-formed word and appends its tokens to `out`. Uses only ids for which `may_be(id)` is true, byte pieces, and the unknown
  /// token. The time grows as n log n.
  template <class MayBe>
  void encode(std::string_view word, std::vector<token_id>& out, const MayBe& may_be) const {
    if (options_.ignore_merges)
      if (const auto whole = pieces_.find(word); whole && may_be(*whole)) return out.push_back(*whole);
    std::vector<symbol> symbols = symbols_of(word, may_be);
    if (symbols.size() > 1) merge_all(symbols, may_be);
    for (const symbol& one : symbols)
      if (!one.gone) out.push_back(one.id);
  }
  void encode(std::string_view word, std::vector<token_id>& out) const {
    encode(word, out, [](token_id) { return true; });
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  struct symbol {  // a node in the list of the word's tokens, from left to right
    token_id id;
    std::uint32_t previous, next;
    bool gone;
  };

  struct candidate {
    std::uint32_t rank, left;
    token_id whole;

    friend bool operator<(const candidate& a, const candidate& b) { return a.rank != b.rank ? a.rank > b.rank : a.left > b.left; }
  };

  template <class MayBe>
  std::vector<symbol> symbols_of(std::string_view word, const MayBe& may_be) const {
    std::vector<symbol> symbols;
    symbols.reserve(word.size());
    const auto add = [&](token_id id) {
      const auto at = static_cast<std::uint32_t>(symbols.size());
      symbols.push_back({id, at - 1, at + 1, false});
    };
    bool unknown = false;  // unknown characters stand before this one, and their token is not added yet
    const auto flush = [&] {
      if (unknown) add(*options_.unknown);
      unknown = false;
    };
    for (std::size_t size; !word.empty(); word.remove_prefix(size)) {
      size = utf8_length(word[0]);
      const std::string_view character = word.substr(0, size);
      if (const auto id = pieces_.find(character); id && may_be(*id)) {
        flush();
        add(*id);
      } else if (falls_back(character)) {
        for (const char byte : character) add(*bytes_[static_cast<unsigned char>(byte)]);
      } else if (options_.unknown) {
        if (!options_.fuse_unknown) flush();
        unknown = true;
      }
    }
    flush();
    if (!symbols.empty()) {
      symbols.front().previous = none;
      symbols.back().next = none;
    }
    return symbols;
  }

  bool falls_back(std::string_view character) const {
    if (!options_.byte_fallback) return false;
    for (const char byte : character)
      if (!bytes_[static_cast<unsigned char>(byte)]) return false;
    return true;
  }

  template <class MayBe>
  void merge_all(std::vector<symbol>& symbols, const MayBe& may_be) const {
    std::vector<candidate> first;
    const auto offer = [&](std::uint32_t left, const auto& take) {
      if (left == none || symbols[left].next == none) return;
      if (const auto* const found = merges_.find(symbols[left].id, symbols[symbols[left].next].id); found && may_be(found->whole))
        take(candidate{found->rank, left, found->whole});
    };
    for (std::uint32_t i = 0; i + 1 < symbols.size(); ++i) offer(i, [&](const candidate& one) { first.push_back(one); });
    std::priority_queue<candidate> queue(std::less<candidate>{}, std::move(first));
    const auto push = [&](const candidate& one) { queue.push(one); };
    while (!queue.empty()) {
      const candidate top = queue.top();
      queue.pop();
      symbol& left = symbols[top.left];
      if (left.gone || left.next == none) continue;
      symbol& right = symbols[left.next];
      const auto* const now = merges_.find(left.id, right.id);
      if (!now || now->whole != top.whole) continue;  // one of the two has been merged since
      left.id = top.whole;
      left.next = right.next;
      right.gone = true;
      if (right.next != none) symbols[right.next].previous = top.left;
      offer(left.previous, push);
      offer(top.left, push);
    }
  }

  vocabulary pieces_;
  bpe_options options_;
  std::array<std::optional<token_id>, 256> bytes_{};
  merge_table merges_;
  std::uint32_t ranks_ = 0;
};

}  // namespace v0
}  // namespace lazyprune
