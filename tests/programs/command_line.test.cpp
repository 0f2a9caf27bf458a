// SPDX-License-Identifier: MIT
// What is typed wrongly ends in one clear line and exit code 1.
#include "programs/program.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include <lazyprune/version.hpp>

namespace {

/// The complaint about `run -p x` with these arguments too.
std::string fault(std::vector<std::string> more) {
  more.insert(more.begin(), {"run", "-p", "x", "-n", "1", "-t", "1"});
  return complaint(lazyprune_program(more));
}

}  // namespace

TEST_CASE("help and version are no mistakes") {
  const program_result version = lazyprune_program({"--version"});
  CHECK(version.code == 0);
  CHECK(version.out == "lazyprune " LAZYPRUNE_VERSION_STRING "\n");
  CHECK(version.err.empty());
  for (const std::vector<std::string>& help : {std::vector<std::string>{"--help"},
                                               {"run", "--help"},
                                               {"compare", "--help"},
                                               {"bench", "--help"},
                                               {"eval", "--help"},
                                               {"sweep", "--help"},
                                               {"inspect", "-h"}}) {
    const program_result shown = lazyprune_program(help);
    CHECK(shown.code == 0);
    CHECK(shown.out.find("Usage: lazyprune") != std::string::npos);
    CHECK(shown.err.empty());
  }
  CHECK(lazyprune_program({"--help"}).out.find("  lazyprune run -m MODEL.gguf --chat -f long.txt --compare ") != std::string::npos);
  CHECK(lazyprune_program({"run", "--help"}).out.find("-m,--model MODEL ") != std::string::npos);
}

