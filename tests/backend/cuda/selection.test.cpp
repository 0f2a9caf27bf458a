// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cuda/selection.cuh>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <lazyprune/backend/cuda/launch.hpp>
#include <lazyprune/policy/selector/blocks.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include <lazyprune/session/selection.hpp>

#include "../../test_data.hpp"
#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

using indices = std::vector<std::uint32_t>;

struct selection_case {
  std::vector<float> scores;
  std::vector<position> positions;
  std::vector<candidacy> standing;
  std::size_t keep;
  unsigned page;
};

/// The result of a session's selection: the tokens that stay, and those that go.
struct selected_tokens {
  indices chosen, dropped;
  std::size_t not_finite;
};

/// Makes a selector require the tokens of a case.
template <class Selector>
struct requiring {
  Selector selector;
  const selection_case* of;
  std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const {
    candidates all = c;
    std::size_t required = 0;
    for (std::size_t i = 0, t = 0; i < c.positions.size(); ++i) {
      while (of->positions[t] != c.positions[i]) ++t;
      if (of->standing[t] == candidacy::required) c.scores[i] = std::numeric_limits<float>::infinity();
      required += of->standing[t] == candidacy::required;
    }
    all.keep = std::max(all.keep, required);
    return selector.select(all, kept);
  }
};

/// Selects as a session does, by session/selection.hpp.
template <class Selector>
selected_tokens by_session(const Selector& selector, const selection_case& c) {
  std::vector<position> active = c.positions;
  selection_scratch scratch;
  scratch.reserve(active.size());
  scratch.scores = c.scores;
  const auto at = [&](position t) {
    return static_cast<std::size_t>(std::lower_bound(c.positions.begin(), c.positions.end(), t) - c.positions.begin());
  };
  const position query = c.positions.back();
  const auto outcome = select(requiring<Selector>{selector, &c}, {c.keep, query}, active, scratch,
                              [&](position t) { return c.standing[at(t)] != candidacy::excluded; });
  REQUIRE_FALSE(outcome.fault);
  selected_tokens all{};
  for (const position t : active) all.chosen.push_back(static_cast<std::uint32_t>(at(t)));
  for (const position t : scratch.eligible) all.dropped.push_back(static_cast<std::uint32_t>(at(t)));
  all.not_finite = static_cast<std::size_t>(std::count_if(c.scores.begin(), c.scores.end(), [](float s) { return !is_finite(s); }));
  return all;
}

selected_tokens expected(const selection_case& c) { return c.page == 1 ? by_session(top_k{}, c) : by_session(blocks{c.page}, c); }

/// Runs the kernel for `count` tokens. The memory after each list must not change.
selected_tokens on_the_device(const selection_case& c, std::size_t count, unsigned threads) {
  constexpr std::uint32_t untouched = 0xdeadbeef;
  const std::size_t n = c.scores.size();
  on_device<float> scores(c.scores);
  on_device<position> positions(c.positions);
  on_device<candidacy> standing(c.standing);
  on_device<std::uint32_t> scratch(2 * n), chosen(indices(count + 1, untouched)), chosen_in_first_layer(indices(count + 1, untouched)),
      dropped(indices(n - count + 1, untouched)), numbers(3);
  device::token_selection s{};
  s.scores = scores.data();
  if (c.page > 1) s.positions = positions.data();
  s.standing = standing.data();
  s.active = static_cast<unsigned>(n);
  s.count = static_cast<unsigned>(count);
  s.page = c.page;
  s.scratch = scratch.data();
  s.chosen = chosen.data();
  s.chosen_in_first_layer = chosen_in_first_layer.data();
  s.dropped = dropped.data();
  s.numbers = numbers.data();
  device::launch(device::choose_tokens<>, {1}, {threads}, device::selection_block::shared_bytes, device::stream(), s);
  const indices found = numbers.numbers();
  selected_tokens all{chosen.numbers(), dropped.numbers(), found[2]};
  CHECK(found[0] == count);
  CHECK(all.chosen.back() == untouched);
  CHECK(all.dropped.back() == untouched);
  CHECK(std::all_of(all.dropped.begin() + found[1], all.dropped.end() - 1, [](std::uint32_t i) { return i == 0; }));
  CHECK(chosen_in_first_layer.numbers() == all.chosen);
  all.chosen.pop_back();
  all.dropped.resize(found[1]);
  return all;
}

