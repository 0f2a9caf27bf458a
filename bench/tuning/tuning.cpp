// SPDX-License-Identifier: MIT
// Compares the numbers in backend/cpu/tuning.hpp with others. Each benchmark changes one or two of them. Its name is
// shape/layer/rows/threads/change. All weights are bf16, and the path is the fastest one, or that of LAZYPRUNE_ISA.
//
//   bench.tuning --benchmark_filter=rows:2048/threads:1
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../measure.hpp"

#include <lazyprune/backend/cpu/attention.hpp>
#include <lazyprune/backend/cpu/linear_layers.hpp>
#include <lazyprune/backend/cpu/packed_matrix.hpp>
#include <lazyprune/backend/cpu/packed_rows.hpp>
#include <lazyprune/backend/cpu/tuning.hpp>

namespace {

using lazyprune::dtype, lazyprune::product_tuning;

struct layer {
  const char* name;
  std::size_t inputs, outputs;
};

const layer layers[] = {{"tinyllama-1.1b/gate,up", 2048, 2 * 5632},
                        {"tinyllama-1.1b/down", 5632, 2048},
                        {"llama-3-8b/q", 4096, 4096},
                        {"llama-3-8b/down", 14336, 4096}};

/// The path of LAZYPRUNE_ISA, or the fastest one.
lazyprune::isa measured_isa() {
  const char* name = std::getenv("LAZYPRUNE_ISA");
  return name && *name ? lazyprune::isa_named(name, "LAZYPRUNE_ISA") : lazyprune::best_isa();
}

struct change {
  std::string name;
  std::function<void(product_tuning&)> make;
};

std::vector<change> changes() {
  std::vector<change> all{{"none", [](product_tuning&) {}}};
  const auto add = [&](const char* name, std::initializer_list<std::size_t> values, auto set) {
    for (const std::size_t value : values)
      all.push_back({name + std::string(":") + std::to_string(value), [=](product_tuning& t) { set(t, value); }});
  };
  add("inputs", {256, 384, 512, 768, 1024, 2048}, [](product_tuning& t, std::size_t n) { t.inputs = n; });
  add("pass_rows", {128, 256, 384, 512, 1024}, [](product_tuning& t, std::size_t n) { t.pass_rows = n; });
  add("group", {2, 4, 8, 16}, [](product_tuning& t, std::size_t n) { t.group = n; });
  add("ahead", {0, 512, 1024, 2048, 4096, 8192}, [](product_tuning& t, std::size_t n) { t.ahead = n; });
  // Longer blocks leave room for fewer rows in L2.
  add("pass_rows=384,inputs", {512, 1024, 2048}, [](product_tuning& t, std::size_t n) { t.inputs = n, t.pass_rows = 384; });
  add("pass_rows=256,inputs", {512, 1024, 2048}, [](product_tuning& t, std::size_t n) { t.inputs = n, t.pass_rows = 256; });
  return all;
}

/// Returns a weight with random numbers. It is packed once, because Google Benchmark calls a benchmark's function several times.
const lazyprune::cpu::matrix& packed(const layer& l, lazyprune::cpu& backend) {
  static std::map<std::pair<std::size_t, std::size_t>, lazyprune::cpu::matrix> known;
  const auto place = known.find({l.inputs, l.outputs});
  if (place != known.end()) return place->second;
  const auto weights = bench::random_numbers(l.outputs * l.inputs, 0.02f, 2);
  const lazyprune::tensor part{dtype::f32, l.outputs, l.inputs, reinterpret_cast<const std::byte*>(weights.data())};
  return known.emplace(std::pair(l.inputs, l.outputs), backend.pack(std::span(&part, 1), dtype::bf16)).first->second;
}

/// Measures the work with the numbers of tuning.hpp and with others. They take turns, after one run of each to warm up.
template <class Usual, class Other>
void compare(benchmark::State& state, lazyprune::isa path, int threads, double operations, const Usual& usual, const Other& other) {
  usual(), other();
  const auto [before, after] = bench::times_in_turn(state, usual, other);
  state.counters["GFLOP/s"] = operations / after * 1e-9;
  state.counters["of_peak"] = operations / after / bench::arithmetic_ceiling(path, dtype::bf16, threads);
  state.counters["speedup"] = before / after;  // over the numbers in tuning.hpp
}

/// Measures the product of packed rows and a weight, without packing.
void measure(benchmark::State& state, const layer& l, std::size_t rows, int threads, const change& what) {
  const lazyprune::isa path = measured_isa();
  const lazyprune::product_tunings usual = lazyprune::tuning_of(path);
  lazyprune::product_tunings changed = usual;
  what.make(changed.bf16);

  lazyprune::cpu backend({.threads = threads, .instructions = path});
  const lazyprune::cpu::matrix& w = packed(l, backend);
  const auto numbers = bench::random_numbers(rows * l.inputs, 1.0f, 1);
  lazyprune::cpu::operand x(l.inputs);
  backend.prepare(x, rows, w);
  backend.pack_rows({numbers.data(), rows, l.inputs, l.inputs}, x);
  lazyprune::aligned_array<float> out(rows * l.outputs);

  lazyprune::linear_layers one(usual, threads), other(changed, threads);
  const auto multiply = [&](lazyprune::linear_layers& by) { by.multiply(x, w, nullptr, false, {out.data(), rows, l.outputs, l.outputs}); };
  compare(
      state, path, threads, 2.0 * static_cast<double>(rows * l.inputs * l.outputs), [&] { multiply(one); }, [&] { multiply(other); });
}

/// Measures attention of all rows of a prompt with the shape of TinyLlama-1.1B, cut into tasks of so many strips.
void measure_attention(benchmark::State& state, std::size_t tokens, int threads, std::size_t strips) {
  const lazyprune::isa path = measured_isa();
  const lazyprune::attention_shape shape{32, 4, 64};
  const std::size_t width = shape.heads * shape.head_dim, kv_width = shape.kv_heads * shape.head_dim;
  const auto q = bench::random_numbers(tokens * width, 1.0f, 1), kv_rows = bench::random_numbers(tokens * kv_width, 1.0f, 2);
  std::vector<std::uint32_t> all(tokens);
  std::iota(all.begin(), all.end(), 0u);

  lazyprune::cpu backend({.threads = threads, .instructions = path, .kv = dtype::bf16});
  lazyprune::cpu::kv_layer kv(shape.kv_heads, shape.head_dim);
  const lazyprune::rows_view<const float> keys{kv_rows.data(), tokens, kv_width, kv_width};
  backend.put(kv, all, keys, keys);
  const std::vector<std::byte> zeros(width * sizeof(float));
  const lazyprune::tensor part{dtype::f32, 1, width, zeros.data()};
  const lazyprune::cpu::matrix w = backend.pack(std::span(&part, 1), dtype::bf16);
  lazyprune::cpu::operand out(width);

  const lazyprune::attention_rows what{shape, all, all, all};
  lazyprune::attention_tuning changed;
  changed.strips = strips;
  lazyprune::attention_layer one(lazyprune::kernels::kernels_of(path), threads),
      other(lazyprune::kernels::kernels_of(path), threads, changed);
  const auto attend = [&](lazyprune::attention_layer& by) {
    backend.prepare(out, tokens, w);
    by.attend({q.data(), tokens, width, width}, kv, what, out, 0, {});
  };
  compare(
      state, path, threads, 2.0 * static_cast<double>(tokens * (tokens + 1) * width), [&] { attend(one); }, [&] { attend(other); });
}

template <class Measure>
void add(const std::string& name, std::size_t rows, int threads, const std::string& change, Measure measure) {
  const std::string whole = name + "/rows:" + std::to_string(rows) + "/threads:" + std::to_string(threads) + "/" + change;
  benchmark::RegisterBenchmark(whole.c_str(), measure)->UseRealTime()->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::size_t rows : {512u, 2048u})
    for (const int threads : bench::thread_counts()) {
      for (const layer& l : layers)
        for (const change& what : changes())
          add(l.name, rows, threads, what.name, [=](benchmark::State& state) { measure(state, l, rows, threads, what); });
      for (const std::size_t strips : {4u, 8u, 16u, 32u})
        add("tinyllama-1.1b/attention", rows, threads, "strips:" + std::to_string(strips),
            [=](benchmark::State& state) { measure_attention(state, rows, threads, strips); });
    }
  return bench::run(argc, argv);
}
