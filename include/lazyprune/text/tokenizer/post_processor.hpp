// SPDX-License-Identifier: MIT
// The post-processors of tokenizer.json: the tokens that they put before and after those of a text.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/text/tokenizer/vocabulary.hpp>

namespace lazyprune {
inline namespace v0 {

struct post_processor {
  std::vector<token_id> before, after;
};

namespace detail {

inline token_id token_id_of(const json_value& json) { return static_cast<token_id>(json.whole_number(0, vocabulary::most_ids - 1)); }

/// Reads the template for a single text: special tokens around the sequence A.
inline post_processor template_of(const json_value& json) {
  json.allow_only({"type", "single", "pair", "special_tokens"}, error_code::unsupported);
  const json_value single = json.at("single"), specials = json.at("special_tokens");
  post_processor out;
  bool inside = false;
  single.each_item([&](const json_value& part) {
    part.allow_only({"SpecialToken", "Sequence"}, error_code::unsupported);
    if (const auto sequence = part.find("Sequence")) {
      if (sequence->at("id").string() != "A" || inside) sequence->refuse_unsupported("the sequence A, once");
      inside = true;
      return;
    }
    const json_value name = part.at("SpecialToken").at("id");
    if (!specials.has(name.string())) name.refuse("one of special_tokens");
    const json_value special = specials.at(name.string());
    special.allow_only({"id", "ids", "tokens"}, error_code::unsupported);
    special.at("ids").each_item([&](const json_value& id) { (inside ? out.after : out.before).push_back(token_id_of(id)); });
  });
  if (!inside) single.refuse_unsupported("the sequence A, once");
  return out;
}

/// Returns the id in a pair like ["</s>", 2].
inline token_id named_token_of(const json_value& pair) {
  if (pair.is_array() && pair.size() != 2) pair.refuse("a token and its id");
  const std::vector<json_value> items = pair.items();
  if (!items[0].is_string()) pair.refuse("a token and its id");
  return token_id_of(items[1]);
}

}  // namespace detail

/// Returns the post-processor in a tokenizer.json. Throws `error`, with the place, if its kind or one of its options is not supported.
inline post_processor post_processor_of(const json_value& json) {
  const json_value kind = json.at("type");
  const std::string& name = kind.string();
  const auto only = [&](std::initializer_list<std::string_view> keys) { json.allow_only(keys, error_code::unsupported); };
  if (name == "ByteLevel") {  // changes only the tokens' offsets in the text
    only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return {};
  }
  if (name == "TemplateProcessing") return detail::template_of(json);
  if (name == "RobertaProcessing" || name == "BertProcessing") {
    only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    return {{detail::named_token_of(json.at("cls"))}, {detail::named_token_of(json.at("sep"))}};
  }
  if (name != "Sequence") kind.refuse_unsupported("TemplateProcessing, ByteLevel, RobertaProcessing, BertProcessing or Sequence");
  only({"type", "processors"});
  post_processor all;
  json.at("processors").each_item([&](const json_value& one) {
    post_processor next = post_processor_of(one);
    const bool adds = !next.before.empty() || !next.after.empty();
    if (adds && (!all.before.empty() || !all.after.empty())) one.refuse_unsupported("one processor that adds tokens");
    if (adds) all = std::move(next);
  });
  return all;
}

}  // namespace v0
}  // namespace lazyprune
