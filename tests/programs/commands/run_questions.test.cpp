// SPDX-License-Identifier: MIT
// Tests that each question gets the answer of a `run` whose prompt is the document and this question, unless rounding differs.
#include "programs/program.hpp"

#include <csignal>
#include <numeric>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <test_data.hpp>

using json = nlohmann::json;

namespace {

const std::string document =
    "read the document . a distant bell did not change a careful plan . the candle is in the temples . the old council arrived after the "
    "harvest . the sextant is in the theatres . the second meeting came shortly before a careful plan . the report seemed to follow the "
    "county fair .";
const std::vector<std::string> questions{"question : where is the candle ? answer : the candle is in the",
                                         "question : where is the sextant ? answer : the sextant is in the",
                                         "question : what arrived ? answer :"};

/// Files with a document and its questions.
struct files {
  temporary_folder folder;
  std::string text = folder / "document.txt", asked = folder / "questions.txt";

  explicit files(const std::string& lines = questions[0] + "\n\n" + questions[1] + "\r\n" + questions[2]) {
    write_file(text, document + "\n");
    write_file(asked, lines);
  }

  program_result run(std::vector<std::string> more) const {
    more.insert(more.begin(), {"run", "-f", text, "--questions", asked, "-t", "1"});
    return lazyprune_program(more);
  }

  std::vector<json> answers(std::vector<std::string> more) const {
    more.push_back("--json");
    const program_result result = run(more);
    CHECK_MESSAGE(result.code == 0, result.err);
    CHECK(result.err.empty());
    std::vector<json> lines;
    std::istringstream out(result.out);
    for (std::string line; std::getline(out, line);) lines.push_back(json::parse(line));
    return lines;
  }
};

json answer_alone(const std::string& question, std::vector<std::string> more) {
  more.insert(more.begin(), {"run", "-p", document + "\n" + question, "--json", "-t", "1"});
  const program_result result = lazyprune_program(more);
  CHECK_MESSAGE(result.code == 0, result.err);
  return json::parse(result.out);
}

/// `alone` is the answer of a run on the whole prompt. Checks that `answer` has the same text, and that the answer and the shared prefix
/// together have as many rows as that run. Chunks of the shared prefix run `chunk_layers` layers, and leave its last `uncomputed`
/// tokens for the question's step.
void check_alike(const json& answer, const json& alone, std::size_t chunk_layers, std::size_t uncomputed) {
  for (const char* key : {"tokens", "text", "finish_reason", "prompt_tokens", "policy", "seed", "backend", "isa", "model", "version"})
    CHECK(answer[key] == alone[key]);
  const json &own = answer["computed"], &all = alone["computed"];
  for (const char* key : {"dense_rows", "share_prompt", "revived"}) CHECK(own[key] == all[key]);
  const auto tokens = answer["shared_tokens"].get<std::size_t>(), rows = answer["shared_rows"].get<std::size_t>();
  CHECK(tokens > 50);
  const std::size_t computed = tokens - uncomputed;
  CHECK(rows == computed * chunk_layers);
  CHECK(own["rows"].get<std::size_t>() + rows == all["rows"]);
  for (std::size_t layer = 0; layer < all["per_layer"].size(); ++layer)
    CHECK(own["per_layer"][layer].get<std::size_t>() + (layer < chunk_layers ? computed : 0) == all["per_layer"][layer]);
}

void check_questions(const std::vector<std::string>& flags, std::size_t chunk_layers, std::size_t uncomputed = 0) {
  CAPTURE(std::accumulate(flags.begin(), flags.end(), std::string(), [](const auto& a, const auto& b) { return a + " " + b; }));
  const files on_disk;
  const auto answers = on_disk.answers(flags);
  REQUIRE(answers.size() == questions.size());
  for (std::size_t i = 0; i < answers.size(); ++i) check_alike(answers[i], answer_alone(questions[i], flags), chunk_layers, uncomputed);
}

}  // namespace

