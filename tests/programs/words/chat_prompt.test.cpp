// SPDX-License-Identifier: MIT
#include "words/chat_prompt.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "words/model_words.hpp"

#include <lazyprune/text/chat_template.hpp>
#include <lazyprune/text/tokenizer.hpp>

#include <fault.hpp>
#include <test_data.hpp>

using namespace lazyprune;
using lazyprune::program::chat_words;
using lazyprune::program::document_roles;
using lazyprune::program::earlier_turn;
using lazyprune::program::earlier_turns;
using lazyprune::program::mark_documents;
using lazyprune::program::model_words;
using lazyprune::program::outside_documents;
using lazyprune::program::policy_for_prompt;

namespace {

const chat_template chatml(
    "{% for m in messages %}<s>{{ m.role }}:{% if m.content is string %}{{ m.content | trim }}{% elif m.content %}{{ m.content | tojson }}{% endif %}"
    "{% for call in m.tool_calls or [] %}{{ call | tojson }}{% endfor %}</s>{% endfor %}");

rendered_chat rendered(const std::string& messages, const std::string& roles = "user,tool", const chat_template& words = chatml) {
  chat_request chat;
  chat.set_messages(messages, "messages");
  mark_documents(chat, document_roles::parse(roles));
  return words.render(chat);
}

std::string documents_in(const rendered_chat& chat) {
  std::string all;
  for (const text_run& run : chat.runs())
    if (run.document) all.append(all.empty() ? "" : "|").append(run.text);
  return all;
}

/// The text of the tokens that may be pruned, with a bar in each gap.
std::string pruned_text(const tokenizer& tokens, const std::vector<token_id>& ids, const position_spans& kept) {
  std::string text;
  std::vector<token_id> open;
  const auto close = [&] {
    if (!open.empty()) text.append(text.empty() ? "" : "|").append(tokens.decode(std::exchange(open, {})));
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool is_kept = std::ranges::any_of(kept.list(), [&](const position_span& s) { return s.first <= i && i <= s.last; });
    if (is_kept)
      close();
    else
      open.push_back(ids[i]);
  }
  close();
  return text;
}

std::string pruned_in(const tokenizer& tokens, const rendered_chat& chat) {
  const auto ids = tokens.encode(chat.runs(), chat.template_words());
  return pruned_text(tokens, ids, outside_documents(tokens, chat, ids));
}

/// A tokenizer of a few single characters, and of "ab" and "ba". It splits all other characters into bytes.
tokenizer small_tokenizer(bool prefix) {
  sentencepiece_model model;
  const auto add = [&](const std::string& text, float score, piece_type type = piece_type::normal) {
    model.pieces.push_back({text, score, type});
  };
  add("<unk>", 0, piece_type::unknown);
  add("<s>", 0, piece_type::control);
  add("</s>", 0, piece_type::control);
  constexpr const char* digits = "0123456789ABCDEF";
  for (int i = 0; i < 256; ++i) {
    model.bytes[static_cast<std::size_t>(i)] = static_cast<token_id>(model.pieces.size());
    add(std::string("<0x") + digits[i / 16] + digits[i % 16] + ">", 0, piece_type::byte);
  }
  for (const char* letter : {"a", "b", "c", ":", "\xe2\x96\x81"}) add(letter, -2);
  add("ab", -1);
  add("ba", -1);
  model.byte_fallback = true;
  model.bos_piece = "<s>";
  model.eos_piece = "</s>";
  model.add_dummy_prefix = prefix;
  return tokenizer(std::move(model));
}

}  // namespace

TEST_CASE("the documents are the last user's text and the results of tools after it, or those of the named roles") {
  const std::string chat = R"([{"role": "system", "content": "S"}, {"role": "user", "content": "1"}, {"role": "tool", "content": "t"},
    {"role": "assistant", "content": "A"}, {"role": "user", "content": " 2\n"},
    {"role": "assistant", "content": "B", "tool_calls": [{"name": "T"}]}, {"role": "tool", "content": "T"}, {"role": "ipython", "content": "U"}])";
  CHECK(documents_in(rendered(chat)) == "2|T|U");
  CHECK(documents_in(rendered(chat, "user")) == "2");
  CHECK(documents_in(rendered(chat, "tool")) == "T|U");
  CHECK(documents_in(rendered(chat, "assistant")) == "B");
  CHECK(documents_in(rendered(chat, "system,assistant,user")) == "S|2|B");
  CHECK(documents_in(rendered(R"([{"role": "tool", "content": "T"}, {"role": "assistant", "content": "B"}])")).empty());
  CHECK(documents_in(rendered("[]")).empty());
  CHECK(documents_in(rendered(R"([{"role": "user", "content": null}, {"role": "user"}])")).empty());
}

