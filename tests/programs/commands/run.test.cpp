// SPDX-License-Identifier: MIT
#include "programs/program.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <functional>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <lazyprune/files/trace_file.hpp>

#include <test_data.hpp>

using json = nlohmann::json;

namespace {

const std::string question =
    "read the document . a distant bell did not change a careful plan . the candle is in the temples . the old council arrived after the "
    "harvest . question : where is the candle ? answer : the candle is in the";

json run_json(std::vector<std::string> more, const std::string& input = {}) {
  more.insert(more.begin(), {"run", "--json"});
  const program_result result = lazyprune_program(more, input, {"OMP_NUM_THREADS=1"});
  CHECK_MESSAGE(result.code == 0, result.err);
  return json::parse(result.out);
}

/// The JSON of a run without times, rates, memory and backend.
json without_costs(json run) {
  for (const char* key : {"ttft_s", "prefill_tokens_per_s", "decode_tokens_per_s", "memory", "backend", "isa"}) run.erase(key);
  return run;
}

std::vector<std::string> keys_of(const nlohmann::ordered_json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

void check_result(const json& run) {
  CHECK(run["finish_reason"].is_string());
  CHECK(run["tokens"].is_array());
  CHECK(run["prompt_tokens"].is_number_unsigned());
  CHECK(run["policy"]["name"].is_string());
  CHECK(run["policy"]["text"].is_string());
  for (const char* key : {"ttft_s", "prefill_tokens_per_s", "decode_tokens_per_s"}) CHECK(run[key].get<double>() > 0);
  const json& computed = run["computed"];
  CHECK(computed.size() == 5);
  CHECK(computed["per_layer"].size() == 6);
  CHECK(computed["rows"] <= computed["dense_rows"]);
  CHECK(computed["share_prompt"].get<double>() > 0);
  CHECK(computed["share_prompt"].get<double>() <= 1);
  CHECK(computed["revived"].is_number_unsigned());
  const json& memory = run["memory"];
  CHECK(memory.size() == 5);
  std::uint64_t sum = 0;
  for (const char* part : {"weights", "kv", "store", "scratch"}) sum += memory[part].get<std::uint64_t>();
  CHECK(memory["peak"] == sum);
}

/// Changes the first RMSNorm of a copy of the bundled model, so that the program knows no stages for it.
void make_unknown(const temporary_folder& model) {
  std::string file = file_text(model / "model.safetensors");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const json header = json::parse(file.substr(sizeof header_bytes, header_bytes));
  const std::size_t weights = header.at("model.layers.0.input_layernorm.weight").at("data_offsets").at(0);
  file[sizeof header_bytes + header_bytes + weights + 1] ^= '\x80';  // the sign of the first weight, in bf16
  write_file(model / "model.safetensors", file);
}

}  // namespace

TEST_CASE("the answer goes to stdout, everything else to stderr") {
  const program_result result = lazyprune_program({"run", "-p", question, "-n", "3", "--stop", " .", "-t", "1"});
  CHECK(result.code == 0);
  CHECK(result.out == " temples\n");
  const std::vector<std::string> lines = lines_of(result.err);
  // There is a sixth line if the last token comes later than with the dense model. This depends on measured times.
  REQUIRE((lines.size() == 5 || (lines.size() == 6 && lines[5].starts_with("the last token comes later than with the dense model"))));
  CHECK(lines[0].starts_with("memory: "));
  CHECK(lines[1] == "policy: lazyllm --stages 3:0.3,5:0.1");  // the stages of lazyprune.json
  CHECK(lines[2].starts_with("prompt: "));
  for (const auto& [line, what] : {std::pair(lines[3], "time to first token: "), {lines[4], "time to last token: "}}) {
    CHECK(line.starts_with(what));
    CHECK(line.find(" by the cost model, ") != line.npos);
  }
  CHECK(result.err.find('\r') == std::string::npos);  // no progress bar: stderr is not a terminal
}

TEST_CASE("the report says if -n or the context ended the answer") {
  const auto says = [](std::vector<std::string> flags, const char* what) {
    flags.insert(flags.begin(), {"run", "-p", question, "--ignore-eos", "-t", "1"});
    return lazyprune_program(flags).err.find(what) != std::string::npos;
  };
  CHECK(says({"-n", "3"}, " tokens; answer: 3 tokens, ended by -n\n"));
  CHECK(says({"-c", "60"}, " tokens, ended by the context's end\n"));
  CHECK_FALSE(says({"-n", "9", "--stop", " ."}, "ended by"));
  CHECK_FALSE(says({"--force-ids", "5,6"}, "ended by"));
}

TEST_CASE("a model without known stages stays dense unless pruning is asked for, and a line says so") {
  const temporary_folder files;
  std::filesystem::copy(bundled_model, files.path());
  std::filesystem::remove(files / "lazyprune.json");
  make_unknown(files);
  const auto err = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"run", "-m", files.path(), "-p", question, "-n", "1", "-t", "1"});
    return lazyprune_program(flags).err;
  };
  const auto first_lines = [&](const std::vector<std::string>& flags) {
    const std::vector<std::string> lines = lines_of(err(flags));
    REQUIRE(lines.size() > 2);
    return std::pair(lines[0], lines[2]);  // lines[1], between them, is the memory
  };
  const auto [line, policy] = first_lines({});
  CHECK(line.find("--policy lazyllm") != line.npos);
  CHECK(policy == "policy: dense");
  CHECK(err({"--json"}) == line + "\n");
  const auto [without_effect, still_dense] = first_lines({"--keep-first", "4", "--scorer", "key_norm"});
  CHECK(without_effect.starts_with("--scorer has no effect: "));
  CHECK(still_dense == policy);
  for (const std::vector<std::string>& named : {std::vector<std::string>{"--policy", "lazyllm"},
                                                {"--stages", "3:0.5"},
                                                {"--policy", "dense"},
                                                {"--schedule", "every:n=2,share=0.5"}})
    CHECK(err(named).starts_with("memory: "));
  const auto policy_of = [&](const std::vector<std::string>& flags) { return lines_of(err(flags)).at(1); };
  CHECK(policy_of({"--policy", "lazyllm"}) == "policy: lazyllm --stages 1:0.7,3:0.7,5:0.7");  // the paper's stages, moved to six layers

  CHECK(complaint(lazyprune_program({"run", "-m", files.path(), "-p", "x", "-n", "1", "--pruning-file", bundled_calibration})) ==
        complaint_at(bundled_calibration + ": model.fingerprint"));
  write_file(files / "mine.json", R"({"stages": "2:0.5"})");
  CHECK(policy_of({"--pruning-file", files / "mine.json"}) == "policy: lazyllm --stages 2:0.5");
  CHECK(policy_of({"--pruning-file", files / "mine.json", "--stages", "3:0.5"}) == "policy: lazyllm --stages 3:0.5");
  CHECK(policy_of({"--stages", "3:0.5", "--scorer", "key_norm"}) == "policy: custom --stages 3:0.5 --scorer key_norm");
  CHECK(policy_of({"--policy", "static", "--schedule", "every:n=2,share=0.5"}) == "policy: static --schedule every:n=2,share=0.5");
  CHECK(policy_of({"--stages", "3:0.5", "-v"}).starts_with("policy: --stages 3:0.5 --scorer last_query_attention:over=mean "));
  write_file(files / "wrong.json", R"({"stages": "9:0.5"})");
  const auto run = [&](const std::string& file) {
    return complaint(lazyprune_program({"run", "-m", files.path(), "-p", "x", "-n", "1", "--pruning-file", file}));
  };
  CHECK(run(files / "wrong.json") == complaint_at((files / "wrong.json") + ": --stages: 9:0.5"));
  CHECK(run(files / "none.json") == complaint_at(files / "none.json"));
  for (const std::vector<std::string>& others : {std::vector<std::string>{"--policy", "lazyllm"},
                                                 {"--policy", "static", "--stages", "3:0.5"},
                                                 {"--schedule", "every:n=2,share=0.5"}}) {
    CAPTURE(others[0]);
    const auto with = [&](const std::string& file) { return joined(others, {"--pruning-file", files / file}); };
    const program_result beside = lazyprune_program(joined({"run", "-m", files.path(), "-p", "x", "-n", "1", "--json"}, with("mine.json")));
    CHECK(beside.code == 0);
    CHECK(beside.err == "--pruning-file has no effect, because " + others[0] + " is given\n");
    for (const std::string wrong : {"wrong.json", "none.json"}) {
      const std::string where = (files / wrong) + (wrong == "wrong.json" ? ": --stages: 9:0.5" : "");
      for (const std::vector<std::string>& command : {std::vector<std::string>{"run", "-p", "x", "-n", "1", "-m", files.path()},
                                                      {"fidelity", "-f", files / "mine.json", "-m", files.path()},
                                                      {"eval", "-d", prompts("few_shot"), "--limit", "1", "-m", files.path()},
                                                      {"bench", "-m", files.path()},
                                                      {"compare", files / "none.jsonl", "--against", files.path()},
                                                      {"inspect", "-m", files.path()},
                                                      {"serve", "--port", "0", "-m", files.path()}})
        CHECK(complaint(lazyprune_program(joined(command, with(wrong)))) == complaint_at(where));
    }
  }
}

