// SPDX-License-Identifier: MIT
// Tests that each wrong argument gives one clear line on stderr and exit code 1.
#include "programs/program.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include <lazyprune/version.hpp>

namespace {

/// The error message of `run -p x` with these arguments added.
complaint_line fault(std::vector<std::string> more) {
  more.insert(more.begin(), {"run", "-p", "x", "-n", "1", "-t", "1"});
  return complaint(lazyprune_program(more));
}

}  // namespace

TEST_CASE("help and version go to stdout, with exit code 0") {
  const program_result version = lazyprune_program({"--version"});
  CHECK(version.code == 0);
  CHECK(version.out == "lazyprune " LAZYPRUNE_VERSION_STRING "\n");
  CHECK(version.err.empty());
  const program_result shown = lazyprune_program({"inspect", "-h"});
  CHECK(shown.code == 0);
  CHECK(shown.out.find("Usage: lazyprune inspect ") != std::string::npos);
  CHECK(shown.err.empty());
}

TEST_CASE("every flag of the commands in README and guides exists") {
  std::size_t flags = 0;
  for (const char* guide : {"README.md", "examples/lazyprune/README.md", "examples/EMBEDDING.md", "examples/POLICIES.md",
                            "examples/VALIDATING.md", "bench/README.md", "bench/smollm2/README.md"}) {
    bool shell = false;
    for (const std::string& line : lines_of(file_text(LAZYPRUNE_SOURCE_DIR "/" + std::string(guide)))) {
      if (line.starts_with("```")) shell = line == "```sh";
      std::istringstream words(line.substr(0, line.find(" #")));
      std::string program, command;
      if (!shell || !(words >> program >> command)) continue;
      const bool ours = program == "lazyprune" || program == "build/examples/lazyprune";
      if (!ours && program != "build/examples/custom_program") continue;
      CAPTURE(line);
      const program_result help =
          running_program({command, "--help-all"}, "", {}, ours ? LAZYPRUNE_PROGRAM : LAZYPRUNE_CUSTOM_PROGRAM).wait();
      REQUIRE(help.code == 0);
      std::string listed = help.out;
      for (const char separator : {',', '\n'}) std::ranges::replace(listed, separator, ' ');
      for (std::string word; words >> word;) {
        if (!word.starts_with("-") || word.find_first_not_of('-') == word.npos) continue;
        CAPTURE(word);
        CHECK(listed.find(" " + word + " ") != std::string::npos);
        ++flags;
      }
    }
  }
  CHECK(flags > 40);
}

TEST_CASE("unknown commands and flags are refused") {
  CHECK(complaint(lazyprune_program({})) ==
        complaint_at("arguments",
                     {"run, chat, compare, bench, eval, calibrate, fidelity, sweep, merge, search, inspect, tokenize, serve, help"}));
  CHECK(complaint(lazyprune_program({"ruin"})) == complaint_at("arguments", {"`lazyprune --help`", ", found ruin; did you mean run?"}));
  CHECK(complaint(lazyprune_program({"run", "--promt", "x"})) ==
        complaint_at("arguments", {"`lazyprune run --help-all`", ", found --promt; did you mean --prompt?"}));
  CHECK(complaint(lazyprune_program({"run", "-p"})) == complaint_at("arguments", {"`lazyprune run --help-all`"}));
  CHECK(complaint(lazyprune_program({"compare", "a.jsonl"})) == complaint_at("compare", {"B.jsonl or --against"}));
  CHECK(fault({"-n", "2"}) == complaint_at("arguments", {"`lazyprune run --help-all`"}));
  CHECK(fault({"two\nlines"}) == complaint_at("arguments", {"`lazyprune run --help-all`", ", found two\\x0alines"}));
}

TEST_CASE("for a mistyped flag or command the error suggests the nearest one, if one is near") {
  const auto sentence = [](std::vector<std::string> arguments) { return complaint(lazyprune_program(arguments)).sentence; };
  for (const auto& [typed, meant] : {std::pair("--stges", "--stages"), {"--thread", "--threads"}, {"--n-predcit=3", "--n-predict"}})
    CHECK(sentence({"run", typed}).ends_with("found " + std::string(typed) + "; did you mean " + meant + "?"));
  CHECK(sentence({"serach"}).ends_with("; did you mean search?"));
  CHECK(sentence({"help", "tokenise"}).ends_with("; did you mean tokenize?"));
  CHECK(sentence({"help", "prunin"}).ends_with("; did you mean pruning?"));
  for (const std::vector<std::string>& strange :
       {std::vector<std::string>{"run", "--n-gpu-layers"}, {"run", "-q"}, {"run", "x"}, {"quantize"}})
    CHECK(sentence(strange).ends_with("found " + strange.back()));
}

