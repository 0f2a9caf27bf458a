// SPDX-License-Identifier: MIT
// The list of all model families. A new family is a file in this folder and a line here.
#pragma once

#include <string>
#include <string_view>

#include <lazyprune/files/family/gemma2.hpp>
#include <lazyprune/files/family/gemma3.hpp>
#include <lazyprune/files/family/llama.hpp>
#include <lazyprune/files/family/mistral.hpp>
#include <lazyprune/files/family/phi3.hpp>
#include <lazyprune/files/family/qwen2.hpp>
#include <lazyprune/files/family/qwen3.hpp>

namespace lazyprune {
inline namespace v0 {

inline constexpr const model_family* all_families[] = {
    &families::llama, &families::mistral, &families::qwen2, &families::qwen3, &families::phi3, &families::gemma2, &families::gemma3,
};

/// Returns the family with this name, or null. `member`: which of the names to compare.
constexpr const model_family* find_family(std::string_view model_family::*member, std::string_view name) {
  for (const model_family* family : all_families)
    if (!name.empty() && family->*member == name) return family;
  return nullptr;
}

/// Returns the names in `member` of all families that have one, for errors: "llama, mistral or qwen2".
inline std::string family_names(std::string_view model_family::*member) {
  std::string text;
  std::size_t last = 0;
  for (const model_family* family : all_families) {
    if ((family->*member).empty()) continue;
    last = text.size();
    text.append(text.empty() ? "" : ", ").append(family->*member);
  }
  return last == 0 ? text : text.replace(last, 2, " or ");
}

}  // namespace v0
}  // namespace lazyprune