TEST_CASE("a calibration is named by its stages, and -v shows its probes") {
  const auto policy_of = [&](const std::vector<std::string>& more) {
    std::vector<std::string> flags{"run", "-p", question, "-n", "1", "-t", "1", "--pruning-file", bundled_calibration};
    flags.insert(flags.end(), more.begin(), more.end());
    return lines_of(lazyprune_program(flags).err).at(1);
  };
  const std::string stages = json::parse(file_text(bundled_calibration)).at("stages");
  CHECK(policy_of({}) == "policy: calibrated --stages " + stages);
  CHECK(policy_of({"--keep-first", "8"}) == "policy: calibrated --stages " + stages + " --keep-first 8");
  CHECK(policy_of({"-v"}).starts_with("policy: --stages " + stages + " --scorer calibrated_attention:window=64,block=16,probes="));
  CHECK(policy_of({"--stages", "3:0.2"}) == "policy: calibrated --stages 3:0.2");
  CHECK(policy_of({"--scorer", "key_norm"}) == "policy: custom --stages " + stages + " --scorer key_norm --least-tokens 768");
  const std::vector<std::string> beside = lines_of(lazyprune_program({"run", "-p", question, "-n", "1", "--pruning-file",
                                                                      bundled_calibration, "--stages", "3:0.2", "--policy", "lazyllm"})
                                                       .err);
  REQUIRE(beside.size() > 2);
  CHECK(beside[0] == "--pruning-file has no effect, because --policy is given");
  CHECK(beside[2] == "policy: lazyllm --stages 3:0.2");
}

TEST_CASE("--compare puts the dense run beside the pruned one") {
  const program_result result = lazyprune_program({"run", "-p", question, "-n", "2", "--compare", "-t", "1"});
  CHECK(result.code == 0);
  const auto says = [&](const char* what) { return result.err.find(what) != std::string::npos; };
  for (const char* line : {"dense      pruned", "rows revived", "aux store", "the answers agree: the same 2 tokens"}) CHECK(says(line));
  for (const char* line : {"time to first token: ", "time to last token: "}) {
    const std::string rest = result.err.substr(result.err.find(line));
    CHECK(rest.find("; dense ") < rest.find('\n'));
  }
  CHECK_FALSE(says("cost model"));  // the dense model's time was measured
  const program_result verbose = lazyprune_program({"run", "-p", question, "-n", "2", "-v", "-t", "1"});
  CHECK(verbose.err.find("rows revived") != std::string::npos);
  CHECK(lazyprune_program({"run", "-p", question, "-n", "2", "-t", "1"}).err.find("rows revived") == std::string::npos);
}

TEST_CASE("--json has the documented keys, in their order") {
  const program_result result = lazyprune_program({"run", "-p", question, "-n", "3", "--json", "--compare", "-s", "7"});
  REQUIRE(result.code == 0);
  CHECK(result.err.empty());
  const auto ordered = nlohmann::ordered_json::parse(result.out);
  CHECK(keys_of(ordered) == std::vector<std::string>{"version", "model", "backend", "isa", "seed", "finish_reason", "text", "tokens",
                                                     "prompt_tokens", "policy", "ttft_s", "prefill_tokens_per_s", "decode_tokens_per_s",
                                                     "computed", "memory", "dense", "speedup_ttft"});
  CHECK(keys_of(ordered["computed"]) == std::vector<std::string>{"rows", "dense_rows", "share_prompt", "per_layer", "revived"});
  CHECK(keys_of(ordered["memory"]) == std::vector<std::string>{"weights", "kv", "store", "scratch", "peak"});
  const json run = json::parse(result.out);
  CHECK(run["version"] == 1);
  CHECK(run["model"] == bundled_model);
  CHECK(run["backend"] == "cpu");
  CHECK(run["isa"].is_string());
  CHECK(run["seed"] == 7);
  CHECK(run["finish_reason"] == "length");
  CHECK(run["tokens"].size() == 3);
  CHECK(run["text"].is_string());
  CHECK(run["policy"]["name"] == "lazyllm");
  CHECK(run["dense"]["policy"]["name"] == "dense");
  CHECK(run["dense"]["policy"]["text"] == "--policy dense");
  check_result(run);
  check_result(run["dense"]);
  const json& dense = run["dense"]["computed"];
  CHECK(dense["rows"] == dense["dense_rows"]);
  CHECK(dense["rows"] == run["computed"]["dense_rows"]);
  CHECK(dense["share_prompt"] == 1.0);
  CHECK(run["speedup_ttft"].get<double>() == doctest::Approx(run["dense"]["ttft_s"].get<double>() / run["ttft_s"].get<double>()));
}

