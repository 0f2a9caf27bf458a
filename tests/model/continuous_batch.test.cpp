// SPDX-License-Identifier: MIT
#include <lazyprune/model/continuous_batch.hpp>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <fault.hpp>
#include "asked_sequences.hpp"
#include "tiny_model.hpp"

using namespace lazyprune;
using lazyprune_test::error_of;
using lazyprune_test::many_asked;
using lazyprune_test::sequence_asked;

namespace {

/// A model, and sequences that come and go.
template <tensor_backend Backend>
struct batch_bench {
  model_config config;
  Backend backend{execution{}};
  model<Backend> net = lazyprune_test::tiny_model(backend, config);
  workspace<Backend> work{net, backend};
  continuous_batch<Backend> batch{work};
  std::map<std::size_t, ended_sequence<Backend>> ended{};

  explicit batch_bench(model_config c = lazyprune_test::tiny_config()) : config(std::move(c)) {}

  std::size_t add(sequence_asked asked) {
    return batch.add(sequence<Backend>(net, std::move(asked.session)), std::move(asked.prompt), std::move(asked.options));
  }

  void step(std::size_t prompt_tokens = 5) {
    for (ended_sequence<Backend>& each : batch.step(prompt_tokens)) {
      const std::size_t number = each.number;
      CHECK(ended.emplace(number, std::move(each)).second);
    }
  }

  void to_the_end(std::size_t prompt_tokens = 5) {
    while (!batch.empty()) step(prompt_tokens);
  }

  /// The result of a sequence that generates alone.
  generation alone(sequence_asked asked) {
    workspace<Backend> own(net, backend);
    sequence<Backend> seq(net, std::move(asked.session));
    return generate(own, seq, asked.prompt, asked.options);
  }

  /// Returns the message of a sequence's fault.
  std::string fault_of(std::size_t number) const {
    try {
      std::rethrow_exception(ended.at(number).fault);
    } catch (const std::exception& e) {
      return e.what();
    }
  }

  /// Adds the sequences some steps after each other.
  void check(std::size_t prompt_tokens, std::size_t steps_between) {
    CAPTURE(prompt_tokens);
    CAPTURE(steps_between);
    std::vector<generation> expected;
    for (sequence_asked& asked : many_asked()) expected.push_back(alone(std::move(asked)));
    ended.clear();
    std::vector<std::size_t> numbers;
    for (sequence_asked& asked : many_asked()) {
      numbers.push_back(add(std::move(asked)));
      for (std::size_t i = 0; i < steps_between; ++i) step(prompt_tokens);
    }
    to_the_end(prompt_tokens);
    REQUIRE(ended.size() == expected.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      CAPTURE(i);
      const ended_sequence<Backend>& got = ended.at(numbers[i]);
      CHECK(got.fault == nullptr);
      CHECK(got.result.tokens == expected[i].tokens);
      CHECK(got.result.reason == expected[i].reason);
      CHECK(got.result.share_prompt == expected[i].share_prompt);
      CHECK(got.result.cost.rows == expected[i].cost.rows);
      CHECK(got.result.cost.prefill_rows == expected[i].cost.prefill_rows);
      CHECK(got.result.decode_steps == expected[i].decode_steps);
      CHECK(got.result.accepted == expected[i].accepted);
      CHECK((got.result.prefill_seconds > 0) == !expected[i].tokens.empty());
      const std::size_t read = expected[i].tokens.empty() ? 0 : many_asked()[i].prompt.size() + expected[i].tokens.size() - 1;
      CHECK(got.seq.known() == read);
      REQUIRE(got.result.trace.size() == expected[i].trace.size());
      for (std::size_t k = 0; k < expected[i].trace.size(); ++k)
        for (layer_id l = 0; l < config.layers; ++l) {
          CHECK(got.result.trace[k].layers[l].active == expected[i].trace[k].layers[l].active);
          CHECK(got.result.trace[k].layers[l].rows == expected[i].trace[k].layers[l].rows);
        }
    }
  }
};

sequence_asked asks(std::vector<token_id> prompt, std::size_t max_new) {
  sequence_asked asked{any_session(dense(), {.layers = 4}), std::move(prompt)};
  asked.options.max_new = max_new;
  return asked;
}

/// Like `asks`, for a sequence whose `nth` token makes its callback stop the sequence `other`.
sequence_asked asks_and_stops(std::vector<token_id> prompt, std::size_t max_new, continuous_batch<reference<double>>& batch,
                              const std::size_t& other, std::size_t nth) {
  sequence_asked asked = asks(std::move(prompt), max_new);
  asked.options.on_token = [&batch, &other, nth, tokens = std::size_t{0}](token_id) mutable {
    if (++tokens == nth) batch.stop(other);
    return true;
  };
  return asked;
}

/// Throws in this layer, by default the second, of every step that reads this token.
struct fails_at final : step_observer {
  token_id bad;
  layer_id layer;
  bool armed = false;
  explicit fails_at(token_id token, layer_id l = 1) : bad(token), layer(l) {}
  void step_begins(std::span<const token_id> tokens, std::size_t) override { armed = std::ranges::find(tokens, bad) != tokens.end(); }
  void layer_begins(const layer_plan& plan) override {
    if (armed && plan.layer == layer) throw std::runtime_error("planted fault");
  }
};

}  // namespace

