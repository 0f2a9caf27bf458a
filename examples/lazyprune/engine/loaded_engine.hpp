// SPDX-License-Identifier: MIT
// Implements `engine` for any backend. This header causes most of the program's compile time, so only the files that instantiate it for a
// backend include it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/files/byte_file.hpp>
#include <lazyprune/model/continuous_batch.hpp>
#include <lazyprune/model/generator.hpp>
#include <lazyprune/model/prefix_cache.hpp>
#include <lazyprune/policy/presets.hpp>

#include "engine/batch_run.hpp"
#include "engine/engine.hpp"
#include "models/loading.hpp"

namespace lazyprune {
namespace program {

template <tensor_backend Backend>
class forked_beginning final : public prompt_prefix {
 public:
  forked_beginning(const model<Backend>& net, const execution& how, any_session session)
      : net_(net), how_(how), seq_(net, std::move(session)) {}

  bool read(std::span<const token_id> tokens, const generation_options& options) {
    seq_.expect(options.expected);
    return tokens.empty() || read_beginning(work(), seq_, tokens, options.chunk, options.observer);
  }

  std::size_t rows() const override { return seq_.session().stats().rows; }
  void release_scratch() override { scratch_.reset(); }

  generation generate(any_session session, std::span<const token_id> rest, const generation_options& options) override {
    sequence<Backend> answer = seq_.fork(std::move(session));
    generation result = lazyprune::generate(work(), answer, rest, options);
    const statistics whole = result.cost;
    result.cost = whole - seq_.session().stats();
    result.cost.dense_rows = whole.dense_rows;
    result.cost.prefill_dense_rows = whole.prefill_dense_rows;
    result.share_prompt = share_of_prompt(answer, rest);
    return result;
  }

  sequence<Backend> fork(any_session under) const { return seq_.fork(std::move(under)); }

  /// The share of the whole prompt (prefix and `rest`) that `answer` has computed.
  double share_of_prompt(const sequence<Backend>& answer, std::span<const token_id> rest) const {
    return share_computed(answer.session().tokens(), 0, seq_.known() + rest.size(), answer.session().layers());
  }

 private:
  struct scratch {
    Backend backend;
    workspace<Backend> work;
    scratch(const model<Backend>& net, const execution& how) : backend(how), work(net, backend) {}
  };

  workspace<Backend>& work() {
    if (!scratch_) scratch_.emplace(net_, how_);
    return scratch_->work;
  }

  const model<Backend>& net_;
  execution how_;
  std::optional<scratch> scratch_{};
  sequence<Backend> seq_;
};

template <tensor_backend Backend>
class growing_sequence final : public conversation {
 public:
  growing_sequence(const model<Backend>& net, const execution& how, any_session session)
      : backend_(how), work_(net, backend_), seq_(net, std::move(session)) {}

  std::span<const token_id> tokens() const override { return seq_.tokens(); }
  void truncate(std::size_t tokens) override { seq_.truncate(tokens); }

  generation go_on(std::span<const token_id> prompt, const generation_options& options) override {
    const statistics before = seq_.session().stats();
    generation result = lazyprune::generate(work_, seq_, prompt, options);
    result.cost = result.cost - before;
    return result;
  }

 private:
  Backend backend_;
  workspace<Backend> work_;
  sequence<Backend> seq_;
};

template <tensor_backend Backend>
class growing_batch final : public answer_batch {
 public:
  growing_batch(const model<Backend>& net, const execution& how, std::size_t cache_bytes)
      : net_(net),
        backend_(how),
        work_(net, backend_),
        cache_bytes_(cache_bytes),
        cache_(cache_bytes, question_tokens),
        batch_(work_, {.question_tokens = cache_bytes > 0 ? question_tokens : 0,
                       .before_question = [this](const sequence<Backend>& seq) { if_memory_allows([&] { cache_.keep(seq); }); }}) {}

