// SPDX-License-Identifier: MIT
// The methods that sweep and fidelity compare, each at a budget: the share of the dense model's prefill rows that it may compute.
//
//   dense         the model as it is, which has no budget
//   lazyllm       LazyLLM (arXiv 2407.14057): stages after those layers with one common share, such that their rows are the budget
//   no_revival    the same, but what is pruned is lost: what revival brings
//   dense_decode  the same, but generated tokens see everything: what pruning their steps costs, or saves
//   static        the paper's static token pruning: once, after one layer, by the query token's attention; nothing comes back
//   random        the paper's random token drop, before the first layer; each sample has draws of its own
//   compression   the paper's prompt compression, after Selective Context (Li et al. 2023, arXiv 2310.06201;
//   lazyprune/eval/compression.hpp): the
//                 dense model reads the instruction, the question, and what told it most of the context between them (of RULER's prompts,
//                 which are not divided, what told it most of the whole). No composition of policies: it is the prompt that changes, and
//                 the tokens' positions with it, and what is left out is chosen by a dense pass over all of it, before the one that
//                 answers. Times include that pass; the rows and shares computed, by which budgets are kept, do not
//   streaming     StreamingLLM (arXiv 2309.17453): the first 4 tokens and the most recent ones, together the budget's share
//   snapkv        after SnapKV (arXiv 2404.14469): the whole prompt is computed, then each step sees the budget's share of the tokens,
//                 those that the end of the prompt attended to. All layers but the first, and all heads, see the same tokens; SnapKV
//                 chooses for each apart. The time to first token is the dense model's
//   h2o           after H2O (arXiv 2306.14048), likewise: the tokens with the most attention gathered, and the last 32, where H2O divides
//                 its budget equally between both, and lets go for good. Gathered is the attention of the prompt's last token, over the
//                 layers, and of each token generated; H2O gathers that of every token of the prompt
//   fastkv        after FastKV's propagation of selected tokens (arXiv 2502.01068): once, after one layer, by the attention of the last 8
//                 queries, the mean of 7 neighbours; these 8 always stay, and nothing comes back. FastKV compresses the cache of every
//                 layer as well
//   gemfilter     after GemFilter (arXiv 2409.17422): once, after one layer, by the query token's attention, the mean of 5 neighbours;
//                 nothing comes back. GemFilter ranks by products before the softmax, and then starts anew with the chosen tokens at new
//                 positions: here the early layers are not computed twice, and the chosen tokens keep what they saw there
//   given         after SpecPrefill (arXiv 2502.02789): scores are there before the model begins, the best tokens enter its first layer at
//                 their own positions, and nothing comes back. SpecPrefill takes the scores from a small model; here they are the attention
//                 of the prompt's last 8 queries, the mean of 7 neighbours, in the model's own layer LAYER, which a look of so many dense
//                 layers finds out. Times, rows and the budget include the look
//
// NAME@LAYER names the layer after which a method prunes, NAME@LAYER+LAYER... the layers of those that take several. A variant is lazyllm
// with other flags, under a name of its own: NAME[@LAYER...]=FLAGS. One with stages of its own has the budget that they come to.
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

/// A way to prune.
struct pruning_method {
  std::string name;
  std::vector<layer_id> after{};       // prunes when so many layers are done; ascending; empty where the name says all
  std::optional<policy_spec> flags{};  // of a variant: what it does otherwise than lazyllm

  /// "lazyllm@3+5"
  std::string text() const;
  friend bool operator==(const pruning_method&, const pruning_method&) = default;
};

/// What is run on a sample.
struct eval_setting {
  std::string method;              // "lazyllm@3+5"
  std::optional<double> budget{};  // of the dense prefill's rows; none: dense
  policy_spec policy{};
  double prompt_share = 1;  // of the prompt's tokens, what the model reads; below 1 the prompt's context is compressed
  layer_id look = 0;        // layers that read the prompt first, for the scores that the policy is given; 0: it is given none

  /// "lazyllm@3+5 0.6"
  std::string text() const;

  /// What is done, for a model of these layers: the policy's flags, and the compression or the look before them. Throws `error` where the
  /// model cannot do so.
  std::string description(const model_layers& layers, const policy_registry& policies) const;
  friend bool operator==(const eval_setting&, const eval_setting&) = default;
};

/// Tokens of the prompt's beginning and end that no method prunes, nor compresses away.
struct kept_tokens {
  std::size_t first = 0;
  std::size_t last = 0;
};

/// What is compared, as it was typed.
struct method_flags {
  std::vector<std::string> names{};     // NAME[@LAYER...]
  std::vector<std::string> variants{};  // NAME[@LAYER...]=FLAGS
  std::vector<double> budgets{0.6, 0.75, 0.9};
};

/// What a method does, for those who know only the paper.
struct method_note {
  std::string_view name, note;
};
std::vector<method_note> method_notes();

/// Reads NAME[@LAYER[+LAYER...]], for a model of so many layers. Without layers a method that takes some has those of the stages
/// `recommended` for the model, one that takes one the first of them. Throws `error` where there is no such method, it takes no layers, or
/// fewer, or the model cannot prune there.
pruning_method read_method(std::string_view text, layer_id layers, const stages& recommended);

/// Reads NAME[@LAYER[+LAYER...]]=FLAGS, a variant of lazyllm; the layers as in `read_method`. Throws `error` where there is no name, it is
/// a method's, or the flags are wrong, are none, or say what the budget decides.
pruning_method read_variant(std::string_view text, layer_id layers, const stages& recommended);

/// LazyLLM with one stage, with the budget that the share comes to, to four digits after the point. It is called single_stage@LAYER, apart
/// from the methods whose budgets were set.
eval_setting one_stage(layer_id after, double share, layer_id layers);

/// The method at a budget in (0, 1], for a model of so many layers; dense has none, and a variant with stages its own. Throws `error` where
/// the layers before the first pruning cost as much or more.
eval_setting at_budget(const pruning_method& method, std::optional<double> budget, layer_id layers);

/// The setting with at least these tokens kept. They count towards the budget.
eval_setting keeping(eval_setting setting, const kept_tokens& kept);

/// Whether the method draws at random.
bool draws(const eval_setting& setting);

/// The setting with the draws of another seed, if it draws at all. A seed draws the same positions in every prompt: each sample should have
/// seeds of its own, so that a mean over samples is one over draws too.
eval_setting with_seed(eval_setting setting, std::uint64_t seed);

/// Dense, whatever is named, and then the methods and the variants, each at every budget: every setting once, and with these tokens kept.
/// Throws `error` where one cannot be, or where two that differ have one name.
std::vector<eval_setting> settings_of(const method_flags& flags, const kept_tokens& kept, layer_id layers, const stages& recommended);

}  // namespace program
}  // namespace lazyprune
