// SPDX-License-Identifier: MIT
#include "questions/evaluator.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <sstream>
#include <string_view>

#include "engine/model_choice.hpp"
#include "engine/sessions.hpp"
#include "tables/number_text.hpp"
#include "terminal/columns.hpp"

#include <lazyprune/core/mix.hpp>
#include <lazyprune/eval/compression.hpp>
#include <lazyprune/eval/tasks.hpp>
#include <lazyprune/eval/truncation.hpp>

namespace lazyprune {
namespace program {

namespace {

constexpr std::string_view task_names = "the name of a LongBench, RULER or pocket task";

}  // namespace

const eval_task& task_named(const std::string& name) {
  if (const eval_task* task = lazyprune::find_task(name)) return *task;
  throw lazyprune::error("--task", "", task_names, name);
}

namespace {

std::string stem_of(const std::string& file) { return std::filesystem::path(file).stem().string(); }

}  // namespace

const eval_task& task_of_file(const std::string& file) {
  if (const eval_task* task = lazyprune::find_task(stem_of(file))) return *task;
  throw lazyprune::error("--task", "", task_names, "none, and none is called " + stem_of(file) + ", as the data are");
}

std::function<void(const lazyprune::error&)> complaints(bool strict) {
  if (strict) return {};
  return [](const lazyprune::error& fault) { std::cerr << "left out: " << one_line(fault.what()) << std::endl; };
}

namespace {

eval_prediction without_text(const eval_sample& sample) {
  return {.text = "", .answers = sample.answers, .all_classes = sample.all_classes, .length = sample.length, .id = sample.id, .cost = {}};
}

/// What cannot be scored is not worth a run.
void check_scorable(const eval_task& task, const eval_sample& sample, const lazyprune::json_value& record) {
  try {
    score_of(task, without_text(sample));
  } catch (const lazyprune::error& fault) {
    throw lazyprune::error(record.file(), record.place(), "a sample that " + std::string(task.name) + " can score", fault.what());
  }
}

/// The task is what --task says, else the sample itself, else the file's name. A sample that names none, or that its
/// task cannot score, is a bad line.
std::vector<question> questions_of(const question_flags& flags) {
  if (!flags.task.empty()) task_named(flags.task);
  std::vector<question> questions;
  for (const std::string& file : flags.data) {
    const auto task_of = [&](const eval_sample& sample) {
      return !flags.task.empty() ? &task_named(flags.task) : lazyprune::find_task(sample.dataset.empty() ? stem_of(file) : sample.dataset);
    };
    const auto check = [&](const eval_sample& sample, const lazyprune::json_value& record) {
      const eval_task* task = task_of(sample);
      if (!task && !sample.dataset.empty()) record.at("dataset").refuse(task_names);
      if (task) check_scorable(*task, sample, record);  // else no sample of the file has one
    };
    lazyprune::line_reader lines(file);
    std::vector<eval_sample> samples = read_samples(lines, complaints(flags.strict), check);
    if (samples.empty()) throw lazyprune::error(lines.name(), "", "at least one sample", "none");
    if (flags.limit > 0 && samples.size() > flags.limit) samples.resize(flags.limit);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const eval_task* task = task_of(samples[i]);
      questions.push_back({std::move(samples[i]), task ? task : &task_of_file(file), file, i + 1});
    }
  }
  return questions;
}

const lazyprune::chat_format& chat_named(const std::string& name) {
  if (const lazyprune::chat_format* format = lazyprune::find_chat_format(name)) return *format;
  throw lazyprune::error("--chat", "", "none, llama2 or xgen", name);
}

lazyprune::tokenizer tokenizer_of(const lazyprune::checkpoint& model) {
  if (auto tokens = model.load_tokenizer()) return std::move(*tokens);
  throw lazyprune::error("eval", "", "a model with a tokenizer", "no tokenizer.model in " + model.directory().string());
}

/// Hexadecimal digits that stand for a text.
std::string digest_of(std::string_view text) {
  std::uint64_t digest = text.size();
  for (const char c : text) digest = lazyprune::mix(digest, static_cast<unsigned char>(c));
  std::ostringstream digits;
  digits << std::hex << digest;
  return digits.str();
}

bool same_sample(const eval_prediction& prediction, const question& asked) {
  return prediction.id == asked.sample.id && prediction.answers == asked.sample.answers;
}

/// Of the prompt's tokens, those of the sample's context: not the task's words, the question, or the chat model's.
lazyprune::token_range context_in(const question& asked, const lazyprune::chat_format& chat, std::span<const token_id> prompt,
                                  const lazyprune::tokenizer& tokens) {
  lazyprune::prompt_parts parts = prompt_parts_of(*asked.task, asked.sample);
  if (asked.task->chat) parts.before.insert(0, chat.before), parts.after += chat.after;
  return context_of(prompt, parts.before, parts.after, tokens);
}

/// Of the first `prompt` tokens, how many each layer has computed.
std::vector<std::uint64_t> computed_by_layer(const lazyprune::frontier_table& tokens, std::size_t prompt, std::size_t layers) {
  std::vector<std::uint64_t> frontiers(layers + 1, 0);
  for (std::size_t t = 0; t < prompt; ++t) ++frontiers[tokens.frontier(static_cast<lazyprune::position>(t))];
  std::vector<std::uint64_t> computed(layers);
  std::uint64_t above = 0;
  for (std::size_t l = layers; l-- > 0;) computed[l] = above += frontiers[l + 1];
  return computed;
}

/// What each layer has computed of the prompt, after each step.
class computed_rows final : public lazyprune::step_observer {
 public:
  computed_rows(std::size_t prompt, std::size_t layers) : prompt_(prompt), layers_(layers) {}
  void step_ends(const lazyprune::any_session& session) override {
    steps_.push_back(computed_by_layer(session.tokens(), prompt_, layers_));
  }
  const std::vector<std::vector<std::uint64_t>>& after_each() const { return steps_; }

