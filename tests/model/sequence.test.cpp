// SPDX-License-Identifier: MIT
#include <lazyprune/model/sequence.hpp>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/transformer.hpp>
#include <lazyprune/registry/make_session.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <map>
#include <new>
#include <random>
#include <string>

#include <chunk_depths.hpp>
#include <counted_allocations.hpp>
#include <fault.hpp>
#include <policies.hpp>

#include "../test_data.hpp"
#include "saved_bytes.hpp"
#include "tiny_model.hpp"

namespace {

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::begin, lazyprune_test::failing, lazyprune_test::some_tokens, lazyprune_test::tiny_config, lazyprune_test::tiny_model;
using lazyprune_test::error_of;
using lazyprune_test::resealed;

const stages hard{{1, 0.5}, {3, 0.5}};

template <class Scalar>
std::vector<double> copied(std::span<const Scalar> logits) {
  return {logits.begin(), logits.end()};
}

/// Returns the logits after the first `prompt` tokens and after each later token.
template <class Backend>
std::vector<std::vector<double>> read(workspace<Backend>& work, sequence<Backend>& seq, std::span<const token_id> tokens,
                                      std::size_t prompt, step_observer* observer = nullptr) {
  std::vector<std::vector<double>> logits;
  for (std::size_t done = 0; done < tokens.size();) {
    const auto now = tokens.subspan(done, done == 0 ? prompt : 1);
    logits.push_back(copied(forward(work, seq, now, done == 0 ? phase::prefill : phase::decode, observer)));
    done += now.size();
  }
  return logits;
}

template <class Backend>
bool chunk(workspace<Backend>& work, sequence<Backend>& seq, std::span<const token_id> tokens, step_observer* observer = nullptr) {
  return forward(work, sequence_step<Backend>{seq, tokens, phase::prefill, 0, observer});
}

template <class Backend>
sequence<Backend> by_flags(const model<Backend>& net, std::string_view flags) {
  return {net, make_session(parse_policy(flags), {.layers = static_cast<layer_id>(net.config.layers)}, policies())};
}

/// Requires that two runs have the same tokens, plans, margins and logits, bit for bit.
void require_same(const std::vector<step_trace>& some, const std::vector<step_trace>& expected) {
  REQUIRE(some.size() == expected.size());
  for (std::size_t s = 0; s < some.size(); ++s) {
    CAPTURE(s);
    REQUIRE(some[s].tokens == expected[s].tokens);
    REQUIRE(some[s].layers == expected[s].layers);
    REQUIRE(some[s].margin == expected[s].margin);
    REQUIRE(some[s].logits == expected[s].logits);
  }
}

}  // namespace

TEST_CASE("a sequence knows its tokens; it refuses a session that has tokens or another number of layers") {
  reference<float> backend{execution{}};
  const auto net = tiny_model(backend);
  CHECK(error_of([&] {
          sequence<reference<float>>{net, any_session(dense(), {.layers = 5})};
        }) == at("session: layers", {"4", ", found 5"}));
  any_session begun(dense(), {.layers = 4});
  begun.begin({3, phase::prefill});
  CHECK(error_of([&] { sequence<reference<float>>{net, std::move(begun)}; }) == at("session: tokens", {", found 3"}));

  auto seq = begin(net, dense());
  workspace<reference<float>> work(net, backend);
  const auto tokens = some_tokens(9);
  read(work, seq, tokens, 6);
  CHECK(std::ranges::equal(seq.tokens(), tokens));
  CHECK(seq.known() == 9);
  CHECK(seq.session().known() == 9);
  CHECK(&seq.model() == &net);
  CHECK(seq.kv().rows(3).size() == 9);
  seq.reserve(10);
  forward(work, seq, std::span(tokens).first(1), phase::decode);
  CHECK_THROWS_AS(forward(work, seq, std::span(tokens).first(1), phase::decode), error);
  CHECK(seq.known() == 10);  // a refused step changes nothing
}

TEST_CASE("LongRoPE's frequencies are chosen once: by the expected or reserved length, or by the first step") {
  using exact = reference<double>;
  exact backend{execution{}};
  model_config config = tiny_config(), far = config;
  config.rope = {.scaling = rope_scaling::longrope, .original_positions = 12, .divisors = {1.0, 1.5}, .long_divisors = {3.0, 5.0}};
  far.rope = {.divisors = {3.0, 5.0}};
  model_config near = config;
  near.rope = {.divisors = {1.0, 1.5}};
  const auto net = tiny_model(backend, config), far_net = tiny_model(backend, far), near_net = tiny_model(backend, near);
  const auto tokens = some_tokens(16);
  const auto by = [&](const model<exact>& m, std::size_t expected, std::size_t prompt) {
    workspace<exact> work(m, backend);
    auto seq = begin(m, lazyllm(hard));
    if (expected > 0) seq.expect(expected);
    return read(work, seq, tokens, prompt);
  };
  CHECK(by(net, 0, 12) == by(near_net, 0, 12));  // also beyond the original length
  CHECK(by(net, 0, 13) == by(far_net, 0, 13));
  CHECK(by(net, 12, 4) == by(near_net, 0, 4));
  CHECK(by(net, 13, 4) == by(far_net, 0, 4));

  workspace<exact> work(net, backend);
  auto seq = begin(net, lazyllm(hard));
  seq.reserve(13);
  CHECK(seq.rope() == rope_kind::extended);
  forward(work, seq, std::span(tokens).first(4), phase::prefill);
  CHECK(seq.fork().rope() == rope_kind::extended);
  seq.truncate(0);
  CHECK(seq.rope() == rope_kind::usual);
  forward(work, seq, std::span(tokens).first(4), phase::prefill);
  seq.expect(100);  // too late: the first step has chosen
  CHECK(seq.rope() == rope_kind::usual);
  seq.clear();
  struct impatient final : step_observer {
    bool stops() override { return true; }
  } observer;
  CHECK(forward(work, seq, std::span(tokens).first(13), phase::prefill, &observer).empty());
  CHECK(seq.rope() == rope_kind::usual);  // a stopped step chose nothing

  auto other = begin(net, lazyllm(hard));  // in a batch, each sequence has its own frequencies
  other.expect(13);
  const std::vector<sequence_step<exact>> steps{{seq, std::span(tokens).first(7)}, {other, std::span(tokens).first(9)}};
  REQUIRE(forward(work, std::span<const sequence_step<exact>>(steps)));
  CHECK(copied(read_logits(work, 0)) == by(near_net, 0, 7).front());
  CHECK(copied(read_logits(work, 1)) == by(far_net, 0, 9).front());
}

