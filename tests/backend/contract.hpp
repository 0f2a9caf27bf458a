// SPDX-License-Identifier: MIT
// The contract of every backend. Each operation is compared with reference<double>, over shapes with and without remainders.
//
// The allowed error is derived as follows. In any order of additions, a float sum of K terms differs from the exact sum by its roundings.
// Each rounding is at most u = 2^-24 of a partial sum, and goes up as often as down. So an error above 6 sqrt(K) u sum|terms| is
// practically impossible (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019). The parameter `extra` of
// `rounding` is the number of other roundings in an operation.
#pragma once

#include <lazyprune/backend/tensor_backend.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <type_traits>

#include <backend/on_rows.hpp>
#include <backend/samples.hpp>
#include <fault.hpp>
#include <lazyprune/backend/reference.hpp>
#include <test_data.hpp>
#include <tested_path.hpp>

namespace lazyprune_test::contract {

using lazyprune::dtype;
using lazyprune::reference;
using lazyprune::tensor;

using oracle = reference<double>;

/// Returns the activations as the backend multiplies them. They are rounded to bf16 if the weights are bf16 and the backend multiplies such
/// weights only with bf16.
template <class Backend>
std::vector<float> as_multiplied(const Backend& backend, std::vector<float> x, dtype weights) {
  if constexpr (requires { backend.rounds(); })
    if (weights == dtype::bf16 && backend.rounds())
      for (float& number : x) number = lazyprune::float_of_bf16(lazyprune::bf16_of_float(number));
  return x;
}

inline double rounding(std::size_t terms, double extra) { return (6 * std::sqrt(static_cast<double>(terms)) + extra) * 0x1p-24; }

/// The sizes of a product, and the type of its weight.
struct product_case {
  std::size_t rows, inputs, outputs;
  dtype as;
};

inline std::vector<product_case> product_cases() {
  const std::size_t outputs[] = {1, 2, 3, 5, 16, 17, 48, 127, 128, 129, 199, 257};
  std::vector<product_case> cases;
  for (const std::size_t rows : {0u, 1u, 2u, 3u, 7u, 16u, 17u, 64u, 65u, 300u})
    for (const std::size_t inputs : {1u, 2u, 7u, 8u, 15u, 16u, 17u, 31u, 32u, 33u, 48u, 63u, 64u, 65u, 127u, 128u, 129u, 256u, 257u, 300u})
      cases.push_back({rows, inputs, outputs[cases.size() % std::size(outputs)], cases.size() / 2 % 2 ? dtype::bf16 : dtype::f32});
  cases.push_back({513, 520, 130, dtype::f32});  // cpu multiplies at most 512 rows in one pass over the weights
  cases.push_back({1030, 65, 33, dtype::bf16});
  cases.push_back({5, 2000, 1000, dtype::bf16});
  cases.push_back({3, 40, 0, dtype::f32});
  return cases;
}

/// The sums x w^T + b in double, and the sums of the absolute values of their terms.
struct product_sums {
  std::vector<double> sum, magnitude;  // (rows, outputs)

  template <class Weight>
  product_sums(const std::vector<float>& x, std::size_t rows, const Weight& w, const std::vector<float>& bias) {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t n = 0; n < w.outputs(); ++n) {
        double s = bias.empty() ? 0 : bias[n], m = std::abs(s);
        for (std::size_t i = 0; i < w.inputs(); ++i) {
          const double term = x[r * w.inputs() + i] * w.row(n)[i];
          s += term;
          m += std::abs(term);
        }
        sum.push_back(s);
        magnitude.push_back(m);
      }
  }
};

/// Updates `worst`, the largest error so far in units of the allowed error. If it was NaN once, it stays NaN.
inline void note(double& worst, double error, double allowed) {
  if (!std::isnan(worst) && !(std::abs(error) <= worst * allowed)) worst = std::abs(error) / allowed;
}

/// The value of a gate for x, and its allowed error in roundings. A gate has the roundings of an exp (4 u), a sum, a quotient and a
/// product. The exponent of GELU has up to five roundings of its own, and the exp passes them on.
struct gated {
  double value, roundings;

  gated(lazyprune::gate_activation activation, double x) {
    const bool gelu = activation == lazyprune::gate_activation::gelu_tanh;
    const double exponent = gelu ? 2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x) : x;
    value = x / (1 + std::exp(-exponent));  // (1 + tanh(y / 2)) / 2 = 1 / (1 + e^-y)
    roundings = gelu ? 8 + 5 * std::min(std::abs(exponent), 120.0) : 8;
  }
};

inline std::vector<float> numbers_of(const guarded<float>& rows) {
  std::vector<float> numbers;
  for (std::size_t r = 0; r < rows.view().rows; ++r)
    numbers.insert(numbers.end(), rows.view().row(r), rows.view().row(r) + rows.view().columns);
  return numbers;
}

template <class Backend>
void readers() {
  Backend backend;
  constexpr std::size_t rows = 37, inputs = 70, from = 3;
  const auto x = normal_floats(2 * inputs, 1);
  auto w = normal_floats(rows * inputs, 2);
  for (const dtype type : {dtype::f32, dtype::bf16})
    for (const dtype as : {dtype::f32, dtype::bf16}) {
      const stored in_order(w, rows, inputs, type);
      std::vector<float> from_the_end;
      for (std::size_t row = rows; row-- > 0;) from_the_end.insert(from_the_end.end(), &w[row * inputs], &w[row * inputs] + inputs);
      const stored turned(from_the_end, rows, inputs, type);
      const rows_from_the_end reader(rows);
      tensor plain = in_order, read = turned;
      read.reader = &reader;
      const tensor end{type, rows - from, inputs, plain.data + from * plain.row_bytes()},
          read_end{type, rows - from, inputs, read.data, &reader, from};

      const guarded<float> input(2, inputs, x);
      const auto product = [&](const auto& weight) {
        guarded<float> out(2, weight.outputs());
        multiply(backend, input.view(), weight, nullptr, out.view());
        return numbers_of(out);
      };
      const auto gated = [&](const auto& weight) {
        guarded<float> out(2, rows);
        gated_multiply(backend, input.view(), weight, nullptr, lazyprune::gate_activation::silu, out.view());
        return numbers_of(out);
      };
      CHECK(product(backend.pack(std::array{read, end, read_end}, as)) == product(backend.pack(std::array{plain, read_end, end}, as)));
      CHECK(gated(backend.pack_gated(plain, read, as)) == gated(backend.pack_gated(plain, plain, as)));
    }
}