TEST_CASE("the rows are those that the stages ask for") {
  std::string ids = "1";
  for (int i = 1; i < 100; ++i) ids += "," + std::to_string(10 + i);
  const json run = run_json({"--ids", ids, "-n", "1", "--stages", "2:0.5,4:0.25"});
  CHECK(run["computed"]["per_layer"] == json{100, 100, 50, 50, 13, 13});  // half of 100, a quarter of 50 rounded up
  CHECK(run["computed"]["rows"] == 326);
  CHECK(run["computed"]["dense_rows"] == 600);
  CHECK(run["computed"]["share_prompt"].get<double>() == doctest::Approx(326.0 / 600.0));
  const json random = run_json({"--ids", ids, "-n", "1", "--policy", "random", "--stages", "0:0.4"});
  CHECK(random["computed"]["per_layer"] == json{40, 40, 40, 40, 40, 40});
  CHECK(random["policy"]["name"] == "random");
}

TEST_CASE("--keep protects positions, and --least-tokens prevents pruning while fewer tokens are known") {
  std::string ids = "1";
  for (int i = 1; i < 100; ++i) ids += "," + std::to_string(10 + i);
  const auto run = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--ids", ids, "-n", "4", "--ignore-eos"});
    return run_json(flags);
  };
  const std::string rest = " --scorer last_query_attention:over=mean --selector top_k --store keep_all --keep-first 0 --keep-last 0";

  const temporary_folder files;
  const json kept = run({"--stages", "2:0.1", "--keep", "40-43,10-19", "--trace", files / "kept.jsonl"});
  CHECK(kept["computed"]["per_layer"] == json{100, 100, 15, 15, 15, 15});  // the share is 10; --keep protects 14, and the query stays
  CHECK(kept["policy"] == json{{"name", "lazyllm"}, {"text", "--stages 2:0.1" + rest + " --keep 10-19,40-43 --decode same"}});
  const std::vector<unsigned> stay{10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 40, 41, 42, 43};
  std::ifstream trace(files / "kept.jsonl");
  std::size_t steps = 0;
  for (std::string line; std::getline(trace, line); ++steps) {
    const json step = json::parse(line);
    for (const json& layer : step["layers"]) CHECK(std::ranges::includes(layer["active"].get<std::vector<unsigned>>(), stay));
  }
  CHECK(steps == 4);

  const json late = run({"--stages", "2:0.1", "--least-tokens", "102"});
  CHECK(late["computed"]["per_layer"] == json{100, 100, 100, 100, 100, 100});
  CHECK(late["computed"]["rows"] == 618);  // as dense: in each of 6 layers 100 rows, then one per decode step
  CHECK(late["policy"]["text"] == "--stages 2:0.1" + rest + " --least-tokens 102 --decode same");
  const json never = run({"--stages", "2:0.1", "--least-tokens", "104"});
  for (const auto& [least, told] : {std::pair("103", false), {"104", true}}) {  // the last step knows 103 tokens
    const program_result report =
        lazyprune_program({"run", "--stages", "2:0.1", "--least-tokens", least, "--ids", ids, "-n", "4", "--ignore-eos"});
    CHECK((report.err.find("nothing was pruned, because the policy prunes from 104 tokens on") != std::string::npos) == told);
  }
  const json dense = run({"--policy", "dense"});
  CHECK(never["tokens"] == dense["tokens"]);
  CHECK(never["computed"] == dense["computed"]);

  // The policy's text, given as flags, makes the same policy again.
  std::vector<std::string> again;
  std::istringstream words(kept["policy"]["text"].get<std::string>());
  for (std::string word; words >> word;) again.push_back(word);
  const json second = run(again);
  for (const char* key : {"tokens", "computed"}) CHECK(second[key] == kept[key]);
  CHECK(second["policy"]["text"] == kept["policy"]["text"]);
}

TEST_CASE("a model with windows in some layers is pruned by attention only after layers without a window" NEEDS("data")) {
  const auto gemma = test_data("gguf/gemma3");  // two layers; the last one has no window
  if (gemma.empty()) return;
  const std::vector<std::string> asked{"run", "-m", gemma.string(), "--ids", "1,5,9,7", "-n", "2", "--json"};
  const program_result plain = lazyprune_program(asked);
  CHECK_MESSAGE(plain.code == 0, plain.err);
  CHECK(json::parse(plain.out)["policy"]["text"] == "--policy dense");
  std::vector<std::string> staged = asked;
  staged.insert(staged.end(), {"--stages", "1:0.5"});
  const program_result refused = lazyprune_program(staged);
  CHECK(complaint(refused) == complaint_at("--stages: 1:0.5", {"after 1"}));
  staged.insert(staged.end(), {"--scorer", "key_norm"});
  CHECK(lazyprune_program(staged).code == 0);
}

TEST_CASE("a run is the same for any number of threads") {
  const json one = without_costs(run_json({"-p", question, "-n", "8", "--temp", "0.8", "-s", "3", "-t", "1"}));
  for (const char* threads : {"2", "3"})
    CHECK(without_costs(run_json({"-p", question, "-n", "8", "--temp", "0.8", "-s", "3", "-t", threads})) == one);
}

TEST_CASE("the seed decides which tokens are drawn") {
  std::vector<json> drawn;
  for (const char* seed : {"1", "1", "2", "3", "4"})
    drawn.push_back(
        run_json({"-p", "the", "-n", "12", "--temp", "5", "--top-k", "0", "--top-p", "1", "--min-p", "0", "-s", seed})["tokens"]);
  CHECK(drawn[0] == drawn[1]);
  CHECK((drawn[2] != drawn[0] || drawn[3] != drawn[0] || drawn[4] != drawn[0]));
}

