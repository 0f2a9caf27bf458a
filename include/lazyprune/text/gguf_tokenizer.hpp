// SPDX-License-Identifier: MIT
// Reads the tokenizer in a GGUF file's metadata: SentencePiece's BPE ("llama") or byte-level BPE ("gpt2"). Any other kind is refused by
// name.
#pragma once

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/files/gguf.hpp>
#include <lazyprune/files/gguf_tokens.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/end_of_generation.hpp>
#include <lazyprune/text/sentencepiece_model.hpp>
#include <lazyprune/text/tokenizer.hpp>
#include <lazyprune/text/tokenizer/added_tokens.hpp>
#include <lazyprune/text/tokenizer/bpe.hpp>
#include <lazyprune/text/tokenizer/named_pre_tokenizer.hpp>
#include <lazyprune/text/tokenizer/post_processor.hpp>
#include <lazyprune/text/tokenizer/text_pattern.hpp>
#include <lazyprune/text/tokenizer/unicode.hpp>
#include <lazyprune/text/tokenizer/vocabulary.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

inline bool gguf_flag(const gguf_file& file, std::string_view key, bool otherwise) {
  const auto value = file.find(key);
  return value ? value->boolean() : otherwise;
}

/// Turns user-defined pieces into control pieces if they begin or end a text or a turn, as llama.cpp does.
inline void guard_turns(const gguf_file& file, std::vector<sentencepiece>& pieces) {
  const auto guard = [](sentencepiece& piece) {
    if (piece.type == piece_type::user_defined) piece.type = piece_type::control;
  };
  for (const std::string_view key : gguf_named_tokens)
    if (const auto id = gguf_token_id(file, key, pieces.size())) guard(pieces[*id]);
  for (sentencepiece& piece : pieces)
    if (ends_generation(piece.text)) guard(piece);
}

/// Returns all tokens of the vocabulary. If `needs_scores` is true, the keys for scores and types must exist. Otherwise a missing
/// score is 0, and a missing type is normal. Throws `error` if a list is missing or a token is malformed.
inline std::vector<sentencepiece> gguf_pieces(const gguf_file& file, bool needs_scores) {
  const gguf_value tokens = file.at("tokenizer.ggml.tokens");
  const std::vector<std::string_view> texts = tokens.strings();
  if (texts.empty() || texts.size() > vocabulary::most_ids) tokens.refuse("1 to " + std::to_string(vocabulary::most_ids) + " tokens");
  const auto numbers = [&](std::string_view key) {
    const auto value = needs_scores ? file.at(key) : file.find(key);
    return value ? value->numbers(texts.size()) : std::vector<double>{};  // one per token
  };
  const std::vector<double> scores = numbers("tokenizer.ggml.scores"), types = numbers("tokenizer.ggml.token_type");
  std::vector<sentencepiece> pieces;
  pieces.reserve(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto fail = [&](std::string_view expected, std::string_view found) {
      throw error(file.name(), "token " + std::to_string(i), expected, found);
    };
    const double score = scores.empty() ? 0 : scores[i], type = types.empty() ? 1 : types[i];
    if (texts[i].empty() || utf8_end(texts[i]) != texts[i].size()) fail("a text in UTF-8", in_quotes(texts[i]));
    if (!std::isfinite(score)) fail("a finite score", std::to_string(score));
    if (!(type >= 1 && type <= 6)) fail("a type from 1 to 6", std::to_string(type));
    pieces.push_back({std::string(texts[i]), static_cast<float>(score), static_cast<piece_type>(type)});
  }
  guard_turns(file, pieces);
  return pieces;
}

/// Replaces the spaces in user-defined pieces by U+2581. SentencePiece has U+2581 there, but converters to GGUF write spaces. A piece stays
/// as it is if a piece of another type already has the new text.
inline void escape_spaces(std::vector<sentencepiece>& pieces) {
  static const text_pattern space{std::string(" ")};
  std::unordered_set<std::string> others;
  for (const sentencepiece& piece : pieces)
    if (piece.type != piece_type::user_defined && piece.text.starts_with("\xe2\x96\x81")) others.insert(piece.text);
  for (sentencepiece& piece : pieces) {
    if (piece.type != piece_type::user_defined || piece.text.find(' ') == piece.text.npos) continue;
    std::string escaped = space.replaced(piece.text, "\xe2\x96\x81");
    if (!others.contains(escaped)) piece.text = std::move(escaped);
  }
}

