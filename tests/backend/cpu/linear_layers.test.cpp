// SPDX-License-Identifier: MIT
// tensor_backend.test.cpp compares products with the definition.
#include <lazyprune/backend/cpu/linear_layers.hpp>

#include <doctest/doctest.h>

#include <lazyprune/backend/cpu.hpp>

#include <backend/on_rows.hpp>
#include <backend/samples.hpp>
#include <backend/tested_cpu.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("a row's product does not depend on the row's batch, nor on its place in the batch" ON_EVERY_PATH) {
  tested_cpu backend;
  const std::size_t inputs = 333, outputs = 131, all = 600;
  const guarded<float> input(all, inputs, normal_floats(all * inputs, 1));
  const stored part(normal_floats(outputs * inputs, 2), outputs, inputs, dtype::f32);
  for (const dtype as : {dtype::f32, dtype::bf16}) {
    const auto weight = backend.pack(only(part), as), gated = backend.pack_gated(part, part, as);
    const auto product = [&](std::size_t first, std::size_t rows) {
      guarded<float> out(rows, 2 * outputs);
      rows_view<float> left = out.view(), right = out.view();
      left.columns = right.columns = outputs;
      right.data += outputs;
      multiply(backend, input.view().slice(first, rows), weight, nullptr, left);
      gated_multiply(backend, input.view().slice(first, rows), gated, nullptr, gate_activation::silu, right);
      return out;
    };
    const auto together = product(0, all);
    std::size_t different = 0;
    for (const auto& [first, rows] : {std::pair{0u, 1u}, {599u, 1u}, {7u, 2u}, {7u, 5u}, {6u, 6u}, {3u, 12u}, {100u, 33u}, {5u, 520u}}) {
      const auto some = product(first, rows);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t n = 0; n < 2 * outputs; ++n) different += some(r, n) != together(first + r, n);
    }
    CHECK(different == 0);
  }
}

TEST_CASE("unpacked quantized weights have the bits of these weights in bf16" ON_EVERY_PATH) {
  // Only amx unpacks the weights without `exact`.
  tested_cpu backend({.exact = tested_cpu().instructions() != isa::amx});
  for (const block_format& format : block_formats) {
    CAPTURE(format.bits);
    CAPTURE(format.inputs);
    const std::size_t inputs = 5 * 256 + (format.inputs == 256 ? 0 : 32), outputs = 70, all = 90;
    const rows_of_blocks blocks(format, true), numbers(format, false);
    const tensor kept_parts[] = {blocks.matrix(40, inputs), blocks.matrix(30, inputs, 100)};
    const tensor widened_parts[] = {numbers.matrix(40, inputs), numbers.matrix(30, inputs, 100)};
    const auto kept = backend.pack(kept_parts, dtype::bf16), widened = backend.pack(widened_parts, dtype::bf16);
    REQUIRE(kept.panels());
    REQUIRE_FALSE(widened.panels());
    CHECK(kept.bytes() < widened.bytes() * 2 / 3);
    std::vector<float> row(inputs), expected_row(inputs);
    for (std::size_t n = 0; n < outputs; ++n) {
      kept.read(n, row.data()), widened.read(n, expected_row.data());
      REQUIRE(row == expected_row);
    }
    const guarded<float> input(all, inputs, normal_floats(all * inputs, 1));
    for (const std::size_t rows : {1u, 2u, 3u, 6u, 7u, 12u, 13u, 33u, 90u}) {
      guarded<float> out(rows, outputs), expected(rows, outputs);
      rows_view<float> to = out.view(), to_expected = expected.view();
      multiply(backend, input.view().slice(0, rows), kept, nullptr, to);
      multiply(backend, input.view().slice(0, rows), widened, nullptr, to_expected);
      CHECK(out == expected);
    }

    const std::size_t ffn = 40;
    const auto gated = backend.pack_gated(blocks.matrix(ffn, inputs, 7), blocks.matrix(ffn, inputs, 300), dtype::bf16);
    const auto gated_widened = backend.pack_gated(numbers.matrix(ffn, inputs, 7), numbers.matrix(ffn, inputs, 300), dtype::bf16);
    REQUIRE(gated.panels());
    for (const std::size_t rows : {1u, 50u}) {
      const auto product = [&](const cpu::matrix& w) {
        guarded<float> out(rows, ffn);
        gated_multiply(backend, input.view().slice(0, rows), w, nullptr, gate_activation::silu, out.view());
        return out;
      };
      CHECK(product(gated) == product(gated_widened));
    }
  }
}

