// SPDX-License-Identifier: MIT
#include <lazyprune/eval/compression.hpp>

#include <doctest/doctest.h>

#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/text/model_tokenizer.hpp>

#include <fault.hpp>
#include <test_data.hpp>

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

namespace {

using ids = std::vector<token_id>;

constexpr double first = std::numeric_limits<double>::infinity();
const ids prompt{10, 11, 12, 13, 14, 15};
const std::vector<double> nats{first, 0.5, 3.0, 0.25, 3.5, 0.0};
constexpr token_range whole{0, 6};

}  // namespace

TEST_CASE("the most surprising tokens stay, in their order, with the first and the last") {
  CHECK(compressed(prompt, nats, whole, 1.0) == prompt);
  CHECK(compressed(prompt, nats, whole, 0.5) == ids{10, 14, 15});
  CHECK(compressed(prompt, nats, whole, 0.51) == ids{10, 12, 14, 15});  // the share is rounded up
  CHECK(compressed(prompt, nats, whole, 0.01) == ids{10, 15});
  CHECK(compressed(ids{7}, std::vector{first}, {0, 1}, 0.5) == ids{7});
}

TEST_CASE("tokens before and after the context stay, and count towards the share") {
  CHECK(compressed(prompt, nats, {2, 5}, 1.0) == prompt);
  CHECK(compressed(prompt, nats, {2, 5}, 0.75) == ids{10, 11, 12, 14, 15});
  CHECK(compressed(prompt, nats, {2, 5}, 0.6) == ids{10, 11, 14, 15});
  CHECK(compressed(prompt, nats, {2, 5}, 0.5) == ids{10, 11, 15});
  CHECK(compressed(prompt, nats, {2, 5}, 0.1) == ids{10, 11, 15});  // more than the share, because tokens outside the context always stay
  CHECK(compressed(prompt, nats, {1, 3}, 0.7) == ids{10, 12, 13, 14, 15});
  CHECK(compressed(prompt, nats, {3, 3}, 0.1) == prompt);
}

TEST_CASE("among equally surprising tokens the later ones stay") {
  CHECK(compressed(prompt, std::vector{first, 1.0, 1.0, 1.0, 1.0, 1.0}, whole, 0.6) == ids{10, 13, 14, 15});
}

TEST_CASE("there must be one number for each token") {
  CHECK(error_of([&] { compressed(prompt, std::vector{first}, whole, 0.5); }) == at("compression: self-information", {"6", ", found 1"}));
  CHECK_THROWS_AS(compressed({}, {}, {0, 0}, 0.5), error);
}

TEST_CASE("context_of finds the context among a prompt's tokens") {
  const std::optional<tokenizer> tokens = find_tokenizer(checkpoint(pocket_model()));
  REQUIRE(tokens);
  const ids all = tokens->encode("the chapter on gardens leads to rivers .");
  REQUIRE(all.size() == 9);  // BOS, and one token for each word
  CHECK(context_of(all, "the chapter", " rivers .", *tokens) == token_range{3, 7});
  CHECK(context_of(all, "the chapter on gar", "ers .", *tokens) == token_range{5, 7});  // a word that is partly context is not context
  CHECK(context_of(all, "", "", *tokens) == token_range{0, 9});
  CHECK(context_of(all, "the chapter on gardens", " leads to rivers .", *tokens) == token_range{5, 5});
  // The prompt was truncated: it lacks the end of the text before the context, and the beginning of the text after it.
  CHECK(context_of(all, "the chapters", "to seas and rivers .", *tokens) == token_range{3, 7});
  CHECK(context_of(all, "the chapter on gardens leads to seas", "on gardens leads to rivers .", *tokens) == token_range{8, 8});
  // The three byte tokens of one character belong together. With tokenizer.json, all byte tokens in a row belong together.
  const tokenizer pieces = load_tokenizer(pocket_model() / "tokenizer.model");
  const ids bytes = pieces.encode("\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97");
  REQUIRE(bytes.size() >= 10);
  const token_range middle = context_of(bytes, "\xe4\xb8\xad", "\xe5\xad\x97", pieces);
  CHECK(middle == token_range{bytes.size() - 6, bytes.size() - 3});
}
