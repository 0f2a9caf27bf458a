// SPDX-License-Identifier: MIT
#include "commands/run_chat.hpp"

#include <algorithm>
#include <iostream>
#include <memory>
#include <span>
#include <utility>

#include "commands/outcome.hpp"
#include "commands/prompt_run.hpp"
#include "engine/engine.hpp"
#include "terminal/interrupts.hpp"
#include "terminal/typed_lines.hpp"
#include "words/chat_ids.hpp"
#include "words/chat_prompt.hpp"
#include "words/prompt_text.hpp"

namespace lazyprune {
namespace program {
namespace {

class chat_run {
 public:
  chat_run(const run_flags& flags, const std::string& document, const policy_registry& policies)
      : flags_(flags), run_(flags, policies), ids_(*run_.words()), before_(document.empty() ? "" : document + "\n\n") {
    chat_.set_add_generation_prompt(true);
    if (flags_.system) chat_.add_first("system", *flags_.system);
  }

  int run() {
    std::size_t document = 0;  // tokens of the document in the template
    if (!before_.empty()) {
      const std::vector<token_id> ids = run_.prompt(before_).ids;
      run_.check_length(ids, "document");
      document = ids.size();
    }
    if (!run_.load({}, document)) return 0;
    typed_lines lines;
    if (lines.typed()) std::cerr << "Ctrl-D ends the conversation, Ctrl-C an answer" << std::endl;
    while (const auto line = lines.next()) {
      if (line->empty()) continue;
      chat_.add("user", std::exchange(before_, "") + prompt_text(*line + '\n', "stdin"));
      answer();
      if (!interrupted()) continue;
      if (!lines.typed()) break;
      forget_interrupt();  // Ctrl-C ended the answer, not the conversation
    }
    return 0;
  }

 private:
  void answer() {
    chat_request marked = chat_;
    mark_documents(marked, run_.documents());
    const rendered_chat rendered = run_.rendered(marked);
    const std::vector<token_id>& prompt = ids_.next(rendered);
    run_.check_length(prompt);
    if (!text_) {  // a session's kept positions cannot change, so they are those of the first turn
      run_.keep(outside_documents(*run_.words(), rendered, prompt));
      text_ = run_.engine().begin(run_.new_session(run_.pruned()));
    }
    const auto parting = std::ranges::mismatch(text_->tokens(), prompt).in2 - prompt.begin();
    const std::size_t kept = std::min(static_cast<std::size_t>(parting), prompt.size() - 1);  // the last token is read again, as the query
    if (kept < text_->tokens().size()) text_->truncate(kept);
    outcome turn = run_.answer(run_.pruned(), prompt, kept, !flags_.json,
                               [&](const generation_options& options) { return text_->go_on(std::span(prompt).subspan(kept), options); });
    turn.kept = kept;
    chat_.add("assistant", turn.text.value_or(""));
    ids_.add_answer(turn.run.tokens);
    if (flags_.json)
      std::cout << to_json(run_.heading(), turn, std::nullopt) << std::flush;
    else
      report_turn(turn);
  }

  run_flags flags_;
  prompt_run run_;
  chat_ids ids_;
  chat_request chat_;
  std::string before_;  // the text in front of the next line: the document for the first turn, nothing for later turns
  std::unique_ptr<conversation> text_;
};

}  // namespace

chat_request chat_of(const run_flags& flags, const std::string& text) {
  chat_request chat;
  if (flags.messages.empty())
    chat.add("user", text);
  else
    chat = read_chat(flags.messages);
  if (flags.system) chat.add_first("system", *flags.system);
  chat.set_add_generation_prompt(true);
  return chat;
}

int run_chat(const run_flags& flags, const std::string& document, const policy_registry& policies) {
  catch_interrupts();
  return chat_run(flags, document, policies).run();
}

}  // namespace program
}  // namespace lazyprune