template <class Backend>
void products() {
  Backend backend;
  for (const product_case& c : product_cases()) {
    CAPTURE(c.rows);
    CAPTURE(c.inputs);
    CAPTURE(c.outputs);
    CAPTURE(static_cast<int>(c.as));
    const auto seed = static_cast<std::uint32_t>(c.rows * 1000 + c.inputs);
    const std::size_t cut = c.outputs / 3;
    const auto x = normal_floats(c.rows * c.inputs, seed), w = normal_floats(c.outputs * c.inputs, seed + 1),
               b = normal_floats(c.outputs, seed + 2), before = normal_floats(c.rows * c.outputs, seed + 3);
    const auto rows_of = [&](std::size_t first, std::size_t end) {
      return std::vector<float>(w.begin() + static_cast<std::ptrdiff_t>(first * c.inputs),
                                w.begin() + static_cast<std::ptrdiff_t>(end * c.inputs));
    };
    const stored first(rows_of(0, cut), cut, c.inputs, dtype::f32), second(rows_of(cut, 2 * cut), cut, c.inputs, dtype::bf16),
        third(rows_of(2 * cut, c.outputs), c.outputs - 2 * cut, c.inputs, dtype::f32);
    const tensor parts[] = {first, second, third};
    const auto weight = backend.pack(parts, c.as);
    const auto exact_weight = oracle{}.pack(parts, c.as);
    REQUIRE(weight.outputs() == c.outputs);
    REQUIRE(weight.inputs() == c.inputs);
    const auto bias = backend.load(only(stored(b, 1, c.outputs, dtype::f32)));
    const bool biased = c.inputs % 2;
    const product_sums exact(as_multiplied(backend, x, c.as), c.rows, exact_weight, biased ? b : std::vector<float>{});

    const guarded<float> input(c.rows, c.inputs, x);
    guarded<float> product(c.rows, c.outputs), sum(c.rows, c.outputs, before);
    multiply(backend, input.view(), weight, biased ? &bias : nullptr, product.view());
    multiply_add(backend, input.view(), weight, biased ? &bias : nullptr, sum.view());
    double worst_product = 0, worst_sum = 0;  // in units of the allowed error
    for (std::size_t i = 0; i < c.rows * c.outputs; ++i) {
      const std::size_t r = i / c.outputs, n = i % c.outputs;
      const double allowed = rounding(c.inputs, 2);  // two more roundings: the bias, the earlier numbers
      note(worst_product, product(r, n) - exact.sum[i], allowed * exact.magnitude[i]);
      note(worst_sum, sum(r, n) - (exact.sum[i] + before[i]), allowed * (exact.magnitude[i] + std::abs(before[i])));
    }
    CHECK(worst_product <= 1);
    CHECK(worst_sum <= 1);
    CHECK(product.untouched());
    CHECK(sum.untouched());
    CHECK(input == guarded<float>(c.rows, c.inputs, x));
  }
}

template <class Backend>
void gated_products() {
  Backend backend;
  for (const product_case& c : product_cases()) {
    CAPTURE(c.rows);
    CAPTURE(c.inputs);
    CAPTURE(c.outputs);
    CAPTURE(static_cast<int>(c.as));
    const auto seed = static_cast<std::uint32_t>(c.rows * 1000 + c.inputs);
    const auto x = normal_floats(c.rows * c.inputs, seed), g = normal_floats(c.outputs * c.inputs, seed + 1),
               u = normal_floats(c.outputs * c.inputs, seed + 2), b = normal_floats(2 * c.outputs, seed + 3, 20);
    const stored gate(g, c.outputs, c.inputs, dtype::f32), up(u, c.outputs, c.inputs, dtype::bf16);
    const auto weight = backend.pack_gated(gate, up, c.as);
    const auto exact_weight = oracle{}.pack_gated(gate, up, c.as);
    REQUIRE(weight.outputs() == 2 * c.outputs);
    const auto bias = backend.load(only(stored(b, 1, 2 * c.outputs, dtype::f32)));
    const bool biased = c.inputs % 2;
    const product_sums exact(as_multiplied(backend, x, c.as), c.rows, exact_weight, biased ? b : std::vector<float>{});

    for (const auto activation : {lazyprune::gate_activation::silu, lazyprune::gate_activation::gelu_tanh}) {
      CAPTURE(static_cast<int>(activation));
      const guarded<float> input(c.rows, c.inputs, x);
      guarded<float> out(c.rows, c.outputs);
      gated_multiply(backend, input.view(), weight, biased ? &bias : nullptr, activation, out.view());
      double worst = 0;
      for (std::size_t i = 0; i < c.rows * c.outputs; ++i) {
        const std::size_t r = i / c.outputs, n = i % c.outputs, at = r * 2 * c.outputs + n;
        const double t = exact.sum[at + c.outputs], sums = rounding(c.inputs, 2);
        const gated half(activation, exact.sum[at]);
        // The slope of either activation is at most 1.13. Below 2^-126 any error is allowed.
        const double allowed = 1.13 * sums * exact.magnitude[at] * std::abs(t) +
                               std::abs(half.value) * sums * exact.magnitude[at + c.outputs] +
                               std::abs(half.value * t) * rounding(0, half.roundings) + 0x1p-126 * (1 + std::abs(t));
        note(worst, out(r, n) - half.value * t, allowed);
      }
      CHECK(worst <= 1);
      CHECK(out.untouched());
    }
  }
}

template <class Backend>
std::vector<typename Backend::scalar> numbers_of_operand(Backend& backend, const typename Backend::operand& x, std::size_t numbers) {
  std::vector<typename Backend::scalar> found(numbers);
  backend.read(x, found.data());
  return found;
}

