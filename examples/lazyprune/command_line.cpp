// SPDX-License-Identifier: MIT
// Every flag of the program, in one place: the parser's header takes long to compile.
#include "command_line.hpp"

#include <concepts>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <omp.h>
#include <CLI/CLI.hpp>

#include "commands/bench.hpp"
#include "commands/compare.hpp"
#include "commands/eval.hpp"
#include "commands/fidelity.hpp"
#include "commands/inspect.hpp"
#include "commands/run.hpp"
#include "commands/search.hpp"
#include "commands/sweep.hpp"
#include "commands/tokenize.hpp"
#include "flag_checks.hpp"
#include "questions/method.hpp"
#include "words/prompt_text.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/policy/position_spans.hpp>
#include <lazyprune/registry/policy_registry.hpp>
#include <lazyprune/version.hpp>

namespace lazyprune {
namespace program {
namespace {

/// The numbers from `least` to `most`.
template <class T>
struct number_range {
  T least;
  T most = std::numeric_limits<T>::max();

  /// Throws `error` where the text is no such number.
  T read(std::string_view flag, std::string_view text) const {
    const auto value = number_in<T>(text);
    if (value && *value >= least && *value <= most) return *value;
    const std::string_view kind = std::integral<T> ? "a whole number" : "a number";
    std::string expected = std::string(kind) + " from " + text_of_number(least);
    if (most != std::numeric_limits<T>::max()) expected += " to " + text_of_number(most);
    throw error(flag, "", expected, text.empty() ? "nothing" : text);
  }
};

/// "-n,--n-predict,--predict" is called by its last name in errors.
std::string name_of_flag(std::string_view names) { return std::string(names.substr(names.rfind(',') + 1)); }

template <class T>
CLI::Option* add_number(CLI::App& app, const std::string& names, T& to, number_range<T> range, const std::string& help) {
  return app
      .add_option_function<std::string>(
          names, [&to, range, flag = name_of_flag(names)](const std::string& text) { to = range.read(flag, text); }, help)
      ->type_name("N");
}

/// The flag takes numbers with commas between them, at least one.
template <class T>
CLI::Option* add_numbers(CLI::App& app, const std::string& names, std::vector<T>& to, number_range<T> range, const std::string& help) {
  const auto read = [&to, range, flag = name_of_flag(names)](const std::string& text) {
    to.clear();
    if (text.empty()) throw error(flag, "", "numbers with commas between them", "nothing");
    for (const std::string_view piece : split(text, ',')) to.push_back(range.read(flag, piece));
  };
  return app.add_option_function<std::string>(names, read, help)->type_name("N,N,...");
}

/// The flag takes a text with something in it: empty is not the same as not given.
template <class Text>
CLI::Option* add_text(CLI::App& app, const std::string& names, Text& to, const std::string& help) {
  const auto read = [&to, flag = name_of_flag(names)](const std::string& text) {
    if (text.empty()) throw error(flag, "", "a name", "nothing");
    to = text;
  };
  return app.add_option_function<std::string>(names, read, help);
}

/// More threads than this gain nothing, and the OpenMP library ends the program where it cannot start them.
number_range<int> thread_range() { return {1, 16 * omp_get_num_procs()}; }

void add_model_flags(CLI::App& command, model_flags& flags) {
  add_text(command, "-m,--model", flags.path,
           "A .gguf file (the first of its parts), or a directory: as Hugging Face lays it out, or with one GGUF model "
           "(default: $LAZYPRUNE_MODEL, else the bundled model)")
      ->type_name("MODEL");
  command.add_flag("--no-mmap", flags.no_mmap, "Read the weights instead of mapping the file");
}

void add_backend_flags(CLI::App& command, backend_flags& flags) {
  add_text(command, "--backend", flags.backend,
           "cpu, reference: plain loops, the oracle, or cuda: an NVIDIA GPU, where the program was built with CUDA (default: cpu)")
      ->type_name("NAME");
  add_text(command, "--dtype", flags.dtype, "Weights in f32 or bf16 (default: auto, as stored); reference computes in f64 (auto) or f32")
      ->type_name("TYPE");
  command.add_flag("--exact", flags.exact, "Keep activations in float wherever they are multiplied, whatever the processor computes with");
}

void add_pruning_file(CLI::App& command, model_flags& flags, const std::string& group) {
  add_text(command, "--pruning-file", flags.pruning_file, "A file with the stages to prune by, in the place of the model's lazyprune.json")
      ->type_name("FILE")
      ->group(group);
}

/// The parts of a policy beside its schedule.
void add_part_flags(CLI::App& command, policy_spec& spec, const policy_registry& known, const std::string& group) {
  add_text(command, "--scorer", spec.scorer, known.scorers().help())->type_name("NAME[:key=value,...]")->group(group);
  add_text(command, "--selector", spec.selector, known.selectors().help())->type_name("NAME[:key=value]")->group(group);
  add_text(command, "--store", spec.store, known.stores().help())->type_name("NAME[:key=value]")->group(group);
  add_text(command, "--decode", spec.decode,
           "same: prune generated tokens' steps too; dense: prune the prompt only; only: prune them and not the prompt")
      ->type_name("same|dense|only")
      ->group(group);
}

/// `model`: whose stages they stand in the place of.
void add_policy_flags(CLI::App& command, policy_spec& spec, model_flags& model, const policy_registry& known) {
  const std::string group = "Pruning";
  add_text(command, "--policy", spec.preset,
           known.preset_help() +
               ". The other flags override its parts (default: lazyllm where stages are given or known for the model, else dense)")
      ->type_name("NAME")
      ->group(group);
  command
      .add_option("--stages", spec.stages,
                  "9:0.7,19:0.5: after 9 layers keep 70 % of the tokens then active, after 19 half of those; empty: never prune (default: "
                  "those known for the model, as `inspect` tells; with --policy else 0.7 after 3, 6 and 9 tenths of the layers)")
      ->type_name("LAYER:SHARE,...")
      ->group(group);
  add_text(command, "--schedule", spec.schedule, "In the place of --stages: " + known.schedules().help())
      ->type_name("NAME:key=value,...")
      ->group(group);
  add_pruning_file(command, model, group);
  add_part_flags(command, spec, known, group);
  const auto tokens = [&](const char* name, std::optional<std::size_t>& to, const char* help) {
    const auto read = [&to, flag = std::string(name)](const std::string& text) { to = number_range<std::size_t>{0}.read(flag, text); };
    command.add_option_function<std::string>(name, read, help)->type_name("N")->group(group);
  };
  tokens("--keep-first", spec.keep_first, "Never prune the first N tokens");
  tokens("--keep-last", spec.keep_last, "Never prune the last N tokens");
  const auto read_spans = [&spec](const std::string& text) {
    if (text.empty()) throw error("--keep", "", "positions, like 0-63,900-930", "nothing");
    position_spans::parse(text, "--keep");  // throws where it is wrong
    spec.keep = text;
  };
  command
      .add_option_function<std::string>("--keep", read_spans,
                                        "0-63,900-930: never prune the tokens at these positions, counted from 0, both ends included")
      ->type_name("FIRST-LAST,...")
      ->group(group);
  tokens("--least-tokens", spec.least_tokens, "Prune nothing while fewer than N tokens are known, of prompt and answer");
}

/// What the command does where it is the one that was typed.
void choose(CLI::App& command, action& chosen, action what) {
  command.final_callback([&chosen, what = std::move(what)] { chosen = what; });
}

CLI::Option* add_output(CLI::App& command, table_format& format) {
  const auto read = [&format](const std::string& name) {
    const auto found = find_table_format(name);
    if (!found) throw error("--output", "", name.empty() ? "a name" : "md, json or csv", name.empty() ? "nothing" : name);
    format = *found;
  };
  return command.add_option_function<std::string>("-o,--output", read, "md, json or csv (default: md)")->type_name("FORMAT");
}

void add_context(CLI::App& command, std::size_t& context) {
  add_number(command, "-c,--ctx-size", context, number_range<std::size_t>{0},
             "Longest sequence, prompt and answer; 0: the model's limit (default)");
}

/// The flags of the backend, `-t` among them.
void add_engine_flags(CLI::App& command, backend_flags& flags) {
  add_backend_flags(command, flags);
  add_number(command, "-t,--threads", flags.threads, thread_range(),
             "Threads (default: all that the process may use); the results do not depend on them");
}

CLI::Option* add_jobs(CLI::App& command, std::size_t& jobs) {
  return add_number(command, "-j,--jobs", jobs, number_range<std::size_t>{1, static_cast<std::size_t>(thread_range().most)},
                    "Samples at once, each with its share of the threads: sooner done where prompts are short or threads many. Times "
                    "are then left out, the peak memory that is told is that of one sample, and the rest is the same (default: 1)");
}

void add_directory(CLI::App& command, std::string& directory, bool& resume, const std::string& files) {
  const std::string group = "Output";
  add_text(command, "--out", directory, "For " + files + "; made where it is not there")->type_name("DIR")->group(group);
  command.add_flag("--resume", resume, "Go on after the predictions that are there already")->group(group);
}

/// The flags of a chat template.
void add_template_flags(CLI::App& command, template_flags& flags, const std::string& group) {
  add_text(command, "--chat-template-file", flags.file, "A Jinja template in the place of the model's own")
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--template-var", flags.variables,
                  "A variable of the template, its value in JSON or else a text: enable_thinking=false; may be given several times")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false)  // else a text in brackets would be taken apart
      ->group(group);
}

/// What `run` and `chat` have in common but for the text that they read.
void add_generation_flags(CLI::App& command, run_flags& flags, const policy_registry& policies) {
  const auto read_predict = [&flags](const std::string& text) {
    const auto n = number_range<long long>{-1}.read("--predict", text);
    flags.predict = n < 0 ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(n);
  };
  command
      .add_option_function<std::string>("-n,--n-predict,--predict", read_predict,
                                        "Tokens to generate at most; -1: to the end of the answer or of the context (default: 1024)")
      ->type_name("N");
  add_context(command, flags.context);
  command.add_flag("--force-memory", flags.force_memory, "Load the model also where it takes more memory than is free");
  add_number(command, "--chunk", flags.chunk, number_range<std::size_t>{1},
             "Read the prompt N tokens at a time: each chunk runs the layers before the first that could prune, and the last one is the "
             "question's step (default: all at once)");
  add_number(
      command, "--speculate", flags.speculate, number_range<std::size_t>{1},
      "Read up to N tokens a step after the prompt: the last one and guesses at what follows, looked up earlier in the text; the "
      "wrong ones are taken back. The text stays the same where the path's rounding is not wider than the gap between the two best tokens; needs "
      "--decode dense (default: one token, no guesses)");
  add_engine_flags(command, flags.backend);
  add_policy_flags(command, flags.policy, flags.model, policies);

  const std::string sampling = "Sampling";
  add_number(command, "-s,--seed", flags.sampling.seed, number_range<std::uint64_t>{0}, "Of the draws (default: 0)")->group(sampling);
  add_number(command, "--temp", flags.sampling.temperature, number_range<double>{0}, "Temperature; 0: the best token always (default)")
      ->group(sampling);
  add_number(command, "--top-k", flags.sampling.top_k, number_range<std::size_t>{0}, "Of the K best tokens; 0: all (default: 40)")
      ->group(sampling);
  add_number(command, "--top-p", flags.sampling.top_p, number_range<double>{0, 1}, "Of the best with this much probability (default: 0.95)")
      ->group(sampling);
  add_number(command, "--min-p", flags.sampling.min_p, number_range<double>{0, 1},
             "Of those with this share of the best one's probability (default: 0.05)")
      ->group(sampling);
  add_number(command, "--repeat-penalty", flags.sampling.repeat_penalty, number_range<double>{0.01, 100},
             "Above 1, tokens among the last 64 of prompt and answer are less likely to come again; 1: no penalty (default)")
      ->group(sampling);
  command.add_flag("--ignore-eos", flags.ignore_eos, "Go on after the end of the text")->group(sampling);
  command.add_option("--stop", flags.stops, "End the text before this text; may be given several times")
      ->type_name("TEXT")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false)
      ->group(sampling);
}

