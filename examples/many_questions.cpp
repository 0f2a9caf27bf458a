// SPDX-License-Identifier: MIT
// One document, many questions. The layers below the first pruning layer read the document once. A fork of the sequence answers each
// question. The answers are decoded in one batch, with one token of each answer per step.
//   build/examples/many_questions [MODEL DIRECTORY]
#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>
#include <lazyprune/text/model_tokenizer.hpp>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace {

using lazyprune::cpu, lazyprune::phase, lazyprune::token_id;

struct question {
  std::string text;
  lazyprune::sequence<cpu> answering;  // a fork of the document's sequence
  std::vector<token_id> ids;           // the next input: first the rest of the prompt, later the last chosen token
  std::vector<token_id> answer{};
};

std::string document() {
  std::string text = "read the document .";
  for (const char* fact : {"the sextant is in the theatres .", "the candle is in the temples .", "the bucket is in the railways ."}) {
    for (const char* filler : {" a distant bell did not change a careful plan .", " the old council arrived after the harvest .",
                               " a quiet crowd arrived after the price of bread .", " every neighbour arrived after a painted door . "})
      text += filler;
    text += fact;
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) try {
  const lazyprune::checkpoint files(argc > 1 ? argv[1] : "examples/pocket/model");
  const lazyprune::tokenizer tokenizer = lazyprune::find_tokenizer(files).value();
  cpu backend;
  const auto model = load_model(backend, files);
  lazyprune::workspace work(model, backend);
  const lazyprune::session_options options{.layers = static_cast<lazyprune::layer_id>(model.config.layers)};
  lazyprune::sequence shared(model, lazyprune::any_session(lazyprune::lazyllm(lazyprune::stages{{3, 0.5}, {5, 0.3}}), options));

  // A question may change how the end of the document is tokenized. So the shared prefix is the token ids with which all prompts begin.
  std::vector<std::vector<token_id>> prompts;
  const char* things[] = {"sextant", "candle", "bucket"};
  for (const std::string thing : things)
    prompts.push_back(tokenizer.encode(document() + " question : where is the " + thing + " ? answer : the " + thing + " is in the"));
  std::size_t common = prompts[0].size() - 1;
  for (const auto& ids : prompts)
    common = std::min(common, static_cast<std::size_t>(std::ranges::mismatch(prompts[0], ids).in1 - prompts[0].begin()));

  if (!read_beginning(work, shared, std::span(prompts[0]).first(common))) return 1;
  std::vector<question> questions;
  for (std::size_t i = 0; i < prompts.size(); ++i)
    questions.push_back({things[i], shared.fork(), {prompts[i].begin() + static_cast<std::ptrdiff_t>(common), prompts[i].end()}});

  for (int step = 0; step < 2; ++step) {  // step 0 reads the rest of each prompt; step 1 reads one token of each answer
    std::vector<lazyprune::sequence_step<cpu>> steps;
    for (question& q : questions) steps.push_back({q.answering, q.ids, step == 0 ? phase::prefill : phase::decode});
    if (!forward(work, steps)) return 1;
    for (std::size_t i = 0; i < questions.size(); ++i) {  // each question has one output
      const token_id next = lazyprune::greedy(read_logits(work, i));
      questions[i].answer.push_back(next);
      questions[i].ids = {next};
    }
  }
  std::printf("%zu tokens read once, %zu rows of %zu\n", shared.known(), shared.session().stats().rows,
              shared.session().stats().dense_rows);
  for (const question& q : questions)
    std::printf("the %s is in the %s %zu rows more\n", q.text.c_str(), tokenizer.decode(q.answer).c_str(),
                q.answering.session().stats().rows - shared.session().stats().rows);
} catch (const lazyprune::error& fault) {
  std::fprintf(stderr, "many_questions: %s\n", fault.what());
  return 1;
}
