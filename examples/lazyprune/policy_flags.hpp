// SPDX-License-Identifier: MIT
// The pruning flags, and the sessions they make.
#pragma once

#include <CLI/CLI.hpp>

#include <lazyprune/io/checkpoint.hpp>
#include <lazyprune/session/any_session.hpp>
#include <lazyprune/session/policy_spec.hpp>

void add_policy_flags(CLI::App& command, lazyprune::policy_spec& spec);

/// The flags with the stages that the model's lazyprune.json recommends, where they say nothing of stages.
lazyprune::policy_spec with_recommended_stages(lazyprune::policy_spec spec, const lazyprune::checkpoint& model);

/// Apart from the rest, since the sessions of every policy take their time to compile.
lazyprune::any_session new_session(const lazyprune::policy_spec& spec, std::size_t layers);
