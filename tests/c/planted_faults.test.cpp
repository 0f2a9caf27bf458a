// SPDX-License-Identifier: MIT
// Plants each kind of fault in examples/c_library/engine.c (planted_faults.cmake). `compare --against` must name it.
#include "engines.hpp"

using namespace engines;

namespace {

const std::vector<std::string> flags{"--stages", "2:0.5,4:0.5"};

/// Runs an engine on the end of a bundled prompt and writes its trace to `file`.
void write_trace(const std::string& file, const std::string& engine, const std::string& policy = "custom --stages 2:0.5,4:0.5",
                 const std::vector<std::string>& more = {"full"}) {
  static const std::string prompt = prompts_as_ids().at(3);
  const temporary_folder files;
  write_ids(files / "ids", prompt);
  std::vector<std::string> arguments{bundled_model, files / "ids", "policy", policy, "tokens", "5"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const program_result result = running_program(std::move(arguments), "", {}, engine).wait();
  REQUIRE_MESSAGE(result.code == 0, result.err);
  write_file(file, result.out);
}

std::string planted(const std::string& name) { return LAZYPRUNE_PLANTED "/planted_" + name; }

program_result against(const std::string& file, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"compare", file, "--against", bundled_model};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  return lazyprune_program(arguments);
}

/// Checks that the fault is named with and without --force-plan.
void named(const std::string& file, const std::string& text) {
  for (const std::vector<std::string>& way : {std::vector<std::string>{}, {"--force-plan"}}) {
    const program_result result = against(file, way);
    CAPTURE(result.out);
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK(result.out.find("\ndifferent\n") != std::string::npos);
    CHECK(result.out.find(text) != std::string::npos);
  }
}

/// Returns the line of the verdict that begins with `start`.
std::string line(const program_result& result, const std::string& start) {
  for (const std::string& text : lines_of(result.out))
    if (text.starts_with(start)) return text;
  return "no line begins with " + start + " in\n" + result.out;
}

}  // namespace

TEST_CASE("an engine without a fault passes, whatever its trace records") {
  const temporary_folder files;
  for (const std::vector<std::string>& more : {std::vector<std::string>{"full"}, {}, {"full", "chunk", "30"}, {"fused"}}) {
    write_trace(files / "t", LAZYPRUNE_C_ENGINE, "custom --stages 2:0.5,4:0.5", more);
    for (const std::vector<std::string>& way : {std::vector<std::string>{}, {"--force-plan"}}) {
      const program_result result = against(files / "t", way);
      CAPTURE(result.out);
      CHECK(result.code == 0);
      CHECK(result.out.find("\nalike\n") != std::string::npos);
      const bool full = !more.empty() && more.front() == "full";
      CHECK(line(result, "selection: ") ==
            "selection: follows from the " + std::string(full ? "trace's" : "reference's") + " scores in 5 of 5 steps");
      CHECK(line(result, "scores: ") == (full ? "scores: agree with the reference's in all 10 layers compared"
                                              : "scores: not compared: the trace has none, or its plan differs from the reference's"));
      CHECK(line(result, "logits: ")
                .find(full ? "follow from the plan in 5 steps" : "this check would not find a shifted position or a permuted slot") !=
            std::string::npos);
    }
  }
}

TEST_CASE("compare names a dropped early key") {
  const temporary_folder files;
  write_trace(files / "t", planted("dropped_early_key"));
  named(files / "t", "step 1, layer 0: a dropped early key\n");
  named(files / "t", "are left out: this layer has their keys, and nothing is pruned before it\n");
  write_trace(files / "t", planted("hidden_early_key"));  // the plan does not show this fault; the next selection or the logits may differ
  const program_result result = against(files / "t", {"--force-plan"});
  CAPTURE(result.out);
  CHECK(result.code == 2);
  CHECK(result.out.find("logits: do not follow from the plan, first at step 1, by ") != std::string::npos);
  CHECK(result.out.find("  a dropped early key: stored tokens are not attended to") != std::string::npos);
}

