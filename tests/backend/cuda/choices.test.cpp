// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cuda/choices.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

using numbers_of_tokens = std::vector<std::uint32_t>;

/// Rows (tokens, 4) whose numbers tell their token.
std::vector<float> rows_with_tokens(const numbers_of_tokens& tokens) {
  std::vector<float> all;
  for (const std::uint32_t t : tokens)
    for (int i = 0; i < 4; ++i) all.push_back(static_cast<float>(4 * t) + static_cast<float>(i));
  return all;
}

}  // namespace

TEST_CASE("two selections of a step are queued: rows move, dropped rows are stored, positions follow, and the results come back at once") {
  const std::vector<position> positions{3, 4, 6, 7, 9, 10, 12, 13};
  std::vector<candidacy> standing(8, candidacy::open);
  standing[1] = standing[7] = candidacy::required;
  const std::vector<selection_size> sizes{{8, 5}, {5, 3}};
  const std::vector<float> first_scores{5, 0, 1, 9, 1, 7, 2, 0}, second_scores{1, 0, 8, 3, 0};
  on_device<float> scores(first_scores), later_scores(second_scores), x(rows_with_tokens({0, 1, 2, 3, 4, 5, 6, 7})), between(8 * 4);
  const rows_view<float> rows{x.data(), 8, 4, 4};

  device::lists lists;
  device::read_back back;
  device::row_store store(4);
  device::choices choices;
  choices.reserve(8, 2);
  const std::size_t reserved = choices.bytes();
  const numbers_of_tokens slots{2, 0, 1, 5, 4};
  store.reserve(slots, dtype::f32);
  choices.begin(positions, standing, 1, sizes, lists);
  choices.choose(scores.data());
  choices.store_dropped(rows, store, std::span(slots).first(3), lists);
  choices.take_chosen(rows, between.data());
  CHECK(numbers_at(choices.positions(), 5) == numbers_of_tokens{3, 4, 7, 10, 13});
  choices.choose(later_scores.data());
  choices.store_dropped(rows, store, std::span(slots).subspan(3), lists);
  choices.take_chosen(rows, between.data());
  CHECK(numbers_at(choices.positions(), 3) == numbers_of_tokens{4, 7, 13});
  CHECK(numbers_at(x.data(), 3 * 4) == rows_with_tokens({1, 3, 7}));
  const numbers_of_tokens dropped{2, 4, 6, 0, 5};
  for (std::size_t i = 0; i < dropped.size(); ++i)
    CHECK(numbers_at(static_cast<const float*>(store.row(slots[i])), 4) == rows_with_tokens({dropped[i]}));

  std::vector<made_choice> made;
  choices.read(made, back);
  REQUIRE(made.size() == 2);
  CHECK(std::vector(made[0].chosen.begin(), made[0].chosen.end()) == numbers_of_tokens{0, 1, 3, 5, 7});
  CHECK(std::vector(made[1].chosen.begin(), made[1].chosen.end()) == numbers_of_tokens{1, 2, 4});
  CHECK(std::vector(made[0].scores.begin(), made[0].scores.end()) == first_scores);
  CHECK(std::vector(made[1].scores.begin(), made[1].scores.end()) == second_scores);
  CHECK(made[0].stayed == 5);
  CHECK(made[1].stayed == 3);
  CHECK(made[0].finite);
  CHECK(choices.bytes() == reserved);
}

TEST_CASE("a score that is not finite is noticed, and does not leave its selection") {
  std::vector<position> positions(40);
  std::iota(positions.begin(), positions.end(), position{0});
  std::vector<candidacy> standing(40, candidacy::open);
  standing.back() = candidacy::required;
  const std::vector<selection_size> sizes{{40, 20}, {20, 8}};
  std::vector<float> numbers(40, 0.5f);
  on_device<float> good(numbers);
  numbers[11] = std::numeric_limits<float>::infinity();
  on_device<float> bad(numbers);
  device::lists lists;
  device::read_back back;
  device::choices choices;
  std::vector<made_choice> made;
  for (const bool first_is_bad : {true, false}) {
    choices.begin(positions, standing, 1, sizes, lists);
    choices.choose(first_is_bad ? bad.data() : good.data());
    choices.choose(first_is_bad ? good.data() : bad.data());
    choices.read(made, back);
    CHECK(made[0].finite == !first_is_bad);
    CHECK(made[1].finite == first_is_bad);
  }
}

TEST_CASE("if another number of tokens stays than the host expects, the host sees it, and no row outside the list is read") {
  const std::vector<position> positions{3, 4, 6, 7, 9, 10, 12, 13};
  std::vector<candidacy> standing(8, candidacy::excluded);
  const std::vector<selection_size> sizes{{8, 5}, {5, 5}};
  on_device<float> scores(std::vector<float>{5, 0, 1, 9, 1, 7, 2, 0}), x(rows_with_tokens({0, 1, 2, 3, 4, 5, 6, 7})), between(8 * 4);
  const rows_view<float> rows{x.data(), 8, 4, 4};
  device::lists lists;
  device::read_back back;
  device::choices choices;
  std::vector<made_choice> made;
  const auto choose = [&] {
    choices.begin(positions, standing, 1, sizes, lists);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      choices.choose(scores.data());
      choices.take_chosen(rows, between.data());
      for (const position p : numbers_at(choices.positions(), 5)) CHECK(std::ranges::count(positions, p) == 1);
    }
    choices.read(made, back);
  };
  standing[2] = standing[5] = standing[6] = candidacy::open;
  choose();
  CHECK(made[0].stayed == 3);
  CHECK(std::vector(made[0].chosen.begin(), made[0].chosen.end()) == numbers_of_tokens{2, 5, 6, 0, 0});
  std::ranges::fill(standing, candidacy::required);
  choose();
  CHECK(made[0].stayed == 8);
  CHECK(made[1].stayed == 5);
}