TEST_CASE("a prompt comes from the command line, a file or stdin, and as ids") {
  const temporary_folder files;
  write_file(files / "prompt.txt", question + "\n");
  const json typed = without_costs(run_json({"-p", question, "-n", "3"}));
  CHECK(without_costs(run_json({"-f", files / "prompt.txt", "-n", "3"})) == typed);
  const program_result piped = shell("cat '" + (files / "prompt.txt") + "' | \"$LAZYPRUNE\" run -f /dev/stdin -n 3 --json -t 1");
  REQUIRE(piped.code == 0);
  CHECK(without_costs(json::parse(piped.out)) == typed);
  CHECK(without_costs(run_json({"-p", "-", "-n", "3"}, question + "\n")) == typed);
  CHECK(without_costs(run_json({"-p", "-", "-n", "3"}, question)) == typed);
  const json ids = run_json({"--ids", "1,5,9", "-n", "1"});
  CHECK(ids["prompt_tokens"] == 3);  // no BOS is added
  CHECK(without_costs(run_json({"-f", "-", "-n", "3"}, question + "\r\n")) == typed);
}

TEST_CASE("a document and a question are joined by a blank line, and nothing in them is read as a control token") {
  const temporary_folder files;
  const std::string document = "the candle is in the temples . </s> <s>", about = "where is the candle ?";
  write_file(files / "document.txt", "\xEF\xBB\xBF" + document + "\r\n");
  const json run = run_json({"-f", files / "document.txt", "-p", about, "-n", "3"});
  const std::string whole = document + "\n\n" + about;
  CHECK(without_costs(run) == without_costs(run_json({"-p", whole, "-n", "3", "--no-parse-special"})));
  CHECK(run["prompt_tokens"] > run_json({"-p", whole, "-n", "3"})["prompt_tokens"]);
  CHECK(without_costs(run) == without_costs(run_json({"-f", files / "document.txt", "-p", about, "-n", "3", "--raw"})));
  CHECK(without_costs(run) == without_costs(run_json({"-f", "-", "-p", about, "-n", "3"}, document)));
}

TEST_CASE("-e reads escapes in the texts of flags") {
  const auto tokens = [](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"-n", "4"});
    return run_json(flags)["prompt_tokens"];
  };
  CHECK(tokens({"-p", "the\\ncandle", "-e"}) == tokens({"-p", "the\ncandle"}));
  CHECK(tokens({"-p", "the\\n\\n\\n\\n"}) > tokens({"-p", "the\n\n\n\n"}));
  CHECK(run_json({"-p", question, "-n", "9", "-e", "--stop", "\\x20."})["text"] ==
        run_json({"-p", question, "-n", "9", "--stop", " ."})["text"]);
}

TEST_CASE("a repeat penalty changes the answer, unless it is 1") {
  const std::string ids = "1,5,9,5,9,5,9,5,9,5,9";
  const json plain = run_json({"--ids", ids, "-n", "40", "--ignore-eos"}),
             other = run_json({"--ids", ids, "-n", "40", "--ignore-eos", "--repeat-penalty", "8"});
  CHECK(other["tokens"] != plain["tokens"]);
  CHECK(run_json({"--ids", ids, "-n", "40", "--ignore-eos", "--repeat-penalty", "1"})["tokens"] == plain["tokens"]);
}

TEST_CASE("-n -1 goes on to the end of the context") {
  const json run = run_json({"--ids", "1,5,9", "-n", "-1", "-c", "30", "--ignore-eos"});
  CHECK(run["finish_reason"] == "length");
  CHECK(run["tokens"].size() == 28);  // 30 - 3 + 1: the last token is never read, so it may exceed the context
}

TEST_CASE("forced ids take the place of the generated ones, whatever -n and EOS say") {
  const json run = run_json({"-p", question, "-n", "1", "--force-ids", "7,2,9", "--compare"});
  CHECK(run["tokens"] == json{7, 2, 9});
  CHECK(run["dense"]["tokens"] == json{7, 2, 9});
  CHECK(run["finish_reason"] == "length");
  CHECK(run["computed"]["dense_rows"] == (run["prompt_tokens"].get<std::size_t>() + 2) * 6);  // the last token is never read
}

TEST_CASE("if no token is to be generated, no step runs") {
  const json run = run_json({"-p", question, "-n", "0", "--compare"});
  CHECK(run.contains("dense"));
  CHECK_FALSE(run.contains("speedup_ttft"));  // nothing was timed
  CHECK(run["tokens"].empty());
  CHECK(run["text"] == "");
  CHECK(run["computed"]["rows"] == 0);
  CHECK(run["ttft_s"] == 0.0);
}

TEST_CASE("the context ends a run") {
  const json run = run_json({"--ids", "1,5,9,20", "-n", "10", "-c", "6", "--ignore-eos"});
  CHECK(run["finish_reason"] == "length");
  CHECK(run["tokens"].size() == 3);  // one after 4 tokens, one after 5 and one after 6
}

TEST_CASE("a stop text ends the answer before it") {
  const json run = run_json({"-p", question, "-n", "20", "--stop", "unheard of", "--stop", "ples"});
  CHECK(run["finish_reason"] == "stop");
  CHECK(run["text"] == " tem");
}

TEST_CASE("a stop text in brackets is one text, commas and all") {
  const temporary_folder files;
  const json plain = run_json({"-p", question, "-n", "6"});
  const std::string text = plain["text"];
  for (const char* stop : {"[INST]", "[a,b]", "[/INST]", "[]"})  // no part of these texts ends the answer
    CHECK(run_json({"-p", question, "-n", "6", "--stop", stop})["text"] == text);
  const std::string bracketed = "[" + text.substr(1, 3) + "]";
  CHECK(run_json({"-p", question, "-n", "6", "--stop", bracketed})["text"] == text);
  CHECK(run_json({"-p", question, "-n", "6", "--stop", bracketed, "--stop", text.substr(1, 3)})["text"] == " ");
  CHECK(run_json({"-p", "[a,b]", "-n", "0"})["prompt_tokens"] == run_json({"-p", "-", "-n", "0"}, "[a,b]")["prompt_tokens"]);
}

TEST_CASE("empty stages never prune") {
  CHECK(run_json({"--ids", "1,5,9", "-n", "1", "--stages", ""})["policy"]["text"] == "--policy dense");
}

