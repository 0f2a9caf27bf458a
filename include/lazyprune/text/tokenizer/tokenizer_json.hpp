// SPDX-License-Identifier: MIT
// Reads a tokenizer.json (github.com/huggingface/tokenizers). A feature that is not supported is an error that names it and its place.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/tokenizer/token_pipeline.hpp>
#include <lazyprune/text/tokenizer/unicode.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

/// Calls `make` and returns its result. An error without a place gets the place of `json`.
template <class Make>
auto placed(const json_value& json, const Make& make) {
  try {
    return make();
  } catch (const error& fault) {
    if (!fault.file().empty() || !fault.place().empty()) throw;
    throw error(json.file(), json.place(), fault.expected(), fault.found(), fault.code());
  }
}

/// Reads {"piece": id, ...}. Ids may have gaps. The largest id is limited to about twice the number of pieces, so that a small file cannot
/// make a large table.
inline vocabulary bpe_vocabulary_of(const json_value& json) {
  std::vector<std::optional<std::string>> pieces;
  const std::size_t count = json.size(), most = std::min(2 * count + 4096, vocabulary::most_ids);
  pieces.reserve(count);
  json.each_member([&](const std::string& piece, const json_value& id) {
    const auto at = static_cast<std::size_t>(id.whole_number(0, most - 1));
    if (at >= pieces.size()) pieces.resize(at + 1);
    if (pieces[at]) id.refuse("every id once");
    pieces[at] = piece;
  });
  return placed(json, [&] { return vocabulary(std::move(pieces)); });
}

inline std::optional<token_id> unknown_of(const json_value& model, const vocabulary& pieces) {
  const auto name = model.find("unk_token");
  if (!name) return std::nullopt;
  const auto id = pieces.find(name->string());
  if (!id) name->refuse("a piece of the vocabulary");
  return id;
}

/// Reads the merges. Each is "a b" in older files and ["a", "b"] in newer ones.
inline void read_merges(const json_value& json, bpe& model) {
  model.reserve(json.size());
  json.each_item([&](const json_value& merge) {
    if (merge.is_array()) {
      if (merge.size() != 2) merge.refuse("two pieces");
      const std::vector<json_value> halves = merge.items();
      return placed(merge, [&] { model.merge(halves[0].string(), halves[1].string()); });
    }
    const std::string_view text = merge.string();
    if (text.starts_with("#version")) return;
    const std::size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos) merge.refuse("two pieces with a space between");
    placed(merge, [&] { model.merge(text.substr(0, space), text.substr(space + 1)); });
  });
}

inline bpe bpe_of(const json_value& json) {
  json.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
                   "ignore_merges", "vocab", "merges"},
                  error_code::unsupported);
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const auto text = json.find(key); text && !text->string().empty()) text->refuse_unsupported("none");
  if (const auto dropout = json.find("dropout"); dropout && dropout->number() != 0) dropout->refuse_unsupported("none");
  vocabulary pieces = bpe_vocabulary_of(json.at("vocab"));
  bpe_options options;
  options.unknown = unknown_of(json, pieces);
  options.fuse_unknown = flag_or(json, "fuse_unk", false);
  options.byte_fallback = flag_or(json, "byte_fallback", false);
  options.ignore_merges = flag_or(json, "ignore_merges", false);
  bpe model(std::move(pieces), options);
  read_merges(json.at("merges"), model);
  return model;
}

/// Reads a unigram model, whose vocabulary is [["piece", score], ...].
inline unigram unigram_of(const json_value& json) {
  json.allow_only({"type", "unk_id", "vocab", "byte_fallback"}, error_code::unsupported);
  const json_value vocab = json.at("vocab");
  std::vector<std::optional<std::string>> pieces;
  std::vector<double> scores;
  vocab.each_item([&](const json_value& entry) {
    if (!entry.is_array() || entry.size() != 2) entry.refuse("a piece and its score");
    const std::vector<json_value> pair = entry.items();
    if (pieces.size() == vocabulary::most_ids) vocab.refuse("at most " + std::to_string(vocabulary::most_ids) + " pieces");
    pieces.emplace_back(pair[0].string());
    scores.push_back(pair[1].number());
  });
  std::optional<token_id> unknown;
  if (const auto id = json.find("unk_id"))
    unknown = static_cast<token_id>(id->whole_number(0, std::max<std::size_t>(pieces.size(), 1) - 1));
  return placed(vocab,
                [&] { return unigram(vocabulary(std::move(pieces)), std::move(scores), unknown, flag_or(json, "byte_fallback", false)); });
}