CLI::Option* add_escapes(CLI::App& command, bool& escapes, const std::string& texts) {
  return command.add_flag("-e,--escape", escapes, "Read \\n, \\t, \\\" and the like in " + texts + " as the characters they stand for");
}

/// What -e does.
void unescape(run_flags& flags) {
  for (std::optional<std::string>* text : {&flags.prompt, &flags.system})
    if (*text && **text != "-") **text = unescaped(**text);
  for (std::string& stop : flags.stops) stop = unescaped(stop);
}

void add_run(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<run_flags>();
  const auto escapes = std::make_shared<bool>(false);
  CLI::App& command = *program.add_subcommand("run", "Answer a prompt, or a question about a document");
  add_model_flags(command, flags->model);
  command
      .add_option("-p,--prompt", flags->prompt,
                  "The prompt, or with -f a question about that document; -: read it from stdin, less one newline at its end")
      ->type_name("TEXT");
  add_text(command, "-f,--file", flags->file,
           "A file with the prompt, less one newline at its end; -: stdin. With -p it is a document: the prompt is its text, a blank line "
           "and the question, in the model's chat template where it has one")
      ->type_name("FILE");
  add_numbers(command, "--ids", flags->ids, number_range<token_id>{0}, "The prompt as token ids, as they are: no BOS is added");
  add_text(
      command, "--questions", flags->questions,
      "Questions about the document of -f, a line each: the prompts are its text, a newline and a question. What they begin with alike "
      "is read once, and each is answered as if it were the only one; with --json in an object a line")
      ->type_name("FILE");
  add_escapes(command, *escapes, "-p, --system and --stop");
  command.add_flag("--raw", flags->raw, "A document and its question are plain text, whatever the model's chat template");
  command.add_flag_callback(
      "--no-parse-special", [flags] { flags->parse_special = false; },
      "Spell out control tokens like <|im_end|> that stand in a plain prompt. Documents and chats never make any");
  const std::string chat = "Chat";
  command
      .add_flag("--chat", flags->chat,
                "The prompt is a user's turn, in the words of the model's own template. Without -p, -f and --messages a conversation, as "
                "`chat` has it")
      ->group(chat);
  add_text(command, "--messages", flags->messages, R"(A whole chat, whose next turn is the answer: a list of {"role", "content"})")
      ->type_name("FILE.json")
      ->group(chat);
  command.add_option("--system", flags->system, "A system message before the first turn")->type_name("TEXT")->group(chat);
  add_template_flags(command, flags->words, chat);
  add_generation_flags(command, *flags, policies);
  add_numbers(command, "--force-ids", flags->force, number_range<token_id>{0},
              "Teacher: the k-th id takes the place of the k-th generated token; as many steps as ids, whatever -n and EOS say")
      ->group("Sampling");

  const std::string output = "Output";
  command
      .add_flag("--compare", flags->compare,
                "Run the dense model too, side by side. Both follow a warm-up of at most 64 of the prompt's tokens, the pruned run first")
      ->group(output);
  command.add_flag("-v,--verbose", flags->verbose, "Also say on stderr which layers computed how many rows, and what memory it took")
      ->group(output);
  command.add_flag("--json", flags->json, "One JSON object on stdout, in the place of the text")->group(output);
  add_text(command, "--trace", flags->trace, "Which tokens lived at which layer and step: JSON Lines, or a page to look at")
      ->type_name("FILE.jsonl|FILE.html")
      ->group(output);
  command.add_flag("--trace-logits", flags->trace_logits, "The logits too, exactly")->group(output);
  choose(command, chosen, [flags, escapes, &policies] {
    if (*escapes) unescape(*flags);
    flags->chat = flags->chat || !flags->messages.empty();
    flags->conversation = flags->chat && !flags->prompt && !flags->file && flags->messages.empty();
    check_flags(*flags);
    return run(*flags, policies);
  });
}

