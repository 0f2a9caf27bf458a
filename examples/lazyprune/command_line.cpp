// SPDX-License-Identifier: MIT
// All flags of the program are in this one file, because the parser's header takes long to compile.
#include "command_line.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <initializer_list>
#include <iostream>
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
#include "commands/calibrate.hpp"
#include "commands/compare.hpp"
#include "commands/eval.hpp"
#include "commands/fidelity.hpp"
#include "commands/inspect.hpp"
#include "commands/merge.hpp"
#include "commands/run.hpp"
#include "commands/search.hpp"
#include "commands/serve.hpp"
#include "commands/sweep.hpp"
#include "commands/tokenize.hpp"
#include "flag_checks.hpp"
#include "help_page.hpp"
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

/// The numbers from `least` to `most`, both included.
template <class T>
struct number_range {
  T least;
  T most = std::numeric_limits<T>::max();

  /// Throws `error` if the text is not such a number.
  T read(std::string_view flag, std::string_view text) const {
    const auto value = number_in<T>(text);
    if (value && *value >= least && *value <= most) return *value;
    const std::string_view kind = std::integral<T> ? "a whole number" : "a number";
    std::string expected = std::string(kind) + " from " + text_of_number(least);
    const bool too_large = std::integral<T> && !value && !text.empty() && text.find_first_not_of("0123456789") == text.npos;
    if (too_large || most != std::numeric_limits<T>::max()) expected += " to " + text_of_number(most);
    throw error(flag, "", expected, text.empty() ? "nothing" : text);
  }
};

/// Returns the last name in a text like "-n,--n-predict,--predict". Errors use this name.
std::string name_of_flag(std::string_view names) { return std::string(names.substr(names.rfind(',') + 1)); }

template <class T>
CLI::Option* add_number(CLI::App& app, const std::string& names, T& to, number_range<T> range, const std::string& help) {
  return app
      .add_option_function<std::string>(
          names, [&to, range, flag = name_of_flag(names)](const std::string& text) { to = range.read(flag, text); }, help)
      ->type_name("N");
}

/// Adds a flag that takes one or more numbers with commas between them.
template <class T>
CLI::Option* add_numbers(CLI::App& app, const std::string& names, std::vector<T>& to, number_range<T> range, const std::string& help) {
  const auto read = [&to, range, flag = name_of_flag(names)](const std::string& text) {
    to.clear();
    if (text.empty()) throw error(flag, "", "numbers with commas between them", "nothing");
    for (const std::string_view piece : split(text, ',')) to.push_back(range.read(flag, piece));
  };
  return app.add_option_function<std::string>(names, read, help)->type_name("N,N,...");
}

/// Adds a flag that takes a text that is not empty.
template <class Text>
CLI::Option* add_text(CLI::App& app, const std::string& names, Text& to, const std::string& help) {
  const auto read = [&to, flag = name_of_flag(names)](const std::string& text) {
    if (text.empty()) throw error(flag, "", "a name", "nothing");
    to = text;
  };
  return app.add_option_function<std::string>(names, read, help);
}

/// At most 16 threads per processor. More threads gain nothing, and the OpenMP library ends the program if it cannot start its threads.
number_range<int> thread_range() { return {1, 16 * omp_get_num_procs()}; }

/// Lets a flag be given several times, with one value each. A value in brackets is taken as it is.
CLI::Option* repeatable(CLI::Option* option) { return option->take_all()->expected(1)->allow_extra_args(false); }

/// Moves these options into the group that the short page of help shows.
void show_first(CLI::App& command, std::initializer_list<const char*> names) {
  for (const char* name : names) command.get_option(name)->group(common_group);
}

// The groups of the options that the short page does not show.
constexpr const char *prompt_group = "Prompt", *chat_group = "Chat", *generation_group = "Generation", *sampling_group = "Sampling",
                     *loading_group = "Loading and computing", *output_group = "Output", *question_group = "Questions",
                     *measuring_group = "Measuring", *parts_group = "Several machines", *server_group = "Server";

void add_model_flags(CLI::App& command, model_flags& flags) {
  add_text(
      command, "-m,--model", flags.path,
      "A .gguf file (the first of its shards), a folder with one, or a Hugging Face folder (default: $LAZYPRUNE_MODEL, else the bundled model)")
      ->type_name("MODEL");
  command.add_flag("--no-mmap", flags.no_mmap, "Read the weights into memory instead of mapping the file")->group(loading_group);
}

void add_backend_flags(CLI::App& command, backend_flags& flags) {
  add_text(command, "--backend", flags.backend,
           "cpu; reference: plain loops, to check the others by; cuda: an NVIDIA GPU, if the program was built with CUDA (default: cpu)")
      ->type_name("NAME")
      ->group(loading_group);
  add_text(command, "--dtype", flags.dtype,
           "Type of the weights: auto (as stored), f32 or bf16. The reference backend computes in f64 (auto) or f32 (default: auto)")
      ->type_name("TYPE")
      ->group(loading_group);
  add_text(
      command, "--kv", flags.kv,
      "Type of keys and values: auto (bf16, or f32 where the weights are f32), f32, bf16, f16, or q8_0 in about half the memory of bf16. "
      "cuda takes auto, f32 and bf16; reference takes auto (default: auto)")
      ->type_name("TYPE")
      ->group(loading_group);
  command.add_flag("--exact", flags.exact, "Keep activations in float in all products, even where the backend would round them")
      ->group(loading_group);
}

void add_pruning_file(CLI::App& command, model_flags& flags) {
  add_text(command, "--pruning-file", flags.pruning_file, "Read the stages and probes from FILE instead of the model's lazyprune.json")
      ->type_name("FILE")
      ->group(pruning_group);
}

/// Adds the flags of all parts of a policy except the schedule, and --decode.
void add_part_flags(CLI::App& command, policy_spec& spec) {
  add_text(command, "--scorer", spec.scorer, "The scorer and its keys; see below")->type_name("NAME[:key=value,...]")->group(pruning_group);
  add_text(command, "--selector", spec.selector, "The selector and its keys; see below")
      ->type_name("NAME[:key=value]")
      ->group(pruning_group);
  add_text(command, "--store", spec.store, "The store and its keys; see below")->type_name("NAME[:key=value]")->group(pruning_group);
  add_text(
      command, "--decode", spec.decode,
      "same: prune the prompt and the decode steps; dense: only the prompt; only: only the decode steps; kept: prune the prompt, and let "
      "decode steps attend to the tokens that it kept")
      ->type_name("same|dense|only|kept")
      ->group(pruning_group);
}

