// SPDX-License-Identifier: MIT
// The contract of every backend, thread by thread on the emulated device.
#include <lazyprune/backend/cuda.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <backend/contract.hpp>
#include <backend/cuda/attention_grid.hpp>
#include <backend/cuda/hosted_cuda.hpp>
#include <backend/cuda/on_device.hpp>
#include <tested_device.hpp>

#include "../test_data.hpp"

using namespace lazyprune_test;
namespace device = lazyprune::device;

// The part `attention` has many large cases. Its memory accesses are checked only in a full run. The walk below checks its accesses in
// every run.
#define PART(name, holds)                                                      \
  TEST_CASE("cuda: " name) {                                                   \
    std::optional<unchecked> fast;                                             \
    if (std::string_view(#holds) == "attention" && !in_full()) fast.emplace(); \
    contract::holds<hosted_cuda>();                                            \
  }

LAZYPRUNE_CONTRACT(PART)

// Walks through random combinations of values until random draws find no new pair of values (attention_walk). It leaves out cases whose
// scores need more multiplications than a limit. $LAZYPRUNE_TEST_ATTENTION_WORK sets another limit. With 4000000000 no case is left out.
TEST_CASE("cuda: attention of every shape agrees with the reference") {
  const char* given = std::getenv("LAZYPRUNE_TEST_ATTENTION_WORK");
  const attention_walk walk(given ? std::stoull(given) : in_full() ? 30000000 : 1500000);
  std::uint32_t seed = 1000;
  for (const attention_grid_case& c : walk.cases) off_by(c, ++seed);
  CHECK(walk.every_value);
  MESSAGE(walk.cases.size() << " cases, " << walk.pairs << " of " << walk.all_pairs << " pairs of values");
}

namespace {

using lazyprune::cuda_backend;
using lazyprune::dtype;

/// Queries, keys or values (rows, columns) in an operand of the type that the backend gives to results of products with such weights.
class result_rows {
 public:
  result_rows(cuda_backend& backend, dtype type, std::size_t rows, std::size_t columns, std::uint32_t seed) : made(columns) {
    const auto w = backend.pack(only(stored(std::vector<float>(columns), columns, 1, dtype::f32)), type);
    backend.prepare_results(made, rows, w);
    write_rows(made, normal_floats(rows * columns, seed));
    numbers.resize(rows * columns);
    backend.read(made, numbers.data());
  }

  cuda_backend::operand made;
  std::vector<float> numbers;  // the operand's, perhaps rounded
};

/// Returns `count` rows of `numbers` from `first` on, rotated by the operation for rows.
std::vector<float> rotated(cuda_backend& backend, const std::vector<float>& numbers, std::size_t columns, std::size_t head_dim,
                           std::size_t first, std::span<const lazyprune::position> positions, const cuda_backend::rope_table& rope) {
  const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(first * columns);
  on_device<float> rows(std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(positions.size() * columns)));
  backend.rotate({rows.data(), positions.size(), columns, columns}, head_dim, positions, rope);
  return rows.numbers();
}

}  // namespace

TEST_CASE("cuda: keys that are rotated while they are stored have the bits of keys that are rotated before") {
  for (const dtype type : {dtype::f32, dtype::bf16})
    for (const dtype kept : {dtype::f32, dtype::bf16})
      for (const std::size_t head_dim : {64u, 8u, 36u, 6u, 20u}) {
        CAPTURE(name_of(type));
        CAPTURE(name_of(kept));
        CAPTURE(head_dim);
        const std::size_t heads = 5, rows = 9, first = 2, columns = heads * head_dim;
        cuda_backend backend({.kv = kept});
        const result_rows k(backend, type, rows, columns, 1), v(backend, type, rows, columns, 2);
        const auto rope = backend.make_rope(std::vector<double>(head_dim / 2, 0.3), 1.5, 40);
        const std::vector<lazyprune::position> positions{0, 1, 7, 30, 39, 12};
        const std::vector<std::uint32_t> slots{0, 3, 2, 255, 256, 7};
        on_device<lazyprune::position> there(positions);
        device::stored_kv kv(heads, head_dim), chosen(heads, head_dim), expected(heads, head_dim);
        backend.rotate_and_put(kv, slots, k.made, v.made, first, {positions}, rope);
        backend.rotate_and_put(chosen, slots, k.made, v.made, first, {{}, there.data()}, rope);
        on_device<float> turned(rotated(backend, k.numbers, columns, head_dim, first, positions, rope)), plain(v.numbers);
        backend.put(expected, slots, {turned.data(), slots.size(), columns, columns},
                    {plain.data() + first * columns, slots.size(), columns, columns});
        const auto read = [&](const device::stored_kv& from) {
          std::vector<float> all(2 * slots.size() * columns);
          backend.read_keys(from, slots, all.data());
          backend.read_values(from, slots, all.data() + slots.size() * columns);
          return all;
        };
        CHECK(read(kv) == read(expected));
        CHECK(read(chosen) == read(expected));
        std::vector<float> after(k.numbers.size());
        backend.read(k.made, after.data());
        CHECK(after == k.numbers);
      }
}

TEST_CASE("cuda: queries that attention rotates give the bits of queries that are rotated before") {
  for (const dtype type : {dtype::f32, dtype::bf16})
    for (const dtype kept : {dtype::f32, dtype::bf16})
      for (const std::size_t head_dim : {64u, 128u, 48u, 36u, 6u})
        for (const std::size_t rows : {2u, 33u}) {
          CAPTURE(name_of(type));
          CAPTURE(name_of(kept));
          CAPTURE(head_dim);
          CAPTURE(rows);
          const attention_sample s({4, 2, head_dim}, 90, rows, attention_sample::layout::scattered, 5);
          const std::size_t first = 3, columns = s.q_width(), probed = 2;
          hosted_cuda hosted({.kv = kept});
          const auto kv = s.cache(hosted);
          cuda_backend backend({.kv = kept});
          const result_rows q(backend, type, first + rows, columns, 1);
          const auto rope = backend.make_rope(std::vector<double>(head_dim / 2, 0.3), 1.5, s.active.back() + 1);
          on_device<float> turned(rotated(backend, q.numbers, columns, head_dim, first, s.rows, rope));
          const auto attended = [&](const auto& attend) {
            cuda_backend::operand out(columns);
            out.prepare(rows, dtype::f32);
            std::vector<float> all(rows * columns + probed * 4 * s.active.size());
            attend(out, lazyprune::attention_probe{all.data() + rows * columns, probed, s.active.size()});
            backend.read(out, all.data());
            return all;
          };
          on_device<lazyprune::position> there(s.rows);
          const auto expected = attended([&](cuda_backend::operand& out, const lazyprune::attention_probe& probe) {
            backend.attend({turned.data(), rows, columns, columns}, kv, s.what(), out, 0, probe);
          });
          for (const lazyprune::row_positions& positions : {lazyprune::row_positions{s.rows}, {{}, there.data()}})
            CHECK(attended([&](cuda_backend::operand& out, const lazyprune::attention_probe& probe) {
                    backend.attend(q.made, first, positions, rope, kv, s.what(), out, 0, probe);
                  }) == expected);
        }
}

TEST_CASE("cuda: each head of an operand is replaced by its norm") {
  for (const dtype type : {dtype::f32, dtype::bf16})
    for (const std::size_t head_dim : {64u, 8u, 6u}) {  // with 6, numbers lie between two rows
      CAPTURE(name_of(type));
      CAPTURE(head_dim);
      const std::size_t heads = 3, rows = 7, columns = heads * head_dim;
      cuda_backend backend;
      result_rows x(backend, type, rows, columns, 1);
      const auto weight = backend.load(only(stored(normal_floats(head_dim, 2), 1, head_dim, dtype::f32)));
      on_device<float> plain(x.numbers);
      const lazyprune::rows_view<float> by_head{plain.data(), rows * heads, head_dim, head_dim};
      backend.rms_norm(by_head, weight, 1e-5, by_head);
      backend.norm_heads(x.made, head_dim, weight, 1e-5);
      std::vector<float> found(rows * columns), expected = plain.numbers();
      backend.read(x.made, found.data());
      if (type == dtype::bf16)
        for (float& number : expected) number = lazyprune::float_of_bf16(lazyprune::bf16_of_float(number));
      CHECK(found == expected);
    }
}

// A result in bf16 differs from one in float by its rounding, by the rounding of its bias, each at most 2^-8, and by the order of a float
// sum.
TEST_CASE("cuda: products write an operand in the type of the weight") {
  for (const bool exact : {true, false})
    for (const std::size_t rows : {1u, 4u, 5u, 40u})
      for (const bool biased : {false, true}) {
        CAPTURE(exact);
        CAPTURE(rows);
        CAPTURE(biased);
        const std::size_t inputs = 70, outputs = 37;
        cuda_backend backend({.exact = exact});
        const auto w = backend.pack(only(stored(normal_floats(outputs * inputs, 1), outputs, inputs, dtype::f32)), dtype::bf16);
        const auto b = normal_floats(outputs, 2);
        const auto bias = backend.load(only(stored(b, 1, outputs, dtype::f32)));
        cuda_backend::operand x(inputs), to(outputs);
        backend.prepare(x, rows, w);
        write_rows(x, normal_floats(rows * inputs, 3));
        backend.prepare_results(to, rows, w);
        CHECK(to.type() == (exact ? dtype::f32 : dtype::bf16));
        on_device<float> plain(rows * outputs);
        backend.multiply(x, w, biased ? &bias : nullptr, {plain.data(), rows, outputs, outputs});
        backend.multiply(x, w, biased ? &bias : nullptr, to);
        std::vector<float> found(rows * outputs);
        const std::vector<float> expected = plain.numbers();
        backend.read(to, found.data());
        double worst = 0;
        for (std::size_t i = 0; i < found.size(); ++i)
          worst = std::max(worst, std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i])) /
                                      (0x1p-8 * (std::abs(expected[i]) + (biased ? std::abs(b[i % outputs]) : 0)) + 1e-4));
        CHECK(worst <= 1);
        CHECK((worst > 0.1) == !exact);
      }
}
