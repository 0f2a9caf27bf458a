// SPDX-License-Identifier: MIT
#include "questions/runner.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <lazyprune/policy/scorer/last_query_attention.hpp>
#include <lazyprune/registry/policy_registry.hpp>
#include <lazyprune/registry/shipped_policies.hpp>

#include <files/support.hpp>

using namespace lazyprune;
using namespace lazyprune::program;

namespace {

const std::string bundled = LAZYPRUNE_SOURCE_DIR "/examples/pocket/";

/// A scorer. `made` grows whenever the registry makes this scorer from a text.
struct noted_attention {
  static constexpr std::string_view name = "noted_attention";
  static inline int made = 0;
  void score(const attention_view& attention, std::span<float> out) const { last_query_attention{}.score(attention, out); }
  template <class Visitor>
  void describe(Visitor&) {
    ++made;
  }
};

eval_setting setting_named(const std::string& name, const policy_spec& policy, double prompt_share = 1) {
  return {.method = name, .policy = policy, .prompt_share = prompt_share};
}

const eval_setting dense_setting = setting_named("dense", {.preset = "dense"}), early_setting = setting_named("early", {.stages = "3:0.5"}),
                   late_setting = setting_named("late", {.stages = "5:0.1"}),
                   later_setting = setting_named("late too", {.stages = "5:0.3"}),
                   half_prompt = setting_named("compressed", {.preset = "dense"}, 0.5);

runner few_questions(const policy_registry& policies) {
  return {{.path = bundled + "model"},
          {.threads = 1},
          {.data = {bundled + "prompts/pocket_few_shot.jsonl"}, .task = {}, .predict = 3, .max_length = 200, .limit = 2},
          policies};
}

}  // namespace

TEST_CASE("settings share the prefix that saves the most layers") {
  const policy_registry policies = shipped_policies();
  runner run = few_questions(policies);
  const auto shared = [&](const std::vector<eval_setting>& settings) { return run.share(settings); };
  CHECK(shared({dense_setting, early_setting, late_setting}) == 3);  // a prefix of 3 layers saves 2 * 3 layers, one of 5 saves 5
  CHECK(shared({dense_setting, late_setting}) == 5);
  CHECK(shared({dense_setting, early_setting, late_setting, later_setting}) == 5);  // 2 * 5 layers saved, not 3 * 3
  CHECK(shared({dense_setting, dense_setting}) == 6);
  CHECK(shared({early_setting, half_prompt}) == 0);
  CHECK(shared({dense_setting, early_setting, half_prompt}) == 3);
  CHECK(shared({late_setting}) == 0);
  // A setting without windows can go on from the prefix of one with windows, but not the other way round.
  const policy_spec with_window{
      .preset = "lazyllm", .stages = "1:0.5", .scorer = "prompt_window_attention", .store = "none", .decode = "only"};
  const eval_setting windowed = setting_named("windowed", with_window);
  CHECK(shared({dense_setting, windowed}) == 6);
  CHECK(shared({windowed, late_setting}) == 0);
  CHECK(shared({windowed, windowed, early_setting, late_setting}) == 6);
  CHECK(shared({}) == 0);
}

TEST_CASE("a question's prefix is read once, for the first setting that is not timed; the answers are the same as without a prefix") {
  policy_registry policies = shipped_policies();
  policies.add<noted_attention>();
  const eval_setting noted = setting_named("noted", {.stages = "3:0.5", .scorer = "noted_attention"});
  runner run = few_questions(policies);
  run.load();
  REQUIRE(run.share(std::vector{dense_setting, noted, late_setting}) == 3);
  // Prefixes are read under the policy `noted`. The settings asked here have other scorers, so `made` grows only if a prefix is read.
  const auto beginnings = [&](std::size_t question, const eval_setting& setting, bool timed) {
    const int before = noted_attention::made;
    run.predict({question, setting, setting.method, timed});
    return noted_attention::made - before;
  };
  const int once = beginnings(0, dense_setting, false);
  CHECK(once > 0);
  CHECK(beginnings(0, late_setting, false) == 0);
  CHECK(beginnings(1, late_setting, false) == once);
  CHECK(beginnings(1, dense_setting, false) == 0);
  CHECK(beginnings(0, late_setting, true) == 0);
  CHECK(beginnings(0, half_prompt, false) == 0);
  CHECK(beginnings(0, dense_setting, false) == once);

  for (const eval_setting& setting : {dense_setting, noted, late_setting}) {
    const eval_prediction timed = run.predict({0, setting, "m", true}), shared = run.predict({0, setting, "m", false});
    CHECK(shared.text == timed.text);
    CHECK(shared.cost->rows == timed.cost->rows);
    CHECK(shared.cost->usage == timed.cost->usage);
    CHECK(timed.cost->ttft_s);
    CHECK_FALSE(timed.cost->timed_on.empty());
    CHECK_FALSE(shared.cost->ttft_s);
    CHECK(shared.cost->timed_on.empty());
    CHECK_FALSE(shared.cost->total_s);
  }
  const std::vector<program::ask> asks{
      {1, dense_setting, "a", false}, {1, half_prompt, "b", false}, {1, late_setting, "c", false}, {1, dense_setting, "d", false}};
  const std::vector<eval_prediction> together = run.predict(asks);
  REQUIRE(together.size() == asks.size());
  for (std::size_t i = 0; i < asks.size(); ++i) {
    CAPTURE(i);
    const eval_prediction alone = run.predict({1, asks[i].setting, "m", true});
    CHECK(together[i].cost->method == asks[i].name);
    CHECK(together[i].text == alone.text);
    CHECK(together[i].cost->rows == alone.cost->rows);
    CHECK(together[i].cost->usage == alone.cost->usage);
    CHECK(together[i].cost->share_computed == alone.cost->share_computed);
  }
}