/// Adds the pruning flags. The value of --pruning-file goes into `model`, the values of the others into `spec`.
void add_policy_flags(CLI::App& command, policy_spec& spec, model_flags& model) {
  add_text(
      command, "--policy", spec.preset,
      "A whole policy; see below. The other options replace parts of it (default: lazyllm if stages are given, else the pruning known for "
      "the model, else dense)")
      ->type_name("NAME")
      ->group(pruning_group);
  command
      .add_option("--stages", spec.stages,
                  "9:0.7,19:0.5 keeps 70 % of the active tokens after 9 layers, and half of those left after 19. An empty text never "
                  "prunes (default: the stages known for the model, as `lazyprune inspect` shows; with --policy the policy's own, which "
                  "for lazyllm keep 0.7 after 3, 6 and 9 tenths of the layers)")
      ->type_name("LAYER:SHARE,...")
      ->group(pruning_group);
  add_text(command, "--schedule", spec.schedule, "A schedule and its keys instead of stages; see below")
      ->type_name("NAME:key=value,...")
      ->group(pruning_group);
  add_pruning_file(command, model);
  add_part_flags(command, spec);
  const auto tokens = [&](const char* name, std::optional<std::size_t>& to, const char* help) {
    const auto read = [&to, flag = std::string(name)](const std::string& text) { to = number_range<std::size_t>{0}.read(flag, text); };
    command.add_option_function<std::string>(name, read, help)->type_name("N")->group(pruning_group);
  };
  tokens("--keep-first", spec.keep_first,
         "Never prune the first N tokens. In sweep and search, every method keeps them, also the compression of prompts");
  tokens("--keep-last", spec.keep_last, "The same for the last N tokens");
  const auto read_spans = [&spec](const std::string& text) {
    if (text.empty()) throw error("--keep", "", "positions, like 0-63,900-930", "nothing");
    position_spans::parse(text, "--keep");  // throws if it is wrong
    spec.keep = text;
  };
  command
      .add_option_function<std::string>("--keep", read_spans,
                                        "0-63,900-930 never prunes the tokens at these positions, counted from 0, both ends included")
      ->type_name("FIRST-LAST,...")
      ->group(pruning_group);
  tokens("--least-tokens", spec.least_tokens, "Prune nothing while prompt and answer together have fewer than N tokens");
}

/// Makes `what` the program's action if this command was typed.
void choose(CLI::App& command, action& chosen, action what) {
  command.final_callback([&chosen, what = std::move(what)] { chosen = what; });
}

CLI::Option* add_output(CLI::App& command, table_format& format) {
  const auto read = [&format](const std::string& name) {
    const auto found = find_table_format(name);
    if (!found) throw error("--output", "", name.empty() ? "a name" : "md, json or csv", name.empty() ? "nothing" : name);
    format = *found;
  };
  return command.add_option_function<std::string>("-o,--output", read, "Format of the table: md, json or csv (default: md)")
      ->type_name("FORMAT");
}

void add_context(CLI::App& command, std::size_t& context, const char* group) {
  add_number(command, "-c,--ctx-size", context, number_range<std::size_t>{0},
             "Prompt and answer have at most N tokens together, besides the answer's last token, which is not read; 0: the model's limit "
             "(default: 0)")
      ->group(group);
}

/// Adds the flags of the backend, including `-t`.
void add_engine_flags(CLI::App& command, backend_flags& flags) {
  add_number(command, "-t,--threads", flags.threads, thread_range(), "Threads; the results do not depend on them (default: all available)");
  add_backend_flags(command, flags);
}

CLI::Option* add_jobs(CLI::App& command, std::size_t& jobs) {
  return add_number(command, "-j,--jobs", jobs, number_range<std::size_t>{1, static_cast<std::size_t>(thread_range().most)},
                    "Samples at a time, which share the threads. This is faster with short prompts or many threads. The result then has no "
                    "times, and its peak memory is that of one sample (default: 1)");
}

void add_directory(CLI::App& command, std::string& directory, bool& resume, const std::string& files) {
  add_text(command, "--out", directory, "Folder for " + files + "; made if it does not exist")->type_name("DIR");
  command.add_flag("--resume", resume, "Go on after the answers that the folder already has");
}

/// Adds the flags of a run on several machines.
void add_run_part_flags(CLI::App& command, part_flags& flags) {
  command
      .add_option_function<std::string>(
          "--part", [&flags](const std::string& text) { flags.part = run_part::parse(text); },
          "Answer only part K of N, chosen by a hash of each sample. The folder of --out then has the part's answers, and `lazyprune "
          "merge` makes the tables of the folders of all parts")
      ->type_name("K/N")
      ->group(parts_group);
  repeatable(
      command.add_option("--finished", flags.finished,
                         "Leave out the samples that this folder has answered. The folder must be from the same run; its part may have "
                         "another N. May be given several times"))
      ->type_name("DIR")
      ->group(parts_group);
}

/// Adds the flags of a chat template.
void add_template_flags(CLI::App& command, template_flags& flags) {
  add_text(command, "--chat-template-file", flags.file, "A Jinja template instead of the model's own")
      ->type_name("FILE")
      ->group(chat_group);
  repeatable(command.add_option("--template-var", flags.variables,
                                "A variable of the chat template, as JSON or else as text, such as enable_thinking=false; may be given "
                                "several times"))
      ->type_name("KEY=VALUE")
      ->group(chat_group);
}

void add_document_roles(CLI::App& command, std::optional<document_roles>& roles) {
  command
      .add_option_function<std::string>(
          "--document-roles", [&roles](const std::string& text) { roles = document_roles::parse(text); },
          "In a chat, prune only the texts of these roles. user: the last user message; tool, assistant: the messages of these roles after "
          "it; system: all system messages (default: user,tool)")
      ->type_name("ROLE,ROLE")
      ->group(chat_group);
}

