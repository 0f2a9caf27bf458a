// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/packed_rows.hpp>

#include <doctest/doctest.h>

#include <lazyprune/backend/cpu/kernels/kernels.hpp>

#include <backend/samples.hpp>

#include <vector>

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

constexpr std::size_t columns = 96;

/// Returns the rows of the view, each with the rows' numbers rounded as the kernel rounds them.
std::vector<float> rounded(const kernels::product_kernel& kernel, rows_view<const float> x) {
  std::vector<float> numbers;
  for (std::size_t r = 0; r < x.rows; ++r)
    for (std::size_t i = 0; i < x.columns; ++i)
      numbers.push_back(kernel.unit_bytes == 64 ? float_of_bf16(bf16_of_float(x.row(r)[i])) : x.row(r)[i]);
  return numbers;
}

std::vector<float> numbers_of(const packed_rows& x) {
  std::vector<float> numbers;
  for (std::size_t r = 0; r < x.rows(); ++r)
    for (std::size_t i = 0; i < x.columns(); ++i) numbers.push_back(x.number(r, i));
  return numbers;
}

template <class Check>
void on_every_kernel(const Check& check) {
  for (const isa path : every_isa)
    for (const dtype as : {dtype::f32, dtype::bf16}) {
      if (!has(path)) continue;
      CAPTURE(name_of(path));
      CAPTURE(name_of(as));
      check(kernels::kernels_of(path).product(as));
    }
}

}  // namespace

TEST_CASE("strips have equal numbers of rows, in order, and the last one has the rest") {
  for (const isa path : every_isa)
    for (const dtype as : {dtype::f32, dtype::bf16}) {
      const kernels::product_kernel& kernel = kernels::kernels_of(path).product(as);
      packed_rows x(columns);
      for (std::size_t rows = 0; rows <= 5 * kernel.strip; ++rows) {
        CAPTURE(name_of(path));
        CAPTURE(rows);
        x.prepare(kernel, rows, columns);
        CHECK(x.rows() == rows);
        CHECK(x.strips() == (rows + kernel.strip - 1) / kernel.strip);
        std::size_t sum = 0;
        for (std::size_t s = 0; s < x.strips(); ++s) {
          CHECK(x.rows_of(s) >= 1);
          CHECK(x.rows_of(s) <= kernel.padded((rows + x.strips() - 1) / x.strips()));
          CHECK(sum == s * x.strip());
          sum += x.rows_of(s);
        }
        CHECK(sum == rows);
      }
    }
}

TEST_CASE("strips, and parts of a strip, are packed in any order") {
  on_every_kernel([](const kernels::product_kernel& kernel) {
    for (const std::size_t rows : {1ul, kernel.strip, 2 * kernel.strip + 1}) {
      const guarded<float> numbers(rows, columns, normal_floats(rows * columns, 1));
      packed_rows x(columns);
      x.prepare(kernel, rows, columns);
      for (std::size_t s = x.strips(); s-- > 0;)
        for (const std::size_t first : {64u, 0u}) {
          rows_view<const float> part = numbers.view().slice(s * x.strip(), x.rows_of(s));
          part.data += first;
          part.columns = first == 0 ? 64 : 32;
          x.pack(s, first, part);
        }
      CHECK(numbers_of(x) == rounded(kernel, numbers.view()));
    }
  });
}

TEST_CASE("a strip is packed when its last plain numbers are written, in whatever order and by whatever thread") {
  on_every_kernel([](const kernels::product_kernel& kernel) {
    for (const int threads : {1, 3}) {
      const std::size_t rows = 3 * kernel.strip + 2, part = 32, pieces = (rows + 4) / 5;
      const guarded<float> numbers(rows, columns, normal_floats(rows * columns, 1));
      packed_rows x(columns);
      for (int again = 0; again < 2; ++again) {  // `prepare` forgets what was written before
        x.prepare(kernel, rows, columns);
        const rows_view<float> plain = x.plain();
        CHECK(x.plain().data == plain.data);
        detail::for_tasks(threads, pieces * columns / part, [&](std::size_t task, std::size_t) {
          const std::size_t first = task % pieces * 5, count = std::min<std::size_t>(5, rows - first), column = task / pieces * part;
          for (std::size_t r = first; r < first + count; ++r) std::copy_n(numbers.view().row(r) + column, part, plain.row(r) + column);
          x.wrote(first, count, part);
        });
        CHECK(numbers_of(x) == rounded(kernel, numbers.view()));
      }
    }
  });
}

TEST_CASE("memory grows to the most rows and is kept") {
  const kernels::product_kernel& kernel = kernels::kernels_of(isa::portable).f32;
  packed_rows x(columns);
  CHECK(x.bytes() == 0);
  x.prepare(kernel, 100, columns);
  CHECK(x.bytes() >= 100 * columns * 4);
  const std::size_t packed = x.bytes();
  x.prepare(kernel, 10, columns);
  CHECK(x.bytes() == packed);
  x.plain();
  CHECK(x.bytes() > packed);
}
