// SPDX-License-Identifier: MIT
#include "programs/program.hpp"

#include <algorithm>
#include <csignal>
#include <random>
#include <utility>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <test_data.hpp>

#include "programs/without_times.hpp"

using json = nlohmann::json;
using lazyprune_test::without_times;

namespace {

const std::string three_lines = R"({"pred": "\n\nred\nblue", "answers": ["Red"], "all_classes": null, "length": 3})"
                                "\n"
                                R"({"pred": "blue", "answers": ["red", "dark blue"], "all_classes": null, "length": 3})"
                                "\n"
                                R"({"pred": "", "answers": ["red"], "all_classes": null, "length": 3})"
                                "\n";

/// The first `count` samples of a pocket task, one per line.
std::string samples(const std::string& task, int count) {
  const std::string all = file_text(prompts(task));
  std::size_t end = 0;
  for (int i = 0; i < count; ++i) end = all.find('\n', end) + 1;
  return all.substr(0, end);
}

/// Writes a Llama of four layers with random weights and no tokenizer.
void write_random_llama(const temporary_folder& folder) {
  const std::size_t vocabulary = 32'000, hidden = 32, kv = 16, inner = 64, layers = 4;
  write_file(folder / "config.json", json{{"architectures", {"LlamaForCausalLM"}},
                                          {"model_type", "llama"},
                                          {"torch_dtype", "bfloat16"},
                                          {"hidden_act", "silu"},
                                          {"vocab_size", vocabulary},
                                          {"hidden_size", hidden},
                                          {"intermediate_size", inner},
                                          {"num_hidden_layers", layers},
                                          {"num_attention_heads", 4},
                                          {"num_key_value_heads", 2},
                                          {"max_position_embeddings", 4096},
                                          {"rms_norm_eps", 1e-5},
                                          {"rope_scaling", nullptr},
                                          {"tie_word_embeddings", false},
                                          {"bos_token_id", 1},
                                          {"eos_token_id", 2}}
                                         .dump());
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  std::string values;
  std::minstd_rand draws(1);
  const auto add = [&](const std::string& name, const std::vector<std::size_t>& shape) {
    const std::size_t begin = values.size();
    std::size_t count = 1;
    for (const std::size_t extent : shape) count *= extent;
    for (std::size_t i = 0; i < count; ++i) {
      const auto bits = static_cast<std::uint16_t>(0x3e00 | (draws() & 0x80ff));  // bf16: 0.125 to 0.5, of either sign
      values.append({static_cast<char>(bits & 0xff), static_cast<char>(bits >> 8)});
    }
    header[name] = {{"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {begin, values.size()}}};
  };
  add("model.embed_tokens.weight", {vocabulary, hidden});
  for (std::size_t l = 0; l < layers; ++l) {
    const std::string layer = "model.layers." + std::to_string(l) + '.';
    add(layer + "input_layernorm.weight", {hidden});
    add(layer + "self_attn.q_proj.weight", {hidden, hidden});
    add(layer + "self_attn.k_proj.weight", {kv, hidden});
    add(layer + "self_attn.v_proj.weight", {kv, hidden});
    add(layer + "self_attn.o_proj.weight", {hidden, hidden});
    add(layer + "post_attention_layernorm.weight", {hidden});
    add(layer + "mlp.gate_proj.weight", {inner, hidden});
    add(layer + "mlp.up_proj.weight", {inner, hidden});
    add(layer + "mlp.down_proj.weight", {hidden, inner});
  }
  add("model.norm.weight", {hidden});
  add("lm_head.weight", {vocabulary, hidden});
  const std::string text = header.dump();
  std::string length;
  for (std::size_t byte = 0; byte < 8; ++byte) length += static_cast<char>(text.size() >> (8 * byte) & 0xff);
  write_file(folder / "model.safetensors", length + text + values);
}

}  // namespace

TEST_CASE("a model answers, and the summary has the documented keys") {
  const temporary_folder files;
  const program_result result = lazyprune_program({"eval", "-d", "-", "--compare", "-o", "json", "--out", files / "out.jsonl"},
                                                  samples("profile", 2) + samples("few_shot", 3));
  CHECK_MESSAGE(result.code == 0, result.err);
  const json list = json::parse(result.out);
  REQUIRE(list.size() == 2);  // one summary per task
  CHECK(list[0]["task"] == "pocket_profile");
  CHECK(list[0]["n"] == 2);
  CHECK(list[1]["task"] == "pocket_few_shot");
  CHECK(list[1]["n"] == 3);
  CHECK(list[0]["score"] == 50.0);  // these stages lose the answer to profile-1-1 (tests/golden/answers.test.cpp)
  CHECK(list[1]["score"] == 100.0);
  for (const json& summary : list) {
    CHECK(summary["metric"] == "exact_match");
    CHECK(summary["method"] == "lazyllm --stages 3:0.3,5:0.1");
    CHECK(summary["ttft_s"].get<double>() > 0);
    CHECK(summary["speedup_ttft"].get<double>() ==
          doctest::Approx(summary["dense_ttft_s"].get<double>() / summary["ttft_s"].get<double>()).epsilon(1e-12));
    CHECK(summary["per_layer"][2] == 1.0);
    CHECK(summary["per_layer"][3].get<double>() == doctest::Approx(0.3).epsilon(0.01));  // rounded to whole tokens
    CHECK(summary["total_s"].get<double>() > summary["ttft_s"].get<double>());
    CHECK(summary["usage"].size() == 11);
    CHECK(summary["usage"][0] == summary["per_layer"]);
    CHECK(summary["share_computed"].get<double>() > 0.6);
    CHECK(summary["share_computed"].get<double>() < 1.0);
    CHECK(summary["revived"].get<double>() > 0);
    CHECK(summary["peak_bytes"].get<std::uint64_t>() > 2'900'000);  // the weights alone take more
  }
  const std::vector<json> lines = without_times(file_text(files / "out.jsonl"));
  REQUIRE(lines.size() == 5);
  CHECK(lines[0]["pred"] == lines[0]["answers"][0]);
  CHECK(lines[0]["all_classes"].is_null());
  CHECK(lines[0]["length"] == lines[0]["run"]["prompt_tokens"]);  // pocket tasks give `length` in tokens, BOS included

  const program_result again =
      lazyprune_program({"eval", "--predictions", files / "out.jsonl", "--task", "pocket_few_shot", "--method", "m", "-o", "json"});
  CHECK(again.code == 0);
  CHECK(json::parse(again.out)[0]["n"] == 5);
  CHECK(json::parse(again.out)[0]["speedup_ttft"].is_number());
}

TEST_CASE("dense answers, and a prompt that loses its middle") {
  const std::vector<std::string> arguments{"eval", "-d", "-", "--policy", "dense", "-o", "json"};
  const program_result whole = lazyprune_program(arguments, samples("single_doc_qa", 2));
  CHECK_MESSAGE(whole.code == 0, whole.err);
  const json dense = json::parse(whole.out)[0];
  CHECK(dense["method"] == "dense");
  CHECK(dense["share_computed"] == 1.0);
  CHECK(dense["revived"] == 0.0);
  CHECK_FALSE(dense.contains("speedup_ttft"));

  for (const std::vector<std::string>& limit : {std::vector<std::string>{"--max-length", "200"}, {"-c", "232"}}) {
    std::vector<std::string> more = arguments;
    more.insert(more.end(), limit.begin(), limit.end());
    const program_result cut = lazyprune_program(more, samples("single_doc_qa", 2));
    CHECK_MESSAGE(cut.code == 0, cut.err);
    // The remaining halves are encoded anew, so their number of tokens may differ a little from 200.
    CHECK(json::parse(cut.out)[0]["prompt_tokens"].get<double>() == doctest::Approx(200).epsilon(0.02));
  }
}

TEST_CASE("genuine records of RULER" NEEDS("data")) {
  const auto data = test_data("eval/niah_multikey_3.jsonl");
  if (data.empty()) return;
  const temporary_folder files;
  const program_result result = lazyprune_program(
      {"eval", "-d", data.string(), "--limit", "2", "--max-length", "300", "-n", "8", "-o", "json", "--out", files / "out"});
  CHECK_MESSAGE(result.code == 0, result.err);
  CHECK(result.err == "2 of 2 prompts were too long: their middle was left out\n");
  const json list = json::parse(result.out);
  REQUIRE(list.size() == 1);
  CHECK(list[0]["task"] == "niah_multikey_3");  // named after the file
  CHECK(list[0]["metric"] == "string_match_all");
  CHECK(list[0]["n"] == 2);
  CHECK(list[0]["score"] == 0.0);  // the model reads 300 of several thousand tokens, and knows no uuids
  CHECK(list[0]["share_computed"].get<double>() < 1.0);
  const std::vector<json> lines = without_times(file_text(files / "out"));
  REQUIRE(lines.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(lines[i]["_id"] == std::to_string(i));
    CHECK(lines[i]["answers"].size() == 1);
    CHECK(lines[i]["answers"][0].get<std::string>().size() == 36);
    CHECK(lines[i]["run"]["prompt_tokens"].get<double>() == doctest::Approx(300).epsilon(0.02));
  }
  CHECK(lines[0]["answers"] != lines[1]["answers"]);
}

TEST_CASE("a Llama directory as Hugging Face lays it out, with Llama 2's tokenizer" NEEDS("data")) {
  const auto data = test_data("eval/niah_multikey_3.jsonl"), tokens = test_data("tokenizers/llama2/tokenizer.model");
  if (data.empty() || tokens.empty()) return;
  const temporary_folder model;
  write_random_llama(model);
  std::filesystem::copy_file(tokens, model / "tokenizer.model");
  for (const char* policy : {"lazyllm", "dense"}) {
    const program_result result = lazyprune_program({"eval", "-m", model.path(), "-d", data.string(), "--limit", "2", "--max-length",
                                                     "1500", "-n", "8", "--chat", "llama2", "--policy", policy, "-o", "json"});
    REQUIRE_MESSAGE(result.code == 0, result.err);
    const json summary = json::parse(result.out)[0];
    CHECK(summary["task"] == "niah_multikey_3");
    CHECK(summary["n"] == 2);
    CHECK(summary["score"] == 0.0);
    CHECK(summary["prompt_tokens"].get<double>() == doctest::Approx(1500).epsilon(0.02));
    CHECK((summary["share_computed"] == 1.0) == (policy == std::string("dense")));
  }
}

TEST_CASE("an interrupted run goes on without losing or repeating a sample") {
  const temporary_folder files;
  const auto run = [&](const std::string& out, std::vector<std::string> more) {
    std::vector<std::string> arguments{"eval", "-d", prompts("passage_retrieval"), "--limit", "6", "--out", files / out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return lazyprune_program(arguments);
  };
  CHECK(run("whole", {}).code == 0);
  const std::string whole = file_text(files / "whole");
  const std::vector<json> expected = without_times(whole);
  REQUIRE(expected.size() == 6);

  for (const std::size_t end : {std::size_t{0}, whole.find('\n') + 1, whole.size() / 2, whole.size()}) {
    write_file(files / "cut.unfinished", whole.substr(0, end));
    CHECK(run("cut", {"--resume"}).code == 0);
    CHECK(without_times(file_text(files / "cut")) == expected);
    const std::size_t kept = end == 0 ? 0 : whole.rfind('\n', end - 1) + 1;
    CHECK(file_text(files / "cut").substr(0, kept) == whole.substr(0, kept));  // the times are the same, too
    std::filesystem::remove(files / "cut");
  }

  write_file(files / "cut.unfinished", whole);
  CHECK(complaint(run("cut", {})) == complaint_at((files / "cut.unfinished"), {"--resume"}));
  CHECK(complaint(run("cut", {"--resume", "--policy", "dense"})) ==
        complaint_at((files / "cut") + ": prediction 1", {"dense", ", found lazyllm --stages"}));
  CHECK(complaint(run("cut", {"--resume", "--compare"})) == complaint_at((files / "cut") + ": prediction 1", {"--compare"}));
  CHECK(file_text(files / "cut.unfinished") == whole);
}

TEST_CASE("an interrupted run goes on only with the flags with which it began") {
  const temporary_folder files;
  const std::string out = files / "out";
  const auto run = [&](const std::vector<std::string>& more, const std::string& data) {
    std::vector<std::string> arguments{"eval", "-d", "-", "--method", "mine", "--out", out, "--resume"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return lazyprune_program(arguments, data);
  };
  const std::string two = samples("few_shot", 2);
  REQUIRE(run({"--max-length", "200"}, samples("few_shot", 1)).code == 0);
  const std::string first = file_text(out);
  const auto refused = [&](const std::vector<std::string>& more, const std::string& expected, const std::string& data) {
    const complaint_line fault = complaint(run(more, data));
    INFO(fault);
    CHECK(fault == complaint_at(out + ": prediction 1", {"--stages 3:0.3,5:0.1 "}));
    CHECK(fault.substr(0, fault.find(", found ")).find(expected) != fault.npos);
    CHECK(file_text(out) == first);
  };
  refused({"--max-length", "201"}, " -n 32 -c 4096 --max-length 201 ", two);
  refused({}, " --max-length 0 ", two);
  refused({"--max-length", "200", "-n", "31"}, " -n 31 ", two);
  refused({"--max-length", "200", "-c", "1000"}, " -c 1000 ", two);
  refused({"--max-length", "200", "--chat", "llama2"}, " --chat llama2 ", two);
  refused({"--max-length", "200", "--dtype", "f32"}, " --dtype f32, prompt ", two);
  refused({"--max-length", "200", "--task", "pocket_profile"}, " --task pocket_profile ", two);
  refused({"--max-length", "200", "--keep-last", "3"}, " --keep-last 3 ", two);  // the method has the same name, but other flags

  json other = json::parse(samples("few_shot", 1));
  other["context"] = "another " + other["context"].get<std::string>();
  refused({"--max-length", "200"}, " --dtype auto, prompt ", other.dump());

  json old = json::parse(first);
  old["run"].erase("asked");
  write_file(out, old.dump() + "\n");
  CHECK(complaint(run({"--max-length", "200"}, two)) == complaint_at(out + ": prediction 1", {"--stages 3:0.3,5:0.1 "}));
  write_file(out, first);
  CHECK(run({"--max-length", "200"}, two).code == 0);
  CHECK(file_text(out).starts_with(first));
}

TEST_CASE("a run that goes on adds no times to those of other threads or instruction sets") {
  const temporary_folder files;
  const std::string out = files / "out";
  const auto run = [&](const std::string& data, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"eval", "-d", "-", "--max-length", "200", "--out", out, "--resume"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return lazyprune_program(arguments, data);
  };
  const std::string one = samples("few_shot", 1), two = samples("few_shot", 2);
  REQUIRE(run(one, {"-t", "1"}).code == 0);
  const std::string first = file_text(out);
  const std::string timed_on = json::parse(first)["run"]["timed_on"];
  CHECK(timed_on.starts_with("1 thread, "));
  const auto refused = [&](const std::string& text, const std::string& threads, const std::vector<std::string>& said) {
    write_file(out, text);
    CHECK(complaint(run(two, {"-t", threads})) == complaint_at(out + ": prediction 1", said));
    CHECK(file_text(out) == text);
  };
  refused(first, "2", {"expected times measured with 2 threads, ", ", found " + timed_on});
  json other = json::parse(first);
  other["run"]["timed_on"] = "1 thread, another";
  refused(other.dump() + "\n", "1", {"expected times measured with " + timed_on, ", found 1 thread, another"});
  other["run"].erase("timed_on");
  refused(other.dump() + "\n", "1", {"an earlier version"});

  write_file(out, first);
  CHECK(run(one, {"-t", "2"}).code == 0);  // no time is added
  const program_result untimed = run(two, {"-t", "2", "-j", "2"});
  REQUIRE_MESSAGE(untimed.code == 0, untimed.err);
  CHECK_FALSE(json::parse(lines_of(file_text(out))[1])["run"].contains("timed_on"));
  const std::string three = samples("few_shot", 3);
  CHECK(run(three, {"-t", "2"}).code == 1);
  CHECK(run(three, {"-t", "1"}).code == 0);
}

TEST_CASE("several jobs give the same answers in the same order as one job, but no times") {
  const temporary_folder files;
  const auto run = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{
        "eval", "-d", prompts("single_doc_qa"), "-d", prompts("few_shot"), "--limit", "4", "--out", files / out, "-o", "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return lazyprune_program(arguments);
  };
  const program_result alone = run("alone", {"-t", "1"});
  REQUIRE_MESSAGE(alone.code == 0, alone.err);
  const std::vector<json> expected = without_times(file_text(files / "alone"));
  REQUIRE(expected.size() == 8);
  const char* const numbers[] = {"3", "2", "16"};  // more than threads, as many as threads, more than samples
  for (std::size_t i = 0; i < std::size(numbers); i += one_in(2u)) {
    const char* jobs = numbers[i];
    CAPTURE(jobs);
    const program_result beside = run("beside", {"-j", jobs, "-t", "2"});
    REQUIRE_MESSAGE(beside.code == 0, beside.err);
    CHECK_FALSE(std::filesystem::exists(files / "beside.unfinished"));
    CHECK(without_times(file_text(files / "beside")) == expected);
    for (const std::string& line : lines_of(file_text(files / "beside")))
      for (const char* key : {"ttft_s", "total_s"}) CHECK_FALSE(json::parse(line)["run"].contains(key));
    json summaries = json::parse(beside.out), others = json::parse(alone.out);
    for (json& summary : others)
      for (const char* key : {"ttft_s", "ttft_s_ci95", "total_s", "total_s_ci95"}) CHECK(summary.erase(key) == 1);
    for (json& summary : others) CHECK(std::exchange(summary["timed"], 0) == 4);
    CHECK(summaries == others);
  }

  // With several jobs, predictions come in any order. A resumed run keeps the predictions in the file, times included,
  // and asks only for the others.
  const std::vector<std::string> whole = lines_of(file_text(files / "alone"));
  const auto resumed = [&](const std::vector<std::size_t>& there) {
    std::string text;
    for (const std::size_t i : there) text += whole[i] + '\n';
    write_file(files / "cut.unfinished", text);
    return run("cut", {"--resume", "-j", "2", "-t", "2"});
  };
  // From the second case on, the case before has left the finished file `cut`. In the third case FILE.unfinished has all predictions, too.
  // A run that is killed while it sorts the predictions leaves such files.
  for (const std::vector<std::size_t>& there : {std::vector<std::size_t>{}, {6, 1}, {7, 6, 5, 4, 3, 2, 1, 0}, {5, 0, 1, 2, 3, 4, 6}}) {
    const program_result result = resumed(there);
    REQUIRE_MESSAGE(result.code == 0, result.err);
    const std::vector<std::string> lines = lines_of(file_text(files / "cut"));
    CHECK(without_times(file_text(files / "cut")) == expected);
    for (std::size_t i = 0; i < lines.size(); ++i) CHECK((lines[i] == whole[i]) == (std::ranges::find(there, i) != there.end()));
    CHECK_FALSE(std::filesystem::exists(files / "cut.unfinished"));
  }
  CHECK(complaint(resumed({3, 1, 3})) == complaint_at((files / "cut") + ": prediction 3"));
}

TEST_CASE("each of several equal samples is answered") {
  const temporary_folder files;
  const std::string one = samples("few_shot", 1);
  for (const char* jobs : {"1", "2"}) {
    const std::vector<std::string> arguments{"eval", "-d", "-", "--out", files / "out", "--resume", "-j", jobs};
    REQUIRE(lazyprune_program(arguments, one + one).code == 0);
    CHECK(without_times(file_text(files / "out")).size() == 2);
    const program_result more = lazyprune_program(arguments, one + one + one);
    REQUIRE_MESSAGE(more.code == 0, more.err);
    CHECK(without_times(file_text(files / "out")).size() == 3);
    std::filesystem::remove(files / "out");
  }
}

TEST_CASE("a run that is killed at any moment can go on") {
  std::vector<std::string> how;
  SUBCASE("sample by sample") { how = {"-t", "1"}; }
  if (test_all) {
    SUBCASE("two at once") { how = {"-t", "2", "-j", "2"}; }
  }
  const temporary_folder files;
  const std::string limit = std::to_string(30 / one_in(6));
  std::vector<std::string> arguments{"eval", "-d", prompts("few_shot"), "--out", files / "out", "--resume", "--limit", limit};
  arguments.insert(arguments.end(), how.begin(), how.end());
  int killed = 0;
  for (int tries = 0; tries < 200 && !std::filesystem::exists(files / "out"); ++tries) {
    running_program program(arguments);
    // Waits until the file has one more line, or is finished. After a new line the program works on the next sample.
    const auto lines = [&] { return std::ranges::count(file_text(files / "out.unfinished"), '\n'); };
    const auto before = lines();
    program.until([&] { return std::filesystem::exists(files / "out") || lines() > before; });
    program.send(SIGKILL);
    if (program.wait().code == 128 + SIGKILL) ++killed;
  }
  CHECK(killed > 2);
  CHECK(std::filesystem::exists(files / "out"));
  CHECK(lazyprune_program({"eval", "-d", prompts("few_shot"), "--out", files / "whole", "-t", "1", "--limit", limit}).code == 0);
  CHECK(without_times(file_text(files / "out")) == without_times(file_text(files / "whole")));
}

TEST_CASE("a bad sample is reported and left out, or ends the program") {
  const std::string text = "{}\n" + samples("few_shot", 1);
  const program_result left = lazyprune_program({"eval", "-d", "-", "-o", "json"}, text);
  CHECK(left.code == 0);
  CHECK(told(left, 0) == complaint_at("left out: stdin: line 1", {"\"input\""}, 0));
  CHECK(json::parse(left.out)[0]["n"] == 1);
  CHECK(complaint(lazyprune_program({"eval", "-d", "-", "--strict"}, text)) == complaint_at("stdin: line 1", {"\"input\""}));
}

TEST_CASE("of many bad samples the first few are reported, and then the number of the others") {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "no JSON\n";
  const program_result none = lazyprune_program({"eval", "-d", "-", "--task", "trec"}, text);
  CHECK(none.code == 1);
  CHECK(std::ranges::count(none.err, '\n') == 5 + 2);
  CHECK(none.err.find("\nleft out: 95 more\n") != std::string::npos);
  CHECK(told(none, 6) == complaint_at("lazyprune: stdin"));
}

TEST_CASE("stderr says that a finished file of predictions will be replaced, and that prompts lost their middle") {
  const temporary_folder files;
  const std::vector<std::string> arguments{"eval", "-d", "-", "--max-length", "100", "-n", "1", "-t", "1", "--out", files / "out.jsonl"};
  const std::string cut = "1 of 1 prompts were too long: their middle was left out\n";
  CHECK(lazyprune_program(arguments, samples("few_shot", 1)).err == cut);
  CHECK(lazyprune_program(arguments, samples("few_shot", 1)).err ==
        (files / "out.jsonl") + ": this file exists and will be replaced (--resume would continue it)\n" + cut);
}

TEST_CASE("a sample of an unknown task, or one that its task cannot score, is reported and left out") {
  const std::string text = R"({"dataset": "x", "input": "", "context": "", "answers": ["a"]})"
                           "\n" +
                           samples("few_shot", 1) + R"({"dataset": "trec", "input": "", "context": "", "answers": ["a"]})";
  const program_result left = lazyprune_program({"eval", "-d", "-", "-n", "1", "-o", "json"}, text);
  CHECK_MESSAGE(left.code == 0, left.err);
  INFO(left.err);
  CHECK(told(left, 0) == complaint_at("left out: stdin: line 1: dataset", {"LongBench, RULER, pocket or quote", "\"x\""}, 0));
  CHECK(told(left, 1) == complaint_at("left out: stdin: line 3", {"trec"}, 0));
  CHECK(std::ranges::count(left.err, '\n') == 2);
  CHECK(json::parse(left.out)[0]["n"] == 1);
  CHECK(complaint(lazyprune_program({"eval", "-d", "-", "--strict"}, text)) ==
        complaint_at("stdin: line 1: dataset", {"LongBench, RULER, pocket or quote", "\"x\""}));
}

TEST_CASE("predictions are scored by the task's metric, without a model") {
  const temporary_folder files;
  write_file(files / "triviaqa.jsonl", three_lines);
  const program_result result = lazyprune_program({"eval", "--predictions", files / "triviaqa.jsonl", "-o", "json"});
  CHECK_MESSAGE(result.code == 0, result.err);
  CHECK(result.err.empty());
  const json list = json::parse(result.out);
  REQUIRE(list.size() == 1);
  CHECK(list[0]["task"] == "triviaqa");
  CHECK(list[0]["method"] == files / "triviaqa.jsonl");
  CHECK(list[0]["metric"] == "qa_f1");
  CHECK(list[0]["n"] == 3);
  CHECK(list[0]["score"].get<double>() == doctest::Approx(100 * (1 + 2.0 / 3 + 0) / 3).epsilon(1e-12));
  CHECK(list[0]["ci95"][0] == 0.0);
  CHECK(list[0]["ci95"][1] == 100.0);
  CHECK(list[0].size() == 6);
}

TEST_CASE("predictions from stdin, with the task and the method named by flags, as a table and as CSV") {
  const std::vector<std::string> arguments{"eval", "--predictions", "-", "--task", "qasper_e", "--method", "mine"};
  const program_result table = lazyprune_program(arguments, three_lines);
  CHECK(table.code == 0);
  CHECK(table.out.starts_with("| task   | method | metric |"));
  CHECK(table.out.find("| qasper | mine   | qa_f1  |   3 |") != std::string::npos);
  std::vector<std::string> more = arguments;
  more.insert(more.end(), {"-o", "csv"});
  const program_result csv = lazyprune_program(more, three_lines);
  CHECK(csv.code == 0);
  CHECK(csv.out.find("\n\"qasper\",\"mine\",\"qa_f1\",") != std::string::npos);
}

TEST_CASE("a bad line of predictions ends the program, because a score over the rest would differ") {
  const std::string_view cut = R"({"pred": "a", "answers": ["a"], "len)";
  for (const auto& [line, place] :
       {std::pair(std::string_view(R"({"pred": 7})"), "stdin: line 4: pred"), {cut, "stdin: line 4: byte 36"}}) {
    const program_result ended =
        lazyprune_program({"eval", "--predictions", "-", "--task", "qasper"}, three_lines + std::string(line) + "\n" + three_lines);
    CHECK(complaint(ended) == complaint_at(place, {}));
    CHECK(ended.out.empty());
  }
}

TEST_CASE("wrong combinations of flags are refused") {
  const temporary_folder files;
  write_file(files / "x.jsonl", "");
  CHECK(complaint(lazyprune_program({"eval"})) == complaint_at("eval", {"-d and --predictions"}));
  CHECK(complaint(lazyprune_program({"eval", "-d", "x", "--predictions", "y"})) == complaint_at("eval", {"-d and --predictions"}));
  CHECK(complaint(lazyprune_program({"eval", "-d", prompts("few_shot"), "--resume"})) == complaint_at("--resume", {"--out"}));
  for (const std::vector<std::string>& with : {std::vector<std::string>{"--compare"}, {"--predictions", "x"}}) {
    std::vector<std::string> arguments{"eval", "-j", "2"};
    arguments.insert(arguments.end(), with.begin(), with.end());
    CHECK(complaint(lazyprune_program(arguments)) ==
          complaint_at("arguments", {"`lazyprune eval --help-all`", with[0] + " excludes --jobs"}));
  }
  for (const std::vector<std::string>& without_effect : {std::vector<std::string>{"--limit", "1"},
                                                         {"--out", files / "o"},
                                                         {"--resume"},
                                                         {"--compare"},
                                                         {"--stages", "3:0.5"},
                                                         {"-m", bundled_model},
                                                         {"-n", "3"},
                                                         {"--finished", "p"}}) {
    CAPTURE(without_effect[0]);
    CHECK(complaint(lazyprune_program(joined({"eval", "--predictions", "-", "--task", "hotpotqa"}, without_effect), three_lines)) ==
          complaint_at("arguments", {"--predictions", " excludes "}));
  }
  CHECK(complaint(lazyprune_program({"eval", "-d", prompts("few_shot"), "-j", "0"})) == complaint_at("--jobs"));
  CHECK(complaint(lazyprune_program({"eval", "-d", prompts("few_shot"), "--chat", "x"})) ==
        complaint_at("--chat", {"none, llama2, xgen or template", ", found x"}));
  CHECK(complaint(lazyprune_program({"eval", "-d", prompts("few_shot"), "-c", "33"})) == complaint_at("--ctx-size", {"32"}));
  CHECK(complaint(lazyprune_program({"eval", "-d", prompts("few_shot"), "-c", "64", "-n", "18446744073709551614"})) ==
        complaint_at("--ctx-size", {"18446744073709551614", ", found 64"}));
  CHECK(complaint(lazyprune_program({"eval", "-d", files / "x.jsonl", "--task", "vt"})) == complaint_at((files / "x.jsonl")));
  CHECK(complaint(lazyprune_program({"eval", "-d", prompts("few_shot"), "--task", "passage_retrieval_en", "--strict"})) ==
        complaint_at(prompts("few_shot") + ": line 1", {"passage_retrieval_en"}));
  CHECK(complaint(lazyprune_program({"eval", "-d", prompts("few_shot"), "--task", "x"})) ==
        complaint_at("--task", {"LongBench, RULER, pocket or quote", ", found x"}));
  write_file(files / "x.jsonl", R"({"input": "", "context": "", "answers": []})");
  CHECK(complaint(lazyprune_program({"eval", "-d", files / "x.jsonl"})) ==
        complaint_at("--task", {"LongBench, RULER, pocket or quote", "called x"}));
  write_file(files / "x.jsonl", "");
  CHECK(complaint(lazyprune_program({"eval", "--predictions", files / "x.jsonl"})) ==
        complaint_at("--task", {"LongBench, RULER, pocket or quote", "called x"}));
  CHECK(complaint(lazyprune_program({"eval", "--predictions", files / "x.jsonl", "--task", "vt"})) == complaint_at((files / "x.jsonl")));
  CHECK(complaint(lazyprune_program({"eval", "--predictions", files / "none.jsonl"})) == complaint_at(files / "none.jsonl"));
  for (const char* flag : {"-d", "--predictions"})
    CHECK(complaint(lazyprune_program({"eval", flag, files.path(), "--task", "vt"})) == complaint_at(files.path()));
  CHECK(complaint(lazyprune_program({"eval", "-d", prompts("few_shot"), "--limit", "1", "--out", files.path()})) ==
        complaint_at(files.path()));
  CHECK(complaint(lazyprune_program({"eval", "--predictions", "-", "--task", "vt", "-o", "xml"})) ==
        complaint_at("--output", {"md, json or csv", ", found xml"}));
}
