// SPDX-License-Identifier: MIT
// Measures the speed of attention in several scenes. A scene is a block of a prefill (over contiguous keys, over a subset of active tokens,
// or with revived rows), or a decoded token whose keys and values come from memory. Some scenes have a window of 512 positions or a soft
// cap. Each scene runs with and without a probe for the query token's probabilities. A pair is a query and a key that it attends to. The
// number of operations is computed from the number of pairs. The reference column is Eigen's two products, Q K^T and P V, without a
// softmax. They multiply every query with every active key, masked or not, and all of these products are counted as operations. A
// benchmark's name is model/scene/keys/probe/threads/column.
#include <algorithm>
#include <functional>
#include <numeric>

#include "../eigen.hpp"
#include "../measure.hpp"

namespace {

using lazyprune::attention_shape, lazyprune::cpu, lazyprune::dtype, lazyprune::isa, lazyprune::position, lazyprune::rows_view;

struct model {
  const char* name;
  attention_shape shape;
};

const model models[] = {{"tinyllama-1.1b", {32, 4, 64}}, {"llama-2-7b", {32, 32, 128}}};

constexpr std::size_t prefill_block = 512;  // queries

/// Returns the type of the numbers that this path multiplies.
dtype tiles_of(isa i, dtype type) { return lazyprune::kernels::kernels_of(i).tiles_of(type); }

/// Returns the paths whose kernels for this type differ.
std::vector<isa> paths_of(dtype type) { return bench::kernels_for(type == dtype::f16 ? dtype::f32 : type); }

/// The query tokens (`rows`), the active tokens, and the slots of the active tokens' keys.
struct scene {
  std::string name;
  std::size_t cached;  // slots
  std::vector<position> rows;
  std::vector<position> active;
  std::vector<std::uint32_t> slots;
  lazyprune::attention_variant variant = {};

  /// The tokens that row r attends to, as a range of `active`: the first index, and the index after the last.
  std::pair<std::size_t, std::size_t> seen(std::size_t r) const {
    const auto after = [&](position p) { return static_cast<std::size_t>(std::ranges::upper_bound(active, p) - active.begin()); };
    const auto window = static_cast<position>(variant.window);
    return {window == 0 || rows[r] < window ? 0 : after(rows[r] - window), after(rows[r])};
  }
  double pairs() const {
    double sum = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) sum += static_cast<double>(seen(r).second - seen(r).first);
    return sum;
  }
};

std::vector<position> first_positions(std::size_t count) {
  std::vector<position> all(count);
  std::iota(all.begin(), all.end(), position{0});
  return all;
}

/// The queries are the last `queries` of `keys` tokens. All tokens are active, and cached in order.
scene contiguous(const std::string& name, std::size_t keys, std::size_t queries) {
  scene s{name, keys, {}, first_positions(keys), first_positions(keys)};
  s.rows.assign(s.active.end() - static_cast<std::ptrdiff_t>(queries), s.active.end());
  return s;
}

scene in_variant(const std::string& name, scene s, const lazyprune::attention_variant& variant) {
  s.name = name;
  s.variant = variant;
  return s;
}

/// A random half of the cached tokens is active. The queries are the last block of active tokens.
scene active_subset(std::size_t cached) {
  scene s{"subset", cached, {}, {}, {}};
  for (position t = 0; t < cached; ++t)
    if (lazyprune::mix(1, t) % 2 == 0 || t + 1 == cached) s.active.push_back(t);
  s.slots = s.active;
  s.rows.assign(s.active.end() - static_cast<std::ptrdiff_t>(prefill_block), s.active.end());
  return s;
}

/// The queries are tokens from all over the sequence. Their keys were cached after the keys of all other tokens.
scene revived(std::size_t cached) {
  scene s{"revived", cached, {}, first_positions(cached), {}};
  const std::size_t every = cached / prefill_block;
  auto early = std::uint32_t{0}, late = static_cast<std::uint32_t>(cached - prefill_block);
  for (const position t : s.active) {
    const bool late_one = t % every == every - 1;
    s.slots.push_back(late_one ? late++ : early++);
    if (late_one) s.rows.push_back(t);
  }
  return s;
}

