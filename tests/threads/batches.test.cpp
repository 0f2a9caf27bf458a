// SPDX-License-Identifier: MIT
// Requests are cancelled while others run: in batches of several threads on one model, and in the server's scheduler with many clients.
// Batches of several threads also take turns at one prefix cache.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/model/continuous_batch.hpp>
#include <lazyprune/model/prefix_cache.hpp>

#include <model/asked_sequences.hpp>
#include <model/tiny_model.hpp>
#include <programs/questions/pocket_prompt.hpp>

#include "on_threads.hpp"
#include "serve/scheduler.hpp"

using namespace lazyprune;
using lazyprune_test::many_asked, lazyprune_test::on_threads, lazyprune_test::sequence_asked;

namespace {

bool is_beginning(const std::vector<token_id>& some, const std::vector<token_id>& all) {
  return some.size() <= all.size() && std::equal(some.begin(), some.end(), all.begin());
}

/// Runs many_asked() in a batch, and cancels some of them after random steps. Returns the number of answers that differ from those alone.
std::size_t differences_of_batch(const model<cpu>& net, const std::vector<generation>& alone, unsigned seed) {
  std::mt19937 random(seed);
  cpu backend({.threads = seed % 4 == 0 ? 2 : 1});
  workspace<cpu> work(net, backend);
  continuous_batch<cpu> batch(work);
  std::vector<bool> cancelled;
  for (sequence_asked& asked : many_asked()) {
    batch.add(sequence<cpu>(net, std::move(asked.session)), std::move(asked.prompt), std::move(asked.options));
    cancelled.push_back(false);
  }
  std::size_t differences = 0;
  while (!batch.empty()) {
    if (random() % 4 == 0) {
      const std::size_t which = random() % cancelled.size();
      cancelled[which] = true;
      batch.stop(which);
    }
    for (const ended_sequence<cpu>& each : batch.step(5)) {
      const generation& expected = alone[each.number];
      const bool same = cancelled[each.number] ? is_beginning(each.result.tokens, expected.tokens)
                                               : each.result.tokens == expected.tokens && each.result.cost.rows == expected.cost.rows;
      differences += each.fault != nullptr || !same;
    }
  }
  return differences;
}

/// Prompts with common beginnings, which threads answer from one prefix cache.
class cached_answers {
 public:
  cached_answers() : net_(lazyprune_test::tiny_model(loader_)) {}

  /// Returns the logits of the answer to a prompt, one step after another. `cached`: whether its beginning may come from the cache.
  std::vector<float> logits(unsigned number, bool cached) {
    auto prompt = lazyprune_test::some_tokens(70 + 10 * (number % 3));
    prompt.push_back(static_cast<token_id>(number % 40));
    for (unsigned i = 0; i < 12; ++i) prompt.push_back(static_cast<token_id>(number * i % 40));
    cpu backend({.threads = 1});
    workspace<cpu> work(net_, backend);
    continuous_batch<cpu> batch(work, {.question_tokens = 8, .before_question = [&](const sequence<cpu>& seq) {
                                         if (!cached) return;
                                         const std::lock_guard turn(mutex_);
                                         cache_.keep(seq);
                                       }});
    sequence<cpu> seq = begin(prompt, number, cached);
    prompt.erase(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(seq.known()));
    taken_ += seq.known() > 0;
    generation_options options;
    options.max_new = 4;
    options.trace_logits = true;
    batch.add(std::move(seq), std::move(prompt), options);
    std::vector<float> all;
    while (!batch.empty())
      for (const ended_sequence<cpu>& each : batch.step(20)) {
        if (each.fault) std::rethrow_exception(each.fault);
        for (const step_trace& step : each.result.trace) all.insert(all.end(), step.logits.begin(), step.logits.end());
      }
    return all;
  }

  std::size_t taken() const { return taken_; }

 private:
  sequence<cpu> begin(const std::vector<token_id>& prompt, unsigned number, bool cached) {
    any_session session(lazyllm(stages{{number % 2 ? 2u : 3u, 0.5}}), {.layers = 4});
    if (!cached) return sequence<cpu>(net_, std::move(session));
    const std::lock_guard turn(mutex_);
    return cache_.begin(net_, std::move(session), prompt, 200);
  }

  cpu loader_{{.threads = 1}};
  model<cpu> net_;
  std::mutex mutex_{};
  prefix_cache<cpu> cache_{std::size_t{1} << 18, 8};
  std::atomic<std::size_t> taken_ = 0;  // answers with a beginning from the cache
};

/// The server's scheduler on the bundled model.
struct busy_scheduler {
  lazyprune_test::pocket_prompt pocket{};
  program::scheduler what{*pocket.model,
                          {.waiting = 1000, .together = 6, .bytes = std::size_t{1} << 40, .cache_bytes = std::size_t{1} << 24}};

