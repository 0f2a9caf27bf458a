// SPDX-License-Identifier: MIT
// The vocabulary in a GGUF file's metadata, where it is SentencePiece's BPE ("llama"). Others are refused by name.
#pragma once

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/io/gguf.hpp>
#include <lazyprune/io/sentencepiece_model.hpp>
#include <lazyprune/io/text.hpp>
#include <lazyprune/io/tokenizer.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

inline std::vector<sentencepiece> gguf_pieces(const gguf_file& file) {
  const gguf_value tokens = file.at("tokenizer.ggml.tokens"), scores = file.at("tokenizer.ggml.scores"),
                   types = file.at("tokenizer.ggml.token_type");
  const std::vector<std::string_view> texts = tokens.strings();
  const std::vector<double> score_of = scores.numbers(), type_of = types.numbers();
  for (const auto& [value, size] : {std::pair(&scores, score_of.size()), std::pair(&types, type_of.size())})
    if (size != texts.size()) value->refuse(std::to_string(texts.size()) + " numbers, one a token");
  std::vector<sentencepiece> pieces;
  pieces.reserve(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto fail = [&](std::string_view expected, std::string_view found) {
      throw error(file.name(), "token " + std::to_string(i), expected, found);
    };
    if (texts[i].empty() || utf8_end(texts[i]) != texts[i].size()) fail("a text in UTF-8", in_quotes(texts[i]));
    if (!std::isfinite(score_of[i])) fail("a finite score", std::to_string(score_of[i]));
    if (!(type_of[i] >= 1 && type_of[i] <= 6)) fail("a type from 1 to 6", std::to_string(type_of[i]));
    pieces.push_back({std::string(texts[i]), static_cast<float>(score_of[i]), static_cast<piece_type>(type_of[i])});
  }
  return pieces;
}

}  // namespace detail

/// None where the file has no vocabulary. Throws `error` where it cannot be used.
inline std::optional<tokenizer> gguf_tokenizer_of(const gguf_file& file) {
  const auto kind = file.find("tokenizer.ggml.model");
  if (!kind) return std::nullopt;
  if (kind->string() != "llama") kind->not_computed("llama");
  const auto flag = [&](std::string_view key, bool otherwise) {
    const auto value = file.find(key);
    return value ? value->boolean() : otherwise;
  };
  if (flag("tokenizer.ggml.add_eos_token", false)) file.at("tokenizer.ggml.add_eos_token").not_computed("false");
  if (const auto map = file.find("tokenizer.ggml.precompiled_charsmap"); map && map->size() > 0) map->not_computed("none");

  sentencepiece_model model;
  model.pieces = detail::gguf_pieces(file);
  for (const sentencepiece& piece : model.pieces) model.byte_fallback = model.byte_fallback || piece.type == piece_type::byte;
  model.add_dummy_prefix = flag("tokenizer.ggml.add_space_prefix", true);
  model.remove_extra_whitespaces = flag("tokenizer.ggml.remove_extra_whitespaces", false);
  detail::check_pieces(model, file.name());
  const auto name = [&](std::string_view key, std::string& piece) {
    const auto value = file.find(key);
    if (value && value->number() != 4294967295.0) piece = model.pieces[value->whole_number(0, model.pieces.size() - 1)].text;
  };
  name("tokenizer.ggml.bos_token_id", model.bos_piece);
  name("tokenizer.ggml.eos_token_id", model.eos_piece);
  const bool adds_bos = flag("tokenizer.ggml.add_bos_token", true);
  return tokenizer(std::move(model), adds_bos);
}

}  // namespace v0
}  // namespace lazyprune
