// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer.hpp>

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include <files/support.hpp>
#include <test_data.hpp>

using namespace lazyprune_test;
using lazyprune::special_text;
using lazyprune::text_run;
using lazyprune::token_decoder;
using lazyprune::token_id;
using lazyprune::token_pipeline;
using lazyprune::tokenizer;
using ids = std::vector<token_id>;

namespace {

tokenizer pocket() { return tokenizer(lazyprune::parse_sentencepiece_model(read_text(pocket_model() / "tokenizer.model"), "t.model")); }

/// Bytes as pieces, <s> before a text, and <|x|>.
tokenizer bytes() {
  using namespace lazyprune;
  std::vector<std::optional<std::string>> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(in_byte_alphabet(std::string(1, static_cast<char>(byte))));
  added_tokens added({{.text = "<s>", .id = 256, .special = true}, {.text = "<|x|>", .id = 258}}, {}, nullptr);
  return tokenizer(token_pipeline{"BPE, byte-level",
                                  std::move(added),
                                  {},
                                  pre_tokenizer({pre_tokenizer::byte_level{false, {}}}),
                                  bpe(vocabulary(std::move(pieces)), {}),
                                  {{256}, {}},
                                  {{decoder::byte_level{}}}},
                   256, std::nullopt);
}

}  // namespace

TEST_CASE("SentencePiece behind the common face") {
  const tokenizer tokens = pocket();
  CHECK(tokens.kind() == "SentencePiece BPE");
  CHECK(tokens.size() == 2304);
  CHECK(tokens.bos() == 1u);
  CHECK(tokens.eos() == 2u);
  CHECK(tokens.unknown() == 0u);
  CHECK(tokens.adds_bos());
  CHECK(tokens.byte_fallback());
  CHECK(tokens.is_special(1));
  CHECK(tokens.piece(1) == "<s>");
  const ids all = tokens.encode("a word", true);
  CHECK(all == tokens.encode("a word"));
  CHECK(all.front() == 1);
  CHECK(tokens.encode("a word", false) == ids(all.begin() + 1, all.end()));
  CHECK(tokens.decode(all) == "a word");
  CHECK(tokens.decode(all, special_text::written) == "<s> a word");
  CHECK(tokens.label(all[1]).front() == ' ');
  CHECK(error_of([&] { tokens.piece(2304); }) == at("tokenizer: token 2304", {"2304"}));
}

TEST_CASE("a pipeline behind the common face, also after a move") {
  tokenizer first = bytes();
  const tokenizer tokens = std::move(first);
  CHECK(tokens.size() == 259);
  CHECK(tokens.bos() == 256u);
  CHECK_FALSE(tokens.eos().has_value());
  CHECK_FALSE(tokens.unknown().has_value());
  CHECK(tokens.adds_bos());
  CHECK_FALSE(tokens.byte_fallback());
  CHECK(tokens.encode("a b") == ids{256, 'a', ' ', 'b'});
  CHECK(tokens.encode("a<s>", false) == ids{'a', 256});
  CHECK(tokens.decode(ids{256, 'a', 258, ' '}) == "a<|x|> ");
  CHECK(tokens.decode(ids{256, 'a'}, special_text::written) == "<s>a");
  CHECK(tokens.decode(ids{257}) == "");  // a hole
  CHECK(tokens.piece(' ') == "\xc4\xa0");
  CHECK(tokens.label(' ') == " ");
  CHECK(tokens.label(0xff) == "\xef\xbf\xbd");
  CHECK(error_of([&] { tokens.decode(ids{300}); }) == at("tokenizer: token 300", {"259"}));
  token_decoder decoder(tokens);
  CHECK(decoder.push(0xc3).empty());
  CHECK(decoder.push(0xa9) == "\xc3\xa9");
}

TEST_CASE("special tokens come from trusted runs of a chat alone, whole") {
  const tokenizer tokens = bytes();
  CHECK(tokens.encode(std::vector<text_run>{{"<s>", true}, {"a<s>", false}}) == ids{256, 'a', '<', 's', '>'});
  CHECK(tokens.encode(std::vector<text_run>{{"<s", true}, {">", false}}) == ids{'<', 's', '>'});
  CHECK(tokens.encode(std::vector<text_run>{{"<|x", false}, {"|>", true}}) == ids{258});  // not special
  CHECK(tokens.encode(std::vector<text_run>{{"\xff", false}, {"<s>", true}}) == ids{0xef, 0xbf, 0xbd, 256});
  CHECK(tokens.encode(std::vector<text_run>{}).empty());

  const tokenizer pieces = pocket();
  ids expected{1};
  for (const token_id id : pieces.encode("a </s> b", false)) expected.push_back(id);
  expected.push_back(2);
  CHECK(pieces.encode(std::vector<text_run>{{"<s>", true}, {"a </s> b", false}, {"</s>", true}}) == expected);
}
