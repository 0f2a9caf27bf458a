// SPDX-License-Identifier: MIT
#include <lazyprune/eval/records.hpp>

#include <doctest/doctest.h>

#include <lazyprune/eval/chat.hpp>
#include <lazyprune/eval/tasks.hpp>

#include <files/support.hpp>
#include <test_data.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

using strings = std::vector<std::string>;
using faults = std::vector<fault>;

template <class Read>
auto records(Read read, const std::string& text, faults* complaints = nullptr) {
  const temporary_folder folder;
  line_reader lines(folder.write("r.jsonl", text));
  if (!complaints) return read(lines, {});
  return read(lines, [&](const error& e) { complaints->push_back(fault(e).after(folder.path().string() + "/")); });
}

std::vector<eval_sample> samples(const std::string& text, faults* complaints = nullptr) {
  return records([](line_reader& lines, const std::function<void(const error&)>& on_bad) { return read_samples(lines, on_bad); }, text,
                 complaints);
}
std::vector<eval_prediction> predictions(const std::string& text, faults* complaints = nullptr) {
  return records(read_predictions, text, complaints);
}

const std::string longbench =
    R"({"input": "q", "context": "c", "answers": ["a", "b"], "length": 7, "dataset": "trec", "language": "en", "all_classes": ["a"], "_id": "x1"})";

}  // namespace

TEST_CASE("a LongBench sample") {
  CHECK(samples(longbench + "\n") == std::vector<eval_sample>{{.id = "x1",
                                                               .input = "q",
                                                               .context = "c",
                                                               .answers = {"a", "b"},
                                                               .all_classes = strings{"a"},
                                                               .length = 7,
                                                               .dataset = "trec",
                                                               .language = "en"}});
}

TEST_CASE("a RULER sample: its answer_prefix comes last: after the prompt, or in a chat after the end of the chat format") {
  const auto whole = samples(R"({"index": 3, "input": "text", "outputs": ["1", "2"], "length": 9})");
  REQUIRE(whole.size() == 1);
  CHECK(
      whole[0] ==
      eval_sample{
          .id = "3", .input = "text", .context = "", .answers = {"1", "2"}, .all_classes = {}, .length = 9, .dataset = "", .language = ""});
  const eval_sample apart = samples(R"({"index": 3, "input": "text", "outputs": [], "answer_prefix": " Answer:"})")[0];
  CHECK(apart.input == "text");
  CHECK(apart.answer_prefix == " Answer:");
  const eval_task& task = *lazyprune::find_task("niah_single_1");
  CHECK(prompt_of(task, apart) == "text Answer:");
  CHECK(prompt_parts_of(task, apart) == lazyprune::prompt_parts{"", "text", " Answer:"});
  CHECK(in_chat(*lazyprune::find_chat_format("llama2"), task, apart.input, apart.answer_prefix) == "[INST]text[/INST] Answer:");
}

TEST_CASE("bad lines are reported with their place, and the others are read") {
  faults complaints;
  const std::string text = longbench + "\n\n{\"input\": \"q\"\n" + R"({"input": "q", "context": "c", "answers": "a"})" + "\r\n \r\n" +
                           longbench + "\n" + R"({"input": 1, "context": "c", "answers": ["a"]})" + "\n" +
                           R"({"input": "q", "context": "c", "answers": ["a", 2]})" + "\n[]\n" +
                           R"({"input": "q", "context": "c", "answers": ["a"], "length": -2})";
  CHECK(samples(text, &complaints).size() == 2);
  REQUIRE(complaints.size() == 6);
  CHECK(complaints[0] == at("r.jsonl: line 3: byte 13"));
  CHECK(complaints[1] == at("r.jsonl: line 4: answers", {"\"a\""}));
  CHECK(complaints[2] == at("r.jsonl: line 7: input", {", found 1"}));
  CHECK(complaints[3] == at("r.jsonl: line 8: answers[1]", {", found 2"}));
  CHECK(complaints[4] == at("r.jsonl: line 9"));
  CHECK(complaints[5] == at("r.jsonl: line 10: length"));
  const fault refused = error_of([&] { samples(text); });
  CHECK(refused.where.ends_with("/r.jsonl: line 3: byte 13"));
  CHECK(refused.code == error_code::bad_input);
}

TEST_CASE("a sample that the caller's check refuses is a bad line, too") {
  const temporary_folder folder;
  const auto check = [](const eval_sample& sample, const json_value& record) {
    if (sample.answers.empty()) throw error(record.file(), record.place(), "an answer", "none");
  };
  const std::string file =
      folder.write("r.jsonl", longbench + "\n" + R"({"input": "q", "context": "c", "answers": []})" + "\n" + longbench);
  faults complaints;
  const auto on_bad = [&](const error& e) { complaints.emplace_back(e); };
  line_reader lines(file), again(file);
  CHECK(read_samples(lines, on_bad, check).size() == 2);
  REQUIRE(complaints.size() == 1);
  CHECK(complaints[0] == at(file + ": line 2"));
  CHECK(error_of([&] { read_samples(again, {}, check); }) == at(file + ": line 2"));
}

