// SPDX-License-Identifier: MIT
// Histories of sequences: random prompts, chunks, decode steps, batches, forks, truncations and saved sequences, under every policy. A seed
// decides everything in a history, so that it can run twice: alone, and while other threads run others.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/core/error.hpp>
#include <lazyprune/core/mix.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/transformer.hpp>
#include <lazyprune/registry/make_session.hpp>

#include <chunk_depths.hpp>
#include <model/saved_bytes.hpp>
#include <model/tiny_model.hpp>
#include <policies.hpp>

namespace lazyprune_test {

/// A session for the model of `shared_model`.
inline lazyprune::any_session session_of(std::string_view flags) {
  return make_session(lazyprune::parse_policy(flags), lazyprune::session_options{.layers = 8}, policies());
}

/// The histories of several threads share a model, and documents that were read in chunks. They begin with forks of the documents. The
/// documents are longer than a block of rows, so forks share whole blocks and copy those that they write.
struct shared_model {
  lazyprune::cpu backend{{.threads = 1}};
  lazyprune::model<lazyprune::cpu> net;
  std::vector<lazyprune::sequence<lazyprune::cpu>> documents{};

  shared_model() : net(tiny_model(backend, config())) {
    lazyprune::workspace<lazyprune::cpu> work(net, backend);
    for (const char* flags : {"lazyllm --stages 3:0.5,5:0.5", "dense", "lazyllm --stages 4:0.5 --scorer window_attention:window=5"}) {
      const auto tokens = some_tokens(90 + 20 * documents.size());
      documents.emplace_back(net, session_of(flags));
      (void)forward(work, lazyprune::sequence_step<lazyprune::cpu>{documents.back(), tokens, lazyprune::phase::prefill, 0});
    }
  }

  static lazyprune::model_config config() {
    lazyprune::model_config c = tiny_config(8);
    c.max_positions = 512;
    return c;
  }
};

/// How often the histories did what they are made of.
struct history_events {
  std::size_t prompts = 0, chunks = 0, decodes = 0, batches = 0, stops = 0, forks = 0, policies = 0, refused = 0, truncations = 0,
              saves = 0;

  history_events& operator+=(const history_events& other) {
    for (const auto member : all) this->*member += other.*member;
    return *this;
  }
  std::size_t fewest() const {
    std::size_t least = prompts;
    for (const auto member : all) least = std::min(least, this->*member);
    return least;
  }

 private:
  static constexpr std::array all{
      &history_events::prompts, &history_events::chunks,   &history_events::decodes, &history_events::batches,     &history_events::stops,
      &history_events::forks,   &history_events::policies, &history_events::refused, &history_events::truncations, &history_events::saves};
};

/// One history. It has a backend, a workspace and up to three sequences of its own.
class history {
 public:
  using backend_type = lazyprune::cpu;

  /// `threads`: those of the backend.
  history(const shared_model& with, std::uint32_t seed, int threads)
      : with_(with), random_(seed), backend_({.threads = threads}), work_(with.net, backend_) {}

  /// Runs some operations. Returns a number for each of them, which depends on every bit that the operation computed.
  std::vector<std::uint64_t> run(std::size_t operations) {
    std::vector<std::uint64_t> results;
    sequences_.push_back(fork_of_document());
    for (std::size_t i = 0; i < operations; ++i) {
      sum_ = 0;
      operation();
      results.push_back(sum_);
    }
    return results;
  }

  const history_events& seen() const { return seen_; }

 private:
  using sequence = lazyprune::sequence<backend_type>;
  using sequence_step = lazyprune::sequence_step<backend_type>;

  /// Stops a step before the layer after the first `layers_left`.
  struct stopper final : lazyprune::step_observer {
    std::size_t layers_left;
    explicit stopper(std::size_t layers) : layers_left(layers) {}
    bool stops() override { return layers_left == 0; }
    void layer_begins(const lazyprune::layer_plan&) override { --layers_left; }
  };

  std::size_t below(std::size_t n) { return random_() % n; }
  std::size_t any() { return below(sequences_.size()); }

  lazyprune::any_session any_policy() { return session_of(depths_of_chunks[below(std::size(depths_of_chunks))].flags); }

  std::vector<lazyprune::token_id> any_tokens(std::size_t count) {
    std::vector<lazyprune::token_id> tokens(count);
    for (lazyprune::token_id& t : tokens) t = static_cast<lazyprune::token_id>(below(with_.net.config.vocabulary));
    return tokens;
  }

  sequence fork_of_document() { return with_.documents[below(with_.documents.size())].fork(); }

  void operation() {
    sequence& one = sequences_[any()];
    const bool full = one.known() > 300;
    switch (full ? 9 : below(16)) {
      case 0:
      case 1:
        return put(one.fork(), seen_.forks);
      case 2:
        return put(fork_of_document(), seen_.forks);
      case 3:
        return fork_under_another_policy();
      case 4:
        return put(sequence(with_.net, any_policy()), seen_.policies);
      case 5:
        return save_and_load(one);
      case 6:
        return step_together();
      case 7:
        return stop_a_step(one);
      case 8:
        return step({one, any_tokens(1 + below(40)), lazyprune::phase::prefill, 0}, seen_.chunks);
      case 9:
      case 10:
        return truncate(one, full ? below(100) : one.known() - std::min(one.known(), below(40)));
      case 11:
      case 12:
        return step({one, any_tokens(1), lazyprune::phase::decode, 1}, seen_.decodes);
      default:
        return read_prompt(one);
    }
  }

