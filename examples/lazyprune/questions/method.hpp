// SPDX-License-Identifier: MIT
// The methods that a sweep compares, each at a budget: the share of the dense model's prefill rows that it may compute.
//
//   dense         the model as it is, which has no budget
//   lazyllm       LazyLLM (arXiv 2407.14057): stages after those layers with one common share, such that their rows are the budget
//   no_revival    the same, but what is pruned is lost: what revival brings
//   dense_decode  the same, but generated tokens see everything: what pruning their steps costs, or saves
//   static        the paper's static token pruning: once, after one layer, by the query token's attention; nothing comes back
//   random        the paper's random token drop, before the first layer; a sweep draws anew for each sample
//   compression   the paper's prompt compression, after Selective Context (Li et al. 2023, arXiv 2310.06201; eval/compression.hpp): the
//                 dense model reads the instruction, the question, and what told it most of the context between them (of RULER's prompts,
//                 which are not divided, what told it most of the whole). No composition of policies: it is the prompt that changes, and
//                 the tokens' positions with it, and what is left out is chosen by a dense pass over all of it, before the one that
//                 answers. Times include that pass; the rows and shares computed, by which budgets are kept, do not
//   streaming     StreamingLLM (arXiv 2309.17453): the first 4 tokens and the most recent ones, together the budget's share
//   snapkv        after SnapKV (arXiv 2404.14469): the whole prompt is computed, then each step sees the budget's share of the tokens,
//   those
//                 that the end of the prompt attended to. All layers but the first, and all heads, see the same tokens; SnapKV chooses for
//                 each apart. The time to first token is the dense model's
//   h2o           after H2O (arXiv 2306.14048), likewise: the tokens with the most attention gathered, and the last 32, where H2O divides
//                 its budget equally between both, and lets go for good. Gathered is the attention of the prompt's last token, over the
//                 layers, and of each token generated; H2O gathers that of every token of the prompt
//   fastkv        after FastKV's propagation of selected tokens (arXiv 2502.01068): once, after one layer, by the attention of the last 8
//                 queries, the mean of 7 neighbours; these 8 always stay, and nothing comes back. FastKV compresses the cache of every
//                 layer as well
//   gemfilter     after GemFilter (arXiv 2409.17422): once, after one layer, by the query token's attention, the mean of 5 neighbours;
//                 nothing comes back. GemFilter ranks by products before the softmax, and then starts anew with the chosen tokens at new
//                 positions: here the early layers are not computed twice, and the chosen tokens keep what they saw there
//
// NAME@LAYER names the layer after which a method prunes, NAME@LAYER+LAYER... the layers of those that take several.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/eval/rows_share.hpp>
#include <lazyprune/session/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {

/// A way to prune.
struct pruning_method {
  std::string name;
  std::vector<layer_id> after{};  // prunes when so many layers are done; ascending; empty where the name says all

  /// "lazyllm@3+5"
  std::string text() const {
    std::string out = name;
    for (const layer_id layer : after) out.append(layer == after.front() ? "@" : "+").append(std::to_string(layer));
    return out;
  }
  friend bool operator==(const pruning_method&, const pruning_method&) = default;
};

/// What a sweep runs over its samples.
struct eval_setting {
  std::string method;              // "lazyllm@3+5"
  std::optional<double> budget{};  // of the dense prefill's rows; none: dense
  policy_spec policy{};
  double prompt_share = 1;  // of the prompt's tokens, what the model reads; below 1 the prompt's context is compressed

  /// "lazyllm@3+5 0.6"
  std::string text() const { return budget ? method + ' ' + text_of_number(*budget) : method; }

  /// What is done, for a model of so many layers: the policy's flags, and the compression before them.
  std::string description(layer_id layers) const {
    const std::string flags = lazyprune::text(policy, layers);
    return prompt_share < 1 ? "the context compressed to leave " + text_of_number(prompt_share) + " of the prompt, " + flags : flags;
  }
  friend bool operator==(const eval_setting&, const eval_setting&) = default;
};

namespace detail {

enum class layers_of_method : std::uint8_t { none, one, several };

struct method_kind {
  std::string_view name;
  layers_of_method layers;
};

inline constexpr std::array<method_kind, 12> method_kinds{{{"dense", layers_of_method::none},
                                                           {"lazyllm", layers_of_method::several},
                                                           {"no_revival", layers_of_method::several},
                                                           {"dense_decode", layers_of_method::several},
                                                           {"static", layers_of_method::one},
                                                           {"random", layers_of_method::none},
                                                           {"compression", layers_of_method::none},
                                                           {"streaming", layers_of_method::none},
                                                           {"snapkv", layers_of_method::none},
                                                           {"h2o", layers_of_method::none},
                                                           {"fastkv", layers_of_method::one},
                                                           {"gemfilter", layers_of_method::one}}};

/// Stages after those layers, with the one share that makes their rows the budget, to four digits after the point.
inline stages equal_stages(std::span<const layer_id> after, double budget, layer_id layers) {
  const auto with_share = [&](double share) {
    std::vector<stage> list;
    for (const layer_id layer : after) list.push_back({layer, share});
    return stages(std::move(list));
  };
  constexpr double digits = 1e4;
  double least = 0, most = 1;
  for (int halvings = 0; halvings < 40; ++halvings) {
    const double middle = (least + most) / 2;
    (rows_share(with_share(middle), layers) < budget ? least : most) = middle;
  }
  return with_share(std::max(std::round(most * digits), 1.0) / digits);
}

}  // namespace detail