/// Draws scores with ties, NaN and infinities, positions with gaps, and required and excluded tokens. The last token is the query token.
selection_case draw(std::size_t n, std::mt19937& random) {
  selection_case c{std::vector<float>(n), std::vector<position>(n), std::vector<candidacy>(n, candidacy::open), 1 + random() % n,
                   random() % 2 ? 1u : static_cast<unsigned>(1 + random() % 40)};
  const auto kind = random() % 4;
  std::uniform_real_distribution<float> smooth(-1.0f, 1.0f);
  for (float& s : c.scores) {
    s = kind == 0 ? static_cast<float>(random() % 4) - 1.0f : kind == 1 ? 0.5f : smooth(random);
    if (kind == 2 && random() % 2) s = -0.0f * s;
    if (random() % 31 == 0) s = std::numeric_limits<float>::quiet_NaN();
    if (random() % 37 == 0) s = std::numeric_limits<float>::infinity();
    if (random() % 41 == 0) s = -std::numeric_limits<float>::infinity();
    if (random() % 43 == 0) s = std::numeric_limits<float>::max();
    if (random() % 47 == 0) s = -std::numeric_limits<float>::quiet_NaN();
  }
  const auto gap = 1 + random() % 3, required = 1 + random() % 40, excluded = random() % 2 ? 1 + random() % 10 : 0;
  position next = 0;
  for (std::size_t i = 0; i < n; ++i) {
    c.positions[i] = next += static_cast<position>(1 + random() % gap);
    if (random() % required == 0) c.standing[i] = candidacy::required;
    if (excluded > 0 && random() % excluded == 0) c.standing[i] = candidacy::excluded;
  }
  c.standing.back() = candidacy::required;
  return c;
}

}  // namespace

TEST_CASE("the device chooses the tokens that a session selects: ties, NaN, infinities, required and excluded tokens, pages") {
  std::mt19937 random(1);
  std::size_t none_dropped = 0, with_pages = 0, all_required = 0;
  for (int run = 0; run < (test_all ? 5000 : 600); ++run) {
    CAPTURE(run);
    const std::size_t n = run < 300 ? 1 + static_cast<std::size_t>(run) / 6 : run % 200 == 0 ? 1000 + random() % 3000 : 1 + random() % 150;
    CAPTURE(n);
    const selection_case c = draw(n, random);
    const selected_tokens wanted = expected(c);
    const unsigned threads = run % 3 == 0 ? 32 * static_cast<unsigned>(1 + random() % 8) : device::selection_block::threads_for(n);
    const selected_tokens found = on_the_device(c, wanted.chosen.size(), threads);
    REQUIRE(found.chosen == wanted.chosen);
    REQUIRE(found.dropped == wanted.dropped);
    REQUIRE(found.not_finite == wanted.not_finite);
    none_dropped += wanted.dropped.empty();
    with_pages += c.page > 1;
    all_required += wanted.chosen.size() == static_cast<std::size_t>(std::ranges::count(c.standing, candidacy::required));
  }
  CHECK(none_dropped > 0);
  CHECK(with_pages > 100);
  CHECK(all_required > 0);
}

TEST_CASE("selections follow each other on the device: each reads the tokens that the one before it chose") {
  std::mt19937 random(2);
  for (const std::size_t n : {40u, 333u, 1200u}) {
    CAPTURE(n);
    selection_case c = draw(n, random);
    c.page = 1;
    std::ranges::replace(c.standing, candidacy::excluded, candidacy::open);
    std::ranges::replace(c.standing, candidacy::required, candidacy::open);
    c.standing.back() = c.standing.front() = candidacy::required;
    on_device<candidacy> standing(c.standing);
    const auto half = static_cast<unsigned>(n / 2), quarter = half / 2;
    on_device<std::uint32_t> scratch(2 * n), numbers(3), first(half), second(quarter), tokens(half), last(quarter);
    std::vector<float> all_scores(n);
    for (float& s : all_scores) s = static_cast<float>(random() % 50);
    on_device<float> scores(c.scores), later_scores(all_scores);
    device::token_selection s{};
    s.scores = scores.data();
    s.standing = standing.data();
    s.active = static_cast<unsigned>(n);
    s.count = half;
    s.page = 1;
    s.scratch = scratch.data();
    s.chosen = first.data();
    s.chosen_in_first_layer = tokens.data();
    s.numbers = numbers.data();
    const auto run = [&] {
      device::launch(device::choose_tokens<>, {1}, {device::selection_block::threads_for(s.active)}, device::selection_block::shared_bytes,
                     device::stream(), s);
    };
    run();
    s.scores = later_scores.data();
    s.in_first_layer = tokens.data();
    s.active = half;
    s.count = quarter;
    s.chosen = second.data();
    s.chosen_in_first_layer = last.data();
    run();

    c.keep = half;
    const indices kept = expected(c).chosen;
    selection_case next{{}, {}, {}, quarter, 1};
    for (std::size_t i = 0; i < kept.size(); ++i) {
      next.scores.push_back(all_scores[i]);
      next.positions.push_back(c.positions[kept[i]]);
      next.standing.push_back(c.standing[kept[i]]);
    }
    const indices wanted = expected(next).chosen;
    const indices found = second.numbers(), found_tokens = last.numbers();
    CHECK(found == wanted);
    for (std::size_t i = 0; i < quarter; ++i) CHECK(found_tokens[i] == kept[wanted[i]]);
  }
}

