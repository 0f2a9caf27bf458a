// SPDX-License-Identifier: MIT
#include "programs/program.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "programs/without_times.hpp"

using json = nlohmann::json;

namespace {

using arguments = std::vector<std::string>;

/// A sweep in which one method draws at random. To save time, the prompts lose their middle, so the scores mean nothing.
const arguments small_sweep{"sweep",
                            "-d",
                            prompts("profile"),
                            "-d",
                            prompts("few_shot"),
                            "-t",
                            "1",
                            "--limit",
                            "5",
                            "--max-length",
                            "200",
                            "--budgets",
                            "0.75",
                            "--methods",
                            "lazyllm@3+5,random",
                            "--seeds",
                            "2",
                            "--sensitivity",
                            "1"};

/// Runs one part with its answers in the folder.
program_result part(const arguments& run, const std::string& which, const std::string& folder, const arguments& more = {}) {
  return lazyprune_program(joined(joined(run, {"--part", which, "--out", folder}), more));
}

arguments all_parts(const arguments& run, const temporary_folder& files, std::size_t of, const arguments& more = {}) {
  arguments folders;
  for (std::size_t k = 1; k <= of; ++k) {
    folders.push_back(files / (std::to_string(k) + "-of-" + std::to_string(of)));
    const program_result result = part(run, std::to_string(k) + '/' + std::to_string(of), folders.back(), more);
    REQUIRE_MESSAGE(result.code == 0, result.err);
    CHECK(result.out.empty());
    CHECK(result.err.find("part " + std::to_string(k) + '/' + std::to_string(of) + " is done: ") != std::string::npos);
  }
  return folders;
}

program_result merge(const arguments& folders, const std::string& out, const arguments& more = {}) {
  return lazyprune_program(joined(joined({"merge"}, folders), joined({"--out", out}, more)));
}

/// JSON without the values that are times, or that come from times.
json without_times(json value) {
  if (value.is_object())
    for (const char* key : {"ttft_s", "dense_ttft_s", "speedup_ttft", "total_s", "speedup_total"})
      for (const char* end : {"", "_ci95"}) value.erase(std::string(key) + end);
  if (value.is_structured())
    for (json& inner : value) inner = without_times(inner);
  return value;
}

std::vector<json> predictions_without_times(const std::string& file) { return lazyprune_test::without_times(file_text(file)); }

}  // namespace

TEST_CASE("merged parts of a sweep have the answers, the tables and the page of one run") {
  const temporary_folder files;
  const std::string whole = files / "whole";
  const program_result once = lazyprune_program(joined(small_sweep, {"--out", whole}));
  REQUIRE_MESSAGE(once.code == 0, once.err);

  // The answers of separate processes are those of one process.
  arguments folders = all_parts(small_sweep, files, 3);
  std::ranges::reverse(folders);
  for (const std::string& folder : folders) CHECK_FALSE(std::filesystem::exists(folder + "/sweep.csv"));
  const program_result merged = merge(folders, files / "merged", {"-o", "json"});
  REQUIRE_MESSAGE(merged.code == 0, merged.err);
  CHECK(predictions_without_times(files / "merged/predictions.jsonl") == predictions_without_times(whole + "/predictions.jsonl"));
  const program_result again = merge({whole}, files / "again", {"-o", "json"});
  CHECK(without_times(json::parse(merged.out)) == without_times(json::parse(again.out)));
  CHECK(file_text(files / "merged/run.json") == file_text(whole + "/run.json"));

  // With the same times, every byte is the same: here the answers of one run are dealt out into three folders.
  const json record = json::parse(file_text(whole + "/run.json"));
  std::map<std::string, std::size_t> part_of;  // by sample: its file's task and its id
  for (const json& sample : record["samples"])
    part_of[sample["task"].get<std::string>() + sample["id"].get<std::string>()] =
        std::stoull(sample["digest"].get<std::string>(), nullptr, 16) % 3;
  arguments dealt;
  for (std::size_t k = 0; k < 3; ++k) {
    dealt.push_back(files / ("dealt" + std::to_string(k)));
    std::filesystem::create_directory(dealt.back());
    json mine = record;
    mine["part"] = std::to_string(k + 1) + "/3";
    write_file(dealt.back() + "/run.json", mine.dump());
    std::string lines;
    for (const std::string& line : lines_of(file_text(whole + "/predictions.jsonl"))) {
      const json one = json::parse(line);
      const std::string asked = one["run"]["asked"], task = asked.substr(asked.find("--task ") + 7);
      if (part_of.at(task.substr(0, task.find(' ')) + one["_id"].get<std::string>()) == k) lines += line + '\n';
    }
    write_file(dealt.back() + "/predictions.jsonl", lines);
  }
  const program_result exact = merge({dealt[1], dealt[2], dealt[0]}, files / "exact");
  REQUIRE_MESSAGE(exact.code == 0, exact.err);
  CHECK(exact.out == once.out);
  for (const char* file : {"/predictions.jsonl", "/sweep.csv", "/report.html", "/accuracy.svg", "/run.json"})
    CHECK_MESSAGE(file_text((files / "exact") + file) == file_text(whole + file), file);
}

