// SPDX-License-Identifier: MIT
#include "programs/program.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <test_data.hpp>

namespace {

const std::string step =
    R"({"step":0,"tokens":[1,5],"layers":[{"active":[0,1],"rows":[0,1],"revived":[]},{"active":[1],"rows":[1],"revived":[]}],"next":7)";

}  // namespace

TEST_CASE("exit code 0: the traces agree") {
  const temporary_folder files;
  write_file(files / "a.jsonl", step + R"(,"logits":[1.0,2.0]})"
                                       "\n");
  write_file(files / "b.jsonl", step + R"(,"logits":[1.0,2.00005]})"
                                       "\n");
  const program_result same = lazyprune_program({"compare", files / "a.jsonl", files / "b.jsonl"});
  CHECK(same.code == 0);
  CHECK(same.out.starts_with("alike: "));
  CHECK(same.err.empty());
}

TEST_CASE("exit code 2: the traces differ") {
  const temporary_folder files;
  write_file(files / "a.jsonl", step + R"(,"logits":[1.0,2.0]})"
                                       "\n");
  write_file(files / "b.jsonl", step + R"(,"logits":[1.0,2.00005]})"
                                       "\n");
  const program_result logits = lazyprune_program({"compare", files / "a.jsonl", files / "b.jsonl", "--tolerance", "1e-5"});
  CHECK(logits.code == 2);
  CHECK(logits.out.starts_with("different: "));
  CHECK(logits.out.find("exceeded first at step 0") != std::string::npos);

  std::string other = step + "}\n";
  other.replace(other.find(R"("active":[1],"rows":[1])"), 23, R"("active":[0],"rows":[0])");
  write_file(files / "c.jsonl", other);
  const program_result active = lazyprune_program({"compare", files / "a.jsonl", files / "c.jsonl"});
  CHECK(active.code == 2);
  CHECK(active.out.find("step 0, layer 1: active") != std::string::npos);

  write_file(
      files / "longer.jsonl",
      step + "}\n" +
          R"({"step":1,"tokens":[7],"layers":[{"active":[2],"rows":[2],"revived":[]},{"active":[2],"rows":[2],"revived":[]}],"next":7})"
          "\n");
  CHECK(lazyprune_program({"compare", files / "a.jsonl", files / "longer.jsonl"}).code == 2);
}

TEST_CASE("a trace may come through a pipe") {
  const temporary_folder files;
  write_file(files / "a.jsonl", step + "}\n");
  const program_result same = shell("cat '" + (files / "a.jsonl") + "' | \"$LAZYPRUNE\" compare /dev/stdin '" + (files / "a.jsonl") + "'");
  CHECK(same.code == 0);
  CHECK(same.out.starts_with("alike: 1 steps"));
}

TEST_CASE("exit code 1: the file is not a trace") {
  const temporary_folder files;
  write_file(files / "a.jsonl", step + "}\n");
  write_file(files / "bad.jsonl", "{\"step\":0}\n");
  CHECK(complaint(lazyprune_program({"compare", files / "a.jsonl", files / "missing.jsonl"})) == complaint_at((files / "missing.jsonl")));
  CHECK(complaint(lazyprune_program({"compare", files / "bad.jsonl", files / "a.jsonl"})) ==
        complaint_at((files / "bad.jsonl") + ": line 1", {"\"tokens\""}));
}

TEST_CASE("our reference confirms the traces of an independent program" NEEDS("data")) {
  const auto folder = test_data("traces");
  if (folder.empty()) return;
  std::size_t compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    CAPTURE(entry.path().string());
    const auto run = nlohmann::json::parse(file_text(entry.path().string()));
    std::string stages;
    for (const auto& [after, share] : run.at("stages").items()) stages += (stages.empty() ? "" : ",") + after + ":" + share.dump();
    std::vector<std::string> arguments{"compare",      entry.path().string() + "l",
                                       "--against",    (folder.parent_path() / run.at("model").get<std::string>()).string(),
                                       "--stages",     stages,
                                       "--keep-first", run.at("keep_first").dump(),
                                       "--keep-last",  run.at("keep_last").dump(),
                                       "--decode",     run.at("decode").get<std::string>()};
    if (compared % 2 == 1) arguments.emplace_back("--force-plan");
    const program_result result = lazyprune_program(arguments);
    CAPTURE(result.out);
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK(result.out.find("logits: follow from the plan in ") != std::string::npos);
    ++compared;
  }
  CHECK(compared > 20);
}