TEST_CASE("sequences that come at different times get the same tokens and rows as alone") {
  for (const std::size_t prompt_tokens : {3u, 5u, 512u})
    for (const std::size_t steps_between : {0u, 1u, 4u}) {
      batch_bench<reference<double>>().check(prompt_tokens, steps_between);
      batch_bench<cpu>().check(prompt_tokens, steps_between);
    }
}

TEST_CASE("a step reads no more prompt tokens than asked for, and prompts are read in the order in which they came") {
  struct counts final : step_observer {
    std::vector<std::size_t> pieces;
    void step_begins(std::span<const token_id> tokens, std::size_t) override { pieces.push_back(tokens.size()); }
  } first, second;
  batch_bench<reference<double>> b;
  sequence_asked one = asks(lazyprune_test::some_tokens(17), 2), two = asks(lazyprune_test::some_tokens(9), 2);
  one.options.observer = &first;
  two.options.observer = &second;
  b.add(std::move(one));
  b.add(std::move(two));
  std::vector<std::size_t> generating, unread{b.batch.unread()};
  while (!b.batch.empty()) {
    b.step(8);
    generating.push_back(b.batch.generating());
    unread.push_back(b.batch.unread());
  }
  // A second piece of 8 would leave 1 token of 17, and a piece of 1 token would be too short.
  CHECK(first.pieces == std::vector<std::size_t>{8, 9, 1});
  CHECK(second.pieces == std::vector<std::size_t>{9, 1});
  CHECK(generating == std::vector<std::size_t>{0, 1, 1, 0});
  CHECK(unread == std::vector<std::size_t>{26, 18, 9, 0, 0});
}

TEST_CASE("other sequences generate between the layers of a long prompt's last piece, and the next prompt waits for it") {
  struct watches final : step_observer {
    std::vector<std::size_t>& log;
    std::size_t name;
    watches(std::vector<std::size_t>& l, std::size_t n) : log(l), name(n) {}
    void layer_begins(const layer_plan& plan) override {
      if (!plan.rows.empty()) log.push_back(name + plan.layer);
    }
  };
  std::vector<std::size_t> log;
  watches talks(log, 10), asks_much(log, 20), waits(log, 30);
  batch_bench<reference<double>> b;
  const auto long_prompt = [] {
    sequence_asked asked{any_session(lazyllm({{2, 0.6}}), {.layers = 4}), lazyprune_test::some_tokens(40)};
    asked.options.max_new = 3;
    return asked;
  };
  sequence_asked one = asks({1, 2, 3, 4}, 30), two = long_prompt(), three = asks({5, 6, 7}, 2);
  one.options.observer = &talks;
  two.options.observer = &asks_much;
  three.options.observer = &waits;
  const std::size_t first = b.add(std::move(one));
  b.step(8);
  const std::size_t second = b.add(std::move(two)), third = b.add(std::move(three));
  for (int i = 0; i < 4; ++i) b.step(8);  // chunks of 8 tokens through two layers; the last piece of 8 comes next
  log.clear();
  // A step runs about 8 * 4 rows of the last piece: two layers of 8 rows and one of 40, and the next step one of 24.
  for (int i = 0; i < 3; ++i) b.step(8);
  const std::vector<std::size_t> parts{10, 11, 12, 13, 20, 21, 22, 10, 11, 12, 13, 23},
      batch{10, 20, 30, 11, 21, 31, 12, 22, 32, 13, 23, 33};
  REQUIRE(log.size() == parts.size() + batch.size());
  CHECK(std::ranges::equal(std::span(log).first(parts.size()), parts));
  CHECK(std::ranges::equal(std::span(log).last(batch.size()), batch));
  b.to_the_end(8);
  CHECK(b.ended.at(first).result.tokens == b.alone(asks({1, 2, 3, 4}, 30)).tokens);
  CHECK(b.ended.at(second).result.tokens == b.alone(long_prompt()).tokens);
  CHECK(b.ended.at(third).result.tokens == b.alone(asks({5, 6, 7}, 2)).tokens);
}