TEST_CASE("merged parts of an eval have the table of one run") {
  const temporary_folder files;
  const arguments run{"eval",    "-d", prompts("profile"), "-d",  prompts("few_shot"), "-t",   "1",
                      "--limit", "6",  "--max-length",     "200", "--stages",          "3:0.5"};
  const std::string whole = files / "whole.jsonl";
  // With several jobs there are no times, so each byte of the table and of the answers is that of one run.
  const program_result once = lazyprune_program(joined(run, {"-j", "2", "--out", whole, "-o", "json"}));
  REQUIRE_MESSAGE(once.code == 0, once.err);
  const program_result merged = merge(all_parts(run, files, 4, {"-j", "2"}), files / "merged", {"-o", "json"});
  REQUIRE_MESSAGE(merged.code == 0, merged.err);
  CHECK(merged.out == once.out);
  CHECK(file_text(files / "merged/predictions.jsonl") == file_text(whole));

  const temporary_folder compared;
  const arguments with_dense = joined(run, {"--compare", "--method", "m"});
  const program_result timed = merge(all_parts(with_dense, compared, 2), compared / "merged", {"-o", "json"});
  REQUIRE_MESSAGE(timed.code == 0, timed.err);
  for (const json& line : json::parse(timed.out)) {
    CHECK(line["method"] == "m");
    CHECK(line["timed"] == 6);
    CHECK(line.contains("speedup_ttft"));
  }
  CHECK(complaint(merge({compared / "1-of-2", files / "1-of-4"}, compared / "x")) ==
        complaint_at((files / "1-of-4/run.json") + ": setting 1"));
}

TEST_CASE("merged parts of a fidelity have the table of one run") {
  const temporary_folder files;
  std::string text;
  for (std::size_t i = 0; i < 100; ++i) text += "The lamp of house " + std::to_string(7 * i) + " is near tree " + std::to_string(i) + ". ";
  write_file(files / "text", text);
  const arguments run{"fidelity", "-f", files / "text", "--places",         "5",         "--prefix", "64", "-n", "8",
                      "-t",       "1",  "--methods",    "lazyllm@3,random", "--budgets", "0.75"};
  const program_result once = lazyprune_program(joined(run, {"-o", "json"}));
  REQUIRE_MESSAGE(once.code == 0, once.err);
  const arguments folders = all_parts(run, files, 2);
  const program_result merged = merge(folders, files / "merged", {"-o", "json"});
  REQUIRE_MESSAGE(merged.code == 0, merged.err);
  CHECK(without_times(json::parse(merged.out)) == without_times(json::parse(once.out)));
  const program_result third = part(run, "1/3", files / "third", {"--finished", folders[0], "--finished", folders[1]});
  CHECK(third.err.find("part 1/3 is done: 0 of 5 samples") != std::string::npos);

  // The whole run goes on after the texts of a part, and every byte of its table is the merged one's.
  std::filesystem::create_directory(files / "resumed");
  std::filesystem::copy(files / "merged/comparisons.jsonl", files / "resumed/comparisons.jsonl");
  const program_result resumed = lazyprune_program(joined(run, {"--out", files / "resumed", "--resume", "-o", "json"}));
  CHECK(resumed.out == merged.out);
  const arguments other = joined(arguments(run.begin(), run.end() - 1), {"0.8", "--out", files / "resumed", "--resume"});
  CHECK(complaint(lazyprune_program(other)) == complaint_at((files / "resumed/comparisons.jsonl") + ": comparison 1"));
}

