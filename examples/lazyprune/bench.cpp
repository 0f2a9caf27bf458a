// SPDX-License-Identifier: MIT
// lazyprune bench: prefill and decode rates, dense and pruned side by side, and how much of the predicted speedup is reached.

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <optional>

#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "engine.hpp"
#include "format.hpp"
#include "model_choice.hpp"
#include "progress.hpp"
#include "sessions.hpp"

#include <lazyprune/model/cost_model.hpp>

namespace {

using json = nlohmann::ordered_json;

/// Seconds of some repetitions.
struct samples {
  std::vector<double> seconds;

  double mean(double tokens) const {
    return sum([=](double s) { return tokens / s; }) / count();
  }
  double deviation(double tokens) const {
    const double middle = mean(tokens);
    if (seconds.size() < 2) return 0.0;
    return std::sqrt(sum([=](double s) { return (tokens / s - middle) * (tokens / s - middle); }) / (count() - 1.0));
  }
  double mean_seconds() const {
    return sum([](double s) { return s; }) / count();
  }

 private:
  double count() const { return static_cast<double>(seconds.size()); }
  template <class F>
  double sum(F f) const {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0, [&](double total, double s) { return total + f(s); });
  }
};

/// One policy over one prompt length.
struct measured {
  samples prefill, decode;
  double overhead_seconds = 0;
  lazyprune::generation last;
};

/// One line of the result.
struct result_row {
  int threads;
  std::string test;
  std::string policy;  // "dense", or the flags that make it
  double rate, deviation, seconds;
  std::optional<double> speedup, predicted, overhead;
  std::size_t peak_bytes;
};

class bench_run {
 public:
  explicit bench_run(const bench_flags& flags) : flags_(flags), spec_(flags.policy) {
    check(flags_.backend);
    longest_ = std::ranges::max(flags_.prompts);
    if (flags_.shape.empty()) {
      const lazyprune::checkpoint model = open_model(flags_.model);
      spec_ = with_recommended_stages(spec_, model);
      check_policy_and_length(model.config());
      name_ = model.directory().string();
      dtype_ =
          dtype_name(model.contains("model.embed_tokens.weight") ? model.find("model.embed_tokens.weight")->type : lazyprune::dtype::f32);
      engine_ = load_engine(flags_.backend, model);
    } else {
      lazyprune::model_config config = lazyprune::shape_named(flags_.shape);
      config.max_positions = std::max(config.max_positions, longest_ + flags_.predict);  // speed does not depend on what was trained
      check_policy_and_length(config);
      name_ = flags_.shape;
      const auto type = flags_.backend.dtype == "f32" ? lazyprune::dtype::f32 : lazyprune::dtype::bf16;
      dtype_ = dtype_name(type);
      engine_ = load_engine(flags_.backend, config, lazyprune::random_source(config, type));
    }
  }

  std::vector<result_row> run() {
    std::vector<result_row> rows;
    progress_bar bar("measuring");
    const std::size_t all = flags_.threads.size() * flags_.prompts.size() * (flags_.repetitions + 1);
    std::size_t done = 0;
    for (const int threads : flags_.threads) {
      engine_->use_threads(threads);
      for (const std::size_t prompt : flags_.prompts) {
        const auto [dense, pruned] = measure(prompt, [&] { bar.show(done++, all); });
        add_rows(rows, prompt, dense, pruned);
      }
    }
    return rows;
  }

