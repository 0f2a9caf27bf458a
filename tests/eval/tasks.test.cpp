// SPDX-License-Identifier: MIT
#include <lazyprune/eval/tasks.hpp>

#include <doctest/doctest.h>

#include <set>

using namespace lazyprune;

namespace {

/// Returns the text's FNV-1a hash (http://www.isthe.com/chongo/tech/comp/fnv/).
constexpr std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3u;
  return hash;
}

struct official {
  std::string_view name;
  std::size_t bytes;
  std::uint64_t hash;  // hash of the prompt in LongBench's config/dataset2prompt.json, computed by an independent program
  std::size_t max_new;
  std::string_view metric;
  bool first_line, chat;
};

constexpr official longbench_official[] = {
    {"narrativeqa", 378, 0x6b833ec5a5521200u, 128, "qa_f1", false, true},
    {"qasper", 725, 0xe0bbe61b9cc50aa0u, 128, "qa_f1", false, true},
    {"multifieldqa_en", 201, 0x21a552b1c54137efu, 64, "qa_f1", false, true},
    {"multifieldqa_zh", 194, 0xdce3b185073f66ffu, 64, "qa_f1_chars", false, true},
    {"hotpotqa", 288, 0x3d89cf4beb38cf14u, 32, "qa_f1", false, true},
    {"2wikimqa", 288, 0x3d89cf4beb38cf14u, 32, "qa_f1", false, true},
    {"musique", 288, 0x3d89cf4beb38cf14u, 32, "qa_f1", false, true},
    {"dureader", 140, 0x2e2884cb43d2fcbfu, 128, "rouge_l_chars", false, true},
    {"gov_report", 161, 0x6da71a89083bcdb7u, 512, "rouge_l", false, true},
    {"qmsum", 261, 0x283893300103c98bu, 512, "rouge_l", false, true},
    {"multi_news", 150, 0x369529e042466304u, 512, "rouge_l", false, true},
    {"vcsum", 133, 0xd332cf7a47d2e66bu, 512, "rouge_l_chars", false, true},
    {"trec", 104, 0x1f912dcf0e42e076u, 64, "classification", true, false},
    {"triviaqa", 159, 0x09e8fec6928e0dbfu, 32, "qa_f1", true, false},
    {"samsum", 103, 0x358daffee1841a64u, 128, "rouge_l", true, false},
    {"lsht", 76, 0x4fe41fc435333ba7u, 64, "classification", true, false},
    {"passage_count", 464, 0xd1c215a163713511u, 32, "count", false, true},
    {"passage_retrieval_en", 320, 0xf231df536a3fd1d8u, 32, "retrieval", false, true},
    {"passage_retrieval_zh", 257, 0xe47d36fa2cd81a5au, 32, "retrieval_zh", false, true},
    {"lcc", 67, 0x62330c8d81c725fcu, 64, "code_sim", false, false},
    {"repobench-p", 74, 0xb4adffb9b130f528u, 64, "code_sim", false, false},
};

}  // namespace

TEST_CASE("the LongBench tasks have exact copies of LongBench's prompts, and its settings") {
  CHECK(std::size(longbench_official) == longbench_tasks.size());
  for (const official& expected : longbench_official) {
    CAPTURE(expected.name);
    const eval_task* task = find_task(expected.name);
    REQUIRE(task);
    CHECK(task->prompt.size() == expected.bytes);
    CHECK(hash_of(task->prompt) == expected.hash);
    CHECK(task->max_new == expected.max_new);
    CHECK(name_of(task->metric) == expected.metric);
    CHECK(task->first_line == expected.first_line);
    CHECK(task->chat == expected.chat);
    CHECK(find_task(std::string(expected.name) + "_e") == task);
  }
}

TEST_CASE("RULER's tasks") {
  for (const auto& [name, tokens, metric] : {std::tuple{"niah_single_1", 128u, "string_match_all"},
                                             {"niah_multiquery", 128u, "string_match_all"},
                                             {"vt", 30u, "string_match_all"},
                                             {"cwe", 120u, "string_match_all"},
                                             {"fwe", 50u, "string_match_all"},
                                             {"qa_1", 32u, "string_match_part"},
                                             {"qa_2", 32u, "string_match_part"}}) {
    const eval_task* task = find_task(name);
    REQUIRE(task);
    CHECK(task->max_new == tokens);
    CHECK(name_of(task->metric) == metric);
    CHECK(task->prompt == "{input}");
  }
}

TEST_CASE("names are unique, and unknown names are not found") {
  std::set<std::string_view> names;
  const auto add = [&](const auto& tasks) {
    for (const eval_task& task : tasks) {
      CHECK(names.insert(task.name).second);
      CHECK(find_task(task.name) == &task);
    }
  };
  add(longbench_tasks);
  add(ruler_tasks);
  CHECK(names.size() == 34);
  for (const std::string_view name : {"", "_e", "qasper_e_e", "vt_e", "Qasper", "pocket"}) CHECK_FALSE(find_task(name));
}
