// SPDX-License-Identifier: MIT
// Tests chats. The bundled model has no chat template, so these tests give it one.
#include "programs/program.hpp"

#include <csignal>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <lazyprune/files/pruning_file.hpp>

#include "test_data.hpp"

using json = nlohmann::json;

namespace {

/// A template whose answers end with EOS. They begin after `answer :`, because the model was trained on prompts that end so.
constexpr const char* with_eos =
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}answer :{{ m.content }}{{ eos_token }}"
    "{% elif m.role == 'system' %}{{ m.content }} ! {% else %}{{ m.content }} {% endif %}{% endfor %}"
    "{% if add_generation_prompt %}answer :{% endif %}";
/// A template that leaves out the answers of earlier turns.
constexpr const char* forgetful =
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ m.content }} {% endif %}{% endfor %}"
    "answer :";

struct chat_model {
  temporary_folder folder;

  explicit chat_model(const std::string& source = with_eos) {
    for (const char* name : {"config.json", "model.safetensors", "tokenizer.model", "lazyprune.json"})
      std::filesystem::create_symlink(bundled_model + "/" + name, folder / name);
    write_file(folder / "tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
    write_file(folder / "chat_template.jinja", source);
  }

  program_result run(std::vector<std::string> more, const std::string& input = {}) const {
    more.insert(more.begin(), {"run", "-m", folder.path(), "--chat", "-t", "1"});
    return lazyprune_program(more, input);
  }
  std::vector<json> answers(std::vector<std::string> more, const std::string& input = {}) const {
    more.push_back("--json");
    const program_result result = run(more, input);
    CHECK_MESSAGE(result.code == 0, result.err);
    std::vector<json> all;
    std::istringstream out(result.out);
    for (std::string line; std::getline(out, line);) all.push_back(json::parse(line));
    return all;
  }
  json answer(const std::vector<std::string>& more) const {
    const auto all = answers(more);
    REQUIRE(all.size() == 1);
    return all[0];
  }
  /// The ids of a chat, given as a list of messages in JSON.
  std::vector<int> ids(const json& messages) const {
    write_file(folder / "chat.json", messages.dump());
    const program_result result = lazyprune_program({"tokenize", "-m", folder.path(), "--messages", folder / "chat.json", "--json"});
    CHECK_MESSAGE(result.code == 0, result.err);
    return json::parse(result.out)["ids"];
  }
  /// The model's answer to these ids.
  json answer_to(const std::vector<int>& ids, std::vector<std::string> more) const {
    std::string list;
    for (const int id : ids) list.append(list.empty() ? "" : ",").append(std::to_string(id));
    more.insert(more.begin(), {"run", "-m", folder.path(), "--ids", list, "-t", "1", "--json"});
    const program_result result = lazyprune_program(more);
    CHECK_MESSAGE(result.code == 0, result.err);
    return json::parse(result.out);
  }
};

const std::string said = "read the document . the candle is in the temples . the sextant is in the theatres .";
const std::string asked = "question : where is the candle ?";

/// The policy of a run, as flags.
std::vector<std::string> policy_flags(const json& run) {
  std::vector<std::string> flags;
  std::istringstream text(run["policy"]["text"].get<std::string>());
  for (std::string flag; text >> flag;) flags.push_back(flag);
  return flags;
}

json message(const std::string& role, const std::string& content) { return {{"role", role}, {"content", content}}; }

}  // namespace

TEST_CASE("one turn, a chat of several turns, and a system message") {
  const chat_model model;
  const json once = model.answer({"-p", said, "-n", "6"});
  const std::vector<int> ids = model.ids(json::array({message("user", said)}));
  CHECK(ids[0] == 1);
  CHECK(ids[1] != 1);  // the template writes BOS, and no second BOS is added
  CHECK(once["prompt_tokens"] == ids.size());
  const std::vector<std::string> policy = policy_flags(once);  // it prunes neither the template's tokens nor the last 64
  CHECK(std::ranges::find(policy, "--keep") != policy.end());
  CHECK(once["tokens"] == model.answer_to(ids, joined(policy, {"-n", "6"}))["tokens"]);
  CHECK_FALSE(once.contains("kept_tokens"));

  const json chat =
      json::array({message("system", "be brief"), message("user", said), message("assistant", " yes"), message("user", asked)});
  const json last = model.answer({"--messages",
                                  [&] {
                                    model.ids(chat);
                                    return model.folder / "chat.json";
                                  }(),
                                  "-n", "6", "--compare", "--chunk", "5"});
  CHECK(last["tokens"] == model.answer_to(model.ids(chat), {"-n", "6"})["tokens"]);
  CHECK(last["dense"]["tokens"] == model.answer_to(model.ids(chat), {"-n", "6", "--policy", "dense"})["tokens"]);

  write_file(model.folder / "question", asked + "\n");
  CHECK(model.answer({"-f", model.folder / "question", "--system", "be brief", "-n", "1"})["prompt_tokens"] ==
        model.ids(json::array({message("system", "be brief"), message("user", asked)})).size());
}