TEST_CASE("a stdin that cannot be read is reported as a wrong argument") {
  CHECK(complaint(shell("\"$LAZYPRUNE\" run -p - -n 1 < /")) == complaint_at("stdin", {"Is a directory"}));
  CHECK(complaint(shell("\"$LAZYPRUNE\" run -p - -n 1 <&-")) == complaint_at("stdin", {"Bad file descriptor"}));
}

TEST_CASE("if stdout or stderr is closed, what is written to it never gets into the trace") {
  const temporary_folder files;
  const std::string run = "\"$LAZYPRUNE\" run --ids 1,5,9 -n 2 -t 1 --ignore-eos --trace '" + (files / "trace.jsonl") + "' ";
  const program_result quiet = shell(run + "2>&-");
  CHECK(quiet.code == 0);
  CHECK(lazyprune::read_trace(files / "trace.jsonl").size() == 2);
  std::filesystem::remove(files / "trace.jsonl");
  const program_result mute = shell(run + ">&-");
  CHECK(told(mute, lines_of(mute.err).size() - 1) == complaint_at("lazyprune: stdout", {}, 3));
  CHECK(lazyprune::read_trace(files / "trace.jsonl").size() == 2);
}

TEST_CASE("a file that reaches the limit on file sizes is reported as an I/O error") {
  const temporary_folder files;
  const std::string run = "\"$LAZYPRUNE\" run --ids 1 -n 1 -t 1 --trace-logits --trace '" + (files / "trace.jsonl") + "' >/dev/null 2>&1";
  CHECK(shell("ulimit -f 16; " + run).code == 3);  // 8 KiB: too little for the logits, enough for the files of some OpenMP runtimes
  CHECK(std::filesystem::is_empty(files.path()));
}

TEST_CASE("a model without a tokenizer takes ids and gives ids") {
  const temporary_folder files;
  for (const char* name : {"config.json", "model.safetensors"}) std::filesystem::copy(bundled_model + "/" + name, files / name);
  make_unknown(files);
  const json run = run_json({"-m", files.path(), "--ids", "1,5,9", "-n", "2", "--ignore-eos"});
  CHECK(run["text"].is_null());
  CHECK(run["tokens"].size() == 2);
  CHECK(run["policy"]["text"] == "--policy dense");
  const program_result shown = lazyprune_program({"run", "-m", files.path(), "--ids", "1,5,9", "-n", "2", "--ignore-eos"});
  CHECK(shown.out == std::to_string(run["tokens"][0].get<int>()) + "," + std::to_string(run["tokens"][1].get<int>()) + "\n");
  CHECK(complaint(lazyprune_program({"run", "-m", files.path(), "-p", "x"})) == complaint_at("prompt", {"--ids", files.path()}));
  CHECK(complaint(lazyprune_program({"run", "-m", files.path(), "--ids", "1", "--stop", "x"})) == complaint_at("--stop", {files.path()}));
}

TEST_CASE("the model is the one that -m names, otherwise the one of $LAZYPRUNE_MODEL, otherwise the bundled one") {
  const temporary_folder files;
  std::filesystem::copy(bundled_model, files / "model");
  const auto model = [](const program_result& result) { return json::parse(result.out)["model"]; };
  const std::vector<std::string> arguments{"run", "--ids", "1", "-n", "0", "--json"};
  CHECK(model(lazyprune_program(arguments)) == bundled_model);
  CHECK(model(lazyprune_program(arguments, "", {"LAZYPRUNE_MODEL=" + (files / "model")})) == files / "model");
  std::vector<std::string> named = arguments;
  named.insert(named.end(), {"-m", bundled_model});
  CHECK(model(lazyprune_program(named, "", {"LAZYPRUNE_MODEL=/nowhere"})) == bundled_model);
}

TEST_CASE("the backends agree, whether weights are mapped or read") {
  const json cpu = without_costs(run_json({"-p", question, "-n", "4", "--dtype", "f32"}));
  CHECK(without_costs(run_json({"-p", question, "-n", "4", "--dtype", "f32", "--no-mmap"})) == cpu);
  for (const std::vector<std::string>& reference :
       {std::vector<std::string>{"--backend", "reference"}, {"--backend", "reference", "--dtype", "f32"}}) {
    std::vector<std::string> arguments{"-p", question, "-n", "4"};
    arguments.insert(arguments.end(), reference.begin(), reference.end());
    const json run = run_json(arguments);
    CHECK(run["backend"] == "reference");
    CHECK(run["isa"] == "generic");
    CHECK(without_costs(run) == cpu);
  }
}

TEST_CASE("a trace as JSON Lines has every step, and the logits if they are asked for") {
  const temporary_folder files;
  const json run = run_json({"-p", question, "-n", "3", "--trace", files / "plain.jsonl"});
  const auto plain = lazyprune::read_trace(files / "plain.jsonl");
  REQUIRE(plain.size() == 3);
  CHECK(plain[0].tokens.size() == run["prompt_tokens"]);
  CHECK(plain[1].next == run["tokens"][1]);
  CHECK(plain[0].logits.empty());
  std::size_t rows = 0, revived = 0;
  for (const auto& step : plain)
    for (const auto& layer : step.layers) rows += layer.rows.size(), revived += layer.revived.size();
  CHECK(rows == run["computed"]["rows"]);
  CHECK(revived == run["computed"]["revived"]);
  run_json({"-p", question, "-n", "3", "--trace", files / "logits.jsonl", "--trace-logits"});
  CHECK(lazyprune::read_trace(files / "logits.jsonl")[2].logits.size() == 2304);
}

