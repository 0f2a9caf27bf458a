// SPDX-License-Identifier: MIT
#include <lazyprune/text/model_tokenizer.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <files/gguf_writer.hpp>
#include <files/model_files.hpp>
#include <files/support.hpp>
#include <test_data.hpp>
#include <text/sentencepiece_writer.hpp>
#include <text/tokenizer/known_unicode.hpp>

using namespace lazyprune_test;
using lazyprune::find_tokenizer;
using lazyprune::load_tokenizer;

namespace {

/// A tokenizer.json with the letters a and b and their merge. It puts <s> before a text.
constexpr std::string_view small_json =
    R"({"added_tokens": [{"id": 3, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
    "normalized": false, "special": true}],
  "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
                     "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}}},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})";

std::string small_sentencepiece() {
  return special_pieces() + byte_pieces() + piece_field("a", -1) + trainer_field(true) + normalizer_field(true, false);
}

/// Returns the error of loading the folder's tokenizer, without the folder's path.
fault said_of(const temporary_folder& folder) {
  return error_of([&] { load_tokenizer(folder.path()); }).after(folder.path().string());
}

using ids = std::vector<lazyprune::token_id>;

}  // namespace

TEST_CASE("tokenizer.json is preferred to tokenizer.model, and the post-processor in tokenizer.json decides whether BOS is added") {
  const temporary_folder folder;
  CHECK_FALSE(find_tokenizer(lazyprune::model_folder(folder.path()), nullptr).has_value());
  CHECK(said_of(folder) == at(""));
  folder.write("tokenizer.model", small_sentencepiece());
  CHECK(load_tokenizer(folder.path()).kind() == "SentencePiece BPE");
  folder.write("tokenizer.json", small_json);
  folder.write("tokenizer_config.json",
               R"({"add_bos_token": false, "bos_token": {"content": "<s>"}, "eos_token": "b", "pad_token": "none"})");
  const auto tokens = load_tokenizer(folder.path());
  CHECK(tokens.kind() == "BPE");
  CHECK(tokens.encode("aba") == ids{3, 0, 1, 0});  // b is EOS and therefore special, so it is not merged with a
  CHECK(tokens.bos() == 3u);
  CHECK(tokens.eos() == 1u);
  CHECK(tokens.adds_bos());
  // Each file can also be loaded alone.
  CHECK(load_tokenizer(folder / "tokenizer.json").encode("ab") == ids{3, 2});
  CHECK_FALSE(load_tokenizer(folder / "tokenizer.json").bos().has_value());
  CHECK(load_tokenizer(folder / "tokenizer.model").size() == 260);

  folder.write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  CHECK(said_of(folder) == at("/tokenizer_config.json: eos_token", {"\"</s>\""}));
  folder.write("tokenizer_config.json", std::string(2 << 20, ' ') + "{}");  // real files with thousands of added tokens are large
  CHECK(said_of(folder) == "no error");
  CHECK(error_of([&] { find_tokenizer(lazyprune::model_folder(folder.path()), nullptr, 2); }) ==
        at((folder / "tokenizer.json").string() + ": pieces", {", found 3"}));
}

TEST_CASE("the files beside a tokenizer add tokens and name special tokens") {
  using runs = std::vector<lazyprune::text_run>;
  const temporary_folder folder;
  folder.write("tokenizer.json", small_json);
  const std::string end =
      R"({"content": "<e>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})";
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {"4": )" + end + R"(, "3": {"content": "<s>", "single_word": true,
      "lstrip": false, "rstrip": false, "normalized": false, "special": true}}})");
  CHECK(load_tokenizer(folder.path()).encode("a<e><s>b", false) == ids{0, 4, 3, 1});
  CHECK(load_tokenizer(folder.path()).is_special(4));
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {"5": )" + end + "}}");
  CHECK(said_of(folder) == at("/tokenizer_config.json: \"<e>\"", {"4", "5"}));
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": )" + end + "}}");
  CHECK(said_of(folder) == at("/tokenizer_config.json: added_tokens_decoder.x"));

  folder.write("added_tokens.json", R"({"<f>": 5, "<e>": 4})");
  folder.write("tokenizer_config.json", R"({"additional_special_tokens": ["<f>", "<none>"]})");
  const auto listed = load_tokenizer(folder.path());
  CHECK(listed.encode("a<e><f>b", false) == ids{0, 4, 5, 1});
  CHECK_FALSE(listed.is_special(4));
  CHECK(listed.is_special(5));

  folder.write("added_tokens.json", "{}");
  for (const char* name : {"eos_token", "pad_token", "unk_token"}) {  // "ab" is then special, because the key names it
    folder.write("tokenizer_config.json", "{\"" + std::string(name) + "\": \"ab\"}");
    const auto named = load_tokenizer(folder.path());
    CHECK(named.is_special(2));
    CHECK(named.encode(runs{{"ab", true}, {"ab", false}}) == ids{2, 0, 1});
  }
  folder.write("tokenizer_config.json", R"({"extra_special_tokens": {"image_token": {"content": "ab"}}})");
  CHECK(load_tokenizer(folder.path()).is_special(2));

  const temporary_folder pieces;
  pieces.write("tokenizer.model", small_sentencepiece());
  pieces.write("added_tokens.json", R"({"<e>": 260, "</s>": 2, "<far>": 300})");
  const auto more = load_tokenizer(pieces.path());
  CHECK(more.size() == 261);
  CHECK(more.encode("<e>", false).back() == 260u);
}

