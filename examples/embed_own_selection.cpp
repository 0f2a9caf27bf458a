// SPDX-License-Identifier: MIT
// An engine that chooses tokens itself, as an engine on a GPU does. It reads a prompt without a stop between the layers: it queues the work
// of all layers, and reads the chosen tokens back once. Then it tells the session what it chose. The queue here is a list of functions. The
// hidden states are toy numbers. The same prompt is also read in the usual way, and both kinds of engine must keep the same tokens. If the
// counts of the next layers are not known, the engine stops after each selection, and then goes on.

#include <lazyprune/lazyprune.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <vector>

namespace {

constexpr lazyprune::layer_id layers = 8;
constexpr std::size_t prompt = 60;

/// The attention of the query token in one layer, after its mean over the heads. It depends on the token alone, so the example is short.
float attention(lazyprune::layer_id layer, lazyprune::position token) { return static_cast<float>((token * 37 + layer * 101) % 53) / 53; }

/// The device holds the tokens of the layer that runs, and the choices.
struct device {
  std::vector<std::function<void()>> queue;
  std::vector<lazyprune::position> tokens;                                                 // of the current layer
  std::vector<lazyprune::candidacy> standing = std::vector<lazyprune::candidacy>(prompt);  // by position
  std::vector<std::vector<std::uint32_t>> chosen = std::vector<std::vector<std::uint32_t>>(layers);
  std::vector<std::vector<float>> scores = std::vector<std::vector<float>>(layers);
  int stops = 0;

  /// Waits until all queued work is done.
  void synchronize() {
    for (const auto& work : queue) work();
    queue.clear();
    ++stops;
  }

  /// Queues a selection after a layer. On a GPU this is one kernel (backend/cuda/selection.cuh).
  void choose(lazyprune::layer_id layer, std::size_t count) {
    queue.emplace_back([this, layer, count] {
      scores[layer].clear();
      for (const lazyprune::position t : tokens) scores[layer].push_back(attention(layer, t));
      std::vector<std::uint32_t> order(tokens.size());
      std::iota(order.begin(), order.end(), 0u);
      const auto required = [&](std::uint32_t i) { return standing[tokens[i]] == lazyprune::candidacy::required; };
      std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
        if (required(a) != required(b)) return required(a);
        return scores[layer][a] != scores[layer][b] ? scores[layer][a] > scores[layer][b] : a > b;  // among equal scores the later token
      });
      order.resize(count);
      std::ranges::sort(order);
      std::vector<lazyprune::position> kept;
      for (const std::uint32_t i : order) kept.push_back(tokens[i]);
      tokens = kept;
      chosen[layer] = order;
    });
  }
};

/// Reads the prompt with as few stops as possible. Returns the tokens of the last layer.
std::vector<lazyprune::position> read_choosing(lazyprune::any_session& session) {
  device gpu;
  auto step = session.begin({.tokens = prompt});
  std::vector<lazyprune::layer_counts> counts(layers);
  std::size_t ahead = 0;
  for (lazyprune::layer_id layer = 0; layer < layers; ++layer) {
    const lazyprune::layer_plan& plan = step.enter(layer);
    std::vector<lazyprune::candidacy> standing(plan.active.size());
    const auto quota = step.quota(standing);
    if (!quota) {  // no selection follows this layer. If the session wants evidence here, `finish` throws
      step.leave();
      continue;
    }
    for (std::size_t i = 0; i < standing.size(); ++i) gpu.standing[plan.active[i]] = standing[i];
    // From here on only counts are known. Queue everything, then wait once.
    gpu.tokens.assign(plan.active.begin(), plan.active.end());
    const std::size_t known = step.counts(counts);  // the layers that can be queued ahead
    gpu.choose(layer, quota->count);
    for (std::size_t i = 0; i < known; ++i)
      if (counts[i].chooses) gpu.choose(counts[i].layer, counts[i].kept);
    gpu.synchronize();

    step.leave(lazyprune::chosen_tokens{gpu.chosen[layer], gpu.scores[layer]});
    for (std::size_t i = 0; i < known; ++i) {
      const lazyprune::layer_id next = counts[i].layer;
      (void)step.enter(next);
      if (counts[i].chooses)
        step.leave(lazyprune::chosen_tokens{gpu.chosen[next], gpu.scores[next]});
      else
        step.leave();
    }
    layer += static_cast<lazyprune::layer_id>(known);  // the plans of the other layers, if any are left, say how to go on
    ahead += known;
  }
  step.finish();  // throws if a choice was wrong
  std::printf("stops of the host: %d, layers queued ahead: %zu, rows computed: %zu\n", gpu.stops, ahead, session.stats().rows);
  return gpu.tokens;
}

/// Reads the prompt and shows evidence after each layer.
std::vector<lazyprune::position> read_with_evidence(lazyprune::any_session& session) {
  auto step = session.begin({.tokens = prompt});
  std::vector<lazyprune::position> active;
  for (lazyprune::layer_id layer = 0; layer < layers; ++layer) {
    const lazyprune::layer_plan& plan = step.enter(layer);
    active.assign(plan.active.begin(), plan.active.end());
    std::vector<float> scores;
    for (const lazyprune::position t : active) scores.push_back(attention(layer, t));
    step.leave(lazyprune::evidence(lazyprune::attention_view{scores.data(), 1, scores.size(), plan.active}));
  }
  step.finish();
  return active;
}

}  // namespace

int main() {
  const auto same = [](const auto& store) {
    const lazyprune::policy policy{lazyprune::last_query_attention{}, lazyprune::stages{{2, 0.7}, {4, 0.5}, {6, 0.5}}, lazyprune::top_k{},
                                   store};
    lazyprune::any_session choosing(policy, {.layers = layers}), shown(policy, {.layers = layers});
    return read_choosing(choosing) == read_with_evidence(shown) && choosing.state() == shown.state();
  };
  const bool all_same = same(lazyprune::keep_all{}) && same(lazyprune::bounded{10});  // what `bounded` stores depends on the scores
  std::puts(all_same ? "both engines kept the same tokens" : "the kept tokens differ");
  return all_same ? 0 : 1;
}