TEST_CASE("a sequence whose last piece is paused between layers can be stopped, stop itself, or fail, and the others go on") {
  struct ends final : step_observer {
    bool stop = false, fail = false;
    bool stops() override { return stop; }
    void layer_begins(const layer_plan& plan) override {
      if (fail && plan.layer == 3) throw std::runtime_error("planted fault");
    }
  };
  for (const int how : {0, 1, 2}) {
    CAPTURE(how);
    ends observer;
    batch_bench<reference<double>> b;
    sequence_asked asked{any_session(lazyllm({{2, 0.6}}), {.layers = 4}), lazyprune_test::some_tokens(40)};
    asked.options.observer = &observer;
    const std::size_t talks = b.add(asks({1, 2, 3, 4}, 12)), ended = b.add(std::move(asked)), next = b.add(asks({5, 6, 7}, 2));
    for (int i = 0; i < 6; ++i) b.step(8);
    CHECK(b.ended.empty());
    CHECK(b.batch.unread() > 3);
    if (how == 0) b.batch.stop(ended);
    observer.stop = how == 1;
    observer.fail = how == 2;
    b.to_the_end(8);
    CHECK(b.ended.at(ended).result.tokens.empty());
    if (how == 2)
      CHECK(b.fault_of(ended) == "planted fault");
    else
      CHECK(b.ended.at(ended).fault == nullptr);
    CHECK(b.ended.at(ended).seq.known() < 40);
    CHECK(b.ended.at(talks).result.tokens == b.alone(asks({1, 2, 3, 4}, 12)).tokens);
    CHECK(b.ended.at(next).result.tokens == b.alone(asks({5, 6, 7}, 2)).tokens);
  }
}

TEST_CASE("the cost of a sequence leaves out a prompt that its observer stopped") {
  struct stops_after final : step_observer {
    int layers;
    explicit stops_after(int n) : layers(n) {}
    bool stops() override { return layers < 0; }
    void layer_begins(const layer_plan&) override { --layers; }
  };
  for (const std::size_t at_once : {8u, 100u}) {  // the prompt is read in pieces, or as one
    CAPTURE(at_once);
    stops_after observer(2);
    batch_bench<reference<double>> b;
    sequence_asked asked{any_session(lazyllm({{2, 0.6}}), {.layers = 4}), lazyprune_test::some_tokens(40)};
    asked.options.observer = &observer;
    const std::size_t ended = b.add(std::move(asked));
    b.to_the_end(at_once);
    CHECK(b.ended.at(ended).result.reason == finish_reason::stop);
    CHECK(b.ended.at(ended).seq.session().stats().rows > 0);
    CHECK(b.ended.at(ended).result.cost.rows == 0);
    CHECK(b.ended.at(ended).result.cost.dense_rows == 0);
  }
}

