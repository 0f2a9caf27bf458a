// SPDX-License-Identifier: MIT
#include <lazyprune/model/prefix_cache.hpp>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/core/mix.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/continuous_batch.hpp>
#include <lazyprune/policy/scorer/window_attention.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include <fault.hpp>

#include "saved_bytes.hpp"
#include "tiny_model.hpp"

using namespace lazyprune;
using lazyprune_test::error_of, lazyprune_test::reader_of, lazyprune_test::some_tokens;

namespace {

constexpr std::size_t unbounded = std::size_t{1} << 40;

template <tensor_backend Backend>
struct cache_bench {
  model_config config = lazyprune_test::tiny_config();
  Backend backend{execution{}};
  model<Backend> net = lazyprune_test::tiny_model(backend, config);
  workspace<Backend> work{net, backend};
  std::size_t limit, question;
  prefix_cache<Backend> cache{limit, question};

  explicit cache_bench(std::size_t bytes = unbounded, std::size_t question_tokens = 0) : limit(bytes), question(question_tokens) {}

  /// Saves the cache, and replaces it by one that loads the saved bytes.
  void begin_again() {
    std::string bytes;
    byte_writer to = lazyprune_test::writer_to(bytes);
    cache.save(backend, to);
    prefix_cache<Backend> again(limit, question);
    byte_reader from = reader_of(bytes);
    again.load(backend, net, from);
    CHECK(again.size() == cache.size());
    cache = std::move(again);
  }

  template <class Policy>
  static any_session session(Policy policy) {
    return any_session(std::move(policy), {.layers = 4});
  }

  /// Returns a sequence that has read these tokens as chunks.
  template <class Policy>
  sequence<Backend> read(const std::vector<token_id>& tokens, Policy policy) {
    sequence<Backend> seq(net, session(std::move(policy)));
    CHECK(read_beginning(work, seq, tokens));
    return seq;
  }

