// SPDX-License-Identifier: MIT
// lazyprune eval: what a model under a policy answers to a benchmark's questions, what the answers score by the benchmark's own metrics,
// and what they cost. Or what predictions that exist score.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>

#include "commands.hpp"
#include "engine.hpp"
#include "format.hpp"
#include "model_choice.hpp"
#include "progress.hpp"
#include "sessions.hpp"

#include <lazyprune/eval/chat.hpp>
#include <lazyprune/eval/prediction_file.hpp>
#include <lazyprune/eval/summary_text.hpp>
#include <lazyprune/eval/tasks.hpp>
#include <lazyprune/eval/truncation.hpp>

namespace {

using lazyprune::eval_prediction, lazyprune::eval_sample, lazyprune::eval_summary, lazyprune::eval_task, lazyprune::token_id;

const eval_task& task_named(const std::string& name) {
  if (const eval_task* task = lazyprune::find_task(name)) return *task;
  throw lazyprune::error("--task", "", "the name of a LongBench, RULER or pocket task", name);
}

/// The file's name without its ending, which is the task's where benchmarks name their files.
std::string stem_of(const std::string& file) { return std::filesystem::path(file).stem().string(); }

/// Says what is wrong with a line that is left out; none where nothing may be.
std::function<void(const lazyprune::error&)> complaints(bool strict) {
  if (strict) return {};
  return [](const lazyprune::error& fault) { std::cerr << "left out: " << one_line(fault.what()) << std::endl; };
}

std::vector<eval_sample> samples_of(const eval_flags& flags) {
  lazyprune::line_reader lines(flags.data);
  std::vector<eval_sample> samples = read_samples(lines, complaints(flags.strict));
  if (samples.empty()) throw lazyprune::error(lines.name(), "", "at least one sample", "none");
  if (flags.limit > 0 && samples.size() > flags.limit) samples.resize(flags.limit);
  return samples;
}

/// Of a sample: what --task says, else the sample itself, else the file's name.
std::vector<const eval_task*> tasks_of(const eval_flags& flags, const std::vector<eval_sample>& samples) {
  std::vector<const eval_task*> tasks;
  for (const eval_sample& sample : samples) {
    const std::string& name = !flags.task.empty() ? flags.task : !sample.dataset.empty() ? sample.dataset : stem_of(flags.data);
    tasks.push_back(&task_named(name));
  }
  return tasks;
}

const lazyprune::chat_format& chat_named(const std::string& name) {
  if (const lazyprune::chat_format* format = lazyprune::find_chat_format(name)) return *format;
  throw lazyprune::error("--chat", "", "none, llama2 or xgen", name);
}

lazyprune::tokenizer tokenizer_of(const lazyprune::checkpoint& model) {
  if (auto tokens = model.load_tokenizer()) return std::move(*tokens);
  throw lazyprune::error("eval", "", "a model with a tokenizer", "no tokenizer.model in " + model.directory().string());
}

class evaluation {
 public:
  explicit evaluation(const eval_flags& flags)
      : flags_(flags),
        chat_(chat_named(flags.chat)),
        samples_(samples_of(flags)),
        tasks_(tasks_of(flags, samples_)),
        model_(open_model(flags.model)),
        spec_(with_recommended_stages(flags.policy, model_)),
        tokenizer_(tokenizer_of(model_)),
        context_(flags.context > 0 ? flags.context : model_.config().max_positions) {
    check(flags_.backend);
    const std::string policy = text(spec_, layers());
    method_ = !flags.method.empty() ? flags.method : policy == "--policy dense" ? "dense" : policy;
    if (context_ > model_.config().max_positions)
      throw lazyprune::error("--ctx-size", "", "at most the model's " + std::to_string(model_.config().max_positions),
                             std::to_string(context_));
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (new_tokens(*tasks_[i]) + 2 > context_)
        throw lazyprune::error("--ctx-size", "",
                               "more than the " + std::to_string(new_tokens(*tasks_[i])) + " tokens of an answer, and two for the prompt",
                               std::to_string(context_));
      check_sample(i);
    }
    if (!flags.predicted.empty()) file_.emplace(flags.predicted, flags.resume);
    if (file_) take_up(file_->done());
  }

