// SPDX-License-Identifier: MIT
// The registry of the library's own parts and presets. This file instantiates all of them. Include it in only one translation unit of a
// program, and pass the registry on.
#pragma once

#include <lazyprune/policy/all.hpp>
#include <lazyprune/policy/presets.hpp>
#include <lazyprune/registry/policy_registry.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

template <class... Policies>
void add_all(policy_registry& registry, part_list<Policies...>) {
  registry.add<Policies...>();
}

}  // namespace detail

inline policy_registry shipped_policies() {
  policy_registry registry;
  detail::add_all(registry, all_policies{});
  visit_presets([&](auto name, auto what, auto make) { registry.add_preset(name, what, make); });
  return registry;
}

}  // namespace v0
}  // namespace lazyprune
