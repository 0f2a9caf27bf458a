// SPDX-License-Identifier: MIT
#include <lazyprune/io/model_chat.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "io/support.hpp"

using namespace lazyprune;
using lazyprune_test::error_of;
using lazyprune_test::temporary_folder;

TEST_CASE("a folder's template and its own texts") {
  const temporary_folder folder;
  CHECK_FALSE(find_model_chat(folder.path()));
  folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null})");
  CHECK_FALSE(find_model_chat(folder.path()));

  folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": null,
    "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token is defined }}"})");
  chat_request request;
  request.add("user", "</s>");
  CHECK(find_model_chat(folder.path())->render(request).runs() ==
        std::vector<text_run>{{"<s>", true}, {"</s>", false}, {"</s>", true}, {"False", false}});

  folder.write("chat_template.jinja", "{{ eos_token }}!");  // newer, and wins
  CHECK(find_model_chat(folder.path())->render(request).runs() == std::vector<text_run>{{"</s>!", true}});
  CHECK(find_model_chat(folder.path())->format.name() == (folder / "chat_template.jinja").string());
}

TEST_CASE("of several named templates, the default") {
  const temporary_folder folder;
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]})");
  CHECK(find_model_chat(folder.path())->format.source() == "b");
  const auto path = folder.write("tokenizer_config.json",
                                 R"({"chat_template": [{"name": "rag", "template": "a"}, {"name": "tool_use", "template": "b"}]})");
  CHECK(error_of([&] { find_model_chat(folder.path()); }) ==
        path.string() + R"(: chat_template: expected a template of the name "default", found "rag, tool_use")");
}

TEST_CASE("faults are named with their file") {
  const temporary_folder folder;
  const auto path = folder.write("tokenizer_config.json", R"({"chat_template": "{% include 'x' %}"})");
  CHECK(error_of([&] {
          find_model_chat(folder.path());
        }).starts_with(path.string() + ": chat_template: line 1, column 4: expected if, for, "));
  folder.write("tokenizer_config.json", R"({"chat_template": 5})");
  CHECK(error_of([&] { find_model_chat(folder.path()); }) == path.string() + ": chat_template: expected a string, found 5");
  folder.write("tokenizer_config.json", "{");
  CHECK(error_of([&] { find_model_chat(folder.path()); }).starts_with(path.string() + ": byte "));
}
