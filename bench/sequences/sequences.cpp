// SPDX-License-Identifier: MIT
// Measures the cost of many sequences, in three comparisons. A batch of 16 decoding sequences is compared with 16 separate steps, a prompt
// in chunks with a prompt in one step, and a fork with the keys and values that it does not copy. In the first two comparisons, the two
// sides run in turn, take turns to go first, and must give the same bits. There `ratio` compares the shortest times, because other work on
// the machine only adds time.
#include <benchmark/benchmark.h>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/random_source.hpp>
#include <lazyprune/model/transformer.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <optional>
#include <vector>

#ifdef __linux__
#include <unistd.h>
#endif

namespace {

using namespace lazyprune;

/// Keeps the shortest time of some work, in seconds.
class stopwatch {
 public:
  double least() const { return least_; }

  template <class Work>
  void time(Work&& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    least_ = std::min(least_, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

 private:
  double least_ = std::numeric_limits<double>::infinity();
};

/// Runs `one` and `other` as often as the benchmark asks. They take turns to go first.
template <class One, class Other>
void in_turn(benchmark::State& state, One&& one, Other&& other) {
  bool first = true;
  for (auto _ : state) {
    if (first) one();
    other();
    if (!first) one();
    first = !first;
  }
}

std::vector<token_id> made_up_tokens(const model_config& config, std::size_t count, std::uint64_t seed) {
  std::vector<token_id> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<token_id>(mix(seed, i) % config.vocabulary);
  return ids;
}

sequence<cpu> dense_sequence(const model<cpu>& m, std::size_t most) {
  return {m, any_session(dense(), {.layers = static_cast<layer_id>(m.config.layers), .max_tokens = most})};
}

/// 16 sequences of TinyLlama-1.1B's shape in bf16 decode one token each, after a prompt of their own. They do so in one batch, whose
/// products read the weights once, and in 16 separate steps. `ratio` is the time of the separate steps divided by the time of the batch.
void decoding_in_a_batch(benchmark::State& state) {
  constexpr std::size_t count = 16;
  const auto known = static_cast<std::size_t>(state.range(0));
  const model_config config = shape_named("tinyllama-1.1b");
  cpu backend({.threads = static_cast<int>(state.range(1)), .kv = dtype::bf16});
  const model<cpu> m = load_model(backend, config, random_source(config, dtype::bf16));
  workspace<cpu> work(m, backend);
  work.reserve(2 * known);

  std::vector<sequence<cpu>> texts;
  std::vector<std::vector<token_id>> prompts;
  std::vector<sequence_step<cpu>> steps;
  for (std::size_t i = 0; i < count; ++i) {
    texts.push_back(dense_sequence(m, known + 1));
    prompts.push_back(made_up_tokens(config, known + 1, i));
  }
  for (std::size_t i = 0; i < count; ++i) steps.push_back({texts[i], std::span(prompts[i]).first(known), phase::prefill, 0});
  if (!forward<cpu>(work, steps)) return state.SkipWithError("the prompts were not read");
  for (std::size_t i = 0; i < count; ++i) steps[i] = {texts[i], std::span(prompts[i]).last(1), phase::decode};

  const auto back = [&] {
    for (sequence<cpu>& text : texts) text.truncate(known);
  };
  std::vector<float> together, alone;
  stopwatch batch, single;
  const auto in_a_batch = [&] {
    back();
    batch.time([&] {
      if (!forward<cpu>(work, steps)) return;
      const auto logits = read_logits(work, 0, count);
      together.assign(logits.begin(), logits.end());
    });
  };
  const auto one_by_one = [&] {
    back();
    single.time([&] {
      alone.clear();
      for (const sequence_step<cpu>& step : steps) {
        const auto logits = forward(work, step.seq.get(), step.tokens, step.phase);
        alone.insert(alone.end(), logits.begin(), logits.end());
      }
    });
  };
  in_turn(state, in_a_batch, one_by_one);
  if (together.empty() || together != alone) return state.SkipWithError("the logits differ");
  state.counters["batch_ms"] = 1e3 * batch.least();
  state.counters["singles_ms"] = 1e3 * single.least();
  state.counters["ratio"] = single.least() / batch.least();
  state.counters["tokens_per_s"] = count / batch.least();
}

/// Four layers of TinyLlama-1.1B's shape in bf16 read a prompt of 2,048 tokens, in chunks of 512 and in one step. The last chunk has the
/// query and gives the logits. `ratio` is the time of the chunks divided by the time of the one step.
void reading_in_chunks(benchmark::State& state) {
  constexpr std::size_t prompt = 2048;
  const auto chunk = static_cast<std::size_t>(state.range(0));
  model_config config = shape_named("tinyllama-1.1b");
  config.layers = 4;
  cpu backend({.threads = static_cast<int>(state.range(1)), .kv = dtype::bf16});
  const model<cpu> m = load_model(backend, config, random_source(config, dtype::bf16));
  const std::vector<token_id> ids = made_up_tokens(config, prompt, 0);
  workspace<cpu> work(m, backend);
  sequence<cpu> text = dense_sequence(m, prompt);
  work.reserve(prompt);

  std::vector<float> of_chunks, of_one;
  stopwatch chunks, one;
  const auto in_chunks = [&] {
    text.clear();
    chunks.time([&] {
      std::span<const token_id> rest = ids;
      for (; rest.size() > chunk; rest = rest.subspan(chunk)) {
        const sequence_step<cpu> step{text, rest.first(chunk), phase::prefill, 0};
        if (!forward(work, std::span(&step, 1))) return;
      }
      const auto logits = forward(work, text, rest, phase::prefill);
      of_chunks.assign(logits.begin(), logits.end());
    });
  };
  const auto at_once = [&] {
    text.clear();
    one.time([&] {
      const auto logits = forward(work, text, ids, phase::prefill);
      of_one.assign(logits.begin(), logits.end());
    });
  };
  in_turn(state, in_chunks, at_once);
  if (of_one.empty() || of_chunks != of_one) return state.SkipWithError("the logits differ");
  state.counters["chunks_ms"] = 1e3 * chunks.least();
  state.counters["one_step_ms"] = 1e3 * one.least();
  state.counters["ratio"] = chunks.least() / one.least();
}

#ifdef __linux__
/// The bytes of this process that are in memory.
std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// Forks a sequence of 2,000 tokens with the layers, heads and keys of Llama-2-7B, in bf16. The residual stream and feed-forward are narrow
/// to save time, because a fork copies nothing of their width. `ratio` is the memory that a fork adds, divided by the size of the keys and
/// values of the sequence. The first step after a fork copies one block of keys and values per layer. `first_step_MiB` is the memory that
/// this step adds.
void forking(benchmark::State& state) {
  constexpr std::size_t known = 2000, forks = 16;
  model_config config = shape_named("llama-2-7b");
  config.hidden = config.ffn = config.vocabulary = 64;
  cpu backend({.threads = 0, .kv = dtype::bf16});
  const model<cpu> m = load_model(backend, config, random_source(config, dtype::bf16));
  workspace<cpu> work(m, backend);
  work.reserve(known + forks);
  const auto layers = static_cast<layer_id>(config.layers);
  sequence<cpu> text(m, state.range(0) ? any_session(lazyllm(stages{{9, 0.7}, {19, 0.7}, {28, 0.7}}), {.layers = layers})
                                       : any_session(dense(), {.layers = layers}));
  const std::vector<token_id> ids = made_up_tokens(config, known, 0);
  if (forward(work, text, ids, phase::prefill).empty()) return state.SkipWithError("the prompt was not read");

  stopwatch watch;
  std::optional<sequence<cpu>> copy;
  for (auto _ : state) {
    watch.time([&] { copy.emplace(text.fork()); });
    copy.reset();
  }
  std::vector<sequence<cpu>> copies;
  copies.reserve(forks);
  const std::size_t before = resident_bytes();
  while (copies.size() < forks) copies.push_back(text.fork());
  const std::size_t forked = resident_bytes();
  for (sequence<cpu>& c : copies) forward(work, c, std::span(ids).first(1), phase::decode);
  const std::size_t stepped = resident_bytes();

  constexpr double mib = 1 << 20;
  const double each = static_cast<double>(forked - before) / forks;
  state.counters["fork_us"] = 1e6 * watch.least();
  state.counters["kv_MiB"] = static_cast<double>(text.kv().bytes()) / mib;
  state.counters["fork_MiB"] = each / mib;
  state.counters["first_step_MiB"] = static_cast<double>(stepped - forked) / forks / mib;
  state.counters["ratio"] = each / static_cast<double>(text.kv().bytes());
}
BENCHMARK(forking)->ArgName("lazyllm")->Arg(0)->Arg(1)->Iterations(1000)->UseRealTime()->Unit(benchmark::kMicrosecond);
#endif

BENCHMARK(decoding_in_a_batch)
    ->ArgNames({"known", "threads"})
    ->ArgsProduct({{128}, {1, 2}})
    ->Iterations(7)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(reading_in_chunks)
    ->ArgNames({"chunk", "threads"})
    ->ArgsProduct({{512}, {1, 2}})
    ->Iterations(9)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