TEST_CASE("a document and a question are put into the model's template if it has one") {
  const chat_model model;
  write_file(model.folder / "document.txt", said + "\n");
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"run", "-m", model.folder.path(), "-t", "1", "--json", "-n", "6", "-f", model.folder / "document.txt", "-p", asked});
    const program_result result = lazyprune_program(more);
    REQUIRE_MESSAGE(result.code == 0, result.err);
    return json::parse(result.out);
  };
  const std::vector<int> ids = model.ids(json::array({message("user", said + "\n\n" + asked)}));
  CHECK(run({})["prompt_tokens"] == ids.size());
  CHECK(run({})["tokens"] == model.answer_to(ids, {"-n", "6"})["tokens"]);
  CHECK(run({"--chat"})["tokens"] == run({})["tokens"]);
  CHECK(run({"--system", "be brief"})["prompt_tokens"] ==
        model.ids(json::array({message("system", "be brief"), message("user", said + "\n\n" + asked)})).size());
  CHECK(run({"--raw"})["prompt_tokens"] < ids.size());
}

TEST_CASE("`chat` is a conversation, with or without a document") {
  const chat_model model;
  write_file(model.folder / "document.txt", said + "\n");
  const auto turns = [&](std::vector<std::string> more, const std::string& input) {
    more.insert(more.begin(), {"chat", "-m", model.folder.path(), "-t", "1", "--json", "-n", "4"});
    const program_result result = lazyprune_program(more, input);
    REQUIRE_MESSAGE(result.code == 0, result.err);
    std::vector<json> all;
    for (const std::string& line : lines_of(result.out)) all.push_back(json::parse(line));
    return all;
  };
  const auto plain = turns({}, asked + "\n" + asked + "\n");
  const auto as_run = model.answers({"-n", "4"}, asked + "\n" + asked + "\n");
  REQUIRE(plain.size() == 2);
  REQUIRE(as_run.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(plain[i]["tokens"] == as_run[i]["tokens"]);
  const auto about = turns({"-f", model.folder / "document.txt"}, asked + "\n" + asked + "\n");
  REQUIRE(about.size() == 2);
  const std::vector<int> first = model.ids(json::array({message("user", said + "\n\n" + asked)}));
  CHECK(about[0]["prompt_tokens"] == first.size());
  CHECK(about[0]["tokens"] == model.answer_to(first, {"-n", "4"})["tokens"]);
  CHECK(about[1]["prompt_tokens"] > about[0]["prompt_tokens"]);
}

TEST_CASE("the memory of a conversation counts its document, and a document that does not fit is refused before the first turn") {
  const chat_model model;
  write_file(model.folder / "document.txt", said);
  const auto keys_and_values = [&](std::vector<std::string> more) {  // "memory: 11 MiB of weights, 1 MiB of keys and values"
    const program_result result = lazyprune_program(joined({"chat", "-m", model.folder.path()}, more));
    REQUIRE_MESSAGE(result.code == 0, result.err);
    return result.err.substr(0, result.err.find(", about "));
  };
  const std::vector<std::string> document{"-f", model.folder / "document.txt", "-n", "1"};
  const std::size_t tokens = model.ids(json::array({message("user", said + "\n\n")})).size();
  CHECK(keys_and_values(document) != keys_and_values({"-n", "1"}));
  CHECK(keys_and_values(document) == keys_and_values({"-n", std::to_string(tokens + 1)}));
  CHECK(complaint(lazyprune_program(joined({"chat", "-m", model.folder.path(), "-c", "10", "--json"}, document))) ==
        complaint_at("prompt: document", {"most 10"}));
}

TEST_CASE("a conversation is read from stdin as texts are read elsewhere") {
  const chat_model model;
  const std::vector<json> turns = model.answers({"-n", "3"}, said + "\n" + asked + "\n"),
                          same = model.answers({"-n", "3"}, "\xEF\xBB\xBF" + said + "\r\n\r\n" + asked + "\r\n");
  REQUIRE(turns.size() == 2);
  REQUIRE(same.size() == 2);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    CHECK(same[i]["prompt_tokens"] == turns[i]["prompt_tokens"]);
    CHECK(same[i]["tokens"] == turns[i]["tokens"]);
  }
  for (const std::string& binary : {std::string("t\0h\0e\0\n\0", 8), std::string("\xFF\xFE\x61\n")}) {
    const program_result result = model.run({"-n", "1"}, binary);
    CHECK(result.code == 1);
    CHECK_MESSAGE(result.err.find("lazyprune: stdin: ") != std::string::npos, result.err);
  }
}

