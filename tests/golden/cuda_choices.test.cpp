// SPDX-License-Identifier: MIT
// Compares steps whose tokens the device chooses without a stop of the host with steps that stop after each selection. Runs the bundled
// model on the emulated device, or on a GPU.
#include <lazyprune/backend/cuda.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/transformer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
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
  std::size_t stops_at = 1000;      // stops when it was asked so often
  std::size_t computes = 0;         // layers whose queries were computed
  std::optional<layer_id> fails{};  // the layer inside which the step fails

  bool stops() override { return asked_++ >= stops_at; }
  void section_begins(step_section section) override { computes += section == step_section::attention; }
  void layer_begins(const layer_plan& plan) override {
    if (fails == plan.layer) throw std::runtime_error("a planted fault");
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

  /// If `waits` is given, checks that the host waits so often in the step that queues layers.
  void step(const std::vector<token_id>& tokens, phase when, std::size_t outputs, std::optional<std::size_t> waits = {}) {
    step_watch first, second;
    device::synchronize();
    const std::optional<std::size_t> before = lazyprune_test::times_waited();
    const seen_step found = run_ahead({ahead, tokens, when, outputs, &first}, first);
    if (const auto after = lazyprune_test::times_waited(); waits && after) CHECK(*after - *before == *waits);
    const seen_step expected = run_stopping({stopping, tokens, when, outputs, &second}, second);
    CHECK(found.layers == expected.layers);
    CHECK(found.logits == expected.logits);  // the same bits
    compare();
  }

  /// Makes both sequences forget their tokens.
  void clear() {
    ahead.clear();
    stopping.clear();
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

/// Runs the first turn of a conversation, or all. `waits`: how often the host waits in its first prompt, the logits included.
template <class Backend = cuda_backend, class Policy>
void conversation(std::size_t waits, const execution& how, const Policy& policy, turns many = turns::first) {
  const unchecked fast;
  const checkpoint files(pocket_model());
  Backend backend(how);
  const auto net = load_model(backend, files);
  const std::size_t vocabulary = net.config.vocabulary;
  two_sequences<Backend> both(net, backend, any_session(policy, {.layers = static_cast<layer_id>(net.config.layers)}));
  both.step(drawn_tokens(60, vocabulary, 1), phase::prefill, 1, waits);
  both.step(drawn_tokens(1, vocabulary, 10), phase::decode, 1);
  if (many == turns::first) return;
  both.step(drawn_tokens(1, vocabulary, 11), phase::decode, 1);
  both.step(drawn_tokens(20, vocabulary, 2), phase::prefill, 1);  // the next turn: some tokens have keys already
  for (auto* text : {&both.ahead, &both.stopping}) text->truncate(40);
  both.compare();
  both.step(drawn_tokens(30, vocabulary, 3), phase::prefill, 3);
  both.clear();
  both.step(drawn_tokens(30, vocabulary, 4), phase::prefill, 0);  // a prompt in chunks
  both.step(drawn_tokens(30, vocabulary, 5), phase::prefill, 0);
  both.step(drawn_tokens(20, vocabulary, 6), phase::prefill, 1);
  both.step(drawn_tokens(1, vocabulary, 7), phase::decode, 1);
  both.clear();
  both.step(drawn_tokens(50, vocabulary, 8), phase::prefill, 50);  // nothing can be dropped
}

}  // namespace

TEST_CASE("cuda: a pruned prompt whose tokens the device chooses has the same bits, and the host waits once, not after each selection") {
  const stages when{{1, 0.7}, {3, 0.6}, {5, 0.5}};
  SUBCASE("the Aux Cache keeps all") { conversation(2, {.kv = dtype::f32}, lazyllm(when), turns::all); }  // for choices and logits
  SUBCASE("bf16, on tensor cores") { conversation(2, {.kv = dtype::bf16}, lazyllm(when)); }
  SUBCASE("pruned tokens are lost") { conversation(2, {.kv = dtype::f32}, static_pruning(when), turns::all); }
  SUBCASE("pages") { conversation(2, {.kv = dtype::f32}, lazyllm_blocks(when, 8), turns::all); }
  SUBCASE("the largest attention of any head, and tokens that always stay") {
    conversation(2, {.exact = true},
                 policy{last_query_attention{head_reduction::max}, when, protect{top_k{}, 3, 9, position_spans({{20, 24}})}, keep_all{}});
  }
  SUBCASE("a selection after every layer") {
    conversation(2, {.kv = dtype::f32}, policy{last_query_attention{}, linear{.from = 0, .share = 0.3}, top_k{}, keep_all{}});
  }
  // The host must see the evidence of these policies.
  SUBCASE("the number of tokens depends on scores") {
    conversation(4, {.kv = dtype::f32}, policy{last_query_attention{}, when, top_p{0.7}, keep_all{}});
  }
  SUBCASE("a bounded Aux Cache") { conversation(4, {.kv = dtype::f32}, policy{last_query_attention{}, when, top_k{}, bounded{20}}); }
  SUBCASE("a window of queries") { conversation(4, {.kv = dtype::f32}, policy{window_attention{.window = 4}, when, top_k{}, keep_all{}}); }
}

namespace {

struct small_blocks : cuda_backend {
  using cuda_backend::cuda_backend;
  static constexpr std::size_t block_rows = 32;
};

}  // namespace

TEST_CASE("cuda: the same holds if a layer works on several blocks of rows") {
  conversation<small_blocks>(2, {.kv = dtype::f32}, lazyllm(stages{{2, 0.6}, {4, 0.5}}));
}

namespace {

/// The bundled model on a device, and two sequences.
template <class Backend = cuda_backend>
struct pruned_model {
  unchecked fast;
  checkpoint files{pocket_model()};
  Backend backend{execution{.kv = dtype::f32}};
  model<Backend> net = load_model(backend, files);
  two_sequences<Backend> both;

  explicit pruned_model(const stages& when = {{2, 0.5}, {4, 0.5}})
      : both(net, backend, any_session(lazyllm(when), {.layers = static_cast<layer_id>(net.config.layers)})) {}

  std::vector<token_id> tokens(std::size_t n, std::uint64_t seed) const { return drawn_tokens(n, net.config.vocabulary, seed); }
};

}  // namespace

TEST_CASE("cuda: a step that is stopped while its layers are queued, or after, leaves the sequence without the step's tokens") {
  pruned_model<> on;
  auto& both = on.both;
  const std::size_t layers = on.net.config.layers, queued = layers - 2;  // layer 1 makes the first choice
  for (std::size_t stops_at = 0; stops_at < layers + queued; ++stops_at) {
    CAPTURE(stops_at);
    step_watch watch;
    watch.stops_at = stops_at;
    CHECK(both.run_ahead({both.ahead, on.tokens(40, stops_at), phase::prefill, 1, &watch}, watch).logits.empty());
    CHECK(watch.computes == std::min(stops_at, layers));  // the observer is asked before each layer is computed, and then before it ends
    CHECK(watch.seen.layers.size() == (stops_at < layers ? std::min<std::size_t>(stops_at, 2) : 2 + stops_at - layers));
    CHECK(both.ahead.known() == 0);
    CHECK(both.ahead.aux_cache().size() == 0);
    for (layer_id l = 0; l < layers; ++l) CHECK(both.ahead.kv().tokens_of_slots(l).empty());
  }
  both.clear();
  both.step(on.tokens(40, 9), phase::prefill, 1, 2);
  both.step(on.tokens(1, 10), phase::decode, 1);
}

TEST_CASE("cuda: queued layers write to none of the blocks that a fork shares") {
  pruned_model<> on;
  auto& both = on.both;
  two_sequences<cuda_backend> others(on.net, on.backend, both.ahead.session());
  both.step(on.tokens(60, 1), phase::prefill, 1, 2);
  others.ahead = both.ahead.fork();
  others.ahead.clear();  // keeps the blocks, so its next rows go to blocks of both.ahead
  others.step(on.tokens(50, 2), phase::prefill, 1, 2);
  others.step(on.tokens(1, 3), phase::decode, 1);
  for (const std::uint64_t seed : {4u, 5u, 6u}) both.step(on.tokens(1, seed), phase::decode, 1);
  CHECK(both.ahead.session().stats().revived > 0);  // so stored rows were read
}

TEST_CASE("cuda: the rows that a choice drops go to none of the blocks that a copy of the store shares") {
  pruned_model<> on;
  on.both.step(on.tokens(60, 1), phase::prefill, 1);  // leaves scores on the device
  constexpr std::size_t n = 8, columns = 4;
  std::vector<float> numbers(2 * n * columns);
  std::iota(numbers.begin(), numbers.end(), 1.0f);
  std::vector<std::uint32_t> slots(n);
  std::iota(slots.begin(), slots.end(), 0u);
  const std::vector<candidacy> standing(n, candidacy::open);
  const std::vector<selection_size> sizes{{n, 3}};
  cuda_backend::buffer x(columns), read(columns);
  x.reserve(2 * n);
  read.reserve(n);
  on.backend.write(numbers.data(), x.view().slice(0, 2 * n));
  cuda_backend::row_store store(columns);
  on.backend.store_rows(x.view().slice(0, n), slots, store, slots);
  const cuda_backend::row_store copy = store;
  on.backend.begin_choices(slots, standing, 1, sizes);
  on.backend.choose();
  on.backend.store_dropped(x.view().slice(n, n), store, std::span(slots).first(n - 3));
  const auto rows_of = [&](const cuda_backend::row_store& from) {
    std::vector<float> found(n * columns);
    on.backend.take_rows(from, slots, read.view().slice(0, n), slots);
    on.backend.read(read.view().slice(0, n), found.data());
    return found;
  };
  CHECK(rows_of(copy) == std::vector<float>(numbers.begin(), numbers.begin() + n * columns));
  CHECK(rows_of(store).front() > static_cast<float>(n * columns));
}

namespace {

/// A device that makes one fault when it shows its choices.
struct faulty_device : cuda_backend {
  using cuda_backend::cuda_backend;
  enum { none, not_finite, wrong_tokens, wrong_count } fault = none;
  std::vector<std::size_t> wrong{};  // the choices with the fault
  std::vector<std::vector<float>> scores{};
  std::vector<std::vector<std::uint32_t>> chosen{};

  void read_choices(std::vector<made_choice>& out) {
    cuda_backend::read_choices(out);
    if (fault == none) return;
    scores.resize(out.size());
    chosen.resize(out.size());
    for (const std::size_t i : wrong) {
      made_choice& made = out.at(i);
      scores[i].assign(made.scores.begin(), made.scores.end());
      chosen[i].assign(made.chosen.begin(), made.chosen.end());
      if (fault == not_finite) {
        scores[i][2] = std::numeric_limits<float>::quiet_NaN();
        made.scores = scores[i];
        made.finite = false;
      } else if (fault == wrong_tokens) {
        chosen[i].back() = chosen[i][chosen[i].size() - 2];
        made.chosen = chosen[i];
      } else {
        --made.stayed;
      }
    }
  }
};

}  // namespace

TEST_CASE("cuda: if the device shows a wrong choice or a score that is not finite, the step throws, and the sequence can go on") {
  using lazyprune_test::at;
  pruned_model<faulty_device> on;
  const auto tokens = on.tokens(20, 1);
  const auto step = [&] {
    step_watch watch;
    return lazyprune_test::error_of([&] { on.both.run_ahead({on.both.ahead, tokens, phase::prefill, 1, &watch}, watch); });
  };
  for (const std::vector<std::size_t>& wrong : {std::vector<std::size_t>{0}, {1}, {0, 1}}) {
    CAPTURE(wrong.size());
    const std::string place = "layer " + std::to_string(1 + 2 * wrong.front());
    CAPTURE(place);
    on.backend.wrong = wrong;
    on.backend.fault = faulty_device::not_finite;
    CHECK(step() == at("session: leave", {"finite scores", place, "nan"}));
    on.backend.fault = faulty_device::wrong_tokens;
    CHECK(step() == at("session: leave", {"ascending", place}));
    on.backend.fault = faulty_device::wrong_count;
    CHECK(step() == at("session: leave", {"chosen tokens", place}));
    CHECK(on.both.ahead.known() == 0);
    CHECK(on.both.ahead.aux_cache().size() == 0);
  }
  on.backend.fault = faulty_device::none;
  on.both.clear();  // the statistics, too
  on.both.step(tokens, phase::prefill, 1, 2);
  CHECK(on.both.ahead.aux_cache().size() == 15);
}

TEST_CASE("cuda: after a wrong choice in the last piece of a prompt, the sequence goes on as after a step that failed in that layer") {
  for (const layer_id failing : {2u, 4u}) {
    CAPTURE(failing);
    pruned_model<faulty_device> on({{1, 0.7}, {3, 0.6}, {5, 0.5}});
    auto& both = on.both;
    both.step(on.tokens(30, 1), phase::prefill, 0);
    const auto last = on.tokens(20, 2);
    step_watch first, second;
    on.backend.fault = faulty_device::not_finite;
    on.backend.wrong = {failing == 2 ? 0u : 1u};  // the host makes the selection after layer 0
    CHECK(lazyprune_test::error_of([&] {
            both.run_ahead({both.ahead, last, phase::prefill, 1, &first}, first);
          }) == lazyprune_test::at("session: leave", {"finite scores", "layer " + std::to_string(failing)}));
    second.fails = failing;
    CHECK_THROWS_AS(both.run_stopping({both.stopping, last, phase::prefill, 1, &second}, second), std::runtime_error);
    CHECK(both.ahead.known() == 30);
    both.compare();
    on.backend.fault = faulty_device::none;
    both.step(on.tokens(20, 3), phase::prefill, 1);
    both.step(on.tokens(1, 4), phase::decode, 1);
    both.step(on.tokens(25, 5), phase::prefill, 1);
    both.step(on.tokens(1, 6), phase::decode, 1);
  }
}
