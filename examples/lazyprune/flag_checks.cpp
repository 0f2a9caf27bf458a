// SPDX-License-Identifier: MIT
#include "flag_checks.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/model_choice.hpp"
#include "questions/comparison_file.hpp"
#include "questions/recorded_prediction.hpp"
#include "questions/results.hpp"
#include "questions/run_record.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/descriptor.hpp>
#include <lazyprune/files/pruning_file.hpp>

namespace lazyprune {
namespace program {
namespace {

void check_texts_or_samples(std::string_view who, const question_flags& questions) {
  if (questions.texts.files.empty() == questions.data.empty())
    throw error(who, "", "texts (-f) or samples (-d)", questions.data.empty() ? "neither" : "both");
}

/// Throws `error` if writing to a path would replace something that the command reads. "-" among the inputs is stdin. Devices and pipes are
/// not replaced.
void check_output(std::string_view flag, const std::string& output, const std::vector<std::string>& inputs) {
  std::error_code failure;
  if (std::filesystem::is_other(output, failure)) return;
  for (const std::string& input : inputs)
    if (same_file(input == "-" ? "/dev/stdin" : input, output)) throw error(flag, "", "a path at which nothing is read", input);
}

/// The same for the files that commands write into the folder of --out.
void check_output_folder(const std::string& directory, const std::vector<std::string>& inputs) {
  if (directory.empty()) return;
  for (const std::string_view name :
       {recorded_prediction::file_name, recorded_comparison::file_name, record_file_name, std::string_view("sweep.csv"),
        std::string_view("report.html"), std::string_view("accuracy.svg"), std::string_view("search.jsonl"), std::string_view("search.csv"),
        std::string_view(pruning_file::name)})
    check_output("--out", file_in(directory, name), inputs);
}

std::vector<std::string> inputs_of(const model_flags& model) { return {model_path(model).string(), model.pruning_file}; }

std::vector<std::string> inputs_of(const model_flags& model, const question_flags& questions) {
  std::vector<std::string> inputs = inputs_of(model);
  inputs.push_back(questions.words.file);
  inputs.insert(inputs.end(), questions.data.begin(), questions.data.end());
  inputs.insert(inputs.end(), questions.texts.files.begin(), questions.texts.files.end());
  return inputs;
}

void check_directory(std::string_view who, const std::string& directory) {
  if (directory.empty()) throw error(who, "", "--out DIR", "none");
}

void check_parts(const part_flags& parts, const std::string& directory, bool resume) {
  if (parts.part && directory.empty()) throw error("--part", "", "--out DIR with it", "none");
  if (!parts.part && !parts.finished.empty()) throw error("--finished", "", "--part K/N with it", "none");
  if (resume && directory.empty()) throw error("--resume", "", "--out with it", "none");
}

void check_trace(const run_flags& flags) {
  const bool html = flags.trace.ends_with(".html");
  if (!flags.trace.empty() && !html && !flags.trace.ends_with(".jsonl"))
    throw error("--trace", "", "a name that ends in .jsonl or .html", flags.trace);
  if (flags.trace_logits && (flags.trace.empty() || html))
    throw error("--trace-logits", "", "--trace FILE.jsonl beside it", html ? flags.trace : "none");
  if (!flags.trace.empty() && flags.predict == 0 && flags.force.empty())
    throw error("--trace", "", "at least one token to generate, because a trace records the steps that generate", "-n 0");
  if (!flags.trace.empty() && flags.speculate > 0)
    throw error("--speculate", "", "either --speculate or --trace: a trace cannot take steps back", "both");
}

void check_questions(const run_flags& flags) {
  if (flags.questions.empty()) return;
  const auto need_file = [](std::string_view found) { throw error("--questions", "", "-f DOCUMENT beside it", found); };
  if (flags.prompt) need_file("-p");
  if (!flags.ids.empty()) need_file("--ids");
  if (!flags.file) need_file("none");
  if (!flags.trace.empty()) throw error("--questions", "", "either --questions or --trace: a trace has only one prompt", "both");
}

void check_chat(const run_flags& flags) {
  if (!flags.chat) {
    const bool may_be_chat = flags.file && flags.prompt && !flags.raw;
    if (flags.system && !may_be_chat) throw error("--system", "", "--chat with it", "none");
    return;
  }
  if (flags.raw) throw error("--raw", "", "either a chat or --raw", "both");
  if (!flags.ids.empty()) throw error("--chat", "", "-p, -f, --messages, or a conversation on stdin", "--ids");
  if (!flags.messages.empty() && (flags.prompt || flags.file))
    throw error("--messages", "", "the whole chat in its file, and no -p or -f", flags.prompt ? "-p" : "-f");
  if (!flags.conversation) return;
  if (flags.file == "-") throw error("--file", "", "a file: the turns of the conversation are read from stdin", "-");
  for (const auto& [given, flag] :
       {std::pair(flags.compare, "--compare"), std::pair(!flags.trace.empty(), "--trace"), std::pair(!flags.force.empty(), "--force-ids")})
    if (given) throw error(flag, "", "-p, -f or --messages with it: it works for a single answer", "a conversation on stdin");
}

}  // namespace

void check_flags(const run_flags& flags) {
  check_chat(flags);
  check_questions(flags);
  const bool text = flags.prompt || flags.file;
  if (!flags.chat && text == !flags.ids.empty()) throw error("prompt", "", "-p, -f, both, or --ids", text ? "text and ids" : "none");
  if (flags.prompt == "-" && flags.file == "-") throw error("--prompt", "", "either -p or -f from stdin", "both");
  for (const std::string& stop : flags.stops)
    if (stop.empty()) throw error("--stop", "", "a text", "nothing");
  if (!flags.stops.empty() && !flags.force.empty())
    throw error("--stop", "", "either --stop or --force-ids: the ids fix the number of steps", "both");
  check_trace(flags);
  std::vector<std::string> inputs = inputs_of(flags.model);
  inputs.insert(inputs.end(), {flags.file.value_or(""), flags.prompt == "-" ? "-" : "", flags.messages, flags.words.file});
  check_output("--trace", flags.trace, inputs);
}

void check_flags(const tokenize_flags& flags) {
  const int inputs =
      flags.prompt.has_value() + flags.file.has_value() + !flags.ids.empty() + !flags.messages.empty() + !flags.requests.empty();
  if (inputs != 1) throw error("tokenize", "", "one of -p, -f, --ids, --messages and --jsonl", inputs == 0 ? "none" : "several");
  if (flags.messages.empty() && flags.requests.empty() && !flags.words.given().empty())
    throw error(flags.words.given(), "", "a chat: --messages or --jsonl", "a plain text or ids");
}

void check_flags(const bench_flags& flags) {
  if (!flags.shape.empty() && !flags.model.path.empty()) throw error("--random-weights", "", "either -m or --random-weights", "both");
  if (!flags.shape.empty() && !flags.model.pruning_file.empty())
    throw error("--pruning-file", "", "either --pruning-file or --random-weights: a file of pruning belongs to a model", "both");
  if (flags.peak && flags.backend.backend == "reference")
    throw error("--peak", "", "--backend cpu or cuda: only their peak is known", flags.backend.backend);
}

void check_flags(const eval_flags& flags) {
  if (flags.questions.data.empty() == flags.predictions.empty())
    throw error("eval", "", "one of -d and --predictions", flags.predictions.empty() ? "none" : "both");
  if (flags.parts.part && flags.questions.data.empty()) throw error("--part", "", "-d with it", "--predictions");
  check_parts(flags.parts, flags.predicted, flags.resume);
  const std::vector<std::string> inputs = inputs_of(flags.model, flags.questions);
  if (flags.parts.part)
    check_output_folder(flags.predicted, inputs);
  else
    check_output("--out", flags.predicted, inputs);
}

void check_flags(const calibrate_flags& flags) {
  check_texts_or_samples("calibrate", flags.questions);
  check_output("--out", flags.out, inputs_of(flags.model, flags.questions));
}

void check_flags(const fidelity_flags& flags) {
  if (flags.texts.empty()) throw error("fidelity", "", "texts, by -f FILE", "none");
  check_parts(flags.parts, flags.directory, flags.resume);
  std::vector<std::string> inputs = inputs_of(flags.model);
  inputs.insert(inputs.end(), flags.texts.begin(), flags.texts.end());
  check_output_folder(flags.directory, inputs);
  if (!flags.compares_methods()) return;
  policy_spec others = flags.policy;
  others.keep_first.reset();
  others.keep_last.reset();
  if (others != policy_spec{})
    throw error(flags.methods.names.empty() ? "--variant" : "--methods", "", "no other pruning flags than --keep-first and --keep-last",
                flags_text(others));
}

void check_flags(const sweep_flags& flags) {
  check_texts_or_samples("sweep", flags.questions);
  check_directory("sweep", flags.directory);
  check_parts(flags.parts, flags.directory, flags.resume);
  check_output_folder(flags.directory, inputs_of(flags.model, flags.questions));
}

void check_flags(const search_flags& flags) {
  check_texts_or_samples("search", flags.questions);
  check_directory("search", flags.directory);
  if (flags.parts.decode == "only")
    throw error("--decode", "", "same, kept or dense: a search prunes the prompt and counts its rows", *flags.parts.decode);
  check_output_folder(flags.directory, inputs_of(flags.model, flags.questions));
}

void check_flags(const merge_flags& flags) { check_output("--out", flags.directory, flags.parts); }

void check_flags(const serve_flags& flags) {
  std::vector<std::string> inputs = inputs_of(flags.model);
  inputs.insert(inputs.end(), {flags.key_file, flags.words.file});
  check_output("--cache-file", flags.cache_file, inputs);
  inputs.push_back(flags.cache_file);
  check_output("--log", flags.log, inputs);
}

}  // namespace program
}  // namespace lazyprune
