// SPDX-License-Identifier: MIT
#include "engine/batch_run.hpp"

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>
#include <lazyprune/model/random_source.hpp>

#include <limits>

#include <doctest/doctest.h>

#include <fault.hpp>
#include "model/tiny_model.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;
using program::batch_run, program::run_batch;

namespace {

model_config tiny() {
  model_config c = lazyprune_test::tiny_config();
  c.max_positions = 64;
  return c;
}

std::vector<token_id> prompt_of(std::size_t size, token_id first) {
  std::vector<token_id> ids(size);
  for (std::size_t i = 0; i < size; ++i) ids[i] = static_cast<token_id>((first + 7 * i) % 40);
  return ids;
}

/// A model with several sessions, some dense and some pruned.
template <class Backend>
struct many {
  Backend backend{execution{}};
  model<Backend> net = load_model(backend, tiny(), random_source(tiny(), dtype::f32));
  workspace<Backend> work{net, backend};

  any_session session(std::size_t i) const {
    const session_options options{.layers = static_cast<layer_id>(net.config.layers)};
    return i % 2 == 0 ? any_session(lazyllm(stages{{1, 0.5}, {2, 0.5}}), options) : any_session(dense(), options);
  }

  batch_run together(const std::vector<std::vector<token_id>>& prompts, std::size_t steps) {
    std::vector<any_session> sessions;
    for (std::size_t i = 0; i < prompts.size(); ++i) sessions.push_back(session(i));
    return run_batch(work, std::move(sessions), prompts, steps);
  }

  generation alone(std::size_t i, const std::vector<token_id>& prompt, std::size_t steps) {
    sequence<Backend> text(net, session(i));
    generation_options options;
    options.max_new = steps + 1;
    options.ignore_eos = true;
    options.trace = true;
    return generate(work, text, prompt, options);
  }
};

}  // namespace

TEST_CASE_TEMPLATE("each sequence of a batch generates and computes the same as alone", Backend, reference<float>, cpu) {
  many<Backend> of;
  const std::vector<std::vector<token_id>> prompts{prompt_of(9, 1), prompt_of(5, 2), prompt_of(20, 3)};
  const batch_run batch = of.together(prompts, 4);
  REQUIRE(batch.tokens.size() == 3);
  std::size_t kv_bytes = 0, largest = 0;
  const std::size_t layers = of.net.config.layers;
  std::vector<layer_work> expected(4 * layers);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const generation alone = of.alone(i, prompts[i], 4);
    CHECK(batch.tokens[i] == alone.tokens);
    CHECK(batch.prefill_rows[i] == alone.cost.prefill_rows);
    for (std::size_t s = 0; s < 4; ++s)
      for (std::size_t l = 0; l < layers; ++l) {
        const layer_trace& layer = alone.trace[s + 1].layers[l];
        layer_work& work = expected[s * layers + l];
        work.rows += layer.rows.size();
        work.keys += layer.active.size();
        for (const position row : layer.rows) {
          if (l + 1 == layers && row != layer.rows.back()) continue;  // the last layer computes only the last row in full
          ++work.outputs;
          work.pairs += static_cast<std::size_t>(std::ranges::count_if(layer.active, [&](position t) { return t <= row; }));
        }
      }
    kv_bytes += alone.memory.kv;
    largest = std::max(largest, alone.memory.kv);
  }
  CHECK(batch.step_layers == expected);
  CHECK(batch.memory.kv == kv_bytes);  // keys and values only grow, so the peaks add up
  CHECK(batch.memory.kv > largest);
  CHECK(batch.memory.store > 0);
  CHECK(batch.memory.together <= batch.memory.kv + batch.memory.store);
  CHECK(batch.memory.together >= batch.memory.kv);
  CHECK(batch.prefill_seconds > 0);
  CHECK(batch.decode_seconds > 0);
  CHECK(batch.sections.attention > 0);
  CHECK(batch.sections.moving > 0);
  CHECK(batch.sections.logits > 0);
}

TEST_CASE("the work of a layer with a window is what its rows see") {
  model_config config = tiny();
  config.windows = {0, 3};
  const std::vector<position> active{0, 1, 4, 5, 6, 9}, rows{5, 9};
  program::work_watch watch(config);
  const auto step = [&](std::size_t sequences) {
    for (std::size_t i = 0; i < sequences; ++i) watch.step_begins({}, 1);
    for (layer_id l = 0; l < 2; ++l)
      for (std::size_t i = 0; i < sequences; ++i)
        watch.layer_begins({.layer = l, .active = active, .rows = rows, .sources = {}, .output_rows = l == 0 ? std::size_t{2} : 1});
  };
  step(1);
  step(3);
  const std::vector<layer_work> work = watch.take();
  REQUIRE(work.size() == 4);
  // Position 5 sees four tokens and position 9 sees six. In the window, position 9 sees only itself.
  CHECK(work[0] == layer_work{.rows = 2, .outputs = 2, .pairs = 4 + 6, .keys = 6});
  CHECK(work[1] == layer_work{.rows = 2, .outputs = 1, .pairs = 1, .keys = 1});
  CHECK(work[2] == layer_work{.rows = 6, .outputs = 6, .pairs = 30, .keys = 18});
  CHECK(work[3] == layer_work{.rows = 6, .outputs = 3, .pairs = 3, .keys = 3});
}

TEST_CASE("a batch of one sequence takes the same memory as the sequence alone") {
  many<reference<float>> of;
  const batch_run batch = of.together({prompt_of(12, 1)}, 3);
  const generation alone = of.alone(0, prompt_of(12, 1), 3);
  CHECK(batch.memory.kv == alone.memory.kv);
  CHECK(batch.memory.store == alone.memory.store);
  CHECK(batch.memory.together == alone.memory.together);
}

TEST_CASE("with 0 decode steps the prefill still generates one token") {
  many<reference<float>> of;
  const batch_run batch = of.together({prompt_of(3, 1), prompt_of(4, 1)}, 0);
  CHECK(batch.tokens[1].size() == 1);
  CHECK(batch.step_layers.empty());
  CHECK(batch.decode_seconds == 0);
}

TEST_CASE("logits that are not finite are an error") {
  many<reference<float>> of;
  tensor broken = random_source(tiny(), dtype::f32).get("model.norm.weight", 1, 16);
  std::vector<float> norm(16, std::numeric_limits<float>::quiet_NaN());
  broken.data = reinterpret_cast<const std::byte*>(norm.data());
  of.net.weights.norm = of.backend.load(std::span(&broken, 1));
  CHECK(error_of([&] { of.together({prompt_of(3, 1)}, 1); }) == at("model: step 0: logits"));
}
