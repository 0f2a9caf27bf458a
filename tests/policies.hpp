// SPDX-License-Identifier: MIT
// The library's registry of policies, compiled once for all tests.
#pragma once

#include <lazyprune/registry/policy_registry.hpp>

const lazyprune::policy_registry& policies();