TEST_CASE("a callback can stop a sequence whose last piece is paused between layers") {
  batch_bench<reference<double>> b;
  std::size_t paused = 0;
  b.add(asks_and_stops({1, 2, 3, 4}, 12, b.batch, paused, 7));
  b.step(8);
  sequence_asked asked{any_session(lazyllm({{2, 0.6}}), {.layers = 4}), lazyprune_test::some_tokens(40)};
  paused = b.add(std::move(asked));
  b.to_the_end(8);
  CHECK(b.ended.at(paused).result.tokens.empty());
  CHECK(b.ended.at(paused).result.reason == finish_reason::stop);
  CHECK(b.ended.at(paused).seq.known() == 32);  // the last piece had begun
  CHECK(b.ended.size() == 2);
}

TEST_CASE_TEMPLATE("alternatives share the reading of their prompt, and have the tokens and rows that they have alone", Backend,
                   reference<double>, cpu) {
  const auto asked = [](std::uint64_t seed) {
    sequence_asked one{any_session(lazyllm({{2, 0.6}}), {.layers = 4}), lazyprune_test::some_tokens(40)};
    one.options.max_new = 6;
    one.options.sampler = {.temperature = 1.5, .seed = seed};
    return one;
  };
  for (const std::size_t prompt_tokens : {8u, 512u}) {  // with a last piece in parts, and in one step
    CAPTURE(prompt_tokens);
    batch_bench<Backend> b;
    const auto add_alternative = [&](std::size_t to, std::uint64_t seed) {
      sequence_asked one = asked(seed);
      return b.batch.add_alternative(to, sequence<Backend>(b.net, std::move(one.session)), std::move(one.prompt), std::move(one.options));
    };
    const std::size_t first = b.add(asked(1)), second = add_alternative(first, 2), third = add_alternative(second, 3);
    CHECK(b.batch.unread() == 40);
    b.step(prompt_tokens);
    const std::size_t late = add_alternative(first, 4);  // waits, or reads the prompt itself if `first` has read it
    b.to_the_end(prompt_tokens);
    CHECK(b.ended.at(first).shared == statistics{});
    for (const auto& each : {std::pair(first, 1u), std::pair(second, 2u), std::pair(third, 3u), std::pair(late, 4u)}) {
      CAPTURE(each.second);
      const generation alone = b.alone(asked(each.second));
      const ended_sequence<Backend>& got = b.ended.at(each.first);
      CHECK(got.fault == nullptr);
      CHECK(got.result.tokens == alone.tokens);
      CHECK(got.result.cost.rows == alone.cost.rows);
      CHECK(got.result.share_prompt == alone.share_prompt);
    }
    const std::size_t prompt_rows = b.ended.at(second).shared.rows;
    CHECK(prompt_rows > 0);
    CHECK(b.ended.at(third).shared.rows == prompt_rows);
    CHECK(b.ended.at(late).shared.rows == (prompt_tokens == 8 ? prompt_rows : 0));
  }
}

TEST_CASE("an alternative with another rotary table reads the prompt itself") {
  batch_bench<reference<double>> b([] {
    model_config c = lazyprune_test::tiny_config();
    c.rope.scaling = rope_scaling::longrope;
    c.rope.original_positions = 16;
    c.rope.factor = 16;
    c.rope.divisors = {1, 1};
    c.rope.long_divisors = {3, 9};
    return c;
  }());
  const auto asked = [](std::size_t length) {
    sequence_asked one = asks(lazyprune_test::some_tokens(10), length);
    one.options.trace_logits = true;
    return one;
  };
  sequence_asked longer = asked(20);
  const std::size_t reads = b.add(asked(3)),
                    other = b.batch.add_alternative(reads, {b.net, std::move(longer.session)}, longer.prompt, longer.options);
  b.to_the_end(64);
  const generation alone = b.alone(asked(20));
  CHECK(b.ended.at(other).result.tokens == alone.tokens);
  CHECK(b.ended.at(other).result.trace[0].logits == alone.trace[0].logits);
  CHECK(b.ended.at(other).shared.rows == 0);
}

