// SPDX-License-Identifier: MIT
// Pruning methods of the literature, as compositions of the policies in this folder.
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

/// The dense model: nothing is ever pruned, and no evidence is asked for.
inline auto dense() { return policy{recency{}, stages{}, top_k{}, keep_all{}}; }

/// LazyLLM (arXiv 2407.14057): progressive pruning by the query token's attention; pruned tokens can come back at every step.
inline auto lazyllm(stages when) { return policy{last_query_attention{}, std::move(when), top_k{}, keep_all{}}; }

/// The paper's drawn schedule (Figure 4a) for a model of so many layers: 70 % of the active tokens go on after 30, 60 and 90 % of the
/// layers, rounded down; none before the first layer and no layer twice.
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

/// LazyLLM that keeps tokens in blocks of `size` positions: around one that the query token attends to, those stay that later tokens will
/// want. Under hard stages far less is lost than token by token (bench/smollm2/README.md); not in the paper.
inline auto lazyllm_blocks(stages when, positive size = 32) {
  return policy{last_query_attention{}, std::move(when), blocks{size}, keep_all{}};
}

/// The paper's baseline of static token pruning (section 4): prunes the prompt by the same attention, and nothing comes back.
inline auto static_pruning(stages when) { return policy{last_query_attention{}, prompt_only{std::move(when)}, top_k{}, none{}}; }

/// The paper's baseline of random token drop (section 4): a random `share` of the prompt enters the model, the rest is lost.
inline auto random_drop(fraction share, std::uint64_t seed = 0) {
  return policy{random_score{seed}, prompt_only{stages{{0, share}}}, top_k{}, none{}};
}

/// After StreamingLLM (arXiv 2309.17453; 4 + 1020 tokens there): each step sees the first `sinks` tokens and the `window` most recent ones,
/// the query token among them. It differs in that positions stay those of the sequence, not of the cache, and that the middle of a long
/// prompt is never computed, where StreamingLLM slides its window over it. Whatever leaves the window has left for good.
inline auto streaming_llm(std::size_t sinks = 4, positive window = 1020) {
  return policy{recency{}, budget({.after = 0, .tokens = sinks + window}), protect{top_k{}, sinks}, none{.for_good = true}};
}

/// After FastV (arXiv 2403.06764): after `after` layers of the prompt a `share` of the tokens goes on, those that the last one attends to,
/// as in its code (in the paper, all tokens in the mean). It differs in that any token may go; FastV drops those of images and keeps all
/// text.
inline auto fastv(layer_id after = 2, fraction share = 0.5) { return static_pruning({{after, share}}); }

/// After PyramidDrop (arXiv 2410.17247): the same three times, after each quarter of the layers, rounded up, of what is left: after 8, 16
/// and 24 of 32. It, too, drops tokens of images alone, and ranks them by the attention of the layer to come; here of the one just done.
inline auto pyramid_drop(layer_id layers, fraction share = 0.5) {
  std::vector<stage> list;
  const layer_id quarter = (layers + 3) / 4;
  for (layer_id after = quarter; after < layers; after += quarter) list.push_back({after, share});
  return static_pruning(stages(std::move(list)));
}

/// After TOVA (arXiv 2401.06104): while text is generated no more than `tokens` stay, those that the newest one attends to; the others are
/// lost. TOVA decides at every layer, each for itself, may drop the newest itself, and cuts the prompt's cache by the prompt's last token;
/// here the attention `after` so many layers decides for all, from the next step on for those before it, too, and the first token after
/// the prompt is the first to decide.
inline auto tova(layer_id after, positive tokens = 512) {
  return policy{last_query_attention{}, by_phase{stages{}, budget({.after = after, .tokens = tokens})}, top_k{}, none{.for_good = true}};
}

/// After PyramidKV (arXiv 2406.02069): budgets that fall in a line over the layers of the prompt, here from all tokens to a `share`; the
/// last 8 queries score, pooled over 7 neighbours, and stay themselves. PyramidKV computes the whole prompt and cuts each layer's cache
/// for itself, each head's apart; here a layer computes no more than its budget, out of what the one below it kept, so that the first
/// layers' budgets cannot be small.
inline auto pyramid_kv(fraction share = 0.1) {
  return policy{window_attention{.window = 8}, prompt_only{linear{.share = share}}, protect{top_k{}, 0, 8}, none{}};
}

/// After PromptDistill (arXiv 2503.23274), one selection with its caches truncated: after `after` layers of the prompt the `tokens` go on
/// that the last one attends to, and the others' keys and values below leave with them. Its code scores before the softmax and pools over 5
/// neighbours; several selections are counts there, where `stages` are shares.
inline auto prompt_distill(layer_id after, positive tokens = 1024) {
  return policy{last_query_attention{}, prompt_only{budget({.after = after, .tokens = tokens})}, top_k{}, none{.for_good = true}};
}

/// Calls `visit(name, what, make)` for each preset that has a name: `make(layers)` is the policy for a model of so many layers, and `what`
/// says in half a sentence what it does.
template <class Visitor>
void visit_presets(Visitor visit) {
  visit("lazyllm", "", [](layer_id layers) { return lazyllm(layers); });
  visit("lazyllm_blocks", "the same in blocks of 32 tokens", [](layer_id layers) { return lazyllm_blocks(lazyllm_stages(layers)); });
  visit("static", "what the stages drop is lost, and only the prompt is pruned",
        [](layer_id layers) { return static_pruning(lazyllm_stages(layers)); });
  visit("random", "as static, before the first layer and drawn", [](layer_id) { return random_drop(0.7); });
  visit("streaming", "the first 4 tokens and the latest, 1,024 in all (budget:after=0,tokens=1024)",
        [](layer_id) { return streaming_llm(); });
  visit("fastv", "static, half of the tokens after 2 layers", [](layer_id layers) { return layers > 2 ? fastv() : static_pruning({}); });
  visit("pyramid_drop", "static, half of what is left after each quarter of the layers",
        [](layer_id layers) { return pyramid_drop(layers); });
  visit("tova", "512 tokens after half of the layers, while tokens are generated",
        [](layer_id layers) { return tova(std::max(layers / 2, layer_id{1})); });
  visit("pyramid_kv", "static, fewer at each layer, down to a tenth", [](layer_id) { return pyramid_kv(); });
  visit("prompt_distill", "1,024 tokens of the prompt after two fifths of the layers",
        [](layer_id layers) { return prompt_distill(std::max(layers * 2 / 5, layer_id{1})); });
  visit("dense", "", [](layer_id) { return dense(); });
}

}  // namespace v0
}  // namespace lazyprune
