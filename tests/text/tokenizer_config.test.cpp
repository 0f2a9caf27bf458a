// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer_config.hpp>

#include <doctest/doctest.h>

#include "files/support.hpp"

using namespace lazyprune;
using lazyprune_test::error_of;
using lazyprune_test::temporary_folder;

TEST_CASE("a special token is a string, or an object with the key content") {
  const temporary_folder folder;
  const model_folder files(folder.path());
  CHECK_FALSE(find_tokenizer_config(files));
  const auto path = folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false},
    "pad_token": null, "mask_token": {"lstrip": true}, "sep_token": 5})");
  const auto config = find_tokenizer_config(files);
  REQUIRE(config);
  CHECK(token_text_of(*config, "bos_token")->string() == "<s>");
  CHECK(token_text_of(*config, "eos_token")->string() == "</s>");
  CHECK_FALSE(token_text_of(*config, "pad_token"));
  CHECK_FALSE(token_text_of(*config, "cls_token"));
  CHECK(error_of([&] { token_text_of(*config, "mask_token"); }).starts_with(path.string() + ": mask_token"));
  CHECK(error_of([&] { token_text_of(*config, "sep_token"); }).starts_with(path.string() + ": sep_token"));
  folder.write("tokenizer_config.json", "{");
  CHECK(error_of([&] { find_tokenizer_config(files); }).starts_with(path.string() + ": byte "));
}
