// SPDX-License-Identifier: MIT
// Writes the table of `bench`: prefill and decode rates, dense and pruned side by side.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tables/table.hpp"

namespace lazyprune {
namespace program {

/// A part of a prefill's time: a step_section, or the rest.
struct bench_part {
  std::string_view key;   // in JSON and CSV: KEY_seconds and KEY_share_of_peak
  std::string_view name;  // in Markdown
  double seconds;
  std::optional<double> work{};  // floating-point operations; empty if memory bounds the part
};

/// One test under one policy.
struct bench_row {
  int threads;
  std::size_t sequences;  // the number of sequences in a batch
  std::string test;       // "pp512", "tg64", "tg64 @ d512"
  bool prefill;
  std::string policy;               // "dense", or the pruning flags
  double rate, deviation, seconds;  // mean and standard deviation of the whole batch's tokens/s; median seconds of the test
  std::optional<double> work;       // of the whole test: floating-point operations of a prefill, or bytes that a decode test reads
  std::optional<double> speedup;
  std::optional<double> predicted, predicted_with_memory;  // by measured_costs and by measured_costs_with_memory
  std::optional<double> overhead, share_of_peak;
  std::size_t peak_bytes;           // peak memory, including the weights
  std::vector<bench_part> parts{};  // of a prefill; the same parts in all rows; empty: not shown
};

/// The peak rates of a machine.
struct bench_peak {
  std::string instruction;  // the one that computes matrix products
  double arithmetic;        // operations/s of that instruction
  double reading;           // B/s of memory reads
};

struct bench_table {
  std::string model, dtype, kv = "auto", backend, isa;
  std::string device{};  // the GPU; empty: the CPU computes
  std::size_t weight_bytes = 0;
  double load_seconds = 0;          // reading the weights, or drawing random ones, and packing them for the backend
  std::string policy;               // the pruning flags; empty: nothing is pruned
  std::size_t predict = 0;          // tokens generated after the longest prompt alone; 0: none, or after every prompt
  std::size_t longest = 0;          // tokens of the longest prompt
  std::map<int, bench_peak> peaks;  // by number of threads; empty: not measured
  std::vector<bench_row> rows;
};

/// The table for JSON and CSV. Keys: model, isa, dtype, seconds_to_load (JSON alone), threads, sequences (in CSV only if a row has a value
/// other than 1), test, policy, tokens_per_s, seconds, speedup, predicted_speedup, predicted_with_memory, overhead_share, share_of_peak,
/// peak_bytes; with --kv also kv; if rows have parts, then also the keys of bench_part.
table table_of(const bench_table& bench);

/// The Markdown table for people.
std::string to_markdown(const bench_table& bench);

}  // namespace program
}  // namespace lazyprune
