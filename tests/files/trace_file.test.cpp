// SPDX-License-Identifier: MIT
#include <lazyprune/files/trace_file.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <sstream>

#include <files/support.hpp>
#include <random_trace.hpp>
#include <test_data.hpp>

namespace {

using lazyprune::read_trace;
using lazyprune::step_trace;
using lazyprune::to_line;
using lazyprune_test::at;
using lazyprune_test::error_of;
using lazyprune_test::fault;
using lazyprune_test::random_trace;
using lazyprune_test::temporary_folder;

std::string text_of(const std::vector<step_trace>& steps) {
  std::string text;
  for (const step_trace& step : steps) text += to_line(step) + '\n';
  return text;
}

/// Reads a trace with another parser (nlohmann::json). Tests compare the result with read_trace's.
std::vector<step_trace> by_tree(const std::string& text) {
  std::vector<step_trace> steps;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto tree = nlohmann::json::parse(line);
    step_trace& step = steps.emplace_back();
    tree.at("step").get_to(step.step);
    tree.at("tokens").get_to(step.tokens);
    tree.at("next").get_to(step.next);
    if (tree.contains("logits")) tree.at("logits").get_to(step.logits);
    for (const auto& layer : tree.at("layers"))
      step.layers.push_back({layer.at("active").get<std::vector<lazyprune::position>>(),
                             layer.at("rows").get<std::vector<lazyprune::position>>(),
                             layer.at("revived").get<std::vector<lazyprune::position>>(),
                             layer.contains("scores") && !layer.at("scores").is_null() ? layer.at("scores").get<std::vector<float>>()
                                                                                       : std::vector<float>{}});
    if (tree.contains("margin"))
      for (const auto& margin : tree.at("margin"))
        step.margin.push_back(margin.is_null() ? std::nullopt : std::optional<double>(margin.get<double>()));
  }
  return steps;
}

const std::string two_steps =
    R"({"step":0,"tokens":[1,5,9],"layers":[{"active":[0,1,2],"rows":[0,1,2],"revived":[]},{"active":[0,2],"rows":[0,2],"revived":[]}],"next":17,"logits":[1,2.5,-3]})"
    "\n"
    R"({"step":1,"tokens":[17],"layers":[{"active":[0,1,2,3],"rows":[3],"revived":[]},{"active":[1,3],"rows":[1,3],"revived":[1]}],"next":4,"margin":[0.25]})"
    "\n";

/// Returns two_steps with `part` replaced. Fails the test if two_steps does not contain `part`.
std::string with(const std::string& part, const std::string& instead) {
  const std::size_t at = two_steps.find(part);
  REQUIRE(at != std::string::npos);
  return std::string(two_steps).replace(at, part.size(), instead);
}

/// Returns the error of read_trace for this text, without the file's name.
fault complaint(const std::string& text) {
  const temporary_folder folder;
  const auto path = folder.write("t.jsonl", text);
  return error_of([&] { read_trace(path); }).after(path.string() + ": ");
}

}  // namespace

TEST_CASE("a layer may have scores, or null if none were recorded") {
  const std::string scored = with(R"("revived":[]},{"active":[0,2])", R"("revived":[],"scores":[0.1,0.25,3e-7]},{"active":[0,2])");
  const temporary_folder folder;
  const auto path = folder.write("t.jsonl", scored);
  const auto steps = read_trace(path);
  CHECK(steps[0].layers[0].scores == std::vector<float>{0.1f, 0.25f, 3e-7f});
  CHECK(steps[0].layers[1].scores.empty());
  CHECK(by_tree(scored) == steps);
  CHECK(by_tree(text_of(steps)) == steps);
  CHECK(
      read_trace(folder.write("null.jsonl", with(R"("revived":[]},{"active":[0,2])", R"("revived":[],"scores":null},{"active":[0,2])")))[0]
          .layers[0]
          .scores.empty());
  CHECK(complaint(with(R"("revived":[]},{"active":[0,2])", R"("revived":[],"scores":[1,2]},{"active":[0,2])")) ==
        at("line 1: layers[0].scores", {", found 2"}));
  CHECK(complaint(with(R"("revived":[]},{"active":[0,2])", R"("revived":[],"scores":[1,null,2]},{"active":[0,2])")) ==
        at("line 1: layers[0].scores[1]"));
  CHECK(complaint(with(R"("revived":[]},{"active":[0,2])", R"("revived":[],"scores":[1,1e300,2]},{"active":[0,2])")) ==
        at("line 1: layers[0].scores[1]", {", found 1"}));
  CHECK(complaint(with(R"("revived":[]},{"active":[0,2])", R"("revived":[],"scores":7},{"active":[0,2])")) ==
        at("line 1: layers[0].scores", {", found 7"}));
}

