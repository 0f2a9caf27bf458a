// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/bpe.hpp>

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <files/support.hpp>

using lazyprune::bpe;
using lazyprune::bpe_options;
using lazyprune::token_id;
using lazyprune::vocabulary;
using ids = std::vector<token_id>;

namespace {

bpe small(bpe_options options) {
  bpe model(vocabulary({"<unk>", "a", "b", "c", "ab", "abc", "bc", "<0xC3>", "<0xA9>", "aa", "abcc"}), options);
  for (const auto& [left, right] : {std::pair("b", "c"), {"a", "b"}, {"ab", "c"}, {"a", "a"}}) model.merge(left, right);
  return model;
}

ids encoded(const bpe& model, std::string_view word) {
  ids out;
  model.encode(word, out);
  return out;
}

}  // namespace

TEST_CASE("words with and without unknown characters have the ids that tokenizers 0.23 gives") {
  const auto with = [](std::optional<token_id> unknown, bool fuse, bool bytes, bool ignore_merges) {
    return small({unknown, fuse, bytes, ignore_merges});
  };
  const bpe plain = small({}), one_by_one = with(0, false, false, false), fused = with(0, true, false, false),
            bytes = with(0, false, true, false), whole = with({}, false, false, true);
  CHECK(encoded(plain, "abc") == ids{1, 6});
  CHECK(encoded(plain, "abcc") == ids{1, 6, 3});
  CHECK(encoded(plain, "aaaaa") == ids{9, 9, 1});
  CHECK(encoded(plain, "axyb") == ids{4});
  CHECK(encoded(plain, "").empty());
  CHECK(encoded(one_by_one, "axyb") == ids{1, 0, 0, 2});
  CHECK(encoded(fused, "axyb") == ids{1, 0, 2});
  CHECK(encoded(fused, "x\xc3\xa9x") == ids{0});
  CHECK(encoded(bytes, "a\xc3\xa9x") == ids{1, 7, 8, 0});
  CHECK(encoded(bytes, "x\xc3\xa9x") == ids{7, 8, 0, 0});  // an unknown x waits for the next x or the end, but bytes do not wait
  CHECK(encoded(whole, "abc") == ids{5});
  CHECK(encoded(whole, "abcc") == ids{10});
}

TEST_CASE("among random merges, the pair with the lowest rank is always merged first, and the leftmost among equals") {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::optional<std::string>> pieces{"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> merges;
    std::map<std::string, token_id> known{{"a", 0}, {"b", 1}, {"c", 2}};
    while (pieces.size() < 30) {
      const std::string left = *pieces[random() % pieces.size()], right = *pieces[random() % pieces.size()];
      if (left.size() + right.size() > 8 || !known.emplace(left + right, static_cast<token_id>(pieces.size())).second) continue;
      pieces.emplace_back(left + right);
      merges.emplace_back(left, right);
    }
    bpe model{vocabulary(pieces), {}};
    for (const auto& [left, right] : merges) model.merge(left, right);
    std::string word(1 + random() % 40, ' ');
    for (char& c : word) c = static_cast<char>('a' + random() % 3);

    std::vector<std::string> parts;
    for (const char c : word) parts.emplace_back(1, c);
    for (const auto& [left, right] : merges) {  // merging in the order of ranks is enough: a merge only makes pairs of higher rank
      std::vector<std::string> next;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const bool merges_here = i + 1 < parts.size() && parts[i] == left && parts[i + 1] == right;
        next.push_back(merges_here ? left + right : parts[i]);
        if (merges_here) ++i;
      }
      parts = next;
    }
    ids expected;
    for (const std::string& part : parts) expected.push_back(known[part]);
    CHECK(encoded(model, word) == expected);
  }
}

TEST_CASE("a merge of unknown pieces is refused; a word of a million characters is encoded") {
  bpe model = small({});
  CHECK(lazyprune_test::error_of([&] { model.merge("a", "x"); }) == lazyprune_test::at("", {"\"x\""}));
  CHECK(lazyprune_test::error_of([&] { model.merge("c", "c"); }) == lazyprune_test::at("", {"\"cc\""}));
  CHECK(encoded(model, std::string(1'000'001, 'a')).size() == 500'001);
}
