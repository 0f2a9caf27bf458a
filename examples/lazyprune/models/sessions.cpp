// SPDX-License-Identifier: MIT
#include "models/sessions.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/model/layers_of.hpp>
#include <lazyprune/policy/store/none.hpp>
#include <lazyprune/registry/make_session.hpp>
#include <lazyprune/registry/policy_registry.hpp>

namespace lazyprune {
namespace program {
namespace {

bool says_stages(const policy_spec& spec) { return !spec.preset.empty() || spec.stages || spec.schedule; }

}  // namespace

policy_spec with_recommended_stages(policy_spec spec, const opened_model& model, const policy_registry& policies) {
  if (says_stages(spec)) return spec;
  const default_stages stages = model.stages();
  if (stages.from == stages_source::paper) return spec;  // the preset has the paper's
  if (stages.from == stages_source::folder) {
    policy_spec recommended;
    recommended.stages = stages.text;
    try {
      parts_of(recommended, layers_of(model.config()), policies);
    } catch (const error& fault) {
      throw error((model.path() / "lazyprune.json").string(), fault);
    }
  }
  spec.stages = stages.text;
  return spec;
}

bool pruned_as_drawn(const policy_spec& spec, const opened_model& model) {
  if (says_stages(spec)) return false;
  const default_stages stages = model.stages();
  return stages.from == stages_source::paper && !stages.text.empty();
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
