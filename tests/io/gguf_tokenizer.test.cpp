// SPDX-License-Identifier: MIT
#include <lazyprune/io/gguf_tokenizer.hpp>

#include <doctest/doctest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <io/gguf_writer.hpp>
#include <io/support.hpp>
#include <test_data.hpp>

using namespace lazyprune_test;
using lazyprune::gguf_file;
using lazyprune::gguf_tokenizer_of;
using lazyprune::tokenizer;
using ids = std::vector<lazyprune::token_id>;

namespace {

/// A vocabulary of six tokens, to change.
struct small_vocabulary {
  std::map<std::string, std::string> keys;

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
    return gguf_tokenizer_of(gguf_file{lazyprune::mapped_file(folder.write("f.gguf", gguf_bytes(all, {})))});
  }
  std::string said() const {
    const std::string text = error_of([&] { load(); });
    const std::size_t at = text.find("f.gguf: ");
    return at == text.npos ? text : text.substr(at + 8);
  }
};

template <class Change>
std::string said_after(Change change) {
  small_vocabulary vocabulary;
  change(vocabulary);
  return vocabulary.said();
}

}  // namespace

TEST_CASE("a small vocabulary, and what its keys say") {
  small_vocabulary vocabulary;
  CHECK(vocabulary.load()->encode("aa") == ids{1, 5, 4});
  CHECK(vocabulary.load()->encode("a  a", false) == ids{5, 3, 5});  // spaces stay
  vocabulary.put("add_bos_token", false);
  vocabulary.put("add_space_prefix", false);
  CHECK(vocabulary.load()->encode("aa") == ids{4, 4});
  vocabulary.put("remove_extra_whitespaces", true);
  CHECK(vocabulary.load()->encode("a  a") == ids{4, 5});
  CHECK(vocabulary.load()->eos() == 2);
  vocabulary.keys.erase("model");
  CHECK_FALSE(vocabulary.load().has_value());
}

TEST_CASE("vocabularies that cannot be used") {
  using v = small_vocabulary;
  CHECK(said_after([](v& x) { x.put("model", "gpt2"); }) == "metadata: tokenizer.ggml.model: expected llama, found \"gpt2\"");
  CHECK(said_after([](v& x) { x.put("add_eos_token", true); }) == "metadata: tokenizer.ggml.add_eos_token: expected false, found true");
  CHECK(said_after([](v& x) { x.array("precompiled_charsmap", 0, 1, "x"); }) ==
        "metadata: tokenizer.ggml.precompiled_charsmap: expected none, found an array of 1 of type u8");
  CHECK(said_after([](v& x) { x.keys.erase("scores"); }) == "metadata: expected the key \"tokenizer.ggml.scores\", found none");
  CHECK(said_after([](v& x) { x.array("scores", 6, 1, bytes_of_number(0.0f)); }) ==
        "metadata: tokenizer.ggml.scores: expected 6 numbers, one a token, found an array of 1 of type f32");
  CHECK(said_after([](v& x) { x.array("token_type", 5, 6, std::string(24, '\0')); }).starts_with("token 0: expected a type from 1 to 6"));
  CHECK(said_after([](v& x) { x.put("bos_token_id", 6u); }) ==
        "metadata: tokenizer.ggml.bos_token_id: expected a whole number from 0 to 5, found 6");
  std::string same;
  for (int i = 0; i < 6; ++i) same += gguf_string("a");
  CHECK(said_after([&](v& x) { x.array("tokens", 8, 6, same); }) == "piece 1: expected every piece once, found \"a\" again");
}

TEST_CASE("Llama 2's vocabulary: the published vectors of llama.cpp") {
  const auto path = test_data("tokenizers/ggml-vocab-llama-spm.gguf");
  if (path.empty()) return;
  const tokenizer tokens = gguf_tokenizer_of(gguf_file{lazyprune::mapped_file(path)}).value();
  CHECK(tokens.size() == 32000);
  CHECK(tokens.adds_bos());
  const std::string inputs = read_text(path.string() + ".inp");
  std::istringstream outputs(read_text(path.string() + ".out"));
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

TEST_CASE("a small vocabulary of every type of token: ids that llama.cpp and tokenizers agree on") {
  const auto folder = test_data("gguf");
  if (folder.empty()) return;
  const tokenizer tokens = gguf_tokenizer_of(gguf_file{lazyprune::mapped_file(folder / "llama-f32.gguf")}).value();
  const auto cases = nlohmann::json::parse(read_text(folder / "llama-f32.expected.json")).at("tokenizer");
  for (const auto& each : cases) CHECK(tokens.encode(each.at("text").get<std::string>(), false) == each.at("ids").get<ids>());
  CHECK(cases.size() > 5);
}
