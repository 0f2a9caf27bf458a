// SPDX-License-Identifier: MIT
// A scorer and a schedule of one's own, on the bundled model: what they keep of a long prompt, and whether the answer survives it.
//   custom_policy [MODEL_DIRECTORY]

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/io/checkpoint.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>
#include <lazyprune/registry/make_session.hpp>
#include <lazyprune/registry/shipped_policies.hpp>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

namespace {

/// A token matters if any head looks at it hard, or if the one before it does: answers tend to follow what is found.
struct loud_neighbours {
  static constexpr std::string_view name = "loud_neighbours";
  float carry = 0.5f;

  void score(const lazyprune::attention_view& attention, std::span<float> out) const {
    std::ranges::fill(out, 0.0f);
    for (std::size_t h = 0; h < attention.heads; ++h)
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::max(out[i], attention(h, i));
    for (std::size_t i = out.size(); i-- > 1;) out[i] = std::max(out[i], carry * out[i - 1]);
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("carry", carry);
  }
};
static_assert(lazyprune::importance_scorer<loud_neighbours>);

/// Half of the tokens go on after every `n` layers, but never fewer than `least`.
struct halve_every {
  static constexpr std::string_view name = "halve_every";
  lazyprune::positive n = 1;
  std::size_t least = 1;

  std::size_t keep(const lazyprune::layer_context& c) const {
    return c.done % n == 0 ? std::max((c.active + 1) / 2, least) : lazyprune::everything;
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit(lazyprune::required("n"), n, lazyprune::layer_range{.least = 1});
    visit("least", least);
  }
};
static_assert(lazyprune::layer_schedule<halve_every>);

/// The text says where things are, among sentences that do not matter, and asks about one of them.
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
  const lazyprune::tokenizer tokenizer = files.load_tokenizer().value();
  lazyprune::cpu backend;
  const auto model = load_model(backend, files);
  const auto layers = static_cast<lazyprune::layer_id>(model.config.layers);
  const auto ids = tokenizer.encode(prompt());

  lazyprune::workspace work(model, backend);
  const auto show = [&](const char* name, lazyprune::any_session session) {
    lazyprune::sequence text(model, std::move(session));
    const auto run = generate(work, text, ids, {.max_new = 1});
    std::printf("%-16s answers \"%s\", rows by layer:", name, tokenizer.decode(run.tokens).c_str());
    for (const std::size_t rows : run.cost.prefill_rows) std::printf(" %zu", rows);
    std::printf(", %zu of %zu in all\n", run.cost.rows, run.cost.dense_rows);
  };
  const lazyprune::policy mine{loud_neighbours{}, halve_every{.n = 2, .least = 16}, lazyprune::top_k{}, lazyprune::keep_all{}};
  show("dense", lazyprune::any_session(lazyprune::dense(), {.layers = layers}));
  show("loud neighbours", lazyprune::any_session(mine, {.layers = layers}));

  lazyprune::policy_registry policies = lazyprune::shipped_policies();
  policies.add<loud_neighbours, halve_every>();
  const auto text = lazyprune::parse_policy("--scorer loud_neighbours:carry=0.25 --schedule halve_every:n=2 --keep-first 4");
  show("by its text", make_session(text, {.layers = layers}, policies));
} catch (const lazyprune::error& fault) {
  std::fprintf(stderr, "custom_policy: %s\n", fault.what());
  return 1;
}