  template <class Policy>
  sequence<Backend> begin(const std::vector<token_id>& prompt, Policy policy) {
    return cache.begin(net, session(std::move(policy)), prompt, prompt.size() + 1);
  }
};

std::vector<token_id> joined(std::vector<token_id> a, const std::vector<token_id>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

stages from_layer(layer_id first) { return {{first, 0.5}}; }

/// Random conversations: each prompt goes on from an earlier one, from its middle or from nothing, under a random policy. The answers with
/// the cache must be those of empty sequences, bit for bit. Prompts come in a continuous batch, which fills the cache. After every tenth
/// turn, the cache is saved and loaded.
template <tensor_backend Backend>
void walk(std::uint64_t seed, std::size_t bytes) {
  cache_bench<Backend> b(bytes, 4);
  continuous_batch<Backend> batch(b.work,
                                  {.question_tokens = 4, .before_question = [&](const sequence<Backend>& seq) { b.cache.keep(seq); }});
  std::uint64_t draws = 0;
  const auto draw = [&](std::size_t below) { return static_cast<std::size_t>(mix(seed, draws++) % below); };
  const auto session = [](std::size_t which) {
    if (which == 0) return cache_bench<Backend>::session(dense());
    if (which == 1) return cache_bench<Backend>::session(lazyllm({{1, 0.6}, {3, 0.3}}));
    if (which == 2) return cache_bench<Backend>::session(lazyllm({{2, 0.4}}));
    return cache_bench<Backend>::session(policy{window_attention{.window = 5}, stages{{2, 0.4}}, top_k{}, keep_all{}});
  };
  std::vector<std::vector<token_id>> texts{{}};
  std::size_t reused = 0;
  for (std::size_t turn = 0; turn < 40; ++turn) {
    const std::vector<token_id>& from = texts[draw(texts.size())];
    std::vector<token_id> prompt(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(draw(from.size() + 1)));
    for (std::size_t more = 1 + draw(20); more > 0 && prompt.size() < 100; --more) prompt.push_back(static_cast<token_id>(draw(40)));
    const std::size_t which = draw(4);
    generation_options options;
    options.max_new = 4;
    options.trace_logits = true;

    sequence<Backend> alone(b.net, session(which));
    const generation expected = generate(b.work, alone, prompt, options);

    sequence<Backend> seq = b.cache.begin(b.net, session(which), prompt, prompt.size() + options.max_new);
    const std::size_t known = seq.known();
    reused += known;
    batch.add(std::move(seq), {prompt.begin() + static_cast<std::ptrdiff_t>(known), prompt.end()}, options);
    std::vector<ended_sequence<Backend>> ended;
    while (ended.empty()) ended = batch.step(3 + draw(30));
    CAPTURE(turn);
    REQUIRE(ended.front().fault == nullptr);
    CHECK(ended.front().result.tokens == expected.tokens);
    const auto& got = ended.front().result.trace;
    REQUIRE(got.size() == expected.trace.size());
    for (std::size_t k = 0; k < got.size(); ++k) CHECK(got[k].logits == expected.trace[k].logits);
    for (layer_id l = 0; l < 4; ++l) CHECK(got.front().layers[l].active == expected.trace.front().layers[l].active);

    std::vector<token_id> text = joined(prompt, expected.tokens);
    if (text.size() > 90) text.resize(90);
    texts.push_back(std::move(text));
    if (turn % 10 == 9) b.begin_again();
  }
  if (bytes == unbounded) CHECK(reused > 100);
  CHECK(b.cache.bytes() <= bytes);
}

}  // namespace

TEST_CASE("a prompt goes on from the longest kept beginning, and computes only the rest of it") {
  cache_bench<reference<double>> b;
  const std::vector<token_id> document = some_tokens(30);
  CHECK(b.begin(joined(document, {1, 2, 3, 4}), lazyllm(from_layer(2))).known() == 0);
  b.cache.keep(b.read(document, lazyllm(from_layer(2))));
  CHECK(b.begin(joined(document, {1, 2, 3, 4}), lazyllm(from_layer(2))).known() == 30);
  std::vector<token_id> other(document.begin(), document.begin() + 11);
  other.insert(other.end(), {document[11] + 1, 5, 6, 7});
  CHECK(b.begin(other, lazyllm(from_layer(2))).known() == 11);
  CHECK(b.begin(document, lazyllm(from_layer(2))).known() == 27);  // the last piece is left
  CHECK(b.begin({document[0], 39, 39}, lazyllm(from_layer(2))).known() == 0);
}

TEST_CASE("a kept beginning serves policies whose chunks compute as many layers or more") {
  cache_bench<reference<double>> b;
  const std::vector<token_id> document = some_tokens(30), prompt = joined(document, {1, 2, 3, 4});
  b.cache.keep(b.read(document, lazyllm(from_layer(2))));
  CHECK(b.begin(prompt, lazyllm(from_layer(1))).known() == 0);
  CHECK(b.begin(prompt, lazyllm(from_layer(3))).known() == 30);
  CHECK(b.begin(prompt, dense()).known() == 30);
  b.cache.keep(b.read(document, dense()));
  CHECK(b.cache.size() == 2);
  CHECK(b.begin(prompt, lazyllm(from_layer(2))).known() == 30);
  const sequence<reference<double>> deep = b.begin(prompt, dense());
  CHECK(deep.session().tokens().frontier(0) == 4);  // of the two, the one with more layers
}

TEST_CASE("if the policy's chunks compute more layers than the kept ones, the rest of the prompt has a chunk, which is then kept") {
  cache_bench<reference<double>> b(unbounded, 4);
  continuous_batch<reference<double>> batch(b.work, {.question_tokens = 4, .before_question = [&](const auto& seq) { b.cache.keep(seq); }});
  const std::vector<token_id> document = some_tokens(30), prompt = joined(document, {1, 2, 3, 4});
  b.cache.keep(b.read(document, lazyllm(from_layer(2))));
  sequence<reference<double>> seq = b.begin(prompt, dense());
  CHECK(seq.known() == 26);
  generation_options options;
  options.max_new = 1;
  batch.add(std::move(seq), {prompt.begin() + 26, prompt.end()}, options);
  while (!batch.empty()) static_cast<void>(batch.step(512));
  CHECK(b.cache.size() == 2);
  const sequence<reference<double>> again = b.begin(joined(document, {4, 3, 2, 1}), dense());
  CHECK(again.known() == 30);
  CHECK(again.session().tokens().frontier(29) == 4);
}

TEST_CASE("a longer beginning replaces those that it continues; the least recently used one leaves when there is no room") {
  cache_bench<reference<double>> b;
  const std::vector<token_id> document = some_tokens(60);
  const auto first = [&](std::size_t count) {
    return std::vector<token_id>(document.begin(), document.begin() + static_cast<std::ptrdiff_t>(count));
  };
  b.cache.keep(b.read(first(20), dense()));
  b.cache.keep(b.read(first(50), dense()));
  CHECK(b.cache.size() == 1);
  b.cache.keep(b.read(first(30), dense()));
  CHECK(b.cache.size() == 1);
  const std::size_t each = b.cache.bytes();
  CHECK(each > 0);

  cache_bench<reference<double>> small(2 * each);
  const auto beginning = [](token_id with) {
    std::vector<token_id> tokens = some_tokens(50);
    tokens[0] = with;
    return tokens;
  };
  const auto finds = [&](token_id with) { return small.begin(joined(beginning(with), {1, 2, 3}), dense()).known() > 0; };
  for (const token_id with : {1u, 2u}) small.cache.keep(small.read(beginning(with), dense()));
  CHECK(small.cache.size() == 2);
  CHECK(finds(1));
  small.cache.keep(small.read(beginning(3), dense()));
  CHECK(small.cache.size() == 2);
  CHECK(finds(1));
  CHECK(!finds(2));
  CHECK(finds(3));
  cache_bench<reference<double>> none(0);
  none.cache.keep(none.read(document, dense()));
  CHECK(none.cache.size() == 0);
}

TEST_CASE("answers do not depend on what the cache holds") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    walk<reference<double>>(seed, unbounded);
    walk<reference<double>>(seed, 60000);
    walk<cpu>(seed, unbounded);
  }
}