/// An operand that an operation writes has the numbers that the operation computes, rounded as pack_rows rounds them. The products of such
/// an operand have the bits of those of packed rows. But a backend may also round the two inputs of a gate to bf16. Then a gate g(a) b
/// differs by 2^-8 of its value for each rounding of a result, as before, and of b. The rounding of a changes g(a) by 1.13 * 2^-8 |a|,
/// because no slope of a gate is above 1.13. Products of roundings, and float sums in another order, add less than a hundredth of this.
template <class Backend>
void operands() {
  using scalar = typename Backend::scalar;
  Backend backend;
  for (const dtype type : {dtype::f32, dtype::bf16})
    for (const dtype next : {dtype::f32, dtype::bf16})
      for (const std::size_t rows : {0u, 1u, 2u, 13u, 70u, 531u})
        for (const auto& size : {std::pair{64u, 96u}, {33u, 17u}, {70u, 130u}}) {
          const std::size_t inputs = size.first, width = size.second;
          CAPTURE(name_of(type));
          CAPTURE(name_of(next));
          CAPTURE(rows);
          CAPTURE(inputs);
          CAPTURE(width);
          const stored part(normal_floats(width * inputs, 1), width, inputs, dtype::f32);
          const stored other(normal_floats(5 * width, 2), 5, width, dtype::f32);
          const auto w = backend.pack_gated(part, part, type), after = backend.pack(only(other), next),
                     alone = backend.pack(only(part), type);
          const guarded<scalar> x(rows, inputs, normal_floats(rows * inputs, 3));
          const auto same = [&](const typename Backend::operand& found, const guarded<scalar>& expected, const auto& weight) {
            const std::size_t count = expected.view().rows * expected.view().columns;
            const typename Backend::operand packed = operand_of(backend, expected.view(), weight);
            CHECK(numbers_of_operand(backend, found, count) == numbers_of_operand(backend, packed, count));
            guarded<scalar> one(expected.view().rows, weight.outputs()), two = one;
            backend.multiply(found, weight, nullptr, one.view());
            backend.multiply(packed, weight, nullptr, two.view());
            CHECK(one == two);
          };

          const typename Backend::operand from = operand_of(backend, x.view(), w);
          std::vector<scalar> plain_x;
          for (std::size_t r = 0; r < rows; ++r) plain_x.insert(plain_x.end(), x.view().row(r), x.view().row(r) + inputs);
          std::vector<scalar> rounded = plain_x;
          if constexpr (std::is_same_v<scalar, float>) rounded = as_multiplied(backend, plain_x, type);
          const std::vector<scalar> found = numbers_of_operand(backend, from, rows * inputs);
          CHECK(found == rounded);

          const auto weight = backend.load(only(stored(normal_floats(inputs, 4), 1, inputs, dtype::f32)));
          guarded<scalar> norm(rows, inputs);
          backend.rms_norm(x.view(), weight, 1e-5, norm.view());
          typename Backend::operand normed(inputs);
          for (const std::size_t before : {rows + 40, std::size_t{1}}) {  // an operand may have had more rows or fewer
            backend.prepare(normed, before, alone);
            backend.prepare(normed, rows, alone);
            backend.rms_norm(x.view(), weight, 1e-5, normed);
            same(normed, norm, alone);
          }

          guarded<scalar> plain(rows, width);
          gated_multiply(backend, x.view(), w, nullptr, lazyprune::gate_activation::silu, plain.view());
          typename Backend::operand gate(width);
          backend.prepare(gate, rows, after);
          backend.gated_multiply(from, w, nullptr, lazyprune::gate_activation::silu, gate);
          bool rounds_inputs = false;
          if constexpr (requires { backend.rounds_gate_inputs(rows, w); })
            rounds_inputs = next == dtype::bf16 && backend.rounds_gate_inputs(rows, w);
          if (!rounds_inputs) {
            same(gate, plain, after);
            continue;
          }
          guarded<scalar> half(rows, width);  // both inputs of each gate, because both halves of the weight are the same
          multiply(backend, x.view(), alone, nullptr, half.view());
          const std::vector<scalar> gates = numbers_of_operand(backend, gate, rows * width);
          double worst = 0;
          for (std::size_t i = 0; i < gates.size(); ++i) {
            const double a = half(i / width, i % width), value = plain(i / width, i % width);
            note(worst, gates[i] - value, 1.01 * 0x1p-8 * (1.13 * a * a + 2 * std::abs(value)));
          }
          CHECK(worst <= 1);
          CHECK(worst > 0.1);
        }
}

/// Attention of two sequences goes to one operand.
template <class Backend>
void attended_operands() {
  using scalar = typename Backend::scalar;
  Backend backend;
  const attention_sample one({6, 2, 24}, 130, 50, attention_sample::layout::run, 1),
      two({6, 2, 24}, 90, 19, attention_sample::layout::scattered, 2);
  const std::size_t width = one.q_width(), rows = one.rows.size() + two.rows.size();
  guarded<scalar> expected(rows, width);
  const auto each = [&](const auto& work) {
    work(one, std::size_t{0});
    work(two, one.rows.size());
  };
  each([&](const attention_sample& s, std::size_t first) {
    const guarded<scalar> q(s.rows.size(), width, s.q);
    attend(backend, q.view(), s.cache(backend), s.what(), expected.view().slice(first, s.rows.size()), {});
  });
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    const stored part(normal_floats(3 * width, 5), 3, width, dtype::f32);
    const auto w = backend.pack(only(part), type);
    typename Backend::operand attended(width);
    backend.prepare(attended, rows, w);
    each([&](const attention_sample& s, std::size_t first) {
      const guarded<scalar> q(s.rows.size(), width, s.q);
      backend.attend(q.view(), s.cache(backend), s.what(), attended, first, {});
    });
    CHECK(numbers_of_operand(backend, attended, rows * width) ==
          numbers_of_operand(backend, operand_of(backend, expected.view(), w), rows * width));
  }
}

template <class Backend>
void gates_at_both_ends() {
  Backend backend;
  const std::vector<float> gates{-1e4f, -1e30f, -120.0f, 0.0f, 120.0f, 1e4f, 1e30f};
  std::vector<float> ones(gates.size(), 1.0f);
  const auto weight = backend.pack_gated(stored(gates, gates.size(), 1, dtype::f32), stored(ones, ones.size(), 1, dtype::f32), dtype::f32);
  for (const auto activation : {lazyprune::gate_activation::silu, lazyprune::gate_activation::gelu_tanh})
    for (const std::size_t rows : {1u, 20u}) {
      const guarded<float> one(rows, 1, std::vector<float>(rows, 1.0f));
      guarded<float> out(rows, gates.size());
      gated_multiply(backend, one.view(), weight, nullptr, activation, out.view());
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < gates.size(); ++i) CHECK(std::abs(out(r, i) - std::max(0.0f, gates[i])) <= 1e-30f);
    }
}

template <class Backend>
void embedding() {
  Backend backend;
  for (const dtype as : {dtype::f32, dtype::bf16})
    for (const std::size_t width : {1u, 8u, 33u, 64u, 65u}) {
      const auto numbers = normal_floats(199 * width, 1);
      const stored part(numbers, 199, width, dtype::f32);
      const auto table = backend.pack(only(part), as);
      const std::vector<std::uint32_t> some{198, 0, 7, 7, 100};
      for (const auto& [count, scale] : {std::pair{5u, 1.0}, {5u, std::sqrt(2304.0)}, {5u, std::sqrt(5.0)}, {1u, 1.0}, {0u, 1.0}}) {
        const std::span ids = std::span(some).first(count);
        guarded<float> out(count, width);
        backend.embed(table, ids, scale, out.view());
        for (std::size_t r = 0; r < ids.size(); ++r)
          for (std::size_t i = 0; i < width; ++i) {
            const float number = numbers[ids[r] * width + i];
            const float kept = as == dtype::f32 ? number : lazyprune::float_of_bf16(lazyprune::bf16_of_float(number));
            REQUIRE(out(r, i) == kept * static_cast<float>(scale));
          }
        CHECK(out.untouched());
      }
    }
}