  std::size_t add(any_session session, std::vector<token_id> prompt, generation_options options) override {
    sequence<Backend> seq = begin(std::move(session), prompt, options);
    return add(std::move(seq), {std::move(prompt), std::move(options)});
  }
  std::size_t add(any_session session, std::vector<token_id> prompt, generation_options options,
                  const continued_conversation& conversation) override {
    const auto kept = std::ranges::find_if(conversations_, [&](const kept_conversation& each) {
      return each.what.policy == conversation.policy && each.what.turns == conversation.turns &&
             each.seq.rope() == rope_kind_for(net_.config, expected_length(prompt, options)) &&
             std::ranges::mismatch(each.seq.tokens(), prompt).in1 == each.seq.tokens().end();
    });
    answer_in_batch answer{std::move(prompt), std::move(options), conversation};
    if (kept == conversations_.end()) {
      const std::size_t first = conversation.turns.empty() ? answer.prompt.size() : conversation.turns.front().prompt_end;
      sequence<Backend> seq = begin(std::move(session), std::span(answer.prompt).first(first), answer.options);
      return add(std::move(seq), std::move(answer));
    }
    conversations_.splice(conversations_.begin(), conversations_, kept);
    answer.played = conversation.turns.size();
    return add(kept->seq.fork(), std::move(answer));
  }
  std::size_t add_alternative(std::size_t number, any_session session, std::vector<token_id> prompt, generation_options options) override {
    sequence<Backend> seq = begin(std::move(session), prompt, options);
    return add(std::move(seq), {std::move(prompt), std::move(options)}, place_of(number));
  }
  void stop(std::size_t number) override {
    if (const auto in_batch = place_of(number)) batch_.stop(*in_batch);
  }
  std::size_t generating() const override { return batch_.generating(); }
  std::size_t unread() const override { return batch_.unread(); }
  std::size_t cache_bytes() const override { return cache_.bytes() + conversation_bytes_; }
  void save_cache(const std::filesystem::path& file, std::string_view identity) override {
    write_byte_file(file, [&](byte_writer& to) {
      to.text(cache_file);
      to.text(identity);
      cache_.save(backend_, to);
    });
  }
  bool load_cache(const std::filesystem::path& file, std::string_view identity) override {
    bool same = false;
    read_byte_file(file, [&](byte_reader& from) {
      if (from.text(64, "format") != cache_file) from.refuse("format", "a file of --cache-file", "another file");
      same = from.text(std::size_t{2} << 20, "identity") == identity;
      if (same) cache_.load(backend_, net_, from);
    });
    return same;
  }
  std::vector<ended_answer> step(std::size_t prompt_tokens) override {
    std::vector<ended_answer> ended;
    for (ended_sequence<Backend>& each : batch_.step(prompt_tokens)) {
      answer_in_batch answer = std::move(answers_.extract(each.number).mapped());
      if (answer.last_turn || each.fault || each.result.reason == finish_reason::stop) {
        ended.push_back(end(each, std::move(answer)));
        continue;
      }
      const std::size_t number = answer.number;
      try {
        play(std::move(each.seq), std::move(answer));
      } catch (...) {
        ended.push_back({number, {}, 0, std::current_exception()});
      }
    }
    return ended;
  }

 private:
  static constexpr std::string_view cache_file = "lazyprune cache file";

  /// A prompt that is not short ends with a piece of this many tokens, so that the cache keeps what is before it.
  static constexpr std::size_t question_tokens = 64;

  using clock = std::chrono::steady_clock;

  struct answer_in_batch {
    std::vector<token_id> prompt;  // of all turns
    generation_options options;
    std::optional<continued_conversation> conversation{};
    std::size_t played = 0;  // turns of the conversation that the sequence has
    std::size_t number = 0;  // what `add` returned
    std::size_t cached = 0;  // tokens that the sequence had at first
    statistics cost{};       // of the cached tokens
    typename clock::time_point added = clock::now();
    std::optional<typename clock::time_point> last_turn{};  // when the last turn began
  };

  struct kept_conversation {
    sequence<Backend> seq;
    continued_conversation what;
    std::size_t bytes;
  };

  sequence<Backend> begin(any_session session, std::span<const token_id> prompt, const generation_options& options) {
    return cache_.begin(net_, std::move(session), prompt, expected_length(prompt, options));
  }

  static std::size_t expected_length(std::span<const token_id> prompt, const generation_options& options) {
    return std::max(options.expected, prompt.size() + options.max_new);
  }

  /// The batch's number of an answer; nullopt if it has ended.
  std::optional<std::size_t> place_of(std::size_t number) const {
    const auto at = std::ranges::find_if(answers_, [&](const auto& each) { return each.second.number == number; });
    return at == answers_.end() ? std::nullopt : std::optional(at->first);
  }

  /// `reader`: the batch's number of an answer to the same prompt.
  std::size_t add(sequence<Backend> seq, answer_in_batch answer, std::optional<std::size_t> reader = {}) {
    answer.number = next_++;
    answer.cached = seq.known();
    answer.cost = seq.session().stats();
    return play(std::move(seq), std::move(answer), reader);
  }