/// Adds the flags that `run` and `chat` share, except the flags for the text that they read.
void add_generation_flags(CLI::App& command, run_flags& flags) {
  const auto read_predict = [&flags](const std::string& text) {
    const auto n = number_range<long long>{-1}.read("--predict", text);
    flags.predict = n < 0 ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(n);
  };
  command
      .add_option_function<std::string>("-n,--n-predict,--predict", read_predict,
                                        "Generate at most N tokens; -1: no limit but the context (default: 1024)")
      ->type_name("N");
  add_context(command, flags.context, common_group);
  add_engine_flags(command, flags.backend);
  command.add_flag("--force-memory", flags.force_memory, "Load the model even if it takes more memory than is free")->group(loading_group);
  add_document_roles(command, flags.documents);
  add_number(command, "--chunk", flags.chunk, number_range<std::size_t>{1},
             "Read the prompt N tokens at a time. Every piece but the last runs only the layers before the first pruning. The last piece "
             "runs all layers (default: the whole prompt at once)")
      ->group(generation_group);
  add_number(
      command, "--speculate", flags.speculate, number_range<std::size_t>{1},
      "Read up to N tokens in a step after the prompt: the last token, and drafts of the next ones, which are looked up earlier in the "
      "text. Rejected drafts are dropped. The text stays the same unless the two best tokens are closer than the backend's rounding. "
      "Needs --decode dense, and a scorer that does not remember earlier steps (default: no drafts)")
      ->group(generation_group);
  add_policy_flags(command, flags.policy, flags.model);

  add_number(command, "--temp", flags.sampling.temperature, number_range<double>{0},
             "Temperature; 0 always takes the best token (default: 0)");
  add_number(command, "-s,--seed", flags.sampling.seed, number_range<std::uint64_t>{0},
             "Seed of the random choice of tokens, with --temp above 0 (default: 0)");
  add_number(command, "--top-k", flags.sampling.top_k, number_range<std::size_t>{0},
             "Choose among the N best tokens; 0: among all (default: 40)")
      ->group(sampling_group);
  add_number(command, "--top-p", flags.sampling.top_p, number_range<double>{0, 1},
             "Choose among the best tokens that together have this probability (default: 0.95)")
      ->group(sampling_group);
  add_number(command, "--min-p", flags.sampling.min_p, number_range<double>{0, 1},
             "Choose among tokens with at least this share of the best token's probability (default: 0.05)")
      ->group(sampling_group);
  add_number(command, "--repeat-penalty", flags.sampling.repeat_penalty, number_range<double>{0.01, 100},
             "Above 1, the last 64 tokens of prompt and answer become less likely; 1: no penalty (default: 1)")
      ->group(sampling_group);
  command.add_flag("--ignore-eos", flags.ignore_eos, "Go on where the model ends the text")->group(sampling_group);
  repeatable(command.add_option("--stop", flags.stops, "End the answer before this text; may be given several times"))
      ->type_name("TEXT")
      ->group(sampling_group);
}

CLI::Option* add_escapes(CLI::App& command, bool& escapes, const std::string& texts) {
  return command.add_flag("-e,--escape", escapes,
                          "Read \\n, \\t, \\\" and the like in " + texts + " as the characters that they stand for");
}

/// Replaces the escapes in the texts, for -e.
void unescape(run_flags& flags) {
  for (std::optional<std::string>* text : {&flags.prompt, &flags.system})
    if (*text && **text != "-") **text = unescaped(**text);
  for (std::string& stop : flags.stops) stop = unescaped(stop);
}

void add_run(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<run_flags>();
  const auto escapes = std::make_shared<bool>(false);
  CLI::App& command = *program.add_subcommand("run", "Answers a prompt, or a question about a document");
  add_model_flags(command, flags->model);
  command.add_option("-p,--prompt", flags->prompt, "The prompt, or a question about the document of -f; -: stdin")->type_name("TEXT");
  add_text(command, "-f,--file", flags->file,
           "A file with the prompt. With -p, the file is a document: the prompt is the document, a blank line and the question, in the "
           "model's chat template if it has one. -: stdin. One newline at the end is dropped, as in -p -")
      ->type_name("FILE");
  add_text(
      command, "--questions", flags->questions,
      "A file of questions about the document of -f, one a line; empty lines are skipped. Each prompt is the document, a newline and a "
      "question, as plain text; with --chat it is in the model's chat template. The common prefix of all prompts is read once; the answers "
      "are as in separate runs. --json prints an object a line")
      ->type_name("FILE")
      ->group(prompt_group);
  add_numbers(command, "--ids", flags->ids, number_range<token_id>{0}, "The prompt as token ids; no BOS is added")->group(prompt_group);
  add_escapes(command, *escapes, "-p, --system and --stop")->group(prompt_group);
  command.add_flag("--raw", flags->raw, "Take the document and the question as plain text even if the model has a chat template")
      ->group(prompt_group);
  command
      .add_flag_callback(
          "--no-parse-special", [flags] { flags->parse_special = false; },
          "Read control tokens like <|im_end|> in a plain prompt as ordinary text, as documents and chats always do")
      ->group(prompt_group);
  command.add_flag(
      "--chat", flags->chat,
      "Take the prompt as a user's turn, in the model's chat template. Without -p, -f and --messages this is `lazyprune chat`");
  command.add_option("--system", flags->system, "A system message before the first turn of a chat")->type_name("TEXT");
  add_text(command, "--messages", flags->messages, R"(A whole chat as a JSON list of {"role", "content"}; its next turn is the answer)")
      ->type_name("FILE.json")
      ->group(chat_group);
  add_template_flags(command, flags->words);
  add_generation_flags(command, *flags);
  show_first(command, {"--backend"});
  add_numbers(command, "--force-ids", flags->force, number_range<token_id>{0},
              "Take these ids instead of the generated ones, one a step, whatever -n and the end of the text say (teacher forcing)")
      ->group(sampling_group);

  command.add_flag(
      "--compare", flags->compare,
      "Also run the dense model, after the pruned run, and print both side by side. A warm-up on at most 64 of the prompt's tokens "
      "comes first. Each time is a single measurement");
  command.add_flag("-v,--verbose", flags->verbose,
                   "Also print the policy with all its options, the rows that each layer computed, and the memory");
  command.add_flag("--json", flags->json, "Print one JSON object instead of the text");
  add_text(
      command, "--trace", flags->trace,
      "Write which tokens were active and computed in each layer of each step: JSON Lines (FILE.jsonl) or a page for a browser (FILE.html)")
      ->type_name("FILE");
  command.add_flag("--trace-logits", flags->trace_logits, "Write the logits into the trace, too; they read back exactly")
      ->group(output_group);
  command.footer(
      "Examples:\n"
      "  lazyprune run -p \"the old council\"\n"
      "  lazyprune run -m MODEL.gguf -f doc.txt -p \"a question\" --compare");
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
  CLI::App& command = *program.add_subcommand("chat", "Holds a conversation: each line on stdin is a turn, in the model's chat template");
  flags->chat = flags->conversation = true;
  add_model_flags(command, flags->model);
  add_text(command, "-f,--file", flags->file, "A document that the conversation is about; it is put before the first turn")
      ->type_name("FILE");
  command.add_option("--system", flags->system, "A system message before the first turn")->type_name("TEXT");
  add_escapes(command, *escapes, "--system and --stop")->group(chat_group);
  add_template_flags(command, flags->words);
  add_generation_flags(command, *flags);
  show_first(command, {"--backend", "--force-memory", "--top-k", "--top-p", "--stop"});
  command.add_flag("--json", flags->json, "Print one JSON object a turn instead of the text");
  command.footer(
      "Examples:\n"
      "  lazyprune chat -m MODEL.gguf\n"
      "  lazyprune chat -m MODEL.gguf -f doc.txt --system \"Answer in one sentence.\"");
  choose(command, chosen, [flags, escapes, &policies] {
    if (*escapes) unescape(*flags);
    check_flags(*flags);
    return run(*flags, policies);
  });
}