void add_chat(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<run_flags>();
  const auto escapes = std::make_shared<bool>(false);
  CLI::App& command =
      *program.add_subcommand("chat", "Hold a conversation: each line on stdin is a turn, in the words of the model's chat template");
  flags->chat = flags->conversation = true;
  add_model_flags(command, flags->model);
  add_text(command, "-f,--file", flags->file, "A document that the conversation is about: it stands before the first turn's line")
      ->type_name("FILE");
  command.add_option("--system", flags->system, "A system message before the first turn")->type_name("TEXT");
  add_escapes(command, *escapes, "--system and --stop");
  add_template_flags(command, flags->words, "Options");
  add_generation_flags(command, *flags, policies);
  command.add_flag("--json", flags->json, "A JSON object a turn on stdout, in the place of the text");
  choose(command, chosen, [flags, escapes, &policies] {
    if (*escapes) unescape(*flags);
    check_flags(*flags);
    return run(*flags, policies);
  });
}

void add_compare(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<compare_flags>();
  CLI::App& command = *program.add_subcommand(
      "compare", "Compare two traces of one input, or a trace with what a model makes of it; exit code 0: alike, 2: different");
  command.add_option("A", flags->a, "A trace")->type_name("A.jsonl")->required();
  CLI::Option* other = command.add_option("B", flags->b, "Another")->type_name("B.jsonl");
  CLI::Option* against =
      add_text(
          command, "--against", flags->model.path,
          "In the place of B: a model, whose reference in float64 reads the trace's tokens. Is the selection what the trace's scores "
          "imply (without any, the reference's), are its scores the reference's, do its logits follow from its plan? Where they first do "
          "not, the fault is named, as far as a trace can tell")
          ->type_name("MODEL");
  CLI::Option* force =
      command.add_flag("--force-plan", flags->force_plan, "The reference keeps what the trace keeps: each step is judged by itself");
  add_number(command, "--tolerance", flags->tolerance, number_range<double>{0}, "Logits may be this far apart (default: 1e-4)");
  add_policy_flags(command, flags->policy, flags->model, policies);
  choose(command, chosen, [flags, other, against, force, &policies] {
    if ((other->count() > 0) == (against->count() > 0))
      throw error("compare", "", "B.jsonl or --against MODEL", other->count() > 0 ? "both" : "neither");
    if (against->count() == 0 && force->count() > 0) throw error("--force-plan", "", "--against MODEL with it", "none");
    if (against->count() == 0 && flags->policy != policy_spec{})
      throw error("compare", "", "no pruning flags without --against MODEL", "some");
    return compare(*flags, policies);
  });
}

