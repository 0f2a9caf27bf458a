// SPDX-License-Identifier: MIT
#include "words/chat_ids.hpp"

#include <doctest/doctest.h>

#include <lazyprune/text/chat_template.hpp>
#include <lazyprune/text/tokenizer.hpp>

using namespace lazyprune;
using lazyprune::program::chat_ids;
using lazyprune::program::runs_after;

namespace {

rendered_chat chat_of(std::vector<text_run> runs) {
  jinja::tagged_text text;
  for (const text_run& run : runs) text.append(run.text, run.trusted);
  return rendered_chat(std::move(text), std::make_shared<const std::string>());
}

/// A tokenizer of single letters, "bc" as one token, and a byte that begins a character.
tokenizer letters(bool prefix) {
  sentencepiece_model model;
  const auto add = [&](const char* text, float score, piece_type type = piece_type::normal) {
    model.pieces.push_back({text, score, type});
  };
  add("<unk>", 0, piece_type::unknown);
  add("<s>", 0, piece_type::control);
  add("</s>", 0, piece_type::control);
  for (const char* letter : {"a", "b", "c", "\xe2\x96\x81"}) add(letter, -2);
  add("bc", -1);
  add("<0xF0>", 0, piece_type::byte);
  model.bos_piece = "<s>";
  model.eos_piece = "</s>";
  model.add_dummy_prefix = prefix;
  return tokenizer(std::move(model));
}

using ids = std::vector<token_id>;

}  // namespace

TEST_CASE("text that a rendering adds is encoded after the generated ids") {
  const tokenizer tokens = letters(false);
  chat_ids chat(tokens);
  CHECK(chat.next(chat_of({{"<s>", true}, {"a", false}})) == ids{1, 3});
  chat.add_answer(ids{4, 5, 2});  // "b", "c": encoding the text "bc" would give one token
  CHECK(chat.next(chat_of({{"<s>", true}, {"abc", false}, {"</s>", true}, {"ab", false}})) == ids{1, 3, 4, 5, 2, 3, 4});
}

TEST_CASE("a truncated answer: the template's end of turn is added") {
  const tokenizer tokens = letters(false);
  chat_ids chat(tokens);
  chat.next(chat_of({{"<s>", true}, {"a", false}}));
  chat.add_answer(ids{4, 5});
  CHECK(chat.next(chat_of({{"<s>", true}, {"abc", false}, {"</s>", true}, {"c", false}})) == ids{1, 3, 4, 5, 2, 5});
}

TEST_CASE("an answer may end inside of a character, whose bytes become U+FFFD after the other text") {
  const tokenizer tokens = letters(false);
  chat_ids chat(tokens);
  chat.next(chat_of({{"<s>", true}, {"a", false}}));
  chat.add_answer(ids{4, 8});
  CHECK(chat.next(chat_of({{"<s>", true}, {"ab\xef\xbf\xbd", false}, {"</s>", true}})) == ids{1, 3, 4, 8, 2});
}

TEST_CASE("a rendering that does not begin with the earlier text is encoded again") {
  const tokenizer tokens = letters(false);
  chat_ids chat(tokens);
  chat.next(chat_of({{"<s>", true}, {"a", false}}));
  chat.add_answer(ids{4, 5, 2});
  CHECK(chat.next(chat_of({{"<s>", true}, {"abc", false}, {"a", false}})) == ids{1, 3, 7, 3});
}

TEST_CASE("a tokenizer that puts a space before texts puts none in the middle of a chat") {
  const tokenizer tokens = letters(true);
  chat_ids chat(tokens);
  CHECK(chat.next(chat_of({{"<s>", true}, {"a", false}})) == ids{1, 6, 3});
  chat.add_answer(ids{4, 5});
  CHECK(chat.next(chat_of({{"<s>", true}, {"abca", false}})) == ids{1, 6, 3, 7, 3});  // encoded again: alone, "a" would get a space
  chat.add_answer(ids{2});
  CHECK(chat.next(chat_of({{"<s>", true}, {"abca", false}, {"</s>", true}, {"b", false}})) == ids{1, 6, 3, 7, 3, 2, 6, 4});
}

TEST_CASE("runs_after drops the first bytes of the runs") {
  const std::vector<text_run> runs{{"ab", true}, {"c", false}, {"de", true}};
  CHECK(runs_after(runs, 0) == runs);
  CHECK(runs_after(runs, 1) == std::vector<text_run>{{"b", true}, {"c", false}, {"de", true}});
  CHECK(runs_after(runs, 3) == std::vector<text_run>{{"de", true}});
  CHECK(runs_after(runs, 5).empty());
}