TEST_CASE("lines have the documented format") {
  step_trace step{
      .step = 0, .tokens = {1, 5, 9}, .layers = {{{0, 1, 2}, {0, 1, 2}, {}}, {{0, 2}, {2}, {2}}}, .next = 17, .logits = {}, .margin = {}};
  const std::string plain =
      R"({"step":0,"tokens":[1,5,9],"layers":[{"active":[0,1,2],"rows":[0,1,2],"revived":[]},{"active":[0,2],"rows":[2],"revived":[2]}],"next":17)";
  CHECK(to_line(step) == plain + '}');
  step.margin = {std::nullopt};
  CHECK(to_line(step) == plain + R"(,"margin":[null]})");
  step.margin = {0.5};
  step.logits = {0.1, -0.0, 1e300, 5e-324, 3};
  CHECK(to_line(step) == plain + R"(,"margin":[0.5],"logits":[0.1,-0.0,1e+300,5e-324,3]})");
}

TEST_CASE("a written trace reads back to the last bit") {
  std::mt19937 random(2);
  const temporary_folder folder;
  for (int run = 0; run < 50; ++run) {
    CAPTURE(run);
    auto steps = random_trace(random, {.layers = 1 + random() % 5, .prompt = 1 + random() % 30, .steps = 1 + random() % 6});
    if (run % 3 == 0) steps.back().logits.clear();
    if (run % 4 == 0) steps.front().margin.clear();
    steps.front().logits.resize(11, -0.0);
    const auto read = read_trace(folder.write("t.jsonl", text_of(steps)));
    REQUIRE(read == steps);
    for (std::size_t s = 0; s < steps.size(); ++s)
      for (std::size_t i = 0; i < steps[s].logits.size(); ++i)
        REQUIRE(std::bit_cast<std::uint64_t>(read[s].logits[i]) == std::bit_cast<std::uint64_t>(steps[s].logits[i]));
  }
}

TEST_CASE("numbers that JSON does not have are refused") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  step_trace step{.step = 3, .tokens = {1}, .layers = {{{0}, {0}, {}}, {{0}, {0}, {}}}, .next = 1, .logits = {0, infinity}, .margin = {}};
  CHECK(error_of([&] { to_line(step); }) == at("step 3: logits[1]"));
  step.logits[1] = -std::numeric_limits<double>::quiet_NaN();
  CHECK(error_of([&] { to_line(step); }) == at("step 3: logits[1]"));
  step.logits.clear();
  step.margin = {-infinity};
  CHECK(error_of([&] { to_line(step); }) == at("step 3: margin[0]"));
}

TEST_CASE("real traces: another parser reads the same steps, and a written copy is read as the same steps" NEEDS("data")) {
  const auto folder = test_data("traces");
  if (folder.empty()) return;
  const temporary_folder copies;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jsonl") continue;
    CAPTURE(entry.path().string());
    ++files;
    const auto steps = read_trace(entry.path());
    REQUIRE(steps == by_tree(read_text(entry.path())));
    REQUIRE(read_trace(copies.write("copy.jsonl", text_of(steps))) == steps);
  }
  CHECK(files > 0);
}

