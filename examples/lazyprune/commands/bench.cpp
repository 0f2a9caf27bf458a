// SPDX-License-Identifier: MIT
#include "commands/bench.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "engine/engine.hpp"
#include "engine/memory_forecast.hpp"
#include "models/model_choice.hpp"
#include "models/sessions.hpp"
#include "tables/bench_table.hpp"
#include "terminal/progress.hpp"

#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/model/cost_model.hpp>
#include <lazyprune/model/layers_of.hpp>
#include <lazyprune/model/random_source.hpp>

namespace lazyprune {
namespace program {
namespace {

/// The seconds of each repetition.
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
  /// The index of the median repetition; if there are two in the middle, of the faster one. Speedups and shares of time are computed from
  /// this repetition, because other programs on the machine would change a mean.
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

/// The seconds of a prefill, and of its sections.
struct timed_prefill {
  double seconds = 0;
  step_seconds sections{};
};

/// The measurements of one policy, prompt length and number of sequences.
struct measured {
  samples prefill, decode;
  std::vector<step_seconds> sections;  // the sections of each prefill
  // Only on a GPU: one more prefill, which waits for the sections that the cost model needs, and with --parts another, which waits for all.
  std::optional<timed_prefill> waited, waited_for_all;
  batch_run last;

  /// The prefill from whose sections the shares of time are computed.
  timed_prefill typical() const { return waited ? *waited : timed_prefill{prefill.seconds[prefill.middle()], sections[prefill.middle()]}; }

  /// The median seconds of the head's product. It takes milliseconds, so other work on the machine easily disturbs one of them.
  double head_seconds() const {
    if (waited) return waited->sections.logits;
    samples head;
    for (const step_seconds& s : sections) head.seconds.push_back(s.logits);
    return head.seconds[head.middle()];
  }
};

model_config shape_of(const std::string& name) try { return shape_named(name); } catch (const error& fault) {
  throw error("--random-weights", "", fault.expected(), fault.found());
}

/// Returns the parts of a prefill of new sequences, which took `seconds`. `batch` (sequences, layers) has the rows of each layer.
std::vector<bench_part> parts_of(const model_config& c, std::span<const std::vector<std::size_t>> batch, const step_seconds& in,
                                 double seconds) {
  double rows = 0, outputs = 0;  // summed over the layers; the last layer has one output row for each sequence
  for (const std::vector<std::size_t>& layers : batch) {
    rows += static_cast<double>(std::accumulate(layers.begin(), layers.end(), std::size_t{0}));
    outputs += static_cast<double>(std::accumulate(layers.begin(), layers.end() - 1, std::size_t{1}));
  }
  const double hidden = static_cast<double>(c.hidden), ffn = static_cast<double>(c.ffn);
  const double q = static_cast<double>(c.n_heads * c.head_dim), kv = static_cast<double>(c.n_kv_heads * c.head_dim);
  std::vector<bench_part> parts{
      {"norm", "norms", in.norm},
      {"qkv", "q, k, v", in.qkv, 2 * hidden * (2 * kv * rows + q * outputs)},
      {"rope", "RoPE, KV cache", in.rope},
      {"attention", "attention", in.attention, cost_model{.linear = 0, .single = 0}.prefill(c, batch)},
      {"output", "output", in.output, 2 * hidden * q * outputs},
      {"gate_up", "gate, up", in.gate_up, 4 * hidden * ffn * outputs},
      {"down", "down", in.down, 2 * hidden * ffn * outputs},
      {"logits", "logits", in.logits},
      {"policy", "scoring, planning", in.policy},
      {"moving", "moving rows", in.moving},
  };
  for (const bench_part& part : parts) seconds -= part.seconds;
  parts.push_back({"rest", "rest", seconds});
  return parts;
}

class measuring {
 public:
  measuring(const bench_flags& flags, const policy_registry& policies) : flags_(flags), policies_(policies), spec_(flags.policy) {
    for (const int threads : flags_.threads) {
      backend_flags as_given = flags_.backend;
      as_given.threads = threads;
      check(as_given);
    }
    result_.kv = flags_.backend.kv;
    result_.backend = flags_.backend.backend;
    result_.isa = isa_of(flags_.backend);
    result_.device = device_of(flags_.backend);
    result_.predict = flags_.after_each ? 0 : flags_.predict;
    result_.longest = std::ranges::max(flags_.prompts);
    if (flags_.shape.empty())
      load_named();
    else
      load_random();
    result_.weight_bytes = engine_->weight_bytes();
  }

