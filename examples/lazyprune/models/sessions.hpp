// SPDX-License-Identifier: MIT
// What the pruning flags make: sessions.
#pragma once

#include <cstddef>

#include "models/model_choice.hpp"

#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {
class any_session;
class policy_registry;
struct model_layers;
}  // namespace v0

namespace program {

/// The flags with the stages that are recommended for the model, where they say nothing of stages.
policy_spec with_recommended_stages(policy_spec spec, const opened_model& model, const policy_registry& policies);

/// Whether it is the paper's drawn stages that prune, since neither the flags say any nor anybody knows some for the model.
bool pruned_as_drawn(const policy_spec& spec, const opened_model& model);

/// A session of the policy that the flags make.
any_session new_session(const policy_spec& spec, const model_config& config, const policy_registry& policies);

/// All flags of the policy, for a model of these layers; "--policy dense" where it never prunes.
std::string flags_of(const policy_spec& spec, const model_layers& layers, const policy_registry& policies);

/// Whether what it prunes is lost.
bool loses_tokens(const policy_spec& spec, const model_config& config, const policy_registry& policies);

/// The policy that never prunes.
policy_spec dense_spec();

}  // namespace program
}  // namespace lazyprune
