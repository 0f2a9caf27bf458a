// SPDX-License-Identifier: MIT
// Threads use the C library: they share a registry with a custom scorer, and each has sessions of its own.
#include <lazyprune/c/lazyprune.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <lazyprune/core/mix.hpp>

#include "on_threads.hpp"

namespace {

constexpr std::uint32_t c_layers = 6;

struct frees_session {
  void operator()(lazyprune_session* session) const { lazyprune_session_free(session); }
};
using c_session = std::unique_ptr<lazyprune_session, frees_session>;

void must_work(lazyprune_status status) {
  if (status.code != LAZYPRUNE_OK) throw std::runtime_error(status.message);
}

c_session make_c_session(const lazyprune_registry* registry, const char* policy) {
  lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
  options.layers = c_layers;
  lazyprune_session* session = nullptr;
  must_work(lazyprune_session_create(registry, policy, &options, &session));
  return c_session(session);
}

/// A scorer that counts its calls and destructions. Scores are those of the shown attention.
struct counting_scorer {
  std::atomic<std::size_t> calls = 0, destroyed = 0;

  lazyprune_registry* registry() {
    lazyprune_registry* made = nullptr;
    must_work(lazyprune_registry_create(&made));
    lazyprune_scorer scorer = LAZYPRUNE_SCORER;
    scorer.wants = LAZYPRUNE_ATTENTION;
    scorer.user = this;
    scorer.score = [](void* user, const lazyprune_shown* shown, float* scores) -> std::int32_t {
      ++static_cast<counting_scorer*>(user)->calls;
      std::copy_n(shown->evidence->data, shown->active, scores);
      return LAZYPRUNE_OK;
    };
    scorer.destroy = [](void* user) { ++static_cast<counting_scorer*>(user)->destroyed; };
    must_work(lazyprune_registry_add_scorer(made, "mine", &scorer));
    return made;
  }
};

/// Runs random steps, clones and truncations of C sessions. Returns a number that depends on everything that the library returned.
std::uint64_t c_history(const lazyprune_registry* registry, unsigned seed) {
  constexpr std::array policies{"lazyllm --stages 2:0.5,4:0.5 --scorer mine", "lazyllm --stages 1:0.4", "dense",
                                "lazyllm --stages 3:0.5 --scorer mine --store bounded:rows=9", "streaming"};
  std::mt19937 random(seed);
  std::uint64_t sum = 0;
  const auto add = [&sum](std::uint64_t number) { sum = lazyprune::mix(sum, number); };
  std::vector<c_session> sessions;
  std::vector<float> probabilities;
  for (int action = 0; action < 60; ++action) {
    if (sessions.size() < 3) sessions.push_back(make_c_session(registry, policies[random() % policies.size()]));
    c_session& session = sessions[random() % sessions.size()];
    lazyprune_session_state state = LAZYPRUNE_SESSION_STATE;
    must_work(lazyprune_session_get_state(session.get(), &state));
    switch (random() % 6) {
      case 0: {
        lazyprune_session* other = nullptr;
        must_work(lazyprune_session_clone(session.get(), &other));
        session.reset(other);
        continue;
      }
      case 1:
        must_work(lazyprune_session_truncate(session.get(), state.known > 150 ? 10 : state.known - state.known / 4));
        continue;
      case 2: {  // the message belongs to this thread
        const std::string policy = "lazyllm --scorer unknown_" + std::to_string(seed);
        lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
        options.layers = c_layers;
        lazyprune_session* none = nullptr;
        const lazyprune_status status = lazyprune_session_create(registry, policy.c_str(), &options, &none);
        if (std::string(status.message).find("unknown_" + std::to_string(seed)) == std::string::npos)
          throw std::runtime_error(status.message);
        continue;
      }
      default:
        break;
    }
    lazyprune_request request = LAZYPRUNE_REQUEST;
    request.tokens = 1 + random() % 12;
    request.outputs = random() % 2;
    std::uint32_t layers = 0;
    must_work(lazyprune_step_begin(session.get(), &request, &layers));
    for (std::uint32_t l = 0; l < layers; ++l) {
      lazyprune_plan plan = LAZYPRUNE_PLAN;
      must_work(lazyprune_step_enter(session.get(), l, &plan));
      for (std::size_t i = 0; i < plan.active_count; ++i) add(plan.active[i]);
      for (std::size_t i = 0; i < plan.rows_count; ++i) add(std::uint64_t{plan.sources[i].origin} << 32 | plan.sources[i].index);
      probabilities.resize(plan.active_count);
      for (float& p : probabilities) p = static_cast<float>(random() % 1000) / 1000;
      lazyprune_evidence evidence = LAZYPRUNE_EVIDENCE;
      evidence.kind = plan.wants;
      evidence.data = probabilities.data();
      evidence.data_count = evidence.stride = probabilities.size();
      evidence.heads = 1;
      lazyprune_spills spills = LAZYPRUNE_SPILLS;
      must_work(lazyprune_step_leave(session.get(), plan.wants == LAZYPRUNE_NOTHING ? nullptr : &evidence, &spills));
      for (std::size_t i = 0; i < spills.count; ++i) add(std::uint64_t{spills.items[i].row} << 32 | spills.items[i].slot);
      add(std::bit_cast<std::uint32_t>(spills.margin));
    }
    must_work(lazyprune_step_finish(session.get()));
  }
  return sum;
}

}  // namespace

TEST_CASE("threads share a registry of the C library: each thread's sessions plan as they do alone, and hear their own errors") {
  constexpr unsigned threads_of_c = 8, rounds = 4;
  counting_scorer counting;
  std::vector<std::uint64_t> alone;
  lazyprune_registry* registry = counting.registry();
  for (unsigned i = 0; i < threads_of_c * rounds; ++i) alone.push_back(c_history(registry, i));
  const std::size_t calls = counting.calls;
  CHECK(calls > 0);
  std::vector<std::size_t> differences(threads_of_c);
  lazyprune_test::on_threads(threads_of_c, [&](std::size_t i) {
    for (unsigned round = 0; round < rounds; ++round) {
      const unsigned seed = static_cast<unsigned>(i) * rounds + round;
      differences[i] += c_history(registry, seed) != alone[seed];
    }
  });
  for (const std::size_t count : differences) CHECK(count == 0);
  CHECK(counting.calls == 2 * calls);
  CHECK(counting.destroyed == 0);
  lazyprune_registry_free(registry);
  CHECK(counting.destroyed == 1);
}

TEST_CASE("threads free the last sessions of a registry's callback, which is destroyed once") {
  counting_scorer counting;
  for (std::size_t round = 0; round < 20; ++round) {
    lazyprune_registry* registry = counting.registry();
    std::vector<c_session> sessions;
    for (int i = 0; i < 4; ++i) sessions.push_back(make_c_session(registry, "lazyllm --stages 2:0.5 --scorer mine"));
    lazyprune_test::on_threads(5, [&](std::size_t i) {
      if (i < sessions.size())
        sessions[i].reset();
      else
        lazyprune_registry_free(registry);
    });
    CHECK(counting.destroyed == round + 1);
  }
}