TEST_CASE("--chunk changes neither the run nor the trace, and a line says which layers a chunk runs") {
  const temporary_folder files;
  struct variant {
    std::vector<std::string> flags;
    std::string says;
  };
  const variant variants[] = {
      {{"--stages", "3:0.3,5:0.1"}, "each runs the first 3 of 6 layers; the others run when the question is read"},
      {{"--stages", "2:0.5", "--scorer", "window_attention:window=4"},
       "each runs the first 1 of 6 layers; the others run when the question is read"},
      {{"--policy", "dense"}, "each runs all layers"},
      {{"--policy", "random", "--stages", "0:0.5"}, "each computes nothing; with this policy all layers run when the question is read"},
      {{"--policy", "streaming", "--decode", "dense"}, ""},
  };
  for (const variant& v : variants) {
    CAPTURE(v.says);
    std::vector<std::string> words{
        "-p", question, "-n", "4", "--backend", "reference", "--dtype", "f32", "--trace", files / "t.jsonl", "--trace-logits"};
    words.insert(words.end(), v.flags.begin(), v.flags.end());
    const json whole = without_costs(run_json(words));
    const std::string trace = file_text(files / "t.jsonl");
    const char* const chunks[] = {"7", "1", "1000", "16"};
    for (std::size_t i = 0; i < std::size(chunks); i += one_in(2u)) {
      CAPTURE(chunks[i]);
      std::vector<std::string> cut = words;
      cut.insert(cut.end(), {"--chunk", chunks[i]});
      CHECK(without_costs(run_json(cut)) == whole);
      CHECK(file_text(files / "t.jsonl") == trace);
    }
    std::vector<std::string> shown{"run", "-p", question, "-n", "1", "--chunk", "16", "--compare"};
    shown.insert(shown.end(), v.flags.begin(), v.flags.end());
    const program_result result = lazyprune_program(shown);
    CHECK(result.code == 0);
    CHECK(result.err.find("\nchunks of 16 tokens: " + v.says) != std::string::npos);
  }
  const json cpu = run_json({"-p", question, "-n", "4", "--compare"}),
             cut = run_json({"-p", question, "-n", "4", "--compare", "--chunk", "9"});
  CHECK(cut["tokens"] == cpu["tokens"]);
  CHECK(cut["dense"]["tokens"] == cpu["dense"]["tokens"]);
  CHECK(cut["dense"]["computed"] == cpu["dense"]["computed"]);
}

TEST_CASE("--speculate gives the same text in fewer steps, and counts the drafts that were right") {
  const std::vector<std::string> flags{"-p",    question,    "-n",        "40",      "--ignore-eos", "--decode",
                                       "dense", "--backend", "reference", "--dtype", "f32"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), flags.begin(), flags.end());
    return run_json(more);
  };
  for (const std::vector<std::string>& chosen : {std::vector<std::string>{}, {"--temp", "0.8", "-s", "3"}, {"--stop", " the"}}) {
    const json plain = run(chosen);
    CHECK_FALSE(plain.contains("speculation"));
    std::vector<std::string> guessing = chosen;
    guessing.insert(guessing.end(), {"--speculate", "5"});
    const json fast = run(guessing);
    for (const char* key : {"text", "tokens", "finish_reason"}) CHECK(fast[key] == plain[key]);
    const json& speculation = fast["speculation"];
    CHECK(speculation.size() == 3);
    CHECK(speculation["steps"].get<std::size_t>() + speculation["accepted"].get<std::size_t>() + 1 == fast["tokens"].size());
    CHECK(speculation["accepted"] <= speculation["drafted"]);
    if (chosen.empty()) CHECK(speculation["accepted"].get<std::size_t>() > 0);
  }
  const json one = run({"--speculate", "1"});
  CHECK(one["speculation"] == json{{"steps", 39}, {"drafted", 0}, {"accepted", 0}});

  const program_result shown =
      lazyprune_program({"run", "-p", question, "-n", "20", "--policy", "dense", "--speculate", "4", "--compare", "--chunk", "20"});
  CHECK(shown.code == 0);
  for (const char* line : {"\nsteps after the first ", "\ndrafts accepted ", "the answers agree: the same "})
    CHECK(shown.err.find(line) != std::string::npos);

  const auto fault = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "-p", "x", "--speculate", "4"});
    return complaint(lazyprune_program(words));
  };
  const complaint_at expected("--speculate", {"--decode dense", "does not remember earlier steps", ", found --stages "});
  CHECK(fault({}) == expected);
  CHECK(fault({"--decode", "only"}) == expected);
  for (const char* scorer : {"prompt_window_attention", "accumulated_attention"})
    CHECK(fault({"--decode", "dense", "--scorer", scorer}) == expected);
  CHECK(run({"--speculate", "2", "--scorer", "calibrated_attention"})["speculation"].size() == 3);
  CHECK(fault({"--decode", "dense", "--trace", "t.jsonl"}) == complaint_at("--speculate", {"--speculate or --trace"}));
}

TEST_CASE("--speculate on cpu gives the same text as long as the two best logits differ by more than rounding") {
  struct variant {
    std::vector<std::string> flags;
    /// The most by which rounding may change one logit from run to run, divided by the logits' RMS. It is twice the error of a logit in one
    /// run. Rounding may therefore swap two logits whose gap is up to twice `may_differ`.
    double may_differ;
  };
  for (const variant& v : {variant{{"--dtype", "f32"}, 2e-5}, {{"--exact"}, 0.08}, {{}, 0.16}}) {
    const temporary_folder files;
    std::vector<std::string> words{"-p", question, "-n", "60", "--ignore-eos", "--decode", "dense"};
    words.insert(words.end(), v.flags.begin(), v.flags.end());
    std::vector<std::string> traced = words;
    traced.insert(traced.end(), {"--trace", files / "t.jsonl", "--trace-logits"});
    words.insert(words.end(), {"--speculate", "6"});
    const json plain = run_json(traced), fast = run_json(words);
    CHECK(fast["speculation"]["steps"].get<int>() < 59);
    const auto plain_tokens = plain["tokens"].get<std::vector<unsigned>>(), fast_tokens = fast["tokens"].get<std::vector<unsigned>>();
    CHECK(fast_tokens.size() == plain_tokens.size());
    const auto same = static_cast<std::size_t>(std::ranges::mismatch(plain_tokens, fast_tokens).in1 - plain_tokens.begin());
    MESSAGE("tokens that agree, of 60: " << same);
    if (same == plain_tokens.size()) continue;
    auto logits = lazyprune::read_trace(files / "t.jsonl")[same].logits;
    double squares = 0;
    for (const double logit : logits) squares += logit * logit;
    std::ranges::partial_sort(logits, logits.begin() + 2, std::greater());
    CHECK(logits[0] - logits[1] < 2 * v.may_differ * std::sqrt(squares / static_cast<double>(logits.size())));
  }
}

TEST_CASE("a trace as a page is one complete file, and no other file is left") {
  const temporary_folder files;
  run_json({"-p", question, "-n", "2", "--compare", "--trace", files / "page.html"});
  const std::string page = file_text(files / "page.html");
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(page.find("</html>") != std::string::npos);
  CHECK(page.find("3:0.3,5:0.1") != std::string::npos);
  CHECK(std::distance(std::filesystem::directory_iterator(files.path()), std::filesystem::directory_iterator()) == 1);
}

