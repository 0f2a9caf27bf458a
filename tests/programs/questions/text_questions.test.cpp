// SPDX-License-Identifier: MIT
#include "questions/text_questions.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lazyprune/text/tokenizer.hpp>

#include <fault.hpp>
#include <files/support.hpp>
#include <test_data.hpp>
#include "models/model_choice.hpp"
#include "words/model_words.hpp"

using namespace lazyprune::program;
using lazyprune_test::at;
using lazyprune_test::error_of;

TEST_CASE("questions are cut evenly out of the texts, ask for facts and quotes in turn, and hold their answers") {
  const lazyprune_test::temporary_folder files;
  std::string text;
  for (std::size_t i = 0; i < 150; ++i)
    text += "The ship number " + std::to_string(i) + " carries apples and " + std::to_string(i) + " oranges over the sea. ";
  files.write("a.txt", text.substr(0, text.size() / 2));
  files.write("b.txt", text.substr(text.size() / 2));
  const model_words words(opened_model(model_flags{.path = pocket_model().string()}));
  const lazyprune::tokenizer& tokens = words.tokenizer_for("test");
  const text_flags flags{.files = {(files / "a.txt").string(), (files / "b.txt").string()}, .tokens = 300, .prompts = 8};
  const std::vector<question> made = text_questions(flags, tokens);
  REQUIRE(made.size() == 8);
  for (std::size_t i = 0; i < made.size(); ++i) {
    CAPTURE(i);
    CHECK(made[i].task->name == (i % 2 == 0 ? "made_up_fact" : "repeated_quote"));
    CHECK(made[i].task->chat == (i % 2 == 0));
    REQUIRE(made[i].sample.answers.size() >= 1);
    for (const std::string& answer : made[i].sample.answers) CHECK(made[i].sample.input.find(answer) != std::string::npos);
    CHECK(made[i].number == i + 1);
  }
  // The quotes have whole passages; a question may leave sentences of its passage out.
  const auto first_ship = [&](std::size_t i) {
    const std::string& input = made[i].sample.input;
    return std::stoi(input.substr(input.find("number ") + 7));
  };
  for (std::size_t i = 3; i < made.size(); i += 2) CHECK(first_ship(i) > first_ship(i - 2) + 10);
  CHECK(made[7].sample.input.find("number 149 ") != std::string::npos);
  CHECK(error_of([&] { text_questions({.files = flags.files, .tokens = 100000, .prompts = 7}, tokens); }) ==
        at(files / "a.txt", {"texts of at least 100000 tokens"}));
}
