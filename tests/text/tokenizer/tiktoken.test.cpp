// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/tiktoken.hpp>

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <files/support.hpp>
#include <test_data.hpp>
#include <text/tokenizer/known_unicode.hpp>

using namespace lazyprune_test;
using lazyprune::parse_tiktoken;

namespace {

fault said_of_ranks(std::string_view text) {
  return error_of([&] { parse_tiktoken(text, "t.model", nullptr); });
}

}  // namespace

TEST_CASE("base64 is decoded, and other texts are refused") {
  using lazyprune::detail::from_base64;
  CHECK(from_base64("IQ==") == "!");
  CHECK(from_base64("IGE=") == " a");
  CHECK(from_base64("/+8A") == std::string("\xff\xef\0", 3));
  for (const std::string_view bad : {"", "IQ=", "I===", "IQ=a", "=Q==", "I!==", "IQ==IQ=="}) CHECK_FALSE(from_base64(bad).has_value());
}

TEST_CASE("malformed lines are refused, and so are ranks that are not those of Llama 3") {
  CHECK(said_of_ranks("tet 0\n") == at("t.model: line 1", {"\"tet\""}));
  CHECK(said_of_ranks("IQ== 0\nIg== 18446744073709551616") == at("t.model: line 2", {"\"18446744073709551616\""}));
  CHECK(said_of_ranks("IQ==0\n") == at("t.model: line 1", {"\"IQ==0\""}));
  CHECK(said_of_ranks("IQ== 0\n\n") == at("t.model: line 2", {"\"\""}));
  CHECK(said_of_ranks("IQ== 0\r\nIg== 1\r\n") == unsupported("t.model"));
  CHECK(lazyprune::is_tiktoken("IQ== 0"));
  CHECK_FALSE(lazyprune::is_tiktoken("\n\x0e"));
  CHECK_FALSE(lazyprune::is_tiktoken(""));
}

TEST_CASE("the ranks of Llama 3 give the ids of tiktoken" NEEDS("data")) {
  const auto path = test_data("tokenizers/llama3/test_tiktoken_tokenizer.model"),
             cases = test_data("tokenizer-json/real-llama-3/cases.jsonl");
  const auto* const characters = known_unicode();
  if (path.empty() || cases.empty() || !characters) return;
  const std::string text = read_text(path);
  CHECK(error_of([&] { parse_tiktoken(text, "t.model", nullptr); }) == unsupported("t.model"));
  CHECK(said_of_ranks(text.substr(0, text.rfind('\n', text.size() - 2) + 1)) == unsupported("t.model", {"127999"}));
  const lazyprune::token_pipeline tokens = parse_tiktoken(text, "t.model", characters);
  CHECK(tokens.size() == 128'256);
  CHECK(tokens.find("<|eot_id|>") == 128'009u);
  CHECK(tokens.find("<|reserved_special_token_245|>") == 128'255u);
  CHECK(tokens.around.before == std::vector<lazyprune::token_id>{128'000});
  std::istringstream lines(read_text(cases));
  for (std::string line; std::getline(lines, line);) {
    const auto each = nlohmann::json::parse(line);
    CHECK(tokens.encode(each.at("text").get<std::string>()) == each.at("ids").get<std::vector<lazyprune::token_id>>());
  }
}
