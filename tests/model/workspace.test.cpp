// SPDX-License-Identifier: MIT
#include <lazyprune/model/workspace.hpp>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/transformer.hpp>

#include <doctest/doctest.h>

#include <thread>

#include <fault.hpp>
#include "tiny_model.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::begin, lazyprune_test::some_tokens, lazyprune_test::tiny_model;
using lazyprune_test::error_of;

namespace {

const stages twice_halved{{1, 0.5}, {3, 0.5}};

/// Returns the logits after the prompt and after each of five more tokens.
template <class Backend>
std::vector<float> logits_of(workspace<Backend>& work, sequence<Backend>& seq, std::size_t prompt) {
  const auto tokens = some_tokens(prompt + 5);
  std::vector<float> all;
  for (std::size_t done = 0; done < tokens.size();) {
    const auto now = std::span(tokens).subspan(done, done == 0 ? prompt : 1);
    const auto logits = forward(work, seq, now, done == 0 ? phase::prefill : phase::decode);
    all.insert(all.end(), logits.begin(), logits.end());
    done += now.size();
  }
  return all;
}

}  // namespace

TEST_CASE("sequences take turns in one workspace, and a sequence may change its workspace") {
  cpu backend{execution{.threads = 1}}, another{execution{.threads = 1}};
  const auto net = tiny_model(backend);
  const auto tokens = some_tokens(60);
  workspace<cpu> work(net, backend), other(net, another);
  auto alone = begin(net, lazyllm(twice_halved)), one = begin(net, lazyllm(twice_halved)), two = begin(net, dense());
  for (std::size_t done = 0; done < tokens.size();) {
    const auto now = std::span(tokens).subspan(done, done == 0 ? 50 : 1);
    const phase when = done == 0 ? phase::prefill : phase::decode;
    const auto logits = forward(work, alone, now, when);
    const std::vector<float> expected(logits.begin(), logits.end());
    forward(work, two, now, when);
    REQUIRE(std::ranges::equal(forward(done % 2 ? other : work, one, now, when), expected));
    done += now.size();
  }
}

TEST_CASE("threads share a model, each with a workspace and sequences of its own: they get the bits of one thread") {
  using backend_type = reference<float>;
  backend_type loader{execution{}};
  const auto net = tiny_model(loader), other = tiny_model(loader);
  constexpr std::size_t threads = 4, seqs = 6;
  const auto length = [](std::size_t thread, std::size_t i) { return 3 + 11 * i + 7 * thread; };  // the rotary table grows during the test
  std::vector<std::vector<float>> found(threads * seqs);
  {
    std::vector<std::jthread> running;
    for (std::size_t t = 0; t < threads; ++t)
      running.emplace_back([&, t] {
        backend_type backend{execution{}};
        workspace<backend_type> work(net, backend);
        for (std::size_t i = 0; i < seqs; ++i) {
          auto seq = begin(net, lazyllm(twice_halved));
          found[t * seqs + i] = logits_of(work, seq, length(t, i));
        }
      });
  }
  workspace<backend_type> work(other, loader);
  for (std::size_t t = 0; t < threads; ++t)
    for (std::size_t i = 0; i < seqs; ++i) {
      auto seq = begin(other, lazyllm(twice_halved));
      CHECK(found[t * seqs + i] == logits_of(work, seq, length(t, i)));
    }
}

TEST_CASE("forks of one document in threads answer as they would one after another") {
  using backend_type = reference<float>;
  backend_type loader{execution{}};
  const auto net = tiny_model(loader);
  workspace<backend_type> work(net, loader);
  const auto tokens = some_tokens(150);
  auto document = begin(net, lazyllm(stages{{2, 0.5}, {3, 0.5}}));
  const sequence_step<backend_type> chunk{document, std::span(tokens).first(120), phase::prefill, 0};
  REQUIRE(forward(work, chunk));
  const auto answer = [&](workspace<backend_type>& with, sequence<backend_type> fork, std::size_t question) {
    std::vector<float> all;
    for (std::size_t at = 120 + question, step = 0; at < 150; ++at, ++step) {
      const auto logits = forward(with, fork, std::span(tokens).subspan(at, 1), step == 0 ? phase::prefill : phase::decode);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  };
  std::vector<std::vector<float>> found(8);
  {
    std::vector<sequence<backend_type>> forks;
    for (std::size_t i = 0; i < found.size(); ++i) forks.push_back(document.fork());
    std::vector<std::jthread> running;
    for (std::size_t i = 0; i < found.size(); ++i)
      running.emplace_back([&, i, fork = std::move(forks[i])]() mutable {
        backend_type backend{execution{}};
        workspace<backend_type> own(net, backend);
        found[i] = answer(own, std::move(fork), i);
      });
  }
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == answer(work, document.fork(), i));
}

TEST_CASE("reserved memory is as large as steps of that size need, and changes no result") {
  reference<float> backend{execution{}};
  const auto net = tiny_model(backend);
  workspace<reference<float>> work(net, backend), reserved(net, backend);
  auto seq = begin(net, lazyllm(twice_halved)), other = begin(net, lazyllm(twice_halved));
  const auto expected = logits_of(work, seq, 40);
  CHECK(error_of([&] { reserved.reserve({.tokens = 257}); }) == at("workspace: reserve", {"1", "256", ", found 257"}, error_code::no_room));
  CHECK_THROWS_AS(reserved.reserve({.tokens = 0}), error);
  CHECK(reserved.bytes(45) == 0);
  reserved.reserve({.tokens = 45});
  const model_config& c = net.config;
  const std::size_t row = 3 * c.hidden + 2 * c.n_heads * c.head_dim + 2 * c.n_kv_heads * c.head_dim + c.ffn, angles = c.head_dim;
  CHECK(reserved.bytes(45) == (45 * (row + angles) + c.vocabulary) * sizeof(float));
  const std::size_t before = reserved.bytes(45);
  CHECK(logits_of(reserved, other, 40) == expected);
  CHECK(reserved.bytes(45) - before < 45 * 8 * sizeof(float));  // the steps add the host's lists and one row of probabilities

  model_config config = lazyprune_test::tiny_config();
  config.rope = {.scaling = rope_scaling::longrope, .original_positions = 12, .divisors = {1.0, 1.5}, .long_divisors = {3.0, 5.0}};
  const auto longer = tiny_model(backend, config);
  workspace<reference<float>> either(longer, backend);
  either.reserve({.tokens = 20});
  CHECK(either.bytes(20) - either.bytes(0) == 2 * 20 * angles * sizeof(float));  // for sequences below and above the original length
}

TEST_CASE("bytes(n) counts the scratch and n positions of the rotary table, however long the table is") {
  reference<float> backend{execution{}};
  const auto net = tiny_model(backend);
  workspace<reference<float>> work(net, backend);
  CHECK(work.bytes(10) == 0);
  work.reserve(10);
  const std::size_t ten = work.bytes(10);
  CHECK(ten == 10 * net.config.head_dim * sizeof(float));
  work.reserve(100);
  CHECK(work.bytes(10) == ten);
  CHECK(work.bytes(20) == 2 * ten);
  auto seq = begin(net, lazyllm(twice_halved));
  forward(work, seq, some_tokens(20), phase::prefill);
  CHECK(work.bytes(20) > 2 * ten);
  const std::size_t after = work.bytes(20);
  seq.clear();
  forward(work, seq, some_tokens(20), phase::prefill);
  CHECK(work.bytes(20) == after);
}
