// SPDX-License-Identifier: MIT
// Threads load the same files at the same time, and use at once what they have loaded. They also share what one of them has loaded.
#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/transformer.hpp>
#include <lazyprune/text/chat_template.hpp>
#include <lazyprune/text/model_tokenizer.hpp>

#include <model/tiny_model.hpp>
#include <test_data.hpp>

#include "on_threads.hpp"

using namespace lazyprune;
using lazyprune_test::on_threads;

namespace {

constexpr std::size_t loading_threads = 6;

/// Loads a model from these files with this number of threads. Returns the logits of some tokens, under a policy that prunes.
std::vector<float> logits_of_model(const checkpoint& files, int threads) {
  cpu backend({.threads = threads});
  const auto net = load_model(backend, files);
  workspace<cpu> work(net, backend);
  auto seq = lazyprune_test::begin(net, lazyllm(stages{{1, 0.5}}));
  const auto logits = forward(work, seq, lazyprune_test::some_tokens(20), phase::prefill);
  return {logits.begin(), logits.end()};
}

/// Encodes a text, and checks that its tokens decode to the text.
std::vector<token_id> tokens_of_text(const tokenizer& tokens) {
  const std::string text = "the old council remembered the quarries";
  std::vector<token_id> encoded = tokens.encode(text, special_tokens::spelled_out);
  if (tokens.decode(encoded) != text) encoded.clear();
  return encoded;
}

void check_loads(const std::filesystem::path& path) {
  CAPTURE(path.string());
  const std::vector<float> alone = logits_of_model(checkpoint(path), 1);
  std::vector<std::vector<float>> together(loading_threads), shared(loading_threads);
  on_threads(loading_threads, [&](std::size_t i) { together[i] = logits_of_model(checkpoint(path), i % 2 ? 2 : 1); });
  const checkpoint files(path);
  on_threads(loading_threads, [&](std::size_t i) { shared[i] = logits_of_model(files, i % 2 ? 2 : 1); });
  for (std::size_t i = 0; i < loading_threads; ++i) {
    CAPTURE(i);
    CHECK(together[i] == alone);
    CHECK(shared[i] == alone);
  }
}

}  // namespace

TEST_CASE("threads load one folder, or share its checkpoint, and compute the same logits") { check_loads(pocket_model()); }

TEST_CASE("threads load one GGUF file, or share its checkpoint, and compute the same logits" NEEDS("data")) {
  const auto folder = test_data("gguf");
  if (folder.empty()) return;
  check_loads(folder / "llama-q4_0.gguf");
  check_loads(folder / "llama-q4_k_m.gguf");
}

TEST_CASE("threads load one tokenizer, or share it, and encode a text in the same way") {
  const tokenizer one = load_tokenizer(pocket_model());
  const std::vector<token_id> alone = tokens_of_text(one);
  REQUIRE_FALSE(alone.empty());
  std::vector<std::vector<token_id>> together(loading_threads), shared(loading_threads);
  on_threads(loading_threads, [&](std::size_t i) {
    together[i] = tokens_of_text(load_tokenizer(pocket_model()));
    for (int k = 0; k < 20; ++k) shared[i] = tokens_of_text(one);
  });
  for (std::size_t i = 0; i < loading_threads; ++i) {
    CAPTURE(i);
    CHECK(together[i] == alone);
    CHECK(shared[i] == alone);
  }
}

TEST_CASE("threads share a chat template and a chat, and render the same text") {
  const chat_template chat(
      "{% set n = namespace(count=0) %}{% for m in messages %}{% if loop.changed(m.role) %}[{{ m.role | upper }}]{% endif %}"
      "{{ m.content | trim }}{% set n.count = n.count + 1 %}{% endfor %}{{ n.count }}{{ messages | map(attribute='role') | join(',') }}");
  const auto request =
      chat_request::parse(R"({"messages": [{"role": "user", "content": " one "}, {"role": "user", "content": "two"}]})", "");
  const std::string alone = chat.render(request).text();
  CHECK(alone == "[USER]onetwo2user,user");
  std::vector<std::size_t> same(loading_threads);
  on_threads(loading_threads, [&](std::size_t i) {
    for (int k = 0; k < 50; ++k) same[i] += chat.render(request).text() == alone;
  });
  for (const std::size_t count : same) CHECK(count == 50);
}
