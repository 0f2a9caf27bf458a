// SPDX-License-Identifier: MIT
// Tests what each fault does to a single operation. trace_replay.test.cpp tests whole models.
#include "traces/faulty_reference.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace lazyprune;
using namespace lazyprune::program;

namespace {

using row_store = faulty_reference::row_store;

/// Stores the rows 1, 2 and 3 in slots 4, 0 and 2. Returns the rows that the backend then reads back from these slots.
std::vector<double> through_the_store(hidden_fault fault) {
  faulty_reference backend;
  backend.now->fault = fault;
  std::vector<double> x{1, 2, 3}, back(3);
  row_store store(1);
  const std::vector<std::uint32_t> rows{0, 1, 2}, slots{4, 0, 2};
  backend.store_rows({x.data(), 3, 1, 1}, rows, store, slots);
  backend.take_rows(store, slots, {back.data(), 3, 1, 1}, rows);
  return back;
}

/// Returns the positions by which three rows are rotated: 2 and 5 are revived, 9 is the last position of the sequence.
std::vector<position> turned_by(hidden_fault fault) {
  faulty_reference backend;
  *backend.now = {fault, 9, {0, 2, 4, 5, 9}, {2, 5, 9}, {2, 5}, {2, 5}};
  const std::vector<double> frequencies{0.1};
  const auto rope = backend.make_rope(frequencies, 1.0, 12);
  std::vector<double> x{1, 0, 1, 0, 1, 0};
  backend.rotate({x.data(), 3, 2, 2}, 2, std::vector<position>{2, 5, 9}, rope);
  std::vector<position> angles;
  for (std::size_t r = 0; r < 3; ++r) angles.push_back(static_cast<position>(std::lround(std::atan2(x[2 * r + 1], x[2 * r]) * 10)));
  return angles;
}

}  // namespace

TEST_CASE("with each fault, revived rows are read from the expected slots") {
  using faults = hidden_fault;
  CHECK(through_the_store(faults::none) == std::vector<double>{1, 2, 3});
  CHECK(through_the_store(faults::reversed_slots) == std::vector<double>{3, 2, 1});
  CHECK(through_the_store(faults::next_slot) == std::vector<double>{2, 3, 1});
  CHECK(through_the_store(faults::ascending_slots) == std::vector<double>{2, 3, 1});
  CHECK(through_the_store(faults::reversed_spills) == std::vector<double>{3, 2, 1});
  CHECK(through_the_store(faults::forgotten_keys) == std::vector<double>{1, 2, 3});
}

TEST_CASE("with each fault, rows are rotated by the expected positions") {
  using faults = hidden_fault;
  CHECK(turned_by(faults::none) == std::vector<position>{2, 5, 9});
  CHECK(turned_by(faults::next_position) == std::vector<position>{3, 6, 9});
  CHECK(turned_by(faults::last_position) == std::vector<position>{9, 9, 9});
  CHECK(turned_by(faults::index_in_active) == std::vector<position>{1, 3, 4});
  CHECK(turned_by(faults::index_in_rows) == std::vector<position>{0, 1, 2});
}

TEST_CASE("each fault has its own name") {
  std::vector<std::string_view> names;
  for (const hidden_fault fault : hidden_faults) names.push_back(name_of(fault));
  std::ranges::sort(names);
  CHECK(std::ranges::adjacent_find(names) == names.end());
  CHECK(names.size() == 9);
}