  /// Adds the next turn to the batch: an earlier one with its answer as it is, or the last. Returns the answer's number.
  std::size_t play(sequence<Backend> seq, answer_in_batch answer, std::optional<std::size_t> reader = {}) {
    const bool last = !answer.conversation || answer.played == answer.conversation->turns.size();
    std::span<const token_id> prompt = answer.prompt;
    generation_options options;
    if (last) {
      options = answer.options;
      answer.last_turn = clock::now();
    } else {
      const earlier_turn& turn = answer.conversation->turns[answer.played++];
      // The last forced token is the one after the answer. The turn ends before it is read.
      options.force.assign(prompt.begin() + static_cast<std::ptrdiff_t>(turn.prompt_end),
                           prompt.begin() + static_cast<std::ptrdiff_t>(turn.answer_end) + 1);
      options.expected = answer.options.expected;
      prompt = prompt.first(turn.prompt_end);
    }
    prompt = prompt.subspan(seq.known());
    std::map<std::size_t, answer_in_batch> made;
    made.emplace(0, std::move(answer));
    auto node = made.extract(made.begin());  // so that nothing can fail after batch_.add
    std::vector<token_id> unread(prompt.begin(), prompt.end());
    node.key() = reader ? batch_.add_alternative(*reader, std::move(seq), std::move(unread), std::move(options))
                        : batch_.add(std::move(seq), std::move(unread), std::move(options));
    return answers_.insert(std::move(node)).position->second.number;
  }

  ended_answer end(ended_sequence<Backend>& each, answer_in_batch answer) {
    generation& result = each.result;
    if (answer.last_turn)
      result.prefill_seconds += std::chrono::duration<double>(*answer.last_turn - answer.added).count();
    else
      result.tokens.clear();  // it has ended in an earlier turn, whose tokens are not its own
    const layer_id layers = each.seq.session().layers();
    // Another answer may have read the whole prompt for this one. It may have begun with other cached tokens.
    const bool shared = each.shared != statistics{};
    result.cost = result.cost - answer.cost;
    if (shared) result.cost = result.cost - each.shared;
    result.cost.dense_rows += (shared ? answer.prompt.size() : answer.cached) * layers;
    if (each.seq.known() > answer.cached)
      result.share_prompt = share_computed(each.seq.session().tokens(), 0, answer.prompt.size(), layers);
    ended_answer ended{answer.number, std::move(result), answer.cached, each.fault};
    // The next request finds the end of an answer by its end token (earlier_turns), so answers without one are not kept.
    if (answer.conversation && !ended.fault && ended.result.reason == finish_reason::eos)
      if_memory_allows([&] { keep_conversation(std::move(each.seq), std::move(answer)); });
    return ended;
  }

  /// Calls keep(), and ignores std::bad_alloc, because no answer needs the kept memory.
  template <class Keep>
  static void if_memory_allows(const Keep& keep) {
    try {
      keep();
    } catch (const std::bad_alloc&) {
    }
  }

  /// Keeps the sequence of a conversation for its next turn. Drops the kept sequence that it continues. Conversations get at most half of
  /// the cache's memory.
  void keep_conversation(sequence<Backend> seq, answer_in_batch answer) {
    const std::size_t bytes = seq.bytes();
    const auto continued = [&](const kept_conversation& each) {
      const bool is = each.what.policy == answer.conversation->policy &&
                      std::ranges::mismatch(each.seq.tokens(), seq.tokens()).in1 == each.seq.tokens().end();
      if (is) conversation_bytes_ -= each.bytes;
      return is;
    };
    conversations_.remove_if(continued);
    if (bytes > cache_bytes_ / 2) return cache_.limit(cache_bytes_ - conversation_bytes_);  // it alone does not fit
    answer.conversation->turns.push_back({answer.prompt.size(), seq.known()});
    conversations_.push_front({std::move(seq), std::move(*answer.conversation), bytes});
    conversation_bytes_ += bytes;
    while (conversation_bytes_ > cache_bytes_ / 2) {
      conversation_bytes_ -= conversations_.back().bytes;
      conversations_.pop_back();
    }
    cache_.limit(cache_bytes_ - conversation_bytes_);
  }

  const model<Backend>& net_;
  Backend backend_;
  workspace<Backend> work_;
  std::size_t cache_bytes_, conversation_bytes_ = 0, next_ = 0;
  prefix_cache<Backend> cache_;
  std::list<kept_conversation> conversations_;  // the most recently used one first
  continuous_batch<Backend> batch_;
  std::map<std::size_t, answer_in_batch> answers_;  // by the numbers of batch_
};

/// Implements all functions as the reference backend needs them. The engines of cpu and cuda override those in which they differ.
template <tensor_backend Backend>
class loaded_engine : public engine {
 public:
  loaded_engine(execution how, const load_options& options, const weights_source& from) : how_(how), model_(load(how, options, from)) {}

