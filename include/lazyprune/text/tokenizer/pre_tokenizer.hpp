// SPDX-License-Identifier: MIT
// The pre-tokenizers of tokenizer.json: they split a normalized text into words, which the model encodes one by one. A Sequence of
// pre-tokenizers becomes one list of steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/tokenizer/byte_alphabet.hpp>
#include <lazyprune/text/tokenizer/normalizer.hpp>
#include <lazyprune/text/tokenizer/text_pattern.hpp>
#include <lazyprune/text/tokenizer/unicode.hpp>

namespace lazyprune {
inline namespace v0 {

/// A stretch of text on its way to the model.
struct text_piece {
  std::string text;
  bool first = false;  // this stretch begins where the whole text begins
};

class pre_tokenizer {
 public:
  struct split {
    text_pattern pattern;
    delimiter behaviour;
    bool inverted;
  };
  struct byte_level {
    bool add_prefix_space;
    std::optional<text_pattern> words;  // the pattern of GPT-2; nullopt: the text is not split
  };
  enum class prepend_scheme : std::uint8_t { always, first, never };
  struct metaspace {
    std::string replacement;
    prepend_scheme scheme;
    bool splits;
  };
  struct digits {
    const unicode* characters;
    bool individual;
  };
  struct punctuation {
    const unicode* characters;
    delimiter behaviour;
  };
  struct whitespace {  // splits into words and into runs of characters that are neither word nor white space
    const unicode* characters;
  };
  struct whitespace_split {};
  using step = std::variant<split, byte_level, metaspace, digits, punctuation, whitespace, whitespace_split>;

  /// The pattern of GPT-2. ByteLevel uses it if use_regex is true.
  static constexpr std::string_view gpt2_words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

  pre_tokenizer() = default;
  explicit pre_tokenizer(std::vector<step> steps) : steps_(std::move(steps)) {}

  /// Returns the words of a well-formed text that is not empty, in order. `first`: the text begins where the whole text begins. Throws
  /// `error` if the words together have more than 4096 bytes plus 64 per byte of the text.
  std::vector<text_piece> apply(std::string text, bool first) const {
    std::vector<text_piece> pieces, next;
    const std::size_t most = 4096 + 64 * text.size();
    pieces.push_back({std::move(text), first});
    for (const step& one : steps_) {
      next.clear();
      std::visit(
          [&](const auto& how) {
            for (text_piece& piece : pieces) take(how, std::move(piece), next);
          },
          one);
      pieces.swap(next);
      std::size_t bytes = 0;
      for (const text_piece& piece : pieces) bytes += piece.text.size();
      if (bytes > most)
        throw error("tokenizer", "pre-tokenizer", "at most 64 bytes for each byte of the text", std::to_string(bytes) + " bytes",
                    error_code::unsupported);
    }
    return pieces;
  }

 private:
  static void hand_on(const text_piece& piece, std::vector<text_cut> cuts, delimiter behaviour, std::vector<text_piece>& out) {
    for (const auto [begin, end] : split_by(std::move(cuts), behaviour))
      out.push_back({piece.text.substr(begin, end - begin), piece.first && begin == 0});
  }

  static void take(const split& how, text_piece piece, std::vector<text_piece>& out) {
    std::vector<text_cut> cuts = how.pattern.cuts(piece.text);
    if (how.inverted)
      for (text_cut& cut : cuts) cut.match = !cut.match;
    hand_on(piece, std::move(cuts), how.behaviour, out);
  }

  static void take(const byte_level& how, text_piece piece, std::vector<text_piece>& out) {
    if (how.add_prefix_space && !piece.text.starts_with(' ')) piece.text.insert(0, 1, ' ');
    const std::size_t before = out.size();
    if (how.words)
      hand_on(piece, how.words->cuts(piece.text), delimiter::isolated, out);
    else
      out.push_back(std::move(piece));
    for (std::size_t i = before; i < out.size(); ++i) out[i].text = in_byte_alphabet(out[i].text);
  }

  static void take(const metaspace& how, text_piece piece, std::vector<text_piece>& out) {
    static const text_pattern space{std::string(" ")};
    piece.text = space.replaced(piece.text, how.replacement);
    const bool prepends = how.scheme == prepend_scheme::always || (how.scheme == prepend_scheme::first && piece.first);
    if (prepends && !piece.text.starts_with(how.replacement)) piece.text.insert(0, how.replacement);
    if (how.splits)
      hand_on(piece, text_pattern(how.replacement).cuts(piece.text), delimiter::merged_with_next, out);
    else
      out.push_back(std::move(piece));
  }

  static void take(const digits& how, text_piece piece, std::vector<text_piece>& out) {
    const auto is = [&](char32_t code) { return how.characters->is_number(code); };
    hand_on(piece, cuts_at(piece.text, is), how.individual ? delimiter::isolated : delimiter::contiguous, out);
  }

  static void take(const punctuation& how, text_piece piece, std::vector<text_piece>& out) {
    const auto is = [&](char32_t code) {
      const bool ascii = code > ' ' && code < 0x7f && !(code >= '0' && code <= '9') && !((code | 0x20) >= 'a' && (code | 0x20) <= 'z');
      return ascii || how.characters->is_punctuation(code);
    };
    hand_on(piece, cuts_at(piece.text, is), how.behaviour, out);
  }

  static void take(const whitespace& how, text_piece piece, std::vector<text_piece>& out) {
    const auto kind_of = [&](char32_t code) { return is_unicode_white_space(code) ? 0 : how.characters->is_word(code) ? 1 : 2; };
    int previous = 0;
    for (std::size_t at = 0; at < piece.text.size();) {
      const std::size_t size = utf8_length(piece.text[at]);
      const std::string_view character = std::string_view(piece.text).substr(at, size);
      const int kind = kind_of(utf8_code(character));
      if (kind != 0 && kind != previous) out.push_back({{}, piece.first && at == 0});
      if (kind != 0) out.back().text += character;
      previous = kind;
      at += size;
    }
  }

  static void take(const whitespace_split&, text_piece piece, std::vector<text_piece>& out) {
    hand_on(piece, cuts_at(piece.text, is_unicode_white_space), delimiter::removed, out);
  }

  std::vector<step> steps_;
};

namespace detail {

inline delimiter delimiter_of(const json_value& name) {
  constexpr std::pair<std::string_view, delimiter> all[] = {{"Removed", delimiter::removed},
                                                            {"Isolated", delimiter::isolated},
                                                            {"MergedWithPrevious", delimiter::merged_with_previous},
                                                            {"MergedWithNext", delimiter::merged_with_next},
                                                            {"Contiguous", delimiter::contiguous}};
  for (const auto& [known, behaviour] : all)
    if (name.string() == known) return behaviour;
  name.refuse("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

inline bool flag_or(const json_value& json, std::string_view key, bool otherwise) {
  const auto value = json.find(key);
  return value ? value->boolean() : otherwise;
}

/// Reads a Metaspace, as a pre-tokenizer or as a decoder. Old files have add_prefix_space instead of prepend_scheme.
inline pre_tokenizer::metaspace metaspace_of(const json_value& json) {
  json.allow_only({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"}, error_code::unsupported);
  using scheme = pre_tokenizer::prepend_scheme;
  const json_value replacement = json.at("replacement");
  if (replacement.string().empty() || replacement.string().size() != utf8_length(replacement.string()[0]))
    replacement.refuse("one character");
  scheme how = scheme::always;
  if (const auto name = json.find("prepend_scheme")) {
    constexpr std::pair<std::string_view, scheme> all[] = {{"always", scheme::always}, {"first", scheme::first}, {"never", scheme::never}};
    const auto* const known = std::ranges::find(all, std::string_view(name->string()), &std::pair<std::string_view, scheme>::first);
    if (known == std::end(all)) name->refuse("always, first or never");
    how = known->second;
    if (const auto old = json.find("add_prefix_space"); old && !old->boolean() && how != scheme::never)
      old->refuse("the same as prepend_scheme");
  } else if (!flag_or(json, "add_prefix_space", true)) {
    how = scheme::never;
  }
  return {replacement.string(), how, flag_or(json, "split", true)};
}

inline void read_pre_tokenizer_steps(const json_value& json, const unicode* characters, std::vector<pre_tokenizer::step>& steps) {
  const json_value kind = json.at("type");
  const std::string& name = kind.string();
  const auto only = [&](std::initializer_list<std::string_view> keys) { json.allow_only(keys, error_code::unsupported); };
  if (name == "Sequence") {
    only({"type", "pretokenizers"});
    json.at("pretokenizers").each_item([&](const json_value& one) { read_pre_tokenizer_steps(one, characters, steps); });
  } else if (name == "ByteLevel") {
    only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    pre_tokenizer::byte_level step{json.at("add_prefix_space").boolean(), std::nullopt};
    if (flag_or(json, "use_regex", true)) step.words.emplace(need_unicode(kind, characters).compile(pre_tokenizer::gpt2_words));
    steps.push_back(std::move(step));
  } else if (name == "Split") {
    only({"type", "pattern", "behavior", "invert"});
    steps.push_back(pre_tokenizer::split{text_pattern_of(json.at("pattern"), characters), delimiter_of(json.at("behavior")),
                                         json.at("invert").boolean()});
  } else if (name == "Metaspace") {
    steps.push_back(metaspace_of(json));
  } else if (name == "Digits") {
    only({"type", "individual_digits"});
    steps.push_back(pre_tokenizer::digits{&need_unicode(kind, characters), flag_or(json, "individual_digits", false)});
  } else if (name == "Punctuation") {
    only({"type", "behavior"});
    const auto behaviour = json.find("behavior");
    steps.push_back(
        pre_tokenizer::punctuation{&need_unicode(kind, characters), behaviour ? delimiter_of(*behaviour) : delimiter::isolated});
  } else if (name == "Whitespace") {
    only({"type"});
    steps.push_back(pre_tokenizer::whitespace{&need_unicode(kind, characters)});
  } else if (name == "WhitespaceSplit") {
    only({"type"});
    steps.push_back(pre_tokenizer::whitespace_split{});
  } else {
    kind.refuse_unsupported("ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit, Punctuation or Sequence");
  }
}

}  // namespace detail

/// Returns the pre-tokenizer in a tokenizer.json. Throws `error`, with the place, if its kind or one of its options is not supported.
inline pre_tokenizer pre_tokenizer_of(const json_value& json, const unicode* characters) {
  std::vector<pre_tokenizer::step> steps;
  detail::read_pre_tokenizer_steps(json, characters, steps);
  return pre_tokenizer(std::move(steps));
}

}  // namespace v0
}  // namespace lazyprune
