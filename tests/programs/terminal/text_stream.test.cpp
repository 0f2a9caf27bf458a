// SPDX-License-Identifier: MIT
#include "terminal/text_stream.hpp"

#include <doctest/doctest.h>

using namespace lazyprune::program;

namespace {

/// Collects the pieces that were sent.
struct listener {
  std::vector<std::string> pieces;
  text_stream::sink sink() {
    return [this](std::string_view piece) { pieces.emplace_back(piece); };
  }
};

using pieces = std::vector<std::string>;

}  // namespace

TEST_CASE("text without a stop text is sent at once") {
  listener out;
  text_stream stream({}, out.sink());
  CHECK(stream.feed("Hello"));
  CHECK(stream.feed(", you"));
  stream.flush();
  CHECK(out.pieces == pieces{"Hello", ", you"});
}

TEST_CASE("a stop text is not sent, and what may be its beginning is held back") {
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
  stream.flush();
  CHECK(stream.text() == "the EEx ");
  CHECK(out.pieces == pieces{"the", " ", "EEx "});
}

TEST_CASE("the text ends at the earliest stop text, in one piece or in many") {
  for (const std::size_t size : {1u, 2u, 3u, 100u}) {
    listener out;
    text_stream stream({"dd", "cd"}, out.sink());
    const std::string text = "abccddee";
    for (std::size_t at = 0; at < text.size(); at += size)
      if (!stream.feed(std::string_view(text).substr(at, size))) break;
    stream.flush();
    std::string all;
    for (const std::string& piece : out.pieces) all += piece;
    CHECK(stream.text() == "abc");
    CHECK(all == "abc");
  }
}

TEST_CASE("text held back for a stop text that did not come is sent at the end") {
  listener out;
  text_stream stream({"abcabd"}, out.sink());
  stream.feed("abcab");
  CHECK(out.pieces.empty());
  stream.feed("c");
  CHECK(out.pieces == pieces{"abc"});  // the second "abc" may begin the stop text
  stream.flush();
  CHECK(out.pieces == pieces{"abc", "abc"});
}