const scene scenes[] = {contiguous("prefill", 512, prefill_block),
                        contiguous("prefill", 2048, prefill_block),
                        contiguous("prefill", 4096, prefill_block),
                        active_subset(4096),
                        revived(4096),
                        in_variant("window", contiguous("", 4096, prefill_block), {.window = 512}),
                        in_variant("window", contiguous("", 16384, prefill_block), {.window = 512}),
                        in_variant("window_subset", active_subset(4096), {.window = 512}),
                        in_variant("soft_cap", contiguous("", 4096, prefill_block), {.soft_cap = 50}),
                        contiguous("decode", 512, 1),
                        contiguous("decode", 2048, 1),
                        contiguous("decode", 4096, 1),
                        in_variant("decode_window", contiguous("", 4096, 1), {.window = 512}),
                        in_variant("decode_window", contiguous("", 16384, 1), {.window = 512})};

/// Row t of `k` and `v` belongs to the token at position t. Row r of `q` and `out` belongs to the query `rows[r]` of the scene.
struct numbers {
  lazyprune::aligned_array<float> q, k, v, out;
  std::size_t q_size, kv_size;

  numbers(const model& m, const scene& s) : q_size(m.shape.heads * m.shape.head_dim), kv_size(m.shape.kv_heads * m.shape.head_dim) {
    q = bench::random_numbers(s.rows.size() * q_size, 1.0f, 1);
    k = bench::random_numbers(s.cached * kv_size, 1.0f, 2);
    v = bench::random_numbers(s.cached * kv_size, 1.0f, 3);
    out = lazyprune::aligned_array<float>(s.rows.size() * q_size);
  }
  rows_view<const float> queries() const { return {q.data(), q.size() / q_size, q_size, q_size}; }
};

void fill(cpu& backend, cpu::kv_layer& kv, const scene& s, const numbers& n) {
  std::vector<position> in_slot(first_positions(s.cached));  // a token that is not active is in the slot of its position
  for (std::size_t i = 0; i < s.active.size(); ++i) in_slot[s.slots[i]] = s.active[i];
  for (const position t : in_slot) {
    const rows_view<const float> key{n.k.data() + t * n.kv_size, 1, n.kv_size, n.kv_size};
    const rows_view<const float> value{n.v.data() + t * n.kv_size, 1, n.kv_size, n.kv_size};
    const auto slot = static_cast<std::uint32_t>(kv.size());
    backend.put(kv, std::span(&slot, 1), key, value);
  }
}

/// Checks the first and the last row of the first and last head against the definition in double. Rounding to bf16 changes queries, keys,
/// probabilities and values by up to 2^-8 of their size, and each term of the sum by about as much. These errors are independent, so the
/// error of the sum is about 2^-8 times sqrt(sum of term^2). The tolerance is 2^-5 times this root: many standard deviations.
bool right(const model& m, const scene& s, const numbers& n) {
  const auto [heads, kv_heads, d] = m.shape;
  for (const std::size_t r : {std::size_t{0}, s.rows.size() - 1})
    for (const std::size_t h : {std::size_t{0}, heads - 1}) {
      const std::size_t at = h * kv_heads / heads * d;
      const auto [first, end] = s.seen(r);
      std::vector<double> p(end);
      double mass = 0;
      for (std::size_t i = first; i < end; ++i) {
        double score = 0;
        for (std::size_t j = 0; j < d; ++j)
          score += static_cast<double>(n.q.data()[r * n.q_size + h * d + j]) * n.k.data()[s.active[i] * n.kv_size + at + j];
        score /= std::sqrt(static_cast<double>(d));
        if (const double cap = s.variant.soft_cap; cap > 0) score = cap * std::tanh(score / cap);
        mass += p[i] = std::exp(score);
      }
      for (std::size_t j = 0; j < d; ++j) {
        double sum = 0, squares = 0;
        for (std::size_t i = first; i < end; ++i) {
          const double term = p[i] / mass * n.v.data()[s.active[i] * n.kv_size + at + j];
          sum += term;
          squares += term * term;
        }
        if (!(std::abs(n.out.data()[r * n.q_size + h * d + j] - sum) <= 0x1p-5 * std::sqrt(squares))) return false;
      }
    }
  return true;
}

void report(benchmark::State& state, double operations, double seconds, isa i, dtype type, int threads) {
  state.counters["GFLOP/s"] = operations / seconds / 1e9;
  state.counters["of_peak"] = operations / seconds / bench::arithmetic_ceiling(i, type, threads);
}

double operations_of(const model& m, double pairs) { return 4.0 * static_cast<double>(m.shape.heads * m.shape.head_dim) * pairs; }

