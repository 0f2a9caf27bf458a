// SPDX-License-Identifier: MIT
// Tests examples/c_library/engine.c.
#include "engines.hpp"

using namespace engines;

TEST_CASE("the engine in C keeps the same tokens as the program") {
  const auto engine = [](const engine_run& run) {
    std::vector<std::string> arguments{bundled_model, run.ids_file, "policy", run.policy, "tokens", tokens};
    arguments.insert(arguments.end(), run.read.begin(), run.read.end());
    if (run.fused) arguments.emplace_back("fused");
    return running_program(std::move(arguments), "", {}, LAZYPRUNE_C_ENGINE).wait();
  };
  same_kept_sets({pruned, dense}, engine, [](std::size_t, std::size_t policy) {
    return policy == 0 ? std::vector<way>(ways.begin(), ways.end()) : std::vector<way>{ways[1]};
  });

  // The next scorers need other evidence, in this order: the attention of several queries, values, keys, no evidence, the attention in
  // every layer, and the attention of chosen heads. A fused engine shows queries and keys instead of probabilities.
  const temporary_folder files;
  const std::string ids = prompts_as_ids().front();
  write_ids(files / "ids", ids);
  for (const char* scorer : {"window_attention:window=8", "value_weighted_attention", "key_norm", "recency", "accumulated_attention",
                             "calibrated_attention:window=8,block=4,probes=2.0.1.mean.mean@0.5/2.1.0.last.max@1/4.2.1.max.max@1"})
    for (const bool fused : {false, true}) {
      const std::string flags = "--stages 2:0.5,4:0.3 --scorer " + std::string(scorer);
      std::vector<std::string> arguments{"run",          "--ids",       ids,         "-n",      tokens,
                                         "--ignore-eos", "--backend",   "reference", "--trace", files / "expected.jsonl",
                                         "--stages",     "2:0.5,4:0.3", "--scorer",  scorer};
      REQUIRE(lazyprune_program(arguments).code == 0);
      const engine_run run{"custom " + flags, files / "ids", ways[0], fused};
      compare_with(lazyprune::read_trace(files / "expected.jsonl"), run, engine(run), files / "found.jsonl");
    }
}
