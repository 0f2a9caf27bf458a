// SPDX-License-Identifier: MIT
#include "commands/run.hpp"

#include <iostream>
#include <optional>
#include <utility>

#include "commands/outcome.hpp"
#include "commands/prompt_run.hpp"
#include "commands/run_chat.hpp"
#include "commands/run_questions.hpp"
#include "models/sessions.hpp"
#include "pages/trace_page.hpp"
#include "tables/number_text.hpp"
#include "terminal/columns.hpp"
#include "terminal/interrupts.hpp"
#include "words/prompt_text.hpp"

#include <lazyprune/files/output_file.hpp>
#include <lazyprune/files/trace_file.hpp>

namespace lazyprune {
namespace program {
namespace {

/// The text of -f and -p: the document, a blank line and the question, or only one of them. It is empty with --ids and --messages.
std::string asked_text(const run_flags& flags) {
  std::string text = flags.file ? read_prompt(*flags.file) : "";
  if (flags.prompt) {
    if (flags.prompt->empty()) throw error("--prompt", "", "a text", "nothing");
    text.append(flags.file ? "\n\n" : "").append(*flags.prompt == "-" ? read_prompt("-") : *flags.prompt);
  }
  return text;
}

/// The file for the trace. It is opened before the work begins, so that a file that cannot be written is an error at once.
class trace_target {
 public:
  /// An empty path: no trace is wanted.
  explicit trace_target(const std::string& path) : html_(path.ends_with(".html")) {
    if (!path.empty()) file_.emplace(path);
  }

  bool wanted() const { return file_.has_value(); }
  bool html() const { return html_; }

  void write(const trace_document& document) {
    if (html_)
      file_->write(trace_page(document));
    else
      for (const step_trace& step : document.steps) file_->write(to_line(step) + '\n');
    file_->commit();
  }

 private:
  bool html_;
  std::optional<output_file> file_;
};

/// The answer to one prompt.
class single_run {
 public:
  /// `text` is the text of -f and -p.
  single_run(const run_flags& flags, const std::string& text, const policy_registry& policies)
      : flags_(flags), policies_(policies), trace_(flags.trace), run_(flags, policies) {
    chat_prompt prompt = run_.prompt(text);
    prompt_ = std::move(prompt.ids);
    run_.check_length(prompt_);
    run_.keep(prompt.kept);
  }

  int run() {
    run_.load(prompt_);
    // The pruned run comes first, because the user waits for its text. The second run gains from warm memory, and this must not favour
    // pruning.
    const outcome result = generate(run_.pruned(), trace_.wanted(), !flags_.json);
    std::optional<outcome> dense;
    if (flags_.compare && !interrupted()) dense = generate(run_.dense(), false, false);
    if (interrupted()) dense.reset();  // a run that was cut short cannot be compared
    if (flags_.json)
      std::cout << to_json(run_.heading(), result, dense);
    else
      report(result, dense, flags_.verbose);
    if (trace_.wanted() && result.run.trace.empty())
      std::cerr << one_line(flags_.trace) << ": not written, because no step was finished" << std::endl;
    else if (trace_.wanted())
      trace_.write(document(result, dense));
    return 0;
  }

 private:
  outcome generate(const named_policy& policy, bool trace, bool show) {
    return run_.answer(policy, prompt_, 0, show, [&](generation_options options) {
      options.trace = trace;
      options.trace_logits = trace && flags_.trace_logits;
      return run_.engine().generate(run_.new_session(policy), prompt_, options);
    });
  }

  /// The page's label of a token.
  std::string label(token_id id) const {
    if (!run_.words() || id >= run_.words()->size()) return std::to_string(id);
    return run_.words()->label(id);
  }

  trace_document document(const outcome& result, const std::optional<outcome>& dense) const {
    trace_document page;
    page.steps = result.run.trace;
    if (!trace_.html()) return page;
    for (const token_id id : prompt_) page.token_texts.push_back(label(id));
    for (const token_id id : result.run.tokens) page.token_texts.push_back(label(id));
    for (const step_trace& step : page.steps) page.next_texts.push_back(label(step.next));
    page.model = run_.model().path().string();
    page.policy = run_.pruned().text;
    page.answer = result.text.value_or("");
    page.facts.emplace_back("time to first token", seconds_text(result.run.prefill_seconds));
    if (dense) {
      page.facts.emplace_back("the dense model's", seconds_text(dense->run.prefill_seconds));
      page.facts.emplace_back("answer", dense->run.tokens == result.run.tokens ? "the dense model's" : "not the dense model's");
    }
    page.facts.emplace_back("keys and values", bytes_text(result.run.memory.kv));
    page.facts.emplace_back("aux store", bytes_text(result.run.memory.store));
    page.pruned_is_lost = loses_tokens(run_.pruned().spec, run_.model().config(), policies_);
    return page;
  }

  run_flags flags_;
  const policy_registry& policies_;
  trace_target trace_;
  prompt_run run_;
  std::vector<token_id> prompt_;
};

}  // namespace

int run(const run_flags& flags, const policy_registry& policies) {
  const std::string text = asked_text(flags);  // before catch_interrupts: Ctrl-C while the text is typed ends the program at once
  if (!flags.questions.empty()) return run_questions(flags, text, policies);
  if (flags.conversation) return run_chat(flags, text, policies);
  catch_interrupts();
  return single_run(flags, text, policies).run();
}

}  // namespace program
}  // namespace lazyprune
