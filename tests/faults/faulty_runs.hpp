// SPDX-License-Identifier: MIT
// Runs of the program whose results are known, undisturbed and with faults of the machine (failing_calls.cpp).
#pragma once

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <test_data.hpp>

#include "drawn_faults.hpp"
#include "programs/program.hpp"
#include "programs/without_times.hpp"

namespace lazyprune_test {

/// The ways in which a call can fail: errno, "short" or "full".
inline const std::map<std::string, std::vector<std::string>>& ways_to_fail() {
  const auto codes = [](std::initializer_list<int> all, std::vector<std::string> more = {}) {
    for (const int code : all) more.push_back(std::to_string(code));
    return more;
  };
  static const std::map<std::string, std::vector<std::string>> all{
      {"open", codes({EINTR, EMFILE, ENFILE, ENOMEM, EIO, EACCES, ENOSPC, EDQUOT, EROFS, ELOOP})},
      {"opendir", codes({EMFILE, ENFILE, ENOMEM, EIO, EACCES})},
      {"read", codes({EINTR, EIO, ENOMEM, ESTALE}, {"short"})},
      {"pread", codes({EINTR, EIO, ENOMEM, ESTALE})},
      {"preadv2", codes({EINTR, EAGAIN, EOPNOTSUPP, EIO, ENOMEM}, {"short"})},
      {"write", codes({EINTR, EIO, ENOSPC, EDQUOT, EFBIG, ENOMEM}, {"short", "full"})},
      {"mmap", codes({ENOMEM, EACCES, ENODEV, EAGAIN, ENFILE})},
      {"fsync", codes({EINTR, EINVAL, EIO, ENOSPC, EDQUOT})},
      {"close", codes({EINTR, EIO, ENOSPC, EDQUOT})},
      {"ftruncate", codes({EINTR, EIO, EFBIG, EPERM})},
      {"lseek", codes({EOVERFLOW})},
      {"flock", codes({EINTR, EWOULDBLOCK, ENOLCK})},
      {"fchmod", codes({EIO, EPERM, EROFS})},
      {"fchown", codes({EIO, EPERM, EROFS})},
      {"fstat", codes({EIO, ENOMEM, EOVERFLOW})},
      {"stat", codes({EIO, ENOMEM, EACCES, ELOOP, EOVERFLOW})},
      {"mkdir", codes({EIO, ENOSPC, EDQUOT, EACCES, EROFS, ENOMEM})},
      {"rename", codes({EIO, ENOSPC, EDQUOT, EACCES, EROFS, EXDEV, ENOMEM})},
      {"unlink", codes({EIO, EACCES, EROFS})},
  };
  return all;
}

/// A call that fails.
struct call_fault {
  std::string call;
  std::size_t number;  // among the calls of this name, from 1
  std::string way;

  /// For the variable LAZYPRUNE_FAULT.
  std::string text() const { return call + ':' + std::to_string(number) + ':' + way; }
  /// Returns whether the program must repeat the call, or do without it.
  bool must_pass() const { return way == "short" || way == std::to_string(EINTR) || (call == "fsync" && way == std::to_string(EINVAL)); }
  /// Returns whether the program must fail, because it may have lost bytes.
  bool must_fail() const { return call == "write" || call == "fsync" || call == "rename" || call == "ftruncate"; }
};

/// Returns each way in which each call of a list of calls can fail.
inline std::vector<call_fault> faults_of(const std::string& list) {
  std::vector<call_fault> faults;
  std::map<std::string, std::size_t> numbers;
  for (const std::string& line : lines_of(file_text(list))) {
    const std::string call = line.substr(0, line.find(' '));
    if (call == "new") continue;
    ++numbers[call];
    for (const std::string& way : ways_to_fail().at(call)) faults.push_back({call, numbers[call], way});
  }
  return faults;
}

/// A command of the program.
struct faulty_run {
  std::string name;
  /// The arguments, if the command writes to this folder.
  std::function<std::vector<std::string>(const std::string& folder)> arguments;
  /// Returns the files of the command, without times.
  std::function<std::string(const std::string& folder)> results;
  std::string predictions = {};  // the name of the file of predictions, if there is one
};

inline std::string predictions_text(const std::string& file) {
  std::string text;
  for (const nlohmann::json& line : without_times(file_text(file))) text += line.dump() + '\n';
  return text;
}

/// Returns whether a file with this name is unfinished.
inline bool is_unfinished(const std::string& name) { return name.find(".unfinished") != name.npos; }

/// The unfinished files in a folder. `of_failed`: without the predictions that wait for --resume.
inline std::vector<std::string> remains(const std::string& folder, bool of_failed) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (const std::string name = entry.path().filename().string(); is_unfinished(name) && !(of_failed && name.ends_with(".unfinished")))
      names.push_back(name);
  return names;
}

