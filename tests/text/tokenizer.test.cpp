// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <files/support.hpp>
#include <test_data.hpp>

using namespace lazyprune_test;
using lazyprune::special_text;
using lazyprune::special_tokens;
using lazyprune::text_run;
using lazyprune::token_decoder;
using lazyprune::token_id;
using lazyprune::token_pipeline;
using lazyprune::tokenizer;
using ids = std::vector<token_id>;

namespace {

tokenizer pocket() { return tokenizer(lazyprune::parse_sentencepiece_model(read_text(pocket_model() / "tokenizer.model"), "t.model")); }

/// A byte-level pipeline with one piece per byte. It puts <s> before a text. Its added tokens are <s>, <|x|> and one whose text is two
/// spaces.
tokenizer bytes() {
  using namespace lazyprune;
  std::vector<std::optional<std::string>> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(in_byte_alphabet(std::string(1, static_cast<char>(byte))));
  added_tokens added({{.text = "<s>", .id = 256, .special = true}, {.text = "<|x|>", .id = 258}, {.text = "  ", .id = 259}}, {}, nullptr);
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

TEST_CASE("a tokenizer can have a SentencePiece model") {
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

TEST_CASE("a tokenizer can have a pipeline, and can then be moved") {
  tokenizer first = bytes();
  const tokenizer tokens = std::move(first);
  CHECK(tokens.size() == 260);
  CHECK(tokens.bos() == 256u);
  CHECK_FALSE(tokens.eos().has_value());
  CHECK_FALSE(tokens.unknown().has_value());
  CHECK(tokens.adds_bos());
  CHECK_FALSE(tokens.byte_fallback());
  CHECK(tokens.encode("a b") == ids{256, 'a', ' ', 'b'});
  CHECK(tokens.encode("a<s>", false) == ids{'a', 256});
  CHECK(tokens.decode(ids{256, 'a', 258, ' '}) == "a<|x|> ");
  CHECK(tokens.decode(ids{256, 'a'}, special_text::written) == "<s>a");
  CHECK(tokens.decode(ids{257}) == "");  // an id without a token
  CHECK(tokens.piece(' ') == "\xc4\xa0");
  CHECK(tokens.label(' ') == " ");
  CHECK(tokens.label(0xff) == "\xef\xbf\xbd");
  CHECK(error_of([&] { tokens.decode(ids{300}); }) == at("tokenizer: token 300", {"260"}));
  token_decoder decoder(tokens);
  CHECK(decoder.push(0xc3).empty());
  CHECK(decoder.push(0xa9) == "\xc3\xa9");
  decoder.push(0xc3);
  decoder.begin_answer();
  CHECK(decoder.push('b') == "b");
}

TEST_CASE("in a chat, a special token is found only if its whole text lies in one trusted run") {
  const tokenizer tokens = bytes();
  CHECK(tokens.encode(std::vector<text_run>{{"<s>", true}, {"a<s>", false}}) == ids{256, 'a', '<', 's', '>'});
  CHECK(tokens.encode(std::vector<text_run>{{"<s", true}, {">", false}}) == ids{'<', 's', '>'});
  CHECK(tokens.encode(std::vector<text_run>{{"<|x", false}, {"|>", true}}) == ids{258});  // <|x|> is not special, so it may cross runs
  CHECK(tokens.encode(std::vector<text_run>{{"\xff", false}, {"<s>", true}}) == ids{0xef, 0xbf, 0xbd, 256});
  CHECK(tokens.encode(std::vector<text_run>{}).empty());

  const tokenizer pieces = pocket();
  ids expected{1};
  for (const token_id id : pieces.encode("a </s> b", false, special_tokens::spelled_out)) expected.push_back(id);
  expected.push_back(2);
  CHECK(pieces.encode(std::vector<text_run>{{"<s>", true}, {"a </s> b", false}, {"</s>", true}}) == expected);
}

TEST_CASE("an added token whose text occurs in the template comes only from trusted runs, unless its text is white space") {
  using runs = std::vector<text_run>;
  const tokenizer tokens = bytes();
  const ids spelled{'<', '|', 'x', '|', '>'};
  const auto after = [](ids begin, const ids& rest) {
    begin.insert(begin.end(), rest.begin(), rest.end());
    return begin;
  };
  CHECK(tokens.encode(runs{{"<|x|>", true}, {"<|x|>", false}}) == after({258}, spelled));
  CHECK(tokens.encode(runs{{"<|x|>", false}}) == ids{258});
  CHECK(tokens.encode(runs{{"<|x|>", false}}, "a\n<|x|>") == spelled);
  CHECK(tokens.encode(runs{{"<|x", true}, {"|>", false}}, "<|x|>") == spelled);
  CHECK(tokens.encode(runs{{"  ", true}, {"  a", false}}) == ids{259, 259, 'a'});

  const auto with = [](const std::string& text, lazyprune::piece_type type) { return lazyprune::sentencepiece{text, 0, type}; };
  lazyprune::sentencepiece_model model;
  model.pieces = {with("<unk>", lazyprune::piece_type::unknown),
                  with("<s>", lazyprune::piece_type::control),
                  with("</s>", lazyprune::piece_type::control),
                  with("<", lazyprune::piece_type::normal),
                  with("x", lazyprune::piece_type::normal),
                  with("<x", lazyprune::piece_type::normal),
                  with("<x<", lazyprune::piece_type::user_defined),
                  with("\n", lazyprune::piece_type::user_defined),
                  with("x\xe2\x96\x81x", lazyprune::piece_type::user_defined)};
  model.add_dummy_prefix = model.remove_extra_whitespaces = false;
  const tokenizer pieces(std::move(model));
  CHECK(pieces.encode(runs{{"\n", true}, {"<x<\n", false}}) == ids{7, 6, 7});
  // The token <x< is not made by merging pieces of a user's text, either.
  CHECK(pieces.encode(runs{{"<x<\n", true}, {"<x<\n", false}}) == ids{6, 7, 5, 3, 7});
  CHECK(pieces.encode(runs{{"x x<x", false}, {"<", true}}, "<x<, x x") == ids{4, 0, 4, 5, 3});
  CHECK(pieces.encode(runs{{"x x", true}, {"x x", false}}) == ids{8, 4, 0, 4});
}

TEST_CASE("special tokens in a text are parsed or spelled out") {
  const tokenizer tokens = bytes();
  CHECK(tokens.encode("a<s><|x|>") == ids{256, 'a', 256, 258});
  CHECK(tokens.encode("a<s><|x|>", special_tokens::spelled_out) == ids{256, 'a', '<', 's', '>', 258});  // <|x|> is not special
  CHECK(tokens.encode("a<s>\xff", false, special_tokens::spelled_out) == ids{'a', '<', 's', '>', 0xef, 0xbf, 0xbd});

  const tokenizer pieces = pocket();
  const auto is_special = [&](token_id id) { return pieces.is_special(id) || id == pieces.unknown(); };
  ids expected = pieces.encode("a", false);
  expected.push_back(2);
  for (const token_id id : pieces.encode("b", false)) expected.push_back(id);
  expected.push_back(0);
  CHECK(pieces.encode("a</s>b<unk>", false) == expected);
  expected.insert(expected.begin(), 1);
  CHECK(pieces.encode("a</s>b<unk>") == expected);
  const ids spelled = pieces.encode("a</s>b<unk>", false, special_tokens::spelled_out);
  CHECK(std::ranges::none_of(spelled, is_special));
  CHECK(pieces.decode(spelled) == "a</s>b<unk>");
}