  bench_table run() {
    progress_bar bar("measuring");
    const std::size_t all =
        flags_.threads.size() * flags_.sequences.size() * flags_.prompts.size() * (flags_.repetitions + !flags_.no_warmup);
    std::size_t done = 0;
    for (const int threads : flags_.threads) {
      engine_->use_threads(threads);
      const std::size_t first = result_.rows.size();
      look_for_peak();
      for (const std::size_t sequences : flags_.sequences)
        for (const std::size_t prompt : flags_.prompts) {
          const auto [dense, pruned] = measure(prompt, sequences, [&] { bar.show(done++, all); });
          add_rows(prompt, dense, pruned);
        }
      look_for_peak();  // measured before and after the runs, because other work may slow the machine; the better rate counts
      const auto found = result_.peaks.find(engine_->threads());
      if (found == result_.peaks.end()) continue;
      const bench_peak& peak = found->second;
      for (bench_row& row : std::span(result_.rows).subspan(first))
        if (row.work) row.share_of_peak = *row.work / row.seconds / (row.prefill ? peak.arithmetic : peak.reading);
    }
    return std::move(result_);
  }

 private:
  void load_named() {
    const opened_model model(flags_.model);
    spec_ = policy_with_note(spec_, model, policies_).spec;
    check_policy_and_length(model.config());
    result_.model = model.path().string();
    const std::string quantized = kept_type(model);
    result_.dtype = quantized.empty() ? dtype_name(model.loaded_type("model.embed_tokens.weight").value_or(dtype::f32)) : quantized;
    load(model);
  }

  void load_random() {
    model_config config = shape_of(flags_.shape);
    config.max_positions = std::max(config.max_positions, result_.longest + flags_.predict);  // random weights have no trained limit
    check_policy_and_length(config);
    result_.model = flags_.shape;
    const auto type = flags_.backend.dtype == "f32" ? dtype::f32 : dtype::bf16;
    result_.dtype = dtype_name(type);
    load(config, random_source(config, type));
  }