TEST_CASE_TEMPLATE("clear leaves a sequence like a new one: no old rows stay in the store", Backend, reference<float>, cpu) {
  Backend backend{execution{.threads = 1}};
  const auto net = tiny_model(backend);
  workspace<Backend> work(net, backend);
  auto seq = begin(net, lazyllm(hard)), fresh = begin(net, lazyllm(hard));
  const auto tokens = some_tokens(40);
  const auto expected = read(work, fresh, tokens, 32);

  forward(work, seq, some_tokens(120), phase::prefill);
  CHECK(seq.aux_cache().bytes() > 0);
  seq.clear();
  CHECK(seq.known() == 0);
  CHECK(seq.session().known() == 0);
  CHECK(seq.session().stats().rows == 0);
  CHECK(seq.aux_cache().bytes() == 0);
  memory_watch memory;
  forward(work, seq, std::span(tokens).first(1), phase::prefill, &memory);  // one token: nothing can be pruned
  CHECK(memory.most().store == 0);
  seq.clear();
  CHECK(read(work, seq, tokens, 32) == expected);
  CHECK(seq.aux_cache().bytes() == fresh.aux_cache().bytes());
}

TEST_CASE_TEMPLATE("reserved memory covers all keys, values, stored and waiting rows, changes no result, and is not copied to forks",
                   Backend, reference<float>, cpu) {
  Backend backend{execution{.threads = 1}};
  model_config config = tiny_config();
  config.max_positions = 1024;
  const auto net = tiny_model(backend, config);
  workspace<Backend> work(net, backend), reserved(net, backend);
  auto seq = begin(net, lazyllm(hard)), other = begin(net, lazyllm(hard));
  const auto tokens = some_tokens(100);
  const auto expected = read(work, other, tokens, 70);

  reserved.reserve({.tokens = 600});
  seq.reserve(backend, 600, 100, 100);
  const std::size_t kv = seq.kv().bytes(), stored = seq.aux_cache().bytes(), waiting = seq.waiting_rows().bytes();
  CHECK(kv > other.kv().bytes());
  CHECK(stored >= 100 * net.config.hidden * sizeof(float));
  CHECK(read(reserved, seq, tokens, 70) == expected);
  CHECK(seq.kv().bytes() == kv);
  CHECK(seq.aux_cache().bytes() == stored);
  CHECK(seq.fork().aux_cache().bytes() == other.aux_cache().bytes());
  CHECK(seq.fork().kv().bytes() < kv);

  seq.clear();
  REQUIRE(forward(reserved, {seq, std::span(tokens).first(40), phase::prefill, 0}));
  CHECK(seq.waiting_rows().size() == 40);
  CHECK(seq.waiting_rows().bytes() == waiting);
  seq.clear();
  CHECK(seq.waiting_rows().bytes() == waiting);
  CHECK(seq.aux_cache().bytes() == stored);
  CHECK(read(reserved, seq, tokens, 70) == expected);
  CHECK(seq.kv().bytes() == kv);
}

TEST_CASE("for every policy, a prompt in chunks of any size gives the same bits, trace and statistics as a prefill in one step") {
  using backend_type = reference<double>;
  backend_type backend{execution{}};
  const auto net = tiny_model(backend, tiny_config(8));
  workspace<backend_type> work(net, backend);
  const auto tokens = some_tokens(58);
  std::mt19937 random(3);
  std::size_t waited = 0;
  for (const auto& row : lazyprune_test::depths_of_chunks) {
    CAPTURE(std::string(row.flags));
    const auto fresh = [&] { return by_flags(net, row.flags); };
    auto whole = fresh();
    trace_recorder expected(true);
    read(work, whole, tokens, 50, &expected);
    for (int cut = 0; cut < 5; ++cut) {
      CAPTURE(cut);
      auto pieces = fresh();
      trace_recorder seen(true);
      std::size_t done = 0;
      for (; done < 49 && random() % 4 != 0;) {
        const std::size_t count = cut == 0 ? 1 : 1 + random() % (49 - done);
        REQUIRE(chunk(work, pieces, std::span(tokens).subspan(done, count), &seen));
        waited += pieces.session().tokens().waiting_count();
        REQUIRE((pieces.waiting_rows().bytes() > 0) == (pieces.session().tokens().waiting_count() > 0));
        done += count;
      }
      forward(work, pieces, std::span(tokens).subspan(done, 50 - done), phase::prefill, &seen);
      REQUIRE(pieces.waiting_rows().bytes() == 0);
      for (std::size_t at = 50; at < tokens.size(); ++at) forward(work, pieces, std::span(tokens).subspan(at, 1), phase::decode, &seen);
      require_same(seen.steps(), expected.steps());
      statistics stats = pieces.session().stats();
      stats.steps = whole.session().stats().steps;
      REQUIRE(stats == whole.session().stats());
    }
  }
  CHECK(waited > 1000);
}

TEST_CASE_TEMPLATE("questions share one document: each gets the answer of a sequence with the whole prompt, and the document stays",
                   Backend, reference<double>, cpu) {
  Backend backend{execution{.threads = 1}};
  const auto net = tiny_model(backend, tiny_config(8));
  workspace<Backend> work(net, backend);
  for (const std::string flags : {"lazyllm --stages 3:0.5,5:0.5", "lazyllm --stages 3:0.3 --scorer window_attention:window=5 --store none",
                                  "lazyllm --stages 4:0.5 --store bounded:rows=9", "streaming", "dense"}) {
    CAPTURE(flags);
    const auto fresh = [&] { return by_flags(net, flags); };
    const auto tokens = some_tokens(120);
    const auto document = std::span(tokens).first(70);
    auto shared = fresh();
    REQUIRE(chunk(work, shared, document.first(30)));
    REQUIRE(chunk(work, shared, document.subspan(30)));
    const statistics before = shared.session().stats();
    for (std::size_t question = 0; question < 3; ++question) {
      std::vector<token_id> rest(tokens.begin() + 70 + static_cast<std::ptrdiff_t>(question), tokens.begin() + 90);
      std::vector<token_id> prompt(document.begin(), document.end());
      prompt.insert(prompt.end(), rest.begin(), rest.end() - 5);
      auto fork = shared.fork(), whole = fresh();
      trace_recorder answer(true), expected(true);
      forward(work, fork, std::span<const token_id>(rest).first(rest.size() - 5), phase::prefill, &answer);
      forward(work, whole, prompt, phase::prefill, &expected);
      for (const token_id next : std::span(rest).last(5)) {
        forward(work, fork, std::span(&next, 1), phase::decode, &answer);
        forward(work, whole, std::span(&next, 1), phase::decode, &expected);
      }
      REQUIRE(answer.steps().size() == 6);
      for (std::size_t s = 0; s < 6; ++s) REQUIRE(answer.steps()[s].logits == expected.steps()[s].logits);
      REQUIRE(shared.session().stats() == before);
      REQUIRE(shared.known() == 70);
    }
  }
}

