// SPDX-License-Identifier: MIT
// Finds a model's tokenizer. A folder has tokenizer.json or tokenizer.model, with tokenizer_config.json beside it. A GGUF file has the
// tokenizer in its metadata. A tokenizer.json, tokenizer.model or GGUF file can also be loaded alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/gguf.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/mapped_file.hpp>
#include <lazyprune/files/model_folder.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/gguf_tokenizer.hpp>
#include <lazyprune/text/sentencepiece_model.hpp>
#include <lazyprune/text/tokenizer.hpp>
#include <lazyprune/text/tokenizer/tiktoken.hpp>
#include <lazyprune/text/tokenizer/token_pipeline.hpp>
#include <lazyprune/text/tokenizer/tokenizer_json.hpp>
#include <lazyprune/text/tokenizer/unicode.hpp>
#include <lazyprune/text/tokenizer/vocabulary.hpp>
#include <lazyprune/text/tokenizer_config.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

// The sizes in bytes of the largest files that are accepted. The largest known files have 33 MB (tokenizer.json, 262,144 pieces) and 5 MB
// (tokenizer.model).
inline constexpr std::size_t most_tokenizer_json = std::size_t{128} << 20, most_tokenizer_model = std::size_t{64} << 20;

/// Everything that a tokenizer is made from, except its own file.
struct tokenizer_place {
  std::optional<json_value> config = {};  // tokenizer_config.json
  side_file_tokens beside = {};           // from tokenizer_config.json and added_tokens.json
  const unicode* characters = nullptr;
  std::size_t most_pieces = vocabulary::most_ids;  // the model's vocabulary size

  /// Throws `error` if there are more than `most_pieces` pieces. Added tokens are not counted, since their ids may be beyond the model's
  /// vocabulary. For example, tokenizers of text models may have tokens for images.
  void check(std::size_t pieces, const mapped_file& file) const {
    if (pieces > most_pieces)
      throw error(file.name(), "pieces", "at most " + std::to_string(most_pieces) + ", the vocabulary of the model",
                  std::to_string(pieces));
  }
};

/// Reads a tokenizer.json. This file does not say which tokens are BOS and EOS, so their texts come from tokenizer_config.json. As in
/// transformers 5, the post-processor decides which tokens surround a text: add_bos_token and add_eos_token apply to tokenizer.model only.
inline tokenizer read_tokenizer_json(const mapped_file& file, const tokenizer_place& place) {
  token_pipeline parts = parse_tokenizer_json(file.text(), file.name(), place.characters, place.beside);
  place.check(parts.pieces().size(), file);
  const auto named = [&](std::string_view key) -> std::optional<token_id> {
    const auto text = place.config ? token_text_of(*place.config, key) : std::nullopt;
    if (!text) return std::nullopt;
    const auto id = parts.find(text->string());
    if (!id) text->refuse("a token of tokenizer.json");
    return id;
  };
  const auto bos = named("bos_token"), eos = named("eos_token");
  return tokenizer(std::move(parts), bos, eos);
}

/// Returns whether tokenizer_config.json says that a text begins with BOS. Throws `error` if the config contradicts the SentencePiece
/// model, or asks for EOS after a text.
inline bool adds_bos_by(const json_value& config, const sentencepiece_model& model) {
  const auto says = [&](std::string_view key, bool otherwise) {
    const auto value = config.find(key);
    return value ? value->boolean() : otherwise;
  };
  if (says("add_eos_token", false)) config.at("add_eos_token").refuse_unsupported("false");
  if (says("add_prefix_space", model.add_dummy_prefix) != model.add_dummy_prefix)
    config.at("add_prefix_space").refuse("the same as tokenizer.model's add_dummy_prefix");
  if (const auto text = token_text_of(config, "bos_token"); text && text->string() != model.bos_piece)
    text->refuse(in_quotes(model.bos_piece) + ", as in tokenizer.model");
  return says("add_bos_token", true);
}

/// Reads a tokenizer.model. SentencePiece models and tiktoken ranks both use this file name.
inline tokenizer read_tokenizer_model(const mapped_file& file, const tokenizer_place& place) {
  if (is_tiktoken(file.text())) {
    token_pipeline parts = parse_tiktoken(file.text(), file.name(), place.characters);
    place.check(parts.pieces().size(), file);
    const auto bos = parts.find(llama3_begin), eos = parts.find(llama3_end);
    return tokenizer(std::move(parts), bos, eos);
  }
  sentencepiece_model model = parse_sentencepiece_model(file.text(), file.name());
  place.check(model.pieces.size(), file);
  for (const added_token& one : place.beside.added)
    if (one.id == model.pieces.size() && std::ranges::find(model.pieces, one.text, &sentencepiece::text) == model.pieces.end())
      model.pieces.push_back({one.text, 0, one.special ? piece_type::control : piece_type::user_defined});
  const bool adds_bos = !place.config || adds_bos_by(*place.config, model);
  return tokenizer(std::move(model), adds_bos);
}