template <class Backend>
void norms() {
  Backend backend;
  for (const std::size_t rows : {0u, 1u, 2u, 7u, 65u})
    for (const std::size_t width : {1u, 3u, 8u, 15u, 16u, 33u, 48u, 129u, 2048u})
      for (const float size : {1e-4f, 1.0f, 1e4f}) {
        CAPTURE(rows);
        CAPTURE(width);
        CAPTURE(size);
        const auto x = normal_floats(rows * width, 1, size), w = normal_floats(width, 2);
        const auto weight = backend.load(only(stored(w, 1, width, dtype::f32)));
        const guarded<float> input(rows, width, x);
        guarded<float> out(rows, width), same(rows, width, x);
        backend.rms_norm(input.view(), weight, 1e-5, out.view());
        backend.rms_norm(same.view(), weight, 1e-5, same.view());
        CHECK(out == same);
        CHECK(out.untouched());
        double worst = 0;
        for (std::size_t r = 0; r < rows; ++r) {
          double squares = 0;
          for (std::size_t i = 0; i < width; ++i) squares += static_cast<double>(x[r * width + i]) * x[r * width + i];
          const double root = std::sqrt(squares / static_cast<double>(width) + 1e-5);
          for (std::size_t i = 0; i < width; ++i) {
            const double exact = x[r * width + i] / root * w[i];
            // The squares, the mean, epsilon, the root, the quotient and the product add at most one rounding each.
            note(worst, out(r, i) - exact, rounding(width, 6) * std::abs(exact));
          }
        }
        CHECK(worst <= 1);
      }
}

template <class Backend>
void addition() {
  Backend backend;
  for (const std::size_t rows : {0u, 1u, 7u, 300u})
    for (const std::size_t columns : {1u, 5u, 16u, 257u}) {
      const auto x = normal_floats(rows * columns, 1), before = normal_floats(rows * columns, 2);
      guarded<float> from(rows, columns, x), out(rows, columns, before);
      backend.add(from.view(), out.view());
      CHECK(out.untouched());
      std::size_t wrong = 0;
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < columns; ++i) wrong += out(r, i) != before[r * columns + i] + x[r * columns + i];
      CHECK(wrong == 0);
    }
}

template <class Backend>
void rotation() {
  Backend backend;
  for (const std::size_t head_dim : {2u, 6u, 8u, 34u, 64u, 128u}) {
    CAPTURE(head_dim);
    const std::size_t half = head_dim / 2, heads = 3;
    std::vector<double> frequencies;
    for (std::size_t i = 0; i < half; ++i) frequencies.push_back(std::pow(1e4, -static_cast<double>(i) / static_cast<double>(half)));
    if (half > 3) frequencies.back() = 0;  // a pair that is not rotated
    const auto rope = backend.make_rope(frequencies, 1.25, 5000);
    CHECK(rope.bytes() >= 5000 * head_dim * sizeof(float));
    for (const std::size_t rows : {0u, 1u, 4u, 65u}) {
      std::vector<lazyprune::position> positions;
      for (std::size_t r = 0; r < rows; ++r) positions.push_back(static_cast<lazyprune::position>(r < 4 ? r * r * r * 185 : 4990 - r));
      const auto x = normal_floats(positions.size() * heads * head_dim, 3);
      guarded<float> out(positions.size(), heads * head_dim, x);
      backend.rotate(out.view(), head_dim, positions, rope);
      CHECK(out.untouched());
      double worst = 0;
      for (std::size_t r = 0; r < positions.size(); ++r)
        for (std::size_t h = 0; h < heads; ++h)
          for (std::size_t i = 0; i < half; ++i) {
            const std::size_t at = h * head_dim + i;
            const double a = x[r * heads * head_dim + at], b = x[r * heads * head_dim + at + half];
            const double scale = frequencies[i] == 0 ? 1 : 1.25, angle = positions[r] * frequencies[i];
            const double c = scale * std::cos(angle), s = scale * std::sin(angle);
            const double allowed = rounding(0, 3);  // the table, a product, a sum
            note(worst, out(r, at) - (a * c - b * s), allowed * (std::abs(a * c) + std::abs(b * s)));
            note(worst, out(r, at + half) - (b * c + a * s), allowed * (std::abs(b * c) + std::abs(a * s)));
          }
      CHECK(worst <= 1);
    }
  }
}

struct attention_case {
  lazyprune::attention_shape shape;
  std::size_t active, rows;
  attention_sample::layout layout;
  std::size_t probed;
  lazyprune::attention_variant variant = {};
};

/// Returns the variant of a case. The cases take turns: the first has no variant, the second has a window, and the third has a soft cap.
/// Some cases with a soft cap also have a window, and some cases of both kinds also have a scale. The width of a window is 1, is near the
/// size of a tile, a block or a strip, or exceeds all positions. Positions have gaps, so a window usually has fewer tokens than its width.
inline lazyprune::attention_variant variant_of(std::size_t number) {
  const std::size_t windows[] = {1, 2, 12, 31, 64, 65, 100, 255, 512, 513, 700, 100000};
  const std::size_t i = number / 3;
  lazyprune::attention_variant v;
  if (number % 3 == 0) return v;
  if (number % 3 == 1 || i % 2 == 0) v.window = windows[i % std::size(windows)];
  if (number % 3 == 2) v.soft_cap = i % 4 < 2 ? 50 : 1.5;
  if (i % 3 == 2) v.scale = i % 2 ? 0.3 : 0.0625;
  return v;
}

inline std::vector<attention_case> attention_cases() {
  using enum attention_sample::layout;
  std::vector<attention_case> cases;
  const lazyprune::attention_shape shapes[] = {{1, 1, 8}, {4, 4, 16}, {8, 2, 64}, {6, 3, 5}, {2, 1, 128}, {32, 4, 20}, {7, 7, 33}};
  for (const std::size_t active : {1u, 2u, 31u, 64u, 65u, 156u, 157u, 255u, 256u, 257u, 300u, 613u})
    for (const std::size_t rows : {1u, 3u, 4u, 5u, 17u, 64u, 150u})
      for (const auto layout : {run, late_run, scattered})
        if (rows <= active) {
          const std::size_t probed[] = {0, 1, std::min<std::size_t>(rows, 3), rows};
          const std::size_t i = cases.size();
          cases.push_back({shapes[i % std::size(shapes)], active, rows, layout, probed[i % 4] * (rows < 100 || i % 4 < 3), variant_of(i)});
        }
  cases.push_back({{4, 2, 16}, 613, 613, run, 2});
  cases.push_back({{3, 3, 24}, 613, 613, scattered, 1});
  cases.push_back({{8, 1, 33}, 530, 530, late_run, 0});
  cases.push_back({{4, 2, 16}, 4097, 1, run, 1});
  cases.push_back({{4, 2, 16}, 4097, 6, scattered, 2});
  cases.push_back({{4, 2, 16}, 613, 613, run, 2, {.window = 300}});
  cases.push_back({{3, 3, 24}, 613, 613, scattered, 1, {.soft_cap = 50, .window = 33}});
  cases.push_back({{8, 1, 33}, 530, 530, late_run, 0, {.scale = 0.1, .window = 256}});
  cases.push_back({{4, 2, 16}, 4097, 1, run, 1, {.window = 1000}});
  cases.push_back({{4, 2, 16}, 4097, 6, scattered, 2, {.scale = 0.2, .soft_cap = 20, .window = 2000}});
  return cases;
}

