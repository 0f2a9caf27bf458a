// SPDX-License-Identifier: MIT
// Runs engines that use the C library, and compares them with `lazyprune run`, on 5 of the bundled prompts (20 in full mode). The engine
// and the program must keep the same tokens, whether the prompt is read at once, in chunks, or from a fork.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include <nlohmann/json.hpp>

#include <lazyprune/eval/trace_compare.hpp>
#include <lazyprune/files/trace_file.hpp>
#include "programs/program.hpp"
#include "test_data.hpp"

namespace engines {

using json = nlohmann::json;

/// Returns how many tokens of each prompt are read. The engines read only the end of each prompt, because whole prompts take minutes.
/// $LAZYPRUNE_TEST_PROMPT_TOKENS overrides this number.
inline std::size_t prompt_tokens() {
  const char* given = std::getenv("LAZYPRUNE_TEST_PROMPT_TOKENS");
  return given ? std::stoul(given) : 120;
}

/// Returns one prompt (four in full mode) of each of five tasks. Each prompt is its token ids with commas between them.
inline std::vector<std::string> prompts_as_ids() {
  std::string requests;
  for (const char* task : {"single_doc_qa", "multi_doc_qa", "passage_retrieval", "few_shot", "code_completion"}) {
    const auto lines = lines_of(file_text(prompts(task)));
    for (std::size_t i = 0; i < 4 / one_in(4u); ++i) {
      const json record = json::parse(lines.at(7 * i));
      requests += json{{"text", record.at("context").get<std::string>() + " " + record.at("input").get<std::string>()}}.dump() + "\n";
    }
  }
  const auto result = lazyprune_program({"tokenize", "--jsonl", "-"}, requests);
  REQUIRE(result.code == 0);
  std::vector<std::string> all;
  for (const std::string& line : lines_of(result.out)) {
    auto ids = json::parse(line).at("ids").get<std::vector<unsigned>>();
    if (ids.size() > prompt_tokens()) ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(prompt_tokens()));
    std::string text;
    for (const unsigned id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
    all.push_back(text);
  }
  REQUIRE(all.size() == 20 / one_in(4u));
  return all;
}

/// How an engine reads the prompt, as arguments of its command line.
using way = std::vector<std::string>;
inline const std::array<way, 4> ways{way{}, way{"chunk", "37"}, way{"fork", "90"}, way{"chunk", "23", "fork", "61"}};
inline constexpr const char* tokens = "4";

/// Writes the token ids as the engines read them, separated by spaces.
inline void write_ids(const std::string& file, std::string ids) {
  std::ranges::replace(ids, ',', ' ');
  write_file(file, ids);
}

struct engine_run {
  std::string policy;
  const std::string& ids_file;
  const way& read;
  bool fused;
};

inline void compare_with(const std::vector<lazyprune::step_trace>& expected, const engine_run& run, const program_result& result,
                         const std::string& file) {
  INFO(result.err);
  CAPTURE(run.policy);
  REQUIRE(result.code == 0);
  write_file(file, result.out);
  const auto comparison = lazyprune::compare_traces(lazyprune::read_trace(file), expected);
  INFO(comparison.text());
  CHECK(comparison.alike);
}

/// Compares an engine with the program, on every prompt and with every policy. `ways_of(prompt, policy)` returns the ways in which the
/// engine reads this prompt; both arguments are indices. `engine(run)` runs the engine once.
template <class Engine, class Ways>
void same_kept_sets(const std::vector<std::string>& policies, const Engine& engine, const Ways& ways_of) {
  const temporary_folder files;
  std::size_t revived = 0, prompt = 0;
  for (const std::string& ids : prompts_as_ids()) {
    write_ids(files / "ids", ids);
    CAPTURE(prompt);
    for (std::size_t p = 0; p < policies.size(); ++p) {
      std::vector<std::string> arguments{"run",          "--ids",     ids,         "-n",      tokens,
                                         "--ignore-eos", "--backend", "reference", "--trace", files / "expected.jsonl"};
      std::istringstream flags(policies[p].substr(policies[p].find(' ') + 1));
      for (std::string flag; flags >> flag;) arguments.push_back(flag);
      REQUIRE(lazyprune_program(arguments).code == 0);
      const auto expected = lazyprune::read_trace(files / "expected.jsonl");
      for (const auto& step : expected)
        for (const auto& layer : step.layers) revived += layer.revived.size();
      for (const way& read : ways_of(prompt, p)) {
        const engine_run run{policies[p], files / "ids", read, false};
        compare_with(expected, run, engine(run), files / "found.jsonl");
      }
    }
    ++prompt;
  }
  CHECK(revived > 20);
}

inline const std::string pruned = "custom --stages 2:0.5,4:0.3", dense = "custom --policy dense";

}  // namespace engines
