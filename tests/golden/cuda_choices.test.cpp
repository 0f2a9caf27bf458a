// SPDX-License-Identifier: MIT
// Compares steps whose tokens the device chooses without a stop of the host with steps that stop after each selection. Runs the bundled
// model on the emulated device.
#include <lazyprune/backend/cuda.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/transformer.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include <fault.hpp>
#include <tested_device.hpp>

#include "../model/tiny_model.hpp"
#include "../test_data.hpp"

namespace {

using namespace lazyprune;
using lazyprune_test::unchecked;

/// All that a step shows to observers, and its logits.
struct seen_step {
  struct seen_layer {
    std::vector<position> active, rows, revived;
    std::optional<float> margin;
    std::size_t scored_pairs;
    friend bool operator==(const seen_layer&, const seen_layer&) = default;
  };
  std::vector<seen_layer> layers;
  std::vector<float> logits;
};

class step_watch final : public step_observer {
 public:
  seen_step seen;
  std::size_t stops_at = 1000;  // stops when it was asked so often

  bool stops() override { return asked_++ >= stops_at; }
  void layer_begins(const layer_plan& plan) override {
    seen.layers.push_back({{plan.active.begin(), plan.active.end()}, {plan.rows.begin(), plan.rows.end()}, revived_rows(plan), {}, 0});
  }
  void layer_ends(const layer_end& end) override {
    if (!std::isnan(end.margin)) seen.layers.back().margin = end.margin;
    seen.layers.back().scored_pairs = end.scored_pairs;
  }

 private:
  std::size_t asked_ = 0;
};

/// A model and two sequences with the same policy. Steps of `ahead` queue layers where they can. Steps of `stopping` never do.
template <class Backend>
struct two_sequences {
  Backend& backend;
  workspace<Backend> work;
  sequence<Backend> ahead, stopping;

  two_sequences(const model<Backend>& net, Backend& b, const any_session& session)
      : backend(b), work(net, b), ahead(net, session.clone()), stopping(net, session.clone()) {
    work.reserve(200);  // the host waits for the rotary tables
  }

  seen_step run_ahead(const sequence_step<Backend>& step, step_watch& watch) {
    const bool done = forward(work, step);
    if (done && step.outputs > 0) read_last(watch);
    return watch.seen;
  }
  /// Runs the step layer by layer. Such a step may share the workspace with others between layers, so it queues nothing.
  seen_step run_stopping(const sequence_step<Backend>& step, step_watch& watch) {
    transformer<Backend> pass(work);
    pass.start(std::span(&step, 1));
    while (pass.next_layer()) {
    }
    const bool stopped = pass.stopped();
    pass.finish(std::span(&step, 1), false);
    if (!stopped && step.outputs > 0) read_last(watch);
    return watch.seen;
  }
  void read_last(step_watch& watch) {
    const auto logits = read_logits(work, 0, 1);
    watch.seen.logits.assign(logits.begin(), logits.end());
  }

  /// Returns how often the host waited in the step that queues layers.
  std::size_t step(const std::vector<token_id>& tokens, phase when, std::size_t outputs, std::size_t stops_at = 1000) {
    step_watch first, second;
    first.stops_at = second.stops_at = stops_at;
    device::synchronize();
    const std::size_t before = emulated::the_device().waits;
    const seen_step found = run_ahead({ahead, tokens, when, outputs, &first}, first);
    const std::size_t waits = emulated::the_device().waits - before;
    const seen_step expected = run_stopping({stopping, tokens, when, outputs, &second}, second);
    if (stops_at < 1000) return waits;
    CHECK(found.layers == expected.layers);
    CHECK(found.logits == expected.logits);  // the same bits
    compare();
    return waits;
  }