/// One head's attention for one row, computed by the definition in double: the probability of each active token, and whether the row sees
/// the token.
struct exact_row {
  std::vector<double> probability;
  std::vector<bool> sees;
  double most_terms = 0;  // the largest sum of the absolute values of a score's terms

  exact_row(const attention_sample& s, const lazyprune::attention_variant& v, std::size_t r, std::size_t h)
      : probability(s.active.size()), sees(s.active.size()) {
    const auto [heads, kv_heads, d] = s.shape;
    const double scale = v.scale != 0 ? v.scale : 1 / std::sqrt(static_cast<double>(d));
    std::vector<double> q(d);
    for (std::size_t e = 0; e < d; ++e) q[e] = scale * s.q[r * s.q_width() + h * d + e];
    double mass = 0;
    for (std::size_t i = 0; i < s.active.size(); ++i) {
      sees[i] = s.active[i] <= s.rows[r] && (v.window == 0 || s.rows[r] - s.active[i] < v.window);
      if (!sees[i]) continue;
      double score = 0, terms = 0;
      const float* const k = &s.k[s.slots[i] * s.kv_width() + h * kv_heads / heads * d];
      for (std::size_t e = 0; e < d; ++e) {
        const double term = q[e] * k[e];
        score += term;
        terms += std::abs(term);
      }
      most_terms = std::max(most_terms, terms);
      if (v.soft_cap != 0) score = v.soft_cap * std::tanh(score / v.soft_cap);
      mass += probability[i] = std::exp(score);
    }
    for (double& p : probability) p /= mass;
  }
};

template <class Backend>
void attention() {
  Backend backend;
  std::uint32_t seed = 0;
  // In a short run, a test of one path has half of the cases. The test without a named path has them all.
  const bool half = !in_full() && named_path();
  for (const attention_case& c : attention_cases()) {
    if (++seed; half && seed % 2 == static_cast<std::uint32_t>(*named_path()) % 2) continue;
    CAPTURE(c.shape.heads);
    CAPTURE(c.shape.kv_heads);
    CAPTURE(c.shape.head_dim);
    CAPTURE(c.active);
    CAPTURE(c.rows);
    CAPTURE(c.probed);
    CAPTURE(static_cast<int>(c.layout));
    CAPTURE(c.variant.scale);
    CAPTURE(c.variant.soft_cap);
    CAPTURE(c.variant.window);
    const attention_sample s(c.shape, c.active, c.rows, c.layout, seed);
    const auto [heads, kv_heads, d] = s.shape;
    const auto kv = s.cache(backend);
    REQUIRE(kv.size() == s.total);
    const guarded<float> q(c.rows, s.q_width(), s.q);
    guarded<float> out(c.rows, s.q_width()), probe(c.probed * heads, c.active);
    lazyprune::attention_rows what = s.what();
    what.variant = c.variant;
    attend(backend, q.view(), kv, what, out.view(), {probe.view().data, c.probed, probe.view().stride});
    CHECK(out.untouched());
    CHECK(probe.untouched());

    double worst_out = 0, worst_probe = 0;
    std::size_t unseen = 0;
    for (std::size_t r = 0; r < c.rows; ++r)
      for (std::size_t h = 0; h < heads; ++h) {
        const exact_row exact(s, c.variant, r, h);
        std::vector<double> sums(d), magnitudes(d);
        for (std::size_t i = 0; i < c.active; ++i) {
          if (!exact.sees[i]) continue;
          const double probability = exact.probability[i];
          const float* const v = &s.v[s.slots[i] * s.kv_width() + h * kv_heads / heads * d];
          for (std::size_t e = 0; e < d; ++e) {
            const double term = probability * v[e];
            sums[e] += term;
            magnitudes[e] += std::abs(term);
          }
        }
        // A score has the error of its sum, and other roundings: the scale, the difference to the largest score and, with a cap, the
        // quotient by the cap and a tanh of 8 u. The exp passes this error on to the probability. The probability also has the exp's own
        // 4 u, and the roundings of a sum and a quotient. Each block rescales the earlier sums, which adds 3 u.
        const double score_off = rounding(d, c.variant.soft_cap != 0 ? 14 : 4) * exact.most_terms;
        const double relative = std::expm1(2 * score_off) + rounding(c.active, 8 + 3 * static_cast<double>(c.active) / 256);
        for (std::size_t e = 0; e < d; ++e) note(worst_out, out(r, h * d + e) - sums[e], relative * magnitudes[e]);
        if (r + c.probed < c.rows) continue;
        for (std::size_t i = 0; i < c.active; ++i) {
          const float got = probe((r + c.probed - c.rows) * heads + h, i);
          if (exact.sees[i])
            note(worst_probe, got - exact.probability[i], relative * exact.probability[i] + 0x1p-149);
          else
            unseen += got != 0;
        }
      }
    CHECK(worst_out <= 1);
    CHECK(worst_probe <= 1);
    CHECK(unseen == 0);
  }
}

/// Attention with the probabilities of all heads, and again with reduced probabilities. Both must have the same output.
template <class Backend>
class reduced_attention {
 public:
  reduced_attention(const attention_case& c, std::uint32_t seed)
      : case_(c),
        sample_(c.shape, c.active, c.rows, c.layout, seed),
        kv_(sample_.cache(backend_)),
        q_(c.rows, sample_.q_width(), sample_.q),
        out_(c.rows, sample_.q_width()),
        each(c.probed * c.shape.heads, c.active) {
    attend({each.view().data, c.probed, each.view().stride}, out_);
  }

  const std::vector<lazyprune::position>& active() const { return sample_.active; }

  /// Computes with this probe, whose rows must then be those of `expected`.
  void check(lazyprune::attention_probe probe, const guarded<float>& expected) {
    guarded<float> again(case_.rows, sample_.q_width()), found(expected.view().rows, case_.active);
    probe.data = found.view().data;
    probe.queries = case_.probed;
    probe.stride = found.view().stride;
    attend(probe, again);
    CHECK(found == expected);
    CHECK(again == out_);
  }

