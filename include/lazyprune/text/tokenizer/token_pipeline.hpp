// SPDX-License-Identifier: MIT
// The steps of a tokenizer.json, in the order of the `tokenizers` library. First, added tokens are cut out. The rest is normalized, and
// further added tokens are cut out. The remaining text is split into words. The model (BPE or Unigram) encodes each word. Last, the
// post-processor puts tokens around the result.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/tokenizer/added_tokens.hpp>
#include <lazyprune/text/tokenizer/bpe.hpp>
#include <lazyprune/text/tokenizer/decoder.hpp>
#include <lazyprune/text/tokenizer/normalizer.hpp>
#include <lazyprune/text/tokenizer/post_processor.hpp>
#include <lazyprune/text/tokenizer/pre_tokenizer.hpp>
#include <lazyprune/text/tokenizer/unigram.hpp>
#include <lazyprune/text/tokenizer/vocabulary.hpp>

namespace lazyprune {
inline namespace v0 {

struct token_pipeline {
  std::string kind;  // for people, such as "BPE, byte-level"
  added_tokens added;
  normalizer normal;
  pre_tokenizer words;
  std::variant<bpe, unigram> model;
  post_processor around;
  decoder from_pieces;

  const vocabulary& pieces() const {
    return std::visit([](const auto& one) -> const vocabulary& { return one.pieces(); }, model);
  }

  /// Returns one more than the largest id.
  std::size_t size() const {
    std::size_t ids = pieces().size();
    for (const added_token& one : added.all()) ids = std::max<std::size_t>(ids, std::size_t{one.id} + 1);
    return ids;
  }

  /// Returns the piece with this id as the file spells it, or nullopt if there is none.
  std::optional<std::string_view> piece(token_id id) const {
    if (const added_token* const one = added.find(id)) return one->text;
    return pieces().piece(id);
  }

  /// Returns the id of the token with this piece, or nullopt if there is none.
  std::optional<token_id> find(std::string_view piece) const {
    const auto one = std::ranges::find(added.all(), piece, &added_token::text);
    return one != added.all().end() ? std::optional(one->id) : pieces().find(piece);
  }

  bool is_special(token_id id) const {
    const added_token* const one = added.find(id);
    return one && one->special;
  }

  /// Returns the token ids of a well-formed text, without the tokens of the post-processor.
  std::vector<token_id> encode(std::string_view text) const {
    return encode(
        text, [](token_id) { return false; }, [](text_range) { return true; });
  }

  /// Like encode(text), but with reserved tokens: those for which `reserved(id)` is true. A reserved token is recognised only at ranges of
  /// the text for which `own_at(range)` is true. Elsewhere its text is encoded like any other text, and the model never outputs its id.
  template <class Reserved, class OwnAt>
  std::vector<token_id> encode(std::string_view text, const Reserved& reserved, const OwnAt& own_at) const {
    std::vector<token_id> out;
    known_words known;
    const auto model_may_make = [&](token_id id) { return !reserved(id); };
    const auto may_be = [&](const added_token& token, text_range range) { return !reserved(token.id) || own_at(range); };
    for (const added_tokens::piece& outer : added.cut(text, false, may_be)) {
      if (outer.id) {
        out.push_back(*outer.id);
        continue;
      }
      const text_range range = outer.range;
      const std::string_view stretch = text.substr(range.begin, range.end - range.begin);
      const normalizer::result normalized = normal.apply(stretch);
      // If the normalizer changed the stretch, the origin of each byte is lost. Reserved tokens are then allowed only if own_at is true for
      // the whole stretch.
      const bool changed = normalized.text != stretch, own_anywhere = changed && own_at(range);
      const auto is_allowed = [&](const added_token& token, text_range in) {
        return !reserved(token.id) || (changed ? own_anywhere : own_at(text_range{range.begin + in.begin, range.begin + in.end}));
      };
      for (const auto& [within, inner] : added.cut(normalized.text, true, is_allowed)) {
        if (inner)
          out.push_back(*inner);
        else
          encode_words(normalized.text.substr(within.begin, within.end - within.begin),
                       range.begin == 0 && within.begin == 0 && normalized.from_start, model_may_make, known, out);
      }
    }
    return out;
  }

 private:
  /// Maps each word that was already encoded to its tokens in the output: the index of the first one and their number.
  using known_words = std::unordered_map<std::string, std::pair<std::size_t, std::size_t>>;
  static constexpr std::size_t longest_known = 64, most_known = std::size_t{1} << 16;

  template <class MayBe>
  void encode_words(std::string stretch, bool first, const MayBe& may_be, known_words& known, std::vector<token_id>& out) const {
    for (text_piece& word : words.apply(std::move(stretch), first)) {
      if (word.text.size() <= longest_known)
        if (const auto before = known.find(word.text); before != known.end()) {
          const auto [begin, count] = before->second;
          for (std::size_t i = 0; i < count; ++i) out.push_back(out[begin + i]);
          continue;
        }
      const std::size_t begin = out.size();
      std::visit([&](const auto& one) { one.encode(word.text, out, may_be); }, model);
      if (word.text.size() <= longest_known && known.size() < most_known)
        known.emplace(std::move(word.text), std::pair(begin, out.size() - begin));
    }
  }
};

}  // namespace v0
}  // namespace lazyprune