 private:
  std::size_t prompt_, layers_;
  std::vector<std::vector<std::uint64_t>> steps_;
};

/// By 0 %, 10 % ... 100 % of the steps: those nearest to it.
std::vector<std::vector<std::uint64_t>> tenths_of(const std::vector<std::vector<std::uint64_t>>& steps) {
  std::vector<std::vector<std::uint64_t>> usage;
  for (std::size_t tenth = 0; tenth <= 10; ++tenth) usage.push_back(steps[(tenth * (steps.size() - 1) + 5) / 10]);
  return usage;
}

}  // namespace

evaluator::evaluator(const model_flags& model, const backend_flags& backend, const question_flags& flags)
    : flags_(flags),
      backend_(backend),
      chat_(chat_named(flags.chat)),
      questions_(questions_of(flags)),
      model_(open_model(model)),
      tokenizer_(tokenizer_of(model_)),
      context_(flags.context > 0 ? flags.context : model_.config().max_positions) {
  check(backend_);
  if (flags_.max_length == 1) throw lazyprune::error("--max-length", "", "at least 2", "1");
  if (context_ > model_.config().max_positions)
    throw lazyprune::error("--ctx-size", "", "at most the model's " + std::to_string(model_.config().max_positions),
                           std::to_string(context_));
  for (const question& asked : questions_) {
    if (new_tokens(*asked.task) + 2 > context_)
      throw lazyprune::error("--ctx-size", "",
                             "more than the " + std::to_string(new_tokens(*asked.task)) + " tokens of an answer, and two for the prompt",
                             std::to_string(context_));
  }
}

std::vector<const eval_task*> evaluator::tasks() const {
  std::vector<const eval_task*> seen;
  for (const question& asked : questions_)
    if (std::ranges::find(seen, asked.task) == seen.end()) seen.push_back(asked.task);
  return seen;
}

void evaluator::check_earlier(const eval_prediction& done, const std::string& file, std::size_t number, const question& asked,
                              const eval_setting& setting, const std::string& method) const {
  if (const auto other = mismatch_of(done, asked, setting, method))
    throw lazyprune::error(file, "prediction " + std::to_string(number), other->expected, other->found);
}

std::size_t evaluator::question_of(const eval_prediction& done, const std::string& file, std::size_t number,
                                   std::span<const std::size_t> open, const eval_setting& setting, const std::string& method) const {
  std::optional<mismatch> first;
  for (const std::size_t q : open) {
    if (!same_sample(done, questions_[q])) continue;
    const auto other = mismatch_of(done, questions_[q], setting, method);
    if (!other) return q;
    if (!first) first = other;
  }
  if (!first) first = {"that of a sample which has none yet", done.id.empty() ? "another" : "one of the sample " + done.id};
  throw lazyprune::error(file, "prediction " + std::to_string(number), first->expected, first->found);
}

std::optional<evaluator::mismatch> evaluator::mismatch_of(const eval_prediction& done, const question& asked, const eval_setting& setting,
                                                          const std::string& method) const {
  if (!same_sample(done, asked)) return mismatch{"that of the data's sample", "another's"};
  if (!done.cost) return mismatch{"one that this program made", "somebody else's"};
  if (done.cost->method != method) return mismatch{method, done.cost->method};
  if (done.cost->model != model_.directory().string()) return mismatch{model_.directory().string(), done.cost->model};
  const std::string &earlier = done.cost->asked, now = how_asked(asked, setting);
  if (earlier == now) return std::nullopt;
  return mismatch{now, earlier.empty() ? "nothing of how it was asked, which an earlier version did not say" : earlier};
}

std::string evaluator::how_asked(const question& asked, const eval_setting& setting) const {
  std::string text = setting.description(layers());
  const auto add = [&](std::string_view flag, const std::string& value) { text.append(" ").append(flag).append(" ").append(value); };
  add("--task", std::string(asked.task->name));
  add("-n", std::to_string(new_tokens(*asked.task)));
  add("-c", std::to_string(context_));
  add("--max-length", std::to_string(flags_.max_length));
  add("--chat", flags_.chat);
  add("--backend", backend_.backend);
  add("--dtype", backend_.dtype);
  if (backend_.exact) text.append(" --exact");
  return text + ", prompt " + digest_of(lazyprune::prompt_of(*asked.task, asked.sample));
}

void evaluator::load(std::size_t jobs) {
  engine_ = load_engine(backend_, model_);
  jobs_ = jobs;
  if (jobs > 1) engine_->use_threads(std::max(1, engine_->threads() / static_cast<int>(jobs)));
  constexpr std::size_t enough = 64;
  const std::vector<token_id> prompt = prompt_of(questions_.front());
  dense_seconds(std::span(prompt).first(std::min(enough, prompt.size())));
}

/// Cut in the middle and encoded anew, a prompt may have some tokens more than it was to have: it is then cut shorter by those.
std::vector<token_id> evaluator::prompt_of(const question& asked) const {
  const std::size_t room = context_ - new_tokens(*asked.task);
  const std::string prompt = lazyprune::prompt_of(*asked.task, asked.sample);
  for (std::size_t most = flags_.max_length > 0 ? flags_.max_length : room;;) {
    std::vector<token_id> ids = tokenizer_.encode(in_chat(chat_, *asked.task, middle_truncated(prompt, most, tokenizer_)));
    if (ids.size() <= room) return ids;
    const std::size_t excess = ids.size() - room;
    if (most < excess + 2)
      throw lazyprune::error("sample " + asked.sample.id, "prompt", "at most " + std::to_string(room) + " tokens",
                             std::to_string(ids.size()));
    most -= excess;
  }
}

double evaluator::dense_seconds(std::span<const token_id> prompt) const {
  lazyprune::any_session session = new_session({.preset = "dense"}, layers());
  lazyprune::generation_options options;
  options.max_new = 1;
  return engine_->generate(std::move(session), prompt, options).prefill_seconds;
}

eval_prediction evaluator::predict(const question& asked, std::span<const token_id> prompt, const eval_setting& setting,
                                   const std::string& method) const {
  const eval_task& task = *asked.task;
  std::vector<token_id> compressed;
  std::span<const token_id> read = prompt;  // what the model answers to
  double scoring_seconds = 0;
  std::size_t scoring_bytes = 0;
  if (setting.prompt_share < 1) {
    const lazyprune::token_range context = context_in(asked, chat_, prompt, tokenizer_);
    const auto start = std::chrono::steady_clock::now();
    const scored_prompt scored = engine_->self_information(prompt);
    compressed = lazyprune::compressed(prompt, scored.information, context, setting.prompt_share);
    scoring_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    scoring_bytes = scored.memory.total();
    read = compressed;
  }

  std::string text;
  lazyprune::token_decoder decoder(tokenizer_);
  lazyprune::any_session session = new_session(setting.policy, layers());
  computed_rows steps(read.size(), layers());
  lazyprune::generation_options options;
  options.max_new = new_tokens(task);
  options.context = context_;
  options.observer = &steps;
  options.on_token = [&](token_id id) {
    if (id < tokenizer_.size()) text += decoder.push(id);  // a model's vocabulary may be larger, in fillers that stand for no text
    return answer_in(task, text).size() == text.size();
  };
  const lazyprune::generation run = engine_->generate(std::move(session), read, options);
  text += decoder.finish();

  eval_prediction prediction = without_text(asked.sample);
  prediction.text = out_of_chat(chat_, answer_in(task, text));
  lazyprune::eval_cost& cost = prediction.cost.emplace();
  cost.model = model_.directory().string();
  cost.method = method;
  cost.asked = how_asked(asked, setting);
  cost.prompt_tokens = prompt.size();
  cost.generated_tokens = run.tokens.size();
  if (jobs_ == 1) {
    cost.ttft_s = scoring_seconds + run.prefill_seconds;
    cost.total_s = *cost.ttft_s + run.decode_seconds;
  }
  cost.share_computed = run.share_prompt * static_cast<double>(read.size()) / static_cast<double>(prompt.size());
  cost.rows.assign(run.cost.prefill_rows.begin(), run.cost.prefill_rows.end());
  cost.revived = run.cost.revived;
  cost.usage = tenths_of(steps.after_each());
  cost.peak_bytes = engine_->weight_bytes() + std::max(run.memory.total(), scoring_bytes);
  return prediction;
}

}  // namespace program
}  // namespace lazyprune