 private:
  void attend(const lazyprune::attention_probe& probe, guarded<float>& out) {
    lazyprune::attention_rows what = sample_.what();
    what.variant = case_.variant;
    lazyprune_test::attend(backend_, q_.view(), kv_, what, out.view(), probe);
  }

  Backend backend_;
  const attention_case& case_;
  attention_sample sample_;
  typename Backend::kv_layer kv_;
  guarded<float> q_, out_;

 public:
  guarded<float> each;  // (queries, heads, active): the probabilities of all heads
};

/// With attention_probe::over_heads, a backend gives the bits that the host's reduce_heads computes from the backend's probabilities of all
/// heads.
template <class Backend>
void reduced_heads() {
  using enum attention_sample::layout;
  const attention_case cases[] = {{{1, 1, 8}, 1, 1, run, 1},
                                  {{8, 2, 16}, 65, 3, scattered, 2},
                                  {{6, 3, 5}, 300, 17, late_run, 3, {.window = 100}},
                                  {{7, 7, 33}, 613, 1, scattered, 1, {.soft_cap = 5}},
                                  {{4, 2, 16}, 1100, 6, run, 6}};
  std::uint32_t seed = 0;
  for (const attention_case& c : cases) {
    CAPTURE(c.active);
    reduced_attention<Backend> sample(c, ++seed);
    const std::size_t heads = c.shape.heads;
    for (const auto over : {lazyprune::head_reduction::mean, lazyprune::head_reduction::max}) {
      CAPTURE(static_cast<int>(over));
      guarded<float> expected(c.probed, c.active);
      for (std::size_t r = 0; r < c.probed; ++r)
        lazyprune::reduce_heads({sample.each.view().row(r * heads), heads, sample.each.view().stride, sample.active()}, over,
                                {expected.view().row(r), c.active});
      lazyprune::attention_probe probe;
      probe.over_heads = over;
      sample.check(probe, expected);
    }
  }
}

/// With attention_probe::probes, a backend gives the bits that the host's reduce_queries computes from the backend's probabilities of all
/// heads. A head may stand in several probes, and heads may have any order.
template <class Backend>
void probed_heads() {
  using enum attention_sample::layout;
  using lazyprune::head_probe;
  using lazyprune::query_reduction;
  const attention_case cases[] = {{{1, 1, 8}, 1, 1, run, 1},
                                  {{8, 2, 16}, 65, 3, scattered, 2},
                                  {{6, 3, 5}, 300, 17, late_run, 3, {.window = 100}},
                                  {{7, 7, 33}, 613, 1, scattered, 1, {.soft_cap = 5}},
                                  {{4, 2, 16}, 1100, 70, run, 64}};
  std::uint32_t seed = 0;
  for (const attention_case& c : cases) {
    CAPTURE(c.active);
    reduced_attention<Backend> sample(c, ++seed);
    const auto heads = static_cast<std::uint32_t>(c.shape.heads);
    const std::vector<head_probe> all{{heads - 1, query_reduction::mean},
                                      {0, query_reduction::last},
                                      {heads / 2, query_reduction::max},
                                      {0, query_reduction::max},
                                      {heads - 1, query_reduction::last}};
    for (const std::size_t count : {std::size_t{1}, all.size()}) {
      guarded<float> expected(count, c.active);
      for (std::size_t p = 0; p < count; ++p)
        lazyprune::reduce_queries(sample.each.view().row(all[p].head), c.probed, heads * sample.each.view().stride, all[p].over,
                                  {expected.view().row(p), c.active});
      lazyprune::attention_probe probe;
      probe.probes = std::span(all).first(count);
      sample.check(probe, expected);
    }
  }
}

template <class Backend>
void softmax_of_huge_scores() {
  // Keys are +-2^13 and queries are 1, in four dimensions with scale 1/2. So scores are exactly +-2^14. The two largest keys share all
  // attention weight.
  Backend backend;
  const lazyprune::attention_shape shape{1, 1, 4};
  for (const std::size_t rows : {1u, 9u}) {
    const std::size_t tokens = 600, kept[] = {3, 590};
    std::vector<float> k(tokens * 4, -8192.0f), v(tokens * 4);
    for (std::size_t t = 0; t < tokens; ++t) v[t * 4] = static_cast<float>(t);
    for (const std::size_t t : kept) std::fill_n(k.begin() + static_cast<std::ptrdiff_t>(t * 4), 4, 8192.0f);
    typename Backend::kv_layer kv(1, 4);
    append(backend, kv, guarded<float>(tokens, 4, k).view(), guarded<float>(tokens, 4, v).view());
    std::vector<lazyprune::position> active(tokens);
    for (std::size_t t = 0; t < tokens; ++t) active[t] = static_cast<lazyprune::position>(t);
    const guarded<float> q(rows, 4, std::vector<float>(rows * 4, 1.0f));
    guarded<float> out(rows, 4), probe(1, tokens);
    attend(backend, q.view(), kv, {shape, std::span<const std::uint32_t>(active).last(rows), active, active}, out.view(),
           {probe.view().data, 1, probe.view().stride});
    for (std::size_t r = 0; r < rows; ++r) CHECK(out(r, 0) == (3 + 590) / 2.0f);
    for (std::size_t t = 0; t < tokens; ++t) CHECK(probe(0, t) == (t == 3 || t == 590 ? 0.5f : 0.0f));
  }
}

template <class Backend>
void equal_scores() {
  Backend backend;
  const std::size_t tokens = 4097;
  typename Backend::kv_layer kv(1, 1);
  std::vector<float> v(tokens);
  for (std::size_t t = 0; t < tokens; ++t) v[t] = t % 2 ? 1.0f : -1.0f;
  append(backend, kv, guarded<float>(tokens, 1, std::vector<float>(tokens, 3.0f)).view(), guarded<float>(tokens, 1, v).view());
  std::vector<lazyprune::position> active(tokens);
  for (std::size_t t = 0; t < tokens; ++t) active[t] = static_cast<lazyprune::position>(t);
  for (const std::size_t rows : {1u, 8u}) {
    const guarded<float> q(rows, 1, std::vector<float>(rows, 1.0f));
    guarded<float> out(rows, 1), probe(1, tokens);
    attend(backend, q.view(), kv, {{1, 1, 1}, std::span<const std::uint32_t>(active).last(rows), active, active}, out.view(),
           {probe.view().data, 1, probe.view().stride});
    for (const float p : std::span(probe.view().data, tokens)) CHECK(std::abs(p * 4097 - 1) <= 0x1p-22);  // exp(0) and 4097 are exact
    CHECK(std::abs(out(rows - 1, 0) * 4097 + 1) <= rounding(tokens, 4) * 4097);                           // sums of +-1/4097
  }
}

