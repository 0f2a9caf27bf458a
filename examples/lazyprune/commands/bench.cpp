// SPDX-License-Identifier: MIT
// lazyprune bench: prefill and decode rates, dense and pruned side by side, and how much of the predicted speedup is reached.

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>
#include <span>

#include "commands/flags.hpp"
#include "engine/engine.hpp"
#include "engine/model_choice.hpp"
#include "engine/sessions.hpp"
#include "tables/number_text.hpp"
#include "terminal/columns.hpp"
#include "terminal/progress.hpp"

#include <lazyprune/model/cost_model.hpp>

namespace lazyprune {
namespace program {
namespace {

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
  /// The repetition in the middle (of an even number the lower one), which stands for all in ratios and shares: means are carried away by
  /// whatever else the machine did.
  std::size_t middle() const {
    std::vector<std::size_t> order(seconds.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto place = order.begin() + static_cast<std::ptrdiff_t>((order.size() - 1) / 2);
    std::ranges::nth_element(order, place, {}, [&](std::size_t i) { return seconds[i]; });
    return *place;
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
  samples attention, logits, overhead;  // of the prefill
  double step_kv_rows = 0;              // keys and values that a step of the decode reads, rows over all layers; only for --peak
  lazyprune::generation last;
};

/// One line of the result.
struct result_row {
  int threads;
  std::string test;
  bool prefill;
  std::string policy;  // "dense", or the flags that make it
  double rate, deviation, seconds;
  std::optional<double> work;  // floating-point operations of a prefill; bytes read by a decode, where a warm-up counted them
  std::optional<double> speedup, predicted, overhead, share_of_peak;
  std::size_t peak_bytes;
};

lazyprune::model_config shape_of(const std::string& name) try {
  return lazyprune::shape_named(name);
} catch (const lazyprune::error& fault) {
  throw lazyprune::error("--random-weights", "", fault.expected(), fault.found());
}

class bench_run {
 public:
  explicit bench_run(const bench_flags& flags) : flags_(flags), spec_(flags.policy) {
    check(flags_.backend);
    if (flags_.peak && flags_.backend.backend != "cpu")
      throw lazyprune::error("--peak", "", "the cpu backend, whose peak can be measured", flags_.backend.backend);
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
      lazyprune::model_config config = shape_of(flags_.shape);
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
    const std::size_t all = flags_.threads.size() * flags_.prompts.size() * (flags_.repetitions + !flags_.no_warmup);
    std::size_t done = 0;
    for (const int threads : flags_.threads) {
      engine_->use_threads(threads);
      const std::size_t first = rows.size();
      look_for_peak();
      for (const std::size_t prompt : flags_.prompts) {
        const auto [dense, pruned] = measure(prompt, [&] { bar.show(done++, all); });
        add_rows(rows, prompt, dense, pruned);
      }
      look_for_peak();  // what is shared with others may come and go: the best of before and after
      if (!flags_.peak) continue;
      const peak_rates& peak = peaks_.at(engine_->threads());
      for (result_row& row : std::span(rows).subspan(first))
        if (row.work) row.share_of_peak = *row.work / row.seconds / (row.prefill ? peak.arithmetic : peak.reading);
    }
    return rows;
  }

  void print_markdown(const std::vector<result_row>& rows) const {
    std::cout << "model " << name_ << ", " << dtype_ << ", " << bytes_text(engine_->weight_bytes()) << ", " << flags_.backend.backend
              << " (" << isa_of(flags_.backend) << ")\n";
    if (prunes()) std::cout << "pruned: " << policy_text_ << '\n';
    if (flags_.predict > 0) std::cout << "tg" << flags_.predict << " follows the prompt of " << longest_ << " tokens\n";
    for (const auto& [threads, peak] : peaks_)
      std::cout << "peak of " << threads << (threads == 1 ? " thread: " : " threads: ") << peak.instruction << ' '
                << three_digits(peak.arithmetic * 1e-9) << " GFLOP/s, reading memory " << three_digits(peak.reading * 1e-9) << " GB/s\n";
    std::cout << "memory: at most, the weights aside\n\n";
    std::vector<std::vector<std::string>> lines;
    for (const result_row& row : rows)
      lines.push_back({std::to_string(row.threads), row.test, row.policy == "dense" ? "dense" : "pruned",
                       fixed(row.rate, 2) + " \xc2\xb1 " + fixed(row.deviation, 2), row.speedup ? fixed(*row.speedup, 2) + "x" : "",
                       row.predicted ? fixed(*row.predicted, 2) + "x" : "",
                       row.speedup && row.predicted ? fixed(*row.speedup / *row.predicted, 2) : "",
                       row.overhead ? fixed(100.0 * *row.overhead, 2) + " %" : "",
                       row.share_of_peak ? percent_text(*row.share_of_peak) : "", bytes_text(row.peak_bytes - engine_->weight_bytes())});
    std::cout << markdown_table({{.head = "threads", .even_if_empty = true},
                                 {.head = "test", .least_width = 6},
                                 {.head = "policy", .at = align::left},
                                 {.head = "t/s", .least_width = 19},
                                 {.head = "speedup", .even_if_empty = true},
                                 {.head = "predicted", .even_if_empty = true},
                                 {.head = "reached", .even_if_empty = true},
                                 {.head = "overhead", .even_if_empty = true},
                                 {.head = "of peak", .even_if_empty = flags_.peak},
                                 {.head = "memory", .least_width = 9}},
                                lines);
  }

  /// For programs.
  table table_of(const std::vector<result_row>& rows) const {
    table t{.columns = {{"model"},
                        {"isa"},
                        {"dtype"},
                        {"threads"},
                        {"test"},
                        {"policy"},
                        {"tokens_per_s"},
                        {"seconds"},
                        {"speedup"},
                        {"predicted_speedup"},
                        {"overhead_share"},
                        {"share_of_peak"},
                        {"peak_bytes"}},
            .rows = {}};
    const std::string isa(isa_of(flags_.backend));
    for (const result_row& row : rows)
      t.rows.push_back({name_, isa, dtype_, std::uint64_t(row.threads), row.test, row.policy, row.rate, row.seconds, cell_of(row.speedup),
                        cell_of(row.predicted), cell_of(row.overhead), cell_of(row.share_of_peak), std::uint64_t{row.peak_bytes}});
    return t;
  }

 private:
  bool prunes() const { return policy_text_ != "--policy dense"; }

  void check_policy_and_length(const lazyprune::model_config& config) {
    policy_text_ = text(spec_, static_cast<lazyprune::layer_id>(config.layers), policies());
    if (longest_ + flags_.predict > config.max_positions)
      throw lazyprune::error("--prompts", "",
                             "prompts of at most " + std::to_string(config.max_positions) + " tokens, the -n generated ones included",
                             std::to_string(longest_ + flags_.predict));
  }

  void look_for_peak() {
    if (!flags_.peak) return;
    const peak_rates seen = engine_->measure_peaks().value();
    peak_rates& best = peaks_.try_emplace(engine_->threads(), seen).first->second;
    best.arithmetic = std::max(best.arithmetic, seen.arithmetic);
    best.reading = std::max(best.reading, seen.reading);
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
    options.trace = flags_.peak && !keep && decode > 0;
    lazyprune::any_session session = new_session(spec, engine_->config().layers);
    to.last = engine_->generate(std::move(session), prompt, options);
    if (options.trace) to.step_kv_rows = step_kv_rows(to.last.trace);
    if (!keep) return;
    to.prefill.seconds.push_back(to.last.prefill_seconds);
    to.attention.seconds.push_back(to.last.parts.attention);
    to.logits.seconds.push_back(to.last.parts.logits);
    to.overhead.seconds.push_back(to.last.parts.policy + to.last.parts.moving);
    if (decode > 0) to.decode.seconds.push_back(to.last.decode_seconds);
  }

  /// On average over the steps after the prefill.
  static double step_kv_rows(std::span<const lazyprune::step_trace> steps) {
    std::size_t rows = 0;
    for (const lazyprune::step_trace& step : steps.subspan(1))
      for (const lazyprune::layer_trace& layer : step.layers) rows += layer.active.size();
    return static_cast<double>(rows) / static_cast<double>(steps.size() - 1);
  }

  /// Dense and pruned in turn, the first one now this, now that: what drifts, drifts for both. A first pair warms up and is forgotten.
  template <class Progress>
  std::pair<measured, measured> measure(std::size_t size, Progress progress) {
    const lazyprune::policy_spec dense_policy{.preset = "dense"};
    const auto prompt = prompt_of(size);
    const std::size_t decode = size == longest_ ? flags_.predict : 0;
    std::pair<measured, measured> result;
    for (std::size_t r = flags_.no_warmup; r <= flags_.repetitions; ++r) {
      progress();
      const auto dense = [&] { once(dense_policy, prompt, decode, result.first, r > 0); };
      if (r % 2 == 0) dense();
      if (prunes()) once(spec_, prompt, decode, result.second, r > 0);
      if (r % 2 == 1) dense();
    }
    return result;
  }

  void add_rows(std::vector<result_row>& rows, std::size_t prompt, const measured& dense, const measured& pruned) const {
    add_pair(rows, prompt, true, dense, pruned);
    if (!dense.decode.seconds.empty()) add_pair(rows, flags_.predict, false, dense, pruned);
  }

  void add_pair(std::vector<result_row>& rows, std::size_t tokens, bool prefill, const measured& dense, const measured& pruned) const {
    const double dense_seconds = rows.emplace_back(row_of(tokens, prefill, "dense", dense)).seconds;
    if (!prunes()) return;
    result_row& row = rows.emplace_back(row_of(tokens, prefill, policy_text_, pruned));
    row.speedup = dense_seconds / row.seconds;
    if (prefill) row.predicted = predicted_speedup(costs_of(dense), engine_->config(), rows_of(dense), rows_of(pruned));
  }

  result_row row_of(std::size_t tokens, bool prefill, const std::string& policy, const measured& m) const {
    const samples& s = prefill ? m.prefill : m.decode;
    const double n = static_cast<double>(tokens);
    result_row row{.threads = engine_->threads(),
                   .test = (prefill ? "pp" : "tg") + std::to_string(tokens),
                   .prefill = prefill,
                   .policy = policy,
                   .rate = s.mean(n),
                   .deviation = s.deviation(n),
                   .seconds = s.seconds[s.middle()],
                   .work = {},
                   .speedup = {},
                   .predicted = {},
                   .overhead = {},
                   .share_of_peak = {},
                   .peak_bytes = engine_->weight_bytes() + m.last.memory.total()};
    if (prefill) {
      row.overhead = m.overhead.seconds[s.middle()] / row.seconds;
      row.work = lazyprune::cost_model{}.prefill(engine_->config(), rows_of(m));
    } else if (m.step_kv_rows > 0) {
      row.work = n * step_bytes(m);
    }
    return row;
  }

  static const std::vector<std::size_t>& rows_of(const measured& m) { return m.last.cost.prefill_rows; }

  /// What a linear operation and one of the attention cost in the dense runs beside which the pruned ones stood.
  lazyprune::cost_model costs_of(const measured& dense) const {
    const std::size_t i = dense.prefill.middle();
    return measured_costs(engine_->config(), rows_of(dense), dense.prefill.seconds[i], dense.attention.seconds[i], dense.logits.seconds[i]);
  }

  double step_bytes(const measured& m) const {
    return static_cast<double>(engine_->step_weight_bytes()) + m.step_kv_rows * static_cast<double>(engine_->kv_row_bytes());
  }

  bench_flags flags_;
  lazyprune::policy_spec spec_;
  std::string policy_text_, name_, dtype_;
  std::size_t longest_;
  std::unique_ptr<engine> engine_;
  std::map<int, peak_rates> peaks_;  // by threads
};

}  // namespace

int bench(const bench_flags& flags) {
  if (!flags.shape.empty() && !flags.model.directory.empty())
    throw lazyprune::error("--random-weights", "", "either -m or --random-weights", "both");
  bench_run bench(flags);
  const std::vector<result_row> rows = bench.run();
  if (flags.output == table_format::md)
    bench.print_markdown(rows);
  else
    std::cout << text_of(bench.table_of(rows), flags.output);
  return 0;
}

}  // namespace program
}  // namespace lazyprune