TEST_CASE("each question about a document is a turn of its own") {
  const chat_model model;
  write_file(model.folder / "document.txt", said + "\n");
  write_file(model.folder / "questions.txt", asked + "\nquestion : where is the sextant ?\n");
  const auto answers = model.answers({"-f", model.folder / "document.txt", "--questions", model.folder / "questions.txt", "-n", "4"});
  REQUIRE(answers.size() == 2);
  const std::vector<int> ids = model.ids(json::array({message("user", said + "\n" + asked)}));
  CHECK(answers[0]["prompt_tokens"] == ids.size());
  CHECK(answers[0]["shared_tokens"] > 10);
  CHECK(answers[0]["tokens"] == model.answer_to(ids, {"-n", "4"})["tokens"]);
}

TEST_CASE("with a template, only the last user's text is pruned, also in a conversation and with many questions about one document") {
  const chat_model model;
  std::string document;
  for (int i = 0; i < 12; ++i) document += said + ' ';
  write_file(model.folder / "document.txt", document + "\n");
  write_file(model.folder / "questions.txt", asked + "\nquestion : where is the sextant ?\n");
  const std::vector<std::string> hard{"--stages", "2:0.05", "-n", "4", "--system", "be brief"};
  const std::size_t system = model.ids(json::array({message("system", "be brief")})).size() - 2;  // without the beginning of the answer
  const auto check_kept = [&](const json& run) {
    const std::vector<std::string> policy = policy_flags(run);
    const auto keep = std::ranges::find(policy, "--keep");
    REQUIRE(keep != policy.end());
    const std::size_t first = std::stoul((keep + 1)->substr(2));  // 0-N,...
    CHECK(first + 3 >= system);
    CHECK(first <= system + 3);
    CHECK(std::ranges::find(policy, "--keep-last")[1] == "64");
    CHECK(run["computed"]["per_layer"][3] < run["prompt_tokens"].get<std::size_t>() / 2);
    return policy;
  };
  const auto answers = model.answers(joined(hard, {"-f", model.folder / "document.txt", "--questions", model.folder / "questions.txt"}));
  REQUIRE(answers.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string question = lines_of(file_text(model.folder / "questions.txt"))[i];
    const std::vector<int> ids = model.ids(json::array({message("system", "be brief"), message("user", document + '\n' + question)}));
    CHECK(answers[i]["tokens"] == model.answer_to(ids, joined(check_kept(answers[i]), {"-n", "4"}))["tokens"]);
  }
  const auto turns = model.answers(hard, document + asked + "\n" + asked + "\n");
  REQUIRE(turns.size() == 2);
  check_kept(turns[0]);
  CHECK(turns[1]["policy"] == turns[0]["policy"]);  // the first turn decides
  CHECK(turns[0]["tokens"] == model.answer(joined(hard, {"-p", document + asked}))["tokens"]);
}

