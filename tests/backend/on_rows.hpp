// SPDX-License-Identifier: MIT
// A backend's operations on operands, for tests whose numbers are rows: x goes into an operand first, and results come out of one.
#pragma once

#include <lazyprune/backend/tensor_backend.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

#include <backend/samples.hpp>

namespace lazyprune_test {

template <class Backend>
using rows_of = lazyprune::rows_view<typename Backend::scalar>;
template <class Backend>
using const_rows_of = lazyprune::rows_view<const typename Backend::scalar>;

/// Returns x as an operand of products with w.
template <class Backend>
typename Backend::operand operand_of(Backend& backend, const_rows_of<Backend> x, const typename Backend::matrix& w) {
  typename Backend::operand made(x.columns);
  backend.prepare(made, x.rows, w);
  backend.pack_rows(x, made);
  return made;
}

template <class Backend>
void multiply(Backend& backend, const_rows_of<Backend> x, const typename Backend::matrix& w, const typename Backend::parameters* bias,
              rows_of<Backend> out) {
  backend.multiply(operand_of(backend, x, w), w, bias, out);
}

template <class Backend>
void multiply_add(Backend& backend, const_rows_of<Backend> x, const typename Backend::matrix& w, const typename Backend::parameters* bias,
                  rows_of<Backend> out) {
  backend.multiply_add(operand_of(backend, x, w), w, bias, out);
}

/// Calls work(operand), where the operand has the shape of `out`, for products with weights of this type. Then reads the operand to `out`.
template <class Backend, class Work>
void through_operand(Backend& backend, lazyprune::dtype type, rows_of<Backend> out, const Work& work) {
  if (out.columns == 0) return;
  const auto w = backend.pack(only(stored(std::vector<float>(out.columns), 1, out.columns, type)), type);
  typename Backend::operand made(out.columns);
  backend.prepare(made, out.rows, w);
  work(made);
  std::vector<typename Backend::scalar> numbers(out.rows * out.columns);
  backend.read(made, numbers.data());
  for (std::size_t r = 0; r < out.rows; ++r) std::copy_n(&numbers[r * out.columns], out.columns, out.row(r));
}

/// Computes a gated product whose results are not rounded.
template <class Backend>
void gated_multiply(Backend& backend, const_rows_of<Backend> x, const typename Backend::matrix& w, const typename Backend::parameters* bias,
                    lazyprune::gate_activation gate, rows_of<Backend> out) {
  through_operand(backend, lazyprune::dtype::f32, out,
                  [&](auto& to) { backend.gated_multiply(operand_of(backend, x, w), w, bias, gate, to); });
}

/// Computes attention whose results are not rounded.
template <class Backend>
void attend(Backend& backend, const_rows_of<Backend> q, const typename Backend::kv_layer& kv, const lazyprune::attention_rows& what,
            rows_of<Backend> out, const lazyprune::attention_probe& probe) {
  through_operand(backend, lazyprune::dtype::f32, out, [&](auto& to) { backend.attend(q, kv, what, to, 0, probe); });
}

/// The largest difference that few_against_many may return. Values and scores are up to 5, and each of the two results has some hundred
/// roundings of 2^-24.
inline constexpr double together_or_not = 2e-5;

/// Computes attention of all rows in one call, and then of `few_rows` rows in each call. Returns the largest difference between the two
/// results.
template <class Backend>
double few_against_many(Backend& backend, const attention_sample& s, std::size_t few_rows) {
  const std::size_t rows = s.rows.size();
  const auto kv = s.cache(backend);
  const guarded<float> q(rows, s.q_width(), s.q);
  guarded<float> many(rows, s.q_width()), few(rows, s.q_width());
  attend(backend, q.view(), kv, s.what(), many.view(), {});
  for (std::size_t r = 0; r < rows; r += few_rows) {
    const std::size_t count = std::min(few_rows, rows - r);
    lazyprune::attention_rows what = s.what();
    what.rows = what.rows.subspan(r, count);
    attend(backend, q.view().slice(r, count), kv, what, few.view().slice(r, count), {});
  }
  double apart = 0;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < s.q_width(); ++i) apart = std::max(apart, static_cast<double>(std::abs(many(r, i) - few(r, i))));
  return apart;
}

}  // namespace lazyprune_test
