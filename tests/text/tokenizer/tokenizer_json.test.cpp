// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/tokenizer_json.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <counted_allocations.hpp>
#include <files/support.hpp>
#include <lazyprune/text/tokenizer.hpp>
#include <test_data.hpp>
#include <text/tokenizer/known_unicode.hpp>

using namespace lazyprune_test;
using lazyprune::parse_tokenizer_json;
using lazyprune::special_text;
using lazyprune::token_decoder;
using lazyprune::token_id;
using lazyprune::token_pipeline;
using lazyprune::tokenizer;
using ids = std::vector<token_id>;

namespace {

/// The smallest valid file: the letters a and b and their merge.
nlohmann::json small() {
  return nlohmann::json::parse(R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
              "byte_fallback": false, "ignore_merges": false, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})");
}
nlohmann::json added(int id, const std::string& text) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}
tokenizer parse(const nlohmann::json& json) { return tokenizer(parse_tokenizer_json(json.dump(), "t.json", nullptr)); }
fault said(const nlohmann::json& json) {
  return error_of([&] { parse(json); });
}

struct known_tokenizer {
  std::filesystem::path folder;
  tokenizer tokens;
};

std::vector<known_tokenizer> read_all() {
  std::vector<known_tokenizer> found;
  const std::filesystem::path all = test_data("tokenizer-json");
  const auto* const characters = known_unicode();
  if (all.empty() || !characters) return found;
  for (const auto& entry : std::filesystem::directory_iterator(all)) {
    if (!entry.is_directory()) continue;
    std::filesystem::path file = entry.path() / "tokenizer.json";
    if (entry.path().filename() == "real-llama-2") file = test_data("tokenizers/llama2/tokenizer.json");
    if (file.empty()) continue;
    found.push_back({entry.path(), tokenizer(parse_tokenizer_json(read_text(file), file.string(), characters))});
  }
  return found;
}

/// Returns every tokenizer of the test data. The list is empty if there is no test data, or if the build has no Unicode tables.
const std::vector<known_tokenizer>& every_kind() {
  static const std::vector<known_tokenizer> all = read_all();
  return all;
}

/// Calls with(name, tokenizer, folder) for each tokenizer of the test data.
template <class With>
void each_kind(const With& with) {
  for (const known_tokenizer& known : every_kind()) with(known.folder.filename().string(), known.tokens, known.folder);
}

template <class Each>
void each_line(const std::filesystem::path& path, const Each& each) {
  std::ifstream file(path);
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line); ++lines)
    if (lines % one_in(15u) == 0) each(nlohmann::json::parse(line));
  REQUIRE(lines > 0);
}

std::string streamed(const tokenizer& tokens, const ids& all, special_text special) {
  token_decoder decoder(tokens, special);
  std::string text;
  for (const token_id id : all) {
    const std::string part = decoder.push(id);
    REQUIRE(lazyprune::utf8_end(part) == part.size());
    text += part;
  }
  return text + decoder.flush();
}

}  // namespace

TEST_CASE("in all test data, ids and texts are those of tokenizers 0.23" NEEDS("data")) {
  each_kind([](const std::string& name, const tokenizer& tokens, const std::filesystem::path& folder) {
    each_line(folder / "cases.jsonl", [&](const nlohmann::json& line) {
      const std::string text = line["text"];
      const ids special = line["ids_special"];
      CHECK_MESSAGE(tokens.encode(text, false) == line["ids"].get<ids>(), name << ": " << text);
      CHECK_MESSAGE(tokens.encode(text) == special, name << ": " << text);
      CHECK_MESSAGE(streamed(tokens, special, special_text::written) == line["decoded"], name << ": " << text);
      CHECK_MESSAGE(streamed(tokens, special, special_text::left_out) == line["decoded_skip"], name << ": " << text);
    });
    each_line(folder / "decode.jsonl", [&](const nlohmann::json& line) {
      const ids all = line["ids"];
      CHECK_MESSAGE(tokens.decode(all, special_text::written) == line["decoded"], name << ": " << line["ids"].dump());
      CHECK_MESSAGE(tokens.decode(all) == line["decoded_skip"], name << ": " << line["ids"].dump());
    });
  });
}