TEST_CASE("a session with less room than a kept sequence gets its beginning") {
  cache_bench<reference<double>> b;
  b.cache.keep(b.read(some_tokens(60), lazyllm(from_layer(2))));
  const std::vector<token_id> prompt = some_tokens(20);
  const auto seq = b.cache.begin(b.net, any_session(lazyllm(from_layer(2)), {.layers = 4, .max_tokens = 40}), prompt, 40);
  CHECK(seq.known() == prompt.size() - detail::least_last_piece);
  CHECK(seq.session().limit() == 40);
}

TEST_CASE("a cache loads the sequences that fit, and nothing from damaged bytes or with a sequence that has read more than chunks") {
  cache_bench<cpu> b;
  b.cache.keep(b.read(some_tokens(30), lazyllm(from_layer(2))));
  b.cache.keep(b.read({7, 7, 7, 7, 7, 7}, dense()));
  std::string bytes;
  byte_writer to = lazyprune_test::writer_to(bytes);
  b.cache.save(b.backend, to);
  const auto load = [&](prefix_cache<cpu>& into, std::string changed) {
    byte_reader from = reader_of(std::move(changed));
    into.load(b.backend, b.net, from);
  };
  prefix_cache<cpu> small(b.cache.bytes() - 1), none(unbounded);
  load(small, bytes);
  CHECK(small.size() == 1);
  std::string damaged = bytes;
  damaged[damaged.size() - 20] ^= 1;
  CHECK(error_of([&] { load(none, damaged); }).where.starts_with("bytes: "));
  CHECK(error_of([&] { load(none, bytes.substr(0, bytes.size() - 1)); }).where == "bytes: checksum");
  CHECK(error_of([&] { load(none, "short"); }).where == "bytes: format");

  sequence<cpu> asked = b.read(some_tokens(9), dense());
  CHECK_FALSE(forward(b.work, asked, some_tokens(3), phase::prefill).empty());
  std::string wrong;
  byte_writer to_wrong = lazyprune_test::writer_to(wrong);
  to_wrong.text("lazyprune prefix cache 1");
  to_wrong.number<std::uint64_t>(1);
  to_wrong.number<layer_id>(4);
  asked.save(b.backend, to_wrong);
  CHECK(error_of([&] { load(none, wrong); }).where == "bytes: sequence");
  CHECK(none.size() == 0);
}