TEST_CASE("variants that other writers may produce are read as the same trace") {
  const temporary_folder folder;
  const auto expected = read_trace(folder.write("t.jsonl", two_steps));
  REQUIRE(expected.size() == 2);
  CHECK(expected[1].layers[1].revived == std::vector<lazyprune::position>{1});
  CHECK(expected[0].margin.empty());
  const auto reads_alike = [&](const std::string& text) { return read_trace(folder.write("u.jsonl", text)) == expected; };

  CHECK(reads_alike(two_steps.substr(0, two_steps.size() - 1)));  // no line break at the end
  CHECK(reads_alike(two_steps + "\n \t\r\n\n"));                  // blank lines at the end
  CHECK(reads_alike(with("}\n{\"step\":1", "}\r\n{\"step\":1")));
  CHECK(reads_alike(with(R"("step":1,"tokens":[17])", R"( "tokens" : [ 17 ] , "step" : 1)")));
  CHECK(reads_alike(with(R"("next":4)", R"("next":4,"engine":{"step":9,"layers":[[1.5,null,{"active":"x"}],true],"name":"é"})")));
  CHECK(reads_alike(with(R"("rows":[3])", R"("rows":[3],"seconds":0.5,"heads":[[1],[2]])")));
  CHECK(reads_alike(with("[1,2.5,-3]", "[1.0,25e-1,-3]")));
}

TEST_CASE("errors give the line, the place, the expected and the found value") {
  const auto second = [](const std::string& part, const std::string& instead) { return complaint(with(part, instead)); };
  CHECK(complaint("") == at(""));
  CHECK(complaint(" \n\r\n") == at(""));
  CHECK(complaint("[]\n") == at("line 1"));
  CHECK(complaint("7\n") == at("line 1", {", found 7"}));
  CHECK(complaint("null") == at("line 1"));
  CHECK(complaint(two_steps + "\n" + two_steps) == at("line 3: byte 0"));
  CHECK(complaint(two_steps + "{}") == at("line 3", {"\"step\""}));
  CHECK(second(R"("step":1)", R"("step":2)") == at("line 2: step", {", found 2"}));
  CHECK(second(R"("step":1)", R"("step":"1")") == at("line 2: step", {"\"1\""}));
  CHECK(second(R"("step":1)", R"("step":[1])") == at("line 2: step"));
  CHECK(second(R"("step":1,)", "") == at("line 2", {"\"step\""}));
  CHECK(second(R"("step":1)", R"("step":1,"step":1)") == at("line 2: step"));
  CHECK(second("[17]", "[]") == at("line 2: tokens"));
  CHECK(second("[17]", "[-17]") == at("line 2: tokens[0]", {"-17"}));
  CHECK(second("[17]", "[17.0]") == at("line 2: tokens[0]", {"17.0"}));
  CHECK(second("[17]", "[4294967296]") == at("line 2: tokens[0]", {"4294967296"}));
  CHECK(second("[17]", "[[17]]") == at("line 2: tokens[0]"));
  CHECK(second("[17]", "17") == at("line 2: tokens", {", found 17"}));
  CHECK(second("[17]", "{}") == at("line 2: tokens"));
  CHECK(second(R"("next":4)", R"("next":null)") == at("line 2: next"));
  CHECK(second(R"("next":4)", R"("next":4.0)") == at("line 2: next", {"4.0"}));
  CHECK(second(R"("next":4,)", "") == at("line 2", {"\"next\""}));
  CHECK(second("[0,1,2,3]", "[0,1,2,4]") == at("line 2: layers[0].active[3]", {", found 4"}));
  CHECK(second("[0,1,2,3]", "[0,2,1,3]") == at("line 2: layers[0].active[2]"));
  CHECK(second("[0,1,2,3]", "[0,1,1,3]") == at("line 2: layers[0].active[2]"));
  CHECK(second("[0,1,2,3]", "[0,1,2e0,3]") == at("line 2: layers[0].active[2]", {"2e0"}));
  CHECK(second("[0,1,2,3]", "[0,1,true,3]") == at("line 2: layers[0].active[2]"));
  CHECK(second("[0,1,2,3]", "null") == at("line 2: layers[0].active"));
  CHECK(second(R"("rows":[1,3])", R"("rows":[0,1,3])") == at("line 2: layers[1].rows", {"\"active\"", ", found 0"}));
  CHECK(second(R"("revived":[1])", R"("revived":[2])") == at("line 2: layers[1].revived", {"\"rows\"", ", found 2"}));
  CHECK(second(R"(,"revived":[1])", "") == at("line 2: layers[1]", {"\"revived\""}));
  CHECK(second(R"("revived":[1])", R"("rows":[1])") == at("line 2: layers[1].rows"));
  CHECK(second(R"(,{"active":[1,3],"rows":[1,3],"revived":[1]})", ",3") == at("line 2: layers[1]", {", found 3"}));
  CHECK(second(R"(,{"active":[1,3],"rows":[1,3],"revived":[1]})", ",[]") == at("line 2: layers[1]"));
  CHECK(second(R"({"active":[0,1,2,3],"rows":[3],"revived":[]},{"active":[1,3],"rows":[1,3],"revived":[1]})", "") == at("line 2: layers"));
  CHECK(second(R"(,{"active":[1,3],"rows":[1,3],"revived":[1]}],"next":4,"margin":[0.25])", R"(],"next":4)") ==
        at("line 2: layers", {", found 1"}));
  CHECK(second("[0.25]", "[]") == at("line 2: margin", {", found 0"}));
  CHECK(second("[0.25]", "[0.25,1]") == at("line 2: margin", {", found 2"}));
  CHECK(second("[0.25]", "[false]") == at("line 2: margin[0]"));
  CHECK(second(R"("margin":[0.25])", R"("logits":[1,2])") == at("line 2: logits", {", found 2"}));
  CHECK(second(R"("margin":[0.25])", R"("logits":[])") == at("line 2: logits"));
  CHECK(second(R"("margin":[0.25])", R"("logits":[1,null,2])") == at("line 2: logits[1]"));
  CHECK(second(R"("margin":[0.25])", R"("logits":[1,NaN,2])").starts_with("line 2: byte "));
  CHECK(second(R"("margin":[0.25])", R"("logits":[1,1e999,2])").starts_with("line 2: byte "));
  CHECK(second(R"("next":4)", R"("next":4,"x":)" + std::string(100, '[')) == at("line 2", {"64"}));
  CHECK(second("[0.25]}", "[0.25]} {}").starts_with("line 2: byte "));
}

