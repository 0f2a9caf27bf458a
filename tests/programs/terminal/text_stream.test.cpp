// SPDX-License-Identifier: MIT
#include "terminal/text_stream.hpp"

#include <doctest/doctest.h>

using namespace lazyprune::program;

namespace {

/// What came out, piece by piece.
struct listener {
  std::vector<std::string> pieces;
  text_stream::sink sink() {
    return [this](std::string_view piece) { pieces.emplace_back(piece); };
  }
};

using pieces = std::vector<std::string>;

}  // namespace

TEST_CASE("text goes out as it comes") {
  listener out;
  text_stream stream({}, out.sink());
  CHECK(stream.feed("Hello"));
  CHECK(stream.feed(", you"));
  stream.finish();
  CHECK(out.pieces == pieces{"Hello", ", you"});
}

TEST_CASE("the stop text does not go out, nor does what could be its beginning before it is clear") {
  listener out;
  text_stream stream({" .", "END"}, out.sink());
  CHECK(stream.feed("the "));
  CHECK(out.pieces == pieces{"the"});  // the space may begin " ."
  CHECK(stream.feed("E"));
  CHECK(out.pieces == pieces{"the", " "});
  CHECK(stream.feed("Ex EN"));
  CHECK(out.pieces == pieces{"the", " ", "EEx "});
  CHECK_FALSE(stream.feed("D of it"));
  CHECK_FALSE(stream.feed("more"));
  stream.finish();
  CHECK(stream.text() == "the EEx ");
  CHECK(out.pieces == pieces{"the", " ", "EEx "});
}

TEST_CASE("the earliest stop text counts, in one piece or in many") {
  for (const std::size_t size : {1u, 2u, 3u, 100u}) {
    listener out;
    text_stream stream({"dd", "cd"}, out.sink());
    const std::string text = "abccddee";
    for (std::size_t at = 0; at < text.size(); at += size)
      if (!stream.feed(std::string_view(text).substr(at, size))) break;
    stream.finish();
    std::string all;
    for (const std::string& piece : out.pieces) all += piece;
    CHECK(stream.text() == "abc");
    CHECK(all == "abc");
  }
}

TEST_CASE("what waited for a stop text that did not come goes out at the end") {
  listener out;
  text_stream stream({"abcabd"}, out.sink());
  stream.feed("abcab");
  CHECK(out.pieces.empty());
  stream.feed("c");
  CHECK(out.pieces == pieces{"abc"});  // "abc" again could begin it
  stream.finish();
  CHECK(out.pieces == pieces{"abc", "abc"});
}