  std::vector<eval_summary> run() {
    if (predictions_.size() < samples_.size()) {
      engine_ = load_engine(flags_.backend, model_);
      warm_up();
      progress_bar bar("evaluating");
      bar.show(predictions_.size(), samples_.size());
      while (predictions_.size() < samples_.size()) {
        predictions_.push_back(predict(predictions_.size()));
        if (file_) file_->add(predictions_.back());
        bar.show(predictions_.size(), samples_.size());
      }
    }
    if (file_) file_->commit();
    return summaries();
  }

 private:
  lazyprune::layer_id layers() const { return static_cast<lazyprune::layer_id>(model_.config().layers); }
  std::size_t new_tokens(const eval_task& task) const { return flags_.predict > 0 ? flags_.predict : task.max_new; }

  static eval_prediction prediction_without_text(const eval_sample& sample) {
    return {.text = "", .answers = sample.answers, .all_classes = sample.all_classes, .length = sample.length, .id = sample.id, .cost = {}};
  }

  /// What cannot be scored is not worth a run.
  void check_sample(std::size_t i) const {
    try {
      score_of(*tasks_[i], prediction_without_text(samples_[i]));
    } catch (const lazyprune::error& fault) {
      throw lazyprune::error(flags_.data, "sample " + std::to_string(i + 1), "one that " + std::string(tasks_[i]->name) + " can score",
                             fault.what());
    }
  }

  /// What an earlier run has left, which must be the beginning of this one.
  void take_up(const std::vector<eval_prediction>& done) {
    if (done.size() > samples_.size())
      throw lazyprune::error(flags_.predicted, "", "at most " + std::to_string(samples_.size()) + " predictions, one a sample",
                             std::to_string(done.size()));
    for (std::size_t i = 0; i < done.size(); ++i) {
      const auto fail = [&](std::string_view expected, std::string_view found) {
        throw lazyprune::error(flags_.predicted, "prediction " + std::to_string(i + 1), expected, found);
      };
      if (done[i].id != samples_[i].id || done[i].answers != samples_[i].answers) fail("that of the data's sample", "another's");
      if (!done[i].cost) fail("one that this program made", "somebody else's");
      if (done[i].cost->method != method_) fail(method_, done[i].cost->method);
      if (done[i].cost->model != model_.directory().string()) fail(model_.directory().string(), done[i].cost->model);
      if (flags_.compare != done[i].cost->dense_ttft_s.has_value())
        fail(flags_.compare ? "one with --compare" : "one without --compare", "the other");
    }
    predictions_ = done;
  }

  /// The prompt's tokens, with room for the answer after them. Cut in the middle and encoded anew, a prompt may have some tokens more than
  /// it was to have: it is then cut shorter by those.
  std::vector<token_id> prompt_of_sample(const eval_sample& sample, const eval_task& task) const {
    const std::size_t room = context_ - new_tokens(task);
    const std::string prompt = prompt_of(task, sample);
    for (std::size_t most = flags_.max_length > 0 ? flags_.max_length : room;;) {
      std::vector<token_id> ids = tokenizer_.encode(in_chat(chat_, task, middle_truncated(prompt, most, tokenizer_)));
      if (ids.size() <= room) return ids;
      const std::size_t excess = ids.size() - room;
      if (most < excess + 2)
        throw lazyprune::error("sample " + sample.id, "prompt", "at most " + std::to_string(room) + " tokens", std::to_string(ids.size()));
      most -= excess;
    }
  }

  /// Threads started and the code in memory before a clock runs: a prefill of the first prompt's beginning.
  void warm_up() {
    constexpr std::size_t enough = 64;
    const std::vector<token_id> prompt = prompt_of_sample(samples_.front(), *tasks_.front());
    dense_seconds(std::span(prompt).first(std::min(enough, prompt.size())));
  }

  double dense_seconds(std::span<const token_id> prompt) {
    lazyprune::any_session session = new_session({.preset = "dense"}, layers());
    lazyprune::generation_options options;
    options.max_new = 1;
    return engine_->generate(session, prompt, options).prefill_seconds;
  }

