// SPDX-License-Identifier: MIT
// Makes a policy_spec from flags as a user types them, without the library's parser.
#pragma once

#include <doctest/doctest.h>

#include <initializer_list>
#include <string_view>
#include <utility>

#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {

/// Sets the field of this flag. If there is no such flag, nothing changes.
inline void set_flag(policy_spec& spec, std::string_view flag, std::string_view value) {
  if (flag == "--policy") spec.preset = value;
  if (flag == "--stages") spec.stages = value;
  if (flag == "--schedule") spec.schedule = value;
  if (flag == "--scorer") spec.scorer = value;
  if (flag == "--selector") spec.selector = value;
  if (flag == "--store") spec.store = value;
  if (flag == "--keep-first") spec.keep_first = number_in<std::size_t>(value);
  if (flag == "--keep-last") spec.keep_last = number_in<std::size_t>(value);
  if (flag == "--keep") spec.keep = value;
  if (flag == "--least-tokens") spec.least_tokens = number_in<std::size_t>(value);
  if (flag == "--decode") spec.decode = value;
}

inline policy_spec with(std::initializer_list<std::pair<std::string_view, std::string_view>> flags) {
  policy_spec spec;
  for (const auto& [flag, value] : flags) set_flag(spec, flag, value);
  return spec;
}

/// The spec of a text such as "--scorer random --keep-last 5". Each flag must exist and change the spec.
inline policy_spec typed(std::string_view flags) {
  policy_spec spec;
  const auto words = split(flags, ' ');
  REQUIRE(words.size() % 2 == 0);
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const policy_spec before = spec;
    set_flag(spec, words[i], words[i + 1]);
    REQUIRE(spec != before);
  }
  return spec;
}

}  // namespace lazyprune