  void print_markdown(const std::vector<result_row>& rows) const {
    std::cout << "model " << name_ << ", " << dtype_ << ", " << bytes_text(engine_->weight_bytes()) << ", " << flags_.backend.backend
              << " (" << isa_of(flags_.backend) << ")\n";
    if (prunes()) std::cout << "pruned: " << policy_text_ << '\n';
    if (flags_.predict > 0) std::cout << "tg" << flags_.predict << " follows the prompt of " << longest_ << " tokens\n";
    std::cout << "\n| threads |   test | policy |                 t/s | speedup | predicted | reached | overhead |      peak |\n"
                 "| ------: | -----: | :----- | ------------------: | ------: | --------: | ------: | -------: | --------: |\n";
    const auto cell = [](std::size_t width, const std::string& text) { std::cout << ' ' << right(text, width) << " |"; };
    for (const result_row& row : rows) {
      std::cout << '|';
      cell(7, std::to_string(row.threads));
      cell(6, row.test);
      std::cout << ' ' << left(row.policy == "dense" ? "dense" : "pruned", 6) << " |";
      cell(19, fixed(row.rate, 2) + " \xc2\xb1 " + fixed(row.deviation, 2));
      cell(7, row.speedup ? fixed(*row.speedup, 2) + "x" : "");
      cell(9, row.predicted ? fixed(*row.predicted, 2) + "x" : "");
      cell(7, row.speedup && row.predicted ? fixed(*row.speedup / *row.predicted, 2) : "");
      cell(8, row.overhead ? fixed(100.0 * *row.overhead, 2) + " %" : "");
      cell(9, bytes_text(row.peak_bytes));
      std::cout << '\n';
    }
  }

  void print_json(const std::vector<result_row>& rows) const {
    json list = json::array();
    for (const result_row& row : rows) list.push_back(json_of(row));
    std::cout << list.dump(1, ' ', false, json::error_handler_t::replace) << '\n';
  }

  void print_csv(const std::vector<result_row>& rows) const {
    const std::vector<std::string> columns{"model",        "isa",     "dtype",   "threads",           "test",           "policy",
                                           "tokens_per_s", "seconds", "speedup", "predicted_speedup", "overhead_share", "peak_bytes"};
    for (const std::string& column : columns) std::cout << (column == columns.front() ? "" : ",") << column;
    std::cout << '\n';
    for (const result_row& row : rows) {
      const json values = json_of(row);
      for (const std::string& column : columns) {
        std::cout << (column == columns.front() ? "" : ",");
        if (values.contains(column)) std::cout << csv_field(values[column]);
      }
      std::cout << '\n';
    }
  }

 private:
  bool prunes() const { return policy_text_ != "--policy dense"; }

  void check_policy_and_length(const lazyprune::model_config& config) {
    policy_text_ = text(spec_, static_cast<lazyprune::layer_id>(config.layers));
    if (longest_ + flags_.predict > config.max_positions)
      throw lazyprune::error("--prompts", "",
                             "prompts of at most " + std::to_string(config.max_positions) + " tokens, the -n generated ones included",
                             std::to_string(longest_ + flags_.predict));
  }

  std::string dtype_name(lazyprune::dtype stored) const {
    if (flags_.backend.backend == "reference") return flags_.backend.dtype == "f32" ? "f32" : "f64";
    if (flags_.backend.dtype != "auto") return flags_.backend.dtype;
    return stored == lazyprune::dtype::bf16 ? "bf16" : "f32";
  }

  /// Any ids do: the work does not depend on them.
  std::vector<lazyprune::token_id> prompt_of(std::size_t size) const {
    std::vector<lazyprune::token_id> ids(size);
    for (std::size_t i = 0; i < size; ++i) ids[i] = static_cast<lazyprune::token_id>(i * 2654435761u % engine_->config().vocabulary);
    return ids;
  }

  void once(const lazyprune::policy_spec& spec, const std::vector<lazyprune::token_id>& prompt, std::size_t decode, measured& to,
            bool keep) {
    lazyprune::generation_options options;
    options.max_new = decode + 1;
    options.ignore_eos = true;
    lazyprune::any_session session = new_session(spec, engine_->config().layers);
    to.last = engine_->generate(session, prompt, options);
    if (!keep) return;
    to.prefill.seconds.push_back(to.last.prefill_seconds);
    to.overhead_seconds += to.last.overhead.policy + to.last.overhead.moving;
    if (decode > 0) to.decode.seconds.push_back(to.last.decode_seconds);
  }

