// SPDX-License-Identifier: MIT
#include "programs/program.hpp"

#include <algorithm>
#include <string_view>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using json = nlohmann::json;

namespace {

/// The prompt of the first sample of a pocket task, followed by its answer. The first `prompt_tokens` tokens are the prompt.
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

json json_of(std::vector<std::string> arguments, const std::string& input = {}) {
  arguments.insert(arguments.end(), {"-o", "json"});
  const program_result result = lazyprune_program(arguments, input);
  REQUIRE_MESSAGE(result.code == 0, result.err);
  return json::parse(result.out);
}

json fidelity(std::vector<std::string> arguments, const std::string& input = {}) {
  arguments.insert(arguments.begin(), "fidelity");
  return json_of(arguments, input);
}

/// A line of the table without its times and names.
json numbers(json line) {
  for (const char* key : {"ttft_s", "dense_ttft_s", "speedup_ttft", "text", "method", "budget"}) line.erase(key);
  return line;
}

/// The table's line for this method and text.
json line_of(const json& list, std::string_view method, std::string_view text) {
  for (const json& line : list)
    if (line["method"] == method && line["text"] == text) return line;
  FAIL("no line of " << method << ", " << text);
  return {};
}

/// `count` ids from index `first` on, separated by commas as in --ids.
std::string ids_text(const json& ids, std::size_t first, std::size_t count) {
  std::string text;
  for (std::size_t i = first; i < first + count; ++i) text.append(text.empty() ? "" : ",").append(std::to_string(ids[i].get<int>()));
  return text;
}

/// The JSON of `run --compare` for the first `prompt_tokens` tokens of a text.
json answers_to(const std::string& text, std::size_t prompt_tokens, std::vector<std::string> flags) {
  const json ids = json::parse(lazyprune_program({"tokenize", "-p", text, "--json"}).out)["ids"];
  flags.insert(flags.begin(),
               {"run", "--ids", ids_text(ids, 0, prompt_tokens), "-n", std::to_string(ids.size() - prompt_tokens), "--compare", "--json"});
  return json::parse(lazyprune_program(flags).out);
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
    CHECK(list[0]["method"].is_null());
    CHECK(list[0]["budget"].is_null());
  }
}

TEST_CASE("the text's own tokens are compared: a policy that prunes most tokens loses an answer that the dense model knows") {
  const answered_prompt prompt("profile");
  const json list = fidelity({"-f", "-", "--prefix", prompt.prompt_tokens, "--stages", "1:0.05"}, prompt.text);
  CHECK(list[0]["text"] == "stdin");
  CHECK(list[0]["prompt_tokens"] == std::stoi(prompt.prompt_tokens));
  CHECK(list[0]["dense_perplexity"].get<double>() < 1.1);
  CHECK(list[0]["perplexity"].get<double>() > 1.5);
  CHECK(list[0]["kl"].get<double>() > 0.5);
  CHECK(list[0]["agreement"].get<double>() < 1.0);
  const json said = answers_to(prompt.text, std::stoul(prompt.prompt_tokens), {"--stages", "1:0.05"});
  const std::vector<int> pruned = said["tokens"], dense = said["dense"]["tokens"];
  CHECK(list[0]["parted_at"] == std::ranges::mismatch(pruned, dense).in1 - pruned.begin());
  CHECK(list[0]["rows"].get<double>() == doctest::Approx((1 + 5 * 0.05) / 6).epsilon(0.01));  // the share is rounded to whole tokens
  CHECK(list[0]["speedup_ttft"].get<double>() > 0);
}

TEST_CASE("each text has a line, and all texts together have one; what exceeds the context is left out") {
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
  CHECK(lazyprune_program({"fidelity", "-f", files / "a", "-c", "100"}).out.starts_with("| text"));
  CHECK(lazyprune_program({"fidelity", "-f", files / "a", "-c", "100", "-o", "csv"}).out.starts_with("text,policy,"));
}

TEST_CASE("a text as Windows writes it is the same text") {
  const std::vector<std::string> flags{"-f", "-", "--stages", "3:0.5", "--prefix", "20"};
  std::string text, with_breaks = "\xEF\xBB\xBF";
  for (int i = 0; i < 10; ++i) {
    text += "the lamp is near the river\n";
    with_breaks += "the lamp is near the river\r\n";
  }
  const json one = fidelity(flags, text), other = fidelity(flags, with_breaks);
  REQUIRE(one.size() == 1);
  CHECK(numbers(one[0]) == numbers(other[0]));
}