  any_session session() const { return any_session(lazyllm({{3, 0.5}}), {.layers = pocket.files.layers()}); }
  std::vector<token_id> prompt(std::size_t length) const {
    return {pocket.tokens.begin(), pocket.tokens.begin() + static_cast<std::ptrdiff_t>(length)};
  }
  static generation_options options(std::size_t max_new) {
    generation_options all;
    all.max_new = max_new;
    all.ignore_eos = true;
    return all;
  }
};

/// The end of one answer, as its client hears of it. The scheduler may hold it longer than the client.
struct heard {
  std::promise<std::vector<token_id>> tokens;
  std::promise<void> begun;
  std::atomic<bool> has_begun = false;
};

}  // namespace

TEST_CASE("batches of several threads cancel sequences, and the others get the tokens that they get alone") {
  cpu loader({.threads = 1});
  const auto net = lazyprune_test::tiny_model(loader);
  std::vector<generation> alone;
  {
    workspace<cpu> work(net, loader);
    for (sequence_asked& asked : many_asked()) {
      sequence<cpu> seq(net, std::move(asked.session));
      alone.push_back(generate(work, seq, asked.prompt, asked.options));
    }
  }
  std::vector<std::size_t> differences(8);
  on_threads(differences.size(), [&](std::size_t i) {
    for (unsigned round = 0; round < 3; ++round) differences[i] += differences_of_batch(net, alone, static_cast<unsigned>(i) + 100 * round);
  });
  for (const std::size_t count : differences) CHECK(count == 0);
}

TEST_CASE("threads take turns at one prefix cache, and get the logits that they get without it") {
  constexpr unsigned answers = 64;
  cached_answers from;
  std::vector<std::vector<float>> alone;
  for (unsigned i = 0; i < answers; ++i) alone.push_back(from.logits(i, false));
  std::vector<std::size_t> differences(8);
  on_threads(differences.size(), [&](std::size_t thread) {
    for (unsigned i = 0; i < answers / 8; ++i) {
      const unsigned number = i * 8 + static_cast<unsigned>(thread);
      differences[thread] += from.logits(number, true) != alone[number];
    }
  });
  for (const std::size_t count : differences) CHECK(count == 0);
  CHECK(from.taken() > answers / 4);
}

TEST_CASE("clients of one scheduler cancel requests, and the others get the tokens that they get alone") {
  constexpr std::size_t clients = 6, requests = 6;
  busy_scheduler busy;
  const auto length = [](std::size_t client, std::size_t request) { return 20 + 7 * client + 3 * request; };
  std::vector<std::vector<token_id>> alone;
  {
    lazyprune_test::pocket_prompt other;
    for (std::size_t i = 0; i < clients * requests; ++i)
      alone.push_back(other.model->generate(busy.session(), busy.prompt(length(i / requests, i % requests)), busy.options(6)).tokens);
  }
  std::vector<std::size_t> differences(clients), cancelled(clients);
  on_threads(clients, [&](std::size_t client) {
    for (std::size_t r = 0; r < requests; ++r) {
      const auto to = std::make_shared<heard>();
      const bool cancels = (client + r) % 3 == 0;
      generation_options options = busy.options(cancels ? 5000 : 6);
      options.context = cancels ? 4000 : 0;
      options.on_token = [to](token_id) {
        if (!to->has_begun.exchange(true)) to->begun.set_value();
        return true;
      };
      std::vector<program::scheduled_answer> one;
      one.push_back({busy.session(), busy.prompt(length(client, r)), std::move(options), 100,
                     [to](const program::ended_answer& answer) { to->tokens.set_value(answer.result.tokens); },
                     [to](std::exception_ptr fault) { to->tokens.set_exception(std::move(fault)); }});
      const auto ticket = busy.what.add(std::move(one));
      if (!ticket) throw std::runtime_error("refused");
      if (cancels) {
        if (to->begun.get_future().wait_for(std::chrono::minutes(1)) != std::future_status::ready)
          throw std::runtime_error("the answer did not begin");
        busy.what.cancel(ticket->front());
        ++cancelled[client];
      } else {
        differences[client] += to->tokens.get_future().get() != alone[client * requests + r];
      }
      (void)busy.what.counts();
    }
  });
  while (busy.what.counts().running > 0) std::this_thread::yield();  // the last cancelled requests leave in the next step
  busy.what.end();
  std::size_t all_cancelled = 0;
  for (std::size_t i = 0; i < clients; ++i) {
    CHECK(differences[i] == 0);
    all_cancelled += cancelled[i];
  }
  CHECK(all_cancelled == clients * requests / 3);
  const program::scheduler_counts counts = busy.what.counts();
  CHECK(counts.ended == clients * requests - all_cancelled);
  CHECK(counts.cancelled == all_cancelled);
  CHECK(counts.failed == 0);
}
