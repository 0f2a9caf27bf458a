// SPDX-License-Identifier: MIT
#include <lazyprune/eval/calibration_prompts.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace lazyprune;

TEST_CASE("sentences end at a full stop, question mark or exclamation mark with a space after it") {
  CHECK(sentences_of("One. Two is\n longer!  Three? 3.14 is a number") ==
        std::vector<std::string>{"One.", "Two is longer!", "Three?", "3.14 is a number"});
  CHECK(sentences_of(" \n ").empty());
}

TEST_CASE("a sentence begins after the end of another one, after a line break, or with the text") {
  const std::string text = "One is 3.5. Two?\nThree is here! " + std::string(400, 'x');
  CHECK(beginning_of_sentence(text, 0) == 0);
  CHECK(beginning_of_sentence(text, 7) == 0);
  CHECK(beginning_of_sentence(text, 9) == 0);
  CHECK(beginning_of_sentence(text, 12) == 12);
  CHECK(beginning_of_sentence(text, 14) == 12);
  CHECK(beginning_of_sentence(text, 20) == 17);
  CHECK(beginning_of_sentence(text, 100) == 32);
  CHECK(beginning_of_sentence(text, 400) == 240);
}

namespace {

const std::string passage =
    "Short one. The second sentence has more than six words in it. Another sentence also has enough words for this.";

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("each second prompt repeats the first six words of one of its sentences") {
  const std::vector<look_up_prompt> prompts = look_up_prompts(std::vector<std::string>(40, passage), 3);
  REQUIRE(prompts.size() == 40);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    CAPTURE(prompts[i].text);
    CHECK(prompts[i].asks == (i % 2 == 0));
    if (prompts[i].asks) continue;
    REQUIRE(prompts[i].text.starts_with(passage + "\n\n"));
    const std::string words = prompts[i].text.substr(passage.size() + 2);
    CHECK((words == "The second sentence has more than" || words == "Another sentence also has enough words"));
    CHECK((prompts[i].answers == std::vector<std::string>{"six words in it. Another sentence also has", "enough words for this."} ||
           prompts[i].answers == std::vector<std::string>{"for this."}));
  }
  CHECK(look_up_prompts({passage}, 3)[0].text == prompts[0].text);
  CHECK(look_up_prompts({passage}, 4)[0].text != prompts[0].text);
}

TEST_CASE("the other prompts ask for made-up values; each value stands once in the prompt, in the sentence about what is asked for") {
  std::size_t whole = 0, several = 0, longest = 0;
  for (const look_up_prompt& made : look_up_prompts(std::vector<std::string>(400, passage))) {
    if (!made.asks) continue;
    CAPTURE(made.text);
    CHECK(made.text.find('{') == std::string::npos);
    CHECK(made.text.find('?') != std::string::npos);
    REQUIRE(made.answers.size() >= 1);
    const std::vector<std::string> sentences = sentences_of(made.text);
    const std::string question = made.text.substr(made.text.rfind("\n\n"));
    const bool wants_several = times(question, "?") > 1 || times(question, "Name all of them.") == 1;
    CHECK((made.answers.size() > 1) == wants_several);
    for (const std::string& answer : made.answers) {
      CHECK(times(made.text, answer) == 1);
      longest = std::max(longest, answer.size());
      std::string fact;
      for (const std::string& s : sentences)
        if (times(s, answer) == 1) fact = std::string(s).replace(s.find(answer), answer.size(), "");
      CHECK(std::ranges::any_of(std::vector<std::string>{"hort", "econd", "entence", "ords", "nother", "nough"},
                                [&](const std::string& word) { return times(fact, word) > 0 && times(question, word) > 0; }));
    }
    several += made.answers.size() > 1;
    whole += std::ranges::all_of(sentences_of(passage), [&](const std::string& s) { return times(made.text, s) == 1; });
  }
  CHECK(whole > 100);
  CHECK(whole < 180);  // of 200: a quarter repeats one to five sentences
  CHECK(several > 40);
  CHECK(several < 120);
  CHECK(longest > 30);
}

TEST_CASE("a quote asks for the next 24 words of the text, in parts of eight words") {
  const std::vector<look_up_prompt> prompts =
      look_up_prompts({"a.", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32"});
  REQUIRE(prompts.size() == 2);
  CHECK(prompts[1].answers == std::vector<std::string>{"7 8 9 10 11 12 13 14", "15 16 17 18 19 20 21 22", "23 24 25 26 27 28 29 30"});
}

TEST_CASE("passages without sentences make no prompt, and short sentences make no quote") {
  CHECK(look_up_prompts({"", " "}).empty());
  const std::vector<look_up_prompt> prompts = look_up_prompts({"12.", "12."});
  REQUIRE(prompts.size() == 2);
  CHECK(prompts[1].text == "12.\n\n");
  CHECK(prompts[1].answers.empty());
}
