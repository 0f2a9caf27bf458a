// SPDX-License-Identifier: MIT
#include "commands/prompt_run.hpp"

#include <algorithm>
#include <iostream>
#include <utility>

#include "commands/run_chat.hpp"
#include "engine/memory_forecast.hpp"
#include "tables/number_text.hpp"
#include "terminal/columns.hpp"
#include "terminal/reading_progress.hpp"
#include "terminal/text_stream.hpp"

#include <lazyprune/model/cost_model.hpp>
#include <lazyprune/model/layers_of.hpp>
#include <lazyprune/text/end_of_generation.hpp>

namespace lazyprune {
namespace program {
namespace {

/// Returns the model's tokenizer, or null if the model has none. A prompt of token ids needs no tokenizer unless there are stop texts. If
/// the tokenizer of such a run cannot be used, the result is null, and a line on stderr says why.
const tokenizer* tokenizer_of(const model_words& words, const run_flags& flags) {
  const auto& fault = words.tokens().fault();
  if (fault && !flags.ids.empty() && flags.stops.empty()) {
    std::cerr << "the answer has no text, because the tokenizer cannot be used: " << one_line(fault->what()) << std::endl;
    return nullptr;
  }
  const std::optional<tokenizer>& tokens = words.tokens().get();
  return tokens ? &*tokens : nullptr;
}

void check_ids(std::string_view flag, const std::vector<token_id>& ids, const model_config& config) {
  for (const token_id id : ids)
    if (id >= config.vocabulary)
      throw error(flag, "", "token ids below the vocabulary's " + std::to_string(config.vocabulary), std::to_string(id));
}

named_policy named(const chosen_policy& chosen, const opened_model& model, const policy_registry& policies) {
  std::string text = flags_of(chosen.spec, layers_of(model.config()), policies);
  chosen_policy shown = chosen;
  if (!shown.spec.stages && !shown.spec.schedule) {
    const policy_spec whole = parse_policy(text);
    shown.spec.stages = whole.stages;
    shown.spec.schedule = whole.schedule;
  }
  std::string line = text == flags_text(dense_spec()) ? std::string(dense_policy) : shown.line();
  return {chosen.spec, std::move(text), std::move(line)};
}

/// Throws `error` if a flag is given that has an effect only in a chat.
void refuse_flags_of_chats(const run_flags& flags) {
  for (const auto& [given, flag] :
       {std::pair(flags.documents.has_value(), std::string_view("--document-roles")),
        std::pair(flags.system.has_value(), std::string_view("--system")), std::pair(!flags.words.given().empty(), flags.words.given())})
    if (given) throw error(flag, "", "a chat: --chat, or -f and -p with a model that has a chat template", "a prompt of plain text");
}

/// True if the model has a chat template that can be used.
bool has_template(const model_words& words) {
  const found_once<chat_words> chat([&] { return words.find_chat(); });
  return !chat.fault() && chat.get();
}

/// Estimates the seconds of the dense model with the cost model. Returns nullopt if nothing was pruned or generated.
std::optional<answer_seconds> guess_of_dense(const model_config& config, const generation& run, std::size_t prompt,
                                             const warm_up& dense_start) {
  const statistics& cost = run.cost;
  if (run.tokens.empty() || cost.rows >= cost.dense_rows) return std::nullopt;
  const cost_model costs =
      measured_costs(config, std::span(&cost.prefill_rows, 1), run.prefill_seconds, run.sections.attention, run.sections.logits);
  answer_seconds dense{.first_token = costs.prefill(config, cost.prefill_dense_rows), .last_token = 0};
  dense.last_token = dense.first_token;
  // The warm-up measured a step after few tokens. Later steps attend to more keys: the cost model adds the time for them.
  const double before_keys = dense_start.step_seconds - costs.decode_step(config, dense_start.tokens);
  for (std::size_t i = 1; i < run.tokens.size(); ++i) dense.last_token += before_keys + costs.decode_step(config, prompt + i);
  return dense;
}

}  // namespace

prompt_run::prompt_run(const run_flags& flags, const policy_registry& policies)
    : flags_(flags),
      policies_(policies),
      model_(flags.model),
      chosen_(policy_for(flags.policy, model_, policies)),
      pruned_(named(chosen_, model_, policies)),
      dense_(named({.spec = dense_spec()}, model_, policies)),
      words_(model_, flags.words),
      tokens_(tokenizer_of(words_, flags_)) {
  lazyprune::program::check(flags_.backend);
  context_ = model_.context(flags_.context);
  check_ids("--ids", flags_.ids, model_.config());
  check_ids("--force-ids", flags_.force, model_.config());
  if (!flags_.stops.empty()) words_.tokenizer_for("--stop");
  if (tokens_) ends_ = end_of_generation(*tokens_, model_.config().eos);
  if (flags_.chat)
    chat_ = words_.chat_for(flags_.conversation ? "chat" : "--chat");
  else if (flags_.file && flags_.prompt && !flags_.raw)
    chat_ = words_.find_chat();
  if (chat_) words_.tokenizer_for("--chat");
  if (!chat_) refuse_flags_of_chats(flags_);
  if (flags_.speculate > 0 && !new_session(pruned_).may_speculate())
    throw error("--speculate", "",
                "--decode dense, because drafts are read without pruning, and a scorer that does not remember earlier steps, because "
                "rejected drafts would stay in its memory",
                pruned_.text, error_code::unsupported);
}

any_session prompt_run::new_session(const named_policy& policy) const {
  return lazyprune::program::new_session(policy.spec, model_.config(), policies_);
}

chat_prompt prompt_run::prompt(const std::string& text) const {
  if (!flags_.ids.empty()) return {flags_.ids, {}};
  if (!chat_) return {encode(text), {}};
  return prompt_of(*chat_, *tokens_, chat_of(flags_, text), documents());
}

named_policy prompt_run::pruned_except(const position_spans& kept) const {
  named_policy policy = pruned_;
  if (!chat_) return policy;
  policy.spec = policy_for_prompt(std::move(policy.spec), kept);
  policy.text = flags_of(policy.spec, layers_of(model_.config()), policies_);
  return policy;
}

std::vector<token_id> prompt_run::encode(const std::string& text) const {
  if (!tokens_) throw error("prompt", "", "--ids, or a model with a tokenizer", "no tokenizer in " + model_.path().string());
  return tokens_->encode(text, flags_.parse_special && !has_document(flags_) ? special_tokens::parsed : special_tokens::spelled_out);
}

void prompt_run::check_length(std::span<const token_id> prompt, const std::string& which) const {
  const std::string at_most = "at most " + std::to_string(context_) + " tokens";
  if (prompt.size() > context_) throw error("prompt", which, at_most, std::to_string(prompt.size()), error_code::no_room);
  if (prompt.empty()) throw error("prompt", which, "at least one token", "none");
  const std::size_t forced = prompt.size() + std::max<std::size_t>(flags_.force.size(), 1) - 1;
  if (forced > context_)
    throw error("forced tokens", which.empty() ? "length" : which, at_most + " with the prompt", std::to_string(forced),
                error_code::no_room);
}

bool prompt_run::load(std::span<const token_id> prompt, std::size_t more) {
  if (!chosen_.note.empty()) std::cerr << chosen_.note << std::endl;
  if (!flags_.json && !chat_ && !flags_.raw && flags_.ids.empty() && has_template(words_))
    std::cerr << "the prompt is read as plain text; --chat puts it into the model's chat template" << std::endl;
  const std::size_t tokens = prompt.size() + more;
  const memory_forecast forecast = forecast_memory(model_, flags_.backend, tokens, expected_length(tokens));
  if (!flags_.json)
    std::cerr << "memory: " << bytes_text(forecast.weights) << " of weights, " << bytes_text(forecast.kv) << " of keys and values, about "
              << bytes_text(forecast.scratch) << " of scratch" << std::endl;
  if (!flags_.force_memory) check_memory(forecast, flags_.backend);
  if (!interrupted()) engine_ = load_engine(flags_.backend, model_);
  if (interrupted()) return false;
  if (prompt.empty()) return true;
  constexpr std::size_t enough = 64;
  // The warm-up decodes only for a report that estimates the dense model's time.
  const bool estimates = !flags_.json && !flags_.compare && flags_.questions.empty() && pruned_.text != dense_.text;
  const std::size_t steps = estimates ? 3 : 0;
  generation_options few_steps;
  few_steps.max_new = generates() ? 1 + steps : 0;
  few_steps.ignore_eos = true;
  few_steps.observer = &interrupts_;
  const generation dense = engine_->generate(new_session(dense_), prompt.first(std::min(enough, prompt.size())), few_steps);
  if (dense.decode_steps > 0)
    warm_up_ = {.tokens = std::min(enough, prompt.size()), .step_seconds = dense.decode_seconds / static_cast<double>(dense.decode_steps)};
  return !interrupted();
}

std::size_t prompt_run::expected_length(std::size_t prompt) const {
  constexpr std::size_t usual_answer = 1024;  // an answer without a limit hardly ever fills the context
  const std::size_t answer = flags_.force.empty() ? std::min(flags_.predict, usual_answer) : flags_.force.size();
  return std::min(prompt + answer, context_);
}

generation_options prompt_run::options() {
  generation_options options;
  options.max_new = flags_.predict;
  options.context = flags_.context;
  options.chunk = flags_.chunk;
  options.speculate = flags_.speculate;
  options.sampler = flags_.sampling;
  options.ignore_eos = flags_.ignore_eos;
  options.eos = ends_;
  options.force = flags_.force;
  options.observer = &interrupts_;
  return options;
}

outcome prompt_run::answer(const named_policy& policy, std::span<const token_id> prompt, std::size_t known, bool show,
                           const std::function<generation(const generation_options&)>& generate) {
  outcome result{.run = {},
                 .text = {},
                 .prompt_tokens = prompt.size(),
                 .weight_bytes = engine_ ? engine_->weight_bytes() : 0,
                 .policy_name = name_of(policy.spec),
                 .policy_line = policy.line,
                 .policy_text = policy.text};
  const any_session session = new_session(policy);
  if (flags_.chunk > 0) result.chunks = {flags_.chunk, session.chunk_layers(phase::prefill)};
  result.speculates = flags_.speculate > 0;
  result.least_tokens = policy.spec.least_tokens.value_or(0);
  result.prunes_steps = session.chunk_layers(phase::decode) < session.layers();
  if (interrupted()) {
    result.run.reason = finish_reason::stop;
    result.run.cost = session.stats();
    if (tokens_) result.text = "";
    return result;
  }
  text_stream out(flags_.stops, [&](std::string_view piece) {
    if (show) std::cout << piece << std::flush;
  });
  std::optional<token_decoder> decoder;
  if (tokens_) {
    decoder.emplace(*tokens_);
    for (const token_id id : prompt) decode(*decoder, id);
    decoder->begin_answer();
  }
  generation_options asked = options();
  reading_progress progress(prompt.size() - known, !flags_.json);
  step_observers observers{&progress, &interrupts_};
  asked.observer = &observers;
  bool first = true;
  asked.on_token = [&](token_id id) {
    const bool more = decoder ? out.feed(decode(*decoder, id)) : true;
    if (!decoder && show) std::cout << (std::exchange(first, false) ? "" : ",") << id << std::flush;
    return more && !interrupted();
  };
  result.run = generate(asked);
  progress.end();
  if (decoder) {
    out.feed(decoder->flush());
    out.flush();
    result.text = out.text();
  }
  if (known == 0 && warm_up_) result.dense_guess = guess_of_dense(model_.config(), result.run, prompt.size(), *warm_up_);
  if (interrupted()) result.cut_by = "Ctrl-C";
  if (result.run.reason == finish_reason::length && flags_.force.empty() && !result.run.tokens.empty())
    result.cut_by = result.run.tokens.size() == flags_.predict ? "-n" : "the context's end";
  if (show) std::cout << std::endl;
  return result;
}

run_heading prompt_run::heading() const {
  return {.model = model_.path().string(),
          .backend = flags_.backend.backend,
          .isa = std::string(isa_of(flags_.backend)),
          .device = device_of(flags_.backend),
          .seed = flags_.sampling.seed};
}

}  // namespace program
}  // namespace lazyprune
