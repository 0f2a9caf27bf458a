// SPDX-License-Identifier: MIT
// Reads a file of tiktoken ranks. Each line has the bytes of one piece in base64 and the rank of the piece. The rank is the token id. The
// file has neither the pattern that splits a text into words nor the special tokens. It can therefore be used only if the pieces show
// which model it belongs to. Only the pieces of Llama 3 are recognised.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/fnv_hash.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/tokenizer/added_tokens.hpp>
#include <lazyprune/text/tokenizer/bpe.hpp>
#include <lazyprune/text/tokenizer/byte_alphabet.hpp>
#include <lazyprune/text/tokenizer/named_pre_tokenizer.hpp>
#include <lazyprune/text/tokenizer/post_processor.hpp>
#include <lazyprune/text/tokenizer/token_pipeline.hpp>
#include <lazyprune/text/tokenizer/unicode.hpp>
#include <lazyprune/text/tokenizer/vocabulary.hpp>

namespace lazyprune {
inline namespace v0 {

/// The tokens that begin and end a text in Llama 3.
inline constexpr std::string_view llama3_begin = "<|begin_of_text|>", llama3_end = "<|end_of_text|>";

namespace detail {

/// Returns the six bits that a letter of base64 stands for, 64 for the padding "=", and nullopt for anything else.
constexpr std::optional<unsigned> base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<unsigned>(c - 'A');
  if (c >= 'a' && c <= 'z') return static_cast<unsigned>(c - 'a') + 26;
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0') + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  if (c == '=') return 64;
  return std::nullopt;
}

/// Returns the bytes of a text in base64, or nullopt if the text is empty or not base64.
inline std::optional<std::string> from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); at += 4) {
    std::uint32_t bits = 0;
    std::size_t fill = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto value = base64_value(text[at + i]);
      const bool fills = value == 64u;
      if (!value || (fills && (at + 4 != text.size() || i < 2)) || (!fills && fill > 0)) return std::nullopt;
      fill += fills ? 1 : 0;
      bits = bits << 6 | (fills ? 0 : *value);
    }
    for (std::size_t i = 0; i + fill < 3; ++i) bytes += static_cast<char>(bits >> (16 - 8 * i) & 0xff);
  }
  return bytes;
}

/// Calls found(piece) for each line of a file of ranks. Throws `error` with the line number if a line is malformed.
template <class Found>
void each_rank(std::string_view text, std::string_view file, const Found& found) {
  for (std::size_t rank = 0; !text.empty(); ++rank) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto fail = [&](std::string_view expected, std::string_view what) {
      throw error(file, "line " + std::to_string(rank + 1), expected, in_quotes(what));
    };
    const std::size_t space = line.find(' ');
    if (space == line.npos) fail("a piece in base64, a space and its rank", line);
    const auto piece = from_base64(line.substr(0, space));
    if (!piece) fail("a piece in base64", line.substr(0, space));
    if (line.substr(space + 1) != std::to_string(rank)) fail("the rank " + std::to_string(rank), line.substr(space + 1));
    found(*piece);
  }
}

/// Returns the 256 tokens that Llama 3 adds to its ranks, with the names of Llama 3.1 and later. The first Llama 3 has other names for some
/// of these ids. `first`: the id of the first token.
inline std::vector<added_token> llama3_special_tokens(token_id first) {
  constexpr std::array<std::string_view, 12> named = {llama3_begin,
                                                      llama3_end,
                                                      "",
                                                      "",
                                                      "<|finetune_right_pad_id|>",
                                                      "<|step_id|>",
                                                      "<|start_header_id|>",
                                                      "<|end_header_id|>",
                                                      "<|eom_id|>",
                                                      "<|eot_id|>",
                                                      "<|python_tag|>",
                                                      "<|image|>"};
  std::vector<added_token> all;
  std::size_t reserved = 0;
  for (token_id i = 0; i < 256; ++i) {
    added_token one{.text = i < named.size() ? std::string(named[i]) : "", .id = first + i, .special = true};
    if (one.text.empty()) one.text = "<|reserved_special_token_" + std::to_string(reserved++) + "|>";
    all.push_back(std::move(one));
  }
  return all;
}

/// Throws `error` for ranks that are not Llama 3's. The message names a known model with the same number of ranks, if there is one.
[[noreturn]] inline void refuse_ranks(std::size_t count, std::string_view file) {
  constexpr std::pair<std::size_t, std::string_view> others[] = {{50256, "GPT-2's r50k_base"},
                                                                 {100256, "GPT-4's cl100k_base"},
                                                                 {199998, "GPT-4o's o200k_base"},
                                                                 {151643, "Qwen's"},
                                                                 {200000, "Llama 4's"}};
  std::string found = std::to_string(count) + " other ranks";
  for (const auto& [size, name] : others)
    if (size == count) found += ", the number of " + std::string(name);
  throw error(file, "", "the 128000 ranks of Llama 3", found, error_code::unsupported);
}

}  // namespace detail

/// Returns whether a file looks like ranks, valid or not: it begins with a letter of base64. A SentencePiece model does not.
inline bool is_tiktoken(std::string_view text) { return !text.empty() && detail::base64_value(text[0]).has_value(); }

/// Returns the tokenizer of a file of Llama 3's ranks. Throws `error`, with the line, if the text is not a file of ranks. Throws `error` if
/// the ranks are not Llama 3's, or if `characters` is null.
inline token_pipeline parse_tiktoken(std::string_view text, std::string_view file, const unicode* characters) {
  constexpr std::size_t llama3_ranks = 128'000;
  constexpr std::uint64_t llama3_fingerprint = 0x2ed9c0ade6e0d96;
  std::size_t count = 0;
  fnv_hash fingerprint;  // of all pieces, with the low byte of their sizes
  detail::each_rank(text, file, [&](std::string_view piece) {
    ++count;
    fingerprint.add(static_cast<unsigned char>(piece.size() & 0xff));
    fingerprint.add(piece);
  });
  if (count != llama3_ranks || fingerprint.value() != llama3_fingerprint) detail::refuse_ranks(count, file);
  if (!characters)
    throw error(file, "", "another kind of tokenizer file, because this build lacks PCRE2 and utf8proc", "tiktoken ranks",
                error_code::unsupported);

  std::vector<std::optional<std::string>> pieces;
  pieces.reserve(count);
  detail::each_rank(text, file, [&](std::string_view piece) { pieces.emplace_back(in_byte_alphabet(piece)); });
  bpe_options options;
  options.ignore_merges = true;
  bpe model(vocabulary(std::move(pieces)), options);
  model.merge_by_rank();
  return byte_level_pipeline(*find_pre_tokenizer("llama-bpe"), *characters, std::move(model), detail::llama3_special_tokens(llama3_ranks),
                             {{llama3_ranks}, {}});
}

}  // namespace v0
}  // namespace lazyprune