void add_compare(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<compare_flags>();
  CLI::App& command = *program.add_subcommand("compare", "Compares two traces of one input, or a trace with a model");
  command.add_option("A", flags->a, "A trace")->type_name("A.jsonl")->required();
  CLI::Option* other = command.add_option("B", flags->b, "Another trace")->type_name("B.jsonl");
  CLI::Option* against =
      add_text(command, "--against", flags->model.path,
               "Instead of B: a model, whose reference backend (float64) reads the trace's tokens. It checks three things: the trace's "
               "selection follows from its scores (or the reference's, if it has none), its scores are the reference's, and its logits "
               "follow from its plan. It names the first fault, as far as a trace can tell")
          ->type_name("MODEL");
  CLI::Option* force = command.add_flag("--force-plan", flags->force_plan,
                                        "Make the reference keep the tokens that the trace keeps, which judges each step by itself");
  add_number(command, "--tolerance", flags->tolerance, number_range<double>{0},
             "Largest difference between logits that are called alike (default: 1e-4)");
  add_policy_flags(command, flags->policy, flags->model);
  command.footer(
      "Examples:\n"
      "  lazyprune compare mine.jsonl theirs.jsonl\n"
      "  lazyprune compare mine.jsonl --against MODEL.gguf --stages 9:0.7\n"
      "\n"
      "Exit codes: 0 alike, 2 different, 1 bad input");
  choose(command, chosen, [flags, other, against, force, &policies] {
    if ((other->count() > 0) == (against->count() > 0))
      throw error("compare", "", "B.jsonl or --against MODEL", other->count() > 0 ? "both" : "neither");
    if (against->count() == 0 && force->count() > 0) throw error("--force-plan", "", "--against MODEL with it", "none");
    if (against->count() == 0 && (flags->policy != policy_spec{} || !flags->model.pruning_file.empty()))
      throw error("compare", "", "no pruning flags without --against MODEL", "some");
    return compare(*flags, policies);
  });
}

void add_bench(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<bench_flags>();
  CLI::App& command = *program.add_subcommand("bench", "Measures prefill and decode rates, dense and pruned side by side");
  add_model_flags(command, flags->model);
  add_text(command, "--random-weights", flags->shape,
           "Instead of a model: tinyllama-1.1b, llama-2-7b, xgen-7b, llama-3-8b, mistral-7b, qwen2-7b or pocket, with random weights")
      ->type_name("SHAPE");
  add_numbers(command, "-P,--prompts", flags->prompts, number_range<std::size_t>{1, 1u << 30},
              "Lengths of the prompts in tokens (default: 512,2048)");
  add_number(command, "-n,--n-predict,--predict", flags->predict, number_range<std::size_t>{0, 1u << 30},
             "Tokens to generate after the longest prompt; 0: measure prefills only (default: 64)");
  add_numbers(command, "-t,--threads", flags->threads, thread_range(),
              "Numbers of threads, measured one after the other (default: all available)");
  add_numbers(command, "--sequences", flags->sequences, number_range<std::size_t>{1, 1u << 16},
              "Numbers of sequences in a batch, measured one after the other; rates are over all sequences (default: 1)");
  add_number(command, "-r,--repetitions", flags->repetitions, number_range<std::size_t>{1, 1000000},
             "Repetitions of each measurement, after one to warm up (default: 5)");
  add_output(command, flags->output);
  command
      .add_flag("--after-each", flags->after_each,
                "Generate -n tokens after each prompt; the table calls this \"tg64 @ d512\", as llama-bench does")
      ->group(measuring_group);
  command
      .add_flag("--no-warmup", flags->no_warmup,
                "Leave out the repetition that warms up, for prompts that take minutes; the pruned run then comes first")
      ->group(measuring_group);
  command.add_flag(
      "--peak", flags->peak,
      "Also measure the machine's peak rates. The table then has the share of the peak arithmetic that a prefill reaches, and the "
      "share of the peak memory rate that generating reaches");
  command
      .add_flag(
          "--parts", flags->parts,
          "Also show where the time of each prefill goes, part by part. Products and attention also have their rate and, if the peak is "
          "known, their share of it")
      ->group(measuring_group);
  add_backend_flags(command, flags->backend);
  add_policy_flags(command, flags->policy, flags->model);
  show_first(command, {"--backend", "--dtype"});
  command.footer(
      "Examples:\n"
      "  lazyprune bench -m MODEL.gguf -P 2048 --stages 9:0.7,19:0.5\n"
      "  lazyprune bench --random-weights tinyllama-1.1b -P 512 -n 0 -r 3\n"
      "\n"
      "The table has two predicted speedups. `predicted` counts the time of computing alone. `with memory`\n"
      "also counts the time in which layers of few rows wait for their weights. For generating, there is\n"
      "only `with memory`. `reached` is the measured speedup, divided by the prediction with memory.");
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
  repeatable(command.add_option_function<std::vector<std::string>>(
                 "-d,--data", read,
                 "Samples of LongBench, RULER or the pocket tasks, one JSON object a line; -: stdin; may be given several times"))
      ->type_name("FILE.jsonl");
  add_text(command, "--task", flags.task,
           "Name of the data set, as LongBench and RULER call it (default: what the samples say, else the file's name without its ending)")
      ->type_name("NAME");
  add_number(command, "--limit", flags.limit, number_range<std::size_t>{0}, "Take the first N samples of each file; 0: all (default: 0)");
  add_number(command, "-n,--n-predict,--predict", flags.predict, number_range<std::size_t>{0},
             "An answer has at most N tokens; 0: as the benchmark has it (default: 0)")
      ->group(question_group);
  add_context(command, flags.context, question_group);
  add_number(command, "--max-length", flags.max_length, number_range<std::size_t>{0},
             "Cut the middle out of prompts with more tokens, before the words of a chat are added; 0: the tokens of -c that the "
             "answer does not need (default: 0)")
      ->group(question_group);
  add_text(command, "--chat", flags.chat,
           "Words around each prompt: none, llama2, xgen, or template, which is the model's own chat template. Without this option "
           "nothing is added, even for a chat model (default: none)")
      ->type_name("NAME");
  add_template_flags(command, flags.words);
  command.add_flag("--strict", flags.strict, "End at the first bad line of -d. Without this, bad lines are reported and left out")
      ->group(question_group);
}