TEST_CASE("a text is in the same part of a fidelity however its path is typed, and a run goes on under another path") {
  const temporary_folder files;
  std::filesystem::create_directory(files / "folder");
  arguments plain{"fidelity"}, typed{"fidelity"};
  for (const std::string name : {"a", "b", "c", "d", "e", "f"}) {
    std::string text;
    for (int i = 0; i < 20; ++i) text += "The lamp of house " + name + std::to_string(i) + " is near the tree. ";
    write_file(files / name, text);
    plain = joined(plain, {"-f", files / name});
    typed = joined(typed, {"-f", files / ("folder/../" + name)});
  }
  const arguments more{"-t", "1", "--prefix", "32", "-n", "2", "--policy", "lazyllm", "--stages", "3:0.5"};
  plain = joined(plain, more), typed = joined(typed, more);
  const program_result once = lazyprune_program(joined(plain, {"-o", "json"}));
  REQUIRE_MESSAGE(once.code == 0, once.err);
  const arguments folders{files / "first", files / "second"};
  REQUIRE(part(plain, "1/2", folders[0]).code == 0);
  REQUIRE(part(typed, "2/2", folders[1]).code == 0);
  const program_result merged = merge(folders, files / "merged", {"-o", "json"});
  REQUIRE_MESSAGE(merged.code == 0, merged.err);
  CHECK(without_times(json::parse(merged.out)) == without_times(json::parse(once.out)));

  const program_result resumed = part(typed, "1/2", folders[0], {"--resume"});
  CHECK_MESSAGE(resumed.code == 0, resumed.err);
}

TEST_CASE("a fidelity that goes on adds no times to those of other threads") {
  const temporary_folder files;
  const std::string out = files / "out";
  write_file(files / "a", "The lamp of house 7 is near tree 1. The lamp of house 14 is near tree 2.");
  write_file(files / "b", "The lamp of house 21 is near tree 3. The lamp of house 28 is near tree 4.");
  const auto run = [&](const std::string& threads, const arguments& texts) {
    return lazyprune_program(
        joined({"fidelity", "--prefix", "8", "-n", "2", "--stages", "3:0.5", "--out", out, "--resume", "-t", threads}, texts));
  };
  const arguments one{"-f", files / "a"}, two{"-f", files / "a", "-f", files / "b"};
  REQUIRE(run("1", one).code == 0);
  CHECK(complaint(run("2", two)) == complaint_at(out + "/comparisons.jsonl: comparison 1", {"2 threads, ", ", found 1 thread, "}));
  CHECK(run("2", one).code == 0);  // no time is added
  CHECK(run("1", two).code == 0);
}

TEST_CASE("the number of parts may change, and no finished sample is answered again") {
  const temporary_folder files;
  const arguments two = all_parts(small_sweep, files, 2);
  // The second part was killed: its last sample is incomplete, and so is its last line.
  const std::string killed = files / "killed", all = file_text(two[1] + "/predictions.jsonl");
  std::filesystem::create_directory(killed);
  std::filesystem::copy(two[1] + "/run.json", killed + "/run.json");
  write_file(killed + "/predictions.jsonl.unfinished", all.substr(0, all.size() - 7));
  arguments folders{two[0], killed};
  std::set<std::string> known;
  const auto answers_in = [&](const std::string& folder) {
    std::set<std::string> samples;
    for (const json& line : predictions_without_times(folder + "/predictions.jsonl"))
      samples.insert(line["run"]["asked"].dump() + line["_id"].dump());
    return samples;
  };
  std::size_t answered = 0;
  for (const std::string which : {"1/3", "2/3", "3/3"}) {
    folders.push_back(files / ("new" + std::string(which, 0, 1)));
    const program_result result = part(small_sweep, which, folders.back(), {"--finished", two[0], "--finished", killed});
    REQUIRE_MESSAGE(result.code == 0, result.err);
    answered += answers_in(folders.back()).size();
  }
  CHECK(answered > 0);
  CHECK(answered <= 4 + 25);  // the answers to one sample
  const program_result merged = merge(folders, files / "merged");
  REQUIRE_MESSAGE(merged.code == 0, merged.err);
  REQUIRE(merge(two, files / "expected").code == 0);
  CHECK(predictions_without_times(files / "merged/predictions.jsonl") == predictions_without_times(files / "expected/predictions.jsonl"));

  // A part that the clock ended is not done.
  const program_result ended = part(small_sweep, "1/1", files / "ended", {"--minutes", "0.000001"});
  CHECK(ended.code == 0);
  CHECK(ended.err.find("1 of 10 samples; --resume continues\n") != std::string::npos);
  CHECK(ended.err.find("is done") == std::string::npos);

  // A resumed folder keeps the answers to samples that are no longer in its part.
  const std::size_t before = lines_of(file_text(two[0] + "/predictions.jsonl")).size();
  REQUIRE(part(small_sweep, "1/5", two[0], {"--resume"}).code == 0);
  CHECK(lines_of(file_text(two[0] + "/predictions.jsonl")).size() >= before);
  CHECK(merge({two[0], two[1]}, files / "kept").code == 0);
}