TEST_CASE("each question about a document gets the answer of a run on the whole chat, also if only the template's tokens are kept") {
  const chat_model model;
  std::string document;
  for (int i = 0; i < 6; ++i) document += said + '\n';
  write_file(model.folder / "document.txt", document);
  write_file(model.folder / "questions.txt", asked + "\nquestion : where did the council arrive after the harvest ?\nwhere ?\n");
  const std::vector<std::string> flags{"--stages",  "2:0.2,4:0.5", "--keep-last", "1",   "-n",     "20", "--ignore-eos",
                                       "--backend", "reference",   "--dtype",     "f32", "--seed", "3"};
  const auto answers = model.answers(joined(flags, {"-f", model.folder / "document.txt", "--questions", model.folder / "questions.txt"}));
  REQUIRE(answers.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    const std::string question = lines_of(file_text(model.folder / "questions.txt"))[i];
    const json alone = model.answer(joined(flags, {"-p", document + question}));
    for (const char* key : {"tokens", "policy", "prompt_tokens"}) CHECK(answers[i][key] == alone[key]);
    for (const char* key : {"dense_rows", "share_prompt", "revived"}) CHECK(answers[i]["computed"][key] == alone["computed"][key]);
    CHECK(answers[i]["computed"]["rows"].get<int>() + answers[i]["shared_rows"].get<int>() == alone["computed"]["rows"]);
  }
}

TEST_CASE("--document-roles chooses whose texts may be pruned, in one turn and in a conversation") {
  const chat_model model;
  std::string document;
  for (int i = 0; i < 12; ++i) document += said + ' ';
  const std::vector<std::string> common{"--stages", "2:0.05", "-n", "4", "--system", document};
  const std::size_t system = model.ids(json::array({message("system", document)})).size() - 2;  // without the beginning of the answer
  const auto first_kept = [](const json& run) {
    const std::vector<std::string> policy = policy_flags(run);
    const auto keep = std::ranges::find(policy, "--keep");
    REQUIRE(keep != policy.end());
    return *(keep + 1);
  };
  for (const bool conversation : {false, true}) {
    CAPTURE(conversation);
    const auto kept_with = [&](const std::vector<std::string>& roles) {
      const auto answers = conversation ? model.answers(joined(common, roles), document + asked + "\n")
                                        : model.answers(joined(joined(common, roles), {"-p", document + asked}));
      REQUIRE(answers.size() == 1);
      return first_kept(answers[0]);
    };
    CHECK(std::stoul(kept_with({"--document-roles", "user"}).substr(2)) + 3 >= system);  // 0-N,...
    CHECK(kept_with({"--document-roles", "user"}) == kept_with({}));
    const std::string of_system = kept_with({"--document-roles", "system"});  // 0,N-M: the system message lies between
    CHECK_MESSAGE(std::stoul(of_system.substr(of_system.find(',') + 1)) + 3 >= system, of_system);
    CHECK(std::stoul(of_system) < 3);
  }
  CHECK(complaint(lazyprune_program({"run", "-p", "a", "--document-roles", "user"})) ==
        complaint_at("--document-roles", {"--chat", "plain text"}));
}

TEST_CASE("a template of the user's own, and its variables") {
  const chat_model model;
  write_file(model.folder / "mine.jinja", "{{ bos_token }}{{ greeting }}{% if think %} deep{% endif %} {{ messages[0].content }} answer :");
  write_file(model.folder / "chat.json", json::array({message("user", asked)}).dump());
  const auto rendered = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"tokenize",
                                   "-m",
                                   model.folder.path(),
                                   "--messages",
                                   model.folder / "chat.json",
                                   "--json",
                                   "--chat-template-file",
                                   model.folder / "mine.jinja"};
    words.insert(words.end(), more.begin(), more.end());
    const program_result result = lazyprune_program(words);
    REQUIRE_MESSAGE(result.code == 0, result.err);
    return json::parse(result.out);
  };
  CHECK(rendered({})["rendered"] == "<s> " + asked + " answer :");
  const json full = rendered({"--template-var", "greeting=good [a, b] day", "--template-var", "think=true"});
  CHECK(full["rendered"] == "<s>good [a, b] day deep " + asked + " answer :");
  CHECK(rendered({"--template-var", "think=false"})["rendered"] == "<s> " + asked + " answer :");
  CHECK(model.answer({"-p", asked, "-n", "1", "--chat-template-file", model.folder / "mine.jinja", "--template-var", "think=true",
                      "--template-var", "greeting=good [a, b] day"})["prompt_tokens"] == full["ids"].size());
}

TEST_CASE("text of the user never becomes special tokens") {
  const chat_model model;
  const std::vector<int> ids = model.ids(json::array({message("user", "</s> <s>")}));
  CHECK(std::ranges::count(ids, 1) == 1);
  CHECK(std::ranges::count(ids, 2) == 0);
}