void add_eval(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<eval_flags>();
  CLI::App& command =
      *program.add_subcommand("eval", "Answers a benchmark's questions, or takes given answers, and scores them by its metrics");
  add_model_flags(command, flags->model);
  add_question_flags(command, flags->questions);
  add_text(command, "--predictions", flags->predictions,
           "Instead of -d: score predictions that exist, without a model. One JSON object a line (pred, answers, all_classes, length); "
           "-: stdin")
      ->type_name("FILE.jsonl");
  add_text(command, "--method", flags->method,
           "Name of the method in the result (default: the policy and its options, or the file of predictions)")
      ->type_name("NAME")
      ->group(output_group);
  add_engine_flags(command, flags->backend);
  add_policy_flags(command, flags->policy, flags->model);

  add_text(command, "--out", flags->predicted,
           "Write the predictions in LongBench's form. The file is FILE.jsonl.unfinished until all of them are made. With --part, the "
           "name of a folder")
      ->type_name("FILE.jsonl");
  command.add_flag("--resume", flags->resume, "Go on after the predictions that --out already has");
  command.add_flag("--compare", flags->compare, "Also measure the dense model's time to first token, once for each sample");
  add_output(command, flags->output);
  CLI::Option* jobs = add_jobs(command, flags->jobs)->group(loading_group);
  jobs->description(jobs->get_description() + "; not with --compare or --predictions");
  jobs->excludes(command.get_option("--compare"));
  add_run_part_flags(command, flags->parts);
  command.get_option("--part")->excludes(command.get_option("--output"));
  // No other flag has an effect on predictions that exist. check_flags refuses -d and --part with them.
  CLI::Option* const predictions = command.get_option("--predictions");
  constexpr std::array<std::string_view, 8> in_effect{"--predictions", "--data", "--task", "--method",
                                                      "--output",      "--part", "--help", "--help-all"};
  for (CLI::Option* const option : command.get_options())
    if (std::ranges::find(in_effect, option->get_name()) == in_effect.end()) predictions->excludes(option);
  command.footer(
      "Examples:\n"
      "  lazyprune eval -m MODEL.gguf -d hotpotqa.jsonl --limit 20 --stages 9:0.7,19:0.5 --compare\n"
      "  lazyprune eval --predictions PREDICTIONS.jsonl --task hotpotqa");
  choose(command, chosen, [flags, &policies] {
    check_flags(*flags);
    return eval(*flags, policies);
  });
}

/// Adds the flags for the tokens that every method of a sweep or a search keeps. add_policy_flags describes these flags.
void add_kept_flags(CLI::App& command, kept_tokens& kept) {
  add_number(command, "--keep-first", kept.first, number_range<std::size_t>{0}, "")->group(pruning_group);
  add_number(command, "--keep-last", kept.last, number_range<std::size_t>{0}, "")->group(pruning_group);
}

/// `which`: the words after "Methods" in the help.
void add_method_flags(CLI::App& command, method_flags& flags, const std::string& which) {
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
      .add_option_function<std::string>(
          "--methods", read_methods,
          "Methods " + which + ": " + names + by_default +
              ". lazyllm@3+5 prunes after 3 and 5 layers. Without @, a method takes the layers of the model's "
              "stages, or else those of the paper. --pruning-file FILE adds the method calibrated")
      ->type_name("NAME,NAME,...");
  add_numbers(command, "--budgets", flags.budgets, number_range<double>{0, 1},
              "Shares of the dense model's prefill rows that each method may compute (default: 0.6,0.75,0.9)");
  repeatable(
      command.add_option(
          "--variant", flags.variants,
          "last8=--scorer window_attention:window=8,kernel=1 adds a method last8, which is lazyllm with these pruning options. "
          "last8@3+5=... names its layers; otherwise they are those of lazyllm. With --stages it runs once with these stages, whatever "
          "the budgets. --pruning-file FILE among these options takes the stages and probes from FILE, and --stages replaces its stages. "
          "May be given several times"))
      ->type_name("NAME[@LAYER+...]=FLAGS")
      ->group(measuring_group);
}

/// Adds the flags for questions that are made out of texts.
void add_text_flags(CLI::App& command, text_flags& flags) {
  command
      .add_option("-f,--file", flags.files,
                  "Files with texts instead of -d; -: stdin. Prompts ask for made-up facts in their passages, or for the rest of a "
                  "sentence")
      ->type_name("FILE...");
  add_number(command, "--tokens", flags.tokens, number_range<std::size_t>{256},
             "Tokens of a passage that is cut out of the texts (default: " + std::to_string(flags.tokens) + ")");
  add_number(command, "--prompts", flags.prompts, number_range<std::size_t>{8},
             "Take at most N passages (default: " + std::to_string(flags.prompts) + ")");
}

void add_sweep(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<sweep_flags>();
  CLI::App& command =
      *program.add_subcommand("sweep", "Compares pruning methods at equal budgets on a benchmark; writes tables and a page");
  add_model_flags(command, flags->model);
  add_question_flags(command, flags->questions);
  add_text_flags(command, flags->questions.texts);
  add_method_flags(command, flags->methods, "to compare with dense");
  add_pruning_file(command, flags->model);
  add_kept_flags(command, flags->kept);
  add_number(command, "--seeds", flags->seeds, number_range<std::size_t>{1, 1000},
             "Runs of each method that draws at random. Each sample has draws of its own, and the table takes the runs together "
             "(default: 5)")
      ->group(measuring_group);
  add_number(command, "--timed", flags->timed, number_range<std::size_t>{0},
             "Measure times on the first N samples of each file only. On the other samples, the work that the methods have in common is "
             "computed once; the answers are the same. 0: measure on all (default: 0)")
      ->group(measuring_group);
  add_number(
      command, "--sensitivity", flags->sensitivity, number_range<std::size_t>{0},
      "Also prune after single layers, to 0.9, 0.7, 0.5, 0.3 and 0.1 of the tokens, on the first N samples of each file (default: 0)")
      ->group(measuring_group);
  add_number(
      command, "--minutes", flags->minutes, number_range<double>{0},
      "N minutes after the start, finish the current sample and begin no other. The table has the samples answered so far, and --resume "
      "goes on; 0: no limit (default: 0)");
  add_engine_flags(command, flags->backend);

  add_directory(command, flags->directory, flags->resume, "answers, tables, figure and page");
  add_run_part_flags(command, flags->parts);
  command.footer(
      "Example:\n"
      "  lazyprune sweep -m MODEL.gguf -d hotpotqa.jsonl --limit 20 --budgets 0.6,0.9 --out results");
  choose(command, chosen, [flags, &policies] {
    check_flags(*flags);
    return sweep(*flags, policies);
  });
}

