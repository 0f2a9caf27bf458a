// SPDX-License-Identifier: MIT
#include <lazyprune/model/rotary_table.hpp>

#include <lazyprune/backend/reference.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <thread>
#include <vector>

using namespace lazyprune;

namespace {

model_config eight_wide() {
  model_config c;
  c.head_dim = 8;
  c.max_positions = 1000;
  c.rope.theta = 100.0;
  return c;
}

void check(const rotary_table<reference<double>>::table& part) {
  const rope_frequencies f = frequencies_of(eight_wide().rope, 8);
  for (position p = 0; p < part.positions; ++p)
    for (std::size_t i = 0; i < 4; ++i) {
      REQUIRE(part.values.cosines(p)[i] == std::cos(p * f.radians[i]));
      REQUIRE(part.values.sines(p)[i] == std::sin(p * f.radians[i]));
    }
}

}  // namespace

TEST_CASE("the table is as long as asked, then doubles, up to the model's positions; older tables stay valid") {
  reference<double> backend{execution{}};
  const rotary_table<reference<double>> table(eight_wide());
  const auto first = table.reach(backend, 10);
  CHECK(first->positions == 10);
  CHECK(first->bytes_of(10) == first->values.bytes());
  CHECK(table.reach(backend, 3) == first);
  const auto second = table.reach(backend, 11);
  CHECK(second->positions == 20);
  CHECK(second->bytes_of(10) == first->bytes_of(10));
  CHECK(table.reach(backend, 700)->positions == 700);
  CHECK(table.reach(backend, 701)->positions == 1000);
  for (const auto& part : {first, second, table.reach(backend, 1000)}) check(*part);
}

TEST_CASE("several threads may extend a table at the same time") {
  const rotary_table<reference<double>> table(eight_wide());
  std::vector<std::shared_ptr<const rotary_table<reference<double>>::table>> parts(4 * 50);
  {
    std::vector<std::jthread> running;
    for (std::size_t t = 0; t < 4; ++t)
      running.emplace_back([&, t] {
        reference<double> backend{execution{}};
        for (std::size_t i = 0; i < 50; ++i) parts[t * 50 + i] = table.reach(backend, 1 + i * 17 + t);
      });
  }
  for (std::size_t i = 0; i < parts.size(); ++i) REQUIRE(parts[i]->positions >= 1 + i % 50 * 17 + i / 50);
  check(*parts.back());
}
