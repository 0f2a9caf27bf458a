// SPDX-License-Identifier: MIT
#include "policies.hpp"

#include <lazyprune/registry/shipped_policies.hpp>

const lazyprune::policy_registry& policies() {
  static const lazyprune::policy_registry all = lazyprune::shipped_policies();
  return all;
}
