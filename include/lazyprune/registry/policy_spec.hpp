// SPDX-License-Identifier: MIT
// A policy as flags: the flags that were given, and their values. registry/policy_parts.hpp reads these flags for a model.
//
//   policy       a preset's name; the preset supplies every flag that is not given
//   stages       9:0.7,19:0.5: after 9 layers keep 70 % of the tokens then active, after 19 layers half of those; empty: never prune
//   schedule     another schedule, in place of stages
//   scorer, selector, store
//   keep_first, keep_last   numbers of tokens at the start and at the end that are never pruned
//   keep         0-63,900-930: positions that are never pruned, both ends included; empty: no positions
//   least_tokens a number of tokens; while fewer are known, nothing is pruned
//   decode       same: all steps are pruned; dense: only the prompt is pruned; only: only the steps after the prompt are pruned; kept: the
//                prompt is pruned, and the steps after it attend to the tokens that it kept
//
// Parts are written NAME[:key=value,...]. The part of that name describes its keys.
#pragma once

#include <algorithm>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/core/policy.hpp>
#include <lazyprune/policy/schedule/at_least.hpp>
#include <lazyprune/policy/schedule/by_phase.hpp>
#include <lazyprune/policy/schedule/prompt_only.hpp>
#include <lazyprune/policy/schedule/prompt_sets.hpp>
#include <lazyprune/policy/schedule/stages.hpp>
#include <lazyprune/policy/selector/protect.hpp>
#include <lazyprune/registry/parameters.hpp>
#include <lazyprune/registry/part_text.hpp>

