// SPDX-License-Identifier: MIT
// What the pruning flags make: sessions.
#pragma once

#include <lazyprune/io/checkpoint.hpp>
#include <lazyprune/session/any_session.hpp>
#include <lazyprune/session/policy_spec.hpp>

namespace lazyprune {
namespace program {

/// The flags with the stages that the model's lazyprune.json recommends, where they say nothing of stages.
lazyprune::policy_spec with_recommended_stages(lazyprune::policy_spec spec, const lazyprune::checkpoint& model);

/// Apart from the rest, since the sessions of every policy take their time to compile.
lazyprune::any_session new_session(const lazyprune::policy_spec& spec, std::size_t layers);

}  // namespace program
}  // namespace lazyprune
