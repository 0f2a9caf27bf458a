// SPDX-License-Identifier: MIT
// One correct part of each kind. A case combines three of them with a wrong part.
#pragma once

#include <lazyprune/core/policy.hpp>

using namespace lazyprune;

struct right_scorer {
  void score(const attention_view&, std::span<float>) const {}
};
struct right_schedule {
  std::size_t keep(const layer_context& c) const { return c.active; }
};
struct right_selector {
  std::size_t select(const candidates& c, std::span<std::uint32_t>) const { return c.keep; }
};
struct right_store {
  std::size_t admit(const stored_rows&, std::span<std::uint32_t>) const { return 0; }
};

// The name of a case's member: the wrong name, or the right name in the repaired case.
#ifdef REPAIRED
#define MEMBER(right, wrong) right
#else
#define MEMBER(right, wrong) wrong
#endif