TEST_CASE("forks share memory until one writes, and continue side by side") {
  reference<float> backend{execution{}};
  const auto net = tiny_model(backend);
  workspace<reference<float>> work(net, backend);
  const auto tokens = some_tokens(60);
  auto seq = begin(net, lazyllm(hard));
  forward(work, seq, std::span(tokens).first(40), phase::prefill);
  auto alone = begin(net, lazyllm(hard));
  forward(work, alone, std::span(tokens).first(40), phase::prefill);
  auto fork = seq.fork();
  for (layer_id l = 0; l < 4; ++l) CHECK(fork.kv().rows(l).key(0) == seq.kv().rows(l).key(0));
  for (std::size_t at = 40; at < 60; ++at) {
    const auto expected = copied(forward(work, alone, std::span(tokens).subspan(at, 1), phase::decode));
    forward(work, seq, std::span(tokens).subspan(99 - at, 1), phase::decode);
    REQUIRE(copied(forward(work, fork, std::span(tokens).subspan(at, 1), phase::decode)) == expected);
  }
  CHECK(std::ranges::equal(fork.tokens(), tokens));

  seq.reserve(61);
  auto limited = seq.fork();
  forward(work, limited, std::span(tokens).first(1), phase::decode);
  CHECK_THROWS_AS(forward(work, limited, std::span(tokens).first(1), phase::decode), error);
}

TEST_CASE("after a truncation, a sequence continues as if the forgotten steps had never run, if these steps moved no frontiers") {
  reference<double> backend{execution{}};
  const auto net = tiny_model(backend);
  workspace<reference<double>> work(net, backend);
  const auto tokens = some_tokens(60);
  const auto prompt = std::span(tokens).first(40);
  for (const auto& flags : {"dense", "lazyllm --stages 1:0.5,3:0.5 --decode dense"}) {
    CAPTURE(std::string(flags));
    const auto fresh = [&] { return by_flags(net, flags); };
    auto seq = fresh(), straight = fresh();
    forward(work, seq, prompt, phase::prefill);
    forward(work, straight, prompt, phase::prefill);
    const token_id first = tokens[40];
    forward(work, seq, std::span(&first, 1), phase::decode);  // from now on the run is dense, because pruned tokens have come back
    forward(work, straight, std::span(&first, 1), phase::decode);
    const std::vector<token_id> wrong(7, 3);
    REQUIRE(forward(work, sequence_step<reference<double>>{seq, wrong, phase::decode, 7}));
    seq.truncate(41);
    CHECK(seq.known() == 41);
    CHECK(seq.kv().rows(3).size() == 41);
    for (std::size_t at = 41; at < 60; ++at)
      REQUIRE(copied(forward(work, seq, std::span(tokens).subspan(at, 1), phase::decode)) ==
              copied(forward(work, straight, std::span(tokens).subspan(at, 1), phase::decode)));
  }
  auto seq = begin(net, lazyllm(hard));
  forward(work, seq, prompt, phase::prefill);
  CHECK(error_of([&] { seq.truncate(41); }) == at("session: truncate", {"40", ", found 41"}));
  seq.truncate(0);
  CHECK(seq.known() == 0);
  CHECK(seq.aux_cache().bytes() == 0);
}

TEST_CASE("a scorer that gathers windows sees the same rows, bit for bit, after a truncation, a stopped step or a fork in the prompt") {
  reference<double> backend{execution{}};
  const auto net = tiny_model(backend, tiny_config(8));
  workspace<reference<double>> work(net, backend);
  const auto tokens = some_tokens(58);
  struct stopping final : step_observer {
    bool stops() override { return true; }
  };
  for (std::size_t window = 1; window <= 6; ++window) {
    CAPTURE(window);
    const std::string flags = "lazyllm --stages 3:0.5,5:0.5 --scorer prompt_window_attention:window=" + std::to_string(window);
    auto whole = by_flags(net, flags);
    trace_recorder expected(true);
    read(work, whole, tokens, 50, &expected);
    const std::vector<step_trace> later(expected.steps().begin() + 1, expected.steps().end());
    const auto check = [&](sequence<reference<double>>& seq) {
      const auto done = seq.known();
      REQUIRE(copied(forward(work, seq, std::span(tokens).subspan(done, 50 - done), phase::prefill)) == expected.steps()[0].logits);
      trace_recorder seen(true);
      for (std::size_t at = 50; at < tokens.size(); ++at) forward(work, seq, std::span(tokens).subspan(at, 1), phase::decode, &seen);
      require_same(seen.steps(), later);
      REQUIRE(seq.kv().rows(0).size() == tokens.size());
    };
    for (std::size_t forgotten = 0; forgotten <= window + 1; ++forgotten) {
      CAPTURE(forgotten);
      auto seq = by_flags(net, flags);
      REQUIRE(chunk(work, seq, std::span(tokens).first(40)));
      const std::vector<token_id> wrong(forgotten, 3);
      if (forgotten > 0) REQUIRE(chunk(work, seq, wrong));
      seq.truncate(40);
      check(seq);
      auto cut = by_flags(net, flags);
      REQUIRE(chunk(work, cut, std::span(tokens).first(45)));
      cut.truncate(45 - forgotten);
      check(cut);
    }
    auto stopped = by_flags(net, flags);
    REQUIRE(chunk(work, stopped, std::span(tokens).first(47)));
    stopping observer;  // stops before the scorer gathers anything, because what it gathers stays after `abandon`
    REQUIRE(forward(work, stopped, std::span(tokens).subspan(47, 3), phase::prefill, &observer).empty());
    check(stopped);
    auto plain = by_flags(net, "lazyllm --stages 3:0.5,5:0.5");
    REQUIRE(chunk(work, plain, std::span(tokens).first(48)));
    auto fork = plain.fork(make_session(parse_policy(flags), {.layers = 8}, policies()));
    check(fork);
    auto alone = by_flags(net, "lazyllm --stages 3:0.5,5:0.5");
    const auto wanted = copied(forward(work, alone, std::span(tokens).first(50), phase::prefill));
    REQUIRE(copied(forward(work, plain, std::span(tokens).subspan(48, 2), phase::prefill)) == wanted);  // the fork left `plain` whole
  }
}

