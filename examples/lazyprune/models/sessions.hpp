// SPDX-License-Identifier: MIT
// Turns the pruning flags into a policy and a session.
#pragma once

#include <string>
#include <vector>

#include "models/model_choice.hpp"

#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {
class any_session;
class policy_registry;
struct model_layers;
}  // namespace v0

namespace program {

/// A policy, and what to tell the user about it.
struct chosen_policy {
  policy_spec spec;
  std::string note{};        // set if nothing is pruned although the user did not ask for a dense run, or if --pruning-file has no effect
  std::string calibrated{};  // set if the model's calibration scores the tokens: "calibrated", the stages, and the flags that were given

  /// Returns `calibrated` if it is set, otherwise the policy's short_text. The short_text of a calibration would list all probes.
  std::string line() const;
};

/// Returns the policy that the flags ask for. If they name no preset, stages or schedule, the stages recommended for the model are used.
/// With --pruning-file, stages in the flags replace those of the file, and the probes of a calibration stay. A preset or a schedule takes
/// the place of the whole file, which must still be usable. If no stages are recommended, the policy is dense, whatever the other flags
/// say. Throws `error` if the recommended stages do not fit the model.
chosen_policy policy_for(policy_spec asked, const opened_model& model, const policy_registry& policies);
/// Returns the same policy for a request to a server, which read the file when it started. A policy that takes nothing from the file does
/// not read it again.
policy_spec policy_of_request(const policy_spec& asked, const opened_model& model, const policy_registry& policies);
/// Gives a policy without a scorer the scorer of the calibration. Where the policy does not say otherwise, it then keeps blocks, attention
/// sinks and the evidence rows, and decode steps keep the prompt's tokens. Stages without a calibration change nothing.
/// Returns whether the policy now has the scorer of the calibration.
bool take_calibration(policy_spec& spec, const recommended_stages& from);
/// Returns the same policy as `policy_for`, and prints its note on stderr.
chosen_policy policy_with_note(policy_spec asked, const opened_model& model, const policy_registry& policies);

/// Replaces each `--pruning-file FILE` in the variants (method.hpp) by the file's pruning. If the model was opened with --pruning-file and
/// this file is a calibration, the variant `calibrated` is added first. Throws `error` if a file cannot be used.
std::vector<std::string> with_pruning_files(std::vector<std::string> variants, const opened_model& model);

/// Makes a session of the policy that the flags describe.
any_session new_session(const policy_spec& spec, const model_config& config, const policy_registry& policies);

/// Returns all flags of the policy for a model of these layers; "--policy dense" if the policy never prunes.
std::string flags_of(const policy_spec& spec, const model_layers& layers, const policy_registry& policies);

/// True if the policy has no store, so that pruned tokens are lost.
bool loses_tokens(const policy_spec& spec, const model_config& config, const policy_registry& policies);

/// The policy that never prunes.
policy_spec dense_spec();

}  // namespace program
}  // namespace lazyprune
