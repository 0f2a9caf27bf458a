// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/prefix_search.hpp>

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using lazyprune::prefix_search;
using lazyprune::token_id;

namespace {

std::vector<std::pair<std::size_t, token_id>> found(const prefix_search& search, std::string_view text) {
  std::vector<std::pair<std::size_t, token_id>> all;
  search.each(text, [&](std::size_t size, token_id id) { all.emplace_back(size, id); });
  return all;
}

}  // namespace

TEST_CASE("the shortest piece comes first; of equal pieces, the first one counts") {
  const prefix_search search({{"ab", 0}, {"a", 1}, {"abc\xff", 2}, {"b", 3}, {"a", 4}});
  CHECK(found(search,
              "abc\xff"
              "d") == std::vector<std::pair<std::size_t, token_id>>{{1, 1}, {2, 0}, {4, 2}});
  CHECK(found(search, "ab").size() == 2);
  CHECK(found(search, "c").empty());
  CHECK(found(search, "").empty());
  CHECK(found(prefix_search(), "a").empty());
}

TEST_CASE("among random pieces, a search finds those with which the text begins") {
  std::mt19937 random(3);
  const auto word = [&](std::size_t most) {
    std::string text(1 + random() % most, 'a');
    for (char& c : text) c = "ab\xff"[random() % 3];
    return text;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> pieces;
    for (int i = 0; i < 30; ++i) pieces.push_back(word(5));
    std::vector<prefix_search::entry> entries;
    for (const std::string& piece : pieces) entries.emplace_back(piece, static_cast<token_id>(entries.size()));
    const prefix_search search(entries);
    const std::string text = word(8);
    std::vector<std::pair<std::size_t, token_id>> expected;
    for (std::size_t size = 1; size <= text.size(); ++size)
      for (std::size_t i = 0; i < pieces.size(); ++i)
        if (pieces[i] == text.substr(0, size)) {
          expected.emplace_back(size, static_cast<token_id>(i));
          break;
        }
    CHECK(found(search, text) == expected);
  }
}
