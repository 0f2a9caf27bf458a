// SPDX-License-Identifier: MIT
// What the pruning flags make: sessions.
#pragma once

#include <lazyprune/io/checkpoint.hpp>
#include <lazyprune/registry/policy_parts.hpp>
#include <lazyprune/registry/policy_registry.hpp>
#include <lazyprune/registry/policy_spec.hpp>
#include <lazyprune/session/any_session.hpp>

namespace lazyprune {
namespace program {

/// Those that flags can name.
const lazyprune::policy_registry& policies();

/// The flags with the stages that the model's lazyprune.json recommends, where they say nothing of stages.
lazyprune::policy_spec with_recommended_stages(lazyprune::policy_spec spec, const lazyprune::checkpoint& model);

/// A session of the policy that the flags make.
lazyprune::any_session new_session(const lazyprune::policy_spec& spec, std::size_t layers);

}  // namespace program
}  // namespace lazyprune