TEST_CASE("predictions of LongBench and of RULER") {
  CHECK(predictions(R"({"pred": "p", "answers": ["a"], "all_classes": null, "length": 5})") ==
        std::vector<eval_prediction>{{.text = "p", .answers = {"a"}, .all_classes = {}, .length = 5, .id = "", .cost = {}}});
  const auto ruler =
      predictions(R"({"index": 4, "pred": "p", "input": "i", "outputs": ["a"], "others": {}, "truncation": -1, "length": -1})");
  CHECK(ruler == std::vector<eval_prediction>{{.text = "p", .answers = {"a"}, .all_classes = {}, .length = {}, .id = "4", .cost = {}}});
}

TEST_CASE("a written prediction reads back as it was") {
  eval_prediction full{
      .text = "p \"q\"\n中", .answers = {"a", ""}, .all_classes = strings{"x"}, .length = 12, .id = "id", .cost = eval_cost{}};
  *full.cost = {.model = "dir/m",
                .method = "--stages 1:0.5",
                .asked = "-n 32",
                .prompt_tokens = 9,
                .generated_tokens = 3,
                .ttft_s = 0.1,
                .dense_ttft_s = 0.3,
                .total_s = 0.7,
                .dense_total_s = 0.8,
                .timed_on = "2 threads, avx2",
                .share_computed = 1.0 / 3,
                .rows = {9, 4},
                .revived = 2,
                .usage = {{9, 4}, {9, 7}},
                .peak_bytes = 1'000'000'000'000};
  eval_prediction bare{.text = "", .answers = {}, .all_classes = {}, .length = {}, .id = "", .cost = {}};
  CHECK(predictions(to_line(full) + "\n" + to_line(bare) + "\n") == std::vector{full, bare});
  CHECK(to_line(bare) == R"({"pred":"","answers":[],"all_classes":null})");
  full.cost->dense_ttft_s.reset();
  full.cost->asked.clear(), full.cost->timed_on.clear(), full.cost->generated_tokens.reset();
  full.cost->total_s.reset(), full.cost->dense_total_s.reset(), full.cost->usage.clear();  // older records lack these members
  CHECK(predictions(to_line(full)) == std::vector{full});
  eval_prediction promptless = full;
  promptless.cost->prompt_tokens = 0;  // its shares would be divided by 0
  const temporary_folder folder;
  const auto path = folder.write("p.jsonl", to_line(promptless));
  line_reader one(path);
  CHECK(error_of([&] { score_predictions(one, *find_task("passage_retrieval_en"), "m"); }) ==
        at(path.string() + ": line 1: run.prompt_tokens", {", found 0"}));
  full.cost->ttft_s.reset();  // samples that are answered in a batch have no time
  CHECK(to_line(full).find("ttft") == std::string::npos);
  CHECK(predictions(to_line(full)) == std::vector{full});
}

TEST_CASE("files of LongBench and RULER are read in full" NEEDS("data")) {
  for (const auto& [name, count, dataset] : {std::tuple{"multi_news", 200u, "multi_news"},
                                             {"passage_retrieval_zh", 200u, "passage_retrieval_zh"},
                                             {"niah_multikey_3", 500u, ""}}) {
    const auto path = test_data(std::string("eval/") + name + ".jsonl");
    if (path.empty()) return;
    line_reader lines(path);
    const auto all = read_samples(lines);
    CHECK(all.size() == count);
    for (const eval_sample& sample : all) {
      REQUIRE(sample.answers.size() == 1);
      REQUIRE(sample.dataset == dataset);
      REQUIRE(*sample.length > 100);
      REQUIRE(sample.input.size() + sample.context.size() > 100);
    }
  }
}

TEST_CASE("a file of predictions: bad lines are reported and skipped, or their error is thrown") {
  const temporary_folder folder;
  const auto path = folder.write("p.jsonl", R"({"pred": "Paragraph 3", "answers": ["Paragraph 3"]})"
                                            "\n{}\n"
                                            R"({"pred": "3", "answers": ["three"]})"
                                            "\n"
                                            R"({"pred": "4", "answers": ["Paragraph 3"]})");
  const eval_task& task = *find_task("passage_retrieval_en");
  faults complaints;
  line_reader lines(path);
  const eval_summary summary = score_predictions(lines, task, "m", [&](const error& e) { complaints.emplace_back(e); });
  CHECK(summary.n == 2);
  CHECK(summary.score.mean == 50);
  REQUIRE(complaints.size() == 2);
  CHECK(complaints[0] == at(path.string() + ": line 2", {"\"pred\""}));
  CHECK(complaints[1] == at(path.string() + ": line 3", {"passage_retrieval_en", "\"Paragraph NUMBER\"", "\"three\""}));
  line_reader again(path);
  CHECK_THROWS_AS(score_predictions(again, task, "m"), error);
  line_reader nothing(folder.write("empty.jsonl", "\n"));
  CHECK(error_of([&] { score_predictions(nothing, task, "m"); }) == at((folder / "empty.jsonl").string()));
}
