// SPDX-License-Identifier: MIT
// Pruning methods from the literature, composed of the parts in this folder. These functions do not know which layers of a model see only a
// window. A policy's text is checked for this, and its preset's stages move (registry/policy_parts.hpp).
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include <lazyprune/core/policy.hpp>
#include <lazyprune/policy/schedule/budget.hpp>
#include <lazyprune/policy/schedule/by_phase.hpp>
#include <lazyprune/policy/schedule/linear.hpp>
#include <lazyprune/policy/schedule/prompt_only.hpp>
#include <lazyprune/policy/schedule/stages.hpp>
#include <lazyprune/policy/scorer/last_query_attention.hpp>
#include <lazyprune/policy/scorer/random_score.hpp>
#include <lazyprune/policy/scorer/recency.hpp>
#include <lazyprune/policy/scorer/window_attention.hpp>
#include <lazyprune/policy/selector/blocks.hpp>
#include <lazyprune/policy/selector/protect.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include <lazyprune/policy/store/keep_all.hpp>
#include <lazyprune/policy/store/none.hpp>

namespace lazyprune {
inline namespace v0 {

/// The dense model: nothing is ever pruned, and the engine is asked for no evidence.
inline auto dense() { return policy{recency{}, stages{}, top_k{}, keep_all{}}; }

/// LazyLLM (arXiv 2407.14057): progressive pruning by the query token's attention. A pruned token can come back in any later step.
inline auto lazyllm(stages when) { return policy{last_query_attention{}, std::move(when), top_k{}, keep_all{}}; }

/// The schedule that the paper draws (Figure 4a), for a model with `layers` layers. After 30, 60 and 90 % of the layers, rounded down, 70 %
/// of the active tokens go on. There is no stage before the first layer, and at most one stage after each layer.
inline stages lazyllm_stages(layer_id layers) {
  std::vector<stage> list;
  for (const layer_id tenths : {3u, 6u, 9u}) {
    const auto after = static_cast<layer_id>(std::uint64_t{layers} * tenths / 10);
    if (after > 0 && (list.empty() || after > list.back().after)) list.push_back({after, 0.7});
  }
  return stages(std::move(list));
}

/// LazyLLM with the stages that the paper draws.
inline auto lazyllm(layer_id layers) { return lazyllm(lazyllm_stages(layers)); }

/// LazyLLM that keeps tokens in blocks of `size` positions. The tokens that later queries need are often near tokens that the query token
/// attends to. A block keeps both kinds. Under strong pruning this loses far less than keeping single tokens (bench/smollm2/README.md). The
/// paper has no blocks.
inline auto lazyllm_blocks(stages when, positive size = 32) {
  return policy{last_query_attention{}, std::move(when), blocks{size}, keep_all{}};
}

/// The paper's baseline of static token pruning (section 4): prunes only the prompt, by the query token's attention. Pruned tokens never
/// come back.
inline auto static_pruning(stages when) { return policy{last_query_attention{}, prompt_only{std::move(when)}, top_k{}, none{}}; }

/// The paper's baseline of random token drop (section 4): a random `share` of the prompt enters the model. The rest is lost.
inline auto random_drop(fraction share, std::uint64_t seed = 0) {
  return policy{random_score{seed}, prompt_only{stages{{0, share}}}, top_k{}, none{}};
}

/// Modelled on StreamingLLM (arXiv 2309.17453), which sees 4 + 1020 tokens. Each step sees the first `sinks` tokens and the `window` most
/// recent ones, the query token among them. Tokens that leave the window never come back. Two things differ from StreamingLLM. Here a token
/// keeps its position in the sequence; StreamingLLM uses the position in the cache. Here the middle of a long prompt is never computed;
/// StreamingLLM slides its window over the middle.
inline auto streaming_llm(std::size_t sinks = 4, positive window = 1020) {
  return policy{recency{}, budget({.after = 0, .tokens = sinks + window}), protect{top_k{}, sinks}, none{.for_good = true}};
}

/// Modelled on FastV (arXiv 2403.06764). In the prefill, a `share` of the tokens goes on after `after` layers, ranked by the last token's
/// attention. FastV's code ranks in the same way; its paper averages over all queries. Here any token may be dropped; FastV drops only
/// image tokens.
inline auto fastv(layer_id after = 2, fraction share = 0.5) { return static_pruning({{after, share}}); }

/// Modelled on PyramidDrop (arXiv 2410.17247). After every n layers a `share` of the remaining tokens goes on, where n is a quarter of the
/// layers, rounded up. In a model with 32 layers, the stages come after 8, 16 and 24 layers; with 5 layers, after 2 and 4. Here any token
/// may be dropped; PyramidDrop drops only image tokens. Here the attention of the layer just done ranks the tokens; PyramidDrop takes the
/// attention of the next layer.
inline auto pyramid_drop(layer_id layers, fraction share = 0.5) {
  std::vector<stage> list;
  const layer_id quarter = (layers + 3) / 4;
  for (layer_id after = quarter; after < layers; after += quarter) list.push_back({after, share});
  return static_pruning(stages(std::move(list)));
}

/// Modelled on TOVA (arXiv 2401.06104). While tokens are generated, at most `tokens` stay, ranked by the newest token's attention. The
/// others are lost. TOVA decides at every layer separately, and may drop the newest token itself. It also cuts the prompt's cache by the
/// attention of the prompt's last token. Here the attention of a single layer, the `after`-th one, decides for all layers. The layers up to
/// this one drop the same tokens from the next step on. Here the prefill prunes nothing, and the first decode step cuts the prompt's
/// tokens.
inline auto tova(layer_id after, positive tokens = 512) {
  return policy{last_query_attention{}, by_phase{stages{}, budget({.after = after, .tokens = tokens})}, top_k{}, none{.for_good = true}};
}

/// Modelled on PyramidKV (arXiv 2406.02069). In the prefill the layers' budgets fall linearly, here from all tokens to a `share` of them.
/// The attention of the last 8 queries, pooled over 7 tokens, scores the tokens. The last 8 tokens always stay. PyramidKV computes the
/// whole prompt, and cuts the cache of each layer and head separately. Here a layer computes only the tokens of its budget, and later
/// layers can choose only among these. The first layers therefore need large budgets.
inline auto pyramid_kv(fraction share = 0.1) {
  return policy{window_attention{.window = 8}, prompt_only{linear{.share = share}}, protect{top_k{}, 0, 8}, none{}};
}

/// Modelled on PromptDistill (arXiv 2503.23274) with one selection and truncated caches. In the prefill, `tokens` tokens go on after
/// `after` layers, ranked by the last token's attention. The keys and values of the others are dropped in the earlier layers as well.
/// PromptDistill's code takes scores from before the softmax and pools over 5 neighbours. Its code can also select several times, and is
/// then given several numbers of tokens. Here, use `stages` for several selections. Each stage has a share of the tokens, not a number.
inline auto prompt_distill(layer_id after, positive tokens = 1024) {
  return policy{last_query_attention{}, prompt_only{budget({.after = after, .tokens = tokens})}, top_k{}, none{.for_good = true}};
}

/// Calls `visit(name, what, make)` for each preset that has a name. `make(layers)` returns the policy for a model with `layers` layers.
/// `what` describes the preset in a few words, or is empty.
template <class Visitor>
void visit_presets(Visitor visit) {
  visit("lazyllm", "prunes the prompt and every step, and pruned tokens can come back", [](layer_id layers) { return lazyllm(layers); });
  visit("lazyllm_blocks", "lazyllm in blocks of 32 tokens", [](layer_id layers) { return lazyllm_blocks(lazyllm_stages(layers)); });
  visit("static", "prunes only the prompt, and pruned tokens are lost",
        [](layer_id layers) { return static_pruning(lazyllm_stages(layers)); });
  visit("random", "static, but drops random tokens before the first layer", [](layer_id) { return random_drop(0.7); });
  visit("streaming", "sees the first 4 tokens and the latest ones, 1,024 in all (budget:after=0,tokens=1024)",
        [](layer_id) { return streaming_llm(); });
  visit("fastv", "static, keeps half of the tokens after 2 layers",
        [](layer_id layers) { return layers > 2 ? fastv() : static_pruning({}); });
  visit("pyramid_drop", "static, keeps half of the remaining tokens after each quarter of the layers",
        [](layer_id layers) { return pyramid_drop(layers); });
  visit("tova", "keeps 512 tokens after half of the layers, only during generation",
        [](layer_id layers) { return tova(std::max(layers / 2, layer_id{1})); });
  visit("pyramid_kv", "static, keeps fewer tokens at each layer, down to a tenth", [](layer_id) { return pyramid_kv(); });
  visit("prompt_distill", "keeps 1,024 tokens of the prompt after two fifths of the layers",
        [](layer_id layers) { return prompt_distill(std::max(layers * 2 / 5, layer_id{1})); });
  visit("dense", "prunes nothing", [](layer_id) { return dense(); });
}

}  // namespace v0
}  // namespace lazyprune
