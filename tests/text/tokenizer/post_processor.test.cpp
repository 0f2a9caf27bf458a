// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/post_processor.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include <files/support.hpp>

using namespace lazyprune_test;
using lazyprune::json_value;
using lazyprune::post_processor;
using lazyprune::token_id;
using ids = std::vector<token_id>;

namespace {

post_processor parse(std::string_view text) { return post_processor_of(json_value::parse(text, "t.json", 10'000)); }
fault said(std::string_view text) {
  return error_of([&] { parse(text); });
}

const std::string specials =
    R"("special_tokens": {"<s>": {"id": "<s>", "ids": [1, 7], "tokens": ["<s>", "!"]}, "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}})";
const std::string around =
    R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                               {"SpecialToken": {"id": "</s>", "type_id": 0}}], "pair": [], )" +
    specials + "}";

}  // namespace

TEST_CASE("each kind of post-processor adds its tokens before and after a text") {
  const post_processor both = parse(R"({"type": "Sequence", "processors": [{"type": "ByteLevel", "trim_offsets": true}, )" + around + "]}");
  CHECK(both.before == ids{1, 7});
  CHECK(both.after == ids{2});
  const post_processor roberta =
      parse(R"({"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": true, "add_prefix_space": true})");
  CHECK(roberta.before == ids{0});
  CHECK(roberta.after == ids{2});
  CHECK(parse(R"({"type": "ByteLevel"})").before.empty());
}

TEST_CASE("unknown kinds and options are refused by name") {
  CHECK(said(R"({"type": "Mirror"})") ==
        unsupported("t.json: type", {"TemplateProcessing", "ByteLevel", "RobertaProcessing", "BertProcessing", "\"Mirror\""}));
  CHECK(said(R"({"type": "Sequence", "processors": [)" + around + ", " + around + "]}") == unsupported("t.json: processors[1]"));
  const auto single = [](const std::string& parts) {
    return said(R"({"type": "TemplateProcessing", "single": [)" + parts + "], \"pair\": [], " + specials + "}");
  };
  CHECK(single("") == unsupported("t.json: single"));
  CHECK(single(R"({"Sequence": {"id": "B", "type_id": 0}})") == unsupported("t.json: single[0].Sequence"));
  CHECK(single(R"({"SpecialToken": {"id": "<x>", "type_id": 0}})") ==
        at("t.json: single[0].SpecialToken.id", {"special_tokens", "\"<x>\""}));
  CHECK(said(R"({"type": "BertProcessing", "sep": ["a"], "cls": ["b", 1]})") == at("t.json: sep"));
}