  void compare() const {
    CHECK(ahead.session().state() == stopping.session().state());
    CHECK(ahead.aux_cache().size() == stopping.aux_cache().size());
    CHECK(ahead.waiting_rows().size() == stopping.waiting_rows().size());
    for (layer_id l = 0; l < ahead.session().layers(); ++l) CHECK(ahead.kv().tokens_of_slots(l) == stopping.kv().tokens_of_slots(l));
  }
};

std::vector<token_id> drawn_tokens(std::size_t n, std::size_t vocabulary, std::uint64_t seed) {
  std::vector<token_id> tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = static_cast<token_id>(100 + mix(seed, i) % (vocabulary - 100));
  return tokens;
}

enum class turns { first, all };

/// Runs the first turn of a conversation, or all. Returns how often the host waited in its first prompt, the logits included.
template <class Backend = cuda_backend, class Policy>
std::size_t conversation(const execution& how, const Policy& policy, turns many = turns::first) {
  const unchecked fast;
  const checkpoint files(pocket_model());
  Backend backend(how);
  const auto net = load_model(backend, files);
  const std::size_t vocabulary = net.config.vocabulary;
  two_sequences<Backend> both(net, backend, any_session(policy, {.layers = static_cast<layer_id>(net.config.layers)}));
  const std::size_t waits = both.step(drawn_tokens(60, vocabulary, 1), phase::prefill, 1);
  both.step(drawn_tokens(1, vocabulary, 10), phase::decode, 1);
  if (many == turns::first) return waits;
  both.step(drawn_tokens(1, vocabulary, 11), phase::decode, 1);
  both.step(drawn_tokens(20, vocabulary, 2), phase::prefill, 1);  // the next turn: some tokens have keys already
  for (auto* text : {&both.ahead, &both.stopping}) text->truncate(40);
  both.compare();
  both.step(drawn_tokens(30, vocabulary, 3), phase::prefill, 3);
  for (auto* text : {&both.ahead, &both.stopping}) text->clear();
  both.step(drawn_tokens(30, vocabulary, 4), phase::prefill, 0);  // a prompt in chunks
  both.step(drawn_tokens(30, vocabulary, 5), phase::prefill, 0);
  both.step(drawn_tokens(20, vocabulary, 6), phase::prefill, 1);
  both.step(drawn_tokens(1, vocabulary, 7), phase::decode, 1);
  for (auto* text : {&both.ahead, &both.stopping}) text->clear();
  both.step(drawn_tokens(50, vocabulary, 8), phase::prefill, 50);  // nothing can be dropped
  return waits;
}

}  // namespace

TEST_CASE("cuda: a pruned prompt whose tokens the device chooses has the same bits, and the host waits once, not after each selection") {
  const stages when{{1, 0.7}, {3, 0.6}, {5, 0.5}};
  SUBCASE("the Aux Cache keeps all") { CHECK(conversation({.kv = dtype::f32}, lazyllm(when), turns::all) == 2); }  // for choices and logits
  SUBCASE("bf16, on tensor cores") { CHECK(conversation({.kv = dtype::bf16}, lazyllm(when)) == 2); }
  SUBCASE("pruned tokens are lost") { CHECK(conversation({.kv = dtype::f32}, static_pruning(when), turns::all) == 2); }
  SUBCASE("pages") { CHECK(conversation({.kv = dtype::f32}, lazyllm_blocks(when, 8), turns::all) == 2); }
  SUBCASE("the largest attention of any head, and tokens that always stay") {
    CHECK(conversation({.exact = true}, policy{last_query_attention{head_reduction::max}, when,
                                               protect{top_k{}, 3, 9, position_spans({{20, 24}})}, keep_all{}}) == 2);
  }
  SUBCASE("a selection after every layer") {
    CHECK(conversation({.kv = dtype::f32}, policy{last_query_attention{}, linear{.from = 0, .share = 0.3}, top_k{}, keep_all{}}) == 2);
  }
  // The host must see the evidence of these policies.
  SUBCASE("the number of tokens depends on scores") {
    CHECK(conversation({.kv = dtype::f32}, policy{last_query_attention{}, when, top_p{0.7}, keep_all{}}) == 4);
  }
  SUBCASE("a bounded Aux Cache") {
    CHECK(conversation({.kv = dtype::f32}, policy{last_query_attention{}, when, top_k{}, bounded{20}}) == 4);
  }
  SUBCASE("a window of queries") {
    CHECK(conversation({.kv = dtype::f32}, policy{window_attention{.window = 4}, when, top_k{}, keep_all{}}) == 4);
  }
}

