// SPDX-License-Identifier: MIT
#include "questions/method.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "models/sessions.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/eval/rows_share.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/policy/scorer/given_scores.hpp>
#include <lazyprune/registry/model_layers.hpp>

namespace lazyprune {
namespace program {
namespace {

/// Rounds the share to four digits after the point. The result is at least 0.0001.
double to_four_digits(double share) {
  constexpr double digits = 1e4;
  return std::max(std::round(share * digits), 1.0) / digits;
}

/// Returns the share of a dense prefill's rows that the stages compute, rounded to four digits.
double rows_of(const stages& when, layer_id layers) { return to_four_digits(rows_share(when, layers)); }

/// Returns stages after these layers. All keep the same share. It is the share at which the computed rows meet the budget, rounded to four
/// digits.
stages equal_stages(std::span<const layer_id> after, double budget, layer_id layers) {
  const auto with_share = [&](double share) {
    std::vector<stage> list;
    for (const layer_id layer : after) list.push_back({layer, share});
    return stages(std::move(list));
  };
  double least = 0, most = 1;
  for (int halvings = 0; halvings < 40; ++halvings) {
    const double middle = (least + most) / 2;
    (rows_share(with_share(middle), layers) < budget ? least : most) = middle;
  }
  return with_share(to_four_digits(most));
}

std::string scorer_that_draws(std::uint64_t seed) { return "random:seed=" + std::to_string(seed); }

/// Returns `flags`, in which every flag that `others` sets has the value from `others`.
policy_spec changed(policy_spec flags, policy_spec others) {
  const std::vector<parameter> from = parameters_of(others), to = parameters_of(flags);
  for (std::size_t i = 0; i < from.size(); ++i)
    if (const auto value = from[i].text(); value && !value->empty()) to[i].set(*value);
  return flags;
}

/// The data from which a method's policy is made.
struct request {
  const pruning_method& method;
  double budget;
  std::string share;  // the budget as text
  layer_id layers;

  policy_spec lazyllm() const { return {.preset = "lazyllm", .stages = equal_stages(method.after, budget, layers).text()}; }

  /// Returns a policy that computes the whole prompt. Each decode step then attends to the budget's share of the tokens.
  policy_spec after_prompt(const char* scorer) const {
    return {.preset = "lazyllm", .stages = "1:" + share, .scorer = scorer, .store = "none", .decode = "only"};
  }

  /// Returns a policy that keeps the tokens with the best given scores. The rows of the look count towards the budget, so only the rest of
  /// the budget is left for these tokens.
  policy_spec by_given_scores() const {
    const double left = budget - static_cast<double>(method.after.front()) / layers;
    return {.preset = "static", .stages = "0:" + text_of_number(to_four_digits(left)), .scorer = std::string(given_scores::name)};
  }

