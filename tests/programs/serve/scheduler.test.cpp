// SPDX-License-Identifier: MIT
#include "serve/scheduler.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fault.hpp>

#include "programs/questions/pocket_prompt.hpp"

#include <lazyprune/lazyprune.hpp>

using namespace lazyprune;
using namespace lazyprune::program;
using lazyprune_test::error_of;

namespace {

/// The bundled model, and what became of the answers to its prompt.
class scheduling {
 public:
  explicit scheduling(scheduler_limits limits = roomy()) : scheduler_(std::make_unique<scheduler>(*pocket_.model, limits)) {}

  static scheduler_limits roomy() { return {.bytes = std::size_t{1} << 40, .cache_bytes = std::size_t{1} << 30}; }

  scheduler& what() { return *scheduler_; }
  void end() { scheduler_.reset(); }

  scheduled_answer make(std::size_t tokens, std::size_t max_new, std::promise<std::vector<token_id>>& to) {
    generation_options options;
    options.max_new = max_new;
    options.ignore_eos = true;
    return {any_session(lazyprune::lazyllm({{3, 0.5}}), {.layers = pocket_.files.layers()}),
            prompt(tokens),
            std::move(options),
            100,
            [&to](const ended_answer& answer) { to.set_value(answer.result.tokens); },
            [&to](std::exception_ptr fault) { to.set_exception(fault); }};
  }

  std::vector<token_id> prompt(std::size_t tokens) const {
    return {pocket_.tokens.begin(), pocket_.tokens.begin() + static_cast<std::ptrdiff_t>(tokens)};
  }

  std::vector<token_id> alone(std::size_t tokens, std::size_t max_new) {
    std::promise<std::vector<token_id>> unused;
    scheduled_answer same = make(tokens, max_new, unused);
    return pocket_.model->generate(std::move(same.session), same.prompt, same.options).tokens;
  }

  /// The tokens of a sampled answer.
  std::vector<token_id> alone(const std::vector<token_id>& asked, std::size_t max_new, std::uint64_t seed) {
    std::promise<std::vector<token_id>> unused;
    scheduled_answer same = make(20, max_new, unused);
    same.prompt = asked;
    same.options.sampler = {.temperature = 1, .seed = seed};
    return pocket_.model->generate(std::move(same.session), same.prompt, same.options).tokens;
  }

 private:
  lazyprune_test::pocket_prompt pocket_;
  std::unique_ptr<scheduler> scheduler_;
};

std::vector<token_id> all_tokens() {
  std::vector<token_id> all(2304);
  std::iota(all.begin(), all.end(), token_id{0});
  return all;
}

std::vector<scheduled_answer> one(scheduled_answer answer) {
  std::vector<scheduled_answer> all;
  all.push_back(std::move(answer));
  return all;
}

}  // namespace

TEST_CASE("answers that are scheduled together are the same as alone") {
  scheduling a;
  std::vector<std::promise<std::vector<token_id>>> results(6);
  for (std::size_t i = 0; i < results.size(); ++i) REQUIRE(a.what().add(one(a.make(40 + 10 * i, 3 + i, results[i]))));
  for (std::size_t i = 0; i < results.size(); ++i) {
    CAPTURE(i);
    CHECK(results[i].get_future().get() == a.alone(40 + 10 * i, 3 + i));
  }
  const scheduler_counts now = a.what().counts();
  CHECK(now.ended == 6);
  CHECK(now.waiting == 0);
  CHECK(now.generated_tokens == 3 + 4 + 5 + 6 + 7 + 8);
  CHECK(now.prompt_tokens == 6 * 40 + 150);
  CHECK(now.rows > 0);
  CHECK(now.rows < now.dense_rows);
}

TEST_CASE("alternatives that start together read their prompt once") {
  scheduling a;
  std::vector<std::promise<ended_answer>> ends(4);
  std::promise<std::vector<token_id>> unused;
  std::vector<scheduled_answer> all;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    all.push_back(a.make(60, 3, unused));
    for (int k = 0; k < 9; ++k)
      all.back().prompt.insert(all.back().prompt.end(), all.back().prompt.begin(), all.back().prompt.begin() + 60);
    all.back().options.sampler = {.temperature = 1, .seed = i};
    all.back().ended = [&ends, i](const ended_answer& answer) { ends[i].set_value(answer); };
    all.back().alternative = i > 0;
  }
  const std::vector<token_id> prompt = all.front().prompt;
  REQUIRE(a.what().add(std::move(all)));
  std::size_t first_rows = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    CAPTURE(i);
    const ended_answer got = ends[i].get_future().get();
    if (i == 0) first_rows = got.result.cost.rows;
    CHECK((i == 0 || got.result.cost.rows * 5 < first_rows));  // its own decode steps revive tokens
    CHECK(got.result.tokens == a.alone(prompt, 3, i));
  }
}

