// SPDX-License-Identifier: MIT
#include <lazyprune/model/resumable_forward.hpp>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/lazyprune.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <vector>

#include <fault.hpp>
#include "tiny_model.hpp"

using namespace lazyprune;
using lazyprune_test::error_of;
using lazyprune_test::some_tokens;

namespace {

/// Stops the step, or throws, at the beginning of a layer.
struct ends_at final : step_observer {
  layer_id layer;
  bool throws;
  layer_id next = 0;
  ends_at(layer_id at, bool with_fault) : layer(at), throws(with_fault) {}
  bool stops() override { return !throws && next == layer; }
  void layer_begins(const layer_plan& plan) override {
    next = plan.layer + 1;
    if (throws && plan.layer == layer) throw std::runtime_error("planted fault");
  }
};

template <tensor_backend Backend>
struct paused_bench {
  using logits = std::vector<typename Backend::scalar>;

  Backend backend{execution{}};
  model_config config = lazyprune_test::tiny_config();
  model<Backend> net = lazyprune_test::tiny_model(backend, config);
  workspace<Backend> work{net, backend};

  sequence<Backend> made(std::span<const token_id> chunk) {
    sequence<Backend> seq(net, any_session(lazyllm({{1, 0.6}, {3, 0.4}}), {.layers = 4}));
    if (!chunk.empty()) REQUIRE(forward(work, {seq, chunk, phase::prefill, 0}));
    return seq;
  }

  static logits copied(std::span<const typename Backend::scalar> row) { return {row.begin(), row.end()}; }

  /// Runs a step in parts of `most_rows` rows, with a step of another sequence after each part.
  void check(std::size_t most_rows) {
    CAPTURE(most_rows);
    const std::vector<token_id> chunk = some_tokens(20), rest{3, 1, 4, 1, 5}, other_prompt{7, 8, 9, 10};
    sequence<Backend> alone = made(chunk), seq = made(chunk), other = made({}), other_alone = made({});
    const logits expected = copied(forward(work, alone, rest, phase::prefill));
    logits others = copied(forward(work, other, other_prompt, phase::prefill));
    CHECK(others == copied(forward(work, other_alone, other_prompt, phase::prefill)));

    resumable_forward<Backend> pass(work, {seq, rest, phase::prefill, 1});
    std::size_t parts = 1;
    for (; !pass.resume(most_rows); ++parts) {
      const auto next = static_cast<token_id>(parts);
      others = copied(forward(work, other, std::span(&next, 1), phase::decode));
      CHECK(others == copied(forward(work, other_alone, std::span(&next, 1), phase::decode)));
    }
    CHECK_FALSE(pass.stopped());
    CHECK(copied(read_logits(work, 0)) == expected);
    if (most_rows == 0) CHECK(parts == config.layers);
    if (most_rows == 1000) CHECK(parts == 1);
    CHECK(seq.known() == alone.known());
    CHECK(seq.session().stats().rows == alone.session().stats().rows);
    const std::vector<token_id> more{6, 6, 6};
    CHECK(copied(forward(work, seq, more, phase::decode)) == copied(forward(work, alone, more, phase::decode)));
  }
};

}  // namespace

TEST_CASE("a forward pass in parts has the bits of a whole one, while other sequences use the workspace") {
  for (const std::size_t most_rows : {0u, 30u, 1000u}) {
    paused_bench<reference<double>>().check(most_rows);
    paused_bench<cpu>().check(most_rows);
  }
}

TEST_CASE("a sequence forgets a step in parts if it is stopped, throws, or is given up") {
  paused_bench<reference<double>> b;
  const std::vector<token_id> chunk = some_tokens(12), rest{3, 1, 4};
  sequence<reference<double>> seq = b.made(chunk), alone = b.made(chunk);  // `alone` has whole steps that end at the same layers
  ends_at stop(2, false), fault(2, true), stop_alone(2, false), fault_alone(2, true), given_up_alone(1, false);
  CHECK_FALSE(forward(b.work, {alone, rest, phase::prefill, 1, &stop_alone}));
  CHECK_THROWS_AS(std::ignore = forward(b.work, {alone, rest, phase::prefill, 1, &fault_alone}), std::runtime_error);
  CHECK_FALSE(forward(b.work, {alone, rest, phase::prefill, 1, &given_up_alone}));

  resumable_forward<reference<double>> stopped(b.work, {seq, rest, phase::prefill, 1, &stop});
  while (!stopped.resume(0)) CHECK(stop.next <= 2);
  CHECK(stopped.stopped());
  CHECK(seq.known() == chunk.size());
  CHECK(error_of([&] { read_logits(b.work, 0); }).code == error_code::wrong_order);

  {
    resumable_forward<reference<double>> fails(b.work, {seq, rest, phase::prefill, 1, &fault});
    CHECK_THROWS_AS(while (!fails.resume(0)){}, std::runtime_error);
    CHECK(seq.known() == chunk.size());
  }
  {
    resumable_forward<reference<double>> given_up(b.work, {seq, rest, phase::prefill, 1});
    CHECK_FALSE(given_up.resume(0));
    CHECK(seq.known() == chunk.size() + rest.size());
  }
  CHECK(seq.known() == chunk.size());
  const auto expected = b.copied(forward(b.work, alone, rest, phase::prefill));
  CHECK(b.copied(forward(b.work, seq, rest, phase::prefill)) == expected);
}

TEST_CASE("a step in parts has its own logits, although another step has read more logits in between") {
  struct reads final : step_observer {
    std::vector<double> seen{};
    bool wants_logits() const override { return true; }
    void logits(std::span<const double> row) override { seen.assign(row.begin(), row.end()); }
    void logits(std::span<const float>) override {}
  };
  paused_bench<reference<double>> b;
  const std::vector<token_id> rest{3, 1, 4}, others{7, 8, 9, 10, 11};
  reads alone, in_parts;
  sequence<reference<double>> seq = b.made(some_tokens(12)), same = b.made(some_tokens(12)), other = b.made({});
  REQUIRE(forward(b.work, {same, rest, phase::prefill, 1, &alone}));
  resumable_forward<reference<double>> pass(b.work, {seq, rest, phase::prefill, 1, &in_parts});
  REQUIRE_FALSE(pass.resume(0));
  REQUIRE(forward(b.work, {other, others, phase::prefill, 5}));
  while (!pass.resume(0)) continue;
  CHECK(in_parts.seen == alone.seen);
  CHECK(error_of([&] { read_logits(b.work, 1); }).code == error_code::wrong_order);
}

TEST_CASE("a step that forward refuses cannot begin") {
  paused_bench<reference<double>> b;
  sequence<reference<double>> seq = b.made({});
  const std::vector<token_id> wrong{1, 4000};
  CHECK(error_of([&] { resumable_forward<reference<double>>(b.work, {seq, wrong, phase::prefill, 1}); }).where == "tokens: token id");
  CHECK(seq.known() == 0);
}
