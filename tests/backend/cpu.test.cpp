// SPDX-License-Identifier: MIT
// What cpu promises beyond the contract of every backend (tensor_backend.test.cpp): the same bits for any number of threads and, within
// limits, for any company of rows; scratch that stays.
#include <lazyprune/backend/cpu.hpp>

#include <doctest/doctest.h>

#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

/// The results of every operation, one after the other.
std::vector<std::vector<float>> everything_computed(cpu& backend, std::size_t rows, dtype as) {
  std::vector<std::vector<float>> results;
  const auto keep = [&](const auto& view) {
    results.emplace_back(view.rows * view.columns);
    backend.read(view, results.back().data());
  };
  const std::size_t inputs = 300, outputs = 199, half = 8;
  const auto x = normal_floats(rows * inputs, 1), w = normal_floats(outputs * inputs, 2), b = normal_floats(2 * outputs, 3);
  const guarded<float> input(rows, inputs, x);
  const stored part(w, outputs, inputs, dtype::f32);
  const auto weight = backend.pack(only(part), as), gated = backend.pack_gated(part, part, as);
  const auto bias = backend.load(only(stored(b, 1, outputs, dtype::f32))), both = backend.load(only(stored(b, 1, 2 * outputs, dtype::f32)));
  guarded<float> out(rows, outputs), norm(rows, inputs);
  backend.multiply(input.view(), weight, &bias, out.view());
  keep(out.view());
  backend.multiply_add(input.view(), weight, &bias, out.view());
  keep(out.view());
  backend.gated_multiply(input.view(), gated, &both, out.view());
  keep(out.view());
  backend.rms_norm(input.view(), backend.load(only(stored(x, 1, inputs, dtype::f32))), 1e-5, norm.view());
  keep(norm.view());
  std::vector<std::uint32_t> ids(rows);
  for (std::size_t i = 0; i < rows; ++i) ids[i] = static_cast<std::uint32_t>(i * 7 % outputs);
  backend.embed(weight, ids, norm.view());
  keep(norm.view());
  guarded<float> heads(rows, 4 * 2 * half, normal_floats(rows * 4 * 2 * half, 4));
  backend.rotate(heads.view(), 2 * half, ids, backend.make_rope(std::vector<double>(half, 0.1), 1.0, outputs));
  keep(heads.view());
  for (const auto layout : {attention_sample::layout::run, attention_sample::layout::late_run, attention_sample::layout::scattered})
    for (const attention_shape shape : {attention_shape{6, 3, 16}, attention_shape{8, 1, 20}}) {
      const attention_sample s(shape, rows + 300, rows, layout, 5);
      const auto kv = s.cache(backend);
      const std::size_t queries = std::min<std::size_t>(rows, 2);
      guarded<float> attended(rows, s.q_width()), probe(queries * shape.heads, s.active.size());
      backend.attend(guarded<float>(rows, s.q_width(), s.q).view(), kv, s.what(), attended.view(),
                     {probe.view().data, queries, probe.view().stride});
      keep(attended.view());
      keep(probe.view());
    }
  return results;
}

}  // namespace

static_assert(std::string_view(isa_name).size() > 0);

TEST_CASE("the same bits for any number of threads") {
  for (const dtype as : {dtype::f32, dtype::bf16})
    for (const std::size_t rows : {1u, 4u, 16u, 17u, 600u}) {
      CAPTURE(rows);
      cpu one(execution{.threads = 1});
      const auto expected = everything_computed(one, rows, as);
      for (const int threads : {2, 3, 8}) {
        CAPTURE(threads);
        cpu several(execution{.threads = threads});
        CHECK(everything_computed(several, rows, as) == expected);
      }
    }
}

TEST_CASE("a row's product does not depend on its company: up to 16 rows, and in groups of four above") {
  cpu backend;
  const std::size_t inputs = 333, outputs = 131;
  const auto x = normal_floats(40 * inputs, 1);
  const stored part(normal_floats(outputs * inputs, 2), outputs, inputs, dtype::f32);
  for (const dtype as : {dtype::f32, dtype::bf16}) {
    const auto weight = backend.pack(only(part), as);
    const auto product = [&](std::size_t first, std::size_t rows) {
      const guarded<float> input(40, inputs, x);
      guarded<float> out(rows, outputs);
      backend.multiply(input.view().slice(first, rows), weight, nullptr, out.view());
      return out;
    };
    const auto differing = [&](const guarded<float>& a, std::size_t first, const guarded<float>& b, std::size_t count) {
      std::size_t different = 0;
      for (std::size_t r = 0; r < count; ++r)
        for (std::size_t n = 0; n < outputs; ++n) different += a(first + r, n) != b(r, n);
      return different;
    };
    const auto sixteen = product(0, 16), forty = product(0, 40);
    for (const std::size_t rows : {1u, 2u, 3u, 5u, 8u}) CHECK(differing(sixteen, 7, product(7, rows), rows) == 0);
    for (const std::size_t rows : {20u, 23u, 24u, 31u}) CHECK(differing(forty, 3, product(3, rows), rows / 4 * 4) == 0);
  }
}

TEST_CASE("scratch grows to the largest operation and stays") {
  cpu backend(execution{.threads = 2});
  CHECK(backend.bytes() == 0);
  everything_computed(backend, 300, dtype::bf16);
  everything_computed(backend, 2, dtype::f32);
  const std::size_t bytes = backend.bytes();
  CHECK(bytes > 0);
  for (const std::size_t rows : {1u, 2u, 16u, 17u, 300u}) everything_computed(backend, rows, dtype::f32);
  CHECK(backend.bytes() == bytes);
}

TEST_CASE("a bf16 weight takes half of the memory of a float one") {
  cpu backend;
  const stored part(normal_floats(64 * 128, 1), 64, 128, dtype::f32);
  CHECK(backend.pack(only(part), dtype::f32).bytes() == 64 * 128 * 4);
  CHECK(backend.pack(only(part), dtype::bf16).bytes() == 64 * 128 * 2);
}