TEST_CASE("a count that is too small for the required tokens, or larger than the candidates, writes past no list") {
  std::mt19937 random(3);
  selection_case c = draw(200, random);
  c.page = 1;
  const auto found = [&](candidacy standing_of_all, unsigned count) {
    std::ranges::fill(c.standing, standing_of_all);
    on_device<float> scores(c.scores);
    on_device<candidacy> standing(c.standing);
    on_device<std::uint32_t> scratch(400), chosen(count), in_first_layer(count), numbers(3);
    device::token_selection s{};
    s.scores = scores.data();
    s.standing = standing.data();
    s.active = 200;
    s.count = count;
    s.page = 1;
    s.scratch = scratch.data();
    s.chosen = chosen.data();
    s.chosen_in_first_layer = in_first_layer.data();
    s.numbers = numbers.data();
    device::launch(device::choose_tokens<>, {1}, {64}, device::selection_block::shared_bytes, device::stream(), s);
    for (const std::uint32_t i : chosen.numbers()) CHECK(i < 200);
    CHECK(in_first_layer.numbers() == chosen.numbers());
    return numbers.numbers()[0];
  };
  CHECK(found(candidacy::required, 5) == 200);  // the host sees that the count was wrong (made_choice::stayed)
  CHECK(found(candidacy::excluded, 5) == 0);
  CHECK(found(candidacy::open, 200) == 200);
}

TEST_CASE("numbers are gathered, and moves are listed, by lists on the device") {
  constexpr unsigned count = 70, threads = 32, grid = (count + threads - 1) / threads;
  std::vector<std::uint32_t> numbers(200), list(count), to(count);
  for (std::uint32_t i = 0; i < numbers.size(); ++i) numbers[i] = 7 * i + 1;
  for (std::uint32_t i = 0; i < count; ++i) list[i] = 2 * i + i % 3, to[i] = i * 3 % count;
  on_device<std::uint32_t> from(numbers), chosen(list), places(to), gathered(count);
  device::launch(device::gather_numbers<>, {grid}, {threads}, 0, device::stream(), from.data(), chosen.data(), count, gathered.data());
  const indices found = gathered.numbers();
  for (std::uint32_t i = 0; i < count; ++i) CHECK(found[i] == numbers[list[i]]);

  char* const source = reinterpret_cast<char*>(0x10000);
  std::vector<char*> blocks{reinterpret_cast<char*>(0x500000), reinterpret_cast<char*>(0x300000), reinterpret_cast<char*>(0x800000)};
  on_device<char*> block_list(blocks);
  on_device<device::row_move> moves(count);
  const device::row_places rows{source, 48, {}, 1}, paged{nullptr, 20, block_list.data(), 32};
  device::launch(device::list_moves<>, {grid}, {threads}, 0, device::stream(), rows, chosen.data(), paged, places.data(), count,
                 moves.data());
  const std::vector<device::row_move> listed = moves.numbers();
  for (std::uint32_t i = 0; i < count; ++i) {
    CHECK(listed[i].from == source + 48 * list[i]);
    CHECK(listed[i].to == blocks[to[i] / 32] + to[i] % 32 * 20);
  }
  device::launch(device::list_moves<>, {grid}, {threads}, 0, device::stream(), paged, nullptr, rows, nullptr, count, moves.data());
  CHECK(moves.numbers()[40].from == blocks[1] + 8 * 20);
  CHECK(moves.numbers()[40].to == source + 40 * 48);
}
