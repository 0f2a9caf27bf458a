// SPDX-License-Identifier: MIT
// error: A policy of the registry needs: static constexpr std::string_view name
#include <lazyprune/registry/policy_registry.hpp>

#include "parts.hpp"

struct mine : right_schedule {
  static constexpr std::string_view name = "mine";
  template <class Visitor>
  void MEMBER(describe, descibe)(Visitor&) {}
};

void registers(policy_registry& all) { all.add<mine>(); }