  /// Dense and pruned in turn, the first one now this, now that: what drifts, drifts for both. The first pair warms up and is forgotten.
  template <class Progress>
  std::pair<measured, measured> measure(std::size_t size, Progress progress) {
    const lazyprune::policy_spec dense_policy{.preset = "dense"};
    const auto prompt = prompt_of(size);
    const std::size_t decode = size == longest_ ? flags_.predict : 0;
    std::pair<measured, measured> result;
    for (std::size_t r = 0; r <= flags_.repetitions; ++r) {
      progress();
      const auto dense = [&] { once(dense_policy, prompt, decode, result.first, r > 0); };
      if (r % 2 == 0) dense();
      if (prunes()) once(spec_, prompt, decode, result.second, r > 0);
      if (r % 2 == 1) dense();
    }
    return result;
  }

  void add_rows(std::vector<result_row>& rows, std::size_t prompt, const measured& dense, const measured& pruned) const {
    const auto add = [&](const std::string& test, double tokens, samples measured::*part, const measured& m, bool prefill) -> result_row& {
      const samples& s = m.*part;
      result_row row{engine_->threads(), test, "dense", s.mean(tokens), s.deviation(tokens), s.mean_seconds(), {}, {}, {}, 0};
      if (prefill) row.overhead = m.overhead_seconds / std::accumulate(s.seconds.begin(), s.seconds.end(), 0.0);
      row.peak_bytes = engine_->weight_bytes() + m.last.memory.total();
      return rows.emplace_back(std::move(row));
    };
    const auto add_pair = [&](const std::string& test, std::size_t tokens, samples measured::*part, bool prefill) {
      const double n = static_cast<double>(tokens);
      add(test, n, part, dense, prefill);
      if (!prunes()) return;
      result_row& row = add(test, n, part, pruned, prefill);
      row.policy = policy_text_;
      row.speedup = (dense.*part).mean_seconds() / row.seconds;
      if (prefill)
        row.predicted =
            predicted_speedup(lazyprune::cost_model{}, engine_->config(), dense.last.cost.prefill_rows, pruned.last.cost.prefill_rows);
    };
    add_pair("pp" + std::to_string(prompt), prompt, &measured::prefill, true);
    if (!dense.decode.seconds.empty()) add_pair("tg" + std::to_string(flags_.predict), flags_.predict, &measured::decode, false);
  }

  json json_of(const result_row& row) const {
    json j{{"model", name_},   {"isa", isa_of(flags_.backend)}, {"dtype", dtype_},          {"threads", row.threads},
           {"test", row.test}, {"policy", row.policy},          {"tokens_per_s", row.rate}, {"seconds", row.seconds}};
    if (row.speedup) j["speedup"] = *row.speedup;
    if (row.predicted) j["predicted_speedup"] = *row.predicted;
    if (row.overhead) j["overhead_share"] = *row.overhead;
    j["peak_bytes"] = row.peak_bytes;
    return j;
  }

  /// RFC 4180: texts in quotes, the quotes in them twice.
  static std::string csv_field(const json& value) {
    if (!value.is_string()) return value.dump();
    std::string field = "\"";
    for (const char c : value.get<std::string>()) field.append(c == '"' ? 2 : 1, c);
    return field + '"';
  }

  bench_flags flags_;
  lazyprune::policy_spec spec_;
  std::string policy_text_, name_, dtype_;
  std::size_t longest_;
  std::unique_ptr<engine> engine_;
};

}  // namespace

int bench(const bench_flags& flags) {
  if (flags.output != "md" && flags.output != "json" && flags.output != "csv")
    throw lazyprune::error("--output", "", "md, json or csv", flags.output);
  if (!flags.shape.empty() && !flags.model.directory.empty())
    throw lazyprune::error("--random-weights", "", "either -m or --random-weights", "both");
  bench_run bench(flags);
  const std::vector<result_row> rows = bench.run();
  if (flags.output == "md") bench.print_markdown(rows);
  if (flags.output == "json") bench.print_json(rows);
  if (flags.output == "csv") bench.print_csv(rows);
  return 0;
}