TEST_CASE("tokens that are dropped for good free their memory for new tokens") {
  reference<float> backend{execution{}};
  const auto net = tiny_model(backend);
  workspace<reference<float>> work(net, backend);
  auto seq = begin(net, streaming_llm(4, 16));
  for (const token_id next : some_tokens(200)) forward(work, seq, std::span(&next, 1), seq.known() == 0 ? phase::prefill : phase::decode);
  CHECK(seq.known() == 200);
  for (layer_id l = 0; l < 4; ++l) CHECK(seq.kv().rows(l).size() <= 21);
}

namespace {

/// Stops the step before a layer, or fails after a layer is computed, either before or after its dropped rows are saved.
struct failing_observer final : step_observer {
  enum class kind { stop, unsaved, saved } how;
  layer_id at;
  layer_id layer = 0;
  std::size_t policies = 0;

  failing_observer(kind k, layer_id l) : how(k), at(l) {}
  bool stops() override { return how == kind::stop && layer == at; }
  void layer_begins(const layer_plan& plan) override { layer = plan.layer; }
  void section_begins(step_section part) override {
    // Each layer has two policy sections, one on entering and one on leaving. Rows are moved after the second.
    if (part == step_section::policy) ++policies;
    if (how == kind::unsaved && part == step_section::moving && policies == 2 * (at + 1)) throw std::bad_alloc();
  }
  void layer_ends(const layer_end& end) override {
    layer = end.layer + 1;
    if (how == kind::saved && end.layer == at) throw std::bad_alloc();
  }
};

}  // namespace

TEST_CASE("if a step is stopped or fails at any layer, an earlier fork is not affected, and a first prefill can be repeated") {
  using backend_type = reference<double>;
  backend_type backend{execution{}};
  const auto net = tiny_model(backend, tiny_config(8));
  workspace<backend_type> work(net, backend);
  const auto tokens = some_tokens(80);
  std::size_t lost = 0, kept = 0;
  for (const std::string flags : {"lazyllm --stages 3:0.5,5:0.5", "lazyllm --stages 3:0.5,5:0.5 --store none",
                                  "lazyllm --stages 3:0.4,6:0.5 --store bounded:rows=12", "dense"})
    for (const failing_observer::kind how : {failing_observer::kind::stop, failing_observer::kind::unsaved, failing_observer::kind::saved})
      for (layer_id l = static_cast<layer_id>(how) % one_in(2u); l < 8; l += static_cast<layer_id>(one_in(2u))) {
        CAPTURE(flags);
        CAPTURE(l);
        CAPTURE(static_cast<int>(how));
        const auto fresh = [&] { return by_flags(net, flags); };
        const auto fails = [&](sequence<backend_type>& seq, std::span<const token_id> more, phase when, std::size_t outputs) {
          failing_observer f(how, l);
          const sequence_step<backend_type> step{seq, more, when, outputs, &f};
          const std::size_t before = seq.known();
          const auto dense_rows = seq.session().stats().dense_rows;
          bool stopped = false;
          try {
            stopped = !forward(work, step);
          } catch (const std::bad_alloc&) {
            stopped = true;
          }
          if (stopped) {
            REQUIRE(seq.known() == before);
            REQUIRE(seq.session().known() == before);
            REQUIRE(seq.session().stats().dense_rows == dense_rows);
          }
          return stopped;
        };
        auto straight = fresh();
        const auto expected = read(work, straight, std::span(tokens).first(60), 50);

        auto first = fresh();
        REQUIRE(fails(first, std::span(tokens).first(50), phase::prefill, 1));
        for (layer_id k = 0; k < 8; ++k) REQUIRE(first.kv().rows(k).size() == 0);
        REQUIRE(first.aux_cache().bytes() == 0);
        auto again = first.fork();
        REQUIRE(read(work, first, std::span(tokens).first(60), 50) == expected);
        const bool in_chunk = fails(again, std::span(tokens).first(30), phase::prefill, 0);
        if (!in_chunk) again.truncate(0);
        REQUIRE(read(work, again, std::span(tokens).first(60), 50) == expected);

        // A document that was read in chunks loses nothing, if the step stops before it reads the document's rows.
        auto document = fresh();
        REQUIRE(chunk(work, document, std::span(tokens).first(40)));
        const layer_id s = document.session().chunk_layers(phase::prefill);
        const auto clone = document.fork();
        REQUIRE(fails(document, std::span(tokens).subspan(40, 10), phase::prefill, 1));
        const auto answer = [&](sequence<backend_type> seq) {
          trace_recorder trace(true);
          forward(work, seq, std::span(tokens).subspan(40, 10), phase::prefill, &trace);
          return trace.take();
        };
        if (l < s || (l == s && how == failing_observer::kind::stop)) {
          require_same(answer(document.fork()), answer(clone.fork()));
          ++kept;
        } else {
          lost += document.session().tokens().lost_count();
        }

        // An earlier fork loses nothing, whatever the step did.
        auto going = fresh();
        read(work, going, std::span(tokens).first(55), 50);
        auto before = going.fork();
        REQUIRE(fails(going, std::span(tokens).subspan(55, 1), phase::decode, 1));
        read(work, going, some_tokens(5), 5);  // the sequence can continue
        for (std::size_t at = 55; at < 60; ++at)
          REQUIRE(copied(forward(work, before, std::span(tokens).subspan(at, 1), phase::decode)) == expected[at - 49]);
      }
  CHECK(kept > 30 / one_in(2u));
  CHECK(lost > 100 / one_in(2u));
}

