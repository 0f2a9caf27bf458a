// SPDX-License-Identifier: MIT
// Tests what cpu promises beyond the contract of every backend (tensor_backend.test.cpp). With each instruction set, results have the same
// bits for any number of threads. AVX-512 gives the bits of AVX2. Scratch memory is kept.
#include <lazyprune/backend/cpu.hpp>

#include <doctest/doctest.h>

#include <backend/kv_samples.hpp>
#include <backend/on_rows.hpp>
#include <backend/samples.hpp>
#include <backend/tested_cpu.hpp>
#include <fault.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

/// Returns the results of products, norms, embedding, RoPE and attention. Attention is over `keys` keys and the keys of the rows
/// themselves.
std::vector<std::vector<float>> everything_computed(cpu& backend, std::size_t rows, dtype as, std::size_t keys = 300) {
  std::vector<std::vector<float>> results;
  const auto keep = [&](const auto& view) {
    results.emplace_back(view.rows * view.columns);
    backend.read(view, results.back().data());
  };
  const std::size_t inputs = 300, outputs = 231, half = 8;
  const auto x = normal_floats(rows * inputs, 1), w = normal_floats(outputs * inputs, 2), b = normal_floats(2 * outputs, 3);
  const guarded<float> input(rows, inputs, x);
  const stored part(w, outputs, inputs, dtype::f32);
  const auto weight = backend.pack(only(part), as), gated = backend.pack_gated(part, part, as);
  const auto bias = backend.load(only(stored(b, 1, outputs, dtype::f32))), both = backend.load(only(stored(b, 1, 2 * outputs, dtype::f32)));
  guarded<float> out(rows, outputs), norm(rows, inputs);
  multiply(backend, input.view(), weight, &bias, out.view());
  keep(out.view());
  multiply_add(backend, input.view(), weight, &bias, out.view());
  keep(out.view());
  gated_multiply(backend, input.view(), gated, &both, gate_activation::silu, out.view());
  keep(out.view());
  gated_multiply(backend, input.view(), gated, &both, gate_activation::gelu_tanh, out.view());
  keep(out.view());
  backend.rms_norm(input.view(), backend.load(only(stored(x, 1, inputs, dtype::f32))), 1e-5, norm.view());
  keep(norm.view());
  std::vector<std::uint32_t> ids(rows);
  for (std::size_t i = 0; i < rows; ++i) ids[i] = static_cast<std::uint32_t>(i * 7 % outputs);
  backend.embed(weight, ids, 1.7, norm.view());
  keep(norm.view());
  guarded<float> heads(rows, 4 * 2 * half, normal_floats(rows * 4 * 2 * half, 4));
  backend.rotate(heads.view(), 2 * half, ids, backend.make_rope(std::vector<double>(half, 0.1), 1.0, outputs));
  keep(heads.view());
  for (const auto layout : {attention_sample::layout::run, attention_sample::layout::late_run, attention_sample::layout::scattered})
    for (const auto& [shape, variant] : {std::pair{attention_shape{6, 3, 16}, attention_variant{}},
                                         {attention_shape{8, 1, 20}, attention_variant{}},
                                         {attention_shape{4, 2, 24}, attention_variant{.scale = 0.2, .soft_cap = 5, .window = 70}}}) {
      const attention_sample s(shape, rows + keys, rows, layout, 5);
      const auto kv = s.cache(backend);
      const std::size_t queries = std::min<std::size_t>(rows, 2);
      guarded<float> attended(rows, s.q_width()), probe(queries * shape.heads, s.active.size());
      attention_rows what = s.what();
      what.variant = variant;
      attend(backend, guarded<float>(rows, s.q_width(), s.q).view(), kv, what, attended.view(),
             {probe.view().data, queries, probe.view().stride});
      keep(attended.view());
      keep(probe.view());
    }
  return results;
}

}  // namespace

TEST_CASE("results have the same bits for any number of threads" ON_EVERY_PATH) {
  for (const dtype kv : every_kv_type)
    for (const std::size_t rows : {1u, 4u, 17u, 530u}) {
      if (rows > 17 && (kv == dtype::f16 || kv == dtype::q8_0)) continue;  // 17 rows already have several strips, and products are the same
      CAPTURE(rows);
      const dtype as = kv == dtype::bf16 || kv == dtype::q8_0 ? dtype::bf16 : dtype::f32;  // the type of the weights
      tested_cpu one({.threads = 1, .kv = kv});
      const std::size_t keys = rows == 1 ? 1400 : 300;  // enough to be split among threads
      const auto expected = everything_computed(one, rows, as, keys);
      for (const int threads : {2, 5}) {
        CAPTURE(threads);
        tested_cpu several({.threads = threads, .kv = kv});
        CHECK(everything_computed(several, rows, as, keys) == expected);
      }
    }
}

TEST_CASE("AVX-512, and with `exact` also AVX512-BF16 and AMX, give the bits of AVX2 for all types of weights and caches") {
  for (const isa path : every_isa) {
    if (path < isa::avx512 || !has(path)) continue;
    CAPTURE(std::string(name_of(path)));
    for (const dtype kv : every_kv_type) {
      const dtype as = kv == dtype::bf16 || kv == dtype::q8_0 ? dtype::bf16 : dtype::f32;  // the type of the weights
      cpu narrow(execution{.threads = 1, .instructions = isa::avx2, .kv = kv});
      cpu wide(execution{.threads = 1, .instructions = path, .kv = kv, .exact = path > isa::avx512});
      for (const std::size_t rows : {1u, 100u}) CHECK(everything_computed(narrow, rows, as) == everything_computed(wide, rows, as));
    }
  }
}

TEST_CASE("scratch memory grows to what the largest operation needs, and stays allocated" ON_EVERY_PATH) {
  tested_cpu backend({.threads = 2});
  CHECK(backend.bytes() == 0);
  for (const dtype as : {dtype::f32, dtype::bf16}) everything_computed(backend, 300, as);
  everything_computed(backend, 2, dtype::f32);
  const std::size_t bytes = backend.bytes();
  CHECK(bytes > 0);
  for (const std::size_t rows : {1u, 17u, 300u}) everything_computed(backend, rows, dtype::f32);
  CHECK(backend.bytes() == bytes);
}

TEST_CASE("a bf16 weight takes half the memory of a float one") {
  cpu backend;
  const stored part(normal_floats(64 * 128, 1), 64, 128, dtype::f32);
  CHECK(backend.pack(only(part), dtype::f32).bytes() == 64 * 128 * 4);
  CHECK(backend.pack(only(part), dtype::bf16).bytes() == 64 * 128 * 2);
}