TEST_CASE("merge says what is missing") {
  const temporary_folder files;
  const arguments folders = all_parts(small_sweep, files, 3);
  const auto samples_in = [](const std::string& folder) {
    std::set<std::string> samples;
    for (const json& line : predictions_without_times(folder + "/predictions.jsonl"))
      samples.insert(line["answers"].dump() + line["_id"].dump());
    return samples.size();
  };
  const std::size_t in_second = samples_in(folders[1]), in_third = samples_in(folders[2]);
  REQUIRE(in_second > 1);
  CHECK(complaint(merge({folders[0], folders[1]}, files / "x")) ==
        complaint_at("merge", {"all 10 samples", "found " + std::to_string(10 - in_third),
                               "part 3/3 has no folder and lacks " + std::to_string(in_third)}));
  const std::string all = file_text(folders[1] + "/predictions.jsonl");
  std::filesystem::rename(folders[1] + "/predictions.jsonl", folders[1] + "/predictions.jsonl.unfinished");
  write_file(folders[1] + "/predictions.jsonl.unfinished", all.substr(0, all.rfind('\n', all.size() - 2) + 20));
  CHECK(complaint(merge(folders, files / "x")) == complaint_at("merge", {"part 2/3 in " + folders[1] + " is unfinished and lacks 1"}));
  CHECK_FALSE(std::filesystem::exists(files / "x"));
  std::filesystem::remove(folders[1] + "/predictions.jsonl.unfinished");
  CHECK(complaint(merge(folders, files / "x")) ==
        complaint_at("merge", {"part 2/3 in " + folders[1] + " is unfinished and lacks " + std::to_string(in_second)}));
  std::filesystem::remove(folders[1] + "/run.json");
  CHECK(complaint(merge(folders, files / "x")) == complaint_at(folders[1] + "/run.json"));
  CHECK(complaint(merge({folders[0], files / "none"}, files / "x")) == complaint_at((files / "none/run.json")));
}

TEST_CASE("merge refuses folders that contradict each other") {
  const temporary_folder files;
  const arguments folders = all_parts(small_sweep, files, 2);
  const auto fault = [&](const arguments& run, const std::string& file, const arguments& values) {
    const temporary_folder other;
    REQUIRE(part(run, "2/2", other / "o").code == 0);
    return complaint(merge({folders[0], other / "o"}, files / "x")) == complaint_at((other / "o/") + file, values);
  };
  arguments changed = small_sweep;
  *std::ranges::find(changed, "0.75") = "0.8";
  CHECK(fault(changed, "run.json: setting 2", {"0.75", "0.8"}));
  changed = small_sweep;
  *std::ranges::find(changed, "200") = "150";
  CHECK(fault(changed, "run.json: sample 1 of " + prompts("profile") + " (profile-1-0)", {"--max-length 200", "--max-length 150"}));
  std::filesystem::copy(bundled_model, files / "model", std::filesystem::copy_options::recursive);
  CHECK(fault(joined(small_sweep, {"-m", files / "model"}), "run.json: model", {bundled_model, files / "model"}));
  CHECK(fault({"eval", "-d", prompts("profile"), "--limit", "2"}, "run.json: command", {"\"sweep\"", "\"eval\""}));

  // The same sample twice, with different answers; equal answers are no contradiction.
  const std::string twin = files / "twin";
  std::filesystem::copy(folders[0], twin, std::filesystem::copy_options::recursive);
  CHECK(merge({folders[0], folders[1], twin}, files / "fine").code == 0);
  arguments lines = lines_of(file_text(twin + "/predictions.jsonl"));
  json line = json::parse(lines[1]);
  line["pred"] = "another answer";
  std::string text = lines[0] + '\n' + line.dump() + '\n';
  for (std::size_t i = 2; i < lines.size(); ++i) text += lines[i] + '\n';
  write_file(twin + "/predictions.jsonl", text);
  const program_result twice = merge({folders[0], folders[1], twin}, files / "x");
  CHECK(twice.code == 1);
  CHECK(twice.err.starts_with("lazyprune: " + twin + "/predictions.jsonl: line 2: sample "));
  CHECK(twice.err.find(folders[0] + "/predictions.jsonl, line 2") != std::string::npos);

  // An answer that is none of the run's.
  line["run"]["method"] = "another method";
  write_file(twin + "/predictions.jsonl", line.dump() + '\n');
  CHECK(complaint(merge({folders[0], folders[1], twin}, files / "x")) == complaint_at(twin + "/predictions.jsonl: line 1"));
  CHECK(complaint(merge(folders, folders[0])) == complaint_at("--out", {folders[0]}));
  const std::string begun = files / "begun";  // where another run was interrupted
  std::filesystem::create_directory(begun);
  write_file(begun + "/predictions.jsonl.unfinished", "");
  CHECK(complaint(merge(folders, begun)) == complaint_at(begun + "/predictions.jsonl.unfinished", {"another folder"}));
  CHECK(std::filesystem::exists(begun + "/predictions.jsonl.unfinished"));
  CHECK_FALSE(std::filesystem::exists(files / "x"));
}

