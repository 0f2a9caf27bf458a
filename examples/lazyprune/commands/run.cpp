// SPDX-License-Identifier: MIT
#include "commands/run.hpp"

#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <unistd.h>

#include "commands/outcome.hpp"
#include "engine/engine.hpp"
#include "engine/model_choice.hpp"
#include "engine/sessions.hpp"
#include "pages/trace_page.hpp"
#include "tables/number_text.hpp"
#include "terminal/columns.hpp"
#include "terminal/text_stream.hpp"

#include <lazyprune/io/output_file.hpp>
#include <lazyprune/io/read_to_end.hpp>
#include <lazyprune/io/tokenizer.hpp>
#include <lazyprune/io/trace_file.hpp>
#include <lazyprune/model/generator.hpp>

namespace lazyprune {
namespace program {
namespace {

volatile std::sig_atomic_t interrupted = 0;

/// The first Ctrl-C ends the text; the second ends the program, as if it had never been caught.
extern "C" void interrupt(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

/// Whoever started the program with Ctrl-C ignored, in the background of a shell say, wants it ignored.
void catch_interrupts() {
  if (std::signal(SIGINT, SIG_IGN) != SIG_IGN) std::signal(SIGINT, interrupt);
}

/// The text of -p or -f. The newline that ends a file's last line is none of the prompt's.
std::string prompt_text(const run_flags& flags) {
  if (flags.prompt && *flags.prompt != "-") return *flags.prompt;
  std::string text;
  if (flags.prompt)
    text = read_to_end(STDIN_FILENO, "stdin", most_streamed_bytes);
  else
    text = read_to_end(*flags.file, most_streamed_bytes);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

/// The model's tokenizer, none where it has none. Token ids need none either: with them, one that cannot be used is no fault.
std::optional<tokenizer> tokenizer_of(const opened_model& model, const run_flags& flags) {
  try {
    return model.load_tokenizer();
  } catch (const error& fault) {
    if (fault.code() == error_code::io) throw;
    if (flags.ids.empty() || !flags.stops.empty()) throw;
    std::cerr << "no text, the tokenizer cannot be used: " << one_line(fault.what()) << std::endl;
    return std::nullopt;
  }
}

void check_ids(std::string_view flag, const std::vector<token_id>& ids, const model_config& config) {
  for (const token_id id : ids)
    if (id >= config.vocabulary)
      throw error(flag, "", "token ids below the vocabulary's " + std::to_string(config.vocabulary), std::to_string(id));
}

/// The file that the trace goes to, opened before the work begins.
class trace_target {
 public:
  /// An empty path: nowhere.
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

class text_run {
 public:
  /// `text`: the prompt, where it is not given as ids.
  text_run(const run_flags& flags, const std::string& text, const policy_registry& policies)
      : flags_(flags),
        policies_(policies),
        trace_(flags.trace),
        model_(flags.model),
        spec_(with_recommended_stages(flags.policy, model_, policies)),
        policy_text_(flags_of(spec_, model_.layers(), policies)),
        tokenizer_(tokenizer_of(model_, flags_)) {
    check(flags_.backend);
    const std::size_t context = model_.context(flags_.context);
    check_ids("--ids", flags_.ids, model_.config());
    check_ids("--force-ids", flags_.force, model_.config());
    if (!tokenizer_ && !flags_.stops.empty())
      throw error("--stop", "", "a model with a tokenizer", "no tokenizer.model in " + model_.directory().string());
    prompt_ = flags_.ids.empty() ? encode(text) : flags_.ids;
    if (prompt_.size() > context)
      throw error("prompt", "", "at most " + std::to_string(context) + " tokens", std::to_string(prompt_.size()));
    if (prompt_.empty()) throw error("prompt", "", "at least one token", "none");
  }

  int run() {
    if (!interrupted) engine_ = load_engine(flags_.backend, model_);
    if (!interrupted) warm_up();
    // The pruned run comes first: its text is what is waited for, and what a second run gains by warm memory is the dense one's gain.
    const outcome result = generate(spec_, policy_text_, trace_.wanted(), !flags_.json);
    std::optional<outcome> dense;
    if (flags_.compare && !interrupted) dense = generate(dense_spec(), "--policy dense", false, false);
    if (interrupted) dense.reset();  // cut short, it compares with nothing
    if (flags_.json)
      std::cout << to_json({.model = model_.directory().string(),
                            .backend = flags_.backend.backend,
                            .isa = std::string(isa_of(flags_.backend)),
                            .seed = flags_.sampling.seed},
                           result, dense);
    else
      report(result, dense);
    if (trace_.wanted() && !result.run.trace.empty()) trace_.write(document(result, dense));
    return 0;
  }

 private:
  std::vector<token_id> encode(const std::string& prompt) const {
    if (!tokenizer_)
      throw error("prompt", "", "--ids, or a model with a tokenizer", "no tokenizer.model in " + model_.directory().string());
    return tokenizer_->encode(prompt);
  }

  /// Threads started and the code in memory before a clock runs: a prefill of the prompt's beginning.
  void warm_up() {
    constexpr std::size_t enough = 64;
    generation_options options;
    options.max_new = flags_.predict > 0 || !flags_.force.empty() ? 1 : 0;
    options.observer = &interrupts_;
    engine_->generate(new_session(dense_spec(), model_.layers(), policies_), std::span(prompt_).first(std::min(enough, prompt_.size())),
                      options);
  }

  outcome generate(const policy_spec& spec, const std::string& policy_text, bool trace, bool show) {
    any_session session = new_session(spec, model_.layers(), policies_);
    outcome result{.run = {},
                   .text = {},
                   .prompt_tokens = prompt_.size(),
                   .weight_bytes = engine_ ? engine_->weight_bytes() : 0,
                   .policy_name = name_of(spec),
                   .policy_text = policy_text};
    if (interrupted) {
      result.run.reason = finish_reason::stop;
      result.run.cost = session.stats();
      if (tokenizer_) result.text = "";
      return result;
    }
    text_stream out(flags_.stops, [&](std::string_view piece) {
      if (show) std::cout << piece << std::flush;
    });
    std::optional<token_decoder> decoder;
    if (tokenizer_) {
      decoder.emplace(*tokenizer_);
      for (const token_id id : prompt_) decode(*decoder, id);
    }
    generation_options options;
    options.max_new = flags_.predict;
    options.context = flags_.context;
    options.sampler = flags_.sampling;
    options.ignore_eos = flags_.ignore_eos;
    options.force = flags_.force;
    options.trace = trace;
    options.trace_logits = trace && flags_.trace_logits;
    options.observer = &interrupts_;
    bool first = true;
    options.on_token = [&](token_id id) {
      const bool more = decoder ? out.feed(decode(*decoder, id)) : true;
      if (!decoder && show) std::cout << (std::exchange(first, false) ? "" : ",") << id << std::flush;
      return more && !interrupted;
    };
    result.run = engine_->generate(std::move(session), prompt_, options);
    if (decoder) {
      out.feed(decoder->finish());
      out.finish();
      result.text = out.text();
    }
    if (show) std::cout << std::endl;
    return result;
  }

  /// A model's vocabulary may be larger than its tokenizer's, in fillers that stand for no text.
  std::string decode(token_decoder& decoder, token_id id) const { return id < tokenizer_->size() ? decoder.push(id) : ""; }

  /// One token by itself, as the page labels it.
  std::string label(token_id id) const {
    if (!tokenizer_ || id >= tokenizer_->size()) return std::to_string(id);
    std::string text = tokenizer_->piece(id).text;
    constexpr std::string_view space = "\xe2\x96\x81";  // U+2581, which pieces have for a space
    for (std::size_t at; (at = text.find(space)) != text.npos;) text.replace(at, space.size(), " ");
    return text;
  }

  trace_document document(const outcome& result, const std::optional<outcome>& dense) const {
    trace_document page;
    page.steps = result.run.trace;
    if (!trace_.html()) return page;
    for (const token_id id : prompt_) page.token_texts.push_back(label(id));
    for (const token_id id : result.run.tokens) page.token_texts.push_back(label(id));
    for (const step_trace& step : page.steps) page.next_texts.push_back(label(step.next));
    page.model = model_.directory().string();
    page.policy = policy_text_;
    page.answer = result.text.value_or("");
    page.facts.emplace_back("time to first token", seconds_text(result.run.prefill_seconds));
    if (dense) {
      page.facts.emplace_back("the dense model's", seconds_text(dense->run.prefill_seconds));
      page.facts.emplace_back("answer", dense->run.tokens == result.run.tokens ? "the dense model's" : "not the dense model's");
    }
    page.facts.emplace_back("keys and values", bytes_text(result.run.memory.kv));
    page.facts.emplace_back("aux store", bytes_text(result.run.memory.store));
    page.pruned_is_lost = loses_tokens(spec_, model_.layers(), policies_);
    return page;
  }

  struct ends_when_interrupted final : step_observer {
    bool stops() override { return interrupted != 0; }
  };

  run_flags flags_;
  const policy_registry& policies_;
  trace_target trace_;
  opened_model model_;
  policy_spec spec_;
  std::string policy_text_;
  std::optional<tokenizer> tokenizer_;
  std::vector<token_id> prompt_;
  std::unique_ptr<engine> engine_;
  ends_when_interrupted interrupts_;
};

}  // namespace

int run(const run_flags& flags, const policy_registry& policies) {
  const std::string text = flags.ids.empty() ? prompt_text(flags) : "";  // Ctrl-C while it is typed ends the program at once
  catch_interrupts();
  return text_run(flags, text, policies).run();
}

}  // namespace program
}  // namespace lazyprune
