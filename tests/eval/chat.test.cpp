// SPDX-License-Identifier: MIT
#include <lazyprune/eval/chat.hpp>

#include <doctest/doctest.h>

#include <lazyprune/eval/tasks.hpp>

using namespace lazyprune;

TEST_CASE("the chat format goes around a prompt if the task wants it") {
  const chat_format& llama = *find_chat_format("llama2");
  CHECK(in_chat(llama, *find_task("qasper"), "p") == "[INST]p[/INST]");
  CHECK(in_chat(llama, *find_task("trec"), "p") == "p");
  CHECK(in_chat(*find_chat_format("none"), *find_task("qasper"), "p") == "p");
  CHECK(in_chat(*find_chat_format("xgen"), *find_task("qasper"), "p").ends_with("the human's questions.\n\n ### Human: p\n###"));
  CHECK_FALSE(find_chat_format("vicuna"));
}

TEST_CASE("an answer loses the model's name and the spaces around it") {
  CHECK(out_of_chat(*find_chat_format("llama2"), " a ") == " a ");
  const chat_format& xgen = *find_chat_format("xgen");
  CHECK(out_of_chat(xgen, " Assistant: a Assistant:b\n") == " a b");  // as in LongBench, the space behind the name stays
  CHECK(out_of_chat(xgen, " \n") == "");
}
