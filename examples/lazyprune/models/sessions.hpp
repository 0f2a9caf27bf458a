// SPDX-License-Identifier: MIT
// What the pruning flags make: sessions.
#pragma once

#include <string>

#include "models/model_choice.hpp"

#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {
class any_session;
class policy_registry;
struct model_layers;
}  // namespace v0

namespace program {

/// A policy, and a line for the user where nothing is pruned although nobody asked for that.
struct chosen_policy {
  policy_spec spec;
  std::string note;  // empty: nothing to say
};

/// The policy that the flags ask for. Without a preset, stages or a schedule among them the model's own stages prune. A model without any
/// stays dense, whatever the other flags say. Throws `error` where recommended stages do not fit the model.
chosen_policy policy_for(policy_spec asked, const opened_model& model, const policy_registry& policies);
/// The same, with the line on stderr.
policy_spec told_policy(policy_spec asked, const opened_model& model, const policy_registry& policies);

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