TEST_CASE("on the reference backend each answer is that of a run on the whole prompt, and the common prefix is computed once") {
  struct variant {
    std::vector<std::string> flags;
    std::size_t chunk_layers;
    std::size_t uncomputed = 0;
  };
  const variant variants[] = {
      {{}, 3},  // by the stages of lazyprune.json
      {{"--stages", "2:0.5,4:0.3", "--decode", "dense"}, 2},
      {{"--stages", "2:0.5", "--temp", "2", "-s", "5", "--top-k", "9"}, 2},
      {{"--policy", "dense"}, 6},
      {{"--policy", "static", "--stages", "4:0.4"}, 4},
      {{"--policy", "random", "--stages", "0:0.6,3:0.5"}, 0},
      {{"--stages", "3:0.4", "--scorer", "window_attention:window=4"}, 2},
      {{"--stages", "3:0.4", "--scorer", "prompt_window_attention:window=4"}, 3, 3},
      {{"--stages", "3:0.4", "--scorer", "accumulated_attention"}, 3},
      {{"--stages", "5:0.2", "--store", "bounded:rows=9", "--keep", "3-9"}, 5},
      {{"--schedule", "adaptive:from=2,mass=0.8"}, 2},
  };
  for (std::size_t i = 0; i < std::size(variants); i += one_in(3u)) {
    const variant& v = variants[i];
    std::vector<std::string> flags{"-n", "5", "--backend", "reference", "--dtype", "f32"};
    flags.insert(flags.end(), v.flags.begin(), v.flags.end());
    check_questions(flags, v.chunk_layers, v.uncomputed);
  }
  check_questions({"-n", "4", "--backend", "reference", "--stages", "3:0.3,5:0.1"}, 3);
}

TEST_CASE("chunks and drafts change no answer") {
  check_questions({"-n", "5", "--backend", "reference", "--dtype", "f32", "--chunk", "7"}, 3);
  const files on_disk;
  const std::vector<std::string> flags{"-n", "12", "--backend", "reference", "--dtype", "f32", "--decode", "dense", "--ignore-eos"};
  std::vector<std::string> drafted = flags;
  drafted.insert(drafted.end(), {"--speculate", "4", "--chunk", "16"});
  const auto plain = on_disk.answers(flags), fast = on_disk.answers(drafted);
  REQUIRE(fast.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(fast[i]["tokens"] == plain[i]["tokens"]);
    CHECK(fast[i]["speculation"]["steps"].get<int>() + fast[i]["speculation"]["accepted"].get<int>() == 11);
    CHECK_FALSE(plain[i].contains("speculation"));
  }
}

TEST_CASE("the answers on cpu are those of runs on the whole prompts") {
  const files on_disk;
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"-n", "6"}, {"-n", "6", "--policy", "dense"}}) {
    const auto answers = on_disk.answers(flags);
    REQUIRE(answers.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(answers[i]["text"] == answer_alone(questions[i], flags)["text"]);
  }
}

TEST_CASE("the longest common prefix is shared, but never the last token of a prompt") {
  const auto shared = [](const std::string& lines) {
    const auto answers = files(lines).answers({"-n", "1"});
    for (const json& answer : answers) CHECK(answer["shared_tokens"] == answers.front()["shared_tokens"]);
    std::vector<std::size_t> left;
    for (const json& answer : answers)
      left.push_back(answer["prompt_tokens"].get<std::size_t>() - answer["shared_tokens"].get<std::size_t>());
    return left;
  };
  CHECK(shared(questions[0]) == std::vector<std::size_t>{1});
  CHECK(shared(questions[0] + "\n" + questions[0]) == std::vector<std::size_t>{1, 1});
  CHECK(shared("where\nwhere is") == std::vector<std::size_t>{1, 2});
  CHECK(shared("where is the bell\nwhere is the council")[0] < 4);
}

TEST_CASE("if no token is to be generated, no step runs") {
  const files on_disk;
  const auto answers = on_disk.answers({"-n", "0"});
  REQUIRE(answers.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(answers[i]["shared_rows"] == 0);
    CHECK(answers[i]["computed"] == answer_alone(questions[i], {"-n", "0"})["computed"]);
    CHECK(answers[i]["tokens"].empty());
  }
}

TEST_CASE("--compare also asks the dense model, which reads the common prefix once") {
  const files on_disk;
  const auto answers = on_disk.answers({"-n", "2", "--compare"}), dense = on_disk.answers({"-n", "2", "--policy", "dense"});
  REQUIRE(answers.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(answers[i]["dense"]["tokens"] == dense[i]["tokens"]);
    CHECK(answers[i]["dense"]["computed"] == dense[i]["computed"]);
    CHECK(answers[i]["dense"]["shared_rows"] == dense[i]["shared_rows"]);
    CHECK(answers[i]["speedup_ttft"].get<double>() > 0);
  }
}