TEST_CASE("the text is found wherever the template writes it, however often other texts repeat it") {
  CHECK(documents_in(rendered(R"([{"role": "user", "content": "user"}, {"role": "user", "content": "user"}])")) == "user");
  const std::string parts = R"([{"role": "user", "content": [{"type": "text", "text": "a\nb"}, {"type": "text", "text": "c"}]}])";
  CHECK(documents_in(rendered(parts)) == "a\\nb|c");  // written in JSON
  const chat_template twice("{{ messages[0].content | upper }}{{ messages[0].content[1:] }}-{{ messages[0].content | e }}");
  CHECK(documents_in(rendered(R"([{"role": "user", "content": "a<b"}])", "user", twice)) == "A<B<b|a&lt;b");
  CHECK(documents_in(rendered(R"([{"role": "user", "content": "a"}])", "user", chat_template("nothing"))).empty());
}

TEST_CASE("only tokens that are wholly inside a document may be pruned") {
  for (const bool prefix : {false, true}) {
    CAPTURE(prefix);
    const tokenizer tokens = small_tokenizer(prefix);
    const auto pruned = [&](const std::string& source, const std::string& content) {
      chat_request chat;
      chat.add("user", content);
      mark_documents(chat);
      return pruned_in(tokens, chat_template(source).render(chat));
    };
    CHECK(pruned("<s>{{ messages[0].content }}</s>", "caab") == "caab");
    CHECK(pruned("<s>a{{ messages[0].content }}a</s>", "bcb") == "c");  // the tokens "ab" and "ba" also have bytes of the template
    CHECK(pruned("<s>\xc3\xa9{{ messages[0].content }}\xc3\xa9</s>", "\xf0\x9f\x8e\x89") == "\xf0\x9f\x8e\x89");
    CHECK(pruned("<s>c{{ messages[0].content }}c</s>", "a b </s>") == "a b </s>");
    CHECK(pruned("<s>c</s>", "a").empty());
    CHECK(pruned("", "a").empty());
  }
}

TEST_CASE("if the ids are not those of the chat, all are kept") {
  const tokenizer tokens = small_tokenizer(false);
  const rendered_chat chat = rendered(R"([{"role": "user", "content": "abc"}])");
  auto ids = tokens.encode(chat.runs(), chat.template_words());
  ids.pop_back();
  CHECK(outside_documents(tokens, chat, ids) == position_spans{{0, static_cast<position>(ids.size() - 1)}});
  CHECK(outside_documents(tokens, chat, {}) == position_spans{});
}

TEST_CASE("a chat of many tool results takes time in proportion to its length") {
  const tokenizer tokens = small_tokenizer(false);
  constexpr std::size_t results = 20000;  // if each took as long as the whole chat, the test would run for minutes
  std::string messages = R"([{"role": "user", "content": "abc"})";
  for (std::size_t i = 0; i < results; ++i) messages += R"(,{"role": "tool", "content": "abcabcab caab"})";
  const rendered_chat text = rendered(messages + "]");
  const auto ids = tokens.encode(text.runs(), text.template_words());
  const position_spans kept = outside_documents(tokens, text, ids);
  CHECK(kept.list().size() == results + 2);
}

TEST_CASE("a policy for a prompt keeps its own positions, the prompt's, and the last 64 tokens") {
  CHECK(policy_for_prompt({.preset = "dense"}, {{0, 3}}) == policy_spec{.preset = "dense"});
  CHECK(policy_for_prompt({.stages = "2:0.5"}, {}) == policy_spec{.stages = "2:0.5", .keep_last = 64});
  const policy_spec asked{.stages = "2:0.5", .keep_last = 3, .keep = "2-5,9"};
  policy_spec expected = asked;
  expected.keep = "0-5,9,12";
  CHECK(policy_for_prompt(asked, {{0, 3}, {12, 12}}) == expected);
}

TEST_CASE("--document-roles refuses an unknown role and an empty list") {
  const auto fault = [](const std::string& text) { return lazyprune_test::error_of([&] { (void)document_roles::parse(text); }); };
  CHECK(fault("user,model") == lazyprune_test::at("--document-roles: user,model", {"user, tool, assistant or system", "\"model\""}));
  CHECK(fault("") == lazyprune_test::at("--document-roles", {"nothing"}));
}