namespace {

/// A step of one or several sequences. If memory runs out in the step, every sequence must know the same tokens as before.
template <class Backend>
struct scene {
  std::vector<sequence<Backend>> seqs;
  std::vector<std::vector<token_id>> tokens;
  std::vector<std::size_t> outputs;
  trace_recorder trace{true};

  bool step(workspace<Backend>& work) {
    if (seqs.size() == 1 && outputs[0] == 1) return !forward(work, seqs[0], tokens[0], phase::prefill, &trace).empty();
    std::vector<sequence_step<Backend>> steps;
    for (std::size_t i = 0; i < seqs.size(); ++i)
      steps.push_back({seqs[i], tokens[i], phase::prefill, outputs[i], i == 0 ? &trace : nullptr});
    return forward(work, steps);
  }
};

template <class Backend>
scene<Backend> scene_of(std::string_view name, const model<Backend>& net, workspace<Backend>& warm) {
  scene<Backend> s;
  const auto add = [&](std::string_view flags, std::size_t known, std::size_t more, std::size_t outputs) {
    s.seqs.push_back(by_flags(net, flags));
    const auto all = some_tokens(known + more);
    if (known > 0) forward(warm, s.seqs.back(), std::span(all).first(known), phase::prefill);
    s.tokens.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(known), all.end());
    s.outputs.push_back(outputs);
  };
  if (name == "a first step") add("lazyllm --stages 1:0.5,3:0.5", 0, 70, 1);
  if (name == "a later one") add("lazyllm --stages 1:0.5,3:0.5 --store bounded:rows=10", 8, 62, 1);
  if (name == "a chunk") add("lazyllm --stages 2:0.5", 0, 70, 0);
  if (name == "a batch") {
    add("lazyllm --stages 1:0.5 --store none:for_good=true", 30, 20, 1);
    add("lazyllm --stages 2:0.5,3:0.5", 0, 40, 3);
    add("dense", 5, 1, 1);
  }
  return s;
}

template <class Backend>
void survives_a_lack_of_memory(std::string_view name, bool once) {
  Backend backend{execution{.threads = 1}};
  const auto expected = [&] {
    const auto net = tiny_model(backend);
    workspace<Backend> work(net, backend);
    auto s = scene_of(name, net, work);
    REQUIRE(s.step(work));
    return s.trace.take();
  }();
  std::size_t failures = 0;
  for (std::size_t n = 1;; n += one_in(13u)) {
    CAPTURE(n);
    const auto net = tiny_model(backend);
    workspace<Backend> work(net, backend), warm(net, backend);
    auto s = scene_of(name, net, warm);
    std::vector<sequence<Backend>> clones;
    std::vector<std::size_t> known;
    for (const auto& seq : s.seqs) {
      clones.push_back(seq.fork());
      known.push_back(seq.known());
    }
    failing = n;
    lazyprune_test::failing_from_there = !once;
    bool failed = false;
    try {
      failed = !s.step(work);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    failing = 0;
    lazyprune_test::failing_from_there = false;
    if (!failed) break;
    ++failures;
    for (std::size_t i = 0; i < s.seqs.size(); ++i) {
      REQUIRE(s.seqs[i].known() == known[i]);
      REQUIRE(s.seqs[i].session().known() == known[i]);
    }
    std::swap(s.seqs, clones);
    s.trace = trace_recorder(true);
    REQUIRE(s.step(work));
    require_same(s.trace.take(), expected);
    std::swap(s.seqs, clones);
    s.trace = trace_recorder(true);
    REQUIRE(s.step(work));  // the sequences can continue
    if (known[0] == 0) require_same(s.trace.take(), expected);
  }
  CHECK(failures > 20 / one_in(13u));
}

}  // namespace

namespace {

bool copies_fail = false;

/// Takes the attention of the first query. Cannot be copied while `copies_fail` is true.
struct first_query {
  first_query() = default;
  first_query(const first_query&) {
    if (copies_fail) throw std::bad_alloc();
  }
  first_query& operator=(const first_query&) {
    if (copies_fail) throw std::bad_alloc();
    return *this;
  }
  void score(const attention_view& seen, std::span<float> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = seen(0, i);
  }
};

}  // namespace

TEST_CASE("if the policy cannot be constructed again, a sequence still forgets all its tokens") {
  reference<double> backend{execution{}};
  const auto net = tiny_model(backend);
  workspace<reference<double>> work(net, backend);
  const auto begun = [&] { return lazyprune_test::begin(net, policy{first_query{}, stages{{2, 0.5}}, top_k{}, keep_all{}}); };
  const std::vector<token_id> next{7, 9, 11, 30};
  auto fresh = begun();
  const auto expected = forward(work, fresh, next, phase::prefill);
  const std::vector<double> logits(expected.begin(), expected.end());
  for (const bool clears : {false, true}) {
    CAPTURE(clears);
    auto seq = begun();
    CHECK_FALSE(forward(work, seq, some_tokens(12), phase::prefill).empty());
    copies_fail = true;
    CHECK_THROWS_AS(clears ? seq.clear() : seq.truncate(0), std::bad_alloc);
    copies_fail = false;
    CHECK(seq.known() == 0);
    CHECK(seq.session().known() == 0);
    CHECK(std::ranges::equal(forward(work, seq, next, phase::prefill), logits));
  }
}

TEST_CASE_TEMPLATE("if memory runs out in a step, all sequences know the same tokens as before, and they and their forks work", Backend,
                   reference<float>, cpu) {
  for (const char* name : {"a first step", "a later one", "a chunk", "a batch"}) {
    CAPTURE(std::string(name));
    survives_a_lack_of_memory<Backend>(name, true);
    survives_a_lack_of_memory<Backend>(name, false);
  }
}

