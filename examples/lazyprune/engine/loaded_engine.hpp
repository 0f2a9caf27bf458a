// SPDX-License-Identifier: MIT
// An engine out of any backend. Only the file that makes a backend into an engine includes this: most of the program's compile time is
// here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <lazyprune/model/generator.hpp>
#include <lazyprune/policy/presets.hpp>

#include "engine/batch_run.hpp"
#include "engine/engine.hpp"
#include "models/loading.hpp"

namespace lazyprune {
namespace program {

template <tensor_backend Backend>
class forked_beginning final : public text_beginning {
 public:
  forked_beginning(const model<Backend>& net, const execution& how, any_session session)
      : net_(net), how_(how), text_(net, std::move(session)) {}

  bool read(std::span<const token_id> tokens, const generation_options& options) {
    text_.expect(options.expected);
    return tokens.empty() || read_beginning(work(), text_, tokens, options.chunk, options.observer);
  }

  std::size_t rows() const override { return text_.session().stats().rows; }
  void release_scratch() override { scratch_.reset(); }

  generation generate(std::span<const token_id> rest, const generation_options& options) override {
    sequence<Backend> answer = text_.fork();
    generation result = lazyprune::generate(work(), answer, rest, options);
    const statistics& before = text_.session().stats();
    result.cost.rows -= before.rows;
    std::ranges::transform(result.cost.prefill_rows, before.prefill_rows, result.cost.prefill_rows.begin(), std::minus());
    result.share_prompt = share_of_prompt(answer, rest);
    return result;
  }

  sequence<Backend> fork(any_session under) const { return text_.fork(std::move(under)); }

  /// Of the whole prompt.
  double share_of_prompt(const sequence<Backend>& answer, std::span<const token_id> rest) const {
    return share_computed(answer.session().tokens(), 0, text_.known() + rest.size(), answer.session().layers());
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
  sequence<Backend> text_;
};

template <tensor_backend Backend>
class growing_text final : public conversation {
 public:
  growing_text(const model<Backend>& net, const execution& how, any_session session)
      : backend_(how), work_(net, backend_), text_(net, std::move(session)) {}

  std::span<const token_id> tokens() const override { return text_.tokens(); }
  void truncate(std::size_t tokens) override { text_.truncate(tokens); }

  generation go_on(std::span<const token_id> prompt, const generation_options& options) override {
    const statistics before = text_.session().stats();
    generation result = lazyprune::generate(work_, text_, prompt, options);
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
  sequence<Backend> text_;
};

/// What is a backend's own to say is overridden where it is made into an engine.
template <tensor_backend Backend>
class loaded_engine : public engine {
 public:
  loaded_engine(execution how, const load_options& options, const weights_source& from) : how_(how), model_(load(how, options, from)) {}

  generation generate(any_session session, std::span<const token_id> prompt, const generation_options& options) override {
    Backend backend(how_);  // its own scratch, so that no run gains by the memory of another
    workspace<Backend> work(model_, backend);
    sequence<Backend> text(model_, std::move(session));
    return lazyprune::generate(work, text, prompt, options);
  }
  std::vector<generation> generate_alternatives(any_session session, std::span<const token_id> prompt,
                                                std::span<const generation_options> options) override {
    Backend backend(how_);
    workspace<Backend> work(model_, backend);
    sequence<Backend> text(model_, std::move(session));
    return lazyprune::generate_alternatives(work, text, prompt, options);
  }
  std::vector<generation> generate(std::vector<text_request> requests) override {
    Backend backend(how_);
    workspace<Backend> work(model_, backend);
    std::vector<sequence<Backend>> texts;
    texts.reserve(requests.size());
    std::vector<generation_request<Backend>> batch;
    const auto beginning_of = [](const text_request& r) { return static_cast<const forked_beginning<Backend>*>(r.after); };
    for (text_request& r : requests) {
      if (const auto* beginning = beginning_of(r))
        texts.push_back(beginning->fork(std::move(r.session)));
      else
        texts.emplace_back(model_, std::move(r.session));
      batch.push_back({texts.back(), r.prompt, r.options});
    }
    std::vector<generation> results = lazyprune::generate(work, batch);
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (const auto* beginning = beginning_of(requests[i]))
        results[i].share_prompt = beginning->share_of_prompt(texts[i], requests[i].prompt);
    return results;
  }
  std::unique_ptr<text_beginning> read(any_session session, std::span<const token_id> tokens, const generation_options& options) override {
    auto beginning = std::make_unique<forked_beginning<Backend>>(model_, how_, std::move(session));
    if (!beginning->read(tokens, options)) return nullptr;
    return beginning;
  }
  std::unique_ptr<conversation> begin(any_session session) override {
    return std::make_unique<growing_text<Backend>>(model_, how_, std::move(session));
  }
  batch_run generate_together(std::vector<any_session> sessions, std::span<const std::vector<token_id>> prompts, std::size_t steps,
                              const std::function<void()>& wait) override {
    Backend backend(how_);
    workspace<Backend> work(model_, backend);
    return run_batch(work, std::move(sessions), prompts, steps, wait);
  }
  scored_prompt self_information(std::span<const token_id> prompt, std::size_t expected) override {
    Backend backend(how_);
    any_session session(dense(), {.layers = static_cast<layer_id>(model_.config.layers)});
    workspace<Backend> work(model_, backend);
    sequence<Backend> text(model_, std::move(session));
    text.expect(std::max(expected, prompt.size()));
    memory_watch memory;
    std::vector<double> information = lazyprune::self_information(work, text, prompt, &memory);
    memory_use most = memory.most();
    most.scratch = work.bytes(prompt.size());
    return {std::move(information), most.total()};
  }
  const model_config& config() const override { return model_.config; }
  std::size_t weight_bytes() const override { return bytes_of(model_.weights); }
  std::size_t step_weight_bytes() const override {
    return weight_bytes() - (model_.weights.head ? model_.weights.embedding.bytes() : 0);  // of which a step reads one row
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
  /// Of the products.
  dtype weight_type() const { return model_.weights.layers.front().q.type(); }

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
