// SPDX-License-Identifier: MIT
// The tokens that end a generation. Few configs list all of them. A chat model's config often names only the token that ends a text, but
// another token ends its turns.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include <lazyprune/core/types.hpp>
#include <lazyprune/text/tokenizer.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

/// Texts of tokens that end a text, a turn, a tool call or a code completion, as in llama.cpp's vocabulary code.
inline constexpr std::string_view end_names[] = {"<|eot_id|>",
                                                 "<|im_end|>",
                                                 "<|end|>",
                                                 "<|return|>",
                                                 "<|call|>",
                                                 "<|flush|>",
                                                 "<|calls|>",
                                                 "<end_of_turn>",
                                                 "<|endoftext|>",
                                                 "</s>",
                                                 "<|eom_id|>",
                                                 "<EOT>",
                                                 "_<EOT>",
                                                 "[EOT]",
                                                 "[EOS]",
                                                 "<|end_of_text|>",
                                                 "<end_of_utterance>",
                                                 "<eos>",
                                                 "<turn|>",
                                                 "<|tool_response>",
                                                 "<\xef\xbd\x9c"  // NOLINT(bugprone-suspicious-missing-comma): \x9ce would be one number
                                                 "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
                                                 "<|fim_pad|>",
                                                 "<fim-pad>",
                                                 "<fim_pad>",
                                                 "<PAD>",
                                                 "[PAD]",
                                                 "<|fim_repo|>",
                                                 "<|repo_name|>",
                                                 "<fim-repo>",
                                                 "<REPO>",
                                                 "<reponame>",
                                                 "<|file_sep|>"};

inline bool ends_generation(std::string_view name) { return std::ranges::find(end_names, name) != std::end(end_names); }

}  // namespace detail

/// Returns the tokens that end a generation, in ascending order. They are the ids in the model's config, the tokenizer's EOS, and the
/// tokens whose texts end a generation in llama.cpp. A model's folder and its GGUF file give the same ids. In some
/// vocabularies, two of these texts do not count. `<|end|>` does not end a generation if `<|return|>` and `<|call|>` exist, or `<|calls|>`
/// and `<|flush|>`, because `<|end|>` then separates messages. `</s>` does not end a generation if `<|tool_response>` exists.
inline std::vector<token_id> end_of_generation(const tokenizer& tokens, std::span<const token_id> of_config) {
  std::vector<token_id> all;
  std::set<std::string_view> names;
  for (token_id id = 0; id < tokens.size(); ++id) {
    if (!detail::ends_generation(tokens.piece(id))) continue;
    all.push_back(id);
    names.insert(tokens.piece(id));
  }
  const auto have = [&](std::string_view a, std::string_view b) { return names.contains(a) && names.contains(b); };
  const bool parts_messages = have("<|return|>", "<|call|>") || have("<|calls|>", "<|flush|>");
  std::erase_if(all, [&](token_id id) {
    const std::string_view name = tokens.piece(id);
    return (name == "<|end|>" && parts_messages) || (name == "</s>" && names.contains("<|tool_response>"));
  });
  all.insert(all.end(), of_config.begin(), of_config.end());
  if (const std::optional<token_id> eos = tokens.eos()) all.push_back(*eos);
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace v0
}  // namespace lazyprune
