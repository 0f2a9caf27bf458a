// SPDX-License-Identifier: MIT
#include "commands/outcome.hpp"

#include <algorithm>
#include <iostream>
#include <numeric>
#include <vector>

#include <nlohmann/json.hpp>

#include "tables/number_text.hpp"
#include "terminal/columns.hpp"

namespace lazyprune {
namespace program {

namespace {

/// Returns the keys that describe one run, pruned or dense.
nlohmann::ordered_json json_of(const outcome& result) {
  const generation& run = result.run;
  nlohmann::ordered_json object;
  object["finish_reason"] = name_of(run.reason);
  object["text"] = result.text ? nlohmann::ordered_json(*result.text) : nlohmann::ordered_json(nullptr);
  object["tokens"] = run.tokens;
  object["prompt_tokens"] = result.prompt_tokens;
  object["policy"] = {{"name", result.policy_name}, {"text", result.policy_text}};
  object["ttft_s"] = run.prefill_seconds;
  object["prefill_tokens_per_s"] = result.prefill_rate();
  object["decode_tokens_per_s"] = result.decode_rate();
  object["computed"] = {{"rows", run.cost.rows},
                        {"dense_rows", run.cost.dense_rows},
                        {"share_prompt", run.share_prompt},
                        {"per_layer", run.cost.prefill_rows},
                        {"revived", run.cost.revived}};
  object["memory"] = {{"weights", result.weight_bytes},
                      {"kv", run.memory.kv},
                      {"store", run.memory.store},
                      {"scratch", run.memory.scratch},
                      {"peak", result.peak_bytes()}};
  if (result.speculates) object["speculation"] = {{"steps", run.decode_steps}, {"drafted", run.drafted}, {"accepted", run.accepted}};
  if (result.kept) object["kept_tokens"] = *result.kept;
  if (result.shared) {
    object["shared_rows"] = result.shared->rows;
    object["shared_tokens"] = result.shared->tokens;
    object["shared_s"] = result.shared->seconds;
  }
  return object;
}

}  // namespace

std::string to_json(const run_heading& heading, const outcome& result, const std::optional<outcome>& dense) {
  nlohmann::ordered_json object{{"version", 1}, {"model", heading.model}, {"backend", heading.backend}, {"isa", heading.isa}};
  if (!heading.device.empty()) object["device"] = heading.device;
  object["seed"] = heading.seed;
  object.update(json_of(result));
  if (dense) {
    object["dense"] = json_of(*dense);
    if (dense->run.prefill_seconds > 0 && result.run.prefill_seconds > 0)
      object["speedup_ttft"] = dense->run.prefill_seconds / result.run.prefill_seconds;
  }
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

namespace {

constexpr std::size_t label_width = 24, column_width = 12, bar_width = 30;

void line(const std::string& label, const std::string& dense, const std::string& pruned, const std::string& note = {}) {
  std::cerr << left(label, label_width) << (dense.empty() ? "" : right(dense, column_width)) << right(pruned, column_width)
            << (note.empty() ? "" : "   ") << note << '\n';
}

/// Writes how many rows each layer computed in the prefill, and their share of the dense rows. Neighbouring layers with the same number of
/// rows are in one line.
void report_layers(const statistics& cost) {
  std::cerr << "rows computed in the prefill, by layer\n";
  const std::vector<std::size_t>&rows = cost.prefill_rows, &dense = cost.prefill_dense_rows;
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t last = first;
    while (last + 1 < rows.size() && rows[last + 1] == rows[first]) ++last;
    const double share = dense[first] > 0 ? static_cast<double>(rows[first]) / static_cast<double>(dense[first]) : 0.0;
    const std::string layers = first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last);
    std::cerr << right(layers, 7) << right(std::to_string(rows[first]), 8) << right(percent_text(share), 9) << "  " << bar(share, bar_width)
              << '\n';
    first = last + 1;
  }
}

/// Says what a chunk of the prompt computes.
std::string text_of(const chunk_reading& chunks, layer_id layers) {
  const std::string text = "chunks of " + std::to_string(chunks.tokens) + " tokens: each ";
  if (chunks.layers == 0) return text + "computes nothing; with this policy all layers run when the question is read";
  if (chunks.layers == layers) return text + "runs all layers";
  return text + "runs the first " + std::to_string(chunks.layers) + " of " + std::to_string(layers) +
         " layers; the others run when the question is read";
}

/// Returns a text that says what cut the answer short; empty if nothing did.
std::string cut_text(const outcome& result, const std::string& before) {
  if (result.cut_by.empty()) return "";
  return before + "ended after " + std::to_string(result.run.tokens.size()) + " tokens (" + std::string(result.cut_by) + ")";
}

std::string agreement(const outcome& result, const outcome& dense) {
  const auto &ours = result.run.tokens, &theirs = dense.run.tokens;
  if (ours == theirs) return "the answers agree: the same " + std::to_string(ours.size()) + " tokens";
  const auto at = std::ranges::mismatch(ours, theirs).in1 - ours.begin();
  return "the answers differ after " + std::to_string(at) + " tokens" +
         (dense.text ? "; the dense model's: " + nlohmann::json(*dense.text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                     : "");
}

}  // namespace

namespace {

/// For example "1.20 s; dense 2.10 s, 1.75x faster".
std::string beside_dense(double seconds, std::optional<double> dense, bool guessed) {
  std::string text = seconds_text(seconds);
  if (!dense || seconds <= 0 || *dense <= 0) return text;
  text += guessed ? "; dense about " + seconds_text(*dense) + " by the cost model" : "; dense " + seconds_text(*dense);
  return text + ", " + (*dense < seconds ? fixed(seconds / *dense, 2) + "x slower" : fixed(*dense / seconds, 2) + "x faster");
}

/// Writes the seconds to the first and the last token, and those of the dense model.
void report_seconds(const outcome& result, const std::optional<outcome>& dense) {
  const answer_seconds ours = result.seconds();
  const std::optional<answer_seconds> theirs = dense ? std::optional(dense->seconds()) : result.dense_guess;
  const auto line = [&](const char* what, double answer_seconds::*which) {
    const auto other = theirs ? std::optional((*theirs).*which) : std::nullopt;
    std::cerr << what << beside_dense(ours.*which, other, !dense) << '\n';
  };
  line("time to first token: ", &answer_seconds::first_token);
  line("time to last token:  ", &answer_seconds::last_token);
  constexpr double clearly = 1.05;
  if (theirs && ours.last_token > clearly * theirs->last_token)
    std::cerr << "the last token comes later than with the dense model"
              << (result.prunes_steps ? "; --decode dense prunes only the prompt\n" : "\n");
}

/// Writes rows and memory, in a table.
void report_details(const outcome& result, const std::optional<outcome>& dense) {
  const generation& run = result.run;
  const auto compared = [&](const std::string& label, auto value, const std::string& note = {}) {
    line(label, dense ? value(*dense) : "", value(result), note);
  };
  const auto bytes = [&](const std::string& label, auto size) { compared(label, [&](const outcome& o) { return bytes_text(size(o)); }); };
  if (dense) line("", "dense", "pruned");
  compared("prefill, tokens/s", [](const outcome& o) { return three_digits(o.prefill_rate()); });
  compared("decode, tokens/s", [](const outcome& o) { return three_digits(o.decode_rate()); });
  if (result.speculates) {
    compared("steps after the first", [](const outcome& o) { return std::to_string(o.run.decode_steps); });
    compared("drafts accepted", [](const outcome& o) { return std::to_string(o.run.accepted) + " of " + std::to_string(o.run.drafted); });
  }
  const double share = run.cost.dense_rows > 0 ? static_cast<double>(run.cost.rows) / static_cast<double>(run.cost.dense_rows) : 0.0;
  compared(
      "rows computed", [](const outcome& o) { return std::to_string(o.run.cost.rows); }, percent_text(share) + " of dense");
  compared("prompt computed", [](const outcome& o) { return percent_text(o.run.share_prompt); });
  compared("rows revived", [](const outcome& o) { return std::to_string(o.run.cost.revived); });
  bytes("memory: weights", [](const outcome& o) { return o.weight_bytes; });
  bytes("        keys, values", [](const outcome& o) { return o.run.memory.kv; });
  bytes("        aux store", [](const outcome& o) { return o.run.memory.store; });
  bytes("        scratch", [](const outcome& o) { return o.run.memory.scratch; });
  bytes("        peak", [](const outcome& o) { return o.peak_bytes(); });
  if (!run.cost.prefill_rows.empty() && run.cost.steps > 0) report_layers(run.cost);
}

}  // namespace

void report(const outcome& result, const std::optional<outcome>& dense, bool verbose) {
  std::cerr << "policy: " << (verbose ? result.policy_text : result.policy_line) << '\n'
            << "prompt: " << result.prompt_tokens << " tokens; answer: " << result.run.tokens.size() << " tokens"
            << (result.cut_by.empty() ? "" : ", ended by " + std::string(result.cut_by)) << '\n';
  if (result.prompt_tokens + result.run.tokens.size() <= result.least_tokens)  // the answer's last token is not read
    std::cerr << "nothing was pruned, because the policy prunes from " << result.least_tokens << " tokens on (--least-tokens)\n";
  if (result.chunks) std::cerr << text_of(*result.chunks, static_cast<layer_id>(result.run.cost.prefill_rows.size())) << '\n';
  if (dense || verbose) report_details(result, dense);
  if (dense) std::cerr << agreement(result, *dense) << '\n';
  if (!result.run.tokens.empty()) report_seconds(result, dense);
}

void report_turn(const outcome& turn) {
  const statistics& cost = turn.run.cost;
  const double share = cost.dense_rows > 0 ? static_cast<double>(cost.rows) / static_cast<double>(cost.dense_rows) : 0.0;
  std::cerr << '[' << turn.prompt_tokens << " tokens, " << turn.kept.value_or(0) << " of them read before; first token after "
            << seconds_text(turn.run.prefill_seconds) << ", then " << three_digits(turn.decode_rate()) << " tokens/s; "
            << percent_text(share) << " of dense rows" << cut_text(turn, "; ") << ']' << std::endl;
}

namespace {

void report_shared(const std::string& who, const shared_prefix& shared) {
  std::cerr << who << "shared: the first " << shared.tokens << " tokens of each prompt, read once in " << seconds_text(shared.seconds)
            << ": " << shared.rows << " rows\n";
}

}  // namespace

void report(std::span<const question_outcome> answers, std::size_t asked, bool verbose) {
  double seconds = 0;
  if (!answers.empty()) {
    const auto& [first, first_dense] = answers.front();
    std::cerr << "policy: " << (verbose ? first.policy_text : first.policy_line) << '\n';
    if (first.chunks) std::cerr << text_of(*first.chunks, static_cast<layer_id>(first.run.cost.prefill_rows.size())) << '\n';
    report_shared("", *first.shared);
    if (first_dense) report_shared("dense, ", *first_dense->shared);
    seconds = first.shared->seconds;

    std::vector<std::string> heads{"question", "prompt", "time to first token", "rows computed", "decode, tokens/s"};
    if (first_dense) heads.insert(heads.end(), {"dense: first token", "rows computed", "decode, tokens/s"});
    for (const std::string& head : heads) std::cerr << (&head == &heads.front() ? "" : "   ") << head;
    std::cerr << '\n';
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const auto& [pruned, dense] = answers[i];
      std::vector<std::string> cells{std::to_string(i + 1), std::to_string(pruned.prompt_tokens)};
      for (const outcome* o : {&pruned, dense ? &*dense : nullptr})
        if (o)
          cells.insert(cells.end(),
                       {seconds_text(o->run.prefill_seconds), std::to_string(o->run.cost.rows), three_digits(o->decode_rate())});
      for (std::size_t c = 0; c < cells.size(); ++c) std::cerr << right(cells[c], heads[c].size() + (c == 0 ? 0 : 3));
      if (dense) std::cerr << "   " << agreement(pruned, *dense);
      std::cerr << cut_text(pruned, "   ") << '\n';
      seconds += pruned.run.prefill_seconds + pruned.run.decode_seconds;
    }
  }
  std::cerr << "answered " << answers.size() << " of " << asked << " questions in " << seconds_text(seconds) << '\n';
}

}  // namespace program
}  // namespace lazyprune