/// Reads NAME[@LAYER[+LAYER...]], for a model of so many layers. Without layers a method that takes some has those of the stages
/// `recommended` for the model, one that takes one the first of them. Throws `error` where there is no such method, it takes no layers, or
/// fewer, or the model cannot prune there.
inline pruning_method read_method(std::string_view text, layer_id layers, const stages& recommended) {
  const std::size_t at = text.find('@');
  pruning_method method{.name = std::string(text.substr(0, at))};
  const auto kind = std::ranges::find(detail::method_kinds, method.name, &detail::method_kind::name);
  if (kind == detail::method_kinds.end()) {
    std::string names;
    for (const detail::method_kind& k : detail::method_kinds) names.append(names.empty() ? "one of " : ", ").append(k.name);
    throw error("--methods", "", names, method.name.empty() ? "nothing" : method.name);
  }
  const auto fail = [&](const std::string& expected, std::string_view found) { throw error("--methods", text, expected, found); };
  if (kind->layers == detail::layers_of_method::none) {
    if (at != text.npos) fail("no layers", text.substr(at));
    return method;
  }
  if (at == text.npos) {
    for (const stage& s : recommended.list()) method.after.push_back(s.after);
    std::erase(method.after, 0u);
    if (method.after.empty()) fail("the layers after which it prunes, like @3", "none, and none recommended");
    if (kind->layers == detail::layers_of_method::one) method.after.erase(method.after.begin() + 1, method.after.end());
    return method;
  }
  for (const std::string_view piece : split(text.substr(at + 1), '+')) {
    const auto layer = number_in<layer_id>(piece);
    if (!layer || *layer < 1 || *layer >= layers) fail("layers from 1 to " + std::to_string(layers - 1), piece.empty() ? "nothing" : piece);
    if (!method.after.empty() && *layer <= method.after.back()) fail("a layer after " + std::to_string(method.after.back()), piece);
    method.after.push_back(*layer);
  }
  if (method.after.empty()) fail("layers after the @", "none");
  if (kind->layers == detail::layers_of_method::one && method.after.size() > 1) fail("one layer", text.substr(at));
  return method;
}

/// LazyLLM with one stage, with the budget that the share comes to, to four digits after the point. It is called single_stage@LAYER, apart
/// from the methods whose budgets were set.
inline eval_setting one_stage(layer_id after, double share, layer_id layers) {
  const stages when{{after, share}};
  return {.method = pruning_method{"single_stage", {after}}.text(),
          .budget = std::round(rows_share(when, layers) * 1e4) / 1e4,
          .policy = {.preset = "lazyllm", .stages = when.text()}};
}

/// The method at a budget in (0, 1], for a model of so many layers; dense has none. `seed`: of the random method's draws. Throws `error`
/// where the layers before the first pruning cost as much or more.
inline eval_setting at_budget(const pruning_method& method, std::optional<double> budget, layer_id layers, std::uint64_t seed = 0) {
  eval_setting setting{.method = method.text(), .budget = budget};
  policy_spec& policy = setting.policy;
  if (method.name == "dense") {
    setting.budget.reset();
    policy.preset = "dense";
    return setting;
  }
  if (!budget || !(*budget > 0.0 && *budget <= 1.0))
    throw error("--budgets", setting.method, "a share in (0, 1]", budget ? text_of_number(*budget) : "none");
  const std::string share = text_of_number(*budget);
  if (!method.after.empty()) {
    const double least = static_cast<double>(method.after.front()) / layers;
    if (*budget <= least)
      throw error("--budgets", setting.method,
                  "more than " + text_of_number(least) + ", what the layers up to the first that it prunes after compute", share);
  }

  if (method.name == "lazyllm" || method.name == "no_revival" || method.name == "dense_decode") {
    policy.preset = "lazyllm";
    policy.stages = detail::equal_stages(method.after, *budget, layers).text();
    if (method.name == "no_revival") policy.store = "none";
    if (method.name == "dense_decode") policy.decode = "dense";
  } else if (method.name == "random") {
    policy.preset = "random";
    policy.stages = "0:" + share;
    policy.scorer = "random:seed=" + std::to_string(seed);
  } else if (method.name == "compression") {
    policy.preset = "dense";
    setting.prompt_share = *budget;
  } else if (method.name == "streaming") {
    policy.preset = "streaming";
    policy.schedule = "budget:after=0,cost=" + share;
  } else if (method.name == "snapkv" || method.name == "h2o") {
    policy.preset = "lazyllm";
    policy.stages = "1:" + share;
    policy.decode = "only";
    policy.store = "none";
    policy.scorer = method.name == "snapkv" ? "prompt_window_attention" : "accumulated_attention";
    if (method.name == "h2o") policy.keep_last = 32;
  } else {
    policy.preset = "static";
    policy.schedule = "budget:after=" + std::to_string(method.after.front()) + ",cost=" + share;
    if (method.name == "fastkv") policy.scorer = "window_attention:window=8,kernel=7,pool=mean", policy.keep_last = 8;
    if (method.name == "gemfilter") policy.scorer = "window_attention:window=1,kernel=5,pool=mean";
  }
  return setting;
}

}  // namespace v0
}  // namespace lazyprune