TEST_CASE("for a flag that became a command, the error names the command") {
  const auto old = [](std::vector<std::string> arguments) { return complaint(lazyprune_program(arguments)); };
  CHECK(old({"eval", "--fidelity", "-f", "text"}) == complaint_at("--fidelity", {"`lazyprune fidelity`"}));
  CHECK(old({"eval", "-f", "text", "--fidelity"}) == complaint_at("--fidelity", {"`lazyprune fidelity`"}));
  CHECK(old({"sweep", "--search", "-d", "data.jsonl", "--out", "folder", "--tries", "3"}) ==
        complaint_at("--search", {"`lazyprune search`"}));
}

TEST_CASE("a prompt that is missing, empty or given twice is refused") {
  CHECK(complaint(lazyprune_program({"run"})) == complaint_at("prompt", {"-p, -f", "--ids"}));
  CHECK(fault({"--ids", "1"}) == complaint_at("prompt", {"-p, -f", "--ids"}));
  CHECK(complaint(lazyprune_program({"run", "-p", "-", "-f", "-"})) == complaint_at("--prompt", {"stdin"}));
  CHECK(complaint(lazyprune_program({"run", "-p", "", "-n", "1"})) == complaint_at("--prompt"));
  CHECK(complaint(lazyprune_program({"run", "-f", "/dev/null", "-n", "1"})) == complaint_at("/dev/null"));
}

TEST_CASE("wrong numbers are refused") {
  const auto number = [](const char* flag, const char* value) { return complaint(lazyprune_program({"run", "--ids", "1", flag, value})); };
  CHECK(number("-n", "3x") == complaint_at("--predict", {", found 3x"}));
  CHECK(number("-n", "-2") == complaint_at("--predict", {", found -2"}));
  CHECK(number("--repeat-penalty", "0") == complaint_at("--repeat-penalty", {", found 0"}));
  CHECK(number("-n", "") == complaint_at("--predict"));
  CHECK(number("-n", "99999999999999999999") == complaint_at("--predict", {"to 9223372036854775807", ", found 99999999999999999999"}));
  CHECK(complaint(lazyprune_program({"serve", "--port", "99999"})) == complaint_at("--port", {"to 65535", ", found 99999"}));
  CHECK(number("--chunk", "0") == complaint_at("--chunk", {", found 0"}));
  CHECK(number("--chunk", "") == complaint_at("--chunk"));
  CHECK(number("--speculate", "0") == complaint_at("--speculate", {", found 0"}));
  CHECK(number("-c", "1e3") == complaint_at("--ctx-size", {", found 1e3"}));
  CHECK(number("-c", "4097") == complaint_at("--ctx-size", {"4096", ", found 4097"}));
  CHECK(number("-t", "0") == complaint_at("--threads"));  // at least 1, at most 16 per processor
  CHECK(number("-t", "1000000") == complaint_at("--threads", {", found 1000000"}));
  CHECK(number("-s", "-3") == complaint_at("--seed", {", found -3"}));
  CHECK(number("--temp", "-0.1") == complaint_at("--temp", {", found -0.1"}));
  CHECK(number("--temp", "nan") == complaint_at("--temp", {", found nan"}));
  CHECK(number("--top-k", "1.5") == complaint_at("--top-k", {", found 1.5"}));
  CHECK(number("--top-p", "1.01") == complaint_at("--top-p", {", found 1.01"}));
  CHECK(number("--min-p", "x") == complaint_at("--min-p", {", found x"}));
  CHECK(number("--keep-first", "two") == complaint_at("--keep-first", {", found two"}));
  CHECK(number("--least-tokens", "-1") == complaint_at("--least-tokens", {", found -1"}));
  CHECK(number("--least-tokens", "") == complaint_at("--least-tokens"));
  CHECK(number("--force-ids", "1,,2") == complaint_at("--force-ids"));
  CHECK(number("--force-ids", "") == complaint_at("--force-ids"));
  CHECK(complaint(lazyprune_program({"run", "--ids", "1,5,x"})) == complaint_at("--ids", {", found x"}));
  CHECK(complaint(lazyprune_program({"bench", "-P", "0"})) == complaint_at("--prompts", {"1073741824", ", found 0"}));
  CHECK(complaint(lazyprune_program({"bench", "-P", "18446744073709551615"})) ==
        complaint_at("--prompts", {"1073741824", ", found 18446744073709551615"}));
  CHECK(complaint(lazyprune_program({"bench", "-t", "1,1000000"})) == complaint_at("--threads", {", found 1000000"}));
  CHECK(complaint(lazyprune_program({"bench", "--sequences", "1,0"})) == complaint_at("--sequences", {"65536", ", found 0"}));
  CHECK(complaint(lazyprune_program({"bench", "-r", "0"})) == complaint_at("--repetitions", {"1000000", ", found 0"}));
  CHECK(complaint(lazyprune_program({"compare", "a", "b", "--tolerance", "-1"})) == complaint_at("--tolerance", {", found -1"}));
}