TEST_CASE("products of activations in 8 bits are exact but for the rounding of sums, in any batch" ON_EVERY_PATH) {
  tested_cpu backend;
  for (const block_format& format : block_formats) {
    CAPTURE(format.bits);
    CAPTURE(format.inputs);
    // Depths that are one block, and depths that are cut.
    for (const std::size_t inputs : {format.inputs, 20 * std::size_t{256} + format.inputs}) {
      const std::size_t outputs = 70, ffn = 40, all = 90;
      const rows_of_blocks blocks(format, true);
      const auto w = backend.pack(std::array{blocks.matrix(outputs, inputs)}, dtype::bf16);
      const auto gated = backend.pack_gated(blocks.matrix(ffn, inputs, 7), blocks.matrix(ffn, inputs, 300), dtype::bf16);
      const guarded<float> input(all, inputs, normal_floats(all * inputs, 1));
      const auto product = [&](auto& on, std::size_t first, std::size_t rows) {
        guarded<float> out(rows, outputs + ffn);
        rows_view<float> left = out.view(), right = out.view();
        left.columns = outputs, right.columns = ffn, right.data += outputs;
        multiply(on, input.view().slice(first, rows), w, nullptr, left);
        gated_multiply(on, input.view().slice(first, rows), gated, nullptr, gate_activation::silu, right);
        return out;
      };
      const auto together = product(backend, 0, all);
      tested_cpu one_thread({.threads = 1}), two_threads({.threads = 2});
      for (const std::size_t rows : {1u, 2u, 3u, 4u, 5u, 8u, 16u, 33u}) {
        CAPTURE(rows);
        const auto some = product(rows % 2 == 0 ? one_thread : two_threads, rows, rows);
        std::size_t different = 0;
        for (std::size_t r = 0; r < rows; ++r)
          for (std::size_t n = 0; n < outputs + ffn; ++n) different += some(r, n) != together(rows + r, n);
        CHECK(different == 0);
      }

      const auto x = operand_of(backend, input.view(), w);
      CHECK(x.kernel().int8 == (backend.instructions() != isa::amx));
      if (!x.kernel().int8) continue;
      std::vector<float> rounded(all * inputs);
      backend.read(x, rounded.data());
      std::size_t wrong = 0;
      for (std::uint32_t n = 0; n < outputs; ++n) {
        std::vector<double> row;
        for (std::uint32_t b = 0; b < inputs / format.inputs; ++b)
          for (std::size_t i = 0; i < format.inputs; ++i)
            row.push_back(static_cast<double>(number_of(format, random_block(format, n, b), i)));
        for (std::size_t r = 0; r < all; r += 7) {
          double sum = 0, size = 0;
          for (std::size_t i = 0; i < inputs; ++i) {
            const double one = row[i] * static_cast<double>(rounded[r * inputs + i]);
            sum += one, size += std::abs(one);
          }
          wrong += !(std::abs(static_cast<double>(together(r, n)) - sum) < 2e-6 * size);
        }
      }
      CHECK(wrong == 0);
      if (backend.instructions() == isa::portable || !has(isa::avx2)) continue;
      cpu other({.instructions = isa::avx2});
      CHECK(product(other, 0, all) == together);
    }
  }
}

