// SPDX-License-Identifier: MIT
#include <lazyprune/model/sequence.hpp>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/transformer.hpp>

#include <doctest/doctest.h>

#include <new>

#include <counted_allocations.hpp>

#include "tiny_model.hpp"

namespace {

using namespace lazyprune;
using lazyprune_test::begin, lazyprune_test::failing, lazyprune_test::some_tokens, lazyprune_test::tiny_config, lazyprune_test::tiny_model;

const stages hard{{1, 0.5}, {3, 0.5}};

template <class Scalar>
std::vector<double> copied(std::span<const Scalar> logits) {
  return {logits.begin(), logits.end()};
}

/// Logits after the first `prompt` tokens and after each of the others.
template <class Backend>
std::vector<std::vector<double>> read(workspace<Backend>& work, sequence<Backend>& text, std::span<const token_id> tokens,
                                      std::size_t prompt) {
  std::vector<std::vector<double>> logits;
  for (std::size_t done = 0; done < tokens.size();) {
    const auto now = tokens.subspan(done, done == 0 ? prompt : 1);
    logits.push_back(copied(forward(work, text, now, done == 0 ? phase::prefill : phase::decode)));
    done += now.size();
  }
  return logits;
}

}  // namespace

TEST_CASE("a sequence knows its tokens, and a session that has begun or has other layers is none of its own") {
  reference<float> backend{execution{}};
  const auto net = tiny_model(backend);
  CHECK_THROWS_WITH_AS((sequence<reference<float>>{net, any_session(dense(), {.layers = 5})}),
                       "session: layers: expected 4 as in the model, found 5", error);
  any_session begun(dense(), {.layers = 4});
  begun.begin({3, phase::prefill});
  CHECK_THROWS_WITH_AS((sequence<reference<float>>{net, std::move(begun)}), "session: tokens: expected none yet, found 3", error);

  auto text = begin(net, dense());
  workspace<reference<float>> work(net, backend);
  const auto tokens = some_tokens(9);
  read(work, text, tokens, 6);
  CHECK(std::ranges::equal(text.tokens(), tokens));
  CHECK(text.known() == 9);
  CHECK(text.session().known() == 9);
  CHECK(&text.model() == &net);
  CHECK(text.kv().rows(3).size() == 9);
  text.reserve(10);
  forward(work, text, std::span(tokens).first(1), phase::decode);
  CHECK_THROWS_AS(forward(work, text, std::span(tokens).first(1), phase::decode), error);
  CHECK(text.known() == 10);  // a step that is refused changes nothing
}

TEST_CASE_TEMPLATE("cleared, it is as good as new: no rows of what was forgotten stay in the store", Backend, reference<float>, cpu) {
  Backend backend{execution{.threads = 1}};
  const auto net = tiny_model(backend);
  workspace<Backend> work(net, backend);
  auto text = begin(net, lazyllm(hard)), fresh = begin(net, lazyllm(hard));
  const auto tokens = some_tokens(40);
  const auto expected = read(work, fresh, tokens, 32);

  forward(work, text, some_tokens(120), phase::prefill);
  CHECK(text.stored_rows().bytes() > 0);
  text.clear();
  CHECK(text.known() == 0);
  CHECK(text.session().known() == 0);
  CHECK(text.session().stats().rows == 0);
  CHECK(text.stored_rows().bytes() == 0);
  memory_watch memory;
  forward(work, text, std::span(tokens).first(1), phase::prefill, &memory);  // one token: nothing can be pruned
  CHECK(memory.most().store == 0);
  text.clear();
  CHECK(read(work, text, tokens, 32) == expected);
  CHECK(text.stored_rows().bytes() == fresh.stored_rows().bytes());
}

TEST_CASE(
    "memory that cannot be had: a step that did not begin can be tried again; after one that did the sequence says so until cleared") {
  reference<float> backend{execution{}};
  const auto tokens = some_tokens(70);
  const auto prompt = std::span(tokens).first(8), more = std::span(tokens).subspan(8);
  std::size_t untouched = 0, refused = 0;
  for (std::size_t n = 1;; ++n) {
    CAPTURE(n);
    const auto net = tiny_model(backend), other = tiny_model(backend);  // other: its rotary table is made by steps that do not fail
    workspace<reference<float>> work(net, backend), others_work(other, backend);
    auto text = begin(net, lazyllm(hard)), whole = begin(other, lazyllm(hard));
    const auto first = copied(forward(others_work, whole, prompt, phase::prefill));
    const auto second = copied(forward(others_work, whole, more, phase::prefill));
    REQUIRE(copied(forward(work, text, prompt, phase::prefill)) == first);

    failing = n;  // a longer rotary table, more tokens, more rows: all of it has to grow now
    bool failed = false;
    try {
      forward(work, text, more, phase::prefill);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    failing = 0;
    if (!failed) break;
    if (text.session().known() == prompt.size()) {
      REQUIRE(text.known() == prompt.size());
      REQUIRE(copied(forward(work, text, more, phase::prefill)) == second);
      ++untouched;
      continue;
    }
    REQUIRE_THROWS_WITH_AS(forward(work, text, prompt.first(1), phase::decode), doctest::Contains("session: begin"), error);
    text.clear();
    REQUIRE(copied(forward(work, text, prompt, phase::prefill)) == first);
    REQUIRE(copied(forward(work, text, more, phase::prefill)) == second);
    ++refused;
  }
  CHECK(untouched > 3);
  CHECK(refused > 10);
}