TEST_CASE("waiting rows are freed when their layer reads them; rows of tokens that an earlier layer drops keep waiting") {
  reference<float> backend{execution{}};
  const auto net = tiny_model(backend, tiny_config(8));
  workspace<reference<float>> work(net, backend);
  auto seq = begin(net, policy{recency{}, by_phase{stages{{4, 0.5}}, stages{{1, 0.1}}}, top_k{}, keep_all{}});
  const auto tokens = some_tokens(241);
  REQUIRE(chunk(work, seq, std::span(tokens).first(240)));
  const std::size_t all = seq.waiting_rows().bytes();
  REQUIRE(seq.session().tokens().waiting_count() == 240);
  forward(work, seq, std::span(tokens).last(1), phase::decode);
  CHECK(seq.session().tokens().waiting_count() > 200);
  CHECK(seq.session().tokens().waiting_count() < 220);
  CHECK(seq.waiting_rows().bytes() <= all);
  CHECK(seq.waiting_rows().bytes() >= seq.session().tokens().waiting_count() * net.config.hidden * sizeof(float));
}

namespace {

using exact = reference<double>;

std::vector<sequence<exact>> walkers(const model<exact>& net) {
  std::vector<sequence<exact>> all;
  for (const char* flags :
       {"lazyllm --stages 3:0.5,5:0.4", "lazyllm --stages 4:0.5 --scorer window_attention:window=5 --store bounded:rows=9",
        "lazyllm --stages 2:0.6,5:0.5 --scorer key_norm --store none:for_good=true",
        "lazyllm --stages 4:0.5 --scorer accumulated_attention --selector top_p:mass=0.8 --store none",
        "lazyllm --stages 4:0.4 --scorer recency --decode dense", "dense", "streaming --keep-first 2 --keep-last 7"})
    all.push_back(by_flags(net, flags));
  all.push_back(begin(net, policy{recency{}, by_phase{stages{{4, 0.4}}, stages{{1, 0.5}}}, top_k{}, keep_all{}}));
  return all;
}

/// Stops the step after `n` layers.
struct stopper final : step_observer {
  std::size_t layers_left;
  explicit stopper(std::size_t n) : layers_left(n) {}
  bool stops() override { return layers_left == 0; }
  void layer_begins(const layer_plan&) override { --layers_left; }
};

void require_same(const sequence<exact>& a, const sequence<exact>& b) {
  REQUIRE(std::ranges::equal(a.tokens(), b.tokens()));
  const frontier_table &some = a.session().tokens(), &others = b.session().tokens();
  for (position t = 0; t < a.known(); ++t) {
    REQUIRE(some.frontier(t) == others.frontier(t));
    REQUIRE(some.lost(t) == others.lost(t));
    REQUIRE(some.stored(t) == others.stored(t));
    REQUIRE(some.waiting(t) == others.waiting(t));
    const auto same = [](const double* x, const double* y, std::size_t n) { return std::equal(x, x + n, y); };
    if (some.stored(t)) REQUIRE(same(a.aux_cache().row(some.slot(t)), b.aux_cache().row(others.slot(t)), 16));
    if (some.waiting(t)) REQUIRE(same(a.waiting_rows().row(some.slot(t)), b.waiting_rows().row(others.slot(t)), 16));
    for (layer_id l = 0; !some.dropped_for_good(t) && l < some.frontier(t); ++l)
      REQUIRE(same(a.kv().rows(l).key(a.kv().slot(l, t)), b.kv().rows(l).key(b.kv().slot(l, t)), 8));
  }
}

}  // namespace

TEST_CASE("random batches, chunks, outputs, stops, truncations and forks: each sequence has the bits that it has alone") {
  exact backend{execution{}};
  model_config c = tiny_config(8);
  c.max_positions = 400;
  const auto net = tiny_model(backend, c);
  workspace<exact> work(net, backend), other(net, backend);
  std::size_t stops = 0, truncations = 0, forks = 0, waits = 0;
  for (std::uint32_t seed = 0; seed < 20 / one_in(4u); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    auto together = walkers(net), alone = walkers(net);
    std::vector<sequence<exact>> left;  // forks that continue separately, and share memory with other sequences
    for (int operation = 0; operation < 40; ++operation) {
      CAPTURE(operation);
      const std::size_t one = random() % together.size();
      switch (random() % 10) {
        case 0: {
          const std::size_t known = random() % (together[one].known() + 1);
          together[one].truncate(known);
          alone[one].truncate(known);
          ++truncations;
          break;
        }
        case 1:
          left.push_back(together[one].fork());
          if (random() % 2) std::swap(left.back(), together[one]);
          ++forks;
          break;
        case 2: {
          if (left.empty()) break;
          sequence<exact>& fork = left[random() % left.size()];
          const auto tokens = some_tokens(1 + random() % 9);
          if (fork.known() < 300) (void)forward(other, sequence_step<exact>{fork, tokens, phase::prefill, random() % 2});
          if (random() % 3 == 0) left.erase(left.begin());
          break;
        }
        default: {
          struct asked {
            std::size_t who;
            std::vector<token_id> tokens;
            phase when;
            std::size_t outputs;
          };
          std::vector<asked> batch;
          for (std::size_t i = 0; i < together.size(); ++i) {
            if (random() % 2 || together[i].known() > 300) continue;
            std::vector<token_id> tokens(random() % 3 ? 1 + random() % 30 : 1);
            for (token_id& t : tokens) t = static_cast<token_id>(random() % c.vocabulary);
            const std::size_t n = tokens.size(), kind = random() % 4;
            batch.push_back({i, std::move(tokens), random() % 2 ? phase::prefill : phase::decode,
                             kind == 0   ? 0
                             : kind == 1 ? random() % (n + 1)
                                         : 1});
          }
          std::shuffle(batch.begin(), batch.end(), random);
          const auto clock = std::ranges::find_if(batch, [](const asked& a) { return a.outputs > 0; });
          if (clock == batch.end()) break;
          const std::size_t stop = random() % 5 == 0 ? random() % 8 : 8;
          stopper in_batch(stop < 8 ? stop : 100);
          std::vector<sequence_step<exact>> steps;
          for (const asked& a : batch)
            steps.push_back({together[a.who], a.tokens, a.when, a.outputs, a.who == clock->who ? &in_batch : nullptr});
          REQUIRE(forward(work, steps) == (stop == 8));
          stops += stop < 8;
          std::size_t row = 0;
          for (const asked& a : batch) {
            // A chunk that had left the batch before the stop is abandoned with the batch, too. A stop at this layer does not reach the
            // chunk if it runs alone.
            const std::size_t depth = a.outputs > 0 ? 8 : alone[a.who].session().chunk_layers(a.when);
            if (stop < 8 && depth <= stop) {
              alone[a.who] = together[a.who].fork();
              continue;
            }
            stopper by_itself(stop < 8 ? stop : 100);
            REQUIRE(forward(other, sequence_step<exact>{alone[a.who], a.tokens, a.when, a.outputs, &by_itself}) == (stop == 8));
            for (std::size_t k = 0; stop == 8 && k < a.outputs; ++k)
              REQUIRE(copied(read_logits(work, row++)) == copied(read_logits(other, k)));
          }
        }
      }
      for (std::size_t i = 0; i < together.size(); ++i) {
        CAPTURE(i);
        require_same(together[i], alone[i]);
        waits += together[i].session().tokens().waiting_count();
      }
    }
  }
  const std::size_t often = 30 / one_in(std::size_t{4});
  CHECK(stops > often);
  CHECK(truncations > often);
  CHECK(forks > often);
  CHECK(waits > 33 * often);
}