void add_bench(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<bench_flags>();
  CLI::App& command = *program.add_subcommand("bench", "Measure prefill and decode rates, dense and pruned side by side");
  add_model_flags(command, flags->model);
  add_text(command, "--random-weights", flags->shape,
           "In the place of a model: tinyllama-1.1b, llama-2-7b, xgen-7b, llama-3-8b, mistral-7b, qwen2-7b or pocket")
      ->type_name("SHAPE");
  add_numbers(command, "-P,--prompts", flags->prompts, number_range<std::size_t>{1, 1u << 30},
              "Lengths of the prompts (default: 512,2048)");
  add_number(command, "-n,--n-predict,--predict", flags->predict, number_range<std::size_t>{0, 1u << 30},
             "Tokens to generate after the longest prompt; 0: prefills only (default: 64)");
  command.add_flag("--after-each", flags->after_each,
                   "Generate -n tokens after each prompt; the table calls this \"tg64 @ d512\", as llama-bench does");
  add_numbers(command, "-t,--threads", flags->threads, thread_range(), "Threads (default: all that the process may use)");
  add_numbers(command, "--sequences", flags->sequences, number_range<std::size_t>{1, 1u << 16},
              "Sequences in one batch: so many prompts, and then so many tokens a step; rates are over all of them (default: 1)");
  add_number(command, "-r,--repetitions", flags->repetitions, number_range<std::size_t>{1, 1000000},
             "Of each measurement, after one to warm up (default: 5)");
  command.add_flag("--no-warmup", flags->no_warmup,
                   "Without the one to warm up, for prompts that take minutes; the pruned run then comes first");
  command.add_flag(
      "--peak", flags->peak,
      "Also measure what the machine can do at most: the share of its arithmetic that a prefill reaches, and of its memory's rate "
      "that generating does");
  add_output(command, flags->output);
  add_backend_flags(command, flags->backend);
  add_policy_flags(command, flags->policy, flags->model, policies);
  choose(command, chosen, [flags, &policies] {
    check_flags(*flags);
    return bench(*flags, policies);
  });
}