TEST_CASE("a weight stays quantized only in bf16, and if all its parts have one format") {
  cpu backend;
  const block_format q8_0{32, 32, 8, 128, false};
  const rows_of_blocks one(q8_0, true), other({32, 32, 4, 8, false}, true), plain(q8_0, false), large({256, 32, 4, 0, true}, true);
  const auto panels = [&](const tensor& a, const tensor& b, dtype as) { return backend.pack(std::array{a, b}, as).panels() != nullptr; };
  const tensor part = one.matrix(20, 64);
  CHECK(panels(part, part, dtype::bf16));
  CHECK_FALSE(panels(part, part, dtype::f32));
  CHECK_FALSE(panels(part, other.matrix(20, 64), dtype::bf16));
  CHECK_FALSE(panels(part, plain.matrix(20, 64), dtype::bf16));
  tensor widened = part;
  widened.widens = true;
  CHECK_FALSE(panels(part, widened, dtype::bf16));
  CHECK(large.matrix(20, 512).format());
  CHECK_FALSE(large.matrix(20, 96).format());  // rows that are not whole blocks
}

TEST_CASE("a product has the same bits with other numbers in tuning.hpp" ON_EVERY_PATH) {
  tested_cpu backend;
  const std::size_t inputs = 704, outputs = 520, all = 130;
  const guarded<float> input(all, inputs, normal_floats(all * inputs, 1));
  const stored part(normal_floats(outputs * inputs, 2), outputs, inputs, dtype::f32);
  const rows_of_blocks blocks({32, 32, 4, 8, false}, true);
  const tensor quantized = blocks.matrix(outputs, inputs);
  const std::pair<tensor, dtype> cases[] = {{part, dtype::f32}, {part, dtype::bf16}, {quantized, dtype::bf16}};
  for (const auto& one : cases) {
    const auto weight = backend.pack(std::span(&one.first, 1), one.second);
    REQUIRE((weight.panels() != nullptr) == (one.first.reader != nullptr));
    const auto x = operand_of(backend, input.view(), weight);
    const auto product = [&](auto change) {
      product_tunings changed = tuning_of(backend.instructions());
      change(changed.f32), change(changed.bf16), change(changed.int8);
      guarded<float> out(all, outputs);
      linear_layers(changed, 2).multiply(x, weight, nullptr, false, out.view());
      return out;
    };
    const auto expected = product([](product_tuning&) {});
    CHECK(product([](product_tuning& t) { t.inputs = 64, t.pass_rows = 48, t.group = 2; }) == expected);
    CHECK(product([](product_tuning& t) { t.inputs = 2048, t.pass_rows = 1024, t.group = 16; }) == expected);
    CHECK(product([](product_tuning& t) { t.widening_strips = 1, t.many_strips = 2; }) == expected);
    CHECK(product([](product_tuning& t) { t.widening_strips = 1000, t.many_strips = 1000; }) == expected);
    CHECK(product([](product_tuning& t) { t.ahead = t.ahead == 0 ? 4096 : 0, t.weight_bytes = 1; }) == expected);
  }
}

TEST_CASE("a row's product does not depend on how inputs and groups of tiles are cut" ON_EVERY_PATH) {
  tested_cpu backend;
  const std::size_t inputs = 2100, outputs = 520, all = 50;  // several cuts of the inputs, groups of several tiles
  const guarded<float> input(all, inputs, normal_floats(all * inputs, 1));
  const stored part(normal_floats(outputs * inputs, 2), outputs, inputs, dtype::f32);
  for (const dtype as : {dtype::f32, dtype::bf16}) {
    const auto weight = backend.pack(only(part), as);
    const auto product = [&](std::size_t first, std::size_t rows) {
      guarded<float> out(rows, outputs);
      rows_view<float> view = out.view();
      multiply(backend, input.view().slice(first, rows), weight, nullptr, view);
      return out;
    };
    const auto together = product(0, all);
    std::size_t different = 0;
    for (const std::size_t r : {0u, 1u, 13u, 31u, 32u, 49u}) {
      const auto alone = product(r, 1);  // one row is not cut
      for (std::size_t n = 0; n < outputs; ++n) different += alone(0, n) != together(r, n);
    }
    CHECK(different == 0);
  }
}