TEST_CASE("questions and answers go to stdout, times and rows to stderr") {
  const files on_disk;
  const program_result result = on_disk.run({"-n", "3", "--stop", " ."});
  CHECK(result.code == 0);
  CHECK(result.out.starts_with("> " + questions[0] + "\n temples\n\n> " + questions[1] + "\n theatres\n\n> " + questions[2] + "\n"));
  const auto says = [&](const std::string& what) { return result.err.find(what) != std::string::npos; };
  CHECK(says("policy: lazyllm --stages 3:0.3,5:0.1\n"));
  CHECK(says("shared: the first "));
  CHECK(says("question   prompt   time to first token   rows computed   decode, tokens/s\n       1 "));
  CHECK(says("answered 3 of 3 questions in "));
  const program_result compared = on_disk.run({"-n", "2", "--compare", "--chunk", "16"});
  CHECK(compared.err.find("\nchunks of 16 tokens: each runs the first 3 of 6 layers; the others run when the question is read\n") !=
        std::string::npos);
  CHECK(compared.err.find("\ndense, shared: the first ") != std::string::npos);
  CHECK(compared.err.find("   the answers ") != std::string::npos);
}

TEST_CASE("wrong flags, and questions that do not fit, are refused") {
  const files on_disk;
  const auto fault = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "run");
    return complaint(lazyprune_program(words));
  };
  CHECK(fault({"-p", "x", "--questions", on_disk.asked}) == complaint_at("--questions", {"-f", ", found -p"}));
  CHECK(fault({"--ids", "1", "--questions", on_disk.asked}) == complaint_at("--questions", {"-f", ", found --ids"}));
  CHECK(fault({"--questions", on_disk.asked}) == complaint_at("--questions", {"-f"}));
  CHECK(fault({"-f", on_disk.text, "--questions", ""}) == complaint_at("--questions"));
  CHECK(fault({"-f", on_disk.text, "--questions", on_disk.asked, "--trace", on_disk.folder / "t.jsonl"}) ==
        complaint_at("--questions", {"--questions or --trace"}));
  CHECK(fault({"-f", on_disk.text, "--questions", "/nowhere.txt"}) == complaint_at("/nowhere.txt", {"No such file or directory"}));
  CHECK(fault({"-f", on_disk.text, "--questions", on_disk.folder.path()}) == complaint_at(on_disk.folder.path()));
  for (const char* lines : {"", "\n\n\r\n"}) {
    const files empty(lines);
    CHECK(fault({"-f", empty.text, "--questions", empty.asked}) == complaint_at(empty.asked));
  }

  const files letter("where\n\xEF\xBB\xBB\n\xEF\xBB\xBF\r\n");  // U+FEFB is a letter; a byte order mark is no question
  CHECK(letter.answers({"-n", "1"}).size() == 2);

  // The lengths of all prompts are checked before the first question is answered.
  const std::size_t longest = answer_alone(questions[1], {"-n", "0"})["prompt_tokens"];
  const std::string tokens = std::to_string(longest), less = std::to_string(longest - 1);
  const files two("where\n" + questions[1]);
  CHECK(complaint(two.run({"-c", less})) == complaint_at("prompt: question 2", {"most " + less, ", found " + tokens}));
  CHECK(complaint(two.run({"-c", tokens, "--force-ids", "5,6"})) ==
        complaint_at("forced tokens: question 2", {"most " + tokens, ", found " + std::to_string(longest + 1)}));
  CHECK(two.answers({"-c", tokens, "--force-ids", "5"}).size() == 2);
}

TEST_CASE("an interrupt ends the run cleanly, and the answers so far are reported") {
  const files on_disk;
  for (const bool as_json : {false, true}) {
    std::vector<std::string> words{"run",  "-f",           on_disk.text, "--questions", on_disk.asked, "-n",
                                   "3000", "--ignore-eos", "--backend",  "reference",   "-t",          "1"};
    if (as_json) words.push_back("--json");
    running_program program(words);
    if (as_json) {
      program.until([&] { return program.catches(SIGINT); });
      program.computes(0.1);
    } else {
      program.until([&] { return program.out().size() >= questions[0].size() + 10; });  // the first answer has begun
    }
    program.send(SIGINT);
    const program_result result = program.wait();
    CHECK(result.code == 0);
    if (as_json) {
      CHECK(std::ranges::count(result.out, '\n') <= 1);
      if (!result.out.empty()) CHECK(json::parse(result.out)["finish_reason"] == "stop");
    } else {
      CHECK(result.out.ends_with('\n'));
      CHECK(result.out.find(questions[1]) == std::string::npos);
      CHECK(result.err.find("answered 1 of 3 questions") != std::string::npos);
    }
  }
}