void ours(benchmark::State& state, const model& m, const scene& s, bool probed, int threads, isa i, dtype type) {
  cpu backend(lazyprune::execution{.threads = threads, .instructions = i, .kv = type});
  numbers n(m, s);
  const double bytes = static_cast<double>(s.active.size() * lazyprune::packed_kv::slot_bytes(m.shape.kv_heads, m.shape.head_dim, type));
  const bool decode = s.rows.size() == 1;
  std::vector<cpu::kv_layer> caches;
  for (std::size_t copies = decode ? bench::copies_beyond_caches(static_cast<std::size_t>(bytes)) : 1; caches.size() < copies;)
    fill(backend, caches.emplace_back(m.shape.kv_heads, m.shape.head_dim), s, n);

  std::vector<float> probabilities(m.shape.heads * s.active.size());
  lazyprune::attention_probe probe;
  if (probed) probe = {.data = probabilities.data(), .queries = 1, .stride = s.active.size()};
  const lazyprune::attention_rows what{m.shape, s.rows, s.active, s.slots, {}, s.variant};
  const std::vector<float> row(n.q_size);
  const lazyprune::tensor as_row{dtype::f32, 1, n.q_size, reinterpret_cast<const std::byte*>(row.data())};
  const cpu::matrix next =
      backend.pack(std::span(&as_row, 1), tiles_of(i, type));  // the results are packed for a product with such a weight
  cpu::operand results(n.q_size);
  const auto run = [&](const cpu::kv_layer& kv) {
    backend.prepare(results, s.rows.size(), next);
    backend.attend(n.queries(), kv, what, results, 0, probe);
  };
  run(caches[0]);
  backend.read(results, n.out.data());
  if (!right(m, s, n)) return state.SkipWithError("wrong result");

  std::size_t turn = 0;
  const double seconds = bench::time_of(state, [&] { run(caches[turn++ % caches.size()]); });
  report(state, operations_of(m, s.pairs()), seconds, i, tiles_of(i, type), threads);
  if (!decode || s.variant.window > 0) return;  // with a window only a part of `bytes` is read, so no rate is reported
  state.counters["GB/s"] = bytes / seconds / 1e9;
  state.counters["of_DRAM"] = bytes / seconds / bench::reading_ceiling(threads);
}

void eigen(benchmark::State& state, const model& m, const scene& s, int threads) {
  const std::size_t heads = m.shape.heads, kv_heads = m.shape.kv_heads, d = m.shape.head_dim;
  const std::size_t group = heads / kv_heads, queries = s.rows.size(), keys = s.active.size(), kv_size = kv_heads * d;
  std::vector<numbers> sets;
  for (std::size_t copies = queries == 1 ? bench::copies_beyond_caches(2 * keys * kv_size * sizeof(float)) : 1; sets.size() < copies;)
    sets.emplace_back(m, s);
  lazyprune::aligned_array<float> scores(queries * keys);
  std::size_t turn = 0;
  const double seconds = bench::time_of(state, [&] {
    numbers& n = sets[turn++ % sets.size()];
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t at = h / group * d;
      bench::eigen::multiply_transposed(n.q.data() + h * d, n.q_size, n.k.data() + at, kv_size, scores.data(), keys, queries, d, keys,
                                        false, threads);
      bench::eigen::multiply(scores.data(), keys, n.v.data() + at, kv_size, n.out.data() + h * d, n.q_size, queries, keys, d, threads);
    }
  });
  report(state, operations_of(m, static_cast<double>(queries * keys)), seconds, bench::best_f32_isa(), dtype::f32, threads);
}

void register_one(const std::string& name, std::function<void(benchmark::State&)> measure) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(measure))->UseRealTime()->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  for (const model& m : models)
    for (const scene& s : scenes) {
      const std::string at = std::string(m.name) + "/" + s.name + "/keys:" + std::to_string(s.active.size());
      for (const int threads : bench::thread_counts()) {
        const std::string with = "/threads:" + std::to_string(threads) + "/";
        for (const bool probed : {false, true})
          for (const dtype type : lazyprune::every_kv_type)
            for (const isa i : paths_of(type)) {
              const std::string name = at + "/probe:" + (probed ? "1" : "0") + with + bench::column(type, i);
              if (has(i))
                register_one(name, [=, &m, &s](benchmark::State& state) { ours(state, m, s, probed, threads, i, type); });
              else
                bench::register_absent(name, "this processor lacks it");
            }
        if (s.variant == lazyprune::attention_variant{})
          register_one(at + "/probe:0" + with + "f32.eigen", [=, &m, &s](benchmark::State& state) { eigen(state, m, s, threads); });
      }
    }
  return bench::run(argc, argv);
}