TEST_CASE("--part and --finished: wrong values and combinations are refused") {
  const temporary_folder files;
  for (const char* wrong : {"0/3", "4/3", "2", "x/y", ""})
    CHECK(complaint(part(small_sweep, wrong, files / "x")) == complaint_at("--part", {"K/N"}));
  CHECK_FALSE(std::filesystem::exists(files / "x"));
  for (const arguments& run : {arguments{"eval", "-d", prompts("profile")}, arguments{"fidelity", "-f", prompts("profile")}}) {
    CHECK(complaint(lazyprune_program(joined(run, {"--part", "1/2"}))) == complaint_at("--part", {"--out"}));
    CHECK(complaint(lazyprune_program(joined(run, {"--finished", files / "x"}))) == complaint_at("--finished", {"--part"}));
    CHECK(lazyprune_program(joined(run, {"--part", "1/2", "--out", files / "x", "-o", "csv"})).code == 1);
  }
  CHECK(complaint(lazyprune_program({"eval", "--predictions", "p", "--part", "1/2"})) == complaint_at("--part", {"-d"}));
  CHECK(complaint(part(small_sweep, "1/2", files / "x", {"--finished", files / "none"})) == complaint_at((files / "none/run.json")));
  REQUIRE(part({"eval", "-d", prompts("profile"), "--limit", "1"}, "1/1", files / "eval").code == 0);
  CHECK(complaint(part(small_sweep, "1/2", files / "x", {"--finished", files / "eval"})) ==
        complaint_at((files / "eval/run.json") + ": command"));
  const std::string answers = file_text(files / "eval/predictions.jsonl");
  for (const std::string& same : {files / "eval", files / "eval/../eval"})
    CHECK(complaint(part({"eval", "-d", prompts("profile"), "--limit", "1"}, "1/1", files / "eval", {"--finished", same})) ==
          complaint_at("--finished", {same}));
  CHECK(file_text(files / "eval/predictions.jsonl") == answers);
  CHECK_FALSE(std::filesystem::exists(files / "x"));
}

TEST_CASE("a run that fails before its first answer leaves the finished part as it was") {
  const temporary_folder files;
  const arguments eval{"eval", "-d", prompts("profile"), "--limit", "1", "--max-length", "100"},
      sweep{"sweep", "-d", prompts("profile"), "--limit", "1", "--max-length", "100", "--methods", "lazyllm@3"};
  for (const arguments& run : {eval, sweep}) {
    const std::string folder = files / run[0], answers = folder + "/predictions.jsonl", record = folder + "/run.json";
    CAPTURE(folder);
    REQUIRE(part(run, "1/1", folder).code == 0);
    const std::string text = file_text(record);
    const arguments fails{"--task", "hotpotqa", "--chat", "xgen", "-c", "36"};  // the words of the chat alone fill the context
    CHECK(complaint(part(run, "1/1", folder, fails)).find("profile-1-0: prompt") != std::string::npos);
    CHECK(file_text(record) == text);
    write_file(answers + ".unfinished", "");  // a process that was killed leaves this
    CHECK(merge({folder}, files / (run[0] + "-merged")).code == 0);
    REQUIRE(part(run, "1/1", folder, {"--dtype", "f32"}).code == 0);
    CHECK(file_text(record).find("--dtype f32") != std::string::npos);
    CHECK(merge({folder}, files / (run[0] + "-again")).code == 0);
  }
}