void add_question_flags(CLI::App& command, question_flags& flags) {
  const auto read = [&flags](const std::vector<std::string>& files) {
    for (const std::string& file : files)
      if (file.empty()) throw error("--data", "", "a name", "nothing");
    flags.data = files;
  };
  command
      .add_option_function<std::vector<std::string>>(
          "-d,--data", read,
          "Samples of LongBench, RULER or the pocket tasks, one JSON object a line; -: stdin; may be given several times")
      ->type_name("FILE.jsonl")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  add_text(command, "--task", flags.task,
           "The data set, as LongBench and RULER call it (default: as the samples say, else the file's name without its ending)")
      ->type_name("NAME");
  add_number(command, "--limit", flags.limit, number_range<std::size_t>{0}, "Only the first N samples of each file; 0: all (default)");
  add_number(command, "-n,--n-predict,--predict", flags.predict, number_range<std::size_t>{0},
             "Tokens of an answer at most; 0: as the benchmark has it (default)");
  add_context(command, flags.context);
  add_number(command, "--max-length", flags.max_length, number_range<std::size_t>{0},
             "Longer prompts lose their middle, before the words of a chat are added; 0: what the answer leaves of -c (default)");
  add_text(command, "--chat", flags.chat,
           "The words around prompts: none, llama2, xgen, or template, the model's own chat template (default: none)")
      ->type_name("NAME");
  add_template_flags(command, flags.words, "Options");
  command.add_flag("--strict", flags.strict, "End at the first bad line of -d, which else is told and left out");
}

