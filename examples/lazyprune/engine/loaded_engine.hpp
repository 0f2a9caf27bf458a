// SPDX-License-Identifier: MIT
// Implements `engine` for any backend. This header causes most of the program's compile time, so only the files that instantiate it for a
// backend include it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
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

  generation generate(std::span<const token_id> rest, const generation_options& options) override {
    sequence<Backend> answer = seq_.fork();
    generation result = lazyprune::generate(work(), answer, rest, options);
    const statistics& before = seq_.session().stats();
    result.cost.rows -= before.rows;
    std::ranges::transform(result.cost.prefill_rows, before.prefill_rows, result.cost.prefill_rows.begin(), std::minus());
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
    statistics& cost = result.cost;
    cost.steps -= before.steps;
    cost.rows -= before.rows;
    cost.dense_rows -= before.dense_rows;
    cost.revived -= before.revived;
    std::ranges::transform(cost.prefill_rows, before.prefill_rows, cost.prefill_rows.begin(), std::minus());
    std::ranges::transform(cost.prefill_dense_rows, before.prefill_dense_rows, cost.prefill_dense_rows.begin(), std::minus());
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
        cache_(cache_bytes, question_tokens),
        batch_(work_, {.question_tokens = cache_bytes > 0 ? question_tokens : 0,
                       .before_question = [this](const sequence<Backend>& seq) { keep(seq); }}) {}

  std::size_t add(any_session session, std::vector<token_id> prompt, generation_options options) override {
    sequence<Backend> seq = cache_.begin(net_, std::move(session), prompt, std::max(options.expected, prompt.size() + options.max_new));
    const beginning from{prompt.size(), seq.known(), seq.session().stats()};
    prompt.erase(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(from.cached));
    auto made = std::map<std::size_t, beginning>{{0, from}};
    auto node = made.extract(made.begin());  // so that nothing can fail after `add`
    node.key() = batch_.add(std::move(seq), std::move(prompt), std::move(options));
    return begun_.insert(std::move(node)).position->first;
  }
  void stop(std::size_t number) override { batch_.stop(number); }
  std::size_t generating() const override { return batch_.generating(); }
  std::size_t unread() const override { return batch_.unread(); }
  std::size_t cache_bytes() const override { return cache_.bytes(); }
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
      same = from.text(4096, "identity") == identity;
      if (same) cache_.load(backend_, net_, from);
    });
    return same;
  }
  std::vector<ended_answer> step(std::size_t prompt_tokens) override {
    std::vector<ended_answer> ended;
    for (ended_sequence<Backend>& each : batch_.step(prompt_tokens)) {
      const beginning from = begun_.extract(each.number).mapped();
      each.result.cost.rows -= from.cost.rows;
      each.result.cost.dense_rows -= from.cost.dense_rows;  // it may count tokens that this prompt does not share
      each.result.cost.dense_rows += from.cached * each.seq.session().layers();
      each.result.cost.steps -= from.cost.steps;
      if (each.seq.known() > from.cached)
        each.result.share_prompt = share_computed(each.seq.session().tokens(), 0, from.prompt, each.seq.session().layers());
      ended.push_back({each.number, std::move(each.result), from.cached, each.fault});
    }
    return ended;
  }

 private:
  static constexpr std::string_view cache_file = "lazyprune cache file";

  /// A prompt that is not short ends with a piece of this many tokens, so that the cache keeps what is before it.
  static constexpr std::size_t question_tokens = 64;

  struct beginning {
    std::size_t prompt, cached;  // tokens
    statistics cost;             // of the cached tokens
  };

  void keep(const sequence<Backend>& seq) {
    try {
      cache_.keep(seq);
    } catch (const std::bad_alloc&) {  // the answer does not need it
    }
  }

  const model<Backend>& net_;
  Backend backend_;
  workspace<Backend> work_;
  prefix_cache<Backend> cache_;
  continuous_batch<Backend> batch_;
  std::map<std::size_t, beginning> begun_;
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
  std::size_t kv_row_bytes() const override {
    const model_config& c = model_.config;
    return 2 * c.n_kv_heads * c.head_dim * sizeof(typename Backend::scalar);
  }
  void use_threads(int threads) override { how_.threads = threads; }
  int threads() const override { return Backend(how_).threads(); }
  std::optional<peak_rates> peaks() const override { return std::nullopt; }
  std::function<void()> waiting() const override { return {}; }

 protected:
  const execution& how() const { return how_; }
  /// The type of keys and values.
  dtype kv_type() const { return how_.kv.value_or(model_.kv_types().front()); }
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