namespace {

struct small_blocks : cuda_backend {
  using cuda_backend::cuda_backend;
  static constexpr std::size_t block_rows = 32;
};

}  // namespace

TEST_CASE("cuda: the same holds if a layer works on several blocks of rows") {
  CHECK(conversation<small_blocks>({.kv = dtype::f32}, lazyllm(stages{{2, 0.6}, {4, 0.5}})) == 2);
}

TEST_CASE("cuda: a step that is stopped while its layers are queued leaves the sequence without the step's tokens") {
  const unchecked fast;
  const checkpoint files(pocket_model());
  cuda_backend backend({.kv = dtype::f32});
  const auto net = load_model(backend, files);
  const any_session session(lazyllm(stages{{2, 0.5}, {4, 0.5}}), {.layers = static_cast<layer_id>(net.config.layers)});
  two_sequences<cuda_backend> both(net, backend, session);
  for (const std::size_t stops_at : {1u, 2u, 3u, 5u}) {
    CAPTURE(stops_at);
    both.step(drawn_tokens(40, net.config.vocabulary, stops_at), phase::prefill, 1, stops_at);
    CHECK(both.ahead.known() == 0);
    CHECK(both.ahead.aux_cache().size() == 0);
    for (layer_id l = 0; l < net.config.layers; ++l) CHECK(both.ahead.kv().tokens_of_slots(l).empty());
  }
  for (auto* text : {&both.ahead, &both.stopping}) text->clear();
  CHECK(both.step(drawn_tokens(40, net.config.vocabulary, 9), phase::prefill, 1) == 2);
  both.step(drawn_tokens(1, net.config.vocabulary, 10), phase::decode, 1);
}

namespace {

/// A device that makes one fault when it shows its choices.
struct faulty_device : cuda_backend {
  using cuda_backend::cuda_backend;
  enum { none, not_finite, wrong_tokens } fault = none;
  std::vector<float> scores{};
  std::vector<std::uint32_t> chosen{};

  void read_choices(std::vector<made_choice>& out) {
    cuda_backend::read_choices(out);
    made_choice& second = out.at(1);
    scores.assign(second.scores.begin(), second.scores.end());
    chosen.assign(second.chosen.begin(), second.chosen.end());
    if (fault == not_finite) {
      scores[2] = std::numeric_limits<float>::quiet_NaN();
      second.scores = scores;
      second.finite = false;
    } else if (fault == wrong_tokens) {
      chosen.back() = chosen[chosen.size() - 2];
      second.chosen = chosen;
    }
  }
};

}  // namespace

TEST_CASE("cuda: if the device shows a wrong choice or a score that is not finite, the step throws, and the sequence can go on") {
  const unchecked fast;
  const checkpoint files(pocket_model());
  faulty_device backend({.kv = dtype::f32});
  const auto net = load_model(backend, files);
  workspace<faulty_device> work(net, backend);
  sequence<faulty_device> text(net, any_session(lazyllm(stages{{2, 0.5}, {4, 0.5}}), {.layers = static_cast<layer_id>(net.config.layers)}));
  const auto tokens = drawn_tokens(20, net.config.vocabulary, 1);
  const auto step = [&] { return lazyprune_test::error_of([&] { (void)forward(work, {text, tokens, phase::prefill}); }); };
  backend.fault = faulty_device::not_finite;
  CHECK(step() == lazyprune_test::at("session: finish", {"finite numbers", "layer 3", "attention", "nan"}));
  CHECK(text.known() == 0);
  backend.fault = faulty_device::wrong_tokens;
  CHECK(step() == lazyprune_test::at("session: finish", {"ascending", "layer 3"}));
  CHECK(text.known() == 0);
  CHECK(text.aux_cache().size() == 0);
  backend.fault = faulty_device::none;
  CHECK(!forward(work, text, tokens, phase::prefill).empty());
  CHECK(text.aux_cache().size() == 15);
}
