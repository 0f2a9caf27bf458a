// SPDX-License-Identifier: MIT
// Finds the matches of a pattern in a text, and splits the text at them. The normalizers, pre-tokenizers and decoders of tokenizer.json
// share this code.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/tokenizer/unicode.hpp>

namespace lazyprune {
inline namespace v0 {

/// A stretch of a text: a match, or the text between two matches.
struct text_cut {
  text_range range;
  bool match = false;
  friend bool operator==(const text_cut&, const text_cut&) = default;
};

/// How a match is treated when a text is split at it, as in the `tokenizers` library.
enum class delimiter : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

namespace detail {

/// Calls found(range) for each match that `next(from)` finds. As in Oniguruma's iterator, an empty match right after another match does not
/// count.
template <class Next, class Found>
void each_match(std::string_view text, const Next& next, const Found& found) {
  std::size_t from = 0, last = std::string_view::npos;
  while (from <= text.size()) {
    const std::optional<text_range> match = next(from);
    if (!match) return;
    if (match->begin == match->end && match->end == last) {
      from += from < text.size() ? utf8_length(text[from]) : 1;
      continue;
    }
    from = last = match->end;
    found(*match);
  }
}

}  // namespace detail

/// A literal text or a regular expression.
class text_pattern {
 public:
  explicit text_pattern(std::string literal) : literal_(std::move(literal)) {}
  explicit text_pattern(std::shared_ptr<const regex> expression) : expression_(std::move(expression)) {}

  /// Cuts a text into matches and the stretches between them, in order. Empty matches are included. The text must not be empty.
  std::vector<text_cut> cuts(std::string_view text) const {
    std::vector<text_cut> all;
    std::size_t done = 0;
    detail::each_match(
        text, [&](std::size_t from) { return find(text, from); },
        [&](text_range match) {
          if (done != match.begin) all.push_back({{done, match.begin}, false});
          all.push_back({match, true});
          done = match.end;
        });
    if (done != text.size()) all.push_back({{done, text.size()}, false});
    return all;
  }

  /// Returns the text with every match replaced by `content`. Throws `error` if the result has more than `most` bytes.
  std::string replaced(std::string_view text, std::string_view content, std::size_t most = std::string_view::npos) const {
    std::string out;
    for (const text_cut& cut : cuts(text)) {
      out += cut.match ? content : text.substr(cut.range.begin, cut.range.end - cut.range.begin);
      if (out.size() > most)
        throw error("tokenizer", "replaced text", "at most " + std::to_string(most) + " bytes", "more", error_code::unsupported);
    }
    return out;
  }

 private:
  std::optional<text_range> find(std::string_view text, std::size_t from) const {
    if (expression_) return expression_->find(text, from);
    const std::size_t at = text.find(literal_, from);
    if (at == text.npos) return std::nullopt;
    return text_range{at, at + literal_.size()};
  }

  std::string literal_;
  std::shared_ptr<const regex> expression_;
};

/// Cuts a text at each character for which `is(code)` is true. Each such character is a match of its own.
template <std::predicate<char32_t> Is>
std::vector<text_cut> cuts_at(std::string_view text, const Is& is) {
  std::vector<text_cut> all;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at + utf8_length(text[at]);
    if (is(utf8_code(text.substr(at, end - at)))) {
      if (done < at) all.push_back({{done, at}, false});
      all.push_back({{at, end}, true});
      done = end;
    }
    at = end;
  }
  if (done < text.size()) all.push_back({{done, text.size()}, false});
  return all;
}

/// Returns the stretches that a text is split into, without empty ones.
inline std::vector<text_range> split_by(std::vector<text_cut> cuts, delimiter behaviour) {
  std::vector<text_range> out;
  const bool reversed = behaviour == delimiter::merged_with_next;
  if (reversed) std::ranges::reverse(cuts);
  bool previous = false;
  for (const auto& [range, match] : cuts) {
    const bool merges = behaviour == delimiter::contiguous                         ? match == previous
                        : behaviour == delimiter::merged_with_previous || reversed ? match && !previous
                                                                                   : false;
    if (merges && !out.empty() && reversed)
      out.back().begin = range.begin;
    else if (merges && !out.empty())
      out.back().end = range.end;
    else if (!match || behaviour != delimiter::removed)
      out.push_back(range);
    previous = match;
  }
  if (reversed) std::ranges::reverse(out);
  std::erase_if(out, [](text_range range) { return range.begin == range.end; });
  return out;
}

/// Reads {"String": "..."} or {"Regex": "..."}. Throws `error` if the value is neither, or if a regular expression is malformed. Throws
/// `error` for any regular expression if `characters` is null.
inline text_pattern text_pattern_of(const json_value& pattern, const unicode* characters) {
  pattern.allow_only({"String", "Regex"}, error_code::unsupported);
  if (pattern.has("String") == pattern.has("Regex")) pattern.refuse("one of String and Regex");
  if (pattern.has("String")) {
    const json_value literal = pattern.at("String");
    if (literal.string().empty()) literal.refuse("a text that is not empty");
    return text_pattern(literal.string());
  }
  const json_value expression = pattern.at("Regex");
  if (!characters) expression.refuse_unsupported("no regular expression, since this build has no PCRE2 and utf8proc");
  try {
    return text_pattern(characters->compile(expression.string()));
  } catch (const error& fault) {
    throw error(expression.file(), expression.place(), fault.expected(), fault.found(), fault.code());
  }
}

/// Returns `characters`, which the step named in `kind` needs. Throws `error` if `characters` is null.
inline const unicode& need_unicode(const json_value& kind, const unicode* characters) {
  if (!characters) kind.refuse_unsupported("a step without Unicode tables, since this build has no PCRE2 and utf8proc");
  return *characters;
}

}  // namespace v0
}  // namespace lazyprune
