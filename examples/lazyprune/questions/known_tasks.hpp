// SPDX-License-Identifier: MIT
// The tasks that flags and data can name: those of LongBench and RULER, seven for the pocket model, and two that ask for quotes.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include <lazyprune/eval/tasks.hpp>

namespace lazyprune {
namespace program {

/// The prompt of a pocket task is the document, a space, and the beginning of the answer. The answer ends at " .".
constexpr eval_task pocket_task(std::string_view name, std::string_view group) {
  return {name, group, "{context} {input}", 32, eval_metric::exact_match, false, false, " ."};
}

inline constexpr std::array<eval_task, 7> pocket_tasks{{
    pocket_task("pocket_single_doc_qa", "Single-Doc QA"),
    pocket_task("pocket_multi_doc_qa", "Multi-Doc QA"),
    pocket_task("pocket_summarization", "Summarization"),
    pocket_task("pocket_few_shot", "Few-shot"),
    pocket_task("pocket_passage_retrieval", "Synthetic"),
    pocket_task("pocket_code_completion", "Code"),
    pocket_task("pocket_profile", "Multi-fact"),
}};

// These tasks ask for some sentences of the context, word for word. Their samples have RULER's form (bench/smollm2).
inline constexpr std::array<eval_task, 2> quote_tasks{{
    {"quote_sentence", "Quotes", "{input}", 64, eval_metric::string_match_all},
    {"repeat_lines", "Quotes", "{input}", 96, eval_metric::string_match_all},
}};

/// Returns the task with this name: one of the tasks above, or a task of LongBench or RULER (lazyprune::find_task). Null if there is none.
constexpr const eval_task* find_known_task(std::string_view name) {
  for (const eval_task& task : pocket_tasks)
    if (task.name == name) return &task;
  for (const eval_task& task : quote_tasks)
    if (task.name == name) return &task;
  return find_task(name);
}

}  // namespace program
}  // namespace lazyprune