TEST_CASE("if the sequence that reads the prompt of alternatives is stopped or fails, they read it themselves") {
  for (const bool fails : {false, true}) {
    CAPTURE(fails);
    batch_bench<reference<double>> b;
    fails_at fault(35);
    sequence_asked first = asks(lazyprune_test::some_tokens(40), 3);
    first.prompt[30] = 35;
    const sequence_asked same = {asks({}, 3).session.clone(), first.prompt, asks({}, 3).options};
    if (fails) first.options.observer = &fault;
    const std::size_t reads = b.add(std::move(first));
    const std::size_t waits = b.batch.add_alternative(reads, {b.net, same.session.clone()}, same.prompt, same.options);
    b.step(8);
    if (!fails) b.batch.stop(reads);
    b.to_the_end(8);
    CHECK(b.ended.at(reads).result.tokens.empty());
    CHECK((b.ended.at(reads).fault != nullptr) == fails);
    CHECK(b.ended.at(waits).result.tokens == b.alone({same.session.clone(), same.prompt, same.options}).tokens);
    CHECK(b.ended.at(waits).shared.rows == 0);
  }
}

TEST_CASE("a sequence can be stopped while its prompt is read, or while it generates") {
  batch_bench<reference<double>> b;
  const std::size_t reads = b.add(asks(lazyprune_test::some_tokens(30), 5)), stays = b.add(asks({1, 2, 3, 4}, 5));
  b.step(10);
  b.batch.stop(reads);
  b.step(10);
  REQUIRE(b.ended.contains(reads));
  CHECK(b.ended.at(reads).result.reason == finish_reason::stop);
  CHECK(b.ended.at(reads).result.tokens.empty());
  CHECK(b.ended.at(reads).seq.known() == 10);
  CHECK(b.ended.at(reads).fault == nullptr);
  b.step(10);
  const std::size_t before = b.ended.size();
  b.batch.stop(stays);
  b.batch.stop(reads);  // has left: nothing happens
  b.step(10);
  CHECK(b.ended.size() == before + 1);
  CHECK(b.ended.at(stays).result.reason == finish_reason::stop);
  const std::vector<token_id> all = b.alone(asks({1, 2, 3, 4}, 5)).tokens;
  CHECK(b.ended.at(stays).result.tokens == std::vector<token_id>(all.begin(), all.begin() + 2));
  CHECK(b.batch.empty());
}

TEST_CASE("a callback can stop another sequence of the same step") {
  for (const bool reads : {false, true}) {  // whether the other sequence still reads its prompt
    CAPTURE(reads);
    batch_bench<reference<double>> b;
    std::size_t other = 0;
    const std::size_t stops = b.add(asks_and_stops({1, 2, 3, 4}, 5, b.batch, other, 2));
    if (reads) b.step(10);
    other = b.add(asks(lazyprune_test::some_tokens(reads ? 30 : 6), 5));
    b.to_the_end(10);
    CHECK(b.ended.at(stops).result.tokens.size() == 5);
    CHECK(b.ended.at(other).fault == nullptr);
    CHECK(b.ended.at(other).result.reason == finish_reason::stop);
    CHECK(b.ended.at(other).result.tokens.size() == (reads ? 0u : 1u));
  }
}

TEST_CASE("a callback can stop its own sequence: its token is the last one, also among drafts") {
  for (const std::size_t drafts : {0u, 4u})
    for (const std::string which : {"on_token", "on_step", "on_logits"}) {
      CAPTURE(drafts);
      CAPTURE(which);
      batch_bench<reference<double>> b;
      sequence_asked asked = asks(lazyprune_test::some_tokens(12), 10), same = asks(lazyprune_test::some_tokens(12), 10);
      asked.options.speculate = same.options.speculate = drafts;
      std::size_t number = 0, calls = 0;
      const auto at_third = [&] {
        if (++calls == 3) b.batch.stop(number);
        return true;
      };
      if (which == "on_token") asked.options.on_token = [&](token_id) { return at_third(); };
      if (which == "on_step") asked.options.on_step = [&](const any_session&) { at_third(); };
      if (which == "on_logits") asked.options.on_logits = [&](std::span<const float>) { at_third(); };
      number = b.add(std::move(asked));
      b.to_the_end();
      const ended_sequence<reference<double>>& got = b.ended.at(number);
      CHECK(got.fault == nullptr);
      CHECK(got.result.reason == finish_reason::stop);
      CHECK(calls == 3);
      if (which != "on_step") CHECK(got.result.tokens.size() == 3);  // a step with drafts may give several tokens
      CHECK(got.result.tokens.size() < 10);
      CHECK(got.seq.known() == 12 + got.result.tokens.size() - 1);
      const std::vector<token_id> all = b.alone(std::move(same)).tokens;
      CHECK(std::equal(got.result.tokens.begin(), got.result.tokens.end(), all.begin()));
    }
}