TEST_CASE("methods at budgets are each compared on every text") {
  const temporary_folder files;
  write_file(files / "a", answered_prompt("profile").text);
  write_file(files / "b", answered_prompt("profile").text);
  const std::vector<std::string> texts{"fidelity", "-f", files / "a", files / "b", "-n", "8", "--prefix", "100"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = texts;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const std::vector<std::string> asked = with({"--methods", "dense,lazyllm@3+5,random,compression,given@1", "--variant",
                                               "whole=--stages 3:1", "--budgets", "0.75", "--keep-first", "2"});
  const json list = json_of(asked);
  REQUIRE(list.size() == 5 * 3);  // two texts and both together, for each setting except dense
  CHECK(list[0]["method"] == "lazyllm@3+5");
  CHECK(list[0]["budget"] == 0.75);
  CHECK(list[2]["text"] == "all");

  for (const char* text : {"a", "b"}) {
    const json whole = line_of(list, "whole", files / text);
    CHECK(whole["budget"] == 1.0);
    CHECK(whole["kl"] == 0.0);
    CHECK(whole["parted_at"].is_null());
    CHECK(line_of(list, "random", files / text)["rows"] == 0.75);
    CHECK(line_of(list, "compression", files / text)["rows"] == 0.75);
    CHECK(line_of(list, "given@1", files / text)["rows"].get<double>() == doctest::Approx(0.75).epsilon(0.01));
  }
  // Random methods draw anew for each text. All other methods give the same numbers for the same text, whichever setting comes first.
  const auto same = [&](const char* method) {
    return numbers(line_of(list, method, files / "a")) == numbers(line_of(list, method, files / "b"));
  };
  CHECK_FALSE(same("random"));
  CHECK(line_of(list, "random", "all")["policy"].get<std::string>().ends_with(" (seed 0 of the first text, then the next ones)"));
  for (const char* method : {"lazyllm@3+5", "compression", "given@1"}) CHECK(same(method));

  // A method gives the same numbers as its flags.
  const json flags = json_of(with({"--stages", "3:0.5811,5:0.5811", "--keep-first", "2"}));
  CHECK(numbers(flags[2]) == numbers(line_of(list, "lazyllm@3+5", "all")));

  const program_result table = lazyprune_program(asked);
  CHECK(table.out.starts_with("| method           | text |"));
  CHECK(lines_of(table.out).size() == 2 + 5);
}

TEST_CASE("--places: each passage is compared like a text of its own, and begins with BOS") {
  const temporary_folder files;
  write_file(files / "a", answered_prompt("profile").text);
  const std::vector<std::string> flags{"--prefix", "60", "-n", "10", "--stages", "2:0.3"};
  const auto compared = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "fidelity");
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return json_of(arguments);
  };
  const json ids = json::parse(lazyprune_program({"tokenize", "-f", files / "a", "--json"}).out)["ids"];
  const std::size_t last = ids.size() - 69, middle = 1 + (last - 1) / 2;
  const json list = compared({"-f", files / "a", "--places", "3"});
  REQUIRE(list.size() == 4);
  CHECK(list[3]["texts"] == 3);
  CHECK(list[3]["steps"] == 30);
  const std::vector<std::size_t> firsts{1, middle, last};
  for (std::size_t line = 0; line < firsts.size(); ++line) {
    const std::size_t first = firsts[line];
    CAPTURE(first);
    CHECK(list[line]["text"] == files / "a" + ": token " + std::to_string(first));
    CHECK(list[line]["prompt_tokens"] == 60);
    const json place = json::parse(lazyprune_program({"tokenize", "--ids", ids_text(ids, first, 69), "--json"}).out);
    write_file(files / "place", place["text"].get<std::string>());
    CHECK(numbers(list[line]) == numbers(compared({"-f", files / "place"})[0]));
  }
  CHECK(numbers(compared({"-f", files / "a", "--places", "1"})[0]) == numbers(list[0]));
}

TEST_CASE("wrong combinations of flags are refused") {
  const temporary_folder files;
  const auto fault = [](std::vector<std::string> arguments, const std::string& input = "the the the") {
    arguments.insert(arguments.begin(), "fidelity");
    return complaint(lazyprune_program(arguments, input));
  };
  CHECK(fault({}) == complaint_at("fidelity", {"-f"}));
  CHECK(fault({"-f", "-", "-d", "x"}) == complaint_at("arguments", {"`lazyprune fidelity --help-all`", ", found -d"}));
  CHECK(fault({"-f", "-", "--prefix", "1.5"}) == complaint_at("--prefix", {", found 1.5"}));
  CHECK(fault({"-f", "-", "--prefix", "0"}) == complaint_at("--prefix", {", found 0"}));
  CHECK(fault({"-f", "-", "--prefix", "99"}) == complaint_at("stdin", {"99 of --prefix"}));
  CHECK(fault({"-f", "-"}, "") == complaint_at("stdin", {", found nothing"}));
  CHECK(fault({"-f", "-"}, std::string("the\0the", 7)) == complaint_at("stdin: byte 3", {"NUL"}));
  CHECK(fault({"-f", files / "none"}) == complaint_at(files / "none"));
  CHECK(fault({"-f", "-", "-c", "99999"}) == complaint_at("--ctx-size"));
  CHECK(fault({"-f", "-", "-o", "xml"}) == complaint_at("--output", {"md, json or csv", ", found xml"}));
  const auto methods = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"fidelity", "-f", "-"});
    return complaint(lazyprune_program(arguments, "the the the"));
  };
  CHECK(methods({"--budgets", "0.5"}) == complaint_at("--budgets", {"--methods or --variant"}));
  CHECK(methods({"--methods", "dense"}) == complaint_at("--methods"));
  CHECK(methods({"--methods", "static@2", "--stages", "3:0.5", "--keep-last", "4"}) ==
        complaint_at("--methods", {"--keep-first and --keep-last", ", found --stages 3:0.5"}));
  CHECK(methods({"--variant", "x=--stages 3:0.5", "--policy", "static"}) ==
        complaint_at("--variant", {"--keep-first and --keep-last", ", found --policy static"}));
  CHECK(methods({"--methods", "lazy"}) == complaint_at("--methods", {"dense, lazyllm"}));
  CHECK(methods({"--places", "2"}) == complaint_at("--prefix", {"--places"}));
  CHECK(methods({"--places", "2", "--prefix", "0.5"}) == complaint_at("--prefix", {"--places", ", found 0.5"}));
  CHECK(methods({"--places", "2", "--prefix", "2", "-n", "2"}) == complaint_at("stdin", {"least 6", "--places 2", ", found 4"}));
  CHECK(methods({"--places", "1", "--prefix", "4", "-n", "1", "-c", "3"}) == complaint_at("stdin: token 1", {"4 of --prefix"}));
}