TEST_CASE("an answer whose end cannot be told hears that it failed") {
  scheduling a;
  std::promise<std::vector<token_id>> failed, next;
  scheduled_answer answer = a.make(20, 2, failed);
  answer.ended = [](const ended_answer&) { throw std::bad_alloc(); };
  REQUIRE(a.what().add(one(std::move(answer))));
  REQUIRE(a.what().add(one(a.make(20, 2, next))));
  CHECK_THROWS_AS(failed.get_future().get(), std::bad_alloc);
  CHECK(next.get_future().get() == a.alone(20, 2));
}

TEST_CASE("answers beyond the queue are refused together, and those that need too much memory are an error") {
  scheduler_limits limits = scheduling::roomy();
  limits.together = limits.waiting = 1;
  limits.bytes = 250;
  scheduling a(limits);
  std::promise<std::vector<token_id>> unused;
  std::vector<scheduled_answer> three;
  for (int i = 0; i < 3; ++i) three.push_back(a.make(20, 2, unused));
  const auto never = error_of([&] { a.what().add(std::move(three)); });  // these would be refused at any time
  CHECK(never.code == error_code::bad_input);
  CHECK(never.where == "request: n");
  std::promise<std::vector<token_id>> runs;
  scheduled_answer long_one = a.make(20, 400, runs);
  std::promise<void> begun, go_on;
  long_one.options.on_token = [&, first = true](token_id) mutable {
    if (std::exchange(first, false)) {
      begun.set_value();
      go_on.get_future().wait();
    }
    return true;
  };
  REQUIRE(a.what().add(one(std::move(long_one))));
  begun.get_future().wait();
  std::vector<scheduled_answer> two;
  for (int i = 0; i < 2; ++i) two.push_back(a.make(20, 2, unused));
  CHECK(!a.what().add(std::move(two)));
  go_on.set_value();
  CHECK(runs.get_future().get().size() == 400);
  scheduled_answer large = a.make(20, 2, unused);
  large.bytes = 251;
  bool refused = false;
  try {
    a.what().add(one(std::move(large)));
  } catch (const error& fault) {
    refused = fault.code() == error_code::no_memory && std::string(fault.what()).find("251") != std::string::npos;
  }
  CHECK(refused);
  CHECK(a.what().counts().refused == 2);
}

TEST_CASE("answers wait until those before them have left room") {
  scheduler_limits limits = scheduling::roomy();
  limits.bytes = 100;  // of one answer
  scheduling a(limits);
  std::vector<std::promise<std::vector<token_id>>> results(3);
  std::vector<scheduled_answer> all;
  for (auto& each : results) all.push_back(a.make(30, 4, each));
  std::size_t together = 0;
  for (scheduled_answer& each : all)
    each.options.on_token = [&](token_id) {
      together = std::max(together, a.what().counts().running);
      return true;
    };
  REQUIRE(a.what().add(std::move(all)));
  for (auto& each : results) CHECK(each.get_future().get() == a.alone(30, 4));
  CHECK(together == 1);
}

TEST_CASE("an answer that is cancelled ends, whether it waits or runs") {
  scheduler_limits limits = scheduling::roomy();
  limits.together = 1;
  scheduling a(limits);
  std::promise<std::vector<token_id>> runs, waits, stays;
  std::promise<void> begun;
  scheduled_answer endless = a.make(20, 2000, runs);
  endless.options.on_token = [&, first = true](token_id) mutable {
    if (std::exchange(first, false)) begun.set_value();
    return true;
  };
  const auto running = a.what().add(one(std::move(endless))), waiting = a.what().add(one(a.make(20, 2, waits)));
  REQUIRE((running && waiting));
  begun.get_future().wait();
  a.what().cancel(waiting->front());
  a.what().cancel(running->front());
  a.what().cancel(running->front());
  REQUIRE(a.what().add(one(a.make(30, 2, stays))));
  CHECK(stays.get_future().get() == a.alone(30, 2));
  a.end();
  const auto untouched = [](auto& promise) {
    return promise.get_future().wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
  };
  CHECK(untouched(runs));
  CHECK(untouched(waits));
}