/// Returns the added tokens with the ids that the `tokenizers` library gives them. The ids in the file are not used. If the text of a
/// token is a piece, the token has that piece's id. The other tokens get the next ids in order, beginning with the number of pieces. Empty
/// and repeated tokens are skipped. Throws `error` if an id is taken, or if a token of `beside` would get another id than `beside` says.
inline std::vector<added_token> with_ids(std::vector<added_token> tokens, const vocabulary& pieces, const json_value& place,
                                         const side_file_tokens& beside) {
  std::vector<added_token> all;
  std::unordered_map<std::string, std::size_t> seen;
  std::size_t next = pieces.count();
  const auto add = [&](added_token one) {
    if (one.text.empty() || seen.contains(one.text)) return;
    const auto known = pieces.find(one.text);
    one.id = known ? *known : static_cast<token_id>(next++);
    if (!known && pieces.piece(one.id))
      throw error(place.file(), "added_tokens", "an id for " + in_quotes(one.text) + " that no piece has",
                  std::to_string(one.id) + ", which is " + in_quotes(*pieces.piece(one.id)));
    seen.emplace(one.text, all.size());
    all.push_back(std::move(one));
  };
  for (added_token& one : tokens) add(std::move(one));
  for (const added_token& one : beside.added) {
    const std::size_t before = all.size();
    add(one);
    if (all.size() > before && all.back().id != one.id)
      throw error(beside.file, in_quotes(one.text), "the id " + std::to_string(all.back().id) + ", the next one", std::to_string(one.id));
  }
  for (const std::string& text : beside.special) {
    if (pieces.find(text)) add({.text = text, .special = true});
    if (const auto at = seen.find(text); at != seen.end()) all[at->second].special = true;
  }
  return all;
}

inline std::string kind_of(const token_pipeline& all) {
  std::string kind = std::holds_alternative<bpe>(all.model) ? "BPE" : "unigram";
  for (const decoder::step& one : all.from_pieces.steps)
    if (std::holds_alternative<decoder::byte_level>(one)) return kind + ", byte-level";
  return kind;
}

inline void check_ids(const json_value& json, const std::vector<token_id>& ids, const token_pipeline& all) {
  for (const token_id id : ids)
    if (!all.piece(id)) json.refuse("ids of tokens, not " + std::to_string(id));
}

}  // namespace detail

/// Parses a tokenizer.json. `beside`: the tokens that the files beside it add. Throws `error`, with the place, if the text is malformed or
/// uses a feature that is not supported. If `characters` is null, regular expressions, normal forms and other features that need Unicode
/// tables are not supported either.
inline token_pipeline parse_tokenizer_json(std::string_view text, std::string_view file, const unicode* characters,
                                           const side_file_tokens& beside = {}) {
  const json_value json = json_value::parse(text, file, std::size_t{256} << 20);
  if (const auto version = json.find("version"); version && version->string() != "1.0") version->refuse_unsupported("1.0");
  // Three keys are ignored. role_to_token only names tokens by their role. Truncation and padding are for training and search: a prompt is
  // neither cut nor padded.
  json.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model",
                   "role_to_token"},
                  error_code::unsupported);

  const json_value model = json.at("model");
  const auto kind = model.find("type");
  const bool is_bpe = kind ? kind->string() == "BPE" : model.has("merges");
  if (!is_bpe && !(kind && kind->string() == "Unigram")) (kind ? *kind : model).refuse_unsupported("a model of type BPE or Unigram");
  normalizer normal;
  if (const auto value = json.find("normalizer")) normal = normalizer_of(*value, characters);
  pre_tokenizer words;
  if (const auto value = json.find("pre_tokenizer")) words = pre_tokenizer_of(*value, characters);
  using either = std::variant<bpe, unigram>;
  token_pipeline all{
      {}, {}, std::move(normal), std::move(words), is_bpe ? either(detail::bpe_of(model)) : either(detail::unigram_of(model)), {}, {}};
  const auto list = json.find("added_tokens");
  std::vector<added_token> tokens =
      detail::with_ids(list ? added_tokens_of(*list) : std::vector<added_token>{}, all.pieces(), json, beside);
  all.added = detail::placed(list.value_or(json), [&] { return added_tokens(std::move(tokens), all.normal, characters); });
  if (const auto value = json.find("post_processor")) {
    all.around = post_processor_of(*value);
    detail::check_ids(*value, all.around.before, all);
    detail::check_ids(*value, all.around.after, all);
  }
  const auto value = json.find("decoder");
  all.from_pieces = value ? decoder_of(*value, characters) : decoder{{decoder::join{}}};
  all.kind = detail::kind_of(all);
  return all;
}

}  // namespace v0
}  // namespace lazyprune