  generation generate(any_session session, std::span<const token_id> prompt, const generation_options& options) override {
    Backend backend(how_);  // its own scratch: no run profits from the memory of an earlier one
    workspace<Backend> work(model_, backend);
    sequence<Backend> seq(model_, std::move(session));
    return lazyprune::generate(work, seq, prompt, options);
  }
  std::vector<generation> generate_alternatives(any_session session, std::span<const token_id> prompt,
                                                std::span<const generation_options> options) override {
    Backend backend(how_);
    workspace<Backend> work(model_, backend);
    sequence<Backend> seq(model_, std::move(session));
    return lazyprune::generate_alternatives(work, seq, prompt, options);
  }
  std::vector<generation> generate(std::vector<sequence_request> requests) override {
    Backend backend(how_);
    workspace<Backend> work(model_, backend);
    std::vector<sequence<Backend>> sequences;
    sequences.reserve(requests.size());
    std::vector<generation_request<Backend>> batch;
    const auto beginning_of = [](const sequence_request& r) { return static_cast<const forked_beginning<Backend>*>(r.after); };
    for (sequence_request& r : requests) {
      if (const auto* beginning = beginning_of(r))
        sequences.push_back(beginning->fork(std::move(r.session)));
      else
        sequences.emplace_back(model_, std::move(r.session));
      batch.push_back({sequences.back(), r.prompt, r.options});
    }
    std::vector<generation> results = lazyprune::generate(work, batch);
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (const auto* beginning = beginning_of(requests[i]))
        results[i].share_prompt = beginning->share_of_prompt(sequences[i], requests[i].prompt);
    return results;
  }
  std::unique_ptr<prompt_prefix> read(any_session session, std::span<const token_id> tokens, const generation_options& options) override {
    auto beginning = std::make_unique<forked_beginning<Backend>>(model_, how_, std::move(session));
    if (!beginning->read(tokens, options)) return nullptr;
    return beginning;
  }
  std::unique_ptr<conversation> begin(any_session session) override {
    return std::make_unique<growing_sequence<Backend>>(model_, how_, std::move(session));
  }
  std::unique_ptr<answer_batch> begin_batch(std::size_t cache_bytes) override {
    return std::make_unique<growing_batch<Backend>>(model_, how_, cache_bytes);
  }
  batch_run generate_together(std::vector<any_session> sessions, std::span<const std::vector<token_id>> prompts, std::size_t steps,
                              const std::function<void(step_section)>& wait) override {
    Backend backend(how_);
    workspace<Backend> work(model_, backend);
    return run_batch(work, std::move(sessions), prompts, steps, wait);
  }
  scored_prompt self_information(std::span<const token_id> prompt, std::size_t expected) override {
    Backend backend(how_);
    any_session session(dense(), {.layers = static_cast<layer_id>(model_.config.layers)});
    workspace<Backend> work(model_, backend);
    sequence<Backend> seq(model_, std::move(session));
    seq.expect(std::max(expected, prompt.size()));
    memory_watch memory;
    std::vector<double> information = lazyprune::self_information(work, seq, prompt, &memory);
    memory_use most = memory.most();
    most.scratch = work.bytes(prompt.size());
    return {std::move(information), most.total()};
  }
  const model_config& config() const override { return model_.config; }
  std::size_t weight_bytes() const override { return bytes_of(model_.weights); }
  std::size_t step_weight_bytes() const override {
    // A step reads only one row of the embedding, unless the embedding is also the head.
    return weight_bytes() - (model_.weights.head ? model_.weights.embedding.bytes() : 0);
  }
  std::size_t kv_token_bytes() const override {
    std::size_t bytes = 0;
    for (const dtype type : model_.kv_types()) bytes += kv_row_bytes_as(how_.kv.value_or(type));
    return bytes;
  }
  void use_threads(int threads) override { how_.threads = threads; }
  int threads() const override { return Backend(how_).threads(); }
  std::optional<peak_rates> peaks() const override { return std::nullopt; }
  std::function<void()> waiting() const override { return {}; }

 protected:
  const execution& how() const { return how_; }
  /// Bytes of the keys and values of one token in one layer, if they have this type.
  virtual std::size_t kv_row_bytes_as(dtype) const {
    const model_config& c = model_.config;
    return 2 * c.n_kv_heads * c.head_dim * sizeof(typename Backend::scalar);
  }
  /// The type of the weights in the products.
  dtype weight_type() const { return largest_matrix().type(); }
  const typename Backend::matrix& largest_matrix() const { return model_.weights.layers.front().gate_up; }

 private:
  static model<Backend> load(execution how, const load_options& options, const weights_source& from) {
    Backend backend(how);
    return load_weights(backend, from, options);
  }

  execution how_;
  model<Backend> model_;
};

}  // namespace program
}  // namespace lazyprune