  template <class... Source>
  void load(const Source&... source) {
    const auto start = std::chrono::steady_clock::now();
    engine_ = load_engine(flags_.backend, source...);
    result_.load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  bool prunes() const { return !result_.policy.empty(); }

  void check_policy_and_length(const model_config& config) {
    const std::string flags = flags_of(spec_, layers_of(config), policies_);
    if (flags != flags_of(dense_spec(), layers_of(config), policies_)) result_.policy = flags;
    const std::size_t most = result_.longest + flags_.predict;
    if (most > config.max_positions)
      throw error("--prompts", "",
                  "prompts of at most " + std::to_string(config.max_positions) + " tokens, together with the -n generated ones",
                  std::to_string(most), error_code::no_room);
  }

  void look_for_peak() {
    if (!flags_.peak && !flags_.parts) return;
    const std::optional<peak_rates> known = engine_->peaks();
    if (!known && !flags_.peak) return;
    if (!known) throw error("--peak", "", "a processor or a GPU whose peak is known", result_.isa, error_code::unsupported);
    const peak_rates& seen = *known;
    bench_peak& best =
        result_.peaks.try_emplace(engine_->threads(), bench_peak{std::string(seen.instruction), seen.arithmetic, seen.reading})
            .first->second;
    best.arithmetic = std::max(best.arithmetic, seen.arithmetic);
    best.reading = std::max(best.reading, seen.reading);
  }

  /// Returns the type of most of the matrices' bytes if the backend keeps that type quantized, else "".
  std::string kept_type(const opened_model& model) const {
    if (flags_.backend.backend != "cpu" || flags_.backend.dtype != "auto") return "";
    std::map<std::string, std::size_t> bytes;
    for (const tensor_entry& tensor : model.tensors())
      if (tensor.shape.size() > 1) bytes[tensor.type] += tensor.bytes;
    const auto most = std::ranges::max_element(bytes, {}, [](const auto& one) { return one.second; });
    return most != bytes.end() && stays_quantized(most->first).value_or(false) ? most->first : "";
  }

  std::string dtype_name(dtype stored) const {
    if (flags_.backend.backend == "reference") return flags_.backend.dtype == "f32" ? "f32" : "f64";
    if (flags_.backend.dtype != "auto") return flags_.backend.dtype;
    return stored == dtype::bf16 ? "bf16" : "f32";
  }

  /// Arbitrary ids, different for each sequence. The work hardly depends on them.
  std::vector<std::vector<token_id>> prompts_of(std::size_t size, std::size_t sequences) const {
    std::vector<std::vector<token_id>> prompts(sequences, std::vector<token_id>(size));
    for (std::size_t s = 0; s < sequences; ++s)
      for (std::size_t i = 0; i < size; ++i)
        prompts[s][i] = static_cast<token_id>((s * size + i) * 2654435761u % engine_->config().vocabulary);
    return prompts;
  }

  batch_run generated(const policy_spec& spec, std::span<const std::vector<token_id>> prompts, std::size_t decode,
                      const std::function<void(step_section)>& wait = {}) const {
    std::vector<any_session> sessions;
    while (sessions.size() < prompts.size()) sessions.push_back(new_session(spec, engine_->config(), policies_));
    return engine_->generate_together(std::move(sessions), prompts, decode, wait);
  }

  void once(const policy_spec& spec, std::span<const std::vector<token_id>> prompts, std::size_t decode, measured& to, bool keep) const {
    to.last = generated(spec, prompts, decode);
    if (!keep) return;
    to.prefill.seconds.push_back(to.last.prefill_seconds);
    to.sections.push_back(to.last.sections);
    if (decode > 0) to.decode.seconds.push_back(to.last.decode_seconds);
  }

  /// Runs dense and pruned in turn and swaps their order each time, so that a drift of the machine affects both alike. Without
  /// --no-warmup, the first pair warms up and does not count.
  template <class Progress>
  std::pair<measured, measured> measure(std::size_t size, std::size_t sequences, Progress progress) {
    const auto prompts = prompts_of(size, sequences);
    const std::size_t decode = flags_.after_each || size == result_.longest ? flags_.predict : 0;
    std::pair<measured, measured> result;
    for (std::size_t r = flags_.no_warmup; r <= flags_.repetitions; ++r) {
      progress();
      const auto dense = [&] { once(dense_spec(), prompts, decode, result.first, r > 0); };
      if (r % 2 == 0) dense();
      if (prunes()) once(spec_, prompts, decode, result.second, r > 0);
      if (r % 2 == 1) dense();
    }
    if (const std::function<void()> wait = engine_->waiting()) {
      const auto waited = [&](const policy_spec& spec, step_section last) {
        const batch_run run = generated(spec, prompts, 0, [&](step_section section) {
          if (section <= last) wait();  // a wait takes time, so the prefill waits for no other sections
        });
        return timed_prefill{run.prefill_seconds, run.sections};
      };
      const auto wait_for = [&](const policy_spec& spec, measured& to) {
        to.waited = waited(spec, step_section::logits);
        if (flags_.parts) to.waited_for_all = waited(spec, step_section::down);
      };
      wait_for(dense_spec(), result.first);
      if (prunes()) wait_for(spec_, result.second);
    }
    return result;
  }

  void add_rows(std::size_t prompt, const measured& dense, const measured& pruned) {
    add_pair("pp" + std::to_string(prompt), prompt, true, dense, pruned);
    if (dense.decode.seconds.empty()) return;
    const std::string generating = "tg" + std::to_string(flags_.predict);
    add_pair(flags_.after_each ? generating + " @ d" + std::to_string(prompt) : generating, flags_.predict, false, dense, pruned);
  }

  void add_pair(const std::string& test, std::size_t tokens, bool prefill, const measured& dense, const measured& pruned) {
    const double dense_seconds = result_.rows.emplace_back(row_of(test, tokens, prefill, "dense", dense)).seconds;
    if (!prunes()) return;
    bench_row& row = result_.rows.emplace_back(row_of(test, tokens, prefill, result_.policy, pruned));
    row.speedup = dense_seconds / row.seconds;
    const auto predicted = [&](const cost_model& costs) {
      return prefill ? prefill_cost(costs, dense) / prefill_cost(costs, pruned) : decode_cost(costs, dense) / decode_cost(costs, pruned);
    };
    const double head_seconds = prefill ? dense.head_seconds() : head_seconds_of_steps(dense);
    if (prefill) row.predicted = predicted(costs_of(dense, measured_costs, head_seconds));
    row.predicted_with_memory = predicted(costs_of(dense, measured_costs_with_memory, head_seconds));
  }

  bench_row row_of(const std::string& test, std::size_t tokens, bool prefill, const std::string& policy, const measured& m) const {
    const samples& s = prefill ? m.prefill : m.decode;
    const double n = static_cast<double>(tokens * m.last.prefill_rows.size());
    bench_row row{.threads = engine_->threads(),
                  .sequences = m.last.prefill_rows.size(),
                  .test = test,
                  .prefill = prefill,
                  .policy = policy,
                  .rate = s.mean(n),
                  .deviation = s.deviation(n),
                  .seconds = s.seconds[s.middle()],
                  .work = {},
                  .speedup = {},
                  .predicted = {},
                  .predicted_with_memory = {},
                  .overhead = {},
                  .share_of_peak = {},
                  .peak_bytes = engine_->weight_bytes() + m.last.memory.total(),
                  .parts = {}};
    if (prefill) {
      const timed_prefill typical = m.typical();
      row.overhead = (typical.sections.policy + typical.sections.moving) / typical.seconds;
      row.work = prefill_cost({}, m);
      if (flags_.parts) {
        const timed_prefill& whole = m.waited_for_all ? *m.waited_for_all : typical;
        row.parts = parts_of(engine_->config(), m.last.prefill_rows, whole.sections, whole.seconds);
      }
    } else {
      row.work = decoded_bytes(m);
    }
    return row;
  }

  /// The cost of the prefills of all sequences.
  double prefill_cost(const cost_model& costs, const measured& m) const {
    return costs.scoring(m.last.scored_pairs) + costs.prefill(engine_->config(), m.last.prefill_rows);
  }

  /// The cost of all decode steps.
  double decode_cost(const cost_model& costs, const measured& m) const {
    double cost = static_cast<double>(flags_.predict) * costs.logits(engine_->config(), m.last.prefill_rows.size());
    for (const layer_work& work : m.last.step_layers) cost += costs.step_layer(engine_->config(), work);
    return cost;
  }

  /// The seconds that dense decode steps take for the head's product, if all products read weights at the same rate. Steps read gigabytes,
  /// so they measure this rate better than the one product of a prefill.
  double head_seconds_of_steps(const measured& dense) const {
    const cost_model reading{
        .linear = 0.0, .attention = 0.0, .single = 1.0, .few_rows = dense.last.prefill_rows.size(), .key_size = key_size()};
    return dense.decode.seconds[dense.decode.middle()] / decode_cost(reading, dense) *
           reading.logits(engine_->config(), dense.last.prefill_rows.size());
  }

  /// Applies measured_costs or measured_costs_with_memory to the dense runs.
  template <class Costs>
  cost_model costs_of(const measured& dense, const Costs& costs, double head_seconds) const {
    const timed_prefill typical = dense.typical();
    cost_model found = costs(engine_->config(), dense.last.prefill_rows, typical.seconds, typical.sections.attention, head_seconds);
    found.key_size = key_size();
    return found;
  }

  double key_size() const { return key_size_of(engine_->config(), engine_->kv_row_bytes(), engine_->step_weight_bytes()); }

  /// The bytes that the decode steps read. A step reads the weights once for all sequences.
  double decoded_bytes(const measured& m) const {
    std::size_t keys = 0;
    for (const layer_work& work : m.last.step_layers) keys += work.keys;
    return static_cast<double>(flags_.predict * engine_->step_weight_bytes() + keys * engine_->kv_row_bytes());
  }

  bench_flags flags_;
  const policy_registry& policies_;
  policy_spec spec_;
  bench_table result_;
  std::unique_ptr<engine> engine_;
};

}  // namespace

int bench(const bench_flags& flags, const policy_registry& policies) {
  const bench_table result = measuring(flags, policies).run();
  std::cout << (flags.output == table_format::md ? to_markdown(result) : text_of(table_of(result), flags.output));
  return 0;
}

}  // namespace program
}  // namespace lazyprune