TEST_CASE("a trace file needs an ending that says its format") {
  CHECK(lazyprune_program({"run", "--ids", "1", "-n", "1", "--trace", "/dev/full"}).code == 1);
}

TEST_CASE("output that cannot be written is reported as an I/O error" NEEDS("dev-full")) {
  if (!std::filesystem::exists("/dev/full")) {
    lazyprune_test::skip("/dev/full");
    return;
  }
  const temporary_folder files;
  std::filesystem::create_symlink("/dev/full", files / "full.jsonl");
  const program_result full = lazyprune_program({"run", "--ids", "1", "-n", "1", "-t", "1", "--trace", files / "full.jsonl"});
  CHECK(told(full, lines_of(full.err).size() - 1) == complaint_at("lazyprune: " + (files / "full.jsonl") + ": unfinished", {}, 3));
}

TEST_CASE("an interrupt ends the run cleanly") {
  const temporary_folder files;
  running_program program(
      {"run", "-p", question, "-n", "3900", "--ignore-eos", "--backend", "reference", "--trace", files / "trace.jsonl"});
  program.until([&] { return !program.out().empty(); });
  program.send(SIGINT);
  const program_result result = program.wait();
  CHECK(result.code == 0);
  CHECK(result.out.ends_with('\n'));
  CHECK(result.err.find("time to first token") != std::string::npos);
  const auto trace = lazyprune::read_trace(files / "trace.jsonl");
  CHECK(trace.size() >= 1);
  CHECK(trace.size() < 3900);
}

TEST_CASE("an early interrupt ends the run cleanly and leaves no empty trace") {
  const temporary_folder files;
  running_program program({"run", "-p", question, "-n", "3900", "--ignore-eos", "--backend", "reference", "--json", "--compare", "--trace",
                           files / "trace.jsonl"});
  program.until([&] { return program.catches(SIGINT); });
  program.send(SIGINT);
  const program_result result = program.wait();
  REQUIRE(result.code == 0);
  const json run = json::parse(result.out);
  CHECK(run["finish_reason"] == "stop");
  CHECK(run["tokens"].size() < 3900);
  CHECK(run["text"].is_string());
  CHECK(run["computed"]["per_layer"].size() == 6);
  CHECK_FALSE(run.contains("dense"));
  CHECK(std::filesystem::exists(files / "trace.jsonl") == !run["tokens"].empty());  // without a step there is no trace
}

TEST_CASE("an interrupt ends the run even in the middle of the prefill") {
  std::string ids = "1";
  for (int i = 1; i < 3000; ++i) ids += ",5";
  const temporary_folder files;
  write_file(files / "trace.jsonl", "an older trace\n");
  running_program program({"run", "--ids", ids, "-n", "1", "--backend", "reference", "-t", "1", "--policy", "dense", "--json", "--trace",
                           files / "trace.jsonl"});
  program.until([&] { return program.catches(SIGINT); });
  program.computes(0.6);  // now it computes the first of six layers; each takes seconds
  program.send(SIGINT);
  const program_result result = program.wait();
  REQUIRE(result.code == 0);
  const json run = json::parse(result.out);
  CHECK(run["finish_reason"] == "stop");
  CHECK(run["tokens"].empty());
  CHECK(run["computed"]["rows"] == 0);  // the step that was stopped does not count
  CHECK(run["computed"]["dense_rows"] == 0);
  CHECK(run["computed"]["per_layer"] == std::vector<int>(6));
  CHECK(result.err == (files / "trace.jsonl") + ": not written, because no step was finished\n");
  CHECK(file_text(files / "trace.jsonl") == "an older trace\n");
}

TEST_CASE("an interrupt that is ignored stays ignored") {
  const temporary_folder files;
  running_program program({"-c", "trap '' INT; exec \"$LAZYPRUNE\" run -p x -n 300 --ignore-eos --trace " + files / "trace.jsonl"}, "",
                          {"LAZYPRUNE=" LAZYPRUNE_PROGRAM}, "/bin/sh");
  program.until([&] { return !program.out().empty(); });  // the answer has begun
  program.send(SIGINT);
  CHECK(program.wait().code == 0);
  CHECK(lazyprune::read_trace(files / "trace.jsonl").size() == 300);
}

TEST_CASE("--exact: activations stay float in products on every path") {
  const auto logits = [](const std::string& isa, const std::string& exact) {
    const temporary_folder files;
    std::vector<std::string> arguments{"run",     "--ids",           "1,5,9,12,40",   "-n", "2", "-t", "1", "--json",
                                       "--trace", files / "t.jsonl", "--trace-logits"};
    if (!exact.empty()) arguments.push_back(exact);
    const program_result result = lazyprune_program(arguments, "", {"LAZYPRUNE_ISA=" + isa});
    REQUIRE_MESSAGE(result.code == 0, result.err);
    return std::pair(nlohmann::json::parse(result.out)["isa"].get<std::string>(), file_text(files / "t.jsonl"));
  };
  const std::vector<std::string> isas = nlohmann::json::parse(lazyprune_program({"inspect", "--json"}).out)["isas"];
  const auto float_on_avx2 = logits("avx2", "");
  for (const std::string& isa : isas) {
    CAPTURE(isa);
    const auto usual = logits(isa, ""), exact = logits(isa, "--exact");
    const bool rounds = isa == "avx512_bf16" || isa == "amx";
    CHECK(exact.first == (rounds ? "avx512" : isa));
    CHECK((exact.second == usual.second) == !rounds);
    if (isa != "portable") CHECK((exact.second == float_on_avx2.second));
  }
}

TEST_CASE("--kv: a type of fewer bits takes less memory, and moves the logits less than its rounding may") {
  const auto logits = [](const std::string& kv) {
    const temporary_folder files;
    std::string ids = "1";
    for (int i = 1; i < 400; ++i) ids += "," + std::to_string(3 + i);
    const program_result result = lazyprune_program({"run", "--ids", ids, "-n", "1", "--policy", "dense", "--json", "--dtype", "f32",
                                                     "--exact", "--kv", kv, "--trace", files / "t.jsonl", "--trace-logits"});
    REQUIRE_MESSAGE(result.code == 0, result.err);
    const auto kept = nlohmann::json::parse(result.out)["memory"]["kv"].get<std::size_t>();
    return std::pair(kept, lazyprune::read_trace(files / "t.jsonl").front().logits);
  };
  const auto [most, exact] = logits("f32");
  CHECK(logits("auto") == std::pair(most, exact));
  double size = 0;
  for (const double x : exact) size += x * x;
  for (const auto& [kv, share, allowed] : {std::tuple{"bf16", 1.0 / 2, 0.04}, {"f16", 1.0 / 2, 0.005}, {"q8_0", 34.0 / 128, 0.04}}) {
    const std::string type = kv;
    CAPTURE(type);
    const auto [bytes, found] = logits(kv);
    CHECK(static_cast<double>(bytes) / static_cast<double>(most) == doctest::Approx(share).epsilon(0.05));
    double difference = 0;
    for (std::size_t i = 0; i < found.size(); ++i) difference += std::pow(found[i] - exact[i], 2);
    CHECK(std::sqrt(difference / size) <= allowed);
    CHECK(difference > 0);
  }
}

