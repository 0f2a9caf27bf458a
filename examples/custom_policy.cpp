// SPDX-License-Identifier: MIT
// Runs custom policies (my_policies.hpp) on the bundled model. Prints each policy's answer to a long prompt, and how many rows the
// policy computes.
//   custom_policy [MODEL_DIRECTORY]

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>
#include <lazyprune/registry/make_session.hpp>
#include <lazyprune/text/model_tokenizer.hpp>

#include <cstdio>
#include <utility>

#include "my_policies.hpp"

namespace {

/// Returns a text that says where three things are, among other sentences, and asks about one of the things.
std::string prompt() {
  std::string text = "read the document .";
  for (const char* fact : {"the sextant is in the theatres .", "the candle is in the temples .", "the bucket is in the railways ."}) {
    for (const char* filler : {" a distant bell did not change a careful plan .", " the old council arrived after the harvest .",
                               " a quiet crowd arrived after the price of bread .", " every neighbour arrived after a painted door . "})
      text += filler;
    text += fact;
  }
  return text + " question : where is the candle ? answer : the candle is in the";
}

}  // namespace

int main(int argc, char** argv) try {
  const lazyprune::checkpoint files(argc > 1 ? argv[1] : "examples/pocket/model");
  const lazyprune::tokenizer tokenizer = lazyprune::find_tokenizer(files).value();
  lazyprune::cpu backend;
  const auto model = load_model(backend, files);
  const auto layers = static_cast<lazyprune::layer_id>(model.config.layers);
  const auto ids = tokenizer.encode(prompt());

  lazyprune::workspace work(model, backend);
  const auto show = [&](const char* name, lazyprune::any_session session) {
    lazyprune::sequence seq(model, std::move(session));
    const auto run = generate(work, seq, ids, {.max_new = 1});
    std::printf("%-16s answers \"%s\", rows by layer:", name, tokenizer.decode(run.tokens).c_str());
    for (const std::size_t rows : run.cost.prefill_rows) std::printf(" %zu", rows);
    std::printf(", %zu of %zu in all\n", run.cost.rows, run.cost.dense_rows);
  };

  // A policy has four parts, and each of them may be your own.
  const lazyprune::policy composed{mine::loud_neighbours{}, mine::halve_every{.n = 2, .least = 16}, lazyprune::top_k{},
                                   lazyprune::keep_all{}};
  show("dense", lazyprune::any_session(lazyprune::dense(), {.layers = layers}));
  show("loud neighbours", lazyprune::any_session(composed, {.layers = layers}));

  // A part that has a name and describes its parameters can be chosen by text, like the library's parts.
  const lazyprune::policy_registry policies = mine::policies();
  const auto by_text = [&](const char* text) { return make_session(lazyprune::parse_policy(text), {.layers = layers}, policies); };
  show("by its text", by_text("custom --scorer loud_neighbours:carry=0.25 --schedule halve_every:n=2 --keep-first 4"));
  show("rare tokens", by_text("lazyllm --stages 3:0.5 --scorer rare_ids"));
  show("above the mean", by_text("lazyllm --stages 3:0.5 --selector above_mean:share=0.5 --store latest:rows=100"));
  show("the preset", by_text("mine --selector anchored:n=16"));
} catch (const lazyprune::error& fault) {
  std::fprintf(stderr, "custom_policy: %s\n", fault.what());
  return 1;
}
