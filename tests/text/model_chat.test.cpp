// SPDX-License-Identifier: MIT
#include <lazyprune/text/model_chat.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "files/gguf_writer.hpp"
#include "files/support.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;
using lazyprune_test::gguf_array;
using lazyprune_test::gguf_bytes;
using lazyprune_test::gguf_key;
using lazyprune_test::gguf_string;
using lazyprune_test::temporary_folder;
using lazyprune_test::unsupported;

TEST_CASE("the chat template and the special tokens of a folder are found") {
  const temporary_folder folder;
  const model_folder files(folder.path());
  CHECK_FALSE(find_model_chat(files));
  folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null})");
  CHECK_FALSE(find_model_chat(files));

  folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": null,
    "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token is defined }}"})");
  chat_request request;
  request.add("user", "</s>");
  CHECK(find_model_chat(files)->render(request).runs() ==
        std::vector<text_run>{{"<s>", true}, {"</s>", false}, {"</s>", true}, {"False", false}});

  folder.write("chat_template.jinja", "{{ eos_token }}!");  // takes precedence over tokenizer_config.json
  CHECK(find_model_chat(files)->render(request).runs() == std::vector<text_run>{{"</s>!", true}});
  CHECK(find_model_chat(files)->format.name() == (folder / "chat_template.jinja").string());
}

TEST_CASE("of several named templates, the one named default is used") {
  const temporary_folder folder;
  const model_folder files(folder.path());
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]})");
  CHECK(find_model_chat(files)->format.source() == "b");
  const auto path = folder.write("tokenizer_config.json",
                                 R"({"chat_template": [{"name": "rag", "template": "a"}, {"name": "tool_use", "template": "b"}]})");
  CHECK(error_of([&] { find_model_chat(files); }) == at(path.string() + ": chat_template", {"\"default\"", "\"rag, tool_use\""}));
}

TEST_CASE("errors name their file") {
  const temporary_folder folder;
  const model_folder files(folder.path());
  const auto path = folder.write("tokenizer_config.json", R"({"chat_template": "{% include 'x' %}"})");
  CHECK(error_of([&] { find_model_chat(files); }) == unsupported(path.string() + ": chat_template: line 1, column 4"));
  folder.write("tokenizer_config.json", R"({"chat_template": 5})");
  CHECK(error_of([&] { find_model_chat(files); }) == at(path.string() + ": chat_template", {", found 5"}));
  folder.write("tokenizer_config.json", "{");
  CHECK(error_of([&] { find_model_chat(files); }).starts_with(path.string() + ": byte "));
}

TEST_CASE("the chat template of a GGUF file and the special tokens that the file names by id are found") {
  const temporary_folder folder;
  const auto file = [&](std::vector<std::string> keys) {
    keys.push_back(gguf_key("tokenizer.ggml.tokens", 9, gguf_array(8, 2, gguf_string("<s>") + gguf_string("</s>"))));
    return gguf_file(mapped_file(folder.write("model.gguf", gguf_bytes(keys, {}))));
  };
  CHECK_FALSE(find_model_chat(file({})));
  const std::string bos = gguf_key("tokenizer.ggml.bos_token_id", 0u), eos = gguf_key("tokenizer.ggml.eos_token_id", 1u),
                    none = gguf_key("tokenizer.ggml.padding_token_id", 4294967295u);
  chat_request request;
  request.add("user", "</s>");
  const char* text = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token is defined }}";
  for (const char* key : {"tokenizer.chat_template", "tokenizer.chat_template.default"})
    CHECK(find_model_chat(file({bos, eos, none, gguf_key(key, text)}))->render(request).runs() ==
          std::vector<text_run>{{"<s>", true}, {"</s>", false}, {"</s>", true}, {"False", false}});

  const std::string named = gguf_key("tokenizer.chat_template.rag", "a"), other = gguf_key("tokenizer.chat_template.tool_use", "b");
  CHECK(find_model_chat(file({named, gguf_key("tokenizer.chat_template", "c"), other}))->format.source() == "c");
  CHECK(error_of([&] {
          find_model_chat(file({named, other}));
        }) == at((folder / "model.gguf").string() + ": metadata: tokenizer.chat_template", {"\"default\"", "\"rag, tool_use\""}));
  CHECK(error_of([&] { find_model_chat(file({gguf_key("tokenizer.chat_template", "{{ a.b( }}")})); }) ==
        at((folder / "model.gguf").string() + ": metadata: tokenizer.chat_template: line 1, column 9"));
}