TEST_CASE("compare names a shifted position") {
  const temporary_folder files;
  for (const auto& [name, text] :
       {std::pair("next_position", "rotated one place too far"), std::pair("last_position", "rotated by the text's last position")}) {
    write_trace(files / "t", planted(name));
    const program_result result = against(files / "t", {"--force-plan"});
    CAPTURE(result.out);
    CHECK(result.code == 2);
    CHECK(result.out.find("logits: do not follow from the plan, first at step 1, by ") != std::string::npos);
    CHECK(result.out.find("  a shifted position: rows that come back are " + std::string(text)) != std::string::npos);

    write_trace(files / "t", planted(name), "custom --stages 2:0.5,4:0.5", {});
    CHECK(against(files / "t", {"--force-plan"}).out.find("this check would not find a shifted position or a permuted slot") !=
          std::string::npos);
  }
}

TEST_CASE("compare names a permuted slot") {
  const temporary_folder files;
  for (const auto& [name, text] : {std::pair("reversed_slots", "rows that come back get each other's contents, in reverse order"),
                                   std::pair("reversed_spills", "rows are stored in each other's slots, in reverse order")}) {
    write_trace(files / "t", planted(name));
    const program_result result = against(files / "t", {"--force-plan"});
    CAPTURE(result.out);
    CHECK(result.code == 2);
    CHECK(result.out.find("logits: do not follow from the plan, first at step 1, by ") != std::string::npos);
    CHECK(result.out.find("  a permuted slot: " + std::string(text)) != std::string::npos);
  }
}

TEST_CASE("compare names a token computed twice") {
  const temporary_folder files;
  write_trace(files / "t", planted("computed_twice"));
  named(files / "t", "step 1, layer 0: a token computed twice\n    positions 5 (1) are computed: this layer has their keys\n");
}

TEST_CASE("compare names a lost revival") {
  const temporary_folder files;
  for (const std::vector<std::string>& more : {std::vector<std::string>{"full"}, {}}) {
    write_trace(files / "t", LAZYPRUNE_C_ENGINE, "custom --stages 2:0.5,4:0.5 --store none", more);
    named(files / "t", ": a lost revival\n");
    named(files / "t", "were stored in an earlier step, are selected here, and are left out\n");
  }
}

TEST_CASE("compare names scores of another layer") {
  const temporary_folder files;
  write_trace(files / "t", planted("stale_scores"));
  named(files / "t", "scores: differ from the reference's, first at step 0, layer 1. The largest difference is at position ");
  named(files / "t", ". Cause: scores of another layer, those of layer 0\n");
  CHECK(line(against(files / "t"), "selection: ").find("follows from the trace's scores") != std::string::npos);

  write_trace(files / "t", planted("stale_scores"), "custom --stages 2:0.5,4:0.5", {});
  named(files / "t", "step 0, layer 2: scores of another layer\n");
  named(files / "t", "the scores after layer 0 would keep exactly the tokens that the trace kept\n");
}

TEST_CASE("wrong arguments of compare and traces that cannot be replayed are refused with one line") {
  const temporary_folder files;
  write_trace(files / "t", LAZYPRUNE_C_ENGINE, "custom --stages 2:0.5,4:0.5", {});
  CHECK(complaint(lazyprune_program({"compare", files / "t"})) == complaint_at("compare"));
  CHECK(complaint(lazyprune_program({"compare", files / "t", files / "t", "--against", bundled_model})) == complaint_at("compare"));
  CHECK(complaint(lazyprune_program({"compare", files / "t", files / "t", "--force-plan"})) == complaint_at("--force-plan", {"--against"}));
  CHECK(complaint(lazyprune_program({"compare", files / "t", files / "t", "--scorer", "key_norm"})) ==
        complaint_at("compare", {"--against"}));
  const std::string step = R"({"step":0,"tokens":[1,5],"layers":[{"active":[0,1],"rows":[0,1],"revived":[]}],"next":7)";
  write_file(files / "short", step + "}\n");
  CHECK(complaint(lazyprune_program({"compare", files / "short", "--against", bundled_model})) ==
        complaint_at((files / "short") + ": trace: layers", {"6", ", found 1"}));
  std::string foreign = file_text(files / "t");
  foreign.replace(foreign.find("\"tokens\":[") + 10, 0, "99999,");
  write_file(files / "foreign", foreign);
  CHECK(complaint(against(files / "foreign")) == complaint_at((files / "foreign") + ": tokens: token id", {"2304", ", found 99999"}));
}
