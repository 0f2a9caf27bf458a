// SPDX-License-Identifier: MIT
// Regular expressions by PCRE2, compiled to machine code if PCRE2 supports that. A search has a limit of steps and of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 0  // declares only names with a width (pcre2_match_8), so other code may choose its own width
#endif
#include <pcre2.h>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/tokenizer/oniguruma_pattern.hpp>
#include <lazyprune/text/tokenizer/unicode.hpp>

namespace lazyprune {
inline namespace v0 {

class pcre2_regex final : public regex {
 public:
  /// Takes a pattern in Oniguruma's syntax; see pcre2_of_oniguruma. Throws `error` without file and place if the pattern is malformed,
  /// has more than 65536 bytes, or cannot be written for PCRE2.
  explicit pcre2_regex(std::string_view pattern) {
    constexpr std::size_t most = 1 << 16;
    if (pattern.size() > most)
      throw error("", "", "a pattern of at most " + std::to_string(most) + " bytes", std::to_string(pattern.size()));
    const std::string ours = pcre2_of_oniguruma(pattern);
    const std::unique_ptr<pcre2_compile_context_8, deleter> context(pcre2_compile_context_create_8(nullptr));
    if (!context) throw error("", "", "memory for a pattern", "none", error_code::no_memory);
    pcre2_set_newline_8(context.get(), PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit_8(context.get(), 250);
    constexpr std::uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    int fault = 0;
    std::size_t at = 0;
    code_.reset(pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(ours.data()), ours.size(), options, &fault, &at, context.get()));
    if (!code_) throw error("", "", "a pattern", in_quotes(pattern) + ": " + reason_of(fault));
    pcre2_jit_compile_8(code_.get(), PCRE2_JIT_COMPLETE);  // if this fails, PCRE2 interprets the pattern: slower, with the same matches
  }

  std::optional<text_range> find(std::string_view text, std::size_t from) const override {
    const workspace& work = workspace_of_thread();
    const int found = pcre2_match_8(code_.get(), reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(), from, PCRE2_NO_UTF_CHECK,
                                    work.data.get(), work.context.get());
    if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
    if (found < 0)
      throw error("", "", "a text that the tokenizer's pattern can search within its limits", reason_of(found), error_code::unsupported);
    const std::size_t* const range = pcre2_get_ovector_pointer_8(work.data.get());
    return text_range{range[0], range[1]};
  }

 private:
  struct deleter {
    void operator()(pcre2_compile_context_8* context) const { pcre2_compile_context_free_8(context); }
    void operator()(pcre2_match_context_8* context) const { pcre2_match_context_free_8(context); }
    void operator()(pcre2_match_data_8* data) const { pcre2_match_data_free_8(data); }
    void operator()(pcre2_jit_stack_8* stack) const { pcre2_jit_stack_free_8(stack); }
    void operator()(pcre2_code_8* code) const { pcre2_code_free_8(code); }
  };

  /// The memory that a search writes to. Each thread has one workspace, which all patterns share.
  struct workspace {
    std::unique_ptr<pcre2_match_data_8, deleter> data{pcre2_match_data_create_8(1, nullptr)};
    std::unique_ptr<pcre2_jit_stack_8, deleter> stack{pcre2_jit_stack_create_8(32 << 10, 16 << 20, nullptr)};
    std::unique_ptr<pcre2_match_context_8, deleter> context{pcre2_match_context_create_8(nullptr)};

    workspace() {
      if (!data || !stack || !context) throw error("", "", "memory for a search", "none", error_code::no_memory);
      pcre2_set_match_limit_8(context.get(), 10'000'000);
      pcre2_set_heap_limit_8(context.get(), 64 << 10);  // KiB
      pcre2_jit_stack_assign_8(context.get(), nullptr, stack.get());
    }
  };

  static const workspace& workspace_of_thread() {
    thread_local const workspace work;
    return work;
  }

  static std::string reason_of(int fault) {
    PCRE2_UCHAR8 text[256] = {};
    pcre2_get_error_message_8(fault, text, sizeof text);
    return reinterpret_cast<const char*>(text);
  }

  std::unique_ptr<pcre2_code_8, deleter> code_;
};

}  // namespace v0
}  // namespace lazyprune
