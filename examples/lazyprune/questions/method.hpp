// SPDX-License-Identifier: MIT
// The methods that sweep and fidelity compare. Each runs at a budget: the share of the dense model's prefill rows that it may compute.
//
//   dense         the model without pruning; it has no budget
//   lazyllm       LazyLLM (arXiv 2407.14057): stages after the given layers. All keep the same share, chosen to meet the budget
//   no_revival    lazyllm, but pruned tokens are lost. Shows what revival gains
//   dense_decode  lazyllm in the prefill; decode steps attend to all tokens. Shows what pruning in the decode steps costs or saves
//   static        the paper's static token pruning: prunes once, after one layer, by the query token's attention. Pruned tokens are lost
//   random        the paper's random token drop, before the first layer. Each sample has its own random draws
//   compression   the paper's prompt compression, after Selective Context (Li et al. 2023, arXiv 2310.06201). See
//                 lazyprune/eval/compression.hpp. A dense pass over the whole prompt scores the tokens of the context. The dense model then
//                 reads the instruction, the question, and the context's tokens with the most self-information. RULER's prompts are not
//                 divided into these parts, so the whole prompt is compressed. This method is not a policy: it changes the prompt and the
//                 positions of its tokens. Times include the first pass. Rows, shares computed and the budget do not
//   streaming     StreamingLLM (arXiv 2309.17453): the first 4 tokens and the most recent ones, together the budget's share
//   snapkv        after SnapKV (arXiv 2404.14469): the whole prompt is computed. Each decode step then attends to the budget's share of the
//                 tokens: those with the most attention from the end of the prompt. All heads, and all layers but the first, use the same
//                 tokens; SnapKV chooses for each head and layer. The time to first token is the dense model's
//   h2o           after H2O (arXiv 2306.14048): like snapkv, but keeps the last 32 tokens, and the tokens with the most accumulated
//                 attention. H2O gives half of its budget to each of these two kinds, and drops tokens for good. H2O accumulates the
//                 attention of all tokens of the prompt. Here only the prompt's last token and the generated tokens count; their attention
//                 is added up over all layers but the last
//   fastkv        after the token-selective propagation of FastKV (arXiv 2502.01068): prunes once, after one layer, by the attention of the
//                 last 8 queries, averaged over 7 neighbours. The last 8 tokens always stay; pruned tokens are lost. FastKV also
//                 compresses the KV cache of every layer
//   gemfilter     after GemFilter (arXiv 2409.17422): prunes once, after one layer, by the attention of the query token, averaged over 5
//                 neighbours. Pruned tokens are lost. GemFilter ranks by the products before the softmax, then starts again with the
//                 selected tokens at new positions. Here the early layers run once, and the selected tokens keep their hidden states
//   given         after SpecPrefill (arXiv 2502.02789): scores exist before the model starts. The best tokens enter the first layer at
//                 their own positions; the others are lost. SpecPrefill takes the scores from a small model. Here they are the attention of
//                 the prompt's last 8 queries, averaged over 7 neighbours, in layer LAYER of the model itself. A look finds
//                 them: a dense pass of LAYER layers over the prompt. Times, rows and the budget include the look
//
// NAME@LAYER names the layer after which a method prunes, NAME@LAYER+LAYER... several layers. A variant NAME[@LAYER...]=FLAGS is lazyllm
// with other flags, under its own name. The budget of a variant with its own stages is the share of rows that those stages compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {
class policy_registry;
struct model_layers;
}  // namespace v0

namespace program {

/// A method, and the layers after which it prunes.
struct pruning_method {
  std::string name;
  std::vector<layer_id> after{};       // how many layers come before each pruning; ascending; empty if the method takes no layers
  std::optional<policy_spec> flags{};  // set for a variant: the flags that differ from lazyllm's

  /// "lazyllm@3+5"
  std::string text() const;
  friend bool operator==(const pruning_method&, const pruning_method&) = default;
};

/// A method at a budget, ready to run on a sample.
struct eval_setting {
  std::string method;              // "lazyllm@3+5"
  std::optional<double> budget{};  // share of the dense prefill's rows; none: dense
  policy_spec policy{};
  double prompt_share = 1;  // the share of the prompt's tokens that the model reads; below 1 the prompt's context is compressed
  layer_id look = 0;        // layers of the look that finds the scores for the policy; 0: no look

  /// "lazyllm@3+5 0.6"
  std::string text() const;

  /// Describes the setting for a model of these layers: first the compression or the look if there is one, then the policy's flags. Throws
  /// `error` if the model has no attention scores after the layers of the look.
  std::string description(const model_layers& layers, const policy_registry& policies) const;
  friend bool operator==(const eval_setting&, const eval_setting&) = default;
};

/// The number of tokens at the prompt's beginning and end that every method keeps, compression included.
struct kept_tokens {
  std::size_t first = 0;
  std::size_t last = 0;
};

/// The flags that name the methods and budgets to compare.
struct method_flags {
  std::vector<std::string> names{};     // NAME[@LAYER...]
  std::vector<std::string> variants{};  // NAME[@LAYER...]=FLAGS
  std::vector<double> budgets{0.6, 0.75, 0.9};
};

/// A description of a method for readers who know only the paper.
struct method_note {
  std::string_view name, note;
};
std::vector<method_note> method_notes();

/// Reads NAME[@LAYER[+LAYER...]] for a model of `layers` layers. If the text names no layers, a method that takes several layers uses those
/// of the stages `recommended`. A method that takes one layer uses the first of them. Throws `error` if there is no such method, if the
/// text names more layers than the method takes, if the model has no such layer, or if no layers are named and none are recommended.
pruning_method read_method(std::string_view text, layer_id layers, const stages& recommended);

/// Reads NAME[@LAYER[+LAYER...]]=FLAGS, a variant of lazyllm. The layers are read as by `read_method`. Throws `error` if the name is
/// missing or is the name of a method, or if the flags are missing or wrong. The flags must not set the preset or the schedule. They may
/// set stages only if NAME has no @LAYER.
pruning_method read_variant(std::string_view text, layer_id layers, const stages& recommended);

/// Returns LazyLLM with one stage. Its name is single_stage@LAYER, which no method has. Its budget is the share of rows that the stage
/// computes, rounded to four digits after the point.
eval_setting one_stage(layer_id after, double share, layer_id layers);

/// Returns the method at a budget in (0, 1], for a model of `layers` layers. `budget` is ignored for dense and for a variant with its own
/// stages. Throws `error` if the layers before the first pruning already cost the budget or more.
eval_setting at_budget(const pruning_method& method, std::optional<double> budget, layer_id layers);

/// Returns the setting with at least these tokens kept. They count towards the budget.
eval_setting keeping(eval_setting setting, const kept_tokens& kept);

/// True if the method draws at random.
bool draws(const eval_setting& setting);

/// Returns the setting with another random seed; a setting without random draws is returned as it is. A seed draws the same positions in
/// every prompt, so give each sample its own seeds: then a mean over samples is also a mean over draws.
eval_setting with_seed(eval_setting setting, std::uint64_t seed);

/// Returns dense, then the named methods and variants at every budget, with these tokens kept. Equal settings appear once. Throws `error`
/// if a setting is not possible, or if two different settings have the same name.
std::vector<eval_setting> settings_of(const method_flags& flags, const kept_tokens& kept, layer_id layers, const stages& recommended);

}  // namespace program
}  // namespace lazyprune