void add_merge(CLI::App& program, action& chosen) {
  const auto flags = std::make_shared<merge_flags>();
  CLI::App& command = *program.add_subcommand("merge", "Merges the parts of one run of eval, sweep or fidelity");
  command.add_option("DIR", flags->parts, "The folders of the parts (--part K/N --out DIR)")->type_name("DIR...")->required();
  add_text(command, "--out", flags->directory, "Folder for the result; made if it does not exist")->type_name("DIR")->required();
  add_output(command, flags->output);
  command.footer(
      "Example:\n"
      "  lazyprune sweep -d hotpotqa.jsonl --part 1/2 --out part1   # on one machine\n"
      "  lazyprune sweep -d hotpotqa.jsonl --part 2/2 --out part2   # on another one\n"
      "  lazyprune merge part1 part2 --out results");
  choose(command, chosen, [flags] {
    check_flags(*flags);
    return merge(*flags);
  });
}

void add_search(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<search_flags>();
  CLI::App& command = *program.add_subcommand("search", "Finds the cheapest stages that keep the score near the dense model's");
  add_model_flags(command, flags->model);
  add_question_flags(command, flags->questions);
  add_text_flags(command, flags->questions.texts);
  add_pruning_file(command, flags->model);
  add_kept_flags(command, flags->kept);
  add_number(command, "--max-loss", flags->max_loss, number_range<double>{0, 100}, "Points of score that pruning may lose (default: 1)");
  command
      .add_flag(
          "--certain", flags->certain,
          "Compare the upper end of the loss's 95 % interval with --max-loss, not the mean. Chance gains on a few samples then do not hide "
          "losses")
      ->group(measuring_group);
  add_number(command, "--most-stages", flags->most_stages, number_range<std::size_t>{0},
             "A schedule has at most N stages, such as 3 as in the paper; 0: any number (default: 0)")
      ->group(measuring_group);
  add_number(command, "--tries", flags->tries, number_range<std::size_t>{1, 1000000},
             "Try at most N schedules, of which the dense model is one (default: 100)");
  add_number(command, "--minutes", flags->minutes, number_range<double>{0},
             "N minutes after the start, finish the current schedule and begin no other. The result is then scored on the other samples. "
             "--resume goes on; 0: no limit (default: 0)");
  add_part_flags(command, flags->parts);
  add_engine_flags(command, flags->backend);
  add_jobs(command, flags->jobs);
  add_directory(command, flags->directory, flags->resume, "search.jsonl and search.csv");
  command.footer(
      "Example:\n"
      "  lazyprune search -m MODEL.gguf -d hotpotqa.jsonl --limit 40 --max-loss 2 --out results");
  choose(command, chosen, [flags, &policies] {
    check_flags(*flags);
    return search(*flags, policies);
  });
}

void add_calibrate(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<calibrate_flags>();
  CLI::App& command = *program.add_subcommand("calibrate", "Finds the heads whose attention shows which blocks of a prompt matter");
  add_model_flags(command, flags->model);
  add_text_flags(command, flags->questions.texts);
  command.get_option("--prompts")
      ->description("Read at most N passages or samples (default: " + std::to_string(flags->questions.texts.prompts) + ")");
  add_engine_flags(command, flags->backend);
  add_question_flags(command, flags->questions);
  add_number(command, "--block", flags->block, number_range<std::size_t>{4, 1024}, "Tokens that are kept or pruned together (default: 16)");
  add_number(command, "--probes", flags->probes, number_range<std::size_t>{0},
             "At most N probes for a stage; 0: the fewest within 0.01 of the best recall, at most 32 (default: 0)");
  add_text(command, "--out", flags->out, "The file to write; as lazyprune.json in the model's folder it is used without a flag")
      ->type_name("FILE")
      ->required();
  command.footer(
      "Examples:\n"
      "  lazyprune calibrate -m MODEL.gguf -f book.txt --out lazyprune.json\n"
      "  lazyprune run -m MODEL.gguf -f doc.txt -p \"question\" --pruning-file lazyprune.json --compare");
  choose(command, chosen, [flags, &policies] {
    check_flags(*flags);
    return calibrate(*flags, policies);
  });
}

void add_fidelity(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<fidelity_flags>();
  CLI::App& command = *program.add_subcommand("fidelity", "Compares a pruned model with the dense one, on texts without labels");
  add_model_flags(command, flags->model);
  command.add_option("-f,--file", flags->texts, "Files with texts to compare on; -: stdin. Tokens beyond -c are left out")
      ->type_name("FILE...");
  add_text(command, "--prefix", flags->prefix, "How much of a text is the prompt: a share, or a number of tokens (default: 0.5)")
      ->type_name("SHARE|TOKENS");
  add_number(command, "-n,--n-predict,--predict", flags->predict, number_range<std::size_t>{0},
             "Tokens to compare after the prompt; 0: 128 (default: 0)");
  add_number(
      command, "--places", flags->places, number_range<std::size_t>{0, 1000000},
      "Cut N places out of each text, spread evenly from its beginning to its end. Each is taken as a text with a prompt of --prefix "
      "tokens. The text must be long enough that no token is compared twice; 0: only its beginning (default: 0)")
      ->group(measuring_group);
  add_context(command, flags->context, common_group);
  add_engine_flags(command, flags->backend);
  add_method_flags(command, flags->methods,
                   "to compare instead of one policy, with --keep-first and --keep-last as the only pruning options");
  add_policy_flags(command, flags->policy, flags->model);
  add_output(command, flags->output);
  add_directory(command, flags->directory, flags->resume, "comparisons.jsonl");
  add_run_part_flags(command, flags->parts);
  command.get_option("--part")->excludes(command.get_option("--output"));
  command.footer(
      "Examples:\n"
      "  lazyprune fidelity -m MODEL.gguf -f book.txt --stages 9:0.7,19:0.5\n"
      "  lazyprune fidelity -m MODEL.gguf -f book.txt --methods lazyllm,static --budgets 0.6,0.9");
  choose(command, chosen, [flags, &command, &policies] {
    if (command.count("--budgets") > 0 && !flags->compares_methods())
      throw error("--budgets", "", "--methods or --variant with it", "none");
    check_flags(*flags);
    return fidelity(*flags, policies);
  });
}

void add_inspect(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<inspect_flags>();
  CLI::App& command =
      *program.add_subcommand("inspect", "Shows if a model is supported, the stages to prune it by, its memory, config and tensors");
  add_model_flags(command, flags->model);
  add_number(command, "-c,--ctx-size", flags->context, number_range<std::size_t>{0},
             "Length in tokens of the context whose memory is shown; 0: the model's limit (default: 0)");
  command.add_flag("--json", flags->json, "Print one JSON object");
  add_policy_flags(command, flags->policy, flags->model);
  command.footer(
      "Example:\n"
      "  lazyprune inspect -m MODEL.gguf -c 8192");
  choose(command, chosen, [flags, &policies] { return inspect(*flags, policies); });
}