  void read_prompt(sequence& one) {
    const std::size_t tokens = 1 + below(40);
    step({one, any_tokens(tokens), lazyprune::phase::prefill, below(3) ? 1 : 1 + below(tokens)}, seen_.prompts);
  }

  /// A step, and its tokens.
  struct asked {
    sequence& who;
    std::vector<lazyprune::token_id> tokens;
    lazyprune::phase when;
    std::size_t outputs;
    sequence_step step() const { return {who, tokens, when, outputs}; }
  };

  void step(const asked& a, std::size_t& count) {
    (void)forward(work_, a.step());
    for (std::size_t i = 0; i < a.outputs; ++i) add(read_logits(work_, i));
    add(a.who);
    ++count;
  }

  void step_together() {
    std::vector<asked> all;
    for (sequence& each : sequences_)
      if (each.known() <= 300) {
        const std::size_t tokens = 1 + below(12);
        all.push_back({each, any_tokens(tokens), below(2) ? lazyprune::phase::prefill : lazyprune::phase::decode, below(tokens + 1)});
      }
    std::vector<sequence_step> steps;
    std::size_t outputs = 0;
    for (const asked& a : all) {
      steps.push_back(a.step());
      outputs += a.outputs;
    }
    if (steps.empty()) return;
    (void)forward(work_, steps);
    for (std::size_t i = 0; i < outputs; ++i) add(read_logits(work_, i));
    for (const asked& a : all) add(a.who);
    seen_.batches += steps.size() > 1;
  }

  void stop_a_step(sequence& one) {
    stopper observer(below(8));
    const auto tokens = any_tokens(1 + below(9));
    add(forward(work_, sequence_step{one, tokens, lazyprune::phase::prefill, 1, &observer}));
    add(one);
    ++seen_.stops;
  }

  void fork_under_another_policy() {
    const sequence& from = below(2) ? sequences_[any()] : with_.documents[below(with_.documents.size())];
    try {
      put(from.fork(any_policy()), seen_.policies);
    } catch (const lazyprune::error& e) {
      add(e.what());
      ++seen_.refused;
    }
  }

  void save_and_load(sequence& one) {
    const std::string_view flags = depths_of_chunks[below(std::size(depths_of_chunks))].flags;
    sequence other(with_.net, session_of(flags));
    const auto tokens = any_tokens(5 + below(30));
    (void)forward(work_, sequence_step{other, tokens, lazyprune::phase::prefill, below(2)});
    std::string bytes;
    lazyprune::byte_writer to = writer_to(bytes);
    other.save(backend_, to);
    add(bytes);
    lazyprune::byte_reader from = reader_of(std::move(bytes));
    one = sequence::load(backend_, with_.net, session_of(flags), from);
    add(one);
    ++seen_.saves;
  }

  void truncate(sequence& one, std::size_t tokens) {
    one.truncate(tokens);
    add(one);
    ++seen_.truncations;
  }

  void put(sequence next, std::size_t& count) {
    add(next);
    if (sequences_.size() < 3)
      sequences_.push_back(std::move(next));
    else
      sequences_[any()] = std::move(next);
    ++count;
  }

  void add(std::uint64_t number) { sum_ = lazyprune::mix(sum_, number); }
  void add(std::span<const float> numbers) {
    for (const float number : numbers) add(std::uint64_t{std::bit_cast<std::uint32_t>(number)});
  }
  void add(std::string_view bytes) {
    for (const char byte : bytes) add(std::uint64_t{static_cast<unsigned char>(byte)});
  }
  void add(const sequence& seq) {
    const lazyprune::frontier_table& tokens = seq.session().tokens();
    for (lazyprune::position t = 0; t < seq.known(); ++t) {
      add(std::uint64_t{seq.tokens()[t]});
      add(std::uint64_t{tokens.frontier(t)});
      add(std::uint64_t{tokens.stored(t)} << 3 | std::uint64_t{tokens.waiting(t)} << 2 | std::uint64_t{tokens.lost(t)} << 1 |
          std::uint64_t{tokens.dropped_for_good(t)});
      add(std::uint64_t{std::bit_cast<std::uint32_t>(tokens.score(t))});
    }
    add(std::uint64_t{seq.session().stats().rows});
    add(std::uint64_t{seq.session().stats().revived});
  }

  const shared_model& with_;
  std::mt19937 random_;
  backend_type backend_;
  lazyprune::workspace<backend_type> work_;
  std::vector<sequence> sequences_{};
  history_events seen_{};
  std::uint64_t sum_ = 0;
};

}  // namespace lazyprune_test
