// SPDX-License-Identifier: MIT
#include <lazyprune/backend/block_format.hpp>

#include <doctest/doctest.h>

#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("every format fits into a quantized_block") {
  for (const block_format& format : block_formats) {
    CHECK(format.inputs <= quantized_block::most_inputs);
    CHECK(format.groups() <= quantized_block::most_groups);
    CHECK(format.inputs % format.group == 0);
    CHECK_FALSE((format.has_least && format.offset != 0));
  }
}
