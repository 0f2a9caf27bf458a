// SPDX-License-Identifier: MIT
#include "programs/program.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using json = nlohmann::json;

namespace {

/// The prompt of the first sample of a pocket task, with its answer: `prompt_tokens` of them are the prompt.
struct answered_prompt {
  std::string text;
  std::string prompt_tokens;

  explicit answered_prompt(const std::string& task) {
    const std::string all = file_text(prompts(task));
    const json sample = json::parse(all.substr(0, all.find('\n')));
    const auto part = [&](const char* key) { return sample.at(key).get<std::string>(); };
    text = part("context") + ' ' + part("input") + ' ' + sample.at("answers")[0].get<std::string>() + " .";
    prompt_tokens = std::to_string(sample.at("length").get<int>());
  }
};

json fidelity(std::vector<std::string> arguments, const std::string& input = {}) {
  arguments.insert(arguments.begin(), {"eval", "--fidelity", "-o", "json"});
  const program_result result = lazyprune_program(arguments, input);
  REQUIRE_MESSAGE(result.code == 0, result.err);
  return json::parse(result.out);
}

}  // namespace

TEST_CASE("a policy that prunes nothing is the dense model, exactly") {
  const temporary_folder files;
  const answered_prompt prompt("profile");
  write_file(files / "text", prompt.text);
  for (const std::vector<std::string>& policy : {std::vector<std::string>{"--policy", "dense"},
                                                 {"--stages", "3:1"},
                                                 {"--stages", "3:1", "--backend", "reference", "--prefix", "64"}}) {
    std::vector<std::string> arguments{"-f", files / "text", "-n", "12"};
    arguments.insert(arguments.end(), policy.begin(), policy.end());
    const json list = fidelity(arguments);
    REQUIRE(list.size() == 1);
    CHECK(list[0]["text"] == files / "text");
    CHECK(list[0]["steps"] == 12);
    CHECK(list[0]["agreement"] == 1.0);
    CHECK(list[0]["kl"] == 0.0);
    CHECK(list[0]["kl_ci95"] == json::parse("[0.0, 0.0]"));
    CHECK(list[0]["perplexity"] == list[0]["dense_perplexity"]);
    CHECK(list[0]["equal_texts"] == 1.0);
    CHECK(list[0]["parted_at"].is_null());
    CHECK(list[0]["rows"] == 1.0);
  }
}

TEST_CASE("the text's own tokens are asked for: an answer that the model knows, and that a hard policy loses") {
  const answered_prompt prompt("profile");
  const json list = fidelity({"-f", "-", "--prefix", prompt.prompt_tokens, "--stages", "1:0.05"}, prompt.text);
  CHECK(list[0]["text"] == "stdin");
  CHECK(list[0]["prompt_tokens"] == std::stoi(prompt.prompt_tokens));
  CHECK(list[0]["dense_perplexity"].get<double>() < 1.1);
  CHECK(list[0]["perplexity"].get<double>() > 1.5);
  CHECK(list[0]["kl"].get<double>() > 0.5);
  CHECK(list[0]["agreement"].get<double>() < 1.0);
  CHECK(list[0]["parted_at"].is_number());
  CHECK(list[0]["rows"].get<double>() == doctest::Approx((1 + 5 * 0.05) / 6).epsilon(0.01));  // whole tokens
  CHECK(list[0]["speedup_ttft"].get<double>() > 0);
}

TEST_CASE("several texts, and all of them; what exceeds the context is left out") {
  const temporary_folder files;
  write_file(files / "a", answered_prompt("profile").text);
  write_file(files / "b", answered_prompt("few_shot").text);
  const json list = fidelity({"-f", files / "a", files / "b", "-c", "200", "--prefix", "0.75"});
  REQUIRE(list.size() == 3);
  for (const std::size_t i : {0u, 1u}) {
    CHECK(list[i]["prompt_tokens"] == 150);
    CHECK(list[i]["steps"] == 50);
  }
  CHECK(list[2]["text"] == "all");
  CHECK(list[2]["texts"] == 2);
  CHECK(list[2]["steps"] == 100);
  CHECK(list[2]["kl"].get<double>() == doctest::Approx((list[0]["kl"].get<double>() + list[1]["kl"].get<double>()) / 2).epsilon(1e-9));
  CHECK(lazyprune_program({"eval", "--fidelity", "-f", files / "a", "-c", "100"}).out.starts_with("| text"));
  CHECK(lazyprune_program({"eval", "--fidelity", "-f", files / "a", "-c", "100", "-o", "csv"}).out.starts_with("text,policy,"));
}

TEST_CASE("a command of its own, which eval --fidelity spells otherwise") {
  const temporary_folder files;
  write_file(files / "a", answered_prompt("profile").text);
  const auto without_times = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"-f", files / "a", "-c", "120", "-n", "8", "--prefix", "100", "--stages", "2:0.3", "-o", "json"});
    const program_result result = lazyprune_program(arguments);
    REQUIRE_MESSAGE(result.code == 0, result.err);
    json list = json::parse(result.out);
    for (const char* time : {"ttft_s", "dense_ttft_s", "speedup_ttft"}) list[0].erase(time);
    return list;
  };
  CHECK(without_times({"fidelity"}) == without_times({"eval", "--fidelity"}));
  CHECK(complaint(lazyprune_program({"fidelity"})) == "fidelity: expected texts, by -f FILE, found none");
  CHECK(complaint(lazyprune_program({"fidelity", "-f", files / "a", "-d", "x"})) ==
        "arguments: expected what `lazyprune fidelity --help` shows, found -d");
}

TEST_CASE("what makes no sense") {
  const temporary_folder files;
  const auto fault = [](std::vector<std::string> arguments, const std::string& input = "the the the") {
    arguments.insert(arguments.begin(), "eval");
    return complaint(lazyprune_program(arguments, input));
  };
  CHECK(fault({"--fidelity"}) == "--fidelity: expected texts, by -f FILE, found none");
  CHECK(fault({"-f", "-"}) == "--file: expected --fidelity with it, found none");
  CHECK(fault({"--fidelity", "-f", "-", "-d", "x"}) ==
        "--data: expected a run without --fidelity, which takes texts and no tasks, found --fidelity");
  CHECK(fault({"--fidelity", "-f", "-", "--prefix", "1.5"}) ==
        "--prefix: expected a share between 0 and 1 or a number of tokens, found 1.5");
  CHECK(fault({"--fidelity", "-f", "-", "--prefix", "0"}) == "--prefix: expected a share between 0 and 1 or a number of tokens, found 0");
  CHECK(fault({"--fidelity", "-f", "-", "--prefix", "99"}).starts_with("stdin: expected more tokens than the 99 of --prefix, found "));
  CHECK(fault({"--fidelity", "-f", "-"}, "") == "stdin: expected at least 2 tokens, found 1");  // BOS
  CHECK(fault({"--fidelity", "-f", files / "none"}).starts_with(files / "none"));
  CHECK(fault({"--fidelity", "-f", "-", "-c", "99999"}).starts_with("--ctx-size: expected at most the model's "));
  CHECK(fault({"--fidelity", "-f", "-", "-o", "xml"}) == "--output: expected md, json or csv, found xml");
}
