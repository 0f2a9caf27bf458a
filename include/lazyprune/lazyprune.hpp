// SPDX-License-Identifier: MIT
// Includes core/, policy/ and session/: everything that an engine embeds. Needs only the standard library.
#pragma once

#include <lazyprune/policy/all.hpp>
#include <lazyprune/policy/presets.hpp>
#include <lazyprune/policy/schedule/any_schedule.hpp>
#include <lazyprune/policy/schedule/at_least.hpp>
#include <lazyprune/policy/schedule/by_phase.hpp>
#include <lazyprune/policy/schedule/prompt_only.hpp>
#include <lazyprune/policy/schedule/prompt_sets.hpp>
#include <lazyprune/policy/schedule/stages.hpp>
#include <lazyprune/policy/scorer/any_scorer.hpp>
#include <lazyprune/policy/selector/any_selector.hpp>
#include <lazyprune/policy/selector/protect.hpp>
#include <lazyprune/policy/store/any_store.hpp>
#include <lazyprune/session/any_session.hpp>
#include <lazyprune/session/query_attention.hpp>
#include <lazyprune/session/trace.hpp>
#include <lazyprune/version.hpp>
