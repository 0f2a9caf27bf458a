// SPDX-License-Identifier: MIT
#include "engine/engine.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <span>
#include <vector>

#include "programs/questions/pocket_prompt.hpp"

#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>

using namespace lazyprune;
using namespace lazyprune::program;

TEST_CASE("an answer under another policy goes on from a beginning: it is the same, and the rest alone is computed") {
  const lazyprune_test::pocket_prompt pocket;
  const std::span<const token_id> prompt = pocket.tokens;
  constexpr std::size_t shared = 70;
  const auto session = [&](const stages& where) { return any_session(lazyprune::lazyllm(where), {.layers = pocket.files.layers()}); };
  const stages first{{3, 0.5}};
  generation_options options;
  options.max_new = 4;
  options.expected = prompt.size() + options.max_new;
  const std::unique_ptr<text_beginning> beginning = pocket.model->read(session(first), prompt.first(shared), options);
  REQUIRE(beginning);
  CHECK(beginning->rows() == 3 * shared);

  options.trace = true;
  for (const stages& where : {stages{}, stages{{5, 0.1}}, first}) {
    const generation whole = pocket.model->generate(session(where), prompt, options);
    const generation rest = beginning->generate(session(where), prompt.subspan(shared), options);
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
