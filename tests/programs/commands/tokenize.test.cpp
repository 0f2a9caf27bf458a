// SPDX-License-Identifier: MIT
#include "programs/program.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "test_data.hpp"

using nlohmann::ordered_json;  // templates write keys in the order of the file

namespace {

ordered_json tokenized(std::vector<std::string> more) {
  more.insert(more.begin(), {"tokenize", "--json"});
  const program_result result = lazyprune_program(more);
  CHECK_MESSAGE(result.code == 0, result.err);
  return ordered_json::parse(result.out);
}

std::vector<ordered_json> objects_of(const std::string& text) {
  std::vector<ordered_json> all;
  for (const std::string& line : lines_of(text)) all.push_back(ordered_json::parse(line));
  return all;
}

}  // namespace

TEST_CASE("a text's ids and pieces, and the text of ids") {
  const ordered_json whole = tokenized({"-p", "the candle"});
  CHECK(whole["pieces"][0] == "<s>");
  CHECK(whole["ids"].size() == whole["pieces"].size());
  CHECK(whole["text_plain"] == "the candle");
  CHECK(whole["text"] == "<s> the candle");

  ordered_json plain = tokenized({"-p", "the candle", "--no-special"});
  CHECK(plain["text"] == "the candle");
  plain["ids"].insert(plain["ids"].begin(), whole["ids"][0]);
  CHECK(plain["ids"] == whole["ids"]);

  std::string ids;
  for (const ordered_json& id : whole["ids"]) ids.append(ids.empty() ? "" : ",").append(id.dump());
  CHECK(tokenized({"--ids", ids}) == whole);

  const temporary_folder folder;
  write_file(folder / "text", "the candle\n");  // -f does not remove the newline
  const ordered_json file = tokenized({"-f", folder / "text"});
  CHECK(file["text_plain"] == "the candle\n");

  const program_result people = lazyprune_program({"tokenize", "-p", "-"}, "the\n");
  CHECK(people.code == 0);
  CHECK(people.out.starts_with("1\t<s>\n"));
  CHECK(people.out.ends_with("\t<0x0A>\n"));
}