TEST_CASE("share_with_those_to_come keeps each question's prefix, and questions are answered together") {
  policy_registry policies = shipped_policies();
  policies.add<noted_attention>();
  const eval_setting noted = setting_named("noted", {.stages = "3:0.5", .scorer = "noted_attention"});
  runner run = few_questions(policies);
  run.load();
  run.share_with_those_to_come(noted);
  const auto beginnings = [&](const std::vector<program::ask>& asks) {
    const int before = noted_attention::made;
    run.predict(asks);
    return noted_attention::made - before;
  };
  const program::ask first{0, late_setting, "m", false}, second{1, late_setting, "m", false},
      sooner{1, setting_named("sooner", {.stages = "2:0.5"}), "m", false};
  CHECK(run.together(first, second));
  const int two = beginnings({first, second});
  CHECK(two > 0);
  CHECK(beginnings({first, second}) == 0);
  CHECK(beginnings({{0, later_setting, "m", false}, {1, dense_setting, "m", false}}) == 0);
  const std::vector<program::ask> asks{first, sooner, second};  // `sooner` prunes too early to use a prefix
  const std::vector<eval_prediction> together = run.predict(asks);
  for (std::size_t i = 0; i < asks.size(); ++i) {
    CAPTURE(i);
    const eval_prediction alone = run.predict({asks[i].question, asks[i].setting, "m", true});
    CHECK(together[i].text == alone.text);
    CHECK(together[i].cost->rows == alone.cost->rows);
    CHECK(together[i].cost->usage == alone.cost->usage);
  }
  run.share_with_those_to_come(noted);
  CHECK(beginnings({first}) == two / 2);
  CHECK(run.share(std::vector<eval_setting>{}) == 0);
  CHECK_FALSE(beginnings({second}));
  run.share_with_those_to_come(noted, 0);  // 0 bytes: no prefix is kept
  CHECK_FALSE(beginnings({first, second}));
  CHECK(run.predict(first).text == run.predict({0, late_setting, "m", true}).text);
}

namespace {

/// The bundled model with the chat template `words`. `with` asks the model a question and gives it the beginning of the answer.
struct asked_in_words {
  lazyprune_test::temporary_folder folder;
  policy_registry policies = shipped_policies();

  explicit asked_in_words(const std::string& words) {
    for (const char* name : {"config.json", "model.safetensors", "tokenizer.model"})
      std::filesystem::create_symlink(bundled + "model/" + name, folder / name);
    folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
    folder.write("chat_template.jinja", words);
  }

  eval_prediction with(const std::string& answer_prefix) const {
    const auto data =
        folder.write("data.jsonl", R"({"index": 0, "input": "the color of the door is red .", "outputs": ["red"], "answer_prefix": ")" +
                                       answer_prefix + "\"}\n");
    runner run({.path = folder.path().string()}, {.threads = 1},
               {.data = {data.string()}, .task = "niah_single_1", .chat = "template", .predict = 8}, policies);
    run.load();
    return run.predict({0, dense_setting, "m", false});
  }
  bool same(const std::string& one, const std::string& other) const {
    const eval_prediction a = with(one), b = with(other);
    return a.text == b.text && a.cost->prompt_tokens == b.cost->prompt_tokens && a.cost->rows == b.cost->rows;
  }
  std::size_t tokens(const std::string& answer_prefix) const { return with(answer_prefix).cost->prompt_tokens; }
};

}  // namespace

TEST_CASE("if the chat template ends with a line break or a space, the answer's leading spaces are dropped") {
  const std::string words = "{{ bos_token }}{{ messages[0].content }} answer :";
  for (const char* end : {"{{ '\\n' }}", "{{ ' ' }}"}) {
    CAPTURE(end);
    const asked_in_words model(words + end);
    CHECK(model.same("   the door", "the door"));
    CHECK(model.same(" the  door ", "the  door "));  // only the leading spaces are dropped
    CHECK_FALSE(model.same("the  door", "the door"));
    CHECK(model.same("   ", ""));
    CHECK(model.tokens("the door") > model.tokens(""));
  }
  const asked_in_words model(words);
  CHECK_FALSE(model.same("   the door", "the door"));
  CHECK(model.tokens("   the door") > model.tokens(" the door"));
  CHECK(model.tokens("   ") > model.tokens(""));
}