TEST_CASE("a sequence that has ended by itself keeps its reason if it is stopped in the same step") {
  batch_bench<reference<double>> b;
  std::size_t other = 0;
  other = b.add(asks({1, 2, 3, 4, 5}, 3));
  b.add(asks_and_stops({1, 2, 3, 4}, 5, b.batch, other, 3));
  b.to_the_end(100);
  CHECK(b.ended.at(other).result.tokens.size() == 3);
  CHECK(b.ended.at(other).result.reason == finish_reason::length);
}

TEST_CASE("the first token of an alternative can stop the sequence that has read the prompt") {
  batch_bench<reference<double>> b;
  std::size_t reader = 0, late = 0;
  sequence_asked asked = asks(lazyprune_test::some_tokens(12), 5);
  asked.options.on_token = [&](token_id) { return ++late > 0; };
  reader = b.add(std::move(asked));
  sequence_asked other = asks_and_stops(lazyprune_test::some_tokens(12), 5, b.batch, reader, 1);
  const std::size_t alternative = b.batch.add_alternative(reader, sequence<reference<double>>(b.net, std::move(other.session)),
                                                          std::move(other.prompt), std::move(other.options));
  b.to_the_end();
  CHECK(b.ended.at(reader).result.tokens.empty());
  CHECK(b.ended.at(reader).result.reason == finish_reason::stop);
  CHECK(late == 0);
  CHECK(b.ended.at(alternative).result.tokens.size() == 5);
}

TEST_CASE("before_question can stop its sequence, and those before it") {
  for (const std::size_t stopped : {0u, 1u}) {
    CAPTURE(stopped);
    batch_bench<reference<double>> b;
    continuous_batch<reference<double>> batch(b.work, {.before_question = [&](const auto&) { batch.stop(stopped); }});
    for (std::size_t i = 0; i < 3; ++i) {
      sequence_asked asked = asks(lazyprune_test::some_tokens(i == 1 ? 40 : 6), 5);
      CHECK(batch.add(sequence<reference<double>>(b.net, std::move(asked.session)), std::move(asked.prompt), std::move(asked.options)) ==
            i);
    }
    std::map<std::size_t, ended_sequence<reference<double>>> ended;
    while (!batch.empty())
      for (ended_sequence<reference<double>>& each : batch.step(16)) {
        const std::size_t number = each.number;
        ended.emplace(number, std::move(each));
      }
    for (std::size_t i = 0; i < 3; ++i) {
      CAPTURE(i);
      CHECK(ended.at(i).fault == nullptr);
      CHECK((ended.at(i).result.reason == finish_reason::stop) == (i == stopped));
      if (i == 1) CHECK(ended.at(i).result.tokens.size() == (stopped == 1 ? 0u : 5u));
    }
  }
}

TEST_CASE("a sequence that has left can go on with its next turn") {
  batch_bench<reference<double>> b;
  const std::vector<token_id> first = lazyprune_test::some_tokens(12), second{5, 6, 7};
  const std::size_t number = b.add(asks(first, 4));
  b.to_the_end();
  ended_sequence<reference<double>> left = std::move(b.ended.at(number));
  std::vector<token_id> prompt{left.result.tokens.back()};
  prompt.insert(prompt.end(), second.begin(), second.end());
  std::vector<token_id> whole = first;
  whole.insert(whole.end(), left.result.tokens.begin(), left.result.tokens.end());
  whole.insert(whole.end(), second.begin(), second.end());
  generation_options options;
  options.max_new = 3;
  const std::size_t again = b.batch.add(std::move(left.seq), prompt, options);
  b.to_the_end();
  CHECK(b.ended.at(again).result.tokens == b.alone(asks(whole, 3)).tokens);
}