TEST_CASE("a byte-level tokenizer without a normalizer decodes the ids of random Unicode to the same text" NEEDS("data")) {
  each_kind([](const std::string& name, const tokenizer& tokens, const std::filesystem::path&) {
    if (name.find("gpt") == name.npos && name.find("llama3") == name.npos && name.find("deepseek") == name.npos && name != "starcoder")
      return;
    std::mt19937 random(11);
    for (int round = 0; round < 300 / one_in(5); ++round) {
      std::string text;
      for (std::size_t i = 0; i < random() % 40; ++i) {
        const auto code = static_cast<char32_t>(random() % (random() % 2 == 0 ? 0x80 : random() % 2 == 0 ? 0x3000 : 0x110000));
        lazyprune::append_utf8(text, code >= 0xd800 && code < 0xe000 ? U' ' : code);
      }
      CHECK_MESSAGE(tokens.decode(tokens.encode(text, false), special_text::written) == text, name << ": " << text);
    }
  });
}

TEST_CASE("each byte that is not UTF-8 is read as U+FFFD" NEEDS("data")) {
  each_kind([](const std::string& name, const tokenizer& tokens, const std::filesystem::path&) {
    CHECK_MESSAGE(tokens.encode("a\xff\xe2\x82z") == tokens.encode("a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz"), name);
  });
}

TEST_CASE("the smallest file is read, and some keys may be missing") {
  CHECK(parse(small()).encode("abba") == ids{2, 1, 0});
  CHECK(parse(small()).decode(ids{2, 1}) == "ab b");  // without a decoder, spaces join the pieces
  CHECK(parse(small()).kind() == "BPE");
  nlohmann::json old = small();
  old["model"].erase("type");
  old["model"]["merges"] = {"#version: 0.2", "a b"};
  old.erase("version");
  old["truncation"] = {{"max_length", 1}};
  CHECK(parse(old).encode("abba") == ids{2, 1, 0});
  nlohmann::json unigram = small();
  unigram["model"] = {{"type", "Unigram"},
                      {"unk_id", 0},
                      {"byte_fallback", false},
                      {"vocab", nlohmann::json::parse(R"([["?", 0], ["a", -1], ["aa", -1.5]])")}};
  CHECK(parse(unigram).encode("aaab") == ids{1, 2, 0});
  CHECK(parse(unigram).unknown() == 0u);
}

TEST_CASE("the model makes no special token from a user's text, even if the token is a piece") {
  using runs = std::vector<lazyprune::text_run>;
  nlohmann::json json = small();
  json["added_tokens"] = nlohmann::json::array({added(2, "ab")});  // array(), because GCC reads {x} as an array, and Clang as x
  for (const bool whole_words : {false, true}) {
    json["model"]["ignore_merges"] = whole_words;
    CHECK(parse(json).encode(runs{{"ab", true}, {"abab", false}}) == ids{2, 0, 1, 0, 1});
  }
  json["model"] = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", nlohmann::json::parse(R"([["?", 0], ["a", -1], ["ab", -1.5]])")}};
  CHECK(parse(json).encode(runs{{"aab", false}}) == ids{1, 1, 0});
  CHECK(parse(json).encode("aab") == ids{1, 2});
}

TEST_CASE("added tokens have the ids of their pieces, or the next ids; empty and repeated tokens are skipped") {
  nlohmann::json json = small();
  json["added_tokens"] = {added(7, "<x>"), added(9, ""), added(3, "<x>"), added(8, "ab"), added(3, "<y>")};
  CHECK(parse(json).encode("<x>ab<y>") == ids{3, 2, 4});
  json["model"]["vocab"] = {{"a", 0}, {"b", 1}, {"ab", 300}};  // the next id is the number of pieces, even if ids have a gap
  CHECK(parse(json).encode("<x>ab<y>") == ids{3, 300, 4});
}

