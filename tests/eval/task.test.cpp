// SPDX-License-Identifier: MIT
#include <lazyprune/eval/task.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

namespace {

constexpr eval_task plain{.name = "t", .group = "g", .prompt = "[{context}|{input}{input}]", .max_new = 1, .metric = eval_metric::qa_f1};

eval_prediction predicted_text(std::string text, std::vector<std::string> answers) {
  return {.text = std::move(text), .answers = std::move(answers), .all_classes = {}, .length = {}, .id = "", .cost = {}};
}

}  // namespace

TEST_CASE("the sample fills the places in a prompt; text in the sample that looks like a place stays") {
  const eval_sample sample{.id = "",
                           .input = "I{context}",
                           .context = "C{input}{",
                           .answers = {},
                           .all_classes = {},
                           .length = {},
                           .dataset = "",
                           .language = ""};
  CHECK(prompt_of(plain, sample) == "[C{input}{|I{context}I{context}]");
  CHECK(prompt_parts_of(plain, sample) == prompt_parts{"[", "C{input}{", "|I{context}I{context}]"});
  eval_task undivided = plain;
  undivided.prompt = "{input}!";
  CHECK(prompt_parts_of(undivided, sample) == prompt_parts{"", "I{context}!", ""});
  CHECK(prompt_of(undivided, sample) == "I{context}!");
}

TEST_CASE("an answer ends at its stop text") {
  eval_task task = plain;
  CHECK(answer_in(task, "a . b\n") == "a . b\n");
  task.stop = " .";
  CHECK(answer_in(task, "a , b . c .") == "a , b");
  CHECK(answer_in(task, " .") == "");
  CHECK(answer_in(task, "a.") == "a.");
  task.stop = "\n";
  CHECK(answer_in(task, "\n\nsummary\nDialogue") == "\n\nsummary");
  CHECK(answer_in(task, "\n\n") == "\n\n");
}

TEST_CASE("for some tasks only the first line counts") {
  eval_task task = plain;
  const eval_prediction p = predicted_text("\n\nred car\nblue", {"red"});
  CHECK(score_of(task, p) == doctest::Approx(2 * (1.0 / 3) / (1.0 / 3 + 1)).epsilon(1e-15));
  task.first_line = true;
  CHECK(score_of(task, p) == doctest::Approx(2.0 / 3).epsilon(1e-15));
  CHECK(score_of(task, predicted_text("\n\n", {"red"})) == 0.0);
}

TEST_CASE("the best answer counts; without answers the score is 0") {
  CHECK(score_of(plain, predicted_text("red", {"blue", "red", "red car"})) == 1.0);
  CHECK(score_of(plain, predicted_text("red", {})) == 0.0);
}

TEST_CASE("the classes come from the prediction") {
  eval_task task = plain;
  task.metric = eval_metric::classification;
  eval_prediction p = predicted_text("red, blue", {"red"});
  CHECK_THROWS_AS(score_of(task, p), error);
  p.all_classes = {"red", "blue"};
  CHECK(score_of(task, p) == 0.5);
}
