// SPDX-License-Identifier: MIT
#include <lazyprune/eval/calibration_prompts.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace lazyprune;

TEST_CASE("sentences end at a full stop, question mark or exclamation mark with a space after it") {
  CHECK(sentences_of("One. Two is\n longer!  Three? 3.14 is a number") ==
        std::vector<std::string>{"One.", "Two is longer!", "Three?", "3.14 is a number"});
  CHECK(sentences_of(" \n ").empty());
}

TEST_CASE("each second prompt repeats the first six words of one of its sentences, and the others ask for a fact that they hold") {
  const std::string passage =
      "Short one. The second sentence has more than six words in it. Another sentence also has enough words for this.";
  const std::vector<std::string> passages(40, passage);
  const std::vector<look_up_prompt> prompts = look_up_prompts(passages, 3);
  REQUIRE(prompts.size() == 40);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    CAPTURE(prompts[i].text);
    CHECK(prompts[i].asks == (i % 2 == 0));
    const std::size_t gap = prompts[i].text.find("\n\n");
    REQUIRE(gap != std::string::npos);
    const std::string before = prompts[i].text.substr(0, gap), after = prompts[i].text.substr(gap + 2);
    if (prompts[i].asks) {
      CHECK(before.size() > passage.size());
      CHECK(after.back() == '?');
    } else {
      CHECK(before == passage);
      CHECK((after == "The second sentence has more than" || after == "Another sentence also has enough words"));
    }
    CHECK(prompts[i].text.find('{') == std::string::npos);
    CHECK(before.find(prompts[i].answer) != std::string::npos);
    if (!prompts[i].asks) CHECK((prompts[i].answer == "six words in it." || prompts[i].answer == "for this."));
    if (prompts[i].asks) {
      CHECK(passage.find(prompts[i].answer) == std::string::npos);
      CHECK(before.find(prompts[i].answer) == before.rfind(prompts[i].answer));
      CHECK(std::ranges::count(prompts[i].answer, ' ') <= 1);  // the value alone
    }
  }
  CHECK(look_up_prompts(passages, 3)[0].text == prompts[0].text);
  CHECK(look_up_prompts(passages, 4)[0].text != prompts[0].text);
}

TEST_CASE("a quote asks for the next eight words of its sentence") {
  const std::vector<look_up_prompt> prompts = look_up_prompts({"a.", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"});
  REQUIRE(prompts.size() == 2);
  CHECK(prompts[1].answer == "7 8 9 10 11 12 13 14");
}

TEST_CASE("passages without sentences make no prompt, and short sentences make no quote") {
  CHECK(look_up_prompts({"", " "}).empty());
  const std::vector<look_up_prompt> prompts = look_up_prompts({"12.", "12."});
  REQUIRE(prompts.size() == 2);
  CHECK(prompts[1].text == "12.\n\n");
  CHECK(prompts[1].answer.empty());
}
