// SPDX-License-Identifier: MIT
// The tasks that are known by name: LongBench's 21 data sets and RULER's 13 tasks. LongBench's prompts are copied exactly, including typing
// errors, from config/ and eval.py of https://github.com/THUDM/LongBench. RULER's tasks are from scripts/ of
// https://github.com/NVIDIA/RULER.
#pragma once

#include <array>
#include <string_view>

#include <lazyprune/eval/task.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

inline constexpr std::string_view multi_document_prompt =
    R"(Answer the question based on the given passages. Only give me the answer and do not output any other words.

The following are given passages.
{context}

Answer the question based on the given passages. Only give me the answer and do not output any other words.

Question: {input}
Answer:)";

// A RULER sample contains its whole prompt. If the sample has the key `answer_prefix`, the value is the beginning of the answer. This
// beginning is appended to the prompt.
constexpr eval_task ruler_task(std::string_view name, std::size_t max_new, eval_metric metric = eval_metric::string_match_all) {
  return {name, "RULER", "{input}", max_new, metric};
}

}  // namespace detail

inline constexpr std::array<eval_task, 21> longbench_tasks{{
    {"narrativeqa", "Single-Doc QA",
     R"(You are given a story, which can be either a novel or a movie script, and a question. Answer the question asconcisely as you can, using a single phrase if possible. Do not provide any explanation.

Story: {context}

Now, answer the question based on the story asconcisely as you can, using a single phrase if possible. Do not provide any explanation.

Question: {input}

Answer:)",
     128, eval_metric::qa_f1},
    {"qasper", "Single-Doc QA",
     R"(You are given a scientific article and a question. Answer the question as concisely as you can, using a single phrase or sentence if possible. If the question cannot be answered based on the information in the article, write "unanswerable". If the question is a yes/no question, answer "yes", "no", or "unanswerable". Do not provide any explanation.

Article: {context}

 Answer the question based on the above article as concisely as you can, using a single phrase or sentence if possible. If the question cannot be answered based on the information in the article, write "unanswerable". If the question is a yes/no question, answer "yes", "no", or "unanswerable". Do not provide any explanation.

Question: {input}

Answer:)",
     128, eval_metric::qa_f1},
    {"multifieldqa_en", "Single-Doc QA",
     R"(Read the following text and answer briefly.

{context}

Now, answer the following question based on the above text, only give me the answer and do not output any other words.

Question: {input}
Answer:)",
     64, eval_metric::qa_f1},
    {"multifieldqa_zh", "Single-Doc QA",
     R"(阅读以下文字并用中文简短回答：

{context}

现在请基于上面的文章回答下面的问题，只告诉我答案，不要输出任何其他字词。

问题：{input}
回答：)",
     64, eval_metric::qa_f1_chars},
    {"hotpotqa", "Multi-Doc QA", detail::multi_document_prompt, 32, eval_metric::qa_f1},
    {"2wikimqa", "Multi-Doc QA", detail::multi_document_prompt, 32, eval_metric::qa_f1},
    {"musique", "Multi-Doc QA", detail::multi_document_prompt, 32, eval_metric::qa_f1},
    {"dureader", "Multi-Doc QA",
     R"(请基于给定的文章回答下述问题。

文章：{context}

请基于上述文章回答下面的问题。

问题：{input}
回答：)",
     128, eval_metric::rouge_l_chars},
    {"gov_report", "Summarization",
     R"(You are given a report by a government agency. Write a one-page summary of the report.

Report:
{context}

Now, write a one-page summary of the report.

Summary:)",
     512, eval_metric::rouge_l},
    {"qmsum", "Summarization",
     R"(You are given a meeting transcript and a query containing a question or instruction. Answer the query in one or more sentences.

Transcript:
{context}

Now, answer the query based on the above meeting transcript in one or more sentences.

Query: {input}
Answer:)",
     512, eval_metric::rouge_l},
    {"multi_news", "Summarization",
     R"(You are given several news passages. Write a one-page summary of all news. 

News:
{context}

Now, write a one-page summary of all the news.

Summary:)",
     512, eval_metric::rouge_l},
    {"vcsum", "Summarization", R"(下面有一段会议记录，请你阅读后，写一段总结，总结会议的内容。
会议记录：
{context}

会议总结：)",
     512, eval_metric::rouge_l_chars},
    {"trec", "Few-shot", R"(Please determine the type of the question below. Here are some examples of questions.

{context}
{input})",
     64, eval_metric::classification, true, false},
    {"triviaqa", "Few-shot",
     R"(Answer the question based on the given passage. Only give me the answer and do not output any other words. The following are some examples.

{context}

{input})",
     32, eval_metric::qa_f1, true, false},
    {"samsum", "Few-shot", R"(Summarize the dialogue into a few short sentences. The following are some examples.

{context}

{input})",
     128, eval_metric::rouge_l, true, false, R"(
)"},
    {"lsht", "Few-shot", R"(请判断给定新闻的类别，下面是一些例子。

{context}
{input})",
     64, eval_metric::classification, true, false},
    {"passage_count", "Synthetic",
     R"(There are some paragraphs below sourced from Wikipedia. Some of them may be duplicates. Please carefully read these paragraphs and determine how many unique paragraphs there are after removing duplicates. In other words, how many non-repeating paragraphs are there in total?

{context}

Please enter the final count of unique paragraphs after removing duplicates. The output format should only contain the number, such as 1, 2, 3, and so on.

The final answer is: )",
     32, eval_metric::count},
    {"passage_retrieval_en", "Synthetic",
     R"(Here are 30 paragraphs from Wikipedia, along with an abstract. Please determine which paragraph the abstract is from.

{context}

The following is an abstract.

{input}

Please enter the number of the paragraph that the abstract is from. The answer format must be like "Paragraph 1", "Paragraph 2", etc.

The answer is: )",
     32, eval_metric::retrieval},
    {"passage_retrieval_zh", "Synthetic",
     R"(以下是若干段落文字，以及其中一个段落的摘要。请确定给定的摘要出自哪一段。

{context}

下面是一个摘要

{input}

请输入摘要所属段落的编号。答案格式必须是"段落1"，"段落2"等格式

答案是：)",
     32, eval_metric::retrieval_zh},
    {"lcc", "Code", R"(Please complete the code given below. 
{context}Next line of code:
)",
     64, eval_metric::code_sim, false, false},
    {"repobench-p", "Code", R"(Please complete the code given below. 
{context}{input}Next line of code:
)",
     64, eval_metric::code_sim, false, false},
}};