TEST_CASE("keys, values and stored rows have the type of the weights, unless the backend is told otherwise") {
  const auto kept_as = [](dtype weights, const execution& how) {
    cpu backend{how};
    const model_config c = tiny_config();
    const auto net = load_model(backend, c, random_source(c, weights));
    workspace<cpu> work(net, backend);
    auto seq = begin(net, lazyllm(hard));
    seq.reserve(backend, 40, 10, 0);
    forward(work, seq, some_tokens(40), phase::prefill);
    for (layer_id l = 0; l < c.layers; ++l) REQUIRE(seq.kv().rows(l).type() == seq.kv().rows(0).type());
    CHECK(seq.aux_cache().size() > 0);
    return std::pair(seq.kv().rows(0).type(), seq.aux_cache().type());
  };
  const std::pair in_float(dtype::f32, dtype::f32), in_bf16(dtype::bf16, dtype::bf16);
  CHECK(kept_as(dtype::bf16, {.threads = 1}) == in_bf16);
  CHECK(kept_as(dtype::f32, {.threads = 1}) == in_float);
  CHECK(kept_as(dtype::bf16, {.threads = 1, .kv = dtype::f32}) == in_float);
  CHECK(kept_as(dtype::f32, {.threads = 1, .kv = dtype::bf16}) == in_bf16);
  // f16 and q8_0 are types of keys and values only.
  CHECK(kept_as(dtype::bf16, {.threads = 1, .kv = dtype::f16}) == std::pair(dtype::f16, dtype::bf16));
  CHECK(kept_as(dtype::f32, {.threads = 1, .kv = dtype::q8_0}) == std::pair(dtype::q8_0, dtype::f32));
}

TEST_CASE("make_room sets no limit, and makes no more room than the limit allows") {
  reference<float> backend{execution{}};
  const auto net = tiny_model(backend);
  auto seq = begin(net, dense());
  seq.make_room(10);
  workspace<reference<float>> work(net, backend);
  CHECK(!forward(work, seq, some_tokens(40), phase::prefill).empty());
  auto limited = begin(net, dense());
  limited.reserve(20);
  limited.make_room(100);
  CHECK(limited.session().limit() == 20);
  CHECK(limited.fork().session().limit() == 20);
}

namespace {

template <class Backend>
std::string saved(Backend& backend, const sequence<Backend>& seq) {
  std::string bytes;
  byte_writer to = lazyprune_test::writer_to(bytes);
  seq.save(backend, to);
  return bytes;
}

template <class Backend>
sequence<Backend> loaded(Backend& backend, const model<Backend>& net, std::string_view flags, std::string bytes) {
  byte_reader from = lazyprune_test::reader_of(std::move(bytes));
  return sequence<Backend>::load(backend, net, by_flags(net, flags).session().clone(), from);
}

template <class Backend>
void check_saving(Backend backend) {
  const model<Backend> net = tiny_model(backend, tiny_config(8));
  workspace<Backend> work(net, backend);
  const std::vector<token_id> all = some_tokens(44);
  const std::span<const token_id> tokens = all;
  for (std::size_t i = 0; i < std::size(lazyprune_test::depths_of_chunks); i += one_in(std::size_t{4})) {
    const auto& row = lazyprune_test::depths_of_chunks[i];
    const std::string_view flags = row.flags;
    CAPTURE(std::string(flags));
    sequence<Backend> seq = by_flags(net, flags);
    const auto goes_on_like = [&](std::size_t from) {
      CAPTURE(from);
      const std::string bytes = saved(backend, seq);
      sequence<Backend> copy = seq.fork(), again = loaded(backend, net, flags, bytes);
      CHECK(again.known() == seq.known());
      CHECK(again.session().stats() == seq.session().stats());
      CHECK(saved(backend, again) == bytes);
      const auto rest = tokens.subspan(from);
      CHECK(read(work, again, rest, 5) == read(work, copy, rest, 5));
      CHECK(again.session().state() == copy.session().state());
    };
    goes_on_like(0);
    REQUIRE(chunk(work, seq, tokens.first(16)));
    goes_on_like(16);
    REQUIRE(chunk(work, seq, tokens.subspan(16, 7)));
    read(work, seq, tokens.subspan(23, 9), 6);
    goes_on_like(32);
    seq.truncate(27);
    goes_on_like(27);
  }
}

}  // namespace

TEST_CASE("for every policy, a loaded sequence goes on with the bits of the saved one") {
  check_saving(reference<double>(execution{}));
  check_saving(cpu(execution{}));
  for (const dtype kv : {dtype::bf16, dtype::f16, dtype::q8_0})
    if (test_all || kv == dtype::q8_0) check_saving(cpu(execution{.kv = kv}));
}

namespace {

/// The weights of random_source, but the embedding of the last token id is not finite.
class bad_last_token {
 public:
  explicit bad_last_token(const model_config& config) : source_(config, dtype::f32), table_(config.vocabulary * config.hidden) {
    const tensor good = source_.get(name, config.vocabulary, config.hidden);
    std::memcpy(table_.data(), good.data, table_.size() * sizeof(float));
    std::fill_n(table_.end() - static_cast<std::ptrdiff_t>(config.hidden), config.hidden, std::numeric_limits<float>::quiet_NaN());
  }
  bool contains(std::string_view tensor) const { return source_.contains(tensor); }
  tensor get(std::string_view tensor, std::size_t rows, std::size_t columns) const {
    if (tensor != name) return source_.get(tensor, rows, columns);
    return {dtype::f32, rows, columns, reinterpret_cast<const std::byte*>(table_.data())};
  }

