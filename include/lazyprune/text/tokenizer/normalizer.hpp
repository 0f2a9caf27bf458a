// SPDX-License-Identifier: MIT
// The normalizers of tokenizer.json: they change a text before it is split. A Sequence of normalizers becomes one list of steps.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/tokenizer/text_pattern.hpp>
#include <lazyprune/text/tokenizer/unicode.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

/// Combines several functions into one visitor of a variant.
template <class... Functions>
struct overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
overloaded(Functions...) -> overloaded<Functions...>;

/// Returns the number of bytes of white space at the start of a text.
inline std::size_t leading_space(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size()) {
    const auto [code, bytes] = first_character(text.substr(size));
    if (!is_unicode_white_space(code)) break;
    size += bytes;
  }
  return size;
}

/// Returns the number of bytes of white space at the end of a text.
inline std::size_t trailing_space(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size()) {
    const auto [code, bytes] = last_character(text.substr(0, text.size() - size));
    if (!is_unicode_white_space(code)) break;
    size += bytes;
  }
  return size;
}

}  // namespace detail

class normalizer {
 public:
  struct form {
    normal_form form;
    const unicode* characters;
  };
  struct replace {
    text_pattern pattern;
    std::string content;
  };
  struct prepend {
    std::string text;
  };
  struct lowercase {
    const unicode* characters;
  };
  struct strip {
    bool left, right;
  };
  using step = std::variant<form, replace, prepend, lowercase, strip>;

  struct result {
    std::string text;
    bool from_start;  // no step has removed the beginning of the text; steps may have replaced it, or put text before it
  };

  normalizer() = default;
  explicit normalizer(std::vector<step> steps) : steps_(std::move(steps)) {}

  /// Returns the normalized form of a well-formed text. Throws `error` if the result has more than 4096 bytes plus 64 per byte of the text.
  result apply(std::string_view text) const {
    result now{std::string(text), true};
    const std::size_t most = 4096 + 64 * text.size();
    for (const step& next : steps_) {
      std::visit([&](const auto& one) { take(one, now, most); }, next);
      if (now.text.size() > most)
        throw error("tokenizer", "normalizer", "at most 64 bytes for each byte of the text", std::to_string(now.text.size()) + " bytes",
                    error_code::unsupported);
    }
    return now;
  }

 private:
  static void take(const form& one, result& now, std::size_t) { now.text = one.characters->normalized(now.text, one.form); }
  static void take(const replace& one, result& now, std::size_t most) {
    const std::vector<text_cut> cuts = one.pattern.cuts(now.text);
    now.from_start = now.from_start && (cuts.empty() || !cuts.front().match || !one.content.empty());
    now.text = one.pattern.replaced(now.text, one.content, most);
  }
  static void take(const prepend& one, result& now, std::size_t) {
    if (!now.text.empty()) now.text.insert(0, one.text);
  }
  static void take(const lowercase& one, result& now, std::size_t) { now.text = one.characters->lowercase(now.text); }
  static void take(const strip& one, result& now, std::size_t) {
    const std::size_t left = one.left ? detail::leading_space(now.text) : 0;
    now.from_start = now.from_start && left == 0;
    now.text.erase(0, left);
    if (one.right) now.text.resize(now.text.size() - detail::trailing_space(now.text));
  }

  std::vector<step> steps_;
};

namespace detail {

inline void read_normalizer_steps(const json_value& json, const unicode* characters, std::vector<normalizer::step>& steps) {
  const json_value kind = json.at("type");
  const std::string& name = kind.string();
  const auto only = [&](std::initializer_list<std::string_view> keys) { json.allow_only(keys, error_code::unsupported); };
  constexpr std::pair<std::string_view, normal_form> forms[] = {
      {"NFC", normal_form::nfc}, {"NFD", normal_form::nfd}, {"NFKC", normal_form::nfkc}, {"NFKD", normal_form::nfkd}};
  for (const auto& [form_name, form] : forms)
    if (name == form_name) {
      only({"type"});
      steps.push_back(normalizer::form{form, &need_unicode(kind, characters)});
      return;
    }
  if (name == "Sequence") {
    only({"type", "normalizers"});
    json.at("normalizers").each_item([&](const json_value& one) { read_normalizer_steps(one, characters, steps); });
  } else if (name == "Replace") {
    only({"type", "pattern", "content"});
    steps.push_back(normalizer::replace{text_pattern_of(json.at("pattern"), characters), json.at("content").string()});
  } else if (name == "Prepend") {
    only({"type", "prepend"});
    steps.push_back(normalizer::prepend{json.at("prepend").string()});
  } else if (name == "Lowercase") {
    only({"type"});
    steps.push_back(normalizer::lowercase{&need_unicode(kind, characters)});
  } else if (name == "Strip") {
    only({"type", "strip_left", "strip_right"});
    steps.push_back(normalizer::strip{json.at("strip_left").boolean(), json.at("strip_right").boolean()});
  } else {
    kind.refuse_unsupported("NFC, NFD, NFKC, NFKD, Replace, Prepend, Lowercase, Strip or Sequence");
  }
}

}  // namespace detail

/// Returns the normalizer in a tokenizer.json. Throws `error`, with the place, if its kind or one of its options is not supported.
inline normalizer normalizer_of(const json_value& json, const unicode* characters) {
  std::vector<normalizer::step> steps;
  detail::read_normalizer_steps(json, characters, steps);
  return normalizer(std::move(steps));
}

}  // namespace v0
}  // namespace lazyprune
