// SPDX-License-Identifier: MIT
// Sequences with different policies, prompts and options, for tests of batches.
#pragma once

#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generation.hpp>
#include <lazyprune/session/any_session.hpp>

#include <cstddef>
#include <vector>

namespace lazyprune_test {

struct sequence_asked {
  lazyprune::any_session session;
  std::vector<lazyprune::token_id> prompt;
  lazyprune::generation_options options{};
};

/// Returns requests to a model of 4 layers and at least 20 token ids. One batch may mix all of these.
inline std::vector<sequence_asked> many_asked() {
  using namespace lazyprune;
  const auto session = [](auto policy) { return any_session(policy, {.layers = 4}); };
  const auto of_length = [](std::size_t n) {
    generation_options options;
    options.max_new = n;
    return options;
  };
  const std::vector<token_id> prompt{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  std::vector<sequence_asked> all;
  all.push_back({session(dense()), prompt, of_length(9)});
  all.push_back({session(lazyllm({{1, 0.5}, {3, 0.3}})), {9, 8, 7, 6, 5, 4, 3, 2, 1, 10, 11, 12, 13, 14}, of_length(5)});
  all.push_back({session(lazyllm({{2, 0.2}})), prompt, of_length(1)});
  all.push_back({session(dense()), {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3}, of_length(12)});
  all.back().options.speculate = 5;
  all.push_back({session(dense()), {7}, of_length(20)});
  all.back().options.context = 6;
  all.push_back({session(lazyllm({{3, 0.5}})), prompt, of_length(8)});
  all.back().options.sampler = {.temperature = 0.9, .top_k = 5, .top_p = 1, .min_p = 0};
  all.push_back({session(dense()), prompt, of_length(0)});
  all.push_back({session(lazyllm({{2, 0.5}})), prompt, {}});
  all.back().options.force = {4, 3, 2, 1, 5, 6};
  for (sequence_asked& asked : all) {
    asked.options.trace = asked.options.speculate == 0;
    asked.options.chunk = 4;
  }
  return all;
}

}  // namespace lazyprune_test