TEST_CASE("wrong positions are refused by every command that takes pruning flags") {
  for (const std::vector<std::string>& command : {std::vector<std::string>{"run", "--ids", "1"},
                                                  {"bench", "--random-weights", "pocket"},
                                                  {"eval", "-d", "/nowhere.jsonl"},
                                                  {"fidelity", "-f", "/nowhere.txt"},
                                                  {"inspect"}}) {
    CAPTURE(command.front());
    const auto keep = [&](const char* value) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {"--keep", value});
      return complaint(lazyprune_program(words));
    };
    CHECK(keep("") == complaint_at("--keep"));
    CHECK(keep("0-63,930-900") == complaint_at("--keep: 0-63,930-900", {"\"930-900\""}));
    CHECK(keep("0-63,") == complaint_at("--keep: 0-63,"));
    CHECK(keep("4294967296") == complaint_at("--keep: 4294967296", {"\"4294967296\""}));
    CHECK(keep("0 - 63") == complaint_at("--keep: 0 - 63", {"\"0 - 63\""}));
  }
}

TEST_CASE("unknown names of backends, types and policies are refused") {
#ifdef LAZYPRUNE_HAVE_CUDA
  CHECK(fault({"--backend", "tpu"}) == complaint_at("--backend", {"cpu, reference or cuda", ", found tpu"}));
#else
  CHECK(fault({"--backend", "tpu"}) == complaint_at("--backend", {"cpu or reference", ", found tpu"}));
  const complaint_at not_there("--backend", {"cpu or reference", ", found cuda", "cmake -DLAZYPRUNE_CUDA=ON"});
  CHECK(fault({"--backend", "cuda"}) == not_there);
  CHECK(complaint(lazyprune_program({"bench", "--backend", "cuda", "-P", "8"})) == not_there);
  CHECK(complaint(lazyprune_program({"eval", "--backend", "cuda", "-d", prompts("profile")})) == not_there);
#endif
  CHECK(fault({"--dtype", "f64"}) == complaint_at("--dtype", {"auto, f32 or bf16", ", found f64"}));
  CHECK(fault({"--backend", "reference", "--dtype", "bf16"}) == complaint_at("--dtype", {"auto, f64 or f32", ", found bf16"}));
  CHECK(fault({"--kv", "q4_0"}) == complaint_at("--kv", {"auto, f32, bf16, f16 or q8_0 with the cpu backend", ", found q4_0"}));
  CHECK(fault({"--backend", "reference", "--kv", "f32"}) ==
        complaint_at("--kv", {"auto, which computes keys and values in the type of --dtype, with the reference backend", ", found f32"}));
  CHECK(fault({"--policy", "lasso"}) ==
        complaint_at("--policy",
                     {"lazyllm, lazyllm_blocks, static, random, streaming, fastv, pyramid_drop, tova, pyramid_kv, prompt_distill, dense",
                      ", found lasso"}));
  CHECK(fault({"--scorer", "window_attention:windw=3"}) ==
        complaint_at("--scorer: window_attention:windw=3", {"window, kernel, pool", ", found windw"}));
  CHECK(fault({"--stages", "6:0.5"})
            .ends_with("the model has 6; only the scorers given_scores, random and recency can prune before the first layer), found 6"));
  CHECK(fault({"--stages", "0:0.5"}) == complaint_at("--stages: 0:0.5", {"1 to 5", ", found 0"}));
  CHECK(fault({"--stages", "3:1.5"}) == complaint_at("stages: stage 1"));
  CHECK(complaint(lazyprune_program({"bench", "--random-weights", "gpt"})) == complaint_at("--random-weights", {"tinyllama-1.1b, "}));
  CHECK(complaint(lazyprune_program({"bench", "--random-weights", "pocket", "--pruning-file", "/nowhere.json"})) ==
        complaint_at("--pruning-file", {"--pruning-file or --random-weights"}));
  CHECK(complaint(lazyprune_program({"compare", "a.jsonl", "b.jsonl", "--pruning-file", "/nowhere.json"})) ==
        complaint_at("compare", {"--against"}));
  CHECK(complaint(lazyprune_program({"bench", "-m", "x", "--random-weights", "pocket"})) ==
        complaint_at("--random-weights", {"-m or --random-weights"}));
  CHECK(complaint(lazyprune_program({"bench", "-o", "xml"})) == complaint_at("--output", {"md, json or csv", ", found xml"}));
}

