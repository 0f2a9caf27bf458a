// SPDX-License-Identifier: MIT
// Compares attention on the device with the reference: in one case, and in random cases of every shape.
#pragma once

#include <lazyprune/backend/tensor_backend.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include <backend/on_rows.hpp>
#include <backend/samples.hpp>
#include <lazyprune/backend/reference.hpp>

#include "hosted_cuda.hpp"

namespace lazyprune_test {

struct attention_grid_case {
  lazyprune::attention_shape shape;
  std::size_t active, rows;
  attention_sample::layout layout;
  lazyprune::attention_variant variant = {};
  lazyprune::dtype kv = lazyprune::dtype::bf16;
  bool exact = false;
  std::size_t furthest = 3;  // the largest distance between neighbouring active tokens, in positions

  /// Returns the number of multiplications for the scores. The weighted sums of the values need as many again.
  std::size_t work() const { return shape.heads * shape.head_dim * rows * active; }
};

/// Returns the largest error of the outputs of a case, in units of the allowed error. Checks it and the probabilities.
///
/// The allowed error is derived as follows. The reference gets keys and values as they are stored. If they are bf16 and the backend is not
/// exact, the reference also gets queries in bf16, as tensor cores do. Only in this case are attention weights rounded, each by at most
/// 2^-8 of its value. The result may differ by 2^-8 of the sum of the absolute values of its terms. Everything else is float. A sum of
/// head_dim terms has an error of 0.42 sqrt(head_dim / 2) 2^-24 of its value (path_tolerance.hpp). The largest score in these cases is 16,
/// in heads of 256 numbers, and its error is 5e-6. An attention weight then has a relative error of 5e-6, and twice as much is allowed.
inline double off_by(const attention_grid_case& c, std::uint32_t seed) {
  using namespace lazyprune;
  CAPTURE(c.shape.heads);
  CAPTURE(c.shape.kv_heads);
  CAPTURE(c.shape.head_dim);
  CAPTURE(c.active);
  CAPTURE(c.rows);
  CAPTURE(static_cast<int>(c.layout));
  CAPTURE(c.variant.scale);
  CAPTURE(c.variant.soft_cap);
  CAPTURE(c.variant.window);
  CAPTURE(c.furthest);
  CAPTURE(c.exact);
  CAPTURE(c.kv == dtype::bf16);
  attention_sample s(c.shape, c.active, c.rows, c.layout, seed, c.furthest);
  const auto round = [](std::vector<float>& numbers) {
    for (float& number : numbers) number = float_of_bf16(bf16_of_float(number));
  };
  const bool in_bf16 = c.kv == dtype::bf16, rounds = in_bf16 && !c.exact;
  if (in_bf16) round(s.k), round(s.v);
  if (rounds) round(s.q);
  attention_rows what = s.what();
  what.variant = c.variant;
  hosted_cuda backend({.kv = c.kv, .exact = c.exact});
  const auto kv = s.cache(backend);
  if (c.active > 0) CHECK(kv.type() == c.kv);
  const std::size_t probed = std::min<std::size_t>(c.rows, 2),
                    gap = seed % 2 ? 5 : 8;  // with 8, rows are aligned, so kernels read and write several numbers at once
  CAPTURE(gap);
  const guarded<float> q(c.rows, s.q_width(), s.q, gap);
  guarded<float> out(c.rows, s.q_width(), {}, gap), probe(probed * c.shape.heads, c.active);
  attend(backend, q.view(), kv, what, out.view(), {probe.view().data, probed, probe.view().stride});
  CHECK(out.untouched());
  CHECK(probe.untouched());

  reference<double> oracle;
  const auto exact_kv = s.cache(oracle);
  attention_sample magnitudes = s;
  for (float& number : magnitudes.v) number = std::abs(number);
  const auto exact_magnitudes = magnitudes.cache(oracle);
  const guarded<double> exact_q(c.rows, s.q_width(), s.q);
  guarded<double> sums(c.rows, s.q_width()), terms(c.rows, s.q_width());
  guarded<float> probabilities(probed * c.shape.heads, c.active);
  attend(oracle, exact_q.view(), exact_kv, what, sums.view(), {probabilities.view().data, probed, probabilities.view().stride});
  attend(oracle, exact_q.view(), exact_magnitudes, what, terms.view(), {});
  double worst = 0, worst_probability = 0;
  const auto larger = [](double a, double b) { return std::isnan(b) || b >= a ? b : a; };  // NaN if either is NaN
  for (std::size_t r = 0; r < c.rows; ++r)
    for (std::size_t i = 0; i < s.q_width(); ++i)
      worst = larger(std::abs(out(r, i) - sums(r, i)) / ((rounds ? 0x1p-8 + 1e-5 : 1e-5) * terms(r, i)), worst);
  for (std::size_t r = 0; r < probed * c.shape.heads; ++r)
    for (std::size_t i = 0; i < c.active; ++i)
      worst_probability = larger(static_cast<double>(std::abs(probe(r, i) - probabilities(r, i))), worst_probability);
  CHECK(worst <= 1);
  CHECK(worst_probability <= 1e-5);
  return worst;
}

/// Draws cases at random. An axis is a property of a case, and a case has one value of each axis. The walk leaves out cases with more work
/// than `most_work`, and cases without a new pair of values. It ends after 2,000 draws in a row without a new case.
struct attention_walk {
  std::vector<attention_grid_case> cases;
  bool every_value = true;  // whether every value of every axis is in some case
  std::size_t pairs = 0, all_pairs = 0;

