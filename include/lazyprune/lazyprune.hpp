// SPDX-License-Identifier: MIT
// Floors 0-2 in one include: what an engine embeds. Standard library only.
#pragma once

#include <lazyprune/policy/one_of.hpp>
#include <lazyprune/policy/presets.hpp>
#include <lazyprune/policy/schedule/adaptive.hpp>
#include <lazyprune/policy/schedule/budget.hpp>
#include <lazyprune/policy/schedule/by_phase.hpp>
#include <lazyprune/policy/schedule/cosine.hpp>
#include <lazyprune/policy/schedule/every.hpp>
#include <lazyprune/policy/schedule/linear.hpp>
#include <lazyprune/policy/schedule/prompt_only.hpp>
#include <lazyprune/policy/schedule/stages.hpp>
#include <lazyprune/policy/scorer/accumulated_attention.hpp>
#include <lazyprune/policy/scorer/key_norm.hpp>
#include <lazyprune/policy/scorer/last_query_attention.hpp>
#include <lazyprune/policy/scorer/prompt_window_attention.hpp>
#include <lazyprune/policy/scorer/random_score.hpp>
#include <lazyprune/policy/scorer/recency.hpp>
#include <lazyprune/policy/scorer/value_weighted_attention.hpp>
#include <lazyprune/policy/scorer/window_attention.hpp>
#include <lazyprune/policy/selector/blocks.hpp>
#include <lazyprune/policy/selector/protect.hpp>
#include <lazyprune/policy/selector/threshold.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include <lazyprune/policy/selector/top_p.hpp>
#include <lazyprune/policy/store/bounded.hpp>
#include <lazyprune/policy/store/keep_all.hpp>
#include <lazyprune/policy/store/none.hpp>
#include <lazyprune/session/any_session.hpp>
#include <lazyprune/session/query_attention.hpp>
#include <lazyprune/session/trace.hpp>
#include <lazyprune/version.hpp>