TEST_CASE("-c, or else the prompt's length and -n, decides which of LongRoPE's factors the whole text has") {
  const temporary_folder folder;
  for (const char* name : {"model.safetensors", "tokenizer.model", "lazyprune.json"})
    std::filesystem::create_symlink(bundled_model + "/" + name, folder / name);
  const auto logits = [&](const json& scaling, std::vector<std::string> more) {
    json config = json::parse(file_text(bundled_model + "/config.json"));
    config["rope_scaling"] = scaling;
    write_file(folder / "config.json", config.dump());
    more.insert(more.end(), {"-m", folder.path(), "-p", question, "--policy", "dense", "--ignore-eos", "--trace-logits", "--trace",
                             folder / "trace.jsonl"});
    run_json(more);
    std::vector<double> all;
    for (const std::string& line : lines_of(file_text(folder / "trace.jsonl"))) {
      const json step = json::parse(line);
      for (const json& logit : step["logits"]) all.push_back(logit);
    }
    REQUIRE(!all.empty());
    return all;
  };
  const auto difference = [](const std::vector<double>& a, const std::vector<double>& b) {
    REQUIRE(a.size() == b.size());
    double worst = 0;
    for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
    return worst;
  };
  const json longrope{{"type", "longrope"},
                      {"short_factor", std::vector<double>(16, 1.0)},
                      {"long_factor", std::vector<double>(16, 4.0)},
                      {"attention_factor", 1.0},
                      {"original_max_position_embeddings", 64}};
  const json four_times{{"type", "linear"}, {"factor", 4.0}};  // scales as the long factors do; the short factors, all 1, scale nothing
  const std::vector<std::string> few{"-n", "4"}, many{"-n", "40"}, roomy{"-n", "4", "-c", "200"}, tight{"-n", "4", "-c", "64"};
  // With -n 4 the short factors suffice, and with -n 40 they do not: 44 + 4 <= 64 < 44 + 40.
  CHECK(run_json({"-p", question, "-n", "4", "--policy", "dense"})["prompt_tokens"] == 44);
  CHECK(difference(logits(nullptr, few), logits(four_times, few)) > 1.0);
  CHECK(difference(logits(longrope, few), logits(nullptr, few)) < 1e-3);
  CHECK(difference(logits(longrope, tight), logits(nullptr, few)) < 1e-3);
  CHECK(difference(logits(longrope, many), logits(four_times, many)) < 1e-3);
  CHECK(difference(logits(longrope, roomy), logits(four_times, few)) < 1e-3);
}

namespace {

/// `characters` characters of a novel with a number hidden in the middle, the question for the number, and the first words of the answer.
std::string needle_prompt(std::size_t characters, const std::string& number) {
  const std::string novel = file_text((source_dir() / "bench/smollm2/haystack.txt").string());
  const auto until = [&](std::size_t at) { return novel.find('\n', at) + 1; };
  const std::size_t middle = until(characters / 2), end = until(characters);
  return "A special magic number is hidden within the following text. Make sure to memorize it. I will quiz you about the number "
         "afterwards.\n" +
         novel.substr(0, middle) + "One of the special magic numbers for silent-harbor is: " + number + ".\n" +
         novel.substr(middle, end - middle) +
         "What is the special magic number for silent-harbor mentioned in the provided text? The special magic number for silent-harbor "
         "mentioned in the provided text is:";
}

}  // namespace

TEST_CASE("Gemma 3: greedy tokens agree with transformers in float" NEEDS("gemma3")) {
  const std::string model = gemma3();
  const std::filesystem::path expected = test_data("gemma3-270m/greedy.json");
  if (model.empty() || expected.empty()) return;
  const json all = json::parse(file_text(expected.string()));
  CHECK(all.size() == 6);
  for (std::size_t i = 0; i < all.size(); i += one_in(3u)) {
    const json& one = all[i];
    const std::string ids = one["ids"].dump();
    CAPTURE(one["ids"].size());
    REQUIRE(one["min_gap"].get<double>() > 0.01);  // between the two best logits: a smaller gap could close by rounding
    CHECK(run_json({"-m", model, "--ids", ids.substr(1, ids.size() - 2), "--policy", "dense", "--dtype", "f32", "--exact", "--ignore-eos",
                    "-n", std::to_string(one["tokens"].size())})["tokens"] == one["tokens"]);
  }
}

TEST_CASE("Gemma 3: a number hidden in a long text is found, dense and pruned" NEEDS("gemma3")) {
  const std::string model = gemma3();
  if (model.empty()) return;
  const temporary_folder folder;
  for (const auto& [characters, number] : {std::pair(8800u, "7306518"), {17600u, "7306518"}, {70400u, "4829165"}}) {
    const std::size_t about = characters * 5 / 22;  // tokens: 2,000, 4,000 and 16,000
    if (about > 2000 && !in_full()) continue;
    CAPTURE(about);
    write_file(folder / "prompt.txt", needle_prompt(characters, number));
    // Only layers 6, 12 and 18 attend without a window. Layer 18 is the last one, so pruning is possible after 6 or 12 layers.
    const json run =
        run_json({"-m", model, "-f", folder / "prompt.txt", "-n", "9", "--compare", "--policy", "lazyllm_blocks", "--stages", "6:0.1"});
    CHECK(run["prompt_tokens"] > 0.9 * static_cast<double>(about));
    CHECK(run["prompt_tokens"] < 1.1 * static_cast<double>(about));
    for (const json& text : {run["text"], run["dense"]["text"]})
      CHECK_MESSAGE(text.get<std::string>().find(number) != std::string::npos, text);
    CHECK(run["computed"]["rows"].get<double>() < 0.6 * run["dense"]["computed"]["rows"].get<double>());
  }
}