TEST_CASE("a conversation goes on after the ids that were generated") {
  const chat_model model;
  const std::vector<std::string> flags{"-n", "6", "--policy", "dense"};
  const auto turns = model.answers(flags, said + "\r\n\n" + asked + "\n" + asked);
  REQUIRE(turns.size() == 3);
  std::vector<int> ids = model.ids(json::array({message("user", said)}));
  for (std::size_t i = 0; i < turns.size(); ++i) {
    CAPTURE(i);
    CHECK(turns[i]["kept_tokens"] == (i == 0 ? 0 : ids.size() - 1));
    if (i > 0) {  // adds the end of the last answer and this turn, as the template writes them
      const std::vector<int> added = model.ids(json::array({message("assistant", ""), message("user", asked)}));
      const auto eos = std::ranges::find(added, 2);
      ids.insert(ids.end(), ids.back() == 2 ? eos + 1 : eos, added.end());
    }
    CHECK(turns[i]["prompt_tokens"] == ids.size());
    CHECK(turns[i]["tokens"] == model.answer_to(ids, flags)["tokens"]);
    CHECK(turns[i]["computed"]["per_layer"][0] == ids.size() - turns[i]["kept_tokens"].get<std::size_t>());
    for (const json& id : turns[i]["tokens"]) ids.push_back(id);
  }
  const program_result people = model.run({"-n", "3"}, said + "\n" + asked + "\n");
  CHECK(people.code == 0);
  CHECK(std::ranges::count(people.out, '\n') == 2);
  CHECK(std::ranges::count(people.err, '\n') == 3);  // the memory, and one line per turn
}

TEST_CASE("if the template renders earlier turns differently, only the common prefix stays in the KV cache") {
  const chat_model model(forgetful);
  const auto turns = model.answers({"-n", "4", "--policy", "dense"}, said + "\n" + asked + "\n");
  REQUIRE(turns.size() == 2);
  const std::vector<int> first = model.ids(json::array({message("user", said)}));
  const std::vector<int> both = model.ids(json::array({message("user", said), message("user", asked)}));
  CHECK(turns[1]["prompt_tokens"] == both.size());
  CHECK(turns[1]["kept_tokens"] == std::ranges::mismatch(first, both).in1 - first.begin());
  CHECK(turns[1]["tokens"] == model.answer_to(both, {"-n", "4", "--policy", "dense"})["tokens"]);
}

TEST_CASE("Ctrl-C stops the answer in order") {
  const chat_model model;
  running_program program({"run", "-m", model.folder.path(), "--chat", "-n", "1000000", "--ignore-eos", "--policy", "dense"},
                          said + "\n" + asked + "\n");
  program.until([&] { return program.out().size() >= 10; });  // the first answer has begun
  program.send(SIGINT);
  const program_result result = program.wait();
  CHECK(result.code == 0);
  CHECK(std::ranges::count(result.out, '\n') == 1);
}

