// SPDX-License-Identifier: MIT
// Reads the flags of a policy, for a model with a given number of layers. The result holds the four parts and the text of all flags.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/policy/position_spans.hpp>
#include <lazyprune/policy/schedule/any_schedule.hpp>
#include <lazyprune/policy/schedule/stages.hpp>
#include <lazyprune/policy/scorer/any_scorer.hpp>
#include <lazyprune/policy/scorer/recency.hpp>
#include <lazyprune/policy/selector/any_selector.hpp>
#include <lazyprune/policy/store/any_store.hpp>
#include <lazyprune/registry/model_layers.hpp>
#include <lazyprune/registry/part_text.hpp>
#include <lazyprune/registry/policy_registry.hpp>
#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {

/// The steps that are pruned. Texts write "same" for all, "dense" for prefill and "only" for decode. "kept" is prompt_sets: the prefill is
/// pruned, and decode steps keep its sets.
enum class pruned_steps : std::uint8_t { all, prefill, decode, prefill_sets };

struct policy_parts {
  any_scorer scorer;
  any_schedule schedule;
  any_selector selector;
  any_store store;
  std::size_t keep_first;
  std::size_t keep_last;
  position_spans keep;
  std::size_t least_tokens;
  pruned_steps when;
  std::string text;  // all flags of the policy; those of the dense policy if it has no stages and no schedule
};

namespace detail {

inline pruned_steps read_decode(std::string_view text) {
  constexpr std::array<std::string_view, 4> names{"same", "dense", "only", "kept"};
  const auto at = std::ranges::find(names, text);
  if (at == names.end()) report_error(error(flag_of("decode"), "", one_of_names(names), text));
  return static_cast<pruned_steps>(at - names.begin());
}

inline stages read_stages(const std::string& text, const pruning_layers& where) {
  stages list = stages::parse(text);
  for (const stage& s : list.list())
    if (!where.has(s.after, {})) report_error(error(flag_of("stages"), text, where.text({}), std::to_string(s.after)));
  return list;
}

/// The flags of `given`. A flag that is missing there has the preset's value.
inline policy_spec complete(policy_spec given, layer_id layers, const policy_registry& policies) {
  const std::string stages_flag = flag_of("stages"), schedule_flag = flag_of("schedule");
  if (given.stages && given.schedule) report_error(error(schedule_flag, "", "either " + stages_flag + " or " + schedule_flag, "both"));
  if (given.preset == dense_policy && (given.schedule || (given.stages && !given.stages->empty())))
    report_error(error(flag_of("policy"), dense_policy, "no " + stages_flag + " and no " + schedule_flag + ", because dense never prunes",
                       given.schedule ? *given.schedule : *given.stages));
  const bool named = !given.preset.empty() && given.preset != custom_policy;
  policy_spec all = policies.preset(named ? given.preset : default_policy, layers);
  if (given.stages || given.schedule) {
    all.stages.reset();
    all.schedule.reset();
  }
  const std::vector<parameter> from = parameters_of(given), to = parameters_of(all);
  for (std::size_t i = 0; i < from.size(); ++i)
    if (const auto value = from[i].text()) to[i].set(*value);
  return all;
}

}  // namespace detail

/// The parts of the policy, for a model with these layers. If a preset's stage may not prune after its layer, the stage moves to the
/// nearest layer after which it may. Throws `error` with the wrong flag and the place in its value.
inline policy_parts parts_of(const policy_spec& spec, const model_layers& layers, const policy_registry& policies) {
  policy_spec flags = detail::complete(spec, layers.count, policies);
  flags.preset.clear();
  const part_text scorer_text("scorer", *flags.scorer), selector_text("selector", *flags.selector), store_text("store", *flags.store);
  const std::string knowing = policies.scorers_of_positions();
  pruning_layers where{.layers = layers.count, .knowing = knowing};

  auto scorer = policies.scorers().read(scorer_text, where);
  auto selector = policies.selectors().read(selector_text, where);
  auto store = policies.stores().read(store_text, where);
  policy_parts parts{.scorer = std::move(scorer.policy),
                     .schedule = stages{},
                     .selector = std::move(selector.policy),
                     .store = std::move(store.policy),
                     .keep_first = *flags.keep_first,
                     .keep_last = *flags.keep_last,
                     .keep = position_spans::parse(flags.keep.value_or(""), flag_of("keep")),
                     .least_tokens = flags.least_tokens.value_or(0),
                     .when = detail::read_decode(*flags.decode),
                     .text = {}};

  if (parts.scorer.needs().kind == evidence_kind::none) where.least = 0;
  if (layers.count < 2 && where.least > 0 && !spec.schedule && flags.schedule) {  // the preset's schedule has no layer to prune after
    flags.schedule.reset();
    flags.stages = "";
  }
  if (flags.schedule) {
    auto schedule = policies.schedules().read(part_text("schedule", *flags.schedule), where);
    parts.schedule = std::move(schedule.policy);
    flags.schedule = schedule.text;
  } else {
    stages list = detail::read_stages(*flags.stages, where);
    if (!spec.stages && scores_attention(parts.scorer.needs())) list = moved_to(layers, list);
    if (list.list().empty()) {
      parts.scorer = recency{};  // asks the engine for no evidence
      parts.text = flags_text({.preset = std::string(dense_policy)});
      return parts;
    }
    parts.schedule = list;
    flags.stages = list.text();
  }
  if (const auto done = pruned_in_a_window(layers, parts.schedule); done && scores_attention(parts.scorer.needs()))
    report_error(error(flag_of(flags.schedule ? "schedule" : "stages"), flags.schedule.value_or(flags.stages.value_or("")), layers.text(),
                       "after " + std::to_string(*done), error_code::unsupported));
  flags.scorer = scorer.text;
  flags.selector = selector.text;
  flags.store = store.text;
  flags.keep = parts.keep.text();
  if (flags.keep->empty()) flags.keep.reset();
  if (parts.least_tokens == 0) flags.least_tokens.reset();
  parts.text = flags_text(flags);
  return parts;
}

/// All flags of the policy, or those of the dense policy if it has no stages and no schedule. Throws the errors of `parts_of`.
inline std::string text(const policy_spec& spec, const model_layers& layers, const policy_registry& policies) {
  return parts_of(spec, layers, policies).text;
}

}  // namespace v0
}  // namespace lazyprune
