// SPDX-License-Identifier: MIT
// The tokens that a tokenizer.json adds to its model. They are cut out of a text before it is split into words: some
// before the text is normalized, the others after that. If several tokens match at the same place, the longest is taken, and the search
// continues after that token.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/tokenizer/normalizer.hpp>
#include <lazyprune/text/tokenizer/prefix_search.hpp>
#include <lazyprune/text/tokenizer/text_pattern.hpp>
#include <lazyprune/text/tokenizer/unicode.hpp>
#include <lazyprune/text/tokenizer/vocabulary.hpp>

namespace lazyprune {
inline namespace v0 {

struct added_token {
  std::string text;
  token_id id = 0;
  bool single_word = false;  // matches only if no word character stands beside it
  bool lstrip = false;       // swallows the white space before it
  bool rstrip = false;       // swallows the white space after it
  bool normalized = false;   // the search looks for its normalized text in the normalized text
  bool special = false;
};

namespace detail {

/// Returns whether the text is only white space. Tokens of white space are never reserved (text_run.hpp), because every text has them.
inline bool is_blank(std::string_view text) {
  while (!text.empty()) {
    const auto [code, bytes] = first_character(text);
    constexpr char32_t written_space = 0x2581;  // SentencePiece's character for a space
    if (code != written_space && !is_unicode_white_space(code)) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace detail

class added_tokens {
 public:
  /// The most bytes that the text of a token may have. The search time grows with this limit.
  static constexpr std::size_t most_text = 512;

  /// A stretch of text (without an id), or an added token (with its id).
  struct piece {
    text_range range;
    std::optional<token_id> id;
  };

  added_tokens() = default;
  /// `normal` normalizes the tokens that are searched for in normalized text. Throws `error` without file and place if a token is too long
  /// or empty, or if a token has `single_word` and `characters` is null.
  added_tokens(std::vector<added_token> tokens, const normalizer& normal, const unicode* characters)
      : tokens_(std::move(tokens)), characters_(characters) {
    std::vector<prefix_search::entry> raw, normalized, marks;
    searched_.reserve(tokens_.size());
    for (const bool special : {true, false})
      for (const added_token& one : tokens_) {
        if (one.special != special) continue;
        searched_.push_back(one.normalized ? normal.apply(one.text).text : one.text);
        if (searched_.back().empty() || searched_.back().size() > most_text)
          throw error("", "", "added tokens of 1 to " + std::to_string(most_text) + " bytes", in_quotes(one.text), error_code::unsupported);
        if (one.single_word && !characters)
          throw error("", "", "no single_word, because this build lacks PCRE2 and utf8proc", in_quotes(one.text), error_code::unsupported);
        (one.normalized ? normalized : raw).emplace_back(searched_.back(), static_cast<token_id>(&one - tokens_.data()));
      }
    searches_[0] = prefix_search(std::move(raw));
    searches_[1] = prefix_search(std::move(normalized));
    for (const added_token& one : tokens_)
      if (!one.special && !detail::is_blank(one.text)) marks.emplace_back(one.text, one.id);
    marks_ = prefix_search(std::move(marks));
    for (const added_token& one : tokens_) by_id_.emplace(one.id, static_cast<std::size_t>(&one - tokens_.data()));
  }
  // No copies: the tables point into the texts.
  added_tokens(const added_tokens&) = delete;
  added_tokens& operator=(const added_tokens&) = delete;
  added_tokens(added_tokens&&) = default;
  // NOLINTNEXTLINE(bugprone-reserved-identifier, readability-identifier-naming): the names are the compiler's own
  added_tokens& operator=(added_tokens&&) = default;

  const std::vector<added_token>& all() const { return tokens_; }

  /// Returns the added token with this id, or null if there is none.
  const added_token* find(token_id id) const {
    const auto at = by_id_.find(id);
    return at == by_id_.end() ? nullptr : &tokens_[at->second];
  }

  /// Calls found(id) for each mark in `text`. Marks are the added tokens that are neither special nor white space.
  template <class Found>
  void each_mark(std::string_view text, const Found& found) const {
    for (std::size_t at = 0; at < text.size() && !marks_.empty(); ++at)
      marks_.each(text.substr(at), [&](std::size_t, token_id id) { found(id); });
  }

  /// Cuts a well-formed text at the added tokens in it. `normalized`: whether the text is normalized. If it is, searches only for tokens
  /// with added_token::normalized. Otherwise searches only for tokens without it. A token is recognised only if `may_be(token, range)` is
  /// true.
  template <class MayBe>
  std::vector<piece> cut(std::string_view text, bool normalized, const MayBe& may_be) const {
    std::vector<piece> out;
    const prefix_search& search = searches_[normalized ? 1 : 0];
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size() && !search.empty();) {
      std::size_t size = 0;
      token_id longest = 0;
      search.each(text.substr(at), [&](std::size_t bytes, token_id index) {
        if (!may_be(tokens_[index], text_range{at, at + bytes})) return;
        size = bytes;
        longest = index;
      });
      if (size == 0) {
        ++at;
        continue;
      }
      text_range range{at, at + size};
      at += size;
      const added_token& token = tokens_[longest];
      if (token.single_word && !is_single_word(text, range)) continue;
      if (token.lstrip) range.begin = std::max(range.begin - detail::trailing_space(text.substr(0, range.begin)), done);
      if (token.rstrip) range.end += detail::leading_space(text.substr(range.end));
      if (done < range.begin) out.push_back({{done, range.begin}, std::nullopt});
      out.push_back({range, token.id});
      done = range.end;
    }
    if (done != text.size()) out.push_back({{done, text.size()}, std::nullopt});
    return out;
  }

 private:
  bool is_single_word(std::string_view text, text_range range) const {
    const std::string_view before = text.substr(0, range.begin), behind = text.substr(range.end);
    return (before.empty() || !characters_->is_word(last_character(before).code)) &&
           (behind.empty() || !characters_->is_word(first_character(behind).code));
  }

  std::vector<added_token> tokens_;
  std::vector<std::string> searched_;  // the texts that are searched for, those of special tokens first
  const unicode* characters_ = nullptr;
  prefix_search searches_[2];  // [0] for the original text, [1] for normalized text; both find indices of tokens_
  prefix_search marks_;        // finds ids of tokens that are neither special nor white space
  std::unordered_map<token_id, std::size_t> by_id_;
};

/// Reads an added token from its JSON object, except for the id. Depending on the file, the id is a member of the object or the object's
/// key. Throws `error`, with the place, if an option is not supported.
inline added_token added_token_of(const json_value& json) {
  json.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type"}, error_code::unsupported);
  added_token one;
  one.text = json.at("content").string();
  one.single_word = json.at("single_word").boolean();
  one.lstrip = json.at("lstrip").boolean();
  one.rstrip = json.at("rstrip").boolean();
  one.normalized = json.at("normalized").boolean();
  one.special = json.at("special").boolean();
  return one;
}

/// Returns the list `added_tokens` of a tokenizer.json, with the ids of the file. Throws `error`, with the place, if an option is not
/// supported, if there are too many tokens, or if an id is too large.
inline std::vector<added_token> added_tokens_of(const json_value& list) {
  std::vector<added_token> all;
  list.each_item([&](const json_value& json) {
    if (all.size() == vocabulary::most_ids) list.refuse("at most " + std::to_string(vocabulary::most_ids) + " tokens");
    all.push_back(added_token_of(json));
    all.back().id = static_cast<token_id>(json.at("id").whole_number(0, vocabulary::most_ids - 1));
  });
  return all;
}

/// The tokens that the files beside a tokenizer add to it.
struct side_file_tokens {
  std::vector<added_token> added{};    // ascending by id
  std::vector<std::string> special{};  // texts of tokens that are special, whatever tokenizer.json says
  std::string file{};                  // the file that lists `added`, for errors
};

}  // namespace v0
}  // namespace lazyprune