void add_serve(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto flags = std::make_shared<serve_flags>();
  CLI::App& command = *program.add_subcommand("serve", "Answers requests over HTTP, in the form of OpenAI's API");
  add_model_flags(command, flags->model);
  add_text(command, "--host", flags->http.host,
           "The IP address to listen on; 0.0.0.0: all addresses, so that other machines can connect (default: 127.0.0.1)")
      ->type_name("ADDRESS");
  add_number(command, "--port", flags->http.port, number_range<std::uint16_t>{0},
             "The port; 0: a free one, which is printed (default: 8080)");
  add_text(command, "--api-key-file", flags->key_file, "A file with a key on each line; a request then needs one of them")
      ->type_name("FILE");
  add_number(command, "-n,--n-predict,--predict", flags->predict, number_range<std::size_t>{1},
             "A chat's answer has at most N tokens if the request has no max_tokens (default: 1024)");
  add_context(command, flags->context, common_group);
  add_number(command, "--sequences", flags->sequences, number_range<std::size_t>{1, 4096},
             "Generate at most N answers together (default: 16)");
  command
      .add_option_function<std::string>(
          "--cache-memory",
          [flags](const std::string& text) {
            flags->cache_mebibytes = number_range<std::size_t>{0, 1u << 30}.read("--cache-memory", text);
          },
          "MiB for beginnings of prompts, which later prompts need not read again; 0: none (default: a quarter of the free memory)")
      ->type_name("N");
  add_text(command, "--cache-file", flags->cache_file,
           "A file that keeps the beginnings of prompts for the next run of the server; written when the server ends")
      ->type_name("FILE");
  add_number(command, "--queue", flags->queue, number_range<std::size_t>{1, 1u << 20},
             "Answers that may wait; further requests get status 429 (default: 64)")
      ->group(server_group);
  add_number(command, "--connections", flags->http.connections, number_range<std::size_t>{1, 1u << 20},
             "Open connections; further ones are closed at once (default: 1024)")
      ->group(server_group);
  add_number(command, "--most-body", flags->http.body_bytes, number_range<std::size_t>{1, 1u << 30},
             "A request's body has at most N bytes; a longer one gets status 413 (default: 8388608)")
      ->group(server_group);
  command
      .add_option_function<std::string>(
          "--deadline",
          [flags](const std::string& text) {
            flags->deadline = std::chrono::seconds(number_range<std::int64_t>{0, 86400}.read("--deadline", text));
          },
          "An answer ends at most N seconds after its request; a later one fails with status 504; 0: no limit (default: 0)")
      ->type_name("N")
      ->group(server_group);
  command
      .add_option_function<std::string>(
          "--drain",
          [flags](const std::string& text) {
            flags->drain = std::chrono::seconds(number_range<std::int64_t>{0, 86400}.read("--drain", text));
          },
          "Seconds in which open requests are answered after SIGTERM or Ctrl-C (default: 30)")
      ->type_name("N")
      ->group(server_group);
  add_text(command, "--log", flags->log, "A file to which the server adds a line of JSON for each request, without its texts")
      ->type_name("FILE")
      ->group(server_group);
  command.add_flag("--log-texts", flags->log_texts, "The lines of --log also have the texts of prompts and answers")->group(server_group);
  add_engine_flags(command, flags->backend);
  command.add_flag("--force-memory", flags->force_memory, "Load the model even if it takes more memory than is free")->group(loading_group);
  add_policy_flags(command, flags->policy, flags->model);
  add_template_flags(command, flags->words);
  add_document_roles(command, flags->documents);
  command.footer(
      "Examples:\n"
      "  lazyprune serve -m MODEL.gguf      # then open http://localhost:8080/ in a browser, or:\n"
      "  curl localhost:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'");
  choose(command, chosen, [flags, &policies] {
    check_flags(*flags);
    return serve(*flags, policies);
  });
}

void add_tokenize(CLI::App& program, action& chosen) {
  const auto flags = std::make_shared<tokenize_flags>();
  CLI::App& command = *program.add_subcommand("tokenize", "Shows the ids and pieces of a text or a chat, or the text of ids");
  add_text(command, "-m,--model", flags->model.path,
           "A model as in the other commands, a folder of tokenizer files, one such file, or a .jinja file, which renders chats "
           "(default: $LAZYPRUNE_MODEL, else the bundled model)")
      ->type_name("PATH");
  command.add_option("-p,--prompt", flags->prompt, "A text; -: stdin, as it is")->type_name("TEXT");
  add_text(command, "-f,--file", flags->file, "A file with a text, which is taken as it is; -: stdin")->type_name("FILE");
  add_numbers(command, "--ids", flags->ids, number_range<token_id>{0}, "Token ids, whose text is shown");
  add_text(command, "--messages", flags->messages,
           R"(A chat: a JSON list of {"role", "content"} that awaits an answer, or an object as in --jsonl)")
      ->type_name("FILE.json");
  add_text(
      command, "--jsonl", flags->requests,
      R"(A request a line: {"text": ...}, {"ids": [...]} or {"messages": [...], "add_generation_prompt": true, ...variables}. Each is )"
      R"(answered with an object a line, {"error": ...} if it is refused; the exit code is 1 if any was. Empty lines are skipped; )"
      R"(-: stdin)")
      ->type_name("FILE.jsonl");
  command.add_flag("--no-special", flags->no_special, "Add no BOS or EOS to a text");
  command.add_flag_callback(
      "--no-parse-special", [flags] { flags->parse_special = false; }, "Read control tokens like <|im_end|> in a text as ordinary text");
  command.add_flag("--json", flags->json,
                   "Print one JSON object: ids, pieces, text (with special tokens), text_plain (without), rendered (a chat's text)");
  add_template_flags(command, flags->words);
  command.footer(
      "Examples:\n"
      "  lazyprune tokenize -m MODEL.gguf -p \"the old council\"\n"
      "  lazyprune tokenize -m MODEL.gguf --messages chat.json --json");
  choose(command, chosen, [flags] {
    check_flags(*flags);
    return tokenize(*flags);
  });
}

std::vector<const CLI::App*> commands_of(const CLI::App& program) {
  return program.get_subcommands([](const CLI::App*) { return true; });
}

/// Returns the least number of edits that turn one name into the other. An edit inserts, deletes or replaces a letter, or swaps two
/// neighbours.
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> edits(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        edits[i][j] = i + j;
        continue;
      }
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, edits[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
    }
  return edits[a.size()][b.size()];
}

