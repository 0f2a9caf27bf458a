// SPDX-License-Identifier: MIT
// Pre-tokenizers of byte-level BPE by name, for files without patterns. GGUF files only name their pre-tokenizer, and tiktoken's files do
// not mention it. The patterns in this list come from tokenizer.json files.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/text/tokenizer/added_tokens.hpp>
#include <lazyprune/text/tokenizer/bpe.hpp>
#include <lazyprune/text/tokenizer/decoder.hpp>
#include <lazyprune/text/tokenizer/normalizer.hpp>
#include <lazyprune/text/tokenizer/pre_tokenizer.hpp>
#include <lazyprune/text/tokenizer/text_pattern.hpp>
#include <lazyprune/text/tokenizer/token_pipeline.hpp>
#include <lazyprune/text/tokenizer/unicode.hpp>

namespace lazyprune {
inline namespace v0 {

/// A way to split a text into words, and the settings that go with it.
struct named_pre_tokenizer {
  std::string_view name;
  std::array<std::string_view, 5> patterns;  // applied one after the other; each match is a word; empty patterns are skipped
  bool composes = false;                     // the text is normalized to NFC first
  bool ignore_merges = false;                // a word that is a piece becomes that piece without merging
  bool adds_bos = false;                     // a text begins with BOS, unless the file says otherwise
};

namespace detail {

inline constexpr std::string_view each_number = R"(\p{N})";
inline constexpr std::string_view llama3_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view qwen2_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view tekken_words = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                                                 R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                                                 R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view gpt4o_words =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view deepseek3_words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view gpt2_words = pre_tokenizer::gpt2_words;

/// The names are those of GGUF's tokenizer.ggml.pre. The tests compare these pre-tokenizers with a tokenizer.json of the same kind. Ten
/// names have no such test: phi-2, llama3, llama-v3, falcon3, falcon-h1, pixtral, lfm2, dbrx, smaug-bpe and deepseek-r1-qwen. They need
/// none: llama.cpp treats each of them like another name of this list, and that name has a test. Names that are not in this list, such as
/// `default`, are refused, because their rules would be a guess. Many names share a pattern but differ in their other settings.
inline constexpr named_pre_tokenizer all_named_pre_tokenizers[] = {
    {"gpt-2", {gpt2_words}},
    {"phi-2", {gpt2_words}},
    {"starcoder", {each_number, gpt2_words}},
    {"smollm", {each_number, gpt2_words}},
    {"llama-bpe", {llama3_words}, false, true, true},
    {"llama3", {llama3_words}, false, true, true},
    {"llama-v3", {llama3_words}, false, true, true},
    {"falcon3", {llama3_words}, false, true, true},
    {"falcon-h1", {llama3_words}, false, true, true},
    {"pixtral", {llama3_words}, false, true, true},
    {"lfm2", {llama3_words}, false, true, true},
    {"dbrx", {llama3_words}},
    {"smaug-bpe", {llama3_words}},
    {"qwen2", {qwen2_words}, true},
    {"deepseek-r1-qwen", {qwen2_words}},
    {"tekken", {tekken_words}, false, true, true},
    {"gpt-4o", {gpt4o_words}},
    {"deepseek-coder", {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[一-龥ࠀ-一가-퟿]+", each_number}},
    {"deepseek-v3", {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", deepseek3_words}},
};

}  // namespace detail

/// Returns the pre-tokenizer with this name, or null if the list does not have it.
inline const named_pre_tokenizer* find_pre_tokenizer(std::string_view name) {
  for (const named_pre_tokenizer& one : detail::all_named_pre_tokenizers)
    if (one.name == name) return &one;
  return nullptr;
}

/// Returns the pipeline of a byte-level BPE model that splits text as `how` says. Throws `error` without file and place if the constructor
/// of added_tokens refuses an added token.
inline token_pipeline byte_level_pipeline(const named_pre_tokenizer& how, const unicode& characters, bpe model,
                                          std::vector<added_token> added, post_processor around) {
  std::vector<normalizer::step> normal;
  if (how.composes) normal.push_back(normalizer::form{normal_form::nfc, &characters});
  std::vector<pre_tokenizer::step> words;
  for (const std::string_view pattern : how.patterns)
    if (!pattern.empty()) words.push_back(pre_tokenizer::split{text_pattern(characters.compile(pattern)), delimiter::isolated, false});
  words.push_back(pre_tokenizer::byte_level{false, {}});
  normalizer before(std::move(normal));
  added_tokens cut(std::move(added), before, &characters);
  return {"BPE, byte-level", std::move(cut),    std::move(before),        pre_tokenizer(std::move(words)),
          std::move(model),  std::move(around), {{decoder::byte_level{}}}};
}

}  // namespace v0
}  // namespace lazyprune