TEST_CASE("flags of a chat template are refused where no template is used") {
  const std::vector<std::vector<std::string>> flags{{"--chat-template-file", "/nowhere.jinja"}, {"--template-var", "a=1"}};
  const temporary_folder files;
  write_file(files / "text.txt", "the old council");
  for (const std::vector<std::string>& flag : flags) {
    for (const std::vector<std::string>& command : {std::vector<std::string>{"tokenize", "-p", "x"}, {"tokenize", "--ids", "1"}})
      CHECK(complaint(lazyprune_program(joined(command, flag))) == complaint_at(flag[0], {"--messages"}));
    for (const std::vector<std::string>& command : {std::vector<std::string>{"eval"},
                                                    {"eval", "--chat", "llama2"},
                                                    {"sweep", "--out", files / "out"},
                                                    {"search", "--out", files / "out"},
                                                    {"calibrate", "--out", files / "out"}})
      CHECK(complaint(lazyprune_program(joined(joined(command, {"-d", prompts("few_shot")}), flag))) ==
            complaint_at(flag[0], {"--chat template"}));
  }
  // Without samples, the questions are put into the model's template, which the bundled model has not.
  CHECK(complaint(lazyprune_program({"search", "--out", files / "out", "-f", prompts("few_shot"), "--template-var", "a=1"})) ==
        complaint_at("--template-var", {"--chat template"}));
}

TEST_CASE("token ids outside the vocabulary, and prompts that are too long or empty, are refused") {
  CHECK(complaint(lazyprune_program({"run", "--ids", "1,2304"})) == complaint_at("--ids", {"2304", ", found 2304"}));
  CHECK(fault({"--force-ids", "2304"}) == complaint_at("--force-ids", {"2304", ", found 2304"}));
  CHECK(complaint(lazyprune_program({"run", "--ids", "1,2,3", "-c", "2"})) == complaint_at("prompt", {"most 2", ", found 3"}));
  std::string long_prompt = "1";
  for (int i = 0; i < 4096; ++i) long_prompt += ",1";
  CHECK(complaint(lazyprune_program({"run", "--ids", long_prompt})) == complaint_at("prompt", {"4096", ", found 4097"}));
  CHECK(complaint(lazyprune_program({"run", "--ids", "1,2,3", "-c", "4", "--force-ids", "5,6,7"})) ==
        complaint_at("forced tokens: length", {"most 4", ", found 5"}));
  CHECK(complaint(lazyprune_program({"bench", "-P", "4096", "-n", "1"})) == complaint_at("--prompts", {"-n", "4096", ", found 4097"}));
}