TEST_CASE("an answer that takes longer than it may fails, whether it waits or runs") {
  scheduler_limits limits = scheduling::roomy();
  limits.together = 1;
  scheduling a(limits);
  std::promise<std::vector<token_id>> runs, waits, stays;
  const auto now = std::chrono::steady_clock::now();
  std::vector<scheduled_answer> all;
  all.push_back(a.make(20, 3000, runs));
  all.back().deadline = now + std::chrono::milliseconds(50);
  all.push_back(a.make(20, 2, waits));
  all.back().deadline = now + std::chrono::milliseconds(1);
  all.push_back(a.make(25, 2, stays));
  all[0].options.on_token = [](token_id) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return true;
  };
  REQUIRE(a.what().add(std::move(all)));
  CHECK_THROWS_AS(waits.get_future().get(), deadline_passed);
  CHECK_THROWS_AS(runs.get_future().get(), deadline_passed);
  CHECK(stays.get_future().get() == a.alone(25, 2));
}

namespace {

/// Answers the last turn of a conversation. Its first token ends the answer.
ended_answer answer_to_turn(scheduling& where, const std::vector<token_id>& prompt, const std::vector<earlier_turn>& turns) {
  std::promise<ended_answer> ended;
  std::promise<std::vector<token_id>> failed;
  scheduled_answer asked = where.make(20, 3, failed);
  asked.prompt = prompt;
  asked.conversation = continued_conversation{turns, "stages"};
  asked.options.eos = all_tokens();
  asked.options.ignore_eos = false;
  asked.ended = [&](const ended_answer& answer) { ended.set_value(answer); };
  REQUIRE(where.what().add(one(std::move(asked))));
  return ended.get_future().get();
}

}  // namespace

TEST_CASE("a conversation goes on in its kept sequence, or plays its turns again: the tokens are the same") {
  scheduler_limits forgetful = scheduling::roomy();
  forgetful.cache_bytes = 0;
  scheduling keeps, forgets(forgetful);
  std::vector<token_id> prompt = keeps.prompt(60);
  std::vector<earlier_turn> turns;
  for (int turn = 0; turn < 4; ++turn) {
    CAPTURE(turn);
    const ended_answer kept = answer_to_turn(keeps, prompt, turns), played = answer_to_turn(forgets, prompt, turns);
    CHECK(kept.result.tokens == played.result.tokens);
    CHECK(kept.cached_tokens == (turn == 0 ? 0 : turns.back().answer_end));
    CHECK(played.cached_tokens == 0);
    CHECK(kept.result.share_prompt == played.result.share_prompt);
    CHECK(kept.result.cost.dense_rows == played.result.cost.dense_rows);
    CHECK((kept.result.cost.rows < played.result.cost.rows) == (turn > 0));
    // The end token is the whole answer, and was not read. So the earlier turn has an empty answer, and the next text begins with the end
    // token.
    turns.push_back({prompt.size(), prompt.size()});
    const std::vector<token_id> more = keeps.prompt(70 + static_cast<std::size_t>(turn));
    prompt.push_back(kept.result.tokens.back());
    prompt.insert(prompt.end(), more.begin() + 60, more.end());
  }
  turns.front().answer_end += 1;  // other turns: the kept sequence does not fit
  CHECK(answer_to_turn(keeps, prompt, turns).cached_tokens == 0);
  CHECK(keeps.what().counts().cache_bytes > 0);
  CHECK(forgets.what().counts().cache_bytes == 0);
}

TEST_CASE("a conversation that is too long for the cache leaves the others in it") {
  scheduling measures;
  const std::vector<token_id> small = measures.prompt(20);
  std::vector<token_id> large(100, 5);
  answer_to_turn(measures, small, {});
  const std::size_t small_bytes = measures.what().counts().cache_bytes;
  answer_to_turn(measures, large, {});
  const std::size_t large_bytes = measures.what().counts().cache_bytes - small_bytes;
  REQUIRE(small_bytes < large_bytes);

  scheduler_limits limits = scheduling::roomy();
  limits.cache_bytes = small_bytes + large_bytes;  // conversations get half of it
  scheduling a(limits);
  const ended_answer first = answer_to_turn(a, small, {});
  answer_to_turn(a, large, {});
  CHECK(a.what().counts().cache_bytes == small_bytes);
  std::vector<token_id> next = small;
  next.push_back(first.result.tokens.back());
  for (token_id id = 10; id < 20; ++id) next.push_back(id);
  CHECK(answer_to_turn(a, next, {{small.size(), small.size()}}).cached_tokens == small.size());
}