/// Returns the typed text. If a name begins with it or differs from it in few letters, "; did you mean NAME?" follows.
std::string with_suggestion(const std::string& typed, const std::vector<std::string>& names) {
  const std::string name = typed.substr(0, typed.find('='));
  const std::size_t letters = name.size() - std::min(name.find_first_not_of('-'), name.size()),
                    most = std::max<std::size_t>(1, letters / 3);
  if (letters < 2) return typed;
  std::string nearest;
  std::size_t edits = most + 1;
  for (const std::string& known : names) {
    const std::size_t needed = known.starts_with(name) ? 1 : edits_between(name, known);
    if (needed >= edits) continue;
    edits = needed;
    nearest = known;
  }
  return nearest.empty() ? typed : typed + "; did you mean " + nearest + "?";
}

std::string with_command_suggestion(const CLI::App& program, const std::string& typed, std::vector<std::string> names = {}) {
  for (const CLI::App* command : commands_of(program)) names.push_back(command->get_name());
  return with_suggestion(typed, names);
}

std::string with_flag_suggestion(const CLI::App& command, const std::string& typed) {
  if (!typed.starts_with("--")) return typed;
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return with_suggestion(typed, names);
}

/// The only topic of `lazyprune help` that is not a command.
constexpr const char* pruning_topic = "pruning";

/// Does the work of `lazyprune help`: prints the page of the program, of a command, or of the pruning flags. Returns the exit code.
int show_help(const CLI::App& program, const std::string& topic, const policy_registry& policies) {
  if (topic.empty()) {
    std::cout << help_page(program, page_kind::common);
    return 0;
  }
  if (topic == pruning_topic) {
    CLI::App with_options;
    policy_spec spec;
    model_flags model;
    add_policy_flags(with_options, spec, model);
    std::cout << pruning_page(with_options, policies);
    return 0;
  }
  for (const CLI::App* command : commands_of(program))
    if (command->get_name() == topic) {
      std::cout << help_page(*command, page_kind::common);
      return 0;
    }
  throw error("help", "", "pruning, or a command that `lazyprune --help` lists", with_command_suggestion(program, topic, {pruning_topic}));
}

void add_help(CLI::App& program, action& chosen, const policy_registry& policies) {
  const auto topic = std::make_shared<std::string>();
  CLI::App& command = *program.add_subcommand("help", "Shows the help of a command, or of the pruning options (lazyprune help pruning)");
  command.add_option("TOPIC", *topic, "A command, or pruning (default: the program itself)")->type_name("TOPIC");
  choose(command, chosen, [topic, &program, &policies] { return show_help(program, *topic, policies); });
}

/// The first argument that no command knows; empty if there is none.
std::string unknown_argument(const CLI::App& program) {
  const auto left = program.remaining(true);
  return left.empty() ? "" : left.front();
}

/// Throws `error` if an argument is a flag of earlier versions that is now a command.
void name_the_command(const CLI::App& program) {
  for (const std::string& flag : program.remaining(true))
    for (const std::string_view command : {"fidelity", "search"})
      if (flag.starts_with("--") && std::string_view(flag).substr(2) == command)
        throw error(flag, "", "the command `lazyprune " + std::string(command) + "`", "the flag");
}

/// Throws `error` for arguments that could not be parsed.
[[noreturn]] void refuse(const CLI::App& program, const CLI::ParseError& problem) {
  name_the_command(program);
  const auto typed = program.get_subcommands();
  const std::string unknown = unknown_argument(program);
  const std::string page =
      "lazyprune " + (typed.empty() ? "" : typed.front()->get_name() + " ") + (typed.empty() ? "--help" : "--help-all");
  const auto listed = [&](const char* what) { return std::string(what) + " that `" + page + "` lists"; };
  if (!typed.empty() && unknown.empty()) throw error("arguments", "", "options as `" + page + "` lists them", problem.what());
  if (unknown.starts_with("-"))
    throw error("arguments", "", listed("an option"), with_flag_suggestion(typed.empty() ? program : *typed.front(), unknown));
  if (!typed.empty()) throw error("arguments", "", listed("an option or argument"), unknown);
  if (!unknown.empty()) throw error("arguments", "", listed("a command"), with_command_suggestion(program, unknown));
  throw error("arguments", "", "a command, " + one_of_names(commands_of(program), &CLI::App::get_name), "none");
}

}  // namespace

action parse_command_line(int argc, char** argv, const policy_registry& policies) {
  const auto app = std::make_shared<CLI::App>(
      "Generates text with a language model while a policy prunes its tokens (LazyLLM, arXiv 2407.14057), and measures what that saves.",
      "lazyprune");
  CLI::App& program = *app;
  program.formatter_fn([](const CLI::App* shown, const std::string&, CLI::AppFormatMode mode) {
    return help_page(*shown, mode == CLI::AppFormatMode::All ? page_kind::all : page_kind::common);
  });
  program.set_help_flag("-h,--help", "Print this page");
  program.set_help_all_flag("--help-all", "Print all options");
  program.set_version_flag("--version", "lazyprune " LAZYPRUNE_VERSION_STRING, "Print the version");
  program.require_subcommand(1);
  action chosen;
  add_run(program, chosen, policies);
  add_chat(program, chosen, policies);
  add_compare(program, chosen, policies);
  add_bench(program, chosen, policies);
  add_eval(program, chosen, policies);
  add_calibrate(program, chosen, policies);
  add_fidelity(program, chosen, policies);
  add_sweep(program, chosen, policies);
  add_merge(program, chosen);
  add_search(program, chosen, policies);
  add_inspect(program, chosen, policies);
  add_tokenize(program, chosen);
  add_serve(program, chosen, policies);
  add_help(program, chosen, policies);
  program.footer(
      "Examples:\n"
      "  lazyprune run -p \"the old council\"                       the bundled model continues a text\n"
      "  lazyprune run -m MODEL.gguf -f doc.txt -p \"question\"     an answer about a document\n"
      "  lazyprune chat -m MODEL.gguf                             a conversation\n"
      "  lazyprune inspect -m MODEL.gguf                          what a model is, and how to prune it\n"
      "  lazyprune search -m MODEL.gguf -d TASK.jsonl --out DIR   stages that suit the model\n"
      "\n"
      "Help on a command: lazyprune COMMAND --help. Help on pruning: lazyprune help pruning");
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return [shown = program.exit(problem)] { return shown; };  // help, version
    refuse(program, problem);
  }
  return [app, chosen] { return chosen(); };  // `app` owns what `chosen` refers to
}

}  // namespace program
}  // namespace lazyprune