TEST_CASE("flags that exclude each other are refused") {
  const chat_model model;
  const auto refused = [&](std::vector<std::string> more) { return complaint(model.run(std::move(more))); };
  CHECK(refused({"--ids", "1"}) == complaint_at("--chat", {"-p, -f, --messages", ", found --ids"}));
  CHECK(refused({"-p", "a", "--messages", "x"}) == complaint_at("--messages", {"-p"}));
  CHECK(refused({"-p", "a", "--raw"}) == complaint_at("--raw"));
  CHECK(complaint(lazyprune_program({"chat", "-m", model.folder.path(), "-f", "-"}, "x\n")) == complaint_at("--file", {"stdin"}));
  CHECK(refused({"--compare"}) == complaint_at("--compare", {"-p, -f or --messages"}));
  CHECK(refused({"--trace", "a.jsonl"}) == complaint_at("--trace", {"-p, -f or --messages"}));
  CHECK(complaint(lazyprune_program({"run", "-p", "a", "--system", "b"})) == complaint_at("--system", {"--chat"}));
  write_file(model.folder / "document.txt", said);
  const std::vector<std::string> document{"-f", model.folder / "document.txt", "-p", "a"}, text{"-p", "a"}, ids{"--ids", "1"};
  using flags = std::vector<std::string>;
  for (const auto& given :  // the bundled model has no template
       {std::pair(document, flags{"--system", "b"}), std::pair(document, flags{"--template-var", "b=1"}),
        std::pair(text, flags{"--template-var", "b=1"}), std::pair(text, flags{"--chat-template-file", "/nowhere.jinja"}),
        std::pair(ids, flags{"--chat-template-file", "/nowhere.jinja"})})
    CHECK(complaint(lazyprune_program(joined(joined({"run"}, given.first), given.second))) ==
          complaint_at(given.second[0], {"a chat", "plain text"}));
  CHECK(refused({"-p", "a", "--template-var", "a"}) == complaint_at("--template-var"));
  CHECK(refused({"-p", "a", "--chat-template-file", "/nowhere.jinja"}) == complaint_at("/nowhere.jinja"));
  CHECK(complaint(lazyprune_program({"run", "-p", "a", "--chat"})) == complaint_at("--chat", {bundled_model}));
  write_file(model.folder / "chat.json", "5");
  CHECK(refused({"--messages", model.folder / "chat.json"}) == complaint_at((model.folder / "chat.json")));
  write_file(model.folder / "chat_template.jinja", "{{ raise_exception('no') }}");
  CHECK(refused({"-p", "a"}) == complaint_at((model.folder / "chat_template.jinja") + ": line 1, column 19", {", found no"}));
}

namespace {

/// Returns the number of steps before the first step in which the two best logits differ by less than 0.05. From that step on, rounding may
/// change the tokens.
std::size_t sure_steps(const std::string& trace) {
  std::istringstream steps(file_text(trace));
  std::size_t sure = 0;
  for (std::string line; std::getline(steps, line); ++sure) {
    std::vector<double> logits = json::parse(line)["logits"];
    std::ranges::nth_element(logits, logits.begin() + 1, std::ranges::greater());
    if (logits[0] - logits[1] < 0.05) break;
  }
  return sure;
}

}  // namespace

TEST_CASE("SmolLM2: chats and ids agree with transformers, and the answers agree with an independent program in float" NEEDS("smollm2")) {
  const std::string model = smollm2();
  const std::filesystem::path path = test_data("smollm2/expected.json");
  if (model.empty() || path.empty()) return;
  const json all = json::parse(file_text(path.string()));
  const temporary_folder folder;
  std::string requests;
  for (const json& one : all["cases"])
    requests +=
        (one.contains("messages") ? json{{"messages", one["messages"]}, {"add_generation_prompt", true}} : json{{"text", one["text"]}})
            .dump() +
        '\n';
  std::istringstream lines(lazyprune_program({"tokenize", "-m", model, "--jsonl", "-"}, requests).out);
  const std::string most = in_full() ? "24" : "12";  // tokens of an answer
  std::size_t sure_tokens = 0, tokens = 0, answered = 0;
  for (const json& one : all["cases"]) {
    std::string line;
    std::getline(lines, line);
    const json found = json::parse(line);
    CHECK(found["ids"] == one["ids"]);
    if (!one.contains("messages")) continue;
    CHECK(found["rendered"] == one["rendered"]);
    if (!in_full() && answered == 1) continue;
    ++answered;
    CAPTURE(one["rendered"]);

    write_file(folder / "chat.json", one["messages"].dump());
    for (const char* policy : {"dense", "lazy"}) {
      CAPTURE(policy);
      const json& expected = one[policy];
      std::vector<std::string> flags{
          "run", "-m", model, "-n", most, "--dtype", "f32", "--json", "--trace-logits", "--trace", folder / "trace.jsonl"};
      if (expected.contains("stages")) {  // as ids, because the independent program also prunes the template's tokens
        const std::string ids = one["ids"].dump();
        flags.insert(flags.end(), {"--stages", expected["stages"], "--ids", ids.substr(1, ids.size() - 2)});
      } else {
        flags.insert(flags.end(), {"--policy", "dense", "--chat", "--messages", folder / "chat.json"});
      }
      const program_result result = lazyprune_program(flags);
      REQUIRE_MESSAGE(result.code == 0, result.err);
      const json run = json::parse(result.out);
      const std::size_t sure = sure_steps(folder / "trace.jsonl");
      CHECK(sure > 0);
      sure_tokens += sure;
      tokens += std::min<std::size_t>(std::stoul(most), expected["tokens"].size());
      for (std::size_t i = 0; i < std::min(sure, expected["tokens"].size()); ++i) CHECK(run["tokens"][i] == expected["tokens"][i]);
      std::size_t rows = 0;
      for (const json& layer : run["computed"]["per_layer"]) rows += layer.get<std::size_t>();
      CHECK(rows == expected["prefill_rows"]);
      if (run["tokens"] == expected["tokens"]) CHECK(run["computed"]["rows"] == expected["all_rows"]);
    }
  }
  CHECK_MESSAGE(2 * sure_tokens > tokens, sure_tokens << " of " << tokens << " tokens are sure enough to be compared");
}

