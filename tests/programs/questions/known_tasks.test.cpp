// SPDX-License-Identifier: MIT
#include "questions/known_tasks.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace lazyprune;
using namespace lazyprune::program;

TEST_CASE("the quote tasks use RULER's prompt and metric") {
  for (const auto& [name, tokens] : {std::pair{"quote_sentence", 64u}, {"repeat_lines", 96u}}) {
    const eval_task* task = find_known_task(name);
    REQUIRE(task);
    CHECK(task->max_new == tokens);
    CHECK(name_of(task->metric) == "string_match_all");
    CHECK(task->prompt == "{input}");
  }
}

TEST_CASE("the names of all tasks are different") {
  std::set<std::string_view> names;
  const auto add = [&](const auto& tasks) {
    for (const eval_task& task : tasks) {
      CHECK(names.insert(task.name).second);
      CHECK(find_known_task(task.name) == &task);
    }
  };
  add(longbench_tasks);
  add(ruler_tasks);
  add(pocket_tasks);
  add(quote_tasks);
  CHECK(names.size() == 43);
  CHECK(find_known_task("qasper_e") == find_task("qasper"));
  for (const std::string_view name : {"", "_e", "pocket_profile_e", "Qasper", "pocket"}) CHECK_FALSE(find_known_task(name));
}