  eval_prediction predict(std::size_t i) {
    const eval_task& task = *tasks_[i];
    const std::vector<token_id> prompt = prompt_of_sample(samples_[i], task);
    eval_prediction prediction = prediction_without_text(samples_[i]);
    lazyprune::eval_cost& cost = prediction.cost.emplace();
    if (flags_.compare && i % 2 == 0) cost.dense_ttft_s = dense_seconds(prompt);

    std::string text;
    lazyprune::token_decoder decoder(tokenizer_);
    lazyprune::generation_options options;
    options.max_new = new_tokens(task);
    options.context = context_;
    options.on_token = [&](token_id id) {
      if (id < tokenizer_.size()) text += decoder.push(id);  // a model's vocabulary may be larger, in fillers that stand for no text
      return answer_in(task, text).size() == text.size();
    };
    lazyprune::any_session session = new_session(spec_, layers());
    const lazyprune::generation run = engine_->generate(session, prompt, options);
    text += decoder.finish();
    // The dense run comes first now, then second: what drifts, drifts for both.
    if (flags_.compare && i % 2 == 1) cost.dense_ttft_s = dense_seconds(prompt);

    prediction.text = out_of_chat(chat_, answer_in(task, text));
    cost.model = model_.directory().string();
    cost.method = method_;
    cost.prompt_tokens = prompt.size();
    cost.ttft_s = run.prefill_seconds;
    cost.share_computed = run.share_prompt;
    cost.rows.assign(run.cost.prefill_rows.begin(), run.cost.prefill_rows.end());
    cost.revived = run.cost.revived;
    cost.peak_bytes = engine_->weight_bytes() + run.memory.total();
    return prediction;
  }

  /// One a task, in the order in which the data come to them.
  std::vector<eval_summary> summaries() const {
    std::vector<eval_summary> all;
    std::vector<const eval_task*> seen;
    for (const eval_task* task : tasks_) {
      if (std::ranges::find(seen, task) != seen.end()) continue;
      seen.push_back(task);
      std::vector<eval_prediction> of_task;
      for (std::size_t i = 0; i < tasks_.size(); ++i)
        if (tasks_[i] == task) of_task.push_back(predictions_[i]);
      all.push_back(summary_of(*task, method_, of_task));
    }
    return all;
  }

  eval_flags flags_;
  lazyprune::chat_format chat_;
  std::vector<eval_sample> samples_;
  std::vector<const eval_task*> tasks_;
  lazyprune::checkpoint model_;
  lazyprune::policy_spec spec_;
  lazyprune::tokenizer tokenizer_;
  std::size_t context_;
  std::string method_;
  std::optional<lazyprune::prediction_file> file_;
  std::vector<eval_prediction> predictions_;
  std::unique_ptr<engine> engine_;
};

/// Without a model.
eval_summary score(const eval_flags& flags) {
  const eval_task& task = task_named(flags.task.empty() ? stem_of(flags.predictions) : flags.task);
  lazyprune::line_reader lines(flags.predictions);
  return score_predictions(lines, task, flags.method.empty() ? lines.name() : flags.method, complaints(flags.strict));
}

void print(const std::vector<eval_summary>& summaries, const std::string& format) {
  if (format == "md") std::cout << to_markdown(summaries);
  if (format == "json") std::cout << to_json(summaries);
  if (format == "csv") std::cout << to_csv(summaries);
}

}  // namespace

int eval(const eval_flags& flags) {
  check_output(flags.output);
  if (flags.data.empty() == flags.predictions.empty())
    throw lazyprune::error("eval", "", "one of -d and --predictions", flags.data.empty() ? "none" : "both");
  if (flags.resume && flags.predicted.empty()) throw lazyprune::error("--resume", "", "--out FILE.jsonl with it", "none");
  if (flags.max_length == 1) throw lazyprune::error("--max-length", "", "at least 2", "1");
  print(flags.data.empty() ? std::vector{score(flags)} : evaluation(flags).run(), flags.output);
  return 0;
}