inline constexpr std::array<eval_task, 13> ruler_tasks{{
    detail::ruler_task("niah_single_1", 128),
    detail::ruler_task("niah_single_2", 128),
    detail::ruler_task("niah_single_3", 128),
    detail::ruler_task("niah_multikey_1", 128),
    detail::ruler_task("niah_multikey_2", 128),
    detail::ruler_task("niah_multikey_3", 128),
    detail::ruler_task("niah_multivalue", 128),
    detail::ruler_task("niah_multiquery", 128),
    detail::ruler_task("vt", 30),
    detail::ruler_task("cwe", 120),
    detail::ruler_task("fwe", 50),
    detail::ruler_task("qa_1", 32, eval_metric::string_match_part),
    detail::ruler_task("qa_2", 32, eval_metric::string_match_part),
}};

/// Returns the task called `name`, or null. LongBench's names may end in _e, as in LongBench-E.
constexpr const eval_task* find_task(std::string_view name) {
  const auto find = [&](const auto& tasks, std::string_view wanted) -> const eval_task* {
    for (const eval_task& task : tasks)
      if (task.name == wanted) return &task;
    return nullptr;
  };
  if (const eval_task* task = find(ruler_tasks, name)) return task;
  return find(longbench_tasks, name.ends_with("_e") ? name.substr(0, name.size() - 2) : name);
}

}  // namespace v0
}  // namespace lazyprune