TEST_CASE("each line is a request, and a bad line does not stop the others") {
  const temporary_folder folder;
  write_file(folder / "requests.jsonl", R"({"text": "the candle"}
{"text": "the
  
{"ids": [1, 2]}
{"ids": [1, 99999]}
{"ids": [-1]}
{"text": 5}
{"text": "a", "other": 1}
{"other": 1}
[]
{"messages": [{"role": "user", "content": "a"}]}
{"text": ""})");
  const program_result result = lazyprune_program({"tokenize", "--jsonl", folder / "requests.jsonl"});
  const std::string file = folder / "requests.jsonl";
  CHECK(told(result, 0) == complaint_at("lazyprune: " + file, {", found 8 of 11"}));
  CHECK(lines_of(result.err).size() == 1);
  const std::vector<ordered_json> lines = objects_of(result.out);
  REQUIRE(lines.size() == 11);
  CHECK(lines[0] == tokenized({"-p", "the candle"}));
  CHECK(lines[2] == ordered_json{{"ids", {1, 2}}, {"pieces", {"<s>", "</s>"}}, {"text", "<s></s>"}, {"text_plain", ""}});
  const auto error_in = [&](std::size_t i) {
    CHECK(lines[i].size() == 1);
    return complaint_line(result.code, lines[i]["error"].get<std::string>());
  };
  CHECK(error_in(3) == complaint_at(file + ": line 5: ids", {"2304", ", found 99999"}));
  CHECK(error_in(5) == complaint_at(file + ": line 7: text", {", found 5"}));
  CHECK(error_in(6) == complaint_at(file + ": line 8: other", {", found 1"}));
  CHECK(error_in(7) == complaint_at(file + ": line 9", {"text, ids and messages"}));
  CHECK(error_in(9) == complaint_at("messages", {bundled_model}));
  CHECK(lines[10]["ids"] == ordered_json::array({1}));
  for (const std::size_t i : {1u, 4u, 8u}) CHECK(lines[i].contains("error"));
}

TEST_CASE("a template without a tokenizer renders chats") {
  const temporary_folder folder;
  write_file(folder / "chat.jinja",
             "{{ bos_token }}{% for m in messages %}{% if m.role == 'x' %}{{ raise_exception('no\n\"x\"') }}{% endif %}"
             "[{{ m.role }}]{{ m.content }}{% endfor %}{{ '[assistant]' if add_generation_prompt }}{{ strftime_now('%Y-%m-%d') }}");
  const auto answers = [&](const std::string& requests) {
    return objects_of(
        lazyprune_program({"tokenize", "-m", folder / "chat.jinja", "--jsonl", "-"}, requests, {"SOURCE_DATE_EPOCH=86400"}).out);
  };
  const std::vector<ordered_json> all =
      answers(R"({"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": true, "bos_token": "<s>"}
{"messages": []}
{"messages": [{"role": "x"}]}
{"text": "hi"})");
  REQUIRE(all.size() == 4);
  CHECK(all[0] == ordered_json{{"rendered", "<s>[user]hi[assistant]1970-01-02"}});
  CHECK(all[1] == ordered_json{{"rendered", "1970-01-02"}});
  CHECK(all[2] == ordered_json{{"error", "no\n\"x\""}});
  CHECK(all[3].size() == 1);
  CHECK(complaint_line(1, all[3]["error"].get<std::string>()) == complaint_at("tokenize", {folder / "chat.jinja"}));
  write_file(folder / "chat.json", R"([{"role": "user", "content": "hi"}])");
  const program_result people =
      lazyprune_program({"tokenize", "-m", folder / "chat.jinja", "--messages", folder / "chat.json"}, "", {"SOURCE_DATE_EPOCH=0"});
  CHECK(people.out == "[user]hi[assistant]1970-01-01");
}

TEST_CASE("wrong combinations of inputs are refused") {
  CHECK(complaint(lazyprune_program({"tokenize"})) == complaint_at("tokenize", {"-p, -f, --ids, --messages and --jsonl"}));
  CHECK(complaint(lazyprune_program({"tokenize", "-p", "a", "--ids", "1"})) ==
        complaint_at("tokenize", {"-p, -f, --ids, --messages and --jsonl"}));
  CHECK(complaint(lazyprune_program({"tokenize", "--ids", "2304"})) == complaint_at("--ids", {"2304", ", found 2304"}));
  CHECK(complaint(lazyprune_program({"tokenize", "-m", "/nowhere", "-p", "a"})) == complaint_at("/nowhere"));
}

TEST_CASE("chats of real models, line by line" NEEDS("data")) {
  const std::filesystem::path index = test_data("chat/index.json");
  if (index.empty()) return;
  const std::string folder = index.parent_path().string() + "/";
  std::size_t cases = 0;
  const ordered_json all = ordered_json::parse(file_text(index.string()));
  for (const ordered_json& model : all["templates"]) {
    const std::string name = model["name"];
    CAPTURE(name);
    std::vector<ordered_json> expected = objects_of(file_text(folder + name + ".cases.jsonl"));
    std::string requests;
    for (const ordered_json& one : expected) {
      ordered_json request = one["variables"];
      request["messages"] = one["messages"];
      request["add_generation_prompt"] = one["add_generation_prompt"];
      requests += request.dump() + '\n';
    }
    const program_result result = lazyprune_program({"tokenize", "-m", folder + name + ".jinja", "--jsonl", "-"}, requests,
                                                    {"SOURCE_DATE_EPOCH=1721984703"});  // 2024-07-26 09:05:03
    const std::vector<ordered_json> lines = objects_of(result.out);
    REQUIRE(lines.size() == expected.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      CAPTURE(expected[i]["name"]);
      if (expected[i].contains("expected"))
        CHECK(lines[i] == ordered_json{{"rendered", expected[i]["expected"]}});
      else if (expected[i]["raised_by"] == "raise_exception")
        CHECK(lines[i] == ordered_json{{"error", expected[i]["error"]}});
      else
        CHECK(lines[i].contains("error"));
    }
    cases += lines.size();
  }
  CHECK(cases == 1600);
}
