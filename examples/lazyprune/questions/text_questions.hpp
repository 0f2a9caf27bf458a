// SPDX-License-Identifier: MIT
// Questions that are made out of texts, for a calibration, a search or a sweep without labels.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "questions/question_set.hpp"

namespace lazyprune {
inline namespace v0 {
class tokenizer;
}  // namespace v0

namespace program {

/// Cuts the texts into passages, evenly over all texts, and makes a question of each (look_up_prompts): in turn about made-up facts, and a
/// quote to be continued. The answers stand in the passage. A quote is not put into a chat. Throws `error` if a file cannot be read, or if
/// all texts together are shorter than one passage.
std::vector<question> text_questions(const text_flags& flags, const tokenizer& tokens);

/// Returns the task of such questions with this name; null if there is none.
const eval_task* find_text_task(std::string_view name);

}  // namespace program
}  // namespace lazyprune