TEST_CASE("malformed files and unsupported features are refused with their place") {
  const auto with = [](std::string_view pointer, nlohmann::json value) {
    nlohmann::json json = small();
    json[nlohmann::json::json_pointer(std::string(pointer))] = std::move(value);
    return said(json);
  };
  CHECK(said(nlohmann::json::array()) == at("t.json"));
  CHECK(with("/lora", 1) == unsupported("t.json: lora", {", found 1"}));
  CHECK(with("/version", "2.0") == unsupported("t.json: version", {"1.0", "\"2.0\""}));
  CHECK(with("/model/type", "WordPiece") == unsupported("t.json: model.type", {"\"WordPiece\""}));
  CHECK(with("/model/dropout", 0.1) == unsupported("t.json: model.dropout", {"0.1"}));
  CHECK(with("/model/end_of_word_suffix", "</w>") == unsupported("t.json: model.end_of_word_suffix", {"\"</w>\""}));
  CHECK(with("/model/unk_token", "?") == at("t.json: model.unk_token", {"\"?\""}));
  CHECK(with("/model/vocab/b", 0) == at("t.json: model.vocab.b", {", found 0"}));
  CHECK(with("/model/vocab/b", 1 << 24) == at("t.json: model.vocab.b", {"4101", "16777216"}));
  CHECK(with("/model/merges", {"a b c"}) == at("t.json: model.merges[0]", {"\"a b c\""}));
  CHECK(with("/model/merges", nlohmann::json::parse(R"([["b", "a"]])")) == at("t.json: model.merges[0]", {"\"ba\""}));
  CHECK(with("/role_to_token", nlohmann::json::object()) == "no error");
  CHECK(with("/added_tokens", nlohmann::json::array({nlohmann::json::array()})) == at("t.json: added_tokens[0]"));
  CHECK(with("/added_tokens", nlohmann::json::array({added(3, std::string(513, 'x'))})) == unsupported("t.json: added_tokens", {"512"}));
  nlohmann::json hole = small();
  hole["model"]["vocab"] = {{"a", 0}, {"b", 1}, {"ab", 3}};
  hole["added_tokens"] = nlohmann::json::array({added(3, "<x>")});
  CHECK(said(hole) == at("t.json: added_tokens", {"\"<x>\"", "3", "\"ab\""}));
  nlohmann::json newer = small();
  newer["version"] = "2.0";
  newer["lora"] = 1;
  CHECK(said(newer) == unsupported("t.json: version", {"\"2.0\""}));  // the version is checked first
  CHECK(with("/post_processor", {{"type", "BertProcessing"}, {"sep", {"x", 7}}, {"cls", {"a", 0}}}) == at("t.json: post_processor"));
  CHECK(error_of([] { parse_tokenizer_json("{\"model\": ", "t.json", nullptr); }).starts_with("t.json: byte "));
}

TEST_CASE("a real file that is cut or changed is refused or read, without a crash" NEEDS("data")) {
  const std::filesystem::path file = test_data("tokenizer-json/added-tokens/tokenizer.json");
  const auto* const characters = known_unicode();
  if (file.empty() || !characters) return;
  const std::string whole = read_text(file);
  std::mt19937 random(13);
  const int rounds = 60 / one_in(3);
  int read = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = whole;
    if (round % 3 == 0)
      bytes.resize(random() % bytes.size());
    else
      bytes[random() % (round % 3 == 1 ? 6000 : bytes.size())] =
          static_cast<char>(random() % 2 == 0 ? random() % 256 : '0' + random() % 10);
    try {
      const tokenizer tokens(parse_tokenizer_json(bytes, "t.json", characters));
      ++read;
      const ids all = tokens.encode("It's a test <|l|> of 123 words\n\n");
      tokens.decode(all);
    } catch (const lazyprune::error& fault) {
      CHECK(std::string_view(fault.what()).find('\n') == std::string_view::npos);
    }
  }
  CHECK(read < rounds);
}

TEST_CASE("a list of wrong values is refused, and all of its memory is at most 40 times as large as the file") {
  using nlohmann::json;
  const std::string place = "\"?\"";
  struct list {
    const char* key;
    json value;
  };
  const list lists[] = {
      {"added_tokens", "?"},
      {"normalizer", {{"type", "Sequence"}, {"normalizers", "?"}}},
      {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", "?"}}},
      {"post_processor", {{"type", "Sequence"}, {"processors", "?"}}},
      {"post_processor", {{"type", "TemplateProcessing"}, {"single", "?"}, {"pair", {}}, {"special_tokens", json::object()}}},
      {"post_processor", {{"type", "BertProcessing"}, {"sep", "?"}, {"cls", "?"}}},
      {"decoder", {{"type", "Sequence"}, {"decoders", "?"}}},
      {"model", {{"type", "Unigram"}, {"vocab", "?"}}}};
  for (const list& each : lists)
    for (const std::string_view item : {"[]", "{}", "0", "\"\"", R"({"":0})"}) {
      CAPTURE(each.key);
      CAPTURE(item);
      std::string items = "[";
      while (items.size() < (std::size_t{1} << 20) / one_in(8u)) items.append(item).append(",");
      items.back() = ']';
      json all = small();
      all[each.key] = each.value;
      std::string text = all.dump();
      while (text.find(place) != text.npos) text.replace(text.find(place), place.size(), items);
      const std::size_t before = allocated_bytes;
      CHECK(error_of([&] { parse_tokenizer_json(text, "t.json", nullptr); }).starts_with("t.json: " + std::string(each.key)));
      CHECK(allocated_bytes - before <= 40 * text.size());  // this includes memory that was freed again
    }
}
