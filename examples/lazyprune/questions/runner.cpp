// SPDX-License-Identifier: MIT
#include "questions/runner.hpp"

#include <algorithm>
#include <deque>
#include <iostream>
#include <iterator>
#include <string_view>
#include <utility>

#include "models/sessions.hpp"
#include "questions/prepared_prompt.hpp"
#include "questions/text_digest.hpp"
#include "questions/text_questions.hpp"

#include <lazyprune/eval/compression.hpp>
#include <lazyprune/eval/truncation.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/model/generation.hpp>
#include <lazyprune/model/layers_of.hpp>
#include <lazyprune/text/end_of_generation.hpp>

namespace lazyprune {
namespace program {
namespace {

constexpr std::string_view own_template = "template";

const chat_format& chat_named(const std::string& name) {
  if (const chat_format* format = find_chat_format(name == own_template ? "none" : name)) return *format;
  throw error("--chat", "", "none, llama2, xgen or template", name);
}

/// Returns the beginning of the answer. If the rendered chat ends with a space or a line break, the answer's leading spaces are dropped.
std::string_view in_answer(const rendered_chat& chat, std::string_view answer_prefix) {
  if (chat.text().ends_with(' ') || chat.text().ends_with('\n'))
    answer_prefix.remove_prefix(std::min(answer_prefix.find_first_not_of(' '), answer_prefix.size()));
  return answer_prefix;
}

/// Returns the hash of a chat template and its variables. The rendered prompts are not hashed, because they may have today's date.
std::uint64_t template_digest(const chat_words& words, const template_flags& flags) {
  text_digest digest;
  digest.add(words.source());
  for (const std::string& variable : flags.variables) digest.add(variable);
  return digest.value();
}

/// Returns the prompt without the beginning of its answer.
std::string question_of(const eval_task& task, const eval_sample& sample) {
  std::string text = prompt_of(task, sample);
  text.resize(text.size() - sample.answer_prefix.size());
  return text;
}

/// Returns how many of the first `prompt` tokens each layer has computed: (layers).
std::vector<std::uint64_t> computed_by_layer(const frontier_table& tokens, std::size_t prompt, std::size_t layers) {
  std::vector<std::uint64_t> frontiers(layers + 1, 0);
  for (std::size_t t = 0; t < prompt; ++t) ++frontiers[tokens.frontier(static_cast<position>(t))];
  std::vector<std::uint64_t> computed(layers);
  std::uint64_t above = 0;
  for (std::size_t l = layers; l-- > 0;) computed[l] = above += frontiers[l + 1];
  return computed;
}

/// Returns the eleven entries nearest to 0 %, 10 %, ..., 100 % of the steps.
std::vector<std::vector<std::uint64_t>> tenths_of(const std::vector<std::vector<std::uint64_t>>& steps) {
  std::vector<std::vector<std::uint64_t>> usage;
  for (std::size_t tenth = 0; tenth <= 10; ++tenth) usage.push_back(steps[(tenth * (steps.size() - 1) + 5) / 10]);
  return usage;
}

}  // namespace

runner::runner(const model_flags& model, const backend_flags& backend, const question_flags& flags, const policy_registry& policies)
    : flags_(flags),
      backend_(backend),
      policies_(policies),
      chat_(chat_named(flags.chat)),
      questions_(flags),
      model_(model),
      words_(model_, flags_.words),
      tokenizer_(words_.tokenizer_for("eval")),
      ends_(end_of_generation(tokenizer_, model_.config().eos)),
      context_(model_.context(flags.context)) {
  check(backend_);
  if (!flags_.texts.files.empty()) {
    questions_ = question_set(text_questions(flags_.texts, tokenizer_));
    flags_.chat = words_.find_chat() ? own_template : "none";
  }
  read_.assign(questions_.size(), reading::not_yet);
  identity_ = model_.identity();
  if (flags_.chat == own_template)
    template_ = words_.chat_for("--chat");
  else if (!flags_.words.given().empty())
    throw error(flags_.words.given(), "", "--chat template with it", "--chat " + flags_.chat);
  if (flags_.max_length == 1) throw error("--max-length", "", "at least 2", "1");
  for (const question& asked : questions_) {
    if (context_ < 2 || new_tokens(*asked.task) > context_ - 2)
      throw error("--ctx-size", "", "at least " + std::to_string(new_tokens(*asked.task)) + " tokens for an answer, and 2 for the prompt",
                  std::to_string(context_));
  }
}

std::string runner::how_asked(const ask& asked) const {
  return asked.setting.description(layers_of(model_.config()), policies_) + how_asked(asked.question, asked.timed);
}

std::string runner::how_asked(std::size_t question_number, bool timed) const {
  const question& q = questions_[question_number];
  std::string text;
  const auto add = [&](std::string_view flag, const std::string& value) { text.append(" ").append(flag).append(" ").append(value); };
  add("--task", std::string(q.task->name));
  add("-n", std::to_string(new_tokens(*q.task)));
  add("-c", std::to_string(context_));
  add("--max-length", std::to_string(flags_.max_length));
  add("--chat", flags_.chat);
  if (flags_.chat != "none" && !q.sample.answer_prefix.empty()) text.append(", the answer begun in the model's turn");
  text += how_computed(backend_);
  if (!timed) text.append(", not timed");
  text.append(", prompt ").append(hex_text(digest_of(lazyprune::prompt_of(*q.task, q.sample))));
  if (template_) text.append(", template ").append(hex_text(template_digest(*template_, flags_.words)));
  return text + ", model " + identity_;
}

run_record runner::record(std::string command, const run_part& part) const {
  run_record record{.command = std::move(command),
                    .model = well_formed(model_.path().string()),
                    .name = well_formed(model_name(model_.path())),
                    .fingerprint = identity_,
                    .layers = layers(),
                    .part = part};
  for (const question& q : questions_) {
    text_digest digest;
    digest.add(q.task->name).add(q.sample.id).add(lazyprune::prompt_of(*q.task, q.sample));
    for (const std::string& right : q.sample.answers) digest.add(right);
    record.samples.push_back({std::string(q.task->name), well_formed(q.file), q.number, q.sample.id, {}, digest.value()});
  }
  return record;
}

void runner::load(std::size_t jobs) {
  if (engine_) return;
  engine_ = load_engine(backend_, model_);
  jobs_ = jobs;
  if (jobs > 1) engine_->use_threads(std::max(1, engine_->threads() / static_cast<int>(jobs)));
  constexpr std::size_t enough = 64;
  const shared_prompt first = prompt_of(0);
  first_token_seconds(std::span(*first).first(std::min(enough, first->size())));
}

runner::shared_prompt runner::prompt_of(std::size_t place) const {
  {
    const std::lock_guard lock(reading_now_);
    if (last_ && last_place_ == place) return last_;
  }
  const shared_prompt read = std::make_shared<const std::vector<token_id>>(encoded(place));
  const std::lock_guard lock(reading_now_);
  last_place_ = place;
  last_ = read;
  return read;
}

std::vector<token_id> runner::encoded(const eval_task& task, std::string_view text, std::string_view answer_prefix) const {
  if (!template_ || !task.chat) return tokenizer_.encode(in_chat(chat_, task, text, answer_prefix));
  const rendered_chat chat = template_->render(asked_once(text));
  std::vector<lazyprune::text_run> runs = chat.runs();
  if (!answer_prefix.empty()) runs.push_back({in_answer(chat, answer_prefix)});
  return tokenizer_.encode(runs, chat.template_words());
}

token_range runner::context_in(const question& asked, std::span<const token_id> prompt) const {
  const std::string& answer_prefix = asked.sample.answer_prefix;
  prompt_parts parts = prompt_parts_of(*asked.task, asked.sample);
  parts.after.resize(parts.after.size() - answer_prefix.size());
  if (template_ && asked.task->chat) {
    const rendered_chat chat = template_->render(asked_once(question_of(*asked.task, asked.sample)));
    const std::vector<lazyprune::text_run> runs = chat.runs();
    const auto is_own = [](const lazyprune::text_run& run) { return run.trusted; };
    const auto first = std::ranges::find_if_not(runs, is_own);
    const auto last = std::find_if_not(runs.rbegin(), std::make_reverse_iterator(first), is_own).base();
    const auto read = [&](auto begin, auto end) { return tokenizer_.decode(tokenizer_.encode(std::span(begin, end))); };
    parts.before.insert(0, read(runs.begin(), first));
    parts.after.append(read(last, runs.end())).append(in_answer(chat, answer_prefix));
  } else if (asked.task->chat) {
    parts.before.insert(0, chat_.before);
    parts.after.append(chat_.after).append(answer_prefix);
  } else {
    parts.after += answer_prefix;
  }
  return context_of(prompt, parts.before, parts.after, tokenizer_);
}

/// A prompt that is cut in the middle and encoded again may have a few tokens too many. The loop then cuts that many more.
std::vector<token_id> runner::encoded(std::size_t place) const {
  const question& asked = questions_[place];
  const std::size_t room = context_ - new_tokens(*asked.task);
  const std::string whole = question_of(*asked.task, asked.sample);
  for (std::size_t most = flags_.max_length > 0 ? flags_.max_length : room;;) {
    const std::string text = middle_truncated(whole, most, tokenizer_);
    std::vector<token_id> ids = encoded(*asked.task, text, asked.sample.answer_prefix);
    if (ids.size() <= room) {
      const std::lock_guard lock(reading_now_);
      read_[place] = text == whole ? reading::whole : reading::cut;
      return ids;
    }
    const std::size_t excess = ids.size() - room;
    if (most < excess + 2)
      throw error("sample " + asked.sample.id, "prompt", "at most " + std::to_string(room) + " tokens", std::to_string(ids.size()));
    most -= excess;
  }
}

void runner::tell_of_cut_prompts() const {
  const auto cut = std::ranges::count(read_, reading::cut), whole = std::ranges::count(read_, reading::whole);
  if (cut > 0) std::cerr << cut << " of " << cut + whole << " prompts were too long: their middle was left out" << std::endl;
}

double runner::first_token_seconds(std::span<const token_id> prompt) const {
  generation_options options;
  options.max_new = 1;
  return engine_->generate(new_session(dense_spec(), model_.config(), policies_), prompt, options).prefill_seconds;
}

double runner::dense_seconds(std::size_t question) const { return first_token_seconds(*prompt_of(question)); }

runner::prefix_shape runner::prefix_of(const eval_setting& setting) const {
  if (setting.prompt_share < 1) return {};
  const any_session session = new_session(setting.policy, model_.config(), policies_);
  return {session.chunk_layers(phase::prefill), session.evidence_window()};
}

void runner::share(const eval_setting* setting, const prefix_shape& prefix) {
  sharing_ = setting && prefix.layers > 0 ? std::optional(setting->policy) : std::nullopt;
  shared_ = prefix;
  keeps_beginnings_ = false;
  beginnings_.clear();
}

layer_id runner::share(std::span<const eval_setting> settings) {
  // Choose the prefix that saves the most. It saves its layers once for each setting that can go on from it, except for the setting that
  // computes it.
  std::vector<prefix_shape> prefixes;
  for (const eval_setting& setting : settings) prefixes.push_back(prefix_of(setting));
  const eval_setting* best = nullptr;
  prefix_shape chosen;
  std::size_t most = 0;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const prefix_shape& prefix = prefixes[i];
    const auto all = std::ranges::count_if(prefixes, [&](const prefix_shape& own) { return own.can_go_on_from(prefix); });
    const std::size_t saved = prefix.layers * (static_cast<std::size_t>(all) - 1);
    if (saved <= most) continue;
    most = saved;
    best = &settings[i];
    chosen = prefix;
  }
  share(best, chosen);
  return chosen.layers;
}

void runner::share_with_those_to_come(const eval_setting& setting, std::size_t bytes) {
  share(&setting, prefix_of(setting));
  keeps_beginnings_ = true;
  room_ = bytes;
}

std::pair<const prompt_prefix*, std::size_t> runner::beginning_for(const ask& asked, const any_session& session,
                                                                   std::span<const token_id> read) const {
  // Each setting reads the last `query` tokens for itself. The shared prefix has `least` tokens or more: with fewer than 3 tokens in a
  // step, attention on cpu splits the keys differently, and the rounding changes.
  constexpr std::size_t query = 16, least = 3;
  if (asked.timed || !sharing_ || asked.setting.prompt_share < 1 || read.size() < query + least) return {};
  if (!prefix_shape{session.chunk_layers(phase::prefill), session.evidence_window()}.can_go_on_from(shared_)) return {};
  const std::size_t shared = read.size() - query;
  if (const auto there = beginnings_.find(asked.question); there != beginnings_.end()) return {there->second.get(), shared};
  if (keeps_beginnings_) {
    const std::size_t bytes = shared * shared_.layers * engine_->kv_row_bytes();
    if (bytes > room_) return {};
    room_ -= bytes;
  } else {
    beginnings_.clear();
  }
  generation_options options;
  options.expected = expected(read.size(), *questions_[asked.question].task);
  const std::unique_ptr<prompt_prefix>& made = beginnings_[asked.question] =
      engine_->read(new_session(*sharing_, model_.config(), policies_), read.first(shared), options);
  if (keeps_beginnings_) made->release_scratch();
  return {made.get(), shared};
}

/// The state of one answer while it is generated. Not movable, because the functions in `options` hold pointers to this object.
struct runner::answering {
  const runner& run;
  const ask& asked;
  const question& q;
  std::size_t whole;  // tokens of the prompt before preparation
  prepared_prompt prompt;
  token_decoder decoder;
  std::string text{};
  std::vector<std::vector<std::uint64_t>> steps{};  // computed_by_layer after each step
  generation_options options{};

