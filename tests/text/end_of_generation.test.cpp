// SPDX-License-Identifier: MIT
#include <lazyprune/text/end_of_generation.hpp>

#include <doctest/doctest.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lazyprune/files/mapped_file.hpp>
#include <lazyprune/text/gguf_tokenizer.hpp>
#include <test_data.hpp>

using namespace lazyprune;
using ids = std::vector<token_id>;

namespace {

/// Returns a tokenizer with these pieces.
tokenizer with_pieces(std::initializer_list<const char*> all, std::optional<token_id> eos = {}) {
  return tokenizer(
      token_pipeline{"BPE", {}, {}, {}, bpe(vocabulary(std::vector<std::optional<std::string>>(all.begin(), all.end())), {}), {}, {}}, {},
      eos);
}

}  // namespace

TEST_CASE("the result has the config's ends, the tokenizer's EOS and the ends known by name, each once and in ascending order") {
  const ids config{3, 0};
  CHECK(end_of_generation(with_pieces({"a", "</s>", "<|im_end|>", "b", "c"}, 4), config) == ids{0, 1, 2, 3, 4});
  CHECK(end_of_generation(with_pieces({"a", "<|im_start|>", "<|im_end|> ", "b"}), {}).empty());
  CHECK(end_of_generation(with_pieces({"<eos>", "<end_of_turn>"}, 0), ids{1, 1}) == ids{0, 1});
}

TEST_CASE("some names end a generation in one vocabulary but not in another") {
  CHECK(end_of_generation(with_pieces({"<|end|>", "<|return|>"}), {}) == ids{0, 1});
  CHECK(end_of_generation(with_pieces({"<|end|>", "<|return|>", "<|call|>"}), {}) == ids{1, 2});
  CHECK(end_of_generation(with_pieces({"<|end|>", "<|flush|>", "<|calls|>"}), {}) == ids{1, 2});
  CHECK(end_of_generation(with_pieces({"</s>", "<|tool_response>"}), {}) == ids{1});
  CHECK(end_of_generation(with_pieces({"</s>", "<|tool_response>"}), ids{0}) == ids{0, 1});  // the config names token 0
}

TEST_CASE("Gemma 3 has the end tokens that llama.cpp prints" NEEDS("gemma3")) {
  const auto path = gemma3();
  if (path.empty()) return;
  const gguf_file file{mapped_file(path)};
  CHECK(end_of_generation(gguf_tokenizer_of(file).value(), {}) == ids{1, 106, 212});
}
