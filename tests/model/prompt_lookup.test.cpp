// SPDX-License-Identifier: MIT
#include <lazyprune/model/prompt_lookup.hpp>

#include <lazyprune/core/mix.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

namespace {

using tokens = std::vector<token_id>;

/// Looks up a draft by the definition: a longer match is better than a shorter one, and among equally long ones the latest is best.
tokens naive_lookup(const tokens& ids, std::size_t count, std::size_t longest) {
  for (std::size_t n = std::min(longest, ids.size()); n > 0; --n)
    for (std::size_t first = ids.size() - n; first-- > 0;) {
      if (!std::equal(ids.end() - static_cast<std::ptrdiff_t>(n), ids.end(), ids.begin() + static_cast<std::ptrdiff_t>(first))) continue;
      tokens going_on = ids;
      for (std::size_t i = 0; i < count; ++i) going_on.push_back(going_on[first + n + i]);
      return {going_on.begin() + static_cast<std::ptrdiff_t>(ids.size()), going_on.end()};
    }
  return {};
}

}  // namespace

TEST_CASE("the draft is what followed an earlier occurrence of the last tokens") {
  CHECK(prompt_lookup(tokens{1, 2, 3, 4, 5, 1, 2}, 3) == tokens{3, 4, 5});
  CHECK(prompt_lookup(tokens{7, 2, 8, 1, 2, 9, 3, 1, 2}, 2) == tokens{9, 3});     // two matching tokens are better than one
  CHECK(prompt_lookup(tokens{1, 2, 8, 1, 2, 9, 1, 2}, 1) == tokens{9});           // the later of two equally long matches
  CHECK(prompt_lookup(tokens{5, 1, 2, 8, 4, 1, 2, 9, 5, 1, 2}, 1) == tokens{8});  // an earlier but longer match
  CHECK(prompt_lookup(tokens{5, 1, 2, 8, 4, 1, 2, 9, 5, 1, 2}, 1, 2) == tokens{9});
}

TEST_CASE("if the tokens after a match reach the end of the sequence, the draft repeats its own tokens") {
  CHECK(prompt_lookup(tokens{3, 6}, 3).empty());
  CHECK(prompt_lookup(tokens{3, 6, 6}, 3) == tokens{6, 6, 6});
  CHECK(prompt_lookup(tokens{3, 1, 2, 1, 2}, 5) == tokens{1, 2, 1, 2, 1});
}

TEST_CASE("without a match, or if no tokens are asked for, the draft is empty") {
  CHECK(prompt_lookup(tokens{}, 4).empty());
  CHECK(prompt_lookup(tokens{1}, 4).empty());
  CHECK(prompt_lookup(tokens{1, 2, 3, 4}, 4).empty());
  CHECK(prompt_lookup(tokens{1, 1}, 0).empty());
  CHECK(prompt_lookup(tokens{1, 1}, 4, 0).empty());
}

TEST_CASE("for random sequences, the draft is the one that follows from the definition") {
  std::size_t found = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    tokens ids(mix(seed, 0) % 40);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<token_id>(mix(seed, i + 3) % (2 + seed % 5));
    const std::size_t count = mix(seed, 1) % 9, longest = mix(seed, 2) % 10;
    const tokens draft = prompt_lookup(ids, count, longest);
    CHECK(draft == naive_lookup(ids, count, longest));
    found += !draft.empty();
  }
  CHECK(found > 1000);
}