TEST_CASE("files that cannot be read are refused") {
  const temporary_folder folder;
  CHECK(error_of([&] { read_trace(folder / "absent.jsonl"); }) == at((folder / "absent.jsonl").string()));
  CHECK(error_of([&] { read_trace(folder.path()); }) == at(folder.path().string()));
}

TEST_CASE("a trace cut inside a line is refused; one with a changed byte is refused, or can be written and read again") {
  const temporary_folder folder;
  const auto whole = read_trace(folder.write("t.jsonl", two_steps));
  const std::size_t first_line = two_steps.find('\n');
  for (std::size_t length = 0; length < two_steps.size(); ++length) {
    CAPTURE(length);
    const std::string said = complaint(two_steps.substr(0, length));
    const bool complete = length == first_line || length == first_line + 1 || length == two_steps.size() - 1;
    REQUIRE((said == "no error") == complete);
  }
  // If the trace with a changed byte is still readable, it can be written and read again.
  std::mt19937 random(3);
  std::size_t readable = 0;
  for (int run = 0; run < 3000; ++run) {
    std::string text = two_steps;
    text[random() % text.size()] = static_cast<char>(random() % 8 ? ' ' + random() % 95 : random());
    CAPTURE(text);
    const auto path = folder.write("u.jsonl", text);
    std::vector<step_trace> steps;
    if (error_of([&] { steps = read_trace(path); }) != "no error") continue;
    ++readable;
    REQUIRE(read_trace(folder.write("v.jsonl", text_of(steps))) == steps);
  }
  CHECK(readable > 0);
}