inline tokenizer gguf_sentencepiece_of(const gguf_file& file) {
  if (gguf_flag(file, "tokenizer.ggml.add_eos_token", false)) file.at("tokenizer.ggml.add_eos_token").refuse_unsupported("false");
  if (const auto map = file.find("tokenizer.ggml.precompiled_charsmap"); map && map->size() > 0) map->refuse_unsupported("none");
  sentencepiece_model model;
  model.pieces = gguf_pieces(file, true);
  escape_spaces(model.pieces);
  for (const sentencepiece& piece : model.pieces) model.byte_fallback = model.byte_fallback || piece.type == piece_type::byte;
  // In Phi 3's tokenizer.json, most control tokens swallow the line break that the template writes after them. No GGUF key says so.
  if (const auto family = file.find("general.architecture"); family && family->string() == "phi3")
    for (sentencepiece& piece : model.pieces)
      piece.rstrip = piece.type == piece_type::control && piece.text != "<s>" && piece.text != "<|endoftext|>";
  model.add_dummy_prefix = gguf_flag(file, "tokenizer.ggml.add_space_prefix", true);
  model.remove_extra_whitespaces = gguf_flag(file, "tokenizer.ggml.remove_extra_whitespaces", false);
  check_pieces(model, file.name(), gguf_token_id(file, "tokenizer.ggml.unknown_token_id", model.pieces.size()));
  // Some files type these tokens as normal or unused. Only control pieces can be BOS or EOS.
  const auto name = [&](std::string_view key, std::string& text) {
    const auto id = gguf_token_id(file, key, model.pieces.size());
    if (!id) return;
    sentencepiece& piece = model.pieces[*id];
    if (piece.type == piece_type::normal || piece.type == piece_type::unused) piece.type = piece_type::control;
    text = piece.text;
  };
  name("tokenizer.ggml.bos_token_id", model.bos_piece);
  name("tokenizer.ggml.eos_token_id", model.eos_piece);
  const bool adds_bos = gguf_flag(file, "tokenizer.ggml.add_bos_token", true);
  tokenizer tokens(std::move(model), adds_bos);
  if (adds_bos && !tokens.bos())
    throw error(file.name(), "metadata", "a control token that \"tokenizer.ggml.bos_token_id\" names, or add_bos_token = false", "none");
  return tokens;
}

/// Reads the merges. The file stores each merge as two pieces with a space between them.
inline void read_gguf_merges(const gguf_file& file, bpe& model) {
  const gguf_value list = file.at("tokenizer.ggml.merges");
  const std::vector<std::string_view> merges = list.strings();
  model.reserve(merges.size());
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto place = [i] { return "metadata: tokenizer.ggml.merges: merge " + std::to_string(i); };
    const std::size_t space = merges[i].find(' ');
    if (space == merges[i].npos || merges[i].find(' ', space + 1) != merges[i].npos)
      throw error(file.name(), place(), "two pieces with a space between", in_quotes(merges[i]));
    try {
      model.merge(merges[i].substr(0, space), merges[i].substr(space + 1));
    } catch (const error& fault) {
      throw error(file.name(), place(), fault.expected(), fault.found(), fault.code());
    }
  }
}

/// Returns the tokens that come before and after a text. `adds_bos`: whether BOS comes before the text if the file
/// does not say.
inline post_processor gguf_tokens_around(const gguf_file& file, bool adds_bos, std::optional<token_id> bos, std::optional<token_id> eos) {
  post_processor around;
  const auto add = [&](std::string_view which, bool otherwise, std::optional<token_id> id, std::vector<token_id>& to) {
    if (!gguf_flag(file, "tokenizer.ggml.add_" + std::string(which) + "_token", otherwise)) return;
    if (!id) throw error(file.name(), "metadata", "the key \"tokenizer.ggml." + std::string(which) + "_token_id\"", "none");
    to.push_back(*id);
  };
  add("bos", adds_bos, bos, around.before);
  add("eos", false, eos, around.after);
  return around;
}

inline tokenizer gguf_byte_level_of(const gguf_file& file, const unicode* characters) {
  const gguf_value pre = file.at("tokenizer.ggml.pre");
  const named_pre_tokenizer* const how = find_pre_tokenizer(pre.string());
  if (!how) pre.refuse_unsupported("a pre-tokenizer that is supported");
  if (!characters) pre.refuse_unsupported("no pre-tokenizer with regular expressions, since this build has no PCRE2 and utf8proc");
  std::vector<sentencepiece> tokens = gguf_pieces(file, false);
  const auto bos = gguf_token_id(file, "tokenizer.ggml.bos_token_id", tokens.size()),
             eos = gguf_token_id(file, "tokenizer.ggml.eos_token_id", tokens.size());
  post_processor around = gguf_tokens_around(file, how->adds_bos, bos, eos);

  std::vector<added_token> added;
  std::vector<std::optional<std::string>> pieces;
  pieces.reserve(tokens.size());
  for (token_id id = 0; id < tokens.size(); ++id) {
    const piece_type type = tokens[id].type;
    const bool special = type == piece_type::control || type == piece_type::unknown;
    if (special || type == piece_type::user_defined) added.push_back({.text = tokens[id].text, .id = id, .special = special});
    pieces.emplace_back(std::move(tokens[id].text));
  }
  bpe_options options;
  options.ignore_merges = how->ignore_merges;
  const auto of_tokens = [&](const auto& make) {
    try {
      return make();
    } catch (const error& fault) {
      if (!fault.file().empty()) throw;
      throw error(file.name(), "metadata: tokenizer.ggml.tokens", fault.expected(), fault.found(), fault.code());
    }
  };
  bpe model = of_tokens([&] { return bpe(vocabulary(std::move(pieces)), options); });
  read_gguf_merges(file, model);
  return of_tokens(
      [&] { return tokenizer(byte_level_pipeline(*how, *characters, std::move(model), std::move(added), std::move(around)), bos, eos); });
}

}  // namespace detail

/// Returns the tokenizer in a GGUF file, or nullopt if the file has no vocabulary. `characters`: see parse_tokenizer_json. SentencePiece
/// needs no `characters`. Throws `error` if the tokenizer cannot be used.
inline std::optional<tokenizer> gguf_tokenizer_of(const gguf_file& file, const unicode* characters = nullptr) {
  const auto kind = file.find("tokenizer.ggml.model");
  if (!kind) return std::nullopt;
  if (kind->string() == "llama") return detail::gguf_sentencepiece_of(file);
  if (kind->string() == "gpt2") return detail::gguf_byte_level_of(file, characters);
  kind->refuse_unsupported("llama or gpt2");
}

}  // namespace v0
}  // namespace lazyprune