TEST_CASE("if a folder's model is a GGUF file, the tokenizer in that file is used") {
  const temporary_folder folder;
  folder.write("m.gguf", gguf_bytes({}, {}));
  CHECK(said_of(folder) == at("/m.gguf: metadata"));
  folder.write("tokenizer.json", small_json);
  CHECK(said_of(folder) == at("/m.gguf: metadata"));
  folder.write("config.json", "{}");
  folder.write("model.safetensors", "");
  CHECK(said_of(folder) == "no error");
}

TEST_CASE("a GGUF file with only a vocabulary is a tokenizer" NEEDS("data")) {
  const auto data = test_data("tokenizers/ggml-vocab-llama-spm.gguf");
  if (!data.empty()) CHECK(load_tokenizer(data).size() == 32000);
}

TEST_CASE("tokenizers in other formats are refused by name") {
  const auto only = [](const std::string& name) {
    const temporary_folder folder;
    folder.write(name, "");
    return said_of(folder);
  };
  CHECK(only("tokenization_xgen.py") == unsupported("/tokenization_xgen.py"));
  CHECK(only("qwen.tiktoken") == unsupported("/qwen.tiktoken"));
  CHECK(only("tekken.json").ends_with("found a tokenizer format that is not supported"));
  CHECK(only("README.md").ends_with("found none of them"));
  const temporary_folder folder;
  folder.write("tokenization_xgen.py", "");
  folder.write("tokenizer.json", small_json);  // code is ignored if there is a tokenizer.json
  CHECK(said_of(folder) == "no error");
}

TEST_CASE("without Unicode tables, the error says which part of a file cannot be read") {
  const temporary_folder folder;
  auto json = nlohmann::json::parse(small_json);
  json["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "a+"}}}, {"behavior", "Isolated"}, {"invert", false}};
  folder.write("tokenizer.json", json.dump());
  CHECK(said_of(folder) == unsupported("/tokenizer.json: pre_tokenizer.pattern.Regex", {"\"a+\""}));
  if (const auto* const characters = known_unicode()) CHECK(load_tokenizer(folder.path(), characters).encode("ab", false) == ids{0, 1});
}

TEST_CASE("find_tokenizer returns an opened model's tokenizer, or nullopt") {
  const auto pocket = find_tokenizer(lazyprune::checkpoint(pocket_model()));
  REQUIRE(pocket.has_value());
  CHECK(pocket->size() == 2304);
  CHECK(pocket->adds_bos());
  CHECK_FALSE(find_tokenizer(lazyprune::checkpoint(small_folder().path())).has_value());
}

TEST_CASE("find_tokenizer reads the tokenizer of a published model" NEEDS("data")) {
  const auto story = test_data("models/story-hf");
  if (story.empty()) return;
  CHECK(find_tokenizer(lazyprune::checkpoint(story))->size() == 2048);
}

TEST_CASE("tokenizer_config.json may say whether a text begins with BOS") {
  const small_folder folder;
  const std::string model = special_pieces() + byte_pieces() + piece_field("a", -1) + trainer_field(true) + normalizer_field(true, false);
  folder.write("tokenizer.model", model);
  const lazyprune::checkpoint loaded(folder.path());
  CHECK(find_tokenizer(loaded)->size() == 260);
  CHECK(find_tokenizer(loaded)->adds_bos());
  const auto adds_bos = [&](const std::string& text) {
    folder.write("tokenizer_config.json", text);
    return find_tokenizer(loaded)->adds_bos();
  };
  CHECK(adds_bos("{}"));
  CHECK(adds_bos(R"({"add_bos_token": null})"));
  CHECK(adds_bos(R"({"add_bos_token": true, "bos_token": {"content": "<s>"}, "add_prefix_space": true, "add_eos_token": false})"));
  CHECK_FALSE(adds_bos(R"({"add_bos_token": false, "bos_token": "<s>", "model_max_length": 1000000000000000019884624838656})"));
  const auto said = [&](const std::string& text) {
    folder.write("tokenizer_config.json", text);
    return error_of([&] { find_tokenizer(loaded); }).after(folder.file("tokenizer_config.json") + ": ");
  };
  CHECK(said(R"({"add_bos_token": 1})") == at("add_bos_token", {", found 1"}));
  CHECK(said(R"({"add_eos_token": true})") == unsupported("add_eos_token"));
  CHECK(said(R"({"add_prefix_space": false})") == at("add_prefix_space", {"add_dummy_prefix"}));
  CHECK(said(R"({"bos_token": "<bos>"})") == at("bos_token", {"\"<s>\"", "\"<bos>\""}));
  std::filesystem::remove(folder / "tokenizer_config.json");
  std::string more = model;
  for (int i = 0; i < 41; ++i) more += piece_field("piece " + std::to_string(i), -2);
  folder.write("tokenizer.model", more);
  CHECK(said("{}") == at(folder.file("tokenizer.model") + ": pieces", {"300", "301"}));
}