namespace lazyprune {
inline namespace v0 {

/// The flags as they were given. The preset supplies the values of the others.
struct policy_spec {
  std::string preset{};  // empty: lazyllm
  std::optional<std::string> stages{};
  std::optional<std::string> schedule{};
  std::optional<std::string> scorer{};
  std::optional<std::string> selector{};
  std::optional<std::string> store{};
  std::optional<std::size_t> keep_first{};
  std::optional<std::size_t> keep_last{};
  std::optional<std::string> keep{};
  std::optional<std::size_t> least_tokens{};
  std::optional<std::string> decode{};

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("policy", preset);
    visit("stages", stages);
    visit("schedule", schedule);
    visit("scorer", scorer);
    visit("selector", selector);
    visit("store", store);
    visit("keep_first", keep_first);
    visit("keep_last", keep_last);
    visit("keep", keep);
    visit("least_tokens", least_tokens);
    visit("decode", decode);
  }

  friend bool operator==(const policy_spec&, const policy_spec&) = default;
};

/// The preset that never prunes, the preset that is used if none is named, and the name of flags without a preset.
inline constexpr std::string_view dense_policy = "dense", default_policy = "lazyllm", custom_policy = "custom";

/// The flags that are given, in a fixed order, each followed by its value.
inline std::string flags_text(policy_spec spec) {
  std::string text;
  for (const parameter& p : parameters_of(spec)) {
    const auto value = p.text();
    if (!value || (p.key == "policy" && value->empty())) continue;
    text.append(text.empty() ? "" : " ").append(flag_of(p.key)).append(" ").append(*value);
  }
  return text;
}

/// A short name: "dense" if `stages` is given and empty, else the preset's name. Without a preset it is "custom" if a part or `decode` is
/// given, else "lazyllm".
inline std::string name_of(const policy_spec& spec) {
  if (spec.stages && spec.stages->empty()) return std::string(dense_policy);
  if (!spec.preset.empty()) return spec.preset;
  return std::string(spec.schedule || spec.scorer || spec.selector || spec.store || spec.decode ? custom_policy : default_policy);
}

/// The short name of the policy (`name_of`), and then the flags that are given. "dense" has no flags. `parse_policy` reads this text.
inline std::string short_text(policy_spec spec) {
  const std::string name = name_of(spec);
  if (name == dense_policy) return name;
  spec.preset.clear();
  const std::string flags = flags_text(spec);
  return flags.empty() ? name : name + " " + flags;
}

/// Reads an optional name, then flags with their values, all separated by spaces. `short_text` and policy_parts::text have this form. The
/// name is a preset's name, or "custom" for no preset. The flag `policy` names a preset, too, but not a second one. Without a preset, flags
/// that are not given have lazyllm's values. Throws `error` with the wrong word.
inline policy_spec parse_policy(std::string_view text) {
  policy_spec spec;
  auto words = split(text, ' ');
  auto word = words.begin();
  const auto skip_spaces = [&] { word = std::find_if(word, words.end(), [](std::string_view w) { return !w.empty(); }); };
  skip_spaces();
  std::vector<std::string_view> seen;
  const std::string name_flag = flag_of("policy");
  if (word != words.end() && !word->starts_with("-")) {
    spec.preset = *word;
    ++word;
    if (spec.preset != custom_policy) seen.push_back(name_flag);
  }
  std::vector<parameter> flags = parameters_of(spec);
  for (skip_spaces(); word != words.end(); skip_spaces()) {
    const auto name_of = [](const parameter& p) { return flag_of(p.key); };
    const auto flag = std::ranges::find(flags, *word, name_of);
    if (flag == flags.end()) report_error(error("policy", text, one_of_names(flags, name_of), *word));
    if (std::ranges::find(seen, *word) != seen.end())
      report_error(error("policy", text, *word == name_flag ? "one name" : "each flag once", std::string(*word) + " twice"));
    seen.push_back(*word);
    const std::string_view name = *word;
    if (++word == words.end()) report_error(error(name, "", "a value", "nothing"));
    const auto first = word;  // empty if two spaces follow the flag. An empty value is meant if a flag or nothing comes next
    skip_spaces();
    if (word == words.end() || word->starts_with("--")) word = first;
    if (!flag->set(*word)) report_error(error(name, "", flag->expected, *word));
    ++word;
  }
  if (spec.preset == custom_policy) spec.preset.clear();
  return spec;
}

namespace detail {

template <class Schedule>
void note_schedule(policy_spec& spec, const at_least<Schedule>& schedule);  // declared early: the wrappers below may hold an at_least
inline void note_schedule(policy_spec& spec, const stages& schedule) { spec.stages = schedule.text(); }
template <described_part Schedule>
void note_schedule(policy_spec& spec, const Schedule& schedule) {
  spec.schedule = text_of(schedule);
}
/// Notes which steps a wrapper of a schedule is for. The flags have no two wrappers of this kind.
inline void note_decode(policy_spec& spec, std::string_view decode) {
  if (spec.decode && *spec.decode != "same" && *spec.decode != decode)
    report_error(error("policy", "schedule", "one of prompt_only, prompt_sets and by_phase", "decode " + *spec.decode + " inside another",
                       error_code::unsupported));
  spec.decode = decode;
}
template <class Schedule>
void note_schedule(policy_spec& spec, const prompt_only<Schedule>& schedule) {
  note_schedule(spec, schedule.prefill);
  note_decode(spec, "dense");
}
template <class Schedule>
void note_schedule(policy_spec& spec, const prompt_sets<Schedule>& schedule) {
  note_schedule(spec, schedule.prefill);
  note_decode(spec, "kept");
}
template <class Decode>
void note_schedule(policy_spec& spec, const by_phase<stages, Decode>& schedule) {
  if (!schedule.prefill.list().empty())
    report_error(error("policy", "by_phase", "a prompt that is not pruned, or one schedule for all steps", schedule.prefill.text(),
                       error_code::unsupported));
  note_schedule(spec, schedule.decode);
  note_decode(spec, "only");
}
template <class Schedule>
void note_schedule(policy_spec& spec, const at_least<Schedule>& schedule) {
  note_schedule(spec, schedule.schedule);
  if (schedule.tokens > 0) spec.least_tokens = std::max<std::size_t>(schedule.tokens, spec.least_tokens.value_or(0));
}

template <described_part Selector>
void note_selector(policy_spec& spec, const Selector& selector) {
  spec.selector = text_of(selector);
}
template <class Selector>
void note_selector(policy_spec& spec, const protect<Selector>& selector) {
  note_selector(spec, selector.selector);
  spec.keep_first = std::max(selector.first, spec.keep_first.value_or(0));  // `selector` may hold another protect
  spec.keep_last = std::max(selector.last, spec.keep_last.value_or(0));
  if (selector.spans.list().empty()) return;
  if (spec.keep)
    report_error(
        error("policy", "protect", "spans in one protect", selector.spans.text() + " around " + *spec.keep, error_code::unsupported));
  spec.keep = selector.spans.text();
}

}  // namespace detail

/// All flags of a policy with described parts, for a model with `layers` layers. If the schedule never prunes such a model, the flags have
/// no stages and no schedule: its text may name a layer that the model lacks. Throws `error` if the policy has one schedule for the prompt
/// and another for the steps after it, because the flags can express only one schedule.
template <class Scorer, class Schedule, class Selector, class Store>
policy_spec spec_of(const policy<Scorer, Schedule, Selector, Store>& policy, layer_id layers = std::numeric_limits<layer_id>::max()) {
  policy_spec spec{.scorer = text_of(policy.scorer), .store = text_of(policy.store), .keep_first = 0, .keep_last = 0, .decode = "same"};
  detail::note_schedule(spec, policy.schedule);
  detail::note_selector(spec, policy.selector);
  const auto never_in = [&](phase step) { return first_pruning(policy.schedule, step, layers) >= layers; };
  if (spec.schedule && never_in(phase::prefill) && never_in(phase::decode)) {
    spec.schedule.reset();
    spec.stages = "";
  }
  return spec;
}

}  // namespace v0
}  // namespace lazyprune