void add_eval(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<eval_flags>();
  CLI::App& command =
      *program.add_subcommand("eval", "Answer a benchmark's questions, or take answers that exist, and score them by its own metrics");
  add_model_flags(command, flags->model);
  add_question_flags(command, flags->questions);
  add_text(command, "--predictions", flags->predictions,
           "In the place of -d: predictions, one JSON object a line (pred, answers, all_classes, length), scored without a model; -: stdin")
      ->type_name("FILE.jsonl");
  add_text(command, "--method", flags->method, "What the result calls it (default: the policy and its flags, or the file of predictions)")
      ->type_name("NAME");
  add_engine_flags(command, flags->backend);
  add_policy_flags(command, flags->policy, flags->model, policies);

  const std::string output = "Output";
  add_text(command, "--out", flags->predicted, "Write the predictions, in LongBench's form; until all are made, to FILE.jsonl.unfinished")
      ->type_name("FILE.jsonl")
      ->group(output);
  command.add_flag("--resume", flags->resume, "Go on after the predictions that --out has already")->group(output);
  command.add_flag("--compare", flags->compare, "Measure the dense model's time to first token too")->group(output);
  add_output(command, flags->output)->group(output);
  CLI::Option* jobs = add_jobs(command, flags->jobs);
  for (const char* flag : {"--compare", "--predictions"}) jobs->excludes(command.get_option(flag));
  choose(command, chosen, [flags, &policies] {
    check_flags(*flags);
    return eval(*flags, policies);
  });
}

/// What is kept by all that a sweep or a search compares.
void add_kept_flags(CLI::App& command, kept_tokens& kept) {
  add_number(command, "--keep-first", kept.first, number_range<std::size_t>{0},
             "Never prune the first N tokens, whatever the method, nor compress them away; a method that keeps more by itself still does "
             "(default: 0)");
  add_number(command, "--keep-last", kept.last, number_range<std::size_t>{0}, "Likewise the last N tokens (default: 0)");
}

/// `where`: what they stand beside.
void add_method_flags(CLI::App& command, method_flags& flags, const std::string& where) {
  const auto read_methods = [&flags](const std::string& text) {
    flags.names.clear();
    for (const std::string_view name : split(text, ',')) flags.names.emplace_back(name);
    if (flags.names.empty()) throw error("--methods", "", "names with commas between them", "nothing");
  };
  std::string names;
  for (const method_note& method : method_notes())
    if (method.name != "dense") names.append(names.empty() ? "" : ", ").append(method.name);
  std::string by_default;
  for (const std::string& name : flags.names) by_default.append(by_default.empty() ? " (default: " : ",").append(name);
  if (!by_default.empty()) by_default += ")";
  command
      .add_option_function<std::string>("--methods", read_methods,
                                        where + ": " + names + by_default +
                                            ". Those that prune after layers can name them, lazyllm@3+5, static@3; else they "
                                            "have those that the model recommends, or the paper draws")
      ->type_name("NAME,NAME,...");
  command
      .add_option(
          "--variant", flags.variants,
          "last8=--scorer window_attention:window=8,kernel=1: one more method, which is lazyllm but for these pruning flags of `run`; "
          "its layers follow its name, last8@3+5=..., else it has those that lazyllm would; with --stages it stands for itself, whatever the "
          "budgets; may be given several times")
      ->type_name("NAME[@LAYER+...]=FLAGS")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);  // else a text in brackets would be taken apart
  add_numbers(command, "--budgets", flags.budgets, number_range<double>{0, 1},
              "Shares of the dense model's prefill rows that each method may compute (default: 0.6,0.75,0.9)");
}

void add_sweep(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<sweep_flags>();
  CLI::App& command =
      *program.add_subcommand("sweep", "Methods at budgets on a benchmark's questions: scores and times in a table and a page");
  add_model_flags(command, flags->model);
  add_question_flags(command, flags->questions);
  add_method_flags(command, flags->methods, "Beside dense, always");
  add_pruning_file(command, flags->model, "Options");
  add_kept_flags(command, flags->kept);
  add_number(command, "--seeds", flags->seeds, number_range<std::size_t>{1, 1000},
             "Runs of a method that draws at random, each sample with draws of its own, taken together in the table (default: 5)");
  add_number(command, "--timed", flags->timed, number_range<std::size_t>{0},
             "Take times on the first N samples of each file only; on the others, what the methods have in common is computed once, "
             "and the answers are the same; 0: on all (default)");
  add_number(
      command, "--sensitivity", flags->sensitivity, number_range<std::size_t>{0},
      "Also prune after single layers, to 0.9, 0.7, 0.5, 0.3 and 0.1 of the tokens, on the first N samples of each file (default: 0)");
  add_number(command, "--minutes", flags->minutes, number_range<double>{0},
             "Begin no sample but the first after so long; the table is of the samples that were answered, and --resume goes on; 0: no end "
             "(default)");
  add_engine_flags(command, flags->backend);

  add_directory(command, flags->directory, flags->resume, "predictions.jsonl, sweep.csv and report.html");
  choose(command, chosen, [flags, &policies] {
    check_flags(*flags);
    return sweep(*flags, policies);
  });
}

