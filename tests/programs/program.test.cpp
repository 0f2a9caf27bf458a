// SPDX-License-Identifier: MIT
#include "program.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "programs/program.hpp"

namespace {

/// examples/custom_program.cpp, whose main registers a scorer.
program_result custom(std::vector<std::string> arguments) {
  return running_program(std::move(arguments), "", {}, LAZYPRUNE_CUSTOM_PROGRAM).wait();
}

}  // namespace

TEST_CASE("a program of one's own knows one's own scorer: help lists it, flags choose it, and it decides what is kept") {
  CHECK(custom({"run", "--help"}).out.find("loudest_head:from=") != std::string::npos);
  const std::vector<std::string> flags{
      "run", "-f", LAZYPRUNE_SOURCE_DIR "/examples/pocket/prompts/profile.txt", "-n", "2", "-t", "1", "--json", "--stages", "2:0.4"};
  const auto with = [&](const std::string& scorer) {
    std::vector<std::string> arguments = flags;
    arguments.insert(arguments.end(), {"--scorer", scorer, "--trace"});
    const temporary_folder files;
    arguments.push_back(files / "t.jsonl");
    const program_result result = custom(arguments);
    REQUIRE_MESSAGE(result.code == 0, result.err);
    const auto json = nlohmann::json::parse(result.out);
    return std::pair(json["policy"]["text"].get<std::string>(), file_text(files / "t.jsonl"));
  };
  const auto [text, trace] = with("loudest_head:from=2");
  CHECK(text.find("--scorer loudest_head:from=2 ") != std::string::npos);
  CHECK(trace != with("loudest_head:from=0").second);
  // From the first head on it is a scorer of the library.
  CHECK(with("loudest_head:from=0").second == with("last_query_attention:over=max").second);
}

TEST_CASE("what it says of mistakes; the program of the library knows no such scorer") {
  const std::vector<std::string> run{"run", "--ids", "1,2", "-n", "1", "--scorer"};
  const auto with = [&](const std::string& scorer) {
    std::vector<std::string> arguments = run;
    arguments.push_back(scorer);
    return arguments;
  };
  CHECK(complaint(custom(with("loudest_head:form=1"))) == "--scorer: loudest_head:form=1: expected one of from, found form");
  const std::string unknown = complaint(lazyprune_program(with("loudest_head")));
  CHECK(unknown.starts_with("--scorer: expected one of last_query_attention, "));
  CHECK(unknown.ends_with(", found loudest_head"));
  CHECK(complaint(custom(with("quiet"))).find(", loudest_head, found quiet") != std::string::npos);
}