  policy_spec once() const {
    return {.preset = "static", .schedule = "budget:after=" + std::to_string(method.after.front()) + ",cost=" + share};
  }
};

enum class layers_of_method : std::uint8_t { none, one, several };

struct method_kind {
  std::string_view name;
  layers_of_method layers;
  std::string_view note;
  policy_spec (*policy_of)(const request&);
};

/// Every method, in the order of the help and of the sweep's page.
constexpr std::array<method_kind, 13> kinds{{
    {"dense", layers_of_method::none, "the model without pruning. The paper's baseline.",
     [](const request&) { return policy_spec{.preset = "dense"}; }},
    {"lazyllm", layers_of_method::several, "the paper's method: prunes after several layers. A pruned token can come back in a later step.",
     [](const request& r) { return r.lazyllm(); }},
    {"no_revival", layers_of_method::several, "lazyllm, but pruned tokens are lost. Shows what the return of pruned tokens is worth.",
     [](const request& r) {
       policy_spec policy = r.lazyllm();
       policy.store = "none";
       return policy;
     }},
    {"dense_decode", layers_of_method::several, "lazyllm in the prefill only. The first decode step computes everything that was pruned.",
     [](const request& r) {
       policy_spec policy = r.lazyllm();
       policy.decode = "dense";
       return policy;
     }},
    {"static", layers_of_method::one, "prunes once, after one early layer; pruned tokens are lost. The paper's static token pruning.",
     [](const request& r) { return r.once(); }},
    {"random", layers_of_method::none,
     "drops tokens at random before the first layer. With several draws, the mean over the draws counts for a sample. "
     "The paper's random token drop.",
     [](const request& r) { return policy_spec{.preset = "random", .stages = "0:" + r.share, .scorer = scorer_that_draws(0)}; }},
    {"compression", layers_of_method::none,
     "the same model first reads the prompt in a dense pass, and the tokens of the context that it predicted best are left out (Selective "
     "Context). Instruction and question stay if the task separates them from the context (RULER does not). The times include that pass, "
     "the share of rows computed does not. The paper's prompt compression.",
     [](const request&) { return policy_spec{.preset = "dense"}; }},
    {"streaming", layers_of_method::none, "keeps the first four tokens and the last ones (StreamingLLM).",
     [](const request& r) { return policy_spec{.preset = "streaming", .schedule = "budget:after=0,cost=" + r.share, .keep_first = 4}; }},
    {"snapkv", layers_of_method::none,
     "a dense prefill. Decode steps then attend only to the tokens that the prompt's last tokens attend to (after SnapKV).",
     [](const request& r) { return r.after_prompt("prompt_window_attention"); }},
    {"h2o", layers_of_method::none,
     "a dense prefill. Decode steps then attend only to the last tokens and to those with the most attention from the prompt's last token "
     "and the generated tokens (after H2O, which counts the attention of every prompt token).",
     [](const request& r) {
       policy_spec policy = r.after_prompt("accumulated_attention");
       policy.keep_last = 32;
       return policy;
     }},
    {"fastkv", layers_of_method::one,
     "selects once, after an early layer, by the attention of the last tokens; the rest is lost (after FastKV).",
     [](const request& r) {
       policy_spec policy = r.once();
       policy.scorer = "window_attention:window=8,kernel=7,pool=mean";
       policy.keep_last = 8;
       return policy;
     }},
    {"gemfilter", layers_of_method::one,
     "selects once, after an early layer, by the attention of the last token; the rest is lost (after GemFilter).",
     [](const request& r) {
       policy_spec policy = r.once();
       policy.scorer = "window_attention:window=1,kernel=5,pool=mean";
       return policy;
     }},
    {"given", layers_of_method::one,
     "the first layers look at the whole prompt. The model then starts again with the tokens that the prompt's end attended to there, at "
     "their own positions; the rest is lost (after SpecPrefill, in which a small model looks). Times and rows include the look.",
     [](const request& r) { return r.by_given_scores(); }},
}};

/// Returns the method with this name; null if there is none.
const method_kind* find_kind(std::string_view name) {
  const auto found = std::ranges::find(kinds, name, &method_kind::name);
  return found != kinds.end() ? &*found : nullptr;
}

/// Reads the layers in "3+5". `text` is the whole method, for errors.
std::vector<layer_id> read_layers(std::string_view list, std::string_view text, layer_id layers) {
  const auto fail = [&](const std::string& expected, std::string_view found) { throw error("--methods", text, expected, found); };
  std::vector<layer_id> after;
  for (const std::string_view piece : split(list, '+')) {
    const auto layer = number_in<layer_id>(piece);
    if (!layer || *layer < 1 || *layer >= layers) fail("layers from 1 to " + std::to_string(layers - 1), piece.empty() ? "nothing" : piece);
    if (!after.empty() && *layer <= after.back()) fail("a layer after " + std::to_string(after.back()), piece);
    after.push_back(*layer);
  }
  if (after.empty()) fail("layers after the @", "none");
  return after;
}

}  // namespace

std::string pruning_method::text() const {
  std::string out = name;
  for (const layer_id layer : after) out.append(layer == after.front() ? "@" : "+").append(std::to_string(layer));
  return out;
}

std::string eval_setting::text() const { return budget ? method + ' ' + text_of_number(*budget) : method; }

std::string eval_setting::description(const model_layers& layers, const policy_registry& policies) const {
  const std::string flags = flags_of(policy, layers, policies);
  if (look > 0) {
    if (!layers.scores_attention_after(look))
      throw error("--methods", method, layers.text(), "after " + std::to_string(look), error_code::unsupported);
    return "scores given by " + std::to_string(look) + (look == 1 ? " layer" : " layers") + " that look at the prompt first, " + flags;
  }
  if (prompt_share == 1) return flags;
  std::string text = "the context compressed to leave " + text_of_number(prompt_share) + " of the prompt, ";
  if (policy.keep_first || policy.keep_last)  // a dense policy's flags do not name them
    text += "but none of its first " + std::to_string(policy.keep_first.value_or(0)) + " and last " +
            std::to_string(policy.keep_last.value_or(0)) + " tokens, ";
  return text + flags;
}

std::vector<method_note> method_notes() {
  std::vector<method_note> notes;
  for (const method_kind& kind : kinds) notes.push_back({kind.name, kind.note});
  return notes;
}

pruning_method read_method(std::string_view text, layer_id layers, const stages& recommended) {
  const std::size_t at = text.find('@');
  pruning_method method{.name = std::string(text.substr(0, at))};
  const method_kind* const kind = find_kind(method.name);
  if (!kind) throw error("--methods", "", one_of_names(kinds, &method_kind::name), method.name.empty() ? "nothing" : method.name);
  const auto fail = [&](const std::string& expected, std::string_view found) { throw error("--methods", text, expected, found); };
  if (kind->layers == layers_of_method::none) {
    if (at != text.npos) fail("no layers", text.substr(at));
    return method;
  }
  if (at == text.npos) {
    for (const stage& s : recommended.list()) method.after.push_back(s.after);
    std::erase(method.after, 0u);
    if (method.after.empty()) fail("the layers after which it prunes, like @3", "none, and none recommended");
    if (kind->layers == layers_of_method::one) method.after.erase(method.after.begin() + 1, method.after.end());
    return method;
  }
  method.after = read_layers(text.substr(at + 1), text, layers);
  if (kind->layers == layers_of_method::one && method.after.size() > 1) fail("one layer", text.substr(at));
  return method;
}

pruning_method read_variant(std::string_view text, layer_id layers, const stages& recommended) {
  const std::string flag = "--variant";
  const std::size_t equals = text.find('=');
  const std::string_view called = text.substr(0, equals), name = called.substr(0, called.find('@'));
  if (equals == text.npos || name.empty()) throw error(flag, text, "NAME=FLAGS, like last8=--scorer window_attention:window=8,kernel=1");
  if (find_kind(name)) throw error(flag, text, "a name that is not a method's", name);
  pruning_method method;
  try {
    policy_spec flags = parse_policy(text.substr(equals + 1));
    if (flags.stages && name == called)
      stages::parse(*flags.stages);
    else
      method = read_method("lazyllm" + std::string(called.substr(name.size())), layers, recommended);
    method.flags = std::move(flags);
  } catch (const error& fault) {
    throw error(flag, text, fault.expected(), fault.found(), fault.code());
  }
  method.name = well_formed(name);  // it goes into JSON
  const policy_spec& flags = *method.flags;
  if (flags == policy_spec{}) throw error(flag, text, "flags after the =", "none");
  if (!flags.preset.empty() || flags.schedule || (flags.stages && name != called))
    throw error(flag, text, "no --policy or --schedule, and --stages only if NAME has no @LAYER", text.substr(equals + 1));
  return method;
}

eval_setting one_stage(layer_id after, double share, layer_id layers) {
  const stages when{{after, share}};
  return {.method = pruning_method{"single_stage", {after}}.text(),
          .budget = rows_of(when, layers),
          .policy = {.preset = "lazyllm", .stages = when.text()}};
}

eval_setting at_budget(const pruning_method& method, std::optional<double> budget, layer_id layers) {
  if (method.flags && method.flags->stages) {
    policy_spec policy = *method.flags;
    policy.preset = "lazyllm";
    return {.method = method.text(), .budget = rows_of(stages::parse(*policy.stages), layers), .policy = policy};
  }
  const method_kind& kind = *find_kind(method.flags ? "lazyllm" : method.name);
  if (method.name == "dense") return {.method = method.text(), .budget = {}, .policy = kind.policy_of({method, 1, "", layers})};
  if (!budget || !(*budget > 0.0 && *budget <= 1.0))
    throw error("--budgets", method.text(), "a share in (0, 1]", budget ? text_of_number(*budget) : "none");
  const std::string share = text_of_number(*budget);
  const double least = method.after.empty() ? 0 : static_cast<double>(method.after.front()) / layers;
  if (*budget <= least)
    throw error("--budgets", method.text(),
                "more than " + text_of_number(least) + ", the share of rows that the layers before the first pruning compute", share);
  return {.method = method.text(),
          .budget = budget,
          .policy = changed(kind.policy_of({method, *budget, share, layers}), method.flags.value_or(policy_spec{})),
          .prompt_share = method.name == "compression" ? *budget : 1,
          .look = method.name == "given" ? method.after.front() : 0};
}

eval_setting keeping(eval_setting setting, const kept_tokens& kept) {
  const auto keep = [](std::optional<std::size_t>& tokens, std::size_t least) {
    if (least > 0) tokens = std::max(tokens.value_or(0), least);
  };
  keep(setting.policy.keep_first, kept.first);
  keep(setting.policy.keep_last, kept.last);
  return setting;
}

bool draws(const eval_setting& setting) { return setting.method == "random"; }

eval_setting with_seed(eval_setting setting, std::uint64_t seed) {
  if (draws(setting)) setting.policy.scorer = scorer_that_draws(seed);
  return setting;
}

std::vector<eval_setting> settings_of(const method_flags& flags, const kept_tokens& kept, layer_id layers, const stages& recommended) {
  std::vector<pruning_method> methods;
  for (const std::string& text : flags.names) methods.push_back(read_method(text, layers, recommended));
  for (const std::string& text : flags.variants) methods.push_back(read_variant(text, layers, recommended));
  std::vector<eval_setting> settings{keeping(at_budget({"dense"}, {}, layers), kept)};
  for (const pruning_method& method : methods)
    for (const double budget : flags.budgets) {
      eval_setting next = keeping(at_budget(method, budget, layers), kept);
      const auto twin = std::ranges::find(settings, next.text(), [](const eval_setting& s) { return s.text(); });
      if (twin == settings.end())
        settings.push_back(std::move(next));
      else if (*twin != next)
        throw error("--variant", method.text(), "a name that no other variant has", "two different variants with this name");
    }
  return settings;
}

}  // namespace program
}  // namespace lazyprune