/// Throws `error` if the folder has a tokenizer in a file format that is not supported.
inline void refuse_other_tokenizers(const model_folder& folder) {
  const auto refuse = [&](const std::string& name, std::string_view what) {
    throw error((folder.path() / name).string(), "", "tokenizer.json or tokenizer.model instead", what, error_code::unsupported);
  };
  for (const std::string& name : folder.names()) {
    if (name.starts_with("tokenization_") && name.ends_with(".py")) refuse(name, "a tokenizer written in Python");
    if (name.ends_with(".tiktoken")) refuse(name, "tiktoken ranks with an unknown pattern and unknown special tokens");
    for (const std::string_view other : {"tekken.json", "vocab.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model"})
      if (name == other) refuse(name, "a tokenizer format that is not supported");
  }
}

}  // namespace detail

/// Returns the tokenizer of a Hugging Face model folder: tokenizer.json if it exists, as in transformers, else tokenizer.model. Returns
/// nullopt if the folder has no tokenizer. `characters`: see parse_tokenizer_json. Throws `error` if the tokenizer cannot be used, is in a
/// file format that is not supported, or has more than `most_pieces` pieces.
inline std::optional<tokenizer> find_tokenizer(const model_folder& folder, const unicode* characters,
                                               std::size_t most_pieces = vocabulary::most_ids) {
  const bool has_json = folder.has("tokenizer.json");
  if (!has_json && !folder.has("tokenizer.model")) {
    detail::refuse_other_tokenizers(folder);
    return std::nullopt;
  }
  const std::optional<json_value> config = find_tokenizer_config(folder);
  const detail::tokenizer_place place{config, find_tokens_beside(folder, config), characters, most_pieces};
  if (has_json) return detail::read_tokenizer_json(folder.open("tokenizer.json", detail::most_tokenizer_json), place);
  return detail::read_tokenizer_model(folder.open("tokenizer.model", detail::most_tokenizer_model), place);
}

/// Returns the tokenizer of an opened model, or nullopt if its folder has no tokenizer or its GGUF file has no vocabulary. `characters`:
/// see parse_tokenizer_json. Throws `error` if the tokenizer cannot be used.
inline std::optional<tokenizer> find_tokenizer(const checkpoint& model, const unicode* characters = nullptr) {
  if (model.is_gguf()) return gguf_tokenizer_of(*model.gguf(), characters);
  return find_tokenizer(model_folder(model.path()), characters, model.vocabulary().value_or(vocabulary::most_ids));
}

/// Loads a tokenizer. `path` is a model, a folder with only a tokenizer's files, or one file: a GGUF file, tokenizer.json or
/// tokenizer.model. A file that is given alone is read without tokenizer_config.json. Throws `error` if there is no tokenizer or it cannot
/// be used.
inline tokenizer load_tokenizer(const std::filesystem::path& path, const unicode* characters = nullptr) {
  std::error_code failure;
  std::filesystem::path file = path;
  if (std::filesystem::is_directory(path, failure)) {
    const model_folder folder(path);
    const auto gguf = folder.gguf();
    if (!gguf) {
      if (auto found = find_tokenizer(folder, characters)) return std::move(*found);
      throw error(path.string(), "", "tokenizer.json, tokenizer.model or a GGUF file", "none of them");
    }
    file = *gguf;
  }
  const detail::tokenizer_place place{.characters = characters};
  if (is_gguf_path(file)) {
    const std::vector<gguf_file> shards = open_gguf(file);
    if (auto found = gguf_tokenizer_of(shards[0], characters)) return std::move(*found);
    throw error(file.string(), "metadata", "a vocabulary", "none");
  }
  if (file.extension() == ".json")
    return detail::read_tokenizer_json(mapped_file(file, file_access::read, detail::most_tokenizer_json), place);
  return detail::read_tokenizer_model(mapped_file(file, file_access::read, detail::most_tokenizer_model), place);
}

}  // namespace v0
}  // namespace lazyprune
