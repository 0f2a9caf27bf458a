// SPDX-License-Identifier: MIT
#include <program.hpp>  // the program's own; tests/programs has a file of this name, too

#include <new>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <lazyprune/registry/policy_registry.hpp>

#include "programs/program.hpp"

namespace {

/// Returns what a process does that calls run_program with this function.
program_result of_process(lazyprune::policy_registry (*policies)()) {
  const temporary_folder files;
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open((files / "err").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    char name[] = "lazyprune", *arguments[] = {name, nullptr};
    ::_exit(lazyprune::program::run_program(1, arguments, policies));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), "", file_text(files / "err")};
}

lazyprune::policy_registry without_memory() { throw std::bad_alloc(); }
lazyprune::policy_registry in_a_function_that_may_not_throw() noexcept { return without_memory(); }

/// Runs examples/custom_program.cpp. Its main registers policies of every kind (examples/my_policies.hpp).
program_result custom(std::vector<std::string> arguments) {
  return running_program(std::move(arguments), "", {}, LAZYPRUNE_CUSTOM_PROGRAM).wait();
}

}  // namespace

TEST_CASE("if memory runs out, the program says so in one line, also in a function that may not throw") {
  for (lazyprune::policy_registry (*const policies)() :
       {without_memory, static_cast<lazyprune::policy_registry (*)()>(in_a_function_that_may_not_throw)}) {
    const program_result result = of_process(policies);
    CHECK(complaint(result) == complaint_at("memory", {}, 3));
  }
}

TEST_CASE("a custom program knows its own scorer: help lists it, flags choose it, and it decides which tokens are kept") {
  const std::string help = custom({"help", "pruning"}).out;
  for (const char* listed : {"\n  mine ", " loud_neighbours:carry=", " rare_ids",
                             " halve_every:n=,least=", " above_mean:share=", " latest:rows=", " anchored:n="})
    CHECK_MESSAGE(help.find(listed) != std::string::npos, listed);
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
  const auto [text, trace] = with("loud_neighbours:carry=0.9");
  CHECK(text.find("--scorer loud_neighbours:carry=0.9 ") != std::string::npos);
  CHECK(trace != with("loud_neighbours:carry=0").second);
  // With carry=0 the scorer carries no scores over, and equals a scorer of the library.
  CHECK(with("loud_neighbours:carry=0").second == with("last_query_attention:over=max").second);
}

TEST_CASE("a custom program knows its own preset, schedule, selector and store") {
  const auto text_of = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"run", "-p", "the old council arrived after the harvest .", "-n", "1", "--json"});
    const program_result result = custom(flags);
    REQUIRE_MESSAGE(result.code == 0, result.err);
    return nlohmann::json::parse(result.out)["policy"]["text"].get<std::string>();
  };
  CHECK(text_of({"--policy", "mine"}) ==
        "--schedule halve_every:n=2,least=16 --scorer loud_neighbours:carry=0.5 --selector anchored:n=32 --store latest:rows=4096 "
        "--keep-first 0 --keep-last 0 --decode same");
  CHECK(text_of({"--stages", "2:0.5", "--scorer", "rare_ids", "--selector", "above_mean:share=2"}).find("--selector above_mean:share=2 ") !=
        std::string::npos);
}

TEST_CASE("a custom program reports mistakes in its own flags; the library's program does not know the custom scorer") {
  const std::vector<std::string> run{"run", "--ids", "1,2", "-n", "1", "--scorer"};
  const auto with = [&](const std::string& scorer) {
    std::vector<std::string> arguments = run;
    arguments.push_back(scorer);
    return arguments;
  };
  CHECK(complaint(custom(with("loud_neighbours:carries=1"))) == complaint_at("--scorer: loud_neighbours:carries=1", {", found carries"}));
  CHECK(complaint(lazyprune_program(with("loud_neighbours"))) ==
        complaint_at("--scorer", {"last_query_attention, ", ", found loud_neighbours"}));
  CHECK(complaint(custom(with("quiet"))) == complaint_at("--scorer", {", loud_neighbours, rare_ids", ", found quiet"}));
}