TEST_CASE("the commands that README and guides show have the flags that they are shown with") {
  std::size_t flags = 0;
  for (const char* guide : {"README.md", "examples/EMBEDDING.md", "examples/POLICIES.md", "examples/VALIDATING.md", "bench/README.md",
                            "bench/smollm2/README.md"}) {
    bool shell = false;
    for (const std::string& line : lines_of(file_text(LAZYPRUNE_SOURCE_DIR "/" + std::string(guide)))) {
      if (line.starts_with("```")) shell = line == "```sh";
      std::istringstream words(line.substr(0, line.find(" #")));
      std::string program, command;
      if (!shell || !(words >> program >> command)) continue;
      const bool ours = program == "lazyprune" || program == "build/examples/lazyprune";
      if (!ours && program != "build/examples/custom_program") continue;
      CAPTURE(line);
      const program_result help = running_program({command, "--help"}, "", {}, ours ? LAZYPRUNE_PROGRAM : LAZYPRUNE_CUSTOM_PROGRAM).wait();
      REQUIRE(help.code == 0);
      std::string listed = help.out;
      std::ranges::replace(listed, ',', ' ');
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

TEST_CASE("commands and flags that do not exist") {
  CHECK(complaint(lazyprune_program({})) ==
        "arguments: expected a command: run, compare, bench, eval, fidelity, sweep, search, inspect or tokenize, found none");
  CHECK(complaint(lazyprune_program({"ruin"})) == "arguments: expected what `lazyprune --help` shows, found ruin");
  CHECK(complaint(lazyprune_program({"run", "--promt", "x"})) == "arguments: expected what `lazyprune run --help` shows, found --promt");
  CHECK(complaint(lazyprune_program({"run", "-p"})).starts_with("arguments: expected what `lazyprune run --help` shows, found "));
  CHECK(complaint(lazyprune_program({"compare", "a.jsonl"})) == "compare: expected B.jsonl or --against MODEL, found neither");
  CHECK(fault({"-n", "2"}).starts_with("arguments: expected what `lazyprune run --help` shows, found "));
  CHECK(fault({"two\nlines"}) == "arguments: expected what `lazyprune run --help` shows, found two\\x0alines");
}

TEST_CASE("a flag that became a command names the command") {
  const auto old = [](std::vector<std::string> arguments) { return complaint(lazyprune_program(arguments)); };
  CHECK(old({"eval", "--fidelity", "-f", "text"}) == "--fidelity: expected the command `lazyprune fidelity`, found the flag");
  CHECK(old({"eval", "-f", "text", "--fidelity"}) == "--fidelity: expected the command `lazyprune fidelity`, found the flag");
  CHECK(old({"sweep", "--search", "-d", "data.jsonl", "--out", "folder", "--tries", "3"}) ==
        "--search: expected the command `lazyprune search`, found the flag");
}

TEST_CASE("a prompt is given once") {
  CHECK(complaint(lazyprune_program({"run"})) == "prompt: expected one of -p, -f and --ids, found none");
  CHECK(fault({"--ids", "1"}) == "prompt: expected one of -p, -f and --ids, found several");
  CHECK(fault({"-f", "/dev/null"}) == "prompt: expected one of -p, -f and --ids, found several");
}

TEST_CASE("numbers are read to the last character") {
  const auto number = [](const char* flag, const char* value) { return complaint(lazyprune_program({"run", "--ids", "1", flag, value})); };
  CHECK(number("-n", "3x") == "--predict: expected a whole number from 0, found 3x");
  CHECK(number("-n", "-1") == "--predict: expected a whole number from 0, found -1");
  CHECK(number("-n", "") == "--predict: expected a whole number from 0, found nothing");
  CHECK(number("-n", "99999999999999999999") == "--predict: expected a whole number from 0, found 99999999999999999999");
  CHECK(number("--chunk", "0") == "--chunk: expected a whole number from 1, found 0");
  CHECK(number("--chunk", "") == "--chunk: expected a whole number from 1, found nothing");
  CHECK(number("--speculate", "0") == "--speculate: expected a whole number from 1, found 0");
  CHECK(number("-c", "1e3") == "--ctx-size: expected a whole number from 0, found 1e3");
  CHECK(number("-c", "4097") == "--ctx-size: expected at most the model's 4096, found 4097");
  CHECK(number("-t", "0").starts_with("--threads: expected a whole number from 1 to "));  // 16 for each processor
  CHECK(number("-t", "1000000").ends_with(", found 1000000"));
  CHECK(number("-s", "-3") == "--seed: expected a whole number from 0, found -3");
  CHECK(number("--temp", "-0.1") == "--temp: expected a number from 0, found -0.1");
  CHECK(number("--temp", "nan") == "--temp: expected a number from 0, found nan");
  CHECK(number("--top-k", "1.5") == "--top-k: expected a whole number from 0, found 1.5");
  CHECK(number("--top-p", "1.01") == "--top-p: expected a number from 0 to 1, found 1.01");
  CHECK(number("--min-p", "x") == "--min-p: expected a number from 0 to 1, found x");
  CHECK(number("--keep-first", "two") == "--keep-first: expected a whole number from 0, found two");
  CHECK(number("--least-tokens", "-1") == "--least-tokens: expected a whole number from 0, found -1");
  CHECK(number("--least-tokens", "") == "--least-tokens: expected a whole number from 0, found nothing");
  CHECK(number("--force-ids", "1,,2") == "--force-ids: expected a whole number from 0, found nothing");
  CHECK(number("--force-ids", "") == "--force-ids: expected numbers with commas between them, found nothing");
  CHECK(complaint(lazyprune_program({"run", "--ids", "1,5,x"})) == "--ids: expected a whole number from 0, found x");
  CHECK(complaint(lazyprune_program({"bench", "-P", "0"})) == "--prompts: expected a whole number from 1 to 1073741824, found 0");
  CHECK(complaint(lazyprune_program({"bench", "-P", "18446744073709551615"})) ==
        "--prompts: expected a whole number from 1 to 1073741824, found 18446744073709551615");
  CHECK(complaint(lazyprune_program({"bench", "-t", "1,1000000"})).ends_with(", found 1000000"));
  CHECK(complaint(lazyprune_program({"bench", "--sequences", "1,0"})) == "--sequences: expected a whole number from 1 to 65536, found 0");
  CHECK(complaint(lazyprune_program({"bench", "-r", "0"})) == "--repetitions: expected a whole number from 1 to 1000000, found 0");
  CHECK(complaint(lazyprune_program({"compare", "a", "b", "--tolerance", "-1"})) == "--tolerance: expected a number from 0, found -1");
}

TEST_CASE("positions are read to the last character, by every command that takes pruning flags") {
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
    const std::string span = "expected FIRST-LAST with FIRST at most LAST, like 0-63, found ";
    CHECK(keep("") == "--keep: expected positions, like 0-63,900-930, found nothing");
    CHECK(keep("0-63,930-900") == "--keep: 0-63,930-900: " + span + "\"930-900\"");
    CHECK(keep("0-63,") == "--keep: 0-63,: " + span + "nothing");
    CHECK(keep("4294967296") == "--keep: 4294967296: " + span + "\"4294967296\"");
    CHECK(keep("0 - 63") == "--keep: 0 - 63: " + span + "\"0 - 63\"");
  }
}

TEST_CASE("names of backends, types and policies") {
#ifdef LAZYPRUNE_HAVE_CUDA
  CHECK(fault({"--backend", "tpu"}) == "--backend: expected cpu, reference or cuda, found tpu");
#else
  CHECK(fault({"--backend", "tpu"}) == "--backend: expected cpu or reference, found tpu");
  const std::string not_there =
      "--backend: expected cpu or reference, found cuda, which is not built into this program: that takes nvcc and cmake "
      "-DLAZYPRUNE_CUDA=ON";
  CHECK(fault({"--backend", "cuda"}) == not_there);
  CHECK(complaint(lazyprune_program({"bench", "--backend", "cuda", "-P", "8"})) == not_there);
  CHECK(complaint(lazyprune_program({"eval", "--backend", "cuda", "-d", prompts("profile")})) == not_there);
#endif
  CHECK(fault({"--dtype", "f64"}) == "--dtype: expected auto, f32 or bf16 with the cpu backend, found f64");
  CHECK(fault({"--backend", "reference", "--dtype", "bf16"}) ==
        "--dtype: expected auto, f64 or f32 with the reference backend, found bf16");
  CHECK(fault({"--policy", "lasso"}) ==
        "--policy: expected one of lazyllm, lazyllm_blocks, static, random, streaming, fastv, pyramid_drop, tova, pyramid_kv, "
        "prompt_distill, dense, found lasso");
  CHECK(fault({"--scorer", "window_attention:windw=3"}) ==
        "--scorer: window_attention:windw=3: expected one of window, kernel, pool, found windw");
  CHECK(fault({"--stages", "6:0.5"})
            .ends_with("the model has 6; before the first only the scorers given_scores, random and recency know anything), found 6"));
  CHECK(fault({"--stages", "0:0.5"}).ends_with(", found 0"));
  CHECK(fault({"--stages", "3:1.5"}).starts_with("stages: stage 1: expected LAYER:SHARE"));
  CHECK(
      complaint(lazyprune_program({"bench", "--random-weights", "gpt"})).starts_with("--random-weights: expected one of tinyllama-1.1b, "));
  CHECK(complaint(lazyprune_program({"bench", "-m", "x", "--random-weights", "pocket"})) ==
        "--random-weights: expected either -m or --random-weights, found both");
  CHECK(complaint(lazyprune_program({"bench", "-o", "xml"})) == "--output: expected md, json or csv, found xml");
}

TEST_CASE("tokens that the model does not have, and prompts that are too long or empty") {
  CHECK(complaint(lazyprune_program({"run", "--ids", "1,2304"})) == "--ids: expected token ids below the vocabulary's 2304, found 2304");
  CHECK(fault({"--force-ids", "2304"}) == "--force-ids: expected token ids below the vocabulary's 2304, found 2304");
  CHECK(complaint(lazyprune_program({"run", "--ids", "1,2,3", "-c", "2"})) == "prompt: expected at most 2 tokens, found 3");
  std::string long_prompt = "1";
  for (int i = 0; i < 4096; ++i) long_prompt += ",1";
  CHECK(complaint(lazyprune_program({"run", "--ids", long_prompt})) == "prompt: expected at most 4096 tokens, found 4097");
  CHECK(complaint(lazyprune_program({"run", "--ids", "1,2,3", "-c", "4", "--force-ids", "5,6,7"})) ==
        "forced tokens: length: expected at most 4 tokens with the prompt, found 5");
  CHECK(complaint(lazyprune_program({"bench", "-P", "4096", "-n", "1"})) ==
        "--prompts: expected prompts of at most 4096 tokens, the -n generated ones included, found 4097");
}

TEST_CASE("an empty name is not a name left out") {
  for (const std::string flag : {"--model", "--backend", "--dtype", "--policy", "--schedule", "--scorer", "--selector", "--store",
                                 "--decode", "--file", "--trace"}) {
    CAPTURE(flag);
    CHECK(complaint(lazyprune_program({"run", "--ids", "1", "-n", "1", flag, ""})) == flag + ": expected a name, found nothing");
  }
  CHECK(complaint(lazyprune_program({"inspect", "-m", ""})) == "--model: expected a name, found nothing");
  CHECK(complaint(lazyprune_program({"bench", "--random-weights", ""})) == "--random-weights: expected a name, found nothing");
  CHECK(complaint(lazyprune_program({"bench", "-o", ""})) == "--output: expected a name, found nothing");
}

TEST_CASE("traces and stop texts") {
  CHECK(fault({"--stop", "a", "--force-ids", "7"}) ==
        "--stop: expected either --stop or --force-ids, whose ids are as many steps, found both");
  CHECK(complaint(lazyprune_program({"run", "-m", "/nowhere", "--ids", "1", "-n", "0", "--trace", "a.jsonl"})) ==
        "--trace: expected a token to generate, which is a step of the trace, found -n 0");
  CHECK(fault({"--trace", "trace.txt"}) == "--trace: expected a name that ends in .jsonl or .html, found trace.txt");
  CHECK(fault({"--trace", "trace.html", "--trace-logits"}) == "--trace-logits: expected --trace FILE.jsonl with it, found trace.html");
  CHECK(fault({"--trace-logits"}) == "--trace-logits: expected --trace FILE.jsonl with it, found none");
  CHECK(fault({"--trace", "/nowhere/at/all.jsonl"}).starts_with("/nowhere/at/all.jsonl: expected a file that can be written, found "));
  CHECK(fault({"--stop", ""}) == "--stop: expected a text, found nothing");
  CHECK(complaint(lazyprune_program({"run", "-f", "/nowhere/prompt.txt"}))
            .starts_with("/nowhere/prompt.txt: expected a file that can be read"));
}