template <class Backend>
void row_moves() {
  Backend backend;
  using ids = std::vector<std::uint32_t>;
  const auto x = normal_floats(6 * 7, 1);
  const guarded<float> from(6, 7, x);
  guarded<float> to(4, 7, normal_floats(4 * 7, 2));
  const guarded<float> before = to;
  backend.copy_rows(from.view(), ids{5, 0, 5}, to.view(), ids{0, 3, 1});
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(to(0, i) == from(5, i));
    CHECK(to(1, i) == from(5, i));
    CHECK(to(2, i) == before(2, i));
    CHECK(to(3, i) == from(0, i));
  }
  CHECK(to.untouched());

  guarded<float> same(6, 7, x);  // towards the front, within one buffer
  backend.copy_rows(same.view(), ids{0, 2, 5}, same.view(), ids{0, 1, 2});
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(same(0, i) == from(0, i));
    CHECK(same(1, i) == from(2, i));
    CHECK(same(2, i) == from(5, i));
  }

  guarded<float> back(6, 7, x);  // towards the back, last row first
  backend.copy_rows(back.view(), ids{2, 1, 0}, back.view(), ids{5, 3, 1});
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(back(5, i) == from(2, i));
    CHECK(back(3, i) == from(1, i));
    CHECK(back(1, i) == from(0, i));
    CHECK(back(0, i) == from(0, i));
  }

  typename Backend::row_store store(7);
  backend.store_rows(from.view(), ids{4, 1}, store, ids{70, 2});
  CHECK(store.bytes() >= 2 * 7 * sizeof(float));
  backend.store_rows(from.view(), ids{3}, store, ids{2});
  guarded<float> again(3, 7, normal_floats(3 * 7, 3));
  const guarded<float> kept = again;
  backend.take_rows(store, ids{70, 2}, again.view(), ids{2, 0});
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(again(0, i) == from(3, i));
    CHECK(again(1, i) == kept(1, i));
    CHECK(again(2, i) == from(4, i));
  }
  CHECK(again.untouched());

  const guarded<float> none(0, 7);  // a view without rows
  guarded<float> untaken = again;
  backend.copy_rows(from.view(), ids{}, untaken.view(), ids{});
  backend.store_rows(none.view(), ids{}, store, ids{});
  backend.keep_rows(none.view(), ids{}, store, ids{});
  backend.take_rows(store, ids{}, untaken.view(), ids{});
  backend.add(none.view(), guarded<float>(0, 7).view());
  CHECK(untaken == again);
  typename Backend::kv_layer kv(1, 7);
  backend.put(kv, ids{}, none.view(), none.view());
  CHECK(kv.size() == 0);
  float nothing = 9;
  backend.read(none.view(), &nothing);
  backend.read_keys(kv, ids{}, &nothing);
  backend.read_values(kv, ids{}, &nothing);
  backend.write(&nothing, guarded<float>(0, 7).view());
  CHECK(nothing == 9.0f);

  std::vector<float> read(6 * 7 + 1, 9.0f);
  backend.read(from.view(), read.data());
  CHECK(std::equal(x.begin(), x.end(), read.begin()));
  CHECK(read.back() == 9.0f);
  guarded<float> written(6, 7);
  std::vector<float> freed = read;
  backend.write(freed.data(), written.view());
  std::ranges::fill(freed, 9.0f);
  CHECK(written == from);
}

template <class Backend>
void stored_rows() {
  Backend backend;
  using ids = std::vector<std::uint32_t>;
  const auto x = normal_floats(200 * 7, 1);
  const guarded<float> from(200, 7, x);
  ids all(200);
  for (std::uint32_t i = 0; i < 200; ++i) all[i] = i;
  typename Backend::row_store store(7), exact(7);
  backend.store_rows(from.view(), all, store, all);
  backend.keep_rows(from.view(), all, exact, all);
  const auto row_of = [&](const typename Backend::row_store& rows, std::uint32_t slot) {
    guarded<float> row(1, 7);
    backend.take_rows(rows, ids{slot}, row.view(), ids{0});
    return std::vector<float>(row.view().row(0), row.view().row(0) + 7);
  };
  const auto same = [&](const std::vector<float>& row, std::size_t r) { return std::ranges::equal(row, std::span(x).subspan(r * 7, 7)); };
  for (const std::uint32_t slot : {0u, 63u, 64u, 199u}) {
    CHECK(same(row_of(store, slot), slot));
    CHECK(same(row_of(exact, slot), slot));
  }

  typename Backend::row_store copy = store;
  backend.store_rows(from.view(), ids{5}, copy, ids{64});
  CHECK(same(row_of(copy, 64), 5));
  CHECK(same(row_of(store, 64), 64));
  CHECK(same(row_of(copy, 65), 65));

  const std::size_t full = copy.bytes();
  copy.retain([](auto&& keep) { keep(65u); });
  CHECK(copy.bytes() < full);
  CHECK(same(row_of(copy, 65), 65));
  copy.release(ids{65});
  CHECK(copy.bytes() == 0);
  CHECK(store.bytes() == full);
  CHECK(same(row_of(store, 65), 65));
}

template <class Backend>
void shared_caches() {
  Backend backend;
  const attention_sample s({2, 2, 3}, 613, 1, attention_sample::layout::run, 1);
  auto kv = s.cache(backend);
  auto copy = kv;
  const auto x = normal_floats(2 * 6, 7);
  const guarded<float> more(2, 6, x);
  backend.put(copy, std::vector<std::uint32_t>{300, 613}, more.view(), more.view());
  CHECK(copy.size() == 614);
  CHECK(kv.size() == 613);
  const auto key_of = [&](const typename Backend::kv_layer& from, std::uint32_t slot) {
    std::vector<float> key(6), value(6);
    backend.read_keys(from, std::span(&slot, 1), key.data());
    backend.read_values(from, std::span(&slot, 1), value.data());
    return std::pair(key, value);
  };
  CHECK(std::ranges::equal(key_of(copy, 300).first, std::span(x).first(6)));
  CHECK(std::ranges::equal(key_of(copy, 613).second, std::span(x).subspan(6)));
  CHECK(std::ranges::equal(key_of(kv, 300).first, std::span(s.k).subspan(300 * 6, 6)));
  for (const std::uint32_t slot : {0u, 255u, 299u, 301u, 612u}) CHECK(key_of(copy, slot) == key_of(kv, slot));
  kv.truncate(301);
  CHECK(kv.size() == 301);
  CHECK(key_of(copy, 612) == key_of(s.cache(backend), 612));
}