TEST_CASE("if a step or a callback of one sequence throws, that sequence leaves with the fault, and the others go on") {
  batch_bench<reference<double>> b;
  fails_at fault(33);
  sequence_asked bad = asks({1, 2, 3, 33, 5, 6}, 4), throws = asks({4, 5, 6}, 6);
  bad.options.observer = &fault;
  throws.options.on_token = [n = 0](token_id) mutable {
    if (++n == 3) throw std::runtime_error("the caller's fault");
    return true;
  };
  const std::size_t good = b.add(asks({7, 8, 9, 10}, 6)), in_step = b.add(std::move(bad)), in_callback = b.add(std::move(throws));
  b.to_the_end(64);
  CHECK(b.ended.at(good).fault == nullptr);
  CHECK(b.ended.at(good).result.tokens == b.alone(asks({7, 8, 9, 10}, 6)).tokens);
  CHECK(b.fault_of(in_step) == "planted fault");
  CHECK(b.ended.at(in_step).seq.known() == 0);
  CHECK(b.fault_of(in_callback) == "the caller's fault");
}

TEST_CASE("if a step fails, the other sequences have the answers that they have alone, or leave with the fault") {
  const std::vector<token_id> prompt{7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
  const auto good = [&](int policy) {
    const auto schedule = stages{{1, 0.5}, {3, 0.5}};
    sequence_asked asked{
        policy == 0   ? any_session(dense(), {.layers = 4})
        : policy == 1 ? any_session(lazyllm(schedule), {.layers = 4})
        : policy == 2 ? any_session(lazyprune::policy{last_query_attention{}, schedule, top_k{}, none{.for_good = true}}, {.layers = 4})
                      : any_session(lazyprune::policy{accumulated_attention{}, schedule, top_k{}, keep_all{}}, {.layers = 4}),
        prompt};
    asked.options.max_new = 9;
    asked.options.trace_logits = true;
    return asked;
  };
  std::size_t left[4]{}, stayed[4]{};
  for (int policy = 0; policy < 4; ++policy)
    for (layer_id layer = 0; layer < 4; ++layer)
      for (std::size_t before = 1; before < 9; ++before) {
        CAPTURE(policy);
        CAPTURE(layer);
        CAPTURE(before);
        batch_bench<reference<double>> b;
        fails_at fault(33, layer);
        const std::size_t number = b.add(good(policy));
        for (std::size_t i = 0; i < before; ++i) b.step(64);
        sequence_asked bad = asks({1, 2, 3, 33, 5, 6}, 4);
        bad.options.observer = &fault;
        const std::size_t in_step = b.add(std::move(bad));
        b.to_the_end(64);
        CHECK(b.fault_of(in_step) == "planted fault");
        if (b.ended.at(number).fault) {
          CHECK(b.fault_of(number) == "planted fault");
          ++left[policy];
          continue;
        }
        ++stayed[policy];
        const generation alone = b.alone(good(policy)), &together = b.ended.at(number).result;
        CHECK(together.tokens == alone.tokens);
        REQUIRE(together.trace.size() == alone.trace.size());
        for (std::size_t i = 0; i < alone.trace.size(); ++i) CHECK(together.trace[i].logits == alone.trace[i].logits);
      }
  CHECK(left[0] == 0);
  CHECK(left[1] > 0);
  CHECK(left[2] > 0);
  CHECK(left[3] > 0);
  CHECK(stayed[0] > 0);
  CHECK(stayed[1] > 0);
}

TEST_CASE("a prompt that is refused adds nothing") {
  batch_bench<reference<double>> b;
  CHECK(error_of([&] { b.add(asks({}, 4)); }).where == "prompt: tokens");
  CHECK(error_of([&] { b.add(asks({1, 2, 4000}, 4)); }).where == "tokens: token id");
  CHECK(error_of([&] { b.add(asks(std::vector<token_id>(300, 1), 4)); }).code == error_code::no_room);
  CHECK(b.batch.empty());
  b.step();
  CHECK(b.ended.empty());
}
