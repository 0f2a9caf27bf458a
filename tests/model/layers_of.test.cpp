// SPDX-License-Identifier: MIT
#include <lazyprune/model/layers_of.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

TEST_CASE("if only some layers have a window, attention can prune only after layers without one, otherwise after any layer") {
  model_config c;
  c.layers = 6;
  CHECK(layers_of(c) == model_layers(6));
  c.windows = {4, 4, 4, 4, 4, 4};
  CHECK(layers_of(c) == model_layers(6));
  c.windows = {4, 4, 0, 4, 4, 0};
  CHECK(layers_of(c) == model_layers(6, std::vector<layer_id>{3}));
  c.windows = {4, 4, 4, 4, 4, 0};
  CHECK(layers_of(c).attention_after->empty());
  c.windows = {0, 0, 0, 0, 4, 4};
  CHECK(*layers_of(c).attention_after == std::vector<layer_id>{1, 2, 3, 4});
}
