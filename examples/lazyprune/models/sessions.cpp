// SPDX-License-Identifier: MIT
#include "models/sessions.hpp"

#include <algorithm>
#include <iostream>
#include <string_view>
#include <utility>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/files/pruning_file.hpp>
#include <lazyprune/model/layers_of.hpp>
#include <lazyprune/policy/store/none.hpp>
#include <lazyprune/registry/make_session.hpp>
#include <lazyprune/registry/policy_registry.hpp>

namespace lazyprune {
namespace program {
namespace {

bool asks_for_pruning(const policy_spec& spec) { return !spec.preset.empty() || spec.stages || spec.schedule; }

/// Fills in the stages, the least number of tokens and the calibration that the policy does not have. Returns the result of
/// `take_calibration`.
bool take_stages(policy_spec& spec, const recommended_stages& from) {
  if (!spec.stages) spec.stages = from.text;
  if (!spec.least_tokens && from.least_tokens > 0) spec.least_tokens = from.least_tokens;
  return take_calibration(spec, from);
}

/// Throws `error` with the file's name if the stages or probes of a file do not fit the model.
void check_stages(const recommended_stages& stages, const opened_model& model, const policy_registry& policies) {
  policy_spec alone;
  take_stages(alone, stages);
  try {
    parts_of(alone, layers_of(model.config()), policies);
  } catch (const error& fault) {
    throw error(stages.where, fault);
  }
}

/// Returns the variant (NAME=FLAGS) with `--pruning-file FILE` replaced by the file's pruning. Other flags of the variant take precedence.
std::string with_pruning_file(const std::string& variant, const opened_model& model) {
  const std::size_t equals = variant.find('=');
  if (equals == variant.npos) return variant;
  std::vector<std::string_view> words = split(std::string_view(variant).substr(equals + 1), ' ');
  std::erase(words, std::string_view());  // of several spaces
  const auto flag = std::ranges::find(words, std::string_view("--pruning-file"));
  if (flag == words.end()) return variant;
  const auto file = flag + 1;
  if (file == words.end() || file->starts_with("--"))
    throw error("--variant", variant, "a file after --pruning-file", file == words.end() ? "nothing" : *file);
  if (variant.find('@') < equals)
    throw error("--variant", variant, "no @LAYER with --pruning-file, which names stages", variant.substr(0, equals));
  const std::string path(*file);
  words.erase(flag, file + 1);
  std::string others;
  for (const std::string_view word : words) others.append(word).append(" ");
  try {
    policy_spec spec = parse_policy(others);
    take_stages(spec, model.stages_in(path));
    return variant.substr(0, equals + 1) + flags_text(spec);
  } catch (const error& fault) {
    throw error("--variant " + variant.substr(0, equals), fault);
  }
}

/// The first pruning flag of the policy.
std::string first_flag(const policy_spec& spec) {
  const std::string flags = flags_text(spec);
  return flags.substr(0, flags.find(' '));
}

/// Returns whether the policy takes nothing from the stages that are recommended for the model.
bool stands_alone(const policy_spec& asked, const opened_model& model) {
  const bool replaces_stages = model.has_pruning_file() && asked.stages && asked.preset.empty() && !asked.schedule;
  return asks_for_pruning(asked) && !replaces_stages;
}

}  // namespace

bool take_calibration(policy_spec& spec, const recommended_stages& from) {
  if (!from.calibration || spec.scorer) return false;
  const calibrated_heads& heads = *from.calibration->heads;
  spec.scorer = heads.scorer();
  if (!spec.selector) spec.selector = "blocks:size=" + std::to_string(heads.block);
  if (!spec.decode) spec.decode = "kept";
  if (!spec.keep_first) spec.keep_first = ignored_sinks;
  if (!spec.keep_last) spec.keep_last = heads.kept_last();
  return true;
}

std::string chosen_policy::line() const { return calibrated.empty() ? short_text(spec) : calibrated; }

chosen_policy policy_for(policy_spec asked, const opened_model& model, const policy_registry& policies) {
  if (stands_alone(asked, model) && !model.has_pruning_file()) return {.spec = std::move(asked)};
  if (const auto stages = model.stages()) {
    if (!stages->where.empty()) check_stages(*stages, model, policies);
    if (stands_alone(asked, model)) {
      const std::string note = "--pruning-file has no effect, because " + first_flag(asked) + " is given";
      return {.spec = std::move(asked), .note = note};
    }
    if (!asked.stages) asked.stages = stages->text;
    chosen_policy chosen{.spec = asked};
    if (take_stages(chosen.spec, *stages)) chosen.calibrated = "calibrated " + flags_text(asked);
    return chosen;
  }
  const std::string how = "--policy lazyllm prunes it as the paper prunes Llama 2; `lazyprune search` finds stages that suit it";
  if (asked == policy_spec{}) return {dense_spec(), "nothing is pruned: no stages are known for this model. " + how};
  return {dense_spec(),
          first_flag(asked) + " has no effect: no stages are known for this model, so nothing is pruned. Add --stages. " + how};
}

policy_spec policy_of_request(const policy_spec& asked, const opened_model& model, const policy_registry& policies) {
  return stands_alone(asked, model) ? asked : policy_for(asked, model, policies).spec;
}

chosen_policy policy_with_note(policy_spec asked, const opened_model& model, const policy_registry& policies) {
  chosen_policy chosen = policy_for(std::move(asked), model, policies);
  if (!chosen.note.empty()) std::cerr << chosen.note << std::endl;
  return chosen;
}

std::vector<std::string> with_pruning_files(std::vector<std::string> variants, const opened_model& model) {
  for (std::string& variant : variants) variant = with_pruning_file(variant, model);
  const auto known = model.has_pruning_file() ? model.stages() : std::nullopt;
  if (known && known->calibration) {
    policy_spec spec;
    take_stages(spec, *known);
    variants.insert(variants.begin(), "calibrated=" + flags_text(spec));
  }
  return variants;
}

any_session new_session(const policy_spec& spec, const model_config& config, const policy_registry& policies) {
  return make_session(spec, layers_of(config), {}, policies);
}

std::string flags_of(const policy_spec& spec, const model_layers& layers, const policy_registry& policies) {
  return text(spec, layers, policies);
}

bool loses_tokens(const policy_spec& spec, const model_config& config, const policy_registry& policies) {
  return parts_of(spec, layers_of(config), policies).store.target<none>() != nullptr;
}

policy_spec dense_spec() { return {.preset = "dense"}; }

}  // namespace program
}  // namespace lazyprune