template <class Backend>
void caches() {
  Backend backend;
  const attention_sample s({2, 2, 3}, 613, 1, attention_sample::layout::run, 1);
  auto kv = s.cache(backend);
  const std::vector<std::uint32_t> slots{612, 0, 255, 256, 257, 511, 512, 5};
  std::vector<float> keys(slots.size() * 6 + 1, 9.0f), values = keys;
  backend.read_keys(kv, slots, keys.data());
  backend.read_values(kv, slots, values.data());
  for (std::size_t i = 0; i < slots.size() * 6; ++i) {
    CHECK(keys[i] == s.k[slots[i / 6] * 6 + i % 6]);
    CHECK(values[i] == s.v[slots[i / 6] * 6 + i % 6]);
  }
  CHECK(keys.back() == 9.0f);
  CHECK(values.back() == 9.0f);
  CHECK(kv.bytes() >= 613 * 2 * 6 * sizeof(float));
  kv.truncate(0);
  CHECK(kv.size() == 0);
}

template <class Backend>
void reserved_memory() {
  Backend backend;
  using ids = std::vector<std::uint32_t>;
  backend.reserve(lazyprune::operation_sizes{
      .rows = 10, .columns = 6, .block = 5, .gated_outputs = 14, .shape = {2, 2, 3}, .active = 700, .queries = 2, .read = 3});

  const attention_sample s({2, 2, 3}, 613, 1, attention_sample::layout::run, 1);
  typename Backend::kv_layer kv(2, 3);
  backend.reserve(kv, 1200);
  CHECK(kv.size() == 0);
  const std::size_t bytes = kv.bytes();
  CHECK(bytes >= 1200 * 2 * 6 * sizeof(float));
  const guarded<float> keys(s.total, 6, s.k), values(s.total, 6, s.v);
  append(backend, kv, keys.view().slice(0, 300), values.view().slice(0, 300));
  const auto copy = kv;  // has the slots, but not the reserved memory
  CHECK(copy.bytes() < bytes);
  CHECK(copy.size() == 300);
  append(backend, kv, keys.view().slice(300, 313), values.view().slice(300, 313));
  CHECK(kv.bytes() == bytes);
  const ids slots{0, 299, 300, 612};
  std::vector<float> read(slots.size() * 6);
  backend.read_keys(kv, slots, read.data());
  for (std::size_t i = 0; i < read.size(); ++i) CHECK(read[i] == s.k[slots[i / 6] * 6 + i % 6]);
  kv.truncate(0);
  append(backend, kv, keys.view(), values.view());
  append(backend, kv, keys.view().slice(0, 587), values.view().slice(0, 587));
  CHECK(kv.bytes() == bytes);

  const auto x = normal_floats(200 * 7, 1);
  const guarded<float> from(200, 7, x);
  ids all(200);
  for (std::uint32_t i = 0; i < 200; ++i) all[i] = i;
  for (const bool as_they_are : {true, false}) {
    typename Backend::row_store store(7);
    as_they_are ? backend.reserve_kept(store, 200) : backend.reserve_stored(store, 200);
    CHECK(store.size() == 0);
    const std::size_t held = store.bytes();
    CHECK(held >= 200 * 7 * sizeof(float));
    for (int again = 0; again < 2; ++again) {
      as_they_are ? backend.keep_rows(from.view(), all, store, all) : backend.store_rows(from.view(), all, store, all);
      CHECK(store.bytes() == held);
      guarded<float> row(1, 7);
      backend.take_rows(store, ids{150}, row.view(), ids{0});
      for (std::size_t i = 0; i < 7; ++i) CHECK(row(0, i) == from(150, i));
      typename Backend::row_store other = store;
      again ? store.release(all) : store.retain([](auto&&) {});
      CHECK(store.size() == 0);
      other.release(all);
      CHECK(other.bytes() == 0);
    }
    typename Backend::row_store alone(7);
    as_they_are ? backend.reserve_kept(alone, 200) : backend.reserve_stored(alone, 200);
    as_they_are ? backend.keep_rows(from.view(), all, alone, all) : backend.store_rows(from.view(), all, alone, all);
    alone.release(all);
    CHECK(alone.bytes() == held);
  }
}

template <class Backend>
void misfits() {
  Backend backend;
  const stored a(normal_floats(12, 1), 3, 4, dtype::f32), b(normal_floats(15, 1), 3, 5, dtype::f32),
      c(normal_floats(8, 1), 2, 4, dtype::f32);
  const tensor different[] = {a, b};
  CHECK(error_of([&] { backend.pack(different, dtype::f32); }) == at("pack", {"4", ", found 5"}));
  CHECK(error_of([&] { backend.pack({}, dtype::f32); }) == at("pack"));
  CHECK(error_of([&] { backend.pack(only(a), dtype::f16); }) == at("pack", {", found f16"}));
  CHECK(error_of([&] { backend.pack(only(a), dtype::q8_0); }) == at("pack", {", found q8_0"}));
  CHECK(error_of([&] { backend.pack_gated(a, c, dtype::f32); }) == at("pack_gated", {"3", ", found 2"}));
  CHECK(error_of([&] { backend.pack_gated(a, b, dtype::f32); }) == at("pack", {"4", ", found 5"}));
  CHECK(error_of([&] { backend.load(only(a)); }) == at("parameters", {", found 3"}));
}

}  // namespace lazyprune_test::contract

/// Calls PART(name, function) for every part of the contract. The function is a template over the type of the backend.
#define LAZYPRUNE_CONTRACT(PART)                                                                              \
  PART("a matrix with a row reader gives the same results as a matrix in memory", readers)                    \
  PART("products with stacked weights, with and without a bias, stored or added", products)                   \
  PART("gated products", gated_products)                                                                      \
  PART("norms, gates and packed rows give the same operands", operands)                                       \
  PART("attention of several sequences goes to the rows of one operand", attended_operands)                   \
  PART("gates of huge numbers are 0 or the number itself, never NaN", gates_at_both_ends)                     \
  PART("embedding gives the rows of the table, unchanged or times a scale", embedding)                        \
  PART("rms_norm, also in place", norms)                                                                      \
  PART("addition of rows", addition)                                                                          \
  PART("rotation by position", rotation)                                                                      \
  PART("attention and its probabilities", attention)                                                          \
  PART("the probabilities of all heads are reduced to one row of means or maxima", reduced_heads)             \
  PART("the probabilities of chosen heads are reduced over the queries", probed_heads)                        \
  PART("softmax of scores whose exp is out of range", softmax_of_huge_scores)                                 \
  PART("a long row of equal scores: each key counts the same", equal_scores)                                  \
  PART("rows are copied, stored and read back by their indices", row_moves)                                   \
  PART("copies share stored rows until one of them writes, and released rows free their memory", stored_rows) \
  PART("a copy of a cache shares its rows until one of them writes", shared_caches)                           \
  PART("a cache returns what was put into it, until it is truncated", caches)                                 \
  PART("operations use reserved memory, which stays allocated and is not copied", reserved_memory)            \
  PART("parts that do not fit together are refused", misfits)