TEST_CASE("SmolLM2: a long prompt is answered rightly, dense and pruned by the stages that the program knows" NEEDS("smollm2")) {
  const std::string model = smollm2();
  if (model.empty()) return;
  const program_result result = lazyprune_program(
      {"run", "-m", model, "--chat", "-f", (source_dir() / "examples/smollm2-prompt.txt").string(), "--compare", "--json"});
  REQUIRE_MESSAGE(result.code == 0, result.err);
  const json run = json::parse(result.out);
  const auto known = lazyprune::pruning_file::read(source_dir() / "examples/lazyprune/models/known/SmolLM2-135M-Instruct.json");
  const std::string policy = run["policy"]["text"].get<std::string>();
  CHECK(policy.starts_with("--stages " + known.stages + " --scorer " + known.heads->scorer()));
  CHECK(policy.find("--least-tokens 1536") != std::string::npos);
  const program_result of_short = lazyprune_program({"run", "-m", model, "-p", "Hello", "-n", "2"});
  CHECK_MESSAGE(of_short.err.find("nothing was pruned, because the policy prunes from 1536 tokens on") != std::string::npos, of_short.err);
  const json described = json::parse(lazyprune_program({"inspect", "-m", model, "--json"}).out);
  CHECK(described["stages"] == known.stages);
  CHECK(described["stages_from"] == "program");
  CHECK(lazyprune_program({"inspect", "-m", model}).out.find(known.stages + ", by the program's table of models") != std::string::npos);
  const temporary_folder folder;  // its lazyprune.json comes before the program's table
  std::filesystem::create_symlink(model, folder / "model.gguf");
  write_file(folder / "lazyprune.json", R"({"stages": "20:0.5"})");
  CHECK(json::parse(lazyprune_program({"inspect", "-m", folder.path(), "--json"}).out)["stages"] == "20:0.5");
  CHECK(run["prompt_tokens"] > 1500);
  for (const json& text : {run["text"], run["dense"]["text"]})
    CHECK_MESSAGE(text.get<std::string>().find("7306518") != std::string::npos, text);
}

TEST_CASE("eval asks in the chat template") {
  const chat_model model;
  const auto prompt_tokens = [&](const std::string& chat) {
    const program_result result = lazyprune_program({"eval", "-m", model.folder.path(), "-d", prompts("single_doc_qa"), "--limit", "1",
                                                     "--task", "hotpotqa", "-n", "2", "--chat", chat, "-o", "json"});
    REQUIRE_MESSAGE(result.code == 0, result.err);
    return json::parse(result.out)[0]["prompt_tokens"].get<double>();
  };
  const std::size_t words = model.ids(json::array({message("user", "the")})).size() - 2;  // the template's own tokens
  CHECK(words > 0);
  CHECK(prompt_tokens("template") == prompt_tokens("none") + static_cast<double>(words));

  // Answers in one template are not continued in another, or with other variables.
  const auto resumed = [&](const std::vector<std::string>& more, const std::string& limit = "2") {
    return lazyprune_program(joined({"eval", "-m", model.folder.path(), "-d", prompts("single_doc_qa"), "--limit", limit, "-n", "2",
                                     "--chat", "template", "--out", model.folder / "out", "--resume"},
                                    more));
  };
  REQUIRE(resumed({}, "1").code == 0);
  CHECK(complaint(resumed({"--template-var", "x=1"})) == complaint_at((model.folder / "out") + ": prediction 1", {", template "}));
  CHECK(resumed({}).code == 0);
  write_file(model.folder / "chat_template.jinja", forgetful);
  CHECK(complaint(resumed({})) == complaint_at((model.folder / "out") + ": prediction 1", {", template "}));
}
