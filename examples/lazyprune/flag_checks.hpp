// SPDX-License-Identifier: MIT
// Checks flags that need or exclude each other, and refuses an output that would replace an input. Each check throws `error` with the name
// of the wrong flag.
#pragma once

#include "commands/bench.hpp"
#include "commands/calibrate.hpp"
#include "commands/eval.hpp"
#include "commands/fidelity.hpp"
#include "commands/merge.hpp"
#include "commands/run.hpp"
#include "commands/search.hpp"
#include "commands/serve.hpp"
#include "commands/sweep.hpp"
#include "commands/tokenize.hpp"

namespace lazyprune {
namespace program {

void check_flags(const run_flags& flags);
void check_flags(const bench_flags& flags);
void check_flags(const tokenize_flags& flags);
void check_flags(const eval_flags& flags);
void check_flags(const calibrate_flags& flags);
void check_flags(const fidelity_flags& flags);
void check_flags(const sweep_flags& flags);
void check_flags(const search_flags& flags);
void check_flags(const merge_flags& flags);
void check_flags(const serve_flags& flags);

}  // namespace program
}  // namespace lazyprune