void add_search(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<search_flags>();
  CLI::App& command = *program.add_subcommand("search", "Find the stages with the fewest rows whose score is near the dense model's");
  add_model_flags(command, flags->model);
  add_question_flags(command, flags->questions);
  add_kept_flags(command, flags->kept);
  add_number(command, "--max-loss", flags->max_loss, number_range<double>{0, 100}, "Points of score that they may lose (default: 1)");
  command.add_flag("--certain", flags->certain,
                   "Bound the far end of the loss's 95 % interval, not its mean: of few samples the luck of some then does not pay for the "
                   "losses of others. A loss that no sample shows is not seen");
  add_number(command, "--most-stages", flags->most_stages, number_range<std::size_t>{0},
             "Stages of a schedule at most: the paper's has three; 0: any number (default)");
  add_number(command, "--tries", flags->tries, number_range<std::size_t>{1, 1000000}, "Schedules to try at most (default: 100)");
  add_jobs(command, flags->jobs);
  add_part_flags(command, flags->parts, policies, "Options");
  add_number(
      command, "--minutes", flags->minutes, number_range<double>{0},
      "Try no schedule but the dense model after so long; what was found is scored on the other samples all the same, and --resume goes "
      "on; 0: no end (default)");
  add_engine_flags(command, flags->backend);
  add_directory(command, flags->directory, flags->resume, "search.jsonl and search.csv");
  choose(command, chosen, [flags, &policies] {
    check_flags(*flags);
    return search(*flags, policies);
  });
}

void add_fidelity(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<fidelity_flags>();
  CLI::App& command = *program.add_subcommand(
      "fidelity", "Compare the pruned model, or methods at budgets, with the dense one on any texts, without labels");
  add_model_flags(command, flags->model);
  command.add_option("-f,--file", flags->texts, "A text; -: stdin; may be several. What exceeds -c is left out")->type_name("FILE...");
  add_text(command, "--prefix", flags->prefix, "Of a text, what is the prompt; -n tokens after it are compared (default: 0.5, and 128)")
      ->type_name("SHARE|TOKENS");
  add_number(
      command, "--places", flags->places, number_range<std::size_t>{0, 1000000},
      "Of each text take N places, spread evenly from its beginning to its end, as if they were texts, each with a prompt of --prefix "
      "tokens; needs a text long enough that none is compared twice; 0: each text's beginning alone (default)");
  add_number(command, "-n,--n-predict,--predict", flags->predict, number_range<std::size_t>{0}, "Tokens to compare; 0: 128 (default)");
  add_context(command, flags->context);
  add_engine_flags(command, flags->backend);
  add_method_flags(command, flags->methods,
                   "In the place of pruning flags, of which --keep-first and --keep-last alone then hold, for all");
  add_policy_flags(command, flags->policy, flags->model, policies);
  add_output(command, flags->output)->group("Output");
  choose(command, chosen, [flags, &command, &policies] {
    if (command.count("--budgets") > 0 && !flags->compares_methods())
      throw error("--budgets", "", "--methods or --variant with it", "none");
    check_flags(*flags);
    return fidelity(*flags, policies);
  });
}

void add_inspect(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<inspect_flags>();
  CLI::App& command = *program.add_subcommand(
      "inspect", "Show a model's config, tensors, tokenizer, the memory that a context takes, and where the policy first prunes");
  add_model_flags(command, flags->model);
  add_number(command, "-c,--ctx-size", flags->context, number_range<std::size_t>{0},
             "Tokens of the context; 0: the model's limit (default)");
  command.add_flag("--json", flags->json, "One JSON object");
  add_policy_flags(command, flags->policy, flags->model, policies);
  choose(command, chosen, [flags, &policies] { return inspect(*flags, policies); });
}