TEST_CASE("real templates and tokenizers: the last user's text may be pruned, and nothing else" NEEDS("data")) {
  const auto vocabularies = test_data("tokenizer-json"), templates = test_data("chat");
  if (vocabularies.empty() || templates.empty()) return;
  // Has a decomposed letter, which Qwen's tokenizer composes; an emoji of several tokens; texts of control tokens; and spaces.
  const std::string text = "A long caf\x65\xcc\x81, <|im_end|>\n\n  and \xf0\x9f\xa6\xa5 </s> <|eot_id|> at the end";
  const std::string composed = "A long caf\xc3\xa9, <|im_end|>\n\n  and \xf0\x9f\xa6\xa5 </s> <|eot_id|> at the end";
  for (const auto& [vocabulary, template_name] : {std::pair("real-qwen3", "qwen3"),
                                                  {"qwen2", "qwen2.5"},
                                                  {"real-llama-3", "llama-3.1"},
                                                  {"llama2-legacy", "llama-2"},
                                                  {"gemma", "gemma-3"},
                                                  {"real-deepseek-v4", "deepseek-v3.1"}}) {
    const std::string words = template_name;  // a lambda cannot capture a structured binding
    CAPTURE(words);
    const model_words model({.path = (vocabularies / vocabulary).string()}, {.file = (templates / (words + ".jinja")).string()});
    if (model.tokens().fault()) return lazyprune_test::skip("PCRE2 and utf8proc (libpcre2-dev, libutf8proc-dev)");
    const tokenizer& tokens = model.tokenizer_for("the test");
    chat_request request;
    request.add("user", text);
    request.add("assistant", "at the end");
    request.add("user", " " + text + " ");
    request.set_add_generation_prompt(true);
    mark_documents(request);
    const std::string pruned = pruned_in(tokens, model.chat_for("the test").render(request));
    // The first or last word may share a token with the template.
    CHECK_MESSAGE(pruned.size() + 4 >= composed.size(), pruned);
    CHECK_MESSAGE(((" " + text + " ").find(pruned) != text.npos || (" " + composed + " ").find(pruned) != text.npos), pruned);
  }
}

TEST_CASE(
    "real templates and tokenizers: the tokens of an earlier answer are found, whatever the tokenizer does to its text" NEEDS("data")) {
  const auto vocabularies = test_data("tokenizer-json"), templates = test_data("chat");
  if (vocabularies.empty() || templates.empty()) return;
  struct tested_words {
    std::string vocabulary, words, end;
  };
  for (const tested_words& each :
       {tested_words{"real-qwen3", "qwen3", "<|im_end|>"},
        {"qwen2", "qwen2.5", "<|im_end|>"},
        {"real-llama-3", "llama-3.1", "<|eot_id|>"},
        {"llama2-legacy", "llama-2", "</s>"},  // the template writes a space before the end token
        {"gemma", "gemma-3", "<end_of_turn>"},
        {"real-deepseek-v4", "deepseek-v3.1", "<\xef\xbd\x9c\x65nd\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"}}) {
    CAPTURE(each.words);
    const model_words model({.path = (vocabularies / each.vocabulary).string()}, {.file = (templates / (each.words + ".jinja")).string()});
    if (model.tokens().fault()) return lazyprune_test::skip("PCRE2 and utf8proc (libpcre2-dev, libutf8proc-dev)");
    const tokenizer& tokens = model.tokenizer_for("the test");
    const chat_words& chat = model.chat_for("the test");
    const std::vector<token_id> ends = tokens.encode(each.end, false);
    REQUIRE(ends.size() == 1);
    const std::string decomposed = "a caf\x65\xcc\x81", composed = "a caf\xc3\xa9";  // Qwen's tokenizer composes the letter
    for (const std::string& answer :
         {std::string("It is a bird \xf0\x9f\xa6\xa5"), std::string("\xf0\x9f\xa6\xa5"), decomposed, "say " + each.end + " twice"}) {
      CAPTURE(answer);
      chat_request request;
      request.add("user", "What is it?");
      request.add("assistant", answer);
      request.add("user", "And then?");
      request.set_add_generation_prompt(true);
      const rendered_chat text = chat.render(request);
      const std::vector<token_id> ids = tokens.encode(text.runs(), text.template_words());
      const std::vector<earlier_turn> turns = earlier_turns(chat, tokens, request, ids, ends);
      REQUIRE(turns.size() == 1);
      const auto [first, last] = turns[0];
      REQUIRE(first < last);
      REQUIRE(last < ids.size());
      std::string found = tokens.decode(std::span(ids).subspan(first, last - first));
      found.erase(0, found.find_first_not_of(' '));
      CHECK_MESSAGE((found == answer || (answer == decomposed && found == composed)), found);
      const auto end = std::ranges::find(ids.begin() + static_cast<std::ptrdiff_t>(last), ids.end(), ends[0]);
      CHECK(end != ids.end());
      CHECK(tokens.decode(std::span(ids.begin() + static_cast<std::ptrdiff_t>(last), end)).find_first_not_of(' ') == std::string::npos);
    }
  }
}
