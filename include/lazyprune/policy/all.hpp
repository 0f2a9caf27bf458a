// SPDX-License-Identifier: MIT
// Every part of a policy that can be chosen by name. A new part needs a file of its own. It also needs an #include and an entry in this
// file.
#pragma once

#include <lazyprune/policy/schedule/adaptive.hpp>
#include <lazyprune/policy/schedule/budget.hpp>
#include <lazyprune/policy/schedule/cosine.hpp>
#include <lazyprune/policy/schedule/every.hpp>
#include <lazyprune/policy/schedule/linear.hpp>
#include <lazyprune/policy/scorer/accumulated_attention.hpp>
#include <lazyprune/policy/scorer/calibrated_attention.hpp>
#include <lazyprune/policy/scorer/given_scores.hpp>
#include <lazyprune/policy/scorer/key_norm.hpp>
#include <lazyprune/policy/scorer/last_query_attention.hpp>
#include <lazyprune/policy/scorer/prompt_window_attention.hpp>
#include <lazyprune/policy/scorer/random_score.hpp>
#include <lazyprune/policy/scorer/recency.hpp>
#include <lazyprune/policy/scorer/value_weighted_attention.hpp>
#include <lazyprune/policy/scorer/window_attention.hpp>
#include <lazyprune/policy/selector/blocks.hpp>
#include <lazyprune/policy/selector/threshold.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include <lazyprune/policy/selector/top_p.hpp>
#include <lazyprune/policy/store/bounded.hpp>
#include <lazyprune/policy/store/keep_all.hpp>
#include <lazyprune/policy/store/none.hpp>

namespace lazyprune {
inline namespace v0 {

template <class... Policies>
struct part_list {};

/// All parts with a name, except `stages`, which has its own flag. Help and error messages list the parts in this order.
using all_policies = part_list<last_query_attention, accumulated_attention, window_attention, prompt_window_attention,
                               value_weighted_attention, key_norm, recency, random_score, given_scores, calibrated_attention,  // scorers
                               every, linear, cosine, budget, adaptive,  // schedules, except `stages`
                               top_k, top_p, threshold, blocks,          // selectors
                               keep_all, bounded, none>;                 // stores

}  // namespace v0
}  // namespace lazyprune