TEST_CASE("an alternative that began from other cached tokens than the answer that reads its prompt has the same dense rows") {
  const lazyprune_test::pocket_prompt pocket;
  std::vector<token_id> prompt, other;
  for (token_id i = 0; i < 600; ++i) prompt.push_back(3 + i * 37 % 200);
  other.assign(prompt.begin(), prompt.begin() + 300);
  for (token_id i = 0; i < 1200; ++i) other.push_back(3 + i * 41 % 200);
  const auto batch = pocket.model->begin_batch(std::size_t{1} << 30);
  const auto session = [&] { return any_session(lazyprune::lazyllm({{3, 0.5}}), {.layers = pocket.files.layers()}); };
  generation_options options;
  options.max_new = 2;
  options.ignore_eos = true;
  batch->add(session(), other, options);
  const std::size_t reader = batch->add(session(), prompt, options);
  while (batch->cache_bytes() == 0) batch->step(128);
  REQUIRE(batch->unread() > 0);
  const std::size_t alternative = batch->add_alternative(reader, session(), prompt, options);
  std::vector<ended_answer> ended;
  while (ended.size() < 3)
    for (ended_answer& each : batch->step(128)) ended.push_back(std::move(each));
  const auto of = [&](std::size_t number) { return *std::ranges::find(ended, number, &ended_answer::number); };
  CHECK(of(reader).cached_tokens == 0);
  REQUIRE(of(alternative).cached_tokens > 200);
  CHECK(of(alternative).result.cost.dense_rows == of(reader).result.cost.dense_rows);
  CHECK(of(alternative).result.cost.rows < of(reader).result.cost.rows);
}

TEST_CASE("an answer can be cancelled or late while its earlier turns are played again, and the others go on") {
  scheduling a;
  std::promise<std::vector<token_id>> cancelled, late, stays;
  const auto long_turns = [&](std::promise<std::vector<token_id>>& to) {
    scheduled_answer asked = a.make(60, 3, to);
    for (int i = 0; i < 19; ++i) asked.prompt.insert(asked.prompt.end(), asked.prompt.begin(), asked.prompt.begin() + 60);
    asked.conversation = continued_conversation{{{20, 1100}}, "stages"};  // 1,080 decode steps
    return asked;
  };
  std::vector<scheduled_answer> all;
  all.push_back(long_turns(cancelled));
  all.push_back(long_turns(late));
  all.back().deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  all.push_back(a.make(30, 4, stays));
  const auto tickets = a.what().add(std::move(all));
  REQUIRE(tickets);
  CHECK(stays.get_future().get() == a.alone(30, 4));
  a.what().cancel(tickets->front());
  CHECK_THROWS_AS(late.get_future().get(), deadline_passed);
  std::promise<std::vector<token_id>> after;
  REQUIRE(a.what().add(one(a.make(25, 2, after))));
  CHECK(after.get_future().get() == a.alone(25, 2));
  a.what().end();
  CHECK(cancelled.get_future().wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  CHECK(a.what().counts().bytes == 0);
  CHECK(error_of([&] { a.what().add(one(a.make(25, 2, after))); }).code == error_code::wrong_order);
}

TEST_CASE("an answer that cannot be generated fails alone") {
  scheduling a;
  std::promise<std::vector<token_id>> bad, thrown, good;
  scheduled_answer empty = a.make(0, 2, bad), throws = a.make(20, 5, thrown);
  throws.options.on_token = [](token_id) -> bool { throw std::runtime_error("a fault of the callback"); };
  std::vector<scheduled_answer> all;
  all.push_back(std::move(empty));
  all.push_back(std::move(throws));
  all.push_back(a.make(25, 5, good));
  REQUIRE(a.what().add(std::move(all)));
  CHECK(good.get_future().get() == a.alone(25, 5));
  CHECK_THROWS_AS(bad.get_future().get(), error);
  CHECK_THROWS_WITH(thrown.get_future().get(), "a fault of the callback");
  CHECK(a.what().counts().failed == 2);
}

TEST_CASE("when the scheduler ends, answers that have not ended fail") {
  scheduler_limits limits = scheduling::roomy();
  limits.together = 1;
  scheduling a(limits);
  std::promise<std::vector<token_id>> runs, waits;
  REQUIRE(a.what().add(one(a.make(20, 2000, runs))));
  REQUIRE(a.what().add(one(a.make(20, 2, waits))));
  while (a.what().counts().steps == 0) std::this_thread::yield();
  a.end();
  CHECK_THROWS_AS(runs.get_future().get(), error);
  CHECK_THROWS_AS(waits.get_future().get(), error);
}
