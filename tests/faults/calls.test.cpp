// SPDX-License-Identifier: MIT
// Each call of the program to the system fails once. Then the program has the right results, or says in one line which file is at fault.
// The next run goes on as if nothing had happened.
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "faulty_runs.hpp"

using namespace lazyprune_test;

TEST_CASE("a model's file that shrinks while it is mapped ends the program with one line, and leaves no unfinished file") {
  const faulty_run what{"run",
                        [](const std::string& folder) {
                          std::filesystem::copy(bundled_model, folder + "/model");
                          return std::vector<std::string>{"run", "-m",      folder + "/model",  "-p", "the", "-n", "1", "-t",
                                                          "1",   "--trace", folder + "/t.jsonl"};
                        },
                        [](const std::string& folder) { return file_text(folder + "/t.jsonl"); }};
  faulty_folder runs(what);
  const program_result result = runs.run_with("mmap:1:cut");
  CHECK(result.code == 3);
  CHECK(told(result, 1) == complaint_at("lazyprune: " + runs.path() + "/model/model.safetensors: mmap", {}, 3));  // after the memory
  CHECK(remains(runs.path(), true) == std::vector<std::string>{});
  CHECK_FALSE(std::filesystem::exists(runs.path() + "/t.jsonl"));
  runs.clear();
  runs.check_clean_rerun();
}

TEST_CASE("a full disk behind stdout is one line, and exit code 3" NEEDS("dev-full")) {
  if (!std::filesystem::exists("/dev/full")) {
    skip("/dev/full");
    return;
  }
  const temporary_folder files;
  for (const std::string& command :
       {std::string("run -p the -n 2 -t 1 --json"), "eval -d " + prompts("few_shot") + " --limit 1 -n 1 -t 1", std::string("inspect"),
        "search -d " + prompts("few_shot") + " --limit 4 --tries 1 -t 1 --out " + files / "out"}) {
    CAPTURE(command);
    const program_result result = shell("\"$LAZYPRUNE\" " + command + " > /dev/full");
    CHECK(result.code == 3);
    check_complaint(result, "write stdout");
  }
}

TEST_CASE("each call to the system fails once, in each way in which it can: one line names the file, or the results are right") {
  std::size_t faults = 0, failed = 0;
  for (const faulty_run& what : faulty_runs()) {
    CAPTURE(what.name);
    faulty_folder runs(what);
    const program_result undisturbed = runs.run_with("list");
    REQUIRE_MESSAGE(undisturbed.code == 0, undisturbed.err);
    runs.check_results(undisturbed);
    const std::vector<call_fault> all = faults_of(runs.log());
    CHECK(all.size() > 100);
    for (const std::size_t i : drawn(every_fault() ? all.size() : test_all ? 12 / one_in(2u) : 3, 0, all.size())) {
      const call_fault& fault = all[i];
      CAPTURE(fault.text());
      const program_result result = runs.run_with(fault.text());
      const std::vector<std::string> log = lines_of(file_text(runs.log()));
      REQUIRE(log.size() == 1);  // the call was made, and failed
      CAPTURE(log[0]);
      ++faults;
      if (result.code == 0) {
        runs.check_results(result);
        CHECK((fault.must_pass() || !fault.must_fail()));
        continue;
      }
      ++failed;
      CHECK_MESSAGE(!fault.must_pass(), result.err);
      check_complaint(result, log[0]);
      if (fault.call != "unlink") CHECK(remains(runs.path(), true) == std::vector<std::string>{});
      runs.check_clean_rerun();
    }
  }
  MESSAGE(faults << " faults, of which the program reported " << failed);
}

TEST_CASE("each call fails once while a file behind a link is replaced: link and mode stay, and the file is the old or the whole new one") {
  const std::string old = "an older result\n";
  std::size_t faults = 0, replaced = 0;
  for (faulty_run& what : faulty_runs()) {
    if (what.name != "eval" && what.name != "run" && what.name != "calibrate") continue;
    CAPTURE(what.name);
    std::string link, target;
    what.arguments = [&, plain = what.arguments](const std::string& folder) {
      std::vector<std::string> all = plain(folder);
      std::erase(all, "--resume");
      link = all.back();
      target = folder + "/elsewhere/result";
      std::filesystem::create_directory(folder + "/elsewhere");
      write_file(target, old);
      std::filesystem::permissions(target, std::filesystem::perms(0600));
      std::filesystem::create_symlink("elsewhere/result", link);
      return all;
    };
    faulty_folder runs(what);
    REQUIRE(runs.run_with("list").code == 0);
    const std::vector<call_fault> all = faults_of(runs.log());
    for (const std::size_t i : drawn(every_fault() ? all.size() : test_all ? 12 / one_in(2u) : 3, 0, all.size())) {
      const call_fault& fault = all[i];
      CAPTURE(fault.text());
      const program_result result = runs.run_with(fault.text());
      ++faults;
      CHECK(std::filesystem::read_symlink(link) == "elsewhere/result");
      CHECK(std::filesystem::status(target).permissions() == std::filesystem::perms(0600));
      if (result.code != 0 && file_text(target) == old) continue;
      ++replaced;
      CHECK(what.results(runs.path()) == runs.expected());
    }
  }
  MESSAGE(faults << " faults, of which " << replaced << " left the new file");
}