  answering(const runner& r, const ask& a, std::size_t prompt_tokens, prepared_prompt made)
      : run(r), asked(a), q(r.questions_[a.question]), whole(prompt_tokens), prompt(std::move(made)), decoder(r.tokenizer_) {
    options.max_new = run.new_tokens(*q.task);
    options.context = run.flags_.context;
    options.eos = run.ends_;
    options.on_step = [this](const any_session& session) {
      steps.push_back(computed_by_layer(session.tokens(), prompt.tokens.size(), run.layers()));
    };
    options.on_token = [this](token_id id) {
      if (id < run.tokenizer_.size()) text += decoder.push(id);  // larger ids pad the vocabulary and have no text
      return answer_in(*q.task, text).size() == text.size();
    };
  }
  answering(const answering&) = delete;
  answering& operator=(const answering&) = delete;

  sequence_request request() const {
    any_session session = new_session(prompt.policy, run.model_.config(), run.policies_);
    const auto [beginning, read] = run.beginning_for(asked, session, prompt.tokens);
    return {std::move(session), std::span(prompt.tokens).subspan(read), options, beginning};
  }

  eval_prediction prediction(const generation& made) {
    text += decoder.flush();
    const auto read = static_cast<double>(prompt.tokens.size());
    const layer_id looking = asked.setting.look;
    eval_cost cost;
    cost.model = well_formed(run.model_.path().string());
    cost.method = asked.name;
    cost.asked = run.how_asked(asked);
    cost.prompt_tokens = whole;
    cost.generated_tokens = made.tokens.size();
    if (run.times(asked)) {
      cost.ttft_s = prompt.seconds + made.prefill_seconds;
      cost.total_s = *cost.ttft_s + made.decode_seconds;
      cost.timed_on = run.timed_on();
    }
    cost.share_computed = made.share_prompt * read / static_cast<double>(whole) + static_cast<double>(looking) / run.layers();
    cost.rows.assign(made.cost.prefill_rows.begin(), made.cost.prefill_rows.end());
    for (layer_id l = 0; l < looking; ++l) cost.rows[l] += prompt.tokens.size();
    cost.revived = made.cost.revived;
    cost.usage = tenths_of(steps);
    if (asked.timed) cost.peak_bytes = run.engine_->weight_bytes() + std::max(made.memory.total(), prompt.bytes);
    const eval_sample& sample = q.sample;
    return {.text = out_of_chat(run.chat_, answer_in(*q.task, text)),
            .answers = sample.answers,
            .all_classes = sample.all_classes,
            .length = sample.length,
            .id = sample.id,
            .cost = std::move(cost)};
  }
};

std::vector<eval_prediction> runner::predict(std::span<const ask> asks) const {
  std::deque<answering> answers;
  for (const ask& asked : asks) {
    const shared_prompt whole = prompt_of(asked.question);
    const question& q = questions_[asked.question];
    // Only compression needs the context. The prompt has to be decoded to find it, so other settings skip the search.
    const token_range context = asked.setting.prompt_share < 1 ? context_in(q, *whole) : token_range{0, whole->size()};
    answers.emplace_back(*this, asked, whole->size(), prepared(*whole, context, asked.setting, expected(whole->size(), *q.task), *engine_));
  }
  std::vector<sequence_request> requests;
  for (const answering& a : answers) requests.push_back(a.request());
  const std::vector<generation> made = engine_->generate(std::move(requests));
  std::vector<eval_prediction> predictions;
  for (std::size_t i = 0; i < answers.size(); ++i) predictions.push_back(answers[i].prediction(made[i]));
  return predictions;
}

}  // namespace program
}  // namespace lazyprune