TEST_CASE("answers of another model at the same path are neither continued nor merged") {
  const temporary_folder files;
  const std::string model = files / "model", weights = model + "/model.safetensors";
  std::filesystem::copy(bundled_model, model, std::filesystem::copy_options::recursive);
  write_file(files / "text", "The lamp of house 7 is near tree 1. The lamp of house 8 is near tree 2.");
  const arguments eval{"eval", "-m", model, "-d", prompts("profile"), "--max-length", "100", "--limit"},
      fidelity{"fidelity", "-m", model, "-f", files / "text", "--out", files / "f"};
  REQUIRE(lazyprune_program(joined(eval, {"1", "--out", files / "e"})).code == 0);
  REQUIRE(lazyprune_program(fidelity).code == 0);
  REQUIRE(lazyprune_program(joined(fidelity, {"--resume"})).code == 0);

  std::string bytes = file_text(weights);
  std::size_t header = 0;
  for (std::size_t i = 8; i-- > 0;) header = header << 8 | static_cast<unsigned char>(bytes[i]);
  // Adapters that are merged into a model change its matrices, and no norm.
  const json matrix = json::parse(bytes.substr(8, header))["model.layers.2.mlp.down_proj.weight"]["data_offsets"];
  for (std::size_t i = matrix[0]; i < matrix[1]; ++i) bytes[8 + header + i] = 0;
  std::filesystem::remove(weights);
  write_file(weights, bytes);
  CHECK(complaint(lazyprune_program(joined(eval, {"2", "--out", files / "e", "--resume"}))) ==
        complaint_at((files / "e") + ": prediction 1", {", model "}));
  CHECK(complaint(lazyprune_program(joined(fidelity, {"--resume"}))) == complaint_at((files / "f/comparisons.jsonl") + ": comparison 1"));
}

TEST_CASE("a run with names that are not UTF-8 can go on and can be merged") {
  const temporary_folder files;
  const std::string model = files / "mod\xe9l", data = files / "d\xe9.jsonl";
  std::filesystem::create_directory_symlink(bundled_model, model);
  std::filesystem::create_symlink(prompts("profile"), data);
  std::filesystem::create_symlink(prompts("profile"), files / "t\xe9xt");
  const arguments asks{"-m", model, "-d", data, "--task", "pocket_profile", "--limit", "2", "--max-length", "100"};
  const std::vector<arguments> runs{joined({"eval", "--method", "m\xe9"}, asks),
                                    joined({"sweep", "--methods", "dense", "--variant", "v\xe9=--stages 3:0.5"}, asks),
                                    {"fidelity", "-m", model, "-f", files / "t\xe9xt", "-c", "200", "-n", "4", "--methods", "dense",
                                     "--variant", "v\xe9=--stages 3:0.5"}};
  for (const arguments& run : runs) {
    const temporary_folder folder;
    const arguments folders = all_parts(run, folder, 2);
    for (const arguments& more : {arguments{"--resume"}, {"--resume", "--finished", folders[1]}}) {
      const program_result again = part(run, "1/2", folders[0], more);
      CHECK_MESSAGE(again.code == 0, again.err);
    }
    const program_result merged = merge(folders, folder / "merged", {"-o", "json"});
    CHECK_MESSAGE(merged.code == 0, merged.err);
    CHECK(merged.out.find("\xef\xbf\xbd") != std::string::npos);
  }
}

TEST_CASE("a part may have no sample") {
  const temporary_folder files;
  const arguments run{"eval", "-d", prompts("profile"), "--limit", "2", "--max-length", "100"};
  const arguments folders = all_parts(run, files, 8);
  CHECK(merge(folders, files / "merged").code == 0);
  CHECK(std::ranges::any_of(folders, [](const std::string& folder) { return file_text(folder + "/predictions.jsonl").empty(); }));
}
