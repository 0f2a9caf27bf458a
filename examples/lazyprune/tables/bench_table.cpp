// SPDX-License-Identifier: MIT
#include "tables/bench_table.hpp"

#include <algorithm>

#include "tables/number_text.hpp"

namespace lazyprune {
namespace program {
namespace {

bool in_batches(const bench_table& bench) {
  return std::ranges::any_of(bench.rows, [](const bench_row& row) { return row.sequences != 1; });
}

std::string heading_of(const bench_table& bench) {
  std::string out = "model " + bench.model + ", " + bench.dtype + ", " + bytes_text(bench.weight_bytes) + ", " + bench.backend + " (" +
                    (bench.device.empty() ? bench.isa : bench.device) + "), loaded in " + seconds_text(bench.load_seconds) + "\n";
  if (bench.kv != "auto") out += "keys and values: " + bench.kv + '\n';
  if (!bench.policy.empty()) out += "pruned: " + bench.policy + '\n';
  if (bench.predict > 0)
    out += "tg" + std::to_string(bench.predict) + " follows the prompt of " + std::to_string(bench.longest) + " tokens\n";
  for (const auto& [threads, peak] : bench.peaks)
    out += "peak of " + (bench.device.empty() ? std::to_string(threads) + (threads == 1 ? " thread: " : " threads: ") : "the device: ") +
           peak.instruction + ' ' + three_digits(peak.arithmetic * 1e-9) + " GFLOP/s, reading memory " + three_digits(peak.reading * 1e-9) +
           " GB/s\n";
  if (in_batches(bench)) out += "rates and memory are over all sequences of a batch\n";
  if (!bench.policy.empty())
    out +=
        "predicted: the speedup by computing alone; with memory: if layers of few rows (in tg, all layers) wait for their weights\n"
        "reached: the speedup, divided by the predicted one with memory\n";
  return out + "memory: the peak, without the weights\n\n";
}

std::optional<double> share_of_peak(const bench_table& bench, const bench_row& row, const bench_part& part) {
  const auto peak = bench.peaks.find(row.threads);
  if (!part.work || peak == bench.peaks.end()) return std::nullopt;
  return *part.work / part.seconds / peak->second.arithmetic;
}

/// Returns the parts of the prefills; empty if they are not shown.
std::vector<bench_part> shown_parts(const bench_table& bench) {
  for (const bench_row& row : bench.rows)
    if (!row.parts.empty()) return row.parts;
  return {};
}

std::string markdown_of_parts(const bench_table& bench) {
  const std::vector<markdown_column> columns{{.head = "threads"},
                                             {.head = "sequences"},
                                             {.head = "test"},
                                             {.head = "policy", .at = align::left},
                                             {.head = "part", .at = align::left},
                                             {.head = "ms"},
                                             {.head = "of the time"},
                                             {.head = "GFLOP/s"},
                                             {.head = "of peak"}};
  std::vector<std::vector<std::string>> lines;
  for (const bench_row& row : bench.rows) {
    double all = 0;  // on a GPU more than row.seconds, because the prefill waited for each part
    for (const bench_part& part : row.parts) all += part.seconds;
    for (const bench_part& part : row.parts) {
      const std::optional<double> share = share_of_peak(bench, row, part);
      lines.push_back({std::to_string(row.threads), in_batches(bench) ? std::to_string(row.sequences) : "", row.test,
                       row.policy == "dense" ? "dense" : "pruned", std::string(part.name), fixed(1000 * part.seconds, 2),
                       fixed(100 * part.seconds / all, 1) + " %", part.work ? three_digits(*part.work / part.seconds * 1e-9) : "",
                       share ? percent_text(*share) : ""});
    }
  }
  return lines.empty() ? "" : "\n" + markdown_table(columns, lines);
}

/// Returns a table of the times from a prompt to the first token of its answer, and to the last one. It is empty if nothing was generated.
std::string markdown_of_waits(const bench_table& bench) {
  const std::vector<markdown_column> columns{{.head = "threads"},           {.head = "sequences"},
                                             {.head = "prompt and answer"}, {.head = "policy", .at = align::left},
                                             {.head = "first token"},       {.head = "last token"}};
  std::vector<std::vector<std::string>> lines;
  const bench_row *dense = nullptr, *pruned = nullptr;  // the last prefills before the row; it goes on after one of them
  for (const bench_row& row : bench.rows) {
    const bench_row*& prompt = row.policy == "dense" ? dense : pruned;
    if (row.prefill)
      prompt = &row;
    else if (prompt)
      lines.push_back({std::to_string(row.threads), in_batches(bench) ? std::to_string(row.sequences) : "", prompt->test + " + " + row.test,
                       &prompt == &dense ? "dense" : "pruned", seconds_text(prompt->seconds), seconds_text(prompt->seconds + row.seconds)});
  }
  return lines.empty() ? "" : "\n" + markdown_table(columns, lines);
}

std::string times(const std::optional<double>& factor) { return factor ? fixed(*factor, 2) + "x" : ""; }

}  // namespace

table table_of(const bench_table& bench) {
  table t{.columns = {{"model"},
                      {"isa"},
                      {"dtype"},
                      {"seconds_to_load", column_kind::json_alone},
                      {"threads"},
                      {"sequences", in_batches(bench) ? column_kind::value : column_kind::json_alone},
                      {"test"},
                      {"policy"},
                      {"tokens_per_s"},
                      {"seconds"},
                      {"speedup"},
                      {"predicted_speedup"},
                      {"predicted_with_memory"},
                      {"overhead_share"},
                      {"share_of_peak"},
                      {"peak_bytes"}},
          .rows = {}};
  if (bench.kv != "auto") t.columns.push_back({"kv"});
  const std::vector<bench_part> parts = shown_parts(bench);
  for (const bench_part& part : parts) {
    t.columns.push_back({std::string(part.key) + "_seconds"});
    if (part.work) t.columns.push_back({std::string(part.key) + "_share_of_peak"});
  }
  for (const bench_row& row : bench.rows) {
    t.rows.push_back({bench.model, bench.isa, bench.dtype, bench.load_seconds, static_cast<std::uint64_t>(row.threads),
                      std::uint64_t{row.sequences}, row.test, row.policy, row.rate, row.seconds, cell_of(row.speedup),
                      cell_of(row.predicted), cell_of(row.predicted_with_memory), cell_of(row.overhead), cell_of(row.share_of_peak),
                      std::uint64_t{row.peak_bytes}});
    if (bench.kv != "auto") t.rows.back().emplace_back(bench.kv);
    for (const bench_part& part : row.parts) {
      t.rows.back().emplace_back(part.seconds);
      if (part.work) t.rows.back().push_back(cell_of(share_of_peak(bench, row, part)));
    }
    t.rows.back().resize(t.columns.size());  // a row of generating has no parts
  }
  return t;
}

std::string to_markdown(const bench_table& bench) {
  const std::vector<markdown_column> columns{{.head = "threads"},
                                             {.head = "sequences"},
                                             {.head = "test", .least_width = 6},
                                             {.head = "policy", .at = align::left},
                                             {.head = "t/s", .least_width = 19},
                                             {.head = "speedup", .even_if_empty = true},
                                             {.head = "predicted", .even_if_empty = true},
                                             {.head = "with memory", .even_if_empty = true},
                                             {.head = "reached", .even_if_empty = true},
                                             {.head = "overhead", .even_if_empty = true},
                                             {.head = "of peak", .even_if_empty = !bench.peaks.empty()},
                                             {.head = "memory", .least_width = 9}};
  std::vector<std::vector<std::string>> lines;
  for (const bench_row& row : bench.rows)
    lines.push_back({std::to_string(row.threads), in_batches(bench) ? std::to_string(row.sequences) : "", row.test,
                     row.policy == "dense" ? "dense" : "pruned", fixed(row.rate, 2) + " \xc2\xb1 " + fixed(row.deviation, 2),
                     times(row.speedup), times(row.predicted), times(row.predicted_with_memory),
                     row.speedup && row.predicted_with_memory ? fixed(*row.speedup / *row.predicted_with_memory, 2) : "",
                     row.overhead ? fixed(100.0 * *row.overhead, 2) + " %" : "", row.share_of_peak ? percent_text(*row.share_of_peak) : "",
                     bytes_text(row.peak_bytes - bench.weight_bytes)});
  return heading_of(bench) + markdown_table(columns, lines) + markdown_of_waits(bench) + markdown_of_parts(bench);
}

}  // namespace program
}  // namespace lazyprune