TEST_CASE("an empty name is refused") {
  for (const std::string flag : {"--model", "--backend", "--dtype", "--policy", "--schedule", "--scorer", "--selector", "--store",
                                 "--decode", "--file", "--trace"}) {
    CAPTURE(flag);
    CHECK(complaint(lazyprune_program({"run", "--ids", "1", "-n", "1", flag, ""})) == complaint_at(flag));
  }
  CHECK(complaint(lazyprune_program({"inspect", "-m", ""})) == complaint_at("--model"));
  CHECK(complaint(lazyprune_program({"bench", "--random-weights", ""})) == complaint_at("--random-weights"));
  CHECK(complaint(lazyprune_program({"bench", "-o", ""})) == complaint_at("--output"));
}

TEST_CASE("wrong flags for traces and stop texts are refused") {
  CHECK(fault({"--stop", "a", "--force-ids", "7"}) == complaint_at("--stop", {"--stop or --force-ids"}));
  CHECK(complaint(lazyprune_program({"run", "-m", "/nowhere", "--ids", "1", "-n", "0", "--trace", "a.jsonl"})) ==
        complaint_at("--trace", {"-n 0"}));
  CHECK(fault({"--trace", "trace.txt"}) == complaint_at("--trace", {", found trace.txt"}));
  CHECK(fault({"--trace", "trace.html", "--trace-logits"}) == complaint_at("--trace-logits", {"--trace", ", found trace.html"}));
  CHECK(fault({"--trace-logits"}) == complaint_at("--trace-logits", {"--trace"}));
  CHECK(fault({"--trace", "/nowhere/at/all.jsonl"}) == complaint_at("/nowhere/at/all.jsonl"));
  CHECK(fault({"--stop", ""}) == complaint_at("--stop"));
  CHECK(complaint(lazyprune_program({"run", "-f", "/nowhere/prompt.txt"})) == complaint_at("/nowhere/prompt.txt"));
}

TEST_CASE("an output that would replace an input is refused, and the input stays") {
  const temporary_folder files;
  const std::string text = "the only copy\n", task = files / "task.jsonl", folder = files / "folder", predictions = "predictions.jsonl";
  std::filesystem::create_directory(folder);
  std::filesystem::create_directory_symlink(folder, files / "link");
  const std::string in_folder = folder + "/" + predictions, comparisons = folder + "/comparisons.jsonl";
  for (const std::string& file : {task, in_folder, comparisons, folder + "/search.jsonl"}) write_file(file, text);
  std::filesystem::create_symlink(task, files / "other.jsonl");
  const auto refused = [&](const std::string& flag, const std::string& input, const std::vector<std::string>& words,
                           const std::string& typed = {}) {
    CAPTURE(words);
    CHECK(complaint(lazyprune_program(words, typed)) == complaint_at(flag, {", found " + input}));
    CHECK(file_text(std::filesystem::is_regular_file(input) ? input : task) == text);
  };
  const std::string other = files / "other.jsonl", none = files / "none";
  refused("--trace", task, {"run", "-f", task, "--trace", task});
  refused("--trace", task, {"run", "-f", task, "--trace", other});
  refused("--trace", task, {"run", "-f", none, "-p", "x", "--chat-template-file", task, "--trace", task});
  refused("--trace", task, {"run", "--messages", task, "--trace", task});
  refused("--trace", task, {"run", "-p", "x", "-m", task, "--trace", task});
  refused("--trace", task, {"run", "-p", "x", "--pruning-file", task, "--trace", task});
  refused("--out", other, {"eval", "-d", none, "-d", other, "--out", task});
  refused("--out", task, {"eval", "-d", task, "--out", task, "--resume"});
  refused("--out", in_folder, {"eval", "-d", in_folder, "--part", "1/2", "--out", files / "link"});
  refused("--out", task, {"calibrate", "-f", none, "-f", task, "--out", task});
  refused("--out", task, {"calibrate", "-d", task, "--out", task});
  refused("--out", comparisons, {"fidelity", "-f", comparisons, "--out", folder});
  refused("--out", in_folder, {"sweep", "-d", in_folder, "--out", folder});
  refused("--out", folder + "/search.jsonl", {"search", "-d", folder + "/search.jsonl", "--out", folder});
  refused("--out", files / "link", {"merge", files / "link", "--out", folder});
  refused("--log", task, {"serve", "--api-key-file", task, "--log", task});
  refused("--log", task, {"serve", "--cache-file", task, "--log", task});
  refused("--cache-file", task, {"serve", "--chat-template-file", task, "--cache-file", task});
}