 private:
  static constexpr std::string_view name = "model.embed_tokens.weight";
  random_source source_;
  std::vector<float> table_;
};

/// Runs a step that is refused, or none. Returns the logits of the next step, made by the sequence itself and by a saved one.
template <class Backend>
std::vector<std::vector<double>> after_a_step(Backend backend, bool refused) {
  const model_config config = tiny_config();
  const auto net = load_model(backend, config, bad_last_token(config));
  workspace<Backend> work(net, backend);
  const std::string flags = "--stages 2:0.5 --store none:for_good=true";
  sequence<Backend> seq = by_flags(net, flags);
  std::vector<token_id> tokens = some_tokens(24);
  for (token_id& id : tokens) id %= static_cast<token_id>(config.vocabulary - 1);
  REQUIRE_FALSE(forward(work, seq, tokens, phase::prefill).empty());
  const token_id bad[] = {5, static_cast<token_id>(config.vocabulary - 1)};
  if (refused) CHECK(error_of([&] { (void)forward(work, seq, bad, phase::prefill); }).find("finite numbers") != std::string::npos);
  sequence<Backend> again = loaded(backend, net, flags, saved(backend, seq));
  const token_id good[] = {7};
  std::vector<std::vector<double>> all;
  for (sequence<Backend>* each : {&seq, &again}) {
    const auto logits = forward(work, *each, good, phase::decode);
    all.emplace_back(logits.begin(), logits.end());
  }
  return all;
}

}  // namespace

TEST_CASE("numbers of a refused step that are not finite reach no later step and no saved sequence, whatever slots they had") {
  CHECK(after_a_step(reference<double>(execution{}), true) == after_a_step(reference<double>(execution{}), false));
  for (const dtype kv : {dtype::f32, dtype::bf16, dtype::f16, dtype::q8_0}) {
    CAPTURE(static_cast<int>(kv));
    CHECK(after_a_step(cpu(execution{.kv = kv}), true) == after_a_step(cpu(execution{.kv = kv}), false));
  }
}

TEST_CASE("changed bytes with a correct checksum are refused, or give a sequence that works") {
  cpu backend{execution{}};
  const model<cpu> net = tiny_model(backend, tiny_config());
  workspace<cpu> work(net, backend);
  const std::vector<token_id> tokens = some_tokens(20);
  std::map<std::string, std::size_t> refused;
  std::size_t accepted = 0;
  for (const std::string_view flags : {"--stages 1:0.5,3:0.5", "--stages 2:0.5 --scorer window_attention:window=3",
                                       "lazyllm --stages 2:0.5 --scorer prompt_window_attention:window=5"}) {
    CAPTURE(std::string(flags));
    sequence<cpu> seq = by_flags(net, flags);
    REQUIRE(chunk(work, seq, std::span(tokens).first(9)));
    const std::string chunks = saved(backend, seq);
    read(work, seq, std::span(tokens).subspan(9, 6), 4);
    for (const std::string& bytes : {chunks, saved(backend, seq)}) {
      CHECK(resealed(bytes) == bytes);
      for (std::size_t at = 0; at + 8 < bytes.size(); at += (at < 700 ? 1 : 37) * one_in(std::size_t{3}))
        for (const int bits : {1, 2, 0x80, 0xff}) {
          std::string changed = bytes;
          changed[at] = static_cast<char>(changed[at] ^ bits);
          CAPTURE(at);
          CAPTURE(bits);
          try {
            sequence<cpu> loaded_one = loaded(backend, net, flags, resealed(changed));
            ++accepted;
            read(work, loaded_one, std::span(tokens).subspan(15), 3);
            CHECK(loaded_one.known() >= 5);
          } catch (const error& e) {
            ++refused[e.place()];
          }
        }
    }
  }
  CHECK(accepted > 100 / one_in(3u));
  for (const char* const place : {"format", "layers", "hidden size", "vocabulary", "tokens", "hidden state", "state", "slots", "keys"}) {
    CAPTURE(place);
    CHECK(refused[place] > 0);
  }
}

TEST_CASE("a session that gathers windows at every layer refuses tokens that a chunk should have left for it") {
  cpu backend{execution{}};
  const model<cpu> net = tiny_model(backend, tiny_config());
  workspace<cpu> work(net, backend);
  sequence<cpu> dense = by_flags(net, "dense");
  REQUIRE(chunk(work, dense, some_tokens(12)));
  const std::string bytes = saved(backend, dense);
  CHECK(error_of([&] { loaded(backend, net, "lazyllm --stages 2:0.5 --scorer prompt_window_attention:window=5", bytes); }).where ==
        "bytes: state");
  loaded(backend, net, "dense", bytes);
}

TEST_CASE("a saved sequence that is cut, changed or of another model is refused with its place, and never loaded") {
  cpu backend{execution{}};
  const model<cpu> net = tiny_model(backend, tiny_config());
  workspace<cpu> work(net, backend);
  constexpr std::string_view flags = "--stages 1:0.5,3:0.5";
  sequence<cpu> seq = by_flags(net, flags);
  const std::vector<token_id> tokens = some_tokens(12);
  read(work, seq, tokens, 10);
  const std::string bytes = saved(backend, seq);
  const auto load = [&](std::string changed) { loaded(backend, net, flags, std::move(changed)); };
  load(bytes);
  for (std::size_t length = 0; length < bytes.size(); length += 1 + length / 40)
    CHECK(error_of([&] { load(bytes.substr(0, length)); }).where.starts_with("bytes: "));
  for (std::size_t at = 0; at < bytes.size(); at += 1 + at / 40)
    for (const int bit : {1, 0x80}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ bit);
      CAPTURE(at);
      CHECK_THROWS_AS(load(changed), error);
    }
  model_config other = tiny_config();
  other.vocabulary += 1;
  const model<cpu> others = tiny_model(backend, other);
  CHECK(error_of([&] { loaded(backend, others, flags, bytes); }).where == "bytes: vocabulary");
}
