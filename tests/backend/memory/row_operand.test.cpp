// SPDX-License-Identifier: MIT
#include <lazyprune/backend/memory/row_operand.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

TEST_CASE("an operand has as many rows as it was prepared for, and keeps its memory") {
  row_operand<double> operand(7);
  CHECK(operand.columns() == 7);
  CHECK(operand.rows() == 0);
  CHECK(operand.bytes() == 0);
  operand.prepare(5);
  CHECK(operand.view().rows == 5);
  CHECK(operand.view().columns == 7);
  const std::size_t bytes = operand.bytes();
  CHECK(bytes >= 5 * 7 * sizeof(double));
  operand.view().row(2)[6] = 1.5;
  const row_operand<double>& same = operand;
  CHECK(same.view().row(2)[6] == 1.5);
  operand.prepare(3);
  CHECK(operand.rows() == 3);
  CHECK(same.view().rows == 3);
  CHECK(operand.bytes() == bytes);
}