  explicit attention_walk(std::size_t most_work) {
    using enum attention_sample::layout;
    constexpr std::array<std::size_t, 7> heads{1, 2, 3, 8, 12, 32, 64};
    constexpr std::array<std::size_t, 4> groups{1, 2, 4, 64};  // heads that share keys: the largest divisor of `heads` up to this
    constexpr std::array<std::size_t, 10> head_dims{32, 64, 128, 256, 5, 8, 33, 48, 80, 96};
    constexpr std::array<std::size_t, 8> rows{0, 1, 2, 15, 16, 17, 64, 300};
    constexpr std::array<std::size_t, 4> others{0, 1, 30, 290};  // active tokens that are not rows
    constexpr std::array<std::size_t, 3> furthest{1, 3, 40};     // with 1, all tokens are active; with 3, some; with 40, few
    constexpr std::array layouts{run, late_run, scattered};
    constexpr std::array<std::size_t, 4> windows{0, 1, 17, 256};  // 1: every row sees only itself
    constexpr std::array<double, 2> caps{0, 20}, scales{0, 0.2};
    constexpr std::array<std::size_t, 4> kinds{0, 1, 2, 3};  // f32 or bf16 for keys and values; exact or not
    const std::array sizes{heads.size(),   groups.size(),  head_dims.size(), rows.size(),   others.size(), furthest.size(),
                           layouts.size(), windows.size(), caps.size(),      scales.size(), kinds.size()};
    for (std::size_t a = 0; a < sizes.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) all_pairs += sizes[a] * sizes[b];

    std::mt19937 random(7);
    std::set<std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>> met;
    std::set<std::pair<std::size_t, std::size_t>> values;
    for (std::size_t in_vain = 0; in_vain < 2000; ++in_vain) {
      std::array<std::size_t, sizes.size()> at;
      for (std::size_t a = 0; a < sizes.size(); ++a) at[a] = random() % sizes[a];
      std::size_t group = std::min(groups[at[1]], heads[at[0]]);
      while (heads[at[0]] % group != 0) --group;
      const attention_grid_case c{{heads[at[0]], heads[at[0]] / group, head_dims[at[2]]},
                                  rows[at[3]] + others[at[4]],
                                  rows[at[3]],
                                  layouts[at[6]],
                                  {.scale = scales[at[9]], .soft_cap = caps[at[8]], .window = windows[at[7]]},
                                  at[10] % 2 ? lazyprune::dtype::bf16 : lazyprune::dtype::f32,
                                  at[10] / 2 == 1,
                                  furthest[at[5]]};
      if (c.work() > most_work) continue;
      const std::size_t before = met.size();
      for (std::size_t a = 0; a < sizes.size(); ++a) {
        values.emplace(a, at[a]);
        for (std::size_t b = 0; b < a; ++b) met.emplace(a, at[a], b, at[b]);
      }
      if (met.size() == before) continue;
      cases.push_back(c);
      in_vain = 0;
    }
    pairs = met.size();
    for (std::size_t a = 0; a < sizes.size(); ++a)
      for (std::size_t i = 0; i < sizes[a]; ++i) every_value = every_value && values.contains({a, i});
  }
};

}  // namespace lazyprune_test