inline std::vector<faulty_run> faulty_runs() {
  std::vector<faulty_run> all;
  all.push_back({"eval",
                 [](const std::string& folder) {
                   return std::vector<std::string>{"eval", "-d",    prompts("few_shot"), "--limit", "3", "-n", "4", "-t", "1", "-o",
                                                   "csv",  "--out", folder + "/p.jsonl", "--resume"};
                 },
                 [](const std::string& folder) { return predictions_text(folder + "/p.jsonl"); }, "p.jsonl"});
  all.push_back({"run",
                 [](const std::string& folder) {
                   return std::vector<std::string>{"run", "-p", "the old council", "-n", "6", "-t", "1", "--trace", folder + "/t.jsonl"};
                 },
                 [](const std::string& folder) { return file_text(folder + "/t.jsonl"); }});
  if (!test_all) return all;  // with sanitizers the others take too long
  all.push_back({"sweep",
                 [](const std::string& folder) {
                   return std::vector<std::string>{"sweep", "-d",        prompts("few_shot"), "--limit",   "2",    "--max-length",
                                                   "300",   "--methods", "lazyllm",           "--budgets", "0.75", "-t",
                                                   "1",     "--out",     folder + "/out",     "--resume"};
                 },
                 [](const std::string& folder) {
                   std::string text = predictions_text(folder + "/out/predictions.jsonl");
                   for (const csv_row& row : rows_without_times(folder + "/out/sweep.csv"))
                     for (const auto& [column, value] : row) text.append(column).append("=").append(value).append("\n");
                   return text + (std::filesystem::exists(folder + "/out/report.html") ? "report.html" : "no report.html");
                 },
                 "out/predictions.jsonl"});
  all.push_back(
      {"search",
       [](const std::string& folder) {
         return std::vector<std::string>{
             "search", "-d", prompts("passage_retrieval"), "--limit", "4", "--tries", "3", "-t", "1", "--out", folder + "/out", "--resume"};
       },
       [](const std::string& folder) { return predictions_text(folder + "/out/search.jsonl") + file_text(folder + "/out/search.csv"); },
       "out/search.jsonl"});
  all.push_back({"calibrate",
                 [](const std::string& folder) {
                   std::string text;
                   for (std::size_t i = 0; i < 200; ++i)
                     text += "The lamp " + std::to_string(i) + " is near " + std::to_string(37 * i) + ". ";
                   write_file(folder + "/text.txt", text);
                   return std::vector<std::string>{
                       "calibrate", "-f",    folder + "/text.txt",        "--tokens", "300", "--prompts", "8", "-t",
                       "1",         "--out", folder + "/calibration.json"};
                 },
                 [](const std::string& folder) { return file_text(folder + "/calibration.json"); }});
  all.push_back({"merge",
                 [](const std::string& folder) {
                   static const temporary_folder parts;
                   for (const std::string part : {"1", "2"})
                     if (const std::string done = parts / part; !std::filesystem::exists(done)) {
                       const program_result result =
                           lazyprune_program({"sweep", "-d", prompts("few_shot"), "--limit", "2", "--max-length", "200", "--methods",
                                              "lazyllm", "--budgets", "0.75", "-t", "1", "--part", part + "/2", "--out", done});
                       REQUIRE_MESSAGE(result.code == 0, result.err);
                     }
                   std::filesystem::copy(parts.path(), folder + "/parts",
                                         std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
                   return std::vector<std::string>{"merge", folder + "/parts/1", folder + "/parts/2", "--out", folder + "/out"};
                 },
                 // The parts' times stay as they are, so all bytes are the same.
                 [](const std::string& folder) {
                   return file_text(folder + "/out/predictions.jsonl") + file_text(folder + "/out/sweep.csv") +
                          file_text(folder + "/out/report.html");
                 }});
  return all;
}

/// The environment of a program with this fault. `under`: the value of LAZYPRUNE_FAULT_UNDER.
inline std::vector<std::string> with_fault_under(const std::string& under, const std::string& fault, const std::string& log) {
  std::filesystem::remove(log);
  return {"LD_PRELOAD=" LAZYPRUNE_FAILING_CALLS, "LAZYPRUNE_FAULT=" + fault, "LAZYPRUNE_FAULT_LOG=" + log, "LAZYPRUNE_FAULT_UNDER=" + under,
          "ASAN_OPTIONS=verify_asan_link_order=0"};
}

/// The environment of a program with this fault. Calls count if they are for files in the folder or in the bundled model.
inline std::vector<std::string> with_fault(const std::string& fault, const std::string& folder, const std::string& log) {
  const std::string source = LAZYPRUNE_SOURCE_DIR;
  return with_fault_under(std::filesystem::canonical(folder).string() + ':' + source + "/examples/pocket", fault, log);
}

/// A run in a folder of its own, first undisturbed.
class faulty_folder {
 public:
  explicit faulty_folder(const faulty_run& what) : what_(what) {
    const temporary_folder alone;
    const program_result result = lazyprune_program(what.arguments(alone.path()));
    REQUIRE_MESSAGE(result.code == 0, result.err);
    expected_ = what.results(alone.path());
    out_ = result.out;
  }

  const std::string& expected() const { return expected_; }
  std::string log() const { return logs_ / "log"; }

  /// Empties the folder and runs the command with this fault.
  program_result run_with(const std::string& fault) {
    clear();
    return start(fault)->wait();
  }
  void clear() const {
    for (const auto& entry : std::filesystem::directory_iterator(files_.path())) std::filesystem::remove_all(entry.path());
  }
  std::unique_ptr<running_program> start(const std::string& fault = {}) const {
    std::vector<std::string> variables;
    if (!fault.empty()) variables = with_fault(fault, path(), log());
    return std::make_unique<running_program>(what_.arguments(path()), "", variables);
  }

  /// Runs the command undisturbed after a run that failed. It must go on as if nothing had happened.
  void check_clean_rerun() const {
    const program_result result = lazyprune_program(what_.arguments(files_.path()));
    CHECK_MESSAGE(result.code == 0, result.err);
    if (result.code == 0) check_results(result);
  }
  void check_results(const program_result& result) const {
    if (what_.name == "run") CHECK(result.out == out_);
    CHECK(what_.results(files_.path()) == expected_);
    CHECK(remains(files_.path(), false) == std::vector<std::string>{});
  }
  std::string path() const { return files_.path(); }

  /// The complete lines of the file of predictions, finished or not.
  std::vector<std::string> predictions() const {
    const std::string file = files_ / what_.predictions, begun = file_text(file + ".unfinished");
    std::vector<std::string> all = lines_of(file_text(file));
    if (!begun.empty()) all = lines_of(begun.substr(0, begun.rfind('\n') + 1));
    return all;
  }

 private:
  faulty_run what_;
  temporary_folder files_, logs_;
  std::string expected_, out_;
};

/// Checks that a run that failed says why in one line, and ended with an exit code of its own. Lines before are no complaints. `log`: the
/// call that failed. The line must name its file. An unfinished file goes by the name of the file that it becomes.
inline void check_complaint(const program_result& result, const std::string& log = {}) {
  CHECK_MESSAGE((result.code == 1 || result.code == 3), result.code << ' ' << result.err);
  std::vector<std::string> complaints;
  for (const std::string& line : lines_of(result.err))
    if (line.starts_with("lazyprune: ")) complaints.push_back(line);
  CHECK_MESSAGE(complaints.size() == 1, result.err);
  if (complaints.empty()) return;
  CHECK_MESSAGE(lines_of(result.err).back() == complaints[0], result.err);
  const std::string path = log.substr(log.find(' ') + 1);
  CHECK_MESSAGE(complaints[0].find(path.substr(0, path.find(".unfinished"))) != std::string::npos, complaints[0]);
}

}  // namespace lazyprune_test
