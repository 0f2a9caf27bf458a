// SPDX-License-Identifier: MIT
// Prefill and decode rates, dense and pruned side by side, written down.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tables/table.hpp"

namespace lazyprune {
namespace program {

/// One test by one policy.
struct bench_row {
  int threads;
  std::size_t sequences;  // of a batch
  std::string test;       // "pp512", "tg64", "tg64 @ d512"
  bool prefill;
  std::string policy;               // "dense", or the flags that make it
  double rate, deviation, seconds;  // tokens a second, over all sequences
  std::optional<double> work;       // floating-point operations of a prefill; bytes read by a decode
  std::optional<double> speedup, predicted, overhead, share_of_peak;
  std::size_t peak_bytes;
};

/// What a machine can do at most, as text.
struct bench_peak {
  std::string instruction;  // of the products
  double arithmetic;        // its FLOP/s
  double reading;           // of memory, B/s
};

struct bench_table {
  std::string model, dtype, backend, isa;
  std::string device{};  // the GPU that computes; empty: the processor does
  std::size_t weight_bytes = 0;
  std::string policy;               // the flags; empty: nothing is pruned
  std::size_t predict = 0;          // tokens generated after the longest prompt alone
  std::size_t longest = 0;          // prompt
  std::map<int, bench_peak> peaks;  // by threads; empty: not measured
  std::vector<bench_row> rows;
};

/// Keys: model, isa, dtype, threads, sequences (in CSV where one is not 1), test, policy, tokens_per_s, seconds, speedup,
/// predicted_speedup, overhead_share, share_of_peak, peak_bytes.
table table_of(const bench_table& bench);

/// The table for people.
std::string to_markdown(const bench_table& bench);

}  // namespace program
}  // namespace lazyprune
