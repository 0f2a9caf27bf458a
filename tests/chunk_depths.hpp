// SPDX-License-Identifier: MIT
// Policies that together use every part that a flag can choose, and how many layers a chunk of a prompt runs with each policy.
#pragma once

#include <lazyprune/core/types.hpp>

namespace lazyprune_test {

/// The flags of a policy, and how many of a model's 8 layers a chunk runs with them in each phase.
struct depth_of_chunks {
  const char* flags;
  lazyprune::layer_id prefill, decode;
};

inline constexpr depth_of_chunks depths_of_chunks[] = {
    {"lazyllm", 2, 2},
    {"lazyllm_blocks", 2, 2},
    {"static", 2, 8},
    {"random", 0, 8},
    {"streaming", 0, 0},
    {"streaming --schedule budget:after=0,tokens=12", 0, 0},
    {"fastv", 2, 8},
    {"pyramid_drop", 2, 8},
    {"tova", 8, 4},
    {"tova --schedule budget:after=3,tokens=12", 8, 3},
    {"pyramid_kv", 0, 8},
    {"prompt_distill", 3, 8},
    {"prompt_distill --schedule budget:after=2,tokens=12", 2, 8},
    {"dense", 8, 8},
    {"lazyllm --stages 3:0.5,5:0.5 --decode dense", 3, 8},
    {"lazyllm --stages 3:0.5,5:0.5 --decode only", 8, 3},
    {"lazyllm --stages 3:0.5,5:0.5 --scorer last_query_attention:over=max --store bounded:rows=6", 3, 3},
    {"lazyllm --stages 3:0.5,5:0.5 --scorer accumulated_attention --selector top_p:mass=0.8", 3, 3},
    {"lazyllm --stages 3:0.5,5:0.5 --scorer accumulated_attention:over=max,since=step --keep-first 4 --keep-last 4", 3, 3},
    {"lazyllm --stages 3:0.5,5:0.5 --scorer window_attention:window=5", 2, 2},
    {"lazyllm --stages 1:0.5 --scorer window_attention:window=5", 0, 0},
    {"lazyllm --stages 3:0.5,5:0.5 --scorer window_attention:window=5 --decode only", 8, 2},
    {"lazyllm --stages 3:0.5,5:0.5 --scorer prompt_window_attention:window=5", 3, 3},
    {"lazyllm --stages 3:0.5,5:0.5 --scorer prompt_window_attention:window=5 --decode only --store none", 8, 3},
    {"lazyllm --stages 3:0.5,5:0.5 --scorer value_weighted_attention --selector threshold:score=0.6", 3, 3},
    {"lazyllm --stages 3:0.5,5:0.5 --scorer key_norm --selector blocks:size=4 --store none", 3, 3},
    {"lazyllm --stages 3:0.5,5:0.5 --scorer recency --store none:for_good=true", 3, 3},
    {"lazyllm --stages 0:0.9,4:0.5 --scorer random", 0, 0},
    {"lazyllm --stages 4:0.5 --scorer random", 4, 4},
    {"static --stages 0:0.7 --scorer given_scores:scores=3/1/4/1/5/9/2/6/5/3/5", 0, 8},
    {"lazyllm --stages 3:0.5,5:0.5 --scorer calibrated_attention:window=5,block=4,probes=3.1.0.last.max.next@1/5.3.1.mean.mean@-0.5,following=2", 3, 3},
    {"lazyllm --schedule every:n=3,share=0.5", 3, 3},
    {"lazyllm --schedule linear:from=2,share=0.3", 3, 3},
    {"lazyllm --schedule linear:share=0.3 --scorer recency", 1, 1},
    {"lazyllm --schedule cosine:from=4,share=0.3", 5, 5},
    {"lazyllm --schedule budget:after=4,cost=0.7 --scorer key_norm", 4, 4},
    {"lazyllm --schedule adaptive:mass=0.6", 1, 1},
    {"lazyllm --schedule adaptive:from=5,mass=0.6 --scorer window_attention:window=5", 4, 4},
    {"lazyllm --schedule adaptive:from=0,mass=0.9 --scorer random", 0, 0},
    {"lazyllm --stages 3:0.5,5:0.5 --keep 2-5,30-33,60-62", 3, 3},
    {"lazyllm --stages 3:0.5,5:0.5 --least-tokens 53", 3, 3},
    {"lazyllm --stages 3:0.5,5:0.5 --least-tokens 60 --decode dense --store none", 3, 8},
    {"lazyllm --stages 3:0.5,5:0.5 --least-tokens 52 --decode only --keep 0-9", 8, 3},
    {"lazyllm --schedule adaptive:mass=0.6 --least-tokens 1000 --scorer window_attention:window=5", 0, 0},
};

}  // namespace lazyprune_test
