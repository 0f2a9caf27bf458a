// SPDX-License-Identifier: MIT
#include "engine/engine.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <span>
#include <vector>

#include "programs/questions/pocket_prompt.hpp"

#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generation.hpp>

using namespace lazyprune;
using namespace lazyprune::program;

TEST_CASE("answers under several policies share a prefix: the answers are the same as alone, and only the rest of the prompt is computed") {
  const lazyprune_test::pocket_prompt pocket;
  const std::span<const token_id> prompt = pocket.tokens;
  constexpr std::size_t shared = 70;
  const auto session = [&](const stages& where) { return any_session(lazyprune::lazyllm(where), {.layers = pocket.files.layers()}); };
  const stages first{{3, 0.5}};
  generation_options options;
  options.max_new = 4;
  options.expected = prompt.size() + options.max_new;
  const std::unique_ptr<prompt_prefix> beginning = pocket.model->read(session(first), prompt.first(shared), options);
  REQUIRE(beginning);
  CHECK(beginning->rows() == 3 * shared);

  options.trace = true;
  const std::vector<stages> policies{stages{}, stages{{5, 0.1}}, first};
  std::vector<sequence_request> requests;
  for (const stages& where : policies) {
    requests.push_back({session(where), prompt.subspan(shared), options, beginning.get()});
    requests.push_back({session(where), prompt, options});
  }
  const std::vector<generation> together = pocket.model->generate(std::move(requests));
  REQUIRE(together.size() == 2 * policies.size());
  for (std::size_t i = 0; i < policies.size(); ++i) {
    CAPTURE(i);
    const generation whole = pocket.model->generate(session(policies[i]), prompt, options);
    const generation &rest = together[2 * i], &alone = together[2 * i + 1];
    CHECK(alone.tokens == whole.tokens);
    CHECK(alone.cost.prefill_rows == whole.cost.prefill_rows);
    CHECK(alone.share_prompt == whole.share_prompt);
    CHECK(rest.tokens == whole.tokens);
    CHECK(rest.cost.prefill_rows == whole.cost.prefill_rows);
    CHECK(rest.share_prompt == whole.share_prompt);
    REQUIRE(rest.trace.size() == whole.trace.size());
    for (layer_id l = 0; l < pocket.files.layers(); ++l) {
      const auto &in_rest = rest.trace[0].layers[l], &in_whole = whole.trace[0].layers[l];
      CHECK(in_rest.active == in_whole.active);
      CHECK(in_rest.rows.size() == in_whole.rows.size() - (l < 3 ? shared : 0));
    }
  }
  CHECK(beginning->rows() == 3 * shared);
}
