// SPDX-License-Identifier: MIT
// The unigram model of the `tokenizers` library. It splits a word into the pieces whose scores have the greatest sum.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/tokenizer/prefix_search.hpp>
#include <lazyprune/text/tokenizer/vocabulary.hpp>

namespace lazyprune {
inline namespace v0 {

class unigram {
 public:
  /// The most bytes of a piece. There is a limit because the time for a text grows with the longest piece.
  static constexpr std::size_t most_piece = 512;

  /// `scores`: one for each piece, by id. Throws `error` without file and place if a piece has more than `most_piece` bytes.
  unigram(vocabulary pieces, std::vector<double> scores, std::optional<token_id> unknown, bool byte_fallback)
      : pieces_(std::move(pieces)), scores_(std::move(scores)), unknown_(unknown), byte_fallback_(byte_fallback) {
    std::vector<prefix_search::entry> entries;
    entries.reserve(pieces_.size());
    for (token_id id = 0; id < pieces_.size(); ++id) {
      const std::string_view piece = *pieces_.piece(id);
      if (piece.size() > most_piece)
        throw error("", "", "pieces of at most " + std::to_string(most_piece) + " bytes", std::to_string(piece.size()),
                    error_code::unsupported);
      if (!piece.empty()) entries.emplace_back(piece, id);
      unknown_score_ = std::min(unknown_score_, scores_[id] - 10);
    }
    search_ = prefix_search(std::move(entries));
    for (std::size_t byte = 0; byte < 256; ++byte) {
      constexpr std::string_view digits = "0123456789ABCDEF";
      bytes_[byte] = pieces_.find(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + '>');
    }
  }

  const vocabulary& pieces() const { return pieces_; }
  std::optional<token_id> unknown() const { return unknown_; }
  bool byte_fallback() const { return byte_fallback_; }

  /// Encodes a well-formed word and appends its tokens to `out`. Uses only ids for which `may_be(id)` is true, byte pieces, and the unknown
  /// token. Throws `error` if a character is unknown and the model has no unknown token.
  template <class MayBe>
  void encode(std::string_view word, std::vector<token_id>& out, const MayBe& may_be) const {
    std::vector<step> best(word.size() + 1);
    best[0].score = 0;
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t character = utf8_length(word[at]);
      bool alone = false;
      const auto reach = [&](std::size_t size, double score, std::optional<token_id> id) {
        step& there = best[at + size];
        if (there.begin != none && best[at].score + score <= there.score) return;
        there = {best[at].score + score, at, id};
      };
      search_.each(word.substr(at), [&](std::size_t size, token_id id) {
        if (!may_be(id)) return;
        reach(size, scores_[id], id);
        alone = alone || size == character;
      });
      if (!alone) reach(character, unknown_score_, unknown_token());
      at += character;
    }
    write(word, best, out, may_be);
  }
  void encode(std::string_view word, std::vector<token_id>& out) const {
    encode(word, out, [](token_id) { return true; });
  }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  struct step {  // the best split of the word up to one place
    double score = 0;
    std::size_t begin = none;  // where the last piece of the split begins
    std::optional<token_id> id;
  };

  struct stretch {
    std::size_t begin, end;
    bool is_unknown;
  };

  token_id unknown_token() const {
    if (!unknown_) throw error("tokenizer", "text", "only characters of the vocabulary, because it has no unknown token", "another one");
    return *unknown_;
  }

  /// Appends the tokens of the best split. A run of unknown characters becomes one piece, which may fall back to bytes.
  template <class MayBe>
  void write(std::string_view word, const std::vector<step>& best, std::vector<token_id>& out, const MayBe& may_be) const {
    std::vector<stretch> pieces;
    for (std::size_t end = word.size(); end > 0; end = best[end].begin) {
      const bool is_unknown = unknown_ && best[end].id == unknown_;
      if (is_unknown && !pieces.empty() && pieces.back().is_unknown)
        pieces.back().begin = best[end].begin;
      else
        pieces.push_back({best[end].begin, end, is_unknown});
    }
    std::ranges::reverse(pieces);
    for (const auto& [begin, end, is_unknown] : pieces) {
      const std::string_view text = word.substr(begin, end - begin);
      if (const auto id = pieces_.find(text); id && may_be(*id)) {
        out.push_back(*id);
      } else if (byte_fallback_ &&
                 std::ranges::all_of(text, [&](char byte) { return bytes_[static_cast<unsigned char>(byte)].has_value(); })) {
        for (const char byte : text) out.push_back(*bytes_[static_cast<unsigned char>(byte)]);
      } else {
        out.push_back(unknown_token());
      }
    }
  }

  vocabulary pieces_;
  std::vector<double> scores_;
  std::optional<token_id> unknown_;
  bool byte_fallback_;
  double unknown_score_ = std::numeric_limits<double>::max();
  prefix_search search_;
  std::array<std::optional<token_id>, 256> bytes_{};
};

}  // namespace v0
}  // namespace lazyprune