void add_tokenize(CLI::App& program, action& chosen) {
  const auto flags = std::make_shared<tokenize_flags>();
  CLI::App& command = *program.add_subcommand("tokenize", "Show the ids and pieces of a text or a chat, or the texts of ids");
  add_text(command, "-m,--model", flags->model.path,
           "A model as the other commands take it, a folder of tokenizer files alone, one such file, or a .jinja file, which renders chats "
           "(default: $LAZYPRUNE_MODEL, else the bundled model)")
      ->type_name("PATH");
  command.add_option("-p,--prompt", flags->prompt, "A text; -: read it from stdin, as it is")->type_name("TEXT");
  add_text(command, "-f,--file", flags->file, "A file with a text, taken as it is; -: stdin")->type_name("FILE");
  add_numbers(command, "--ids", flags->ids, number_range<token_id>{0}, "Token ids");
  add_text(command, "--messages", flags->messages,
           R"(A chat: a list of {"role", "content"}, which an answer follows; or an object as --jsonl has it)")
      ->type_name("FILE.json");
  add_template_flags(command, flags->words, "Options");
  add_text(command, "--jsonl", flags->requests,
           R"(A request a line: {"text": ...}, {"ids": [...]}, or {"messages": [...], "add_generation_prompt": true, ...variables}. An )"
           R"(object a line comes back, {"error": ...} where one is refused; exit code 1 if any was. Empty lines are skipped; -: stdin)")
      ->type_name("FILE.jsonl");
  command.add_flag("--no-special", flags->no_special, "Add no BOS or EOS to a text");
  command.add_flag_callback(
      "--no-parse-special", [flags] { flags->parse_special = false; }, "Spell out control tokens like <|im_end|> that stand in a text");
  command.add_flag("--json", flags->json,
                   "One JSON object: ids, pieces, text with special tokens, text_plain without, rendered (a chat's)");
  choose(command, chosen, [flags] {
    check_flags(*flags);
    return tokenize(*flags);
  });
}

/// The first argument that no command knows, if that is what is wrong.
std::string unknown_argument(const CLI::App& program) {
  const auto left = program.remaining(true);
  return left.empty() ? "" : left.front();
}

/// Throws `error` for a flag that became a command of its own.
void name_the_command(const CLI::App& program) {
  for (const std::string& flag : program.remaining(true))
    for (const std::string_view command : {"fidelity", "search"})
      if (flag.starts_with("--") && std::string_view(flag).substr(2) == command)
        throw error(flag, "", "the command `lazyprune " + std::string(command) + "`", "the flag");
}

}  // namespace

action parse_command_line(int argc, char** argv, const policy_registry& policies) {
  const auto app = std::make_shared<CLI::App>(
      "Generates text with a language model while a policy prunes its tokens (LazyLLM, arXiv 2407.14057), and measures "
      "what that saves.",
      "lazyprune");
  CLI::App& program = *app;
  program.set_version_flag("--version", "lazyprune " LAZYPRUNE_VERSION_STRING);
  program.require_subcommand(1);
  program.footer(
      "Examples:\n"
      "  lazyprune run -p \"the old council\"                         the bundled model goes on with a text\n"
      "  lazyprune run -m MODEL.gguf -f doc.txt -p \"a question\"     an answer about a document\n"
      "  lazyprune chat -m MODEL.gguf                               a conversation\n"
      "  lazyprune inspect -m MODEL.gguf                            what a model is, and the stages to prune it by\n"
      "  lazyprune search -m MODEL.gguf -d TASK.jsonl --out DIR     finds such stages\n"
      "`lazyprune COMMAND --help` tells of a command.");
  action chosen;
  add_run(program, chosen, policies);
  add_chat(program, chosen, policies);
  add_compare(program, chosen, policies);
  add_bench(program, chosen, policies);
  add_eval(program, chosen, policies);
  add_fidelity(program, chosen, policies);
  add_sweep(program, chosen, policies);
  add_search(program, chosen, policies);
  add_inspect(program, chosen, policies);
  add_tokenize(program, chosen);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return [shown = program.exit(problem)] { return shown; };  // help, version
    name_the_command(program);
    const auto commands = program.get_subcommands();
    const std::string unknown = unknown_argument(program);
    if (commands.empty() && unknown.empty())
      throw error("arguments", "", "a command: run, chat, compare, bench, eval, fidelity, sweep, search, inspect or tokenize", "none");
    throw error("arguments", "", "what `lazyprune " + (commands.empty() ? "" : commands.front()->get_name() + " ") + "--help` shows",
                unknown.empty() ? problem.what() : unknown);
  }
  return [app, chosen] { return chosen(); };  // which looks at what was given
}

}  // namespace program
}  // namespace lazyprune
