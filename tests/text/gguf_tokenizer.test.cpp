// SPDX-License-Identifier: MIT
#include <lazyprune/text/gguf_tokenizer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <files/gguf_writer.hpp>
#include <files/support.hpp>
#include <lazyprune/text/tokenizer/tokenizer_json.hpp>
#include <test_data.hpp>
#include <text/tokenizer/known_unicode.hpp>

using namespace lazyprune_test;
using lazyprune::gguf_file;
using lazyprune::gguf_tokenizer_of;
using lazyprune::tokenizer;
using ids = std::vector<lazyprune::token_id>;

namespace {

/// A vocabulary of six tokens. Tests change its keys.
struct small_vocabulary {
  std::map<std::string, std::string> keys;
  const lazyprune::unicode* characters = nullptr;

  small_vocabulary() {
    put("model", "llama");
    std::string tokens, scores, types;
    for (const char* text : {"<unk>", "<s>", "</s>", "\xe2\x96\x81", "a",
                             "\xe2\x96\x81"
                             "a"})
      tokens += gguf_string(text);
    for (const float score : {0.0f, 0.0f, 0.0f, -1.0f, -2.0f, -3.0f}) scores += bytes_of_number(score);
    for (const std::int32_t type : {2, 3, 3, 1, 1, 1}) types += bytes_of_number(type);
    array("tokens", 8, 6, tokens);
    array("scores", 6, 6, scores);
    array("token_type", 5, 6, types);
    put("bos_token_id", 1u);
    put("eos_token_id", 2u);
  }
  template <class Value>
  void put(const std::string& key, Value value) {
    keys[key] = gguf_key("tokenizer.ggml." + key, value);
  }
  void array(const std::string& key, std::uint32_t type, std::uint64_t size, const std::string& values) {
    keys[key] = gguf_key("tokenizer.ggml." + key, 9, gguf_array(type, size, values));
  }
  std::optional<tokenizer> load() const {
    std::vector<std::string> all;
    for (const auto& [key, bytes] : keys) all.push_back(bytes);
    const temporary_folder folder;
    return gguf_tokenizer_of(gguf_file{lazyprune::mapped_file(folder.write("f.gguf", gguf_bytes(all, {})))}, characters);
  }
  fault said() const {
    return error_of([&] { load(); }).after("f.gguf: ");
  }
};

template <class Change>
fault said_after(Change change) {
  small_vocabulary vocabulary;
  change(vocabulary);
  return vocabulary.said();
}

/// Checks the 46 texts that llama.cpp publishes. The file `expected_ids` has one line of ids for each text.
void check_published(const tokenizer& tokens, const std::filesystem::path& expected_ids) {
  const std::string inputs = read_text(test_data("tokenizers/ggml-vocab-gpt-2.gguf.inp"));
  std::istringstream outputs(read_text(expected_ids));
  const std::string_view separator = "\n__ggml_vocab_test__\n";
  std::size_t count = 0;
  for (std::size_t at = 0, end; (end = inputs.find(separator, at)) != inputs.npos; at = end + separator.size(), ++count) {
    std::string line;
    REQUIRE(std::getline(outputs, line));
    std::istringstream numbers(line);
    ids expected;
    for (lazyprune::token_id id; numbers >> id;) expected.push_back(id);
    CHECK(tokens.encode(inputs.substr(at, end - at), false) == expected);
  }
  CHECK(count == 46);
}

/// Writes a byte-level tokenizer.json as a GGUF file, as a converter does. Returns the tokenizer that is read from this file.
tokenizer gguf_of(const nlohmann::json& json, const char* pre, const lazyprune::unicode* characters) {
  std::map<std::size_t, std::pair<std::string, std::int32_t>> tokens;
  for (const auto& [piece, id] : json.at("model").at("vocab").items()) tokens[id] = {piece, 1};
  for (const auto& added : json.at("added_tokens")) tokens[added.at("id")] = {added.at("content"), added.at("special") ? 3 : 4};
  REQUIRE(tokens.rbegin()->first + 1 == tokens.size());
  std::string texts, types, merges;
  for (const auto& [id, token] : tokens) {
    texts += gguf_string(token.first);
    types += bytes_of_number(token.second);
  }
  const auto& all = json.at("model").at("merges");
  for (const auto& merge : all)
    merges += gguf_string(merge.is_string() ? merge.get<std::string>() : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  small_vocabulary vocabulary;
  vocabulary.characters = characters;
  vocabulary.keys.clear();
  vocabulary.put("model", "gpt2");
  vocabulary.put("pre", pre);
  vocabulary.put("add_bos_token", false);
  vocabulary.array("tokens", 8, tokens.size(), texts);
  vocabulary.array("token_type", 5, tokens.size(), types);
  vocabulary.array("merges", 8, all.size(), merges);
  return vocabulary.load().value();
}

}  // namespace

TEST_CASE("the keys of a small SentencePiece vocabulary are read") {
  small_vocabulary vocabulary;
  CHECK(vocabulary.load()->encode("aa") == ids{1, 5, 4});
  CHECK(vocabulary.load()->encode("a  a", false) == ids{5, 3, 5});  // both spaces stay
  vocabulary.put("add_bos_token", false);
  vocabulary.put("add_space_prefix", false);
  CHECK(vocabulary.load()->encode("aa") == ids{4, 4});
  vocabulary.put("remove_extra_whitespaces", true);
  CHECK(vocabulary.load()->encode("a  a") == ids{4, 5});
  CHECK(vocabulary.load()->eos() == 2);
  vocabulary.keys.erase("model");
  CHECK_FALSE(vocabulary.load().has_value());
}

TEST_CASE("BOS and EOS are the tokens that the file names, even if it types them as normal or unused") {
  small_vocabulary vocabulary;
  const auto types = [&](std::int32_t of_ends) {
    std::string bytes;
    for (const std::int32_t type : {2, of_ends, of_ends, 1, 1, 1}) bytes += bytes_of_number(type);
    vocabulary.array("token_type", 5, 6, bytes);
  };
  for (const std::int32_t type : {1, 3, 4, 5}) {
    CAPTURE(type);
    types(type);
    const tokenizer tokens = vocabulary.load().value();
    CHECK(tokens.encode("aa") == ids{1, 5, 4});
    CHECK(tokens.bos() == 1u);
    CHECK(tokens.eos() == 2u);
    CHECK(tokens.is_special(1));
    CHECK(tokens.decode(ids{1, 5, 4, 2}) == "aa");
  }
  types(2);  // it cannot be BOS and the unknown token
  vocabulary.put("unknown_token_id", 0u);
  CHECK(vocabulary.said() == at("metadata", {"bos_token_id"}));
  vocabulary.put("add_bos_token", false);
  CHECK(vocabulary.load()->encode("aa") == ids{5, 4});
}

TEST_CASE("the unknown token is the token that the file names, or else the only token of type unknown") {
  const auto types = [](small_vocabulary& vocabulary, const std::vector<std::int32_t>& all) {
    std::string bytes;
    for (const std::int32_t type : all) bytes += bytes_of_number(type);
    vocabulary.array("token_type", 5, all.size(), bytes);
  };
  small_vocabulary vocabulary;
  CHECK(vocabulary.load()->encode("az", false) == ids{5, 0});
  types(vocabulary, {3, 3, 3, 1, 1, 1});  // no token of type unknown, as in GGUF files of Gemma
  CHECK(vocabulary.said() == at("pieces"));
  vocabulary.put("unknown_token_id", 0u);
  CHECK(vocabulary.load()->unknown() == 0u);
  CHECK(vocabulary.load()->encode("az", false) == ids{5, 0});
  CHECK(vocabulary.load()->decode(ids{5, 0, 4}) == "aa");
  types(vocabulary, {2, 3, 3, 1, 1, 2});
  CHECK(vocabulary.load()->unknown() == 0u);
  vocabulary.put("unknown_token_id", 5u);
  CHECK(vocabulary.load()->unknown() == 5u);
  vocabulary.keys.erase("unknown_token_id");
  CHECK(vocabulary.said() == at("piece 5"));
}

TEST_CASE("a user-defined token of spaces is matched, although the file writes it with plain spaces") {
  small_vocabulary vocabulary;
  const auto pieces = [&](const std::vector<std::string>& all) {
    std::string texts, scores, types;
    for (const std::string& text : all) {
      texts += gguf_string(text);
      scores += bytes_of_number(0.0f);
      types += bytes_of_number(text == "<unk>" ? 2 : text.find(' ') == text.npos ? 1 : 4);
    }
    vocabulary.array("tokens", 8, all.size(), texts);
    vocabulary.array("scores", 6, all.size(), scores);
    vocabulary.array("token_type", 5, all.size(), types);
  };
  vocabulary.put("add_space_prefix", false);
  pieces({"<unk>", "<s>", "</s>", "\xe2\x96\x81", "a",
          "\xe2\x96\x81"
          "a",
          "  ", " a a"});
  CHECK(vocabulary.load()->encode("a  a", false) == ids{4, 6, 4});
  CHECK(vocabulary.load()->encode("a a   a", false) == ids{4, 5, 6, 5});
  CHECK(vocabulary.load()->encode("a a a", false) == ids{4, 7});
  CHECK(vocabulary.load()->decode(ids{4, 6, 4, 7}) == "a  a a a");
  pieces({"<unk>", "<s>", "</s>", "\xe2\x96\x81", "a",
          "\xe2\x96\x81"
          "a",
          " a", "  "});  // token 5, a normal piece, is the text of token 6 with U+2581
  CHECK(vocabulary.load()->encode("a a  a", false) == ids{4, 5, 7, 4});
}

TEST_CASE("in a chat, control tokens of Phi 3 swallow the white space after them") {
  using runs = std::vector<lazyprune::text_run>;
  const runs chat{{"<s></s>\n", true}, {" a", false}};
  small_vocabulary vocabulary;
  CHECK(vocabulary.load()->encode(runs{{"<s></s>", true}, {" a", false}}) == ids{1, 2, 3, 5});
  vocabulary.keys["architecture"] = gguf_key("general.architecture", "phi3");
  CHECK(vocabulary.load()->encode(chat) == ids{1, 2, 5});
  CHECK(vocabulary.load()->encode(runs{{"<s>", true}, {" a", false}}) == ids{1, 3, 5});
}

TEST_CASE("tokens that end texts and turns are special, even if the file types them as user-defined") {
  using runs = std::vector<lazyprune::text_run>;
  const std::vector<std::pair<std::string, std::int32_t>> all{{"<unk>", 2},      {"<s>", 3},      {"</s>", 4},   {"\xe2\x96\x81", 1},
                                                              {"<|im_end|>", 4}, {"<|user|>", 4}, {"<turn>", 4}, {"<x>", 4}};
  std::string texts, scores, types;
  for (const auto& [text, type] : all) {
    texts += gguf_string(text);
    scores += bytes_of_number(0.0f);
    types += bytes_of_number(type);
  }
  small_vocabulary vocabulary;
  vocabulary.array("tokens", 8, all.size(), texts);
  vocabulary.array("scores", 6, all.size(), scores);
  vocabulary.array("token_type", 5, all.size(), types);
  vocabulary.put("eot_token_id", 6u);
  const tokenizer tokens = vocabulary.load().value();
  CHECK(tokens.eos() == 2u);
  for (const lazyprune::token_id id : {2u, 4u, 6u}) {
    CAPTURE(id);
    CHECK(tokens.is_special(id));
    CHECK(tokens.encode(runs{{all[id].first, true}}) == ids{id});
    const ids typed = tokens.encode(runs{{all[id].first, false}});
    CHECK(std::ranges::find(typed, id) == typed.end());
  }
  CHECK(tokens.encode(runs{{"<x>", false}}) == ids{3, 7});
  CHECK(tokens.encode(runs{{"<|user|>", false}}) == ids{3, 5});
  CHECK(tokens.encode(runs{{"<|user|>", false}}, "<|user|>") == ids{3, 0});
}

TEST_CASE("vocabularies that cannot be used are refused") {
  using v = small_vocabulary;
  CHECK(said_after([](v& x) { x.put("model", "t5"); }) == unsupported("metadata: tokenizer.ggml.model", {"\"t5\""}));
  CHECK(said_after([](v& x) { x.put("add_eos_token", true); }) == unsupported("metadata: tokenizer.ggml.add_eos_token"));
  CHECK(said_after([](v& x) { x.array("precompiled_charsmap", 0, 1, "x"); }) ==
        unsupported("metadata: tokenizer.ggml.precompiled_charsmap"));
  CHECK(said_after([](v& x) { x.keys.erase("scores"); }) == at("metadata", {"\"tokenizer.ggml.scores\""}));
  CHECK(said_after([](v& x) { x.array("scores", 6, 1, bytes_of_number(0.0f)); }) == at("metadata: tokenizer.ggml.scores"));
  CHECK(said_after([](v& x) { x.array("token_type", 5, 6, std::string(24, '\0')); }) == at("token 0"));
  CHECK(said_after([](v& x) { x.put("bos_token_id", 6u); }) == at("metadata: tokenizer.ggml.bos_token_id", {", found 6"}));
  std::string same;
  for (int i = 0; i < 6; ++i) same += gguf_string("a");
  CHECK(said_after([&](v& x) { x.array("tokens", 8, 6, same); }) == at("piece 1", {"token 0", "token 1", "\"a\""}));
}

TEST_CASE("the keys of a small byte-level vocabulary are read") {
  small_vocabulary vocabulary;
  vocabulary.characters = known_unicode();
  if (!vocabulary.characters) return;
  const auto strings = [&](const std::string& key, const std::vector<std::string>& all) {
    std::string bytes;
    for (const std::string& text : all) bytes += gguf_string(text);
    vocabulary.array(key, 8, all.size(), bytes);
  };
  const auto types = [&](const std::vector<std::int32_t>& all) {
    std::string bytes;
    for (const std::int32_t type : all) bytes += bytes_of_number(type);
    vocabulary.array("token_type", 5, all.size(), bytes);
  };
  const std::vector<std::string> tokens = {"a", "b", "ab", "<s>", "<x>", "\xc4\xa0", "1", "11"};
  vocabulary.keys.clear();
  vocabulary.put("model", "gpt2");
  vocabulary.put("pre", "smollm");
  strings("tokens", tokens);
  types({1, 1, 1, 3, 4, 1, 1, 1});
  strings("merges", {"a b", "1 1"});
  const tokenizer tokens_of = vocabulary.load().value();
  CHECK(tokens_of.kind() == "BPE, byte-level");
  CHECK(tokens_of.encode("ab a11<s><x>") == ids{2, 5, 0, 6, 6, 3, 4});
  CHECK(tokens_of.encode(std::vector<lazyprune::text_run>{{"<s>", true}, {"<s><x>a", false}}) == ids{3, 4, 0});
  CHECK(tokens_of.decode(ids{3, 2, 5, 4}) == "ab <x>");
  CHECK_FALSE(tokens_of.bos().has_value());

  vocabulary.put("bos_token_id", 3u);
  vocabulary.put("eos_token_id", 4u);
  CHECK(vocabulary.load()->encode("a") == ids{0});
  vocabulary.put("add_bos_token", true);
  vocabulary.put("add_eos_token", true);
  CHECK(vocabulary.load()->adds_bos());
  CHECK(vocabulary.load()->eos() == 4u);
  CHECK(vocabulary.load()->encode(std::vector<lazyprune::text_run>{{"<x>a", false}, {"<x>", true}}) == ids{0, 4});  // a user's <x> is text
  CHECK(vocabulary.load()->encode("a") == ids{3, 0, 4});
  CHECK(vocabulary.load()->encode("a", false) == ids{0});
  vocabulary.put("pre", "llama-bpe");
  vocabulary.put("add_bos_token", false);
  CHECK(vocabulary.load()->encode("a11") == ids{0, 7, 4});
  vocabulary.keys.erase("add_bos_token");
  CHECK(vocabulary.load()->encode("a") == ids{3, 0, 4});  // this pre-tokenizer adds BOS by default
  vocabulary.keys.erase("token_type");
  CHECK(vocabulary.load()->encode("<s>", false).empty());  // without types, <s> is normal

  const auto said = [&](const auto& change) {
    const auto before = vocabulary.keys;
    change();
    const auto text = vocabulary.said();
    vocabulary.keys = before;
    return text;
  };
  CHECK(said([&] { vocabulary.put("pre", "default"); }) == unsupported("metadata: tokenizer.ggml.pre", {"\"default\""}));
  CHECK(said([&] { vocabulary.keys.erase("pre"); }) == at("metadata", {"\"tokenizer.ggml.pre\""}));
  CHECK(said([&] { vocabulary.keys.erase("bos_token_id"); }) == at("metadata", {"\"tokenizer.ggml.bos_token_id\""}));
  CHECK(said([&] { vocabulary.keys.erase("merges"); }) == at("metadata", {"\"tokenizer.ggml.merges\""}));
  CHECK(said([&] { strings("merges", {"a b", "b a"}); }) == at("metadata: tokenizer.ggml.merges: merge 1", {"\"ba\""}));
  CHECK(said([&] { strings("merges", {"ab"}); }) == at("metadata: tokenizer.ggml.merges: merge 0", {"\"ab\""}));
  CHECK(said([&] {
          strings("tokens", {"a", "b", "a", "<s>", "<x>"});
        }) == at("metadata: tokenizer.ggml.tokens", {"token 0", "token 2", "\"a\""}));
  CHECK(said([&] { types({1}); }) == at("metadata: tokenizer.ggml.token_type"));
  CHECK(said([&] { vocabulary.characters = nullptr; }) == unsupported("metadata: tokenizer.ggml.pre", {"\"llama-bpe\""}));
}

TEST_CASE("published texts have the ids that llama.cpp publishes" NEEDS("data")) {
  for (const auto& [name, size, adds_bos] : {std::tuple("llama-spm", 32000u, true), {"gpt-2", 50257u, false}}) {
    const auto path = test_data("tokenizers/ggml-vocab-" + std::string(name) + ".gguf");
    const auto* const characters = known_unicode();
    if (path.empty() || !characters) return;
    const tokenizer tokens = gguf_tokenizer_of(gguf_file{lazyprune::mapped_file(path)}, characters).value();
    CHECK(tokens.size() == size);
    CHECK(tokens.adds_bos() == adds_bos);
    check_published(tokens, path.string() + ".out");
  }
  // The test data has these vocabularies as tokenizer.json.
  for (const auto& [file, expected] : {std::pair("tokenizer-json/real-qwen3", "tokenizers/ggml-vocab-qwen2.gguf.out"),
                                       {"tokenizer-json/real-llama-3", "tokenizers/ggml-vocab-llama-bpe.gguf.out"},
                                       {"models/story-hf", "models/story-hf/tokenizer_vectors_hfjs.out"}}) {
    const auto path = test_data(std::string(file) + "/tokenizer.json");
    const auto* const characters = known_unicode();
    if (path.empty() || !characters) return;
    const tokenizer tokens(lazyprune::parse_tokenizer_json(read_text(path), path.string(), characters));
    check_published(tokens, test_data(expected));
  }
}

TEST_CASE("small vocabularies of every kind give the ids on which llama.cpp and the tokenizers library agree" NEEDS("data")) {
  const auto folder = test_data("gguf");
  const auto* const characters = known_unicode();
  if (folder.empty() || !characters) return;
  for (const char* name : {"llama-f32", "llama3-q4_k_m", "mistral-q4_k_m", "qwen2-q4_k_m", "qwen3-q4_k_m", "gemma3-q4_k_m"}) {
    CAPTURE(name);
    const tokenizer tokens =
        gguf_tokenizer_of(gguf_file{lazyprune::mapped_file(folder / (std::string(name) + ".gguf"))}, characters).value();
    const auto cases = nlohmann::json::parse(read_text(folder / (std::string(name) + ".expected.json"))).at("tokenizer");
    for (const auto& each : cases) CHECK(tokens.encode(each.at("text").get<std::string>(), false) == each.at("ids").get<ids>());
    CHECK(cases.size() > 5);
  }
}

TEST_CASE("a tokenizer.json written as GGUF, with the name of its pre-tokenizer, gives the same ids and texts" NEEDS("data")) {
  const auto* const characters = known_unicode();
  const auto all = test_data("tokenizer-json");
  if (!characters || all.empty()) return;
  for (const auto& [kind, pre] : {std::pair("gpt2", "gpt-2"),
                                  {"starcoder", "smollm"},
                                  {"llama3", "llama-bpe"},
                                  {"qwen2", "qwen2"},
                                  {"tekken", "tekken"},
                                  {"gpt4o", "gpt-4o"},
                                  {"deepseek-v2", "deepseek-coder"},
                                  {"deepseek-v3", "deepseek-v3"}}) {
    const std::string name = kind;
    const tokenizer tokens = gguf_of(nlohmann::json::parse(read_text(all / kind / "tokenizer.json")), pre, characters);
    std::istringstream lines(read_text(all / kind / "cases.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto each = nlohmann::json::parse(line);
      CHECK_MESSAGE(tokens.encode(each.at("text").get<std::string>(), false) == each.at("ids").get<ids>(), name << ": " << line);
      CHECK(tokens.decode(each.at("ids_special").get<ids>()) == each.at("decoded_skip").get<std::string>());
    }
  }
}

TEST_CASE("SmolLM2's rendered chats and long texts have the ids of transformers" NEEDS("smollm2")) {
  const auto path = smollm2();
  const auto expected = test_data("smollm2/expected.json");
  const auto* const characters = known_unicode();
  if (path.empty() || expected.empty() || !characters) return;
  const tokenizer tokens = gguf_tokenizer_of(gguf_file{lazyprune::mapped_file(path)}, characters).value();
  const auto all = nlohmann::json::parse(read_text(expected));
  CHECK(all.at("cases").size() == 13);
  for (const auto& each : all.at("cases")) {
    const auto text = each.at(each.contains("rendered") ? "rendered" : "text").get<std::string>();
    CHECK(tokens.encode(std::vector<lazyprune::text_run>{{text, true}}) == each.at("ids").get<ids>());
  }
}

TEST_CASE("Gemma 3's texts have the ids of llama.cpp" NEEDS("gemma3")) {
  const auto path = gemma3();
  const auto expected = test_data("gemma3-270m/ids.json");
  if (path.empty() || expected.empty()) return;
  const tokenizer tokens = gguf_tokenizer_of(gguf_file{lazyprune::mapped_file(path)}).value();
  CHECK(tokens.unknown() == 3u);
  CHECK(tokens.adds_bos());
  const auto all = nlohmann::json::parse(read_text(expected));
  CHECK(all.size() > 30);
  for (const auto& each : all) {
    const auto text = each.at("text").get<std::string>();
    CAPTURE(text);
    CHECK(tokens.encode(text, false) == each.at("ids").get<ids>());
    CHECK(tokens.encode(text, false, lazyprune::special_tokens::spelled_out) == each.at("ids_plain").get<ids>());
    CHECK(tokens.encode(text) == each.at("ids_bos").get<ids>());
  }
}
