// SPDX-License-Identifier: MIT
// Tests attention of the same rows in different batches, and of keys and values in every type. tensor_backend.test.cpp tests keys and
// values in float, too.
#include <lazyprune/backend/cpu/attention.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <numeric>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>

#include <backend/kv_samples.hpp>
#include <backend/on_rows.hpp>
#include <backend/samples.hpp>
#include <backend/tested_cpu.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("attention of a few rows at a time agrees with attention of all rows at once" ON_EVERY_PATH) {
  tested_cpu backend;
  CHECK(few_against_many(backend, attention_sample({6, 2, 24}, 2700, 40, attention_sample::layout::late_run, 2), 4) <= together_or_not);
}

TEST_CASE("attention has the same bits with other numbers in tuning.hpp" ON_EVERY_PATH) {
  for (const dtype type : every_kv_type) {
    tested_cpu backend({.kv = type});
    const attention_sample s({6, 2, 24}, 700, 300, attention_sample::layout::late_run, 2);
    const auto kv = s.cache(backend);
    const guarded<float> q(s.rows.size(), s.q_width(), s.q);
    const std::size_t active = s.active.size();
    const auto attended = [&](const attention_tuning& tuning) {
      std::vector<float> probe(2 * active), found(s.q.size());
      packed_rows out(s.q_width());
      out.prepare(kernels::kernels_of(backend.instructions()).f32, s.rows.size(), s.q_width());
      attention_layer layer(kernels::kernels_of(backend.instructions()), 2, tuning);
      layer.attend(q.view(), kv, s.what(), out, 0,
                   {.data = probe.data(), .queries = 2, .stride = active, .over_heads = head_reduction::mean});
      for (std::size_t i = 0; i < found.size(); ++i) found[i] = out.number(i / s.q_width(), i % s.q_width());
      found.insert(found.end(), probe.begin(), probe.end());
      return found;
    };
    const auto expected = attended({});
    CHECK(attended({.strips = 1, .unpacked_bytes = 1, .reduced_tokens = 32}) == expected);
    CHECK(attended({.strips = 64, .unpacked_bytes = 1 << 20, .reduced_tokens = 4096}) == expected);
  }
}

TEST_CASE("a row gets the same bits whichever rows are in its call, with a window and without" ON_EVERY_PATH) {
  using layout = attention_sample::layout;
  for (const dtype type : every_kv_type)
    for (const auto where : {layout::late_run, layout::scattered})
      for (const std::size_t window : {1u, 40u, 511u, 100000u}) {
        if (window != 40 && (type == dtype::f16 || type == dtype::q8_0)) continue;  // windows do not depend on the type
        CAPTURE(window);
        CAPTURE(static_cast<int>(where));
        tested_cpu backend({.kv = type});
        const attention_sample s({6, 2, 24}, 1300, 80, where, 4);
        const auto kv = s.cache(backend);
        const guarded<float> q(80, s.q_width(), s.q);
        guarded<float> many(80, s.q_width()), few(80, s.q_width());
        attention_rows what = s.what();
        what.rows_of_layer = what.rows;
        what.variant = {.soft_cap = window == 511 ? 4.0 : 0.0, .window = window};
        attend(backend, q.view(), kv, what, many.view(), {});
        const std::span<const position> rows = what.rows;
        for (std::size_t r = 0, count = 1; r < 80; r += count, count = std::min<std::size_t>(80 - r, count % 7 + 1)) {
          what.rows = rows.subspan(r, count);
          if (where == layout::late_run) {  // keys in a run are never copied, so tokens before all windows need not be passed
            std::size_t before = 0;
            while (what.rows[0] >= s.active[before] + window) ++before;
            what.active = std::span(s.active).subspan(r % 2 ? before : 0);
            what.slots = std::span(s.slots).subspan(r % 2 ? before : 0);
          }
          attend(backend, q.view().slice(r, count), kv, what, few.view().slice(r, count), {});
        }
        CHECK(many == few);
        if (window < 100000) continue;
        what = s.what();
        what.rows_of_layer = what.rows;
        attend(backend, q.view(), kv, what, few.view(), {});
        CHECK(many == few);  // a window with all tokens gives the same bits as no window
      }
}

TEST_CASE("keys in a bad order give the bits of keys in the order of their tokens" ON_EVERY_PATH) {
  for (const dtype type : every_kv_type)
    for (const std::size_t window : {0u, 90u}) {
      CAPTURE(std::string(name_of(type)));
      CAPTURE(window);
      tested_cpu backend({.kv = type});
      const attention_sample s({6, 2, 33}, 700, 120, attention_sample::layout::scattered, 5);
      attention_sample in_order = s;
      const std::size_t width = s.kv_width();
      for (std::size_t i = 0; i < s.active.size(); ++i) {
        in_order.slots[i] = static_cast<std::uint32_t>(i);
        std::copy_n(s.k.begin() + static_cast<std::ptrdiff_t>(s.slots[i] * width), width,
                    in_order.k.begin() + static_cast<std::ptrdiff_t>(i * width));
        std::copy_n(s.v.begin() + static_cast<std::ptrdiff_t>(s.slots[i] * width), width,
                    in_order.v.begin() + static_cast<std::ptrdiff_t>(i * width));
      }
      const auto attended = [&](const attention_sample& sample) {
        std::vector<float> probe(2 * sample.shape.heads * sample.active.size());
        guarded<float> out(sample.rows.size(), sample.q_width());
        attention_rows what = sample.what();
        what.variant.window = window;
        attend(backend, guarded<float>(sample.rows.size(), sample.q_width(), sample.q).view(), sample.cache(backend), what, out.view(),
               {.data = probe.data(), .queries = 2, .stride = sample.active.size()});
        return std::pair(out, probe);
      };
      CHECK(attended(s) == attended(in_order));
    }
}

TEST_CASE("tokens outside all windows are not read" ON_EVERY_PATH) {
  tested_cpu backend;
  const attention_shape shape{2, 1, 16};
  const std::size_t tokens = 2000, width = 16, rows = 100, window = 300;
  std::vector<float> k = normal_floats(tokens * width, 1), v = normal_floats(tokens * width, 2);
  const std::vector<float> q = normal_floats(rows * 2 * width, 3);
  std::vector<position> all(tokens);
  std::iota(all.begin(), all.end(), position{0});
  const auto attended = [&] {
    cpu::kv_layer kv(1, width);
    append(backend, kv, guarded<float>(tokens, width, k).view(), guarded<float>(tokens, width, v).view());
    guarded<float> out(rows, 2 * width);
    attention_rows what{shape, std::span<const position>(all).last(rows), all, all};
    what.variant.window = window;
    attend(backend, guarded<float>(rows, 2 * width, q).view(), kv, what, out.view(), {});
    return out;
  };
  const auto clean = attended();
  // The first row sees the tokens from 1601 on. Tiles of 32 keys that no row sees are not read, so infinities in them do no harm.
  const std::size_t unread = (tokens - rows - window + 1) / 32 * 32 * width;
  std::fill_n(k.begin(), unread, std::numeric_limits<float>::infinity());
  std::fill_n(v.begin(), unread, std::numeric_limits<float>::infinity());
  CHECK(attended() == clean);
}

namespace {

/// Compares attention in a cache of this type with the reference, which gets the numbers that the cache keeps.
void check_against_reference(dtype type) {
  tested_cpu backend({.kv = type});
  const double rounded = type == dtype::q8_0 ? 2 : 1;  // factors of a product that are rounded
  const bool rounds = backend.rounds() && kernels::kernels_of(backend.instructions()).tiles_of(type) == dtype::bf16;
  using layout = attention_sample::layout;
  std::uint32_t seed = 0;
  for (const auto& [shape, active, rows, where] :
       {std::tuple{attention_shape{4, 2, 64}, 600, 600, layout::run}, std::tuple{attention_shape{8, 1, 20}, 300, 50, layout::scattered},
        std::tuple{attention_shape{3, 3, 33}, 1500, 1, layout::late_run},
        std::tuple{attention_shape{32, 4, 16}, 1100, 3, layout::scattered}}) {
    attention_sample s(shape, static_cast<std::size_t>(active), static_cast<std::size_t>(rows), where, ++seed);
    for (auto* numbers : {&s.k, &s.v}) *numbers = kept_as(type, *numbers, shape.head_dim);
    const auto kv = s.cache(backend);
    CHECK(kv.type() == type);
    const std::size_t n = s.rows.size(), heads = s.shape.heads, count = s.active.size();
    const guarded<float> q(n, s.q_width(), s.q);
    guarded<float> out(n, s.q_width()), probe(heads, count);
    attend(backend, q.view(), kv, s.what(), out.view(), {probe.view().data, 1, probe.view().stride});
    CHECK(out.untouched());
    CHECK(probe.untouched());

    reference<double> oracle;
    const guarded<double> exact_q(n, s.q_width(), s.q);
    guarded<double> exact(n, s.q_width());
    guarded<float> exact_probe(heads, count);
    attend(oracle, exact_q.view(), s.cache(oracle), s.what(), exact.view(), {exact_probe.view().data, 1, exact_probe.view().stride});
    // If products take only bf16, queries are rounded to bf16, and so are keys and values in q8_0. Each rounding is at most 2^-8 of a
    // number, and goes up as often as down. The typical error of a score is then 0.42 * 2^-8 times the root of the sum of its squared terms
    // (path_tolerance.hpp). An error six times as large is practically impossible. Attention weights are rounded likewise.
    double worst_out = 0, worst_probe = 0;
    const auto note = [](double& worst, double error, double allowed) { worst = std::max(worst, std::abs(error) / allowed); };
    for (std::size_t r = 0; r < n; ++r)
      for (std::size_t h = 0; h < heads; ++h) {
        const std::size_t d = s.shape.head_dim, at = h * s.shape.kv_heads / heads * d;
        double score_off = 0, largest_value = 0;
        for (std::size_t i = 0; i < count && s.active[i] <= s.rows[r]; ++i) {
          double squares = 0, sum = 0;
          for (std::size_t e = 0; e < d; ++e) {
            const std::size_t key = s.slots[i] * s.kv_width() + at + e;
            const double term = static_cast<double>(s.q[r * s.q_width() + h * d + e]) * s.k[key] / std::sqrt(static_cast<double>(d));
            squares += term * term;
            sum += std::abs(term);
            largest_value = std::max<double>(largest_value, std::abs(s.v[key]));
          }
          score_off = std::max(score_off, (rounds ? 6 * 0.42 * 0x1p-8 * std::sqrt(rounded * squares) : 0) + 100 * 0x1p-24 * sum);
        }
        const double relative = std::expm1(2 * score_off) + 100 * 0x1p-24;
        for (std::size_t e = 0; e < d; ++e)
          note(worst_out, out(r, h * d + e) - exact(r, h * d + e), (relative + (rounds ? 0x1p-8 : 0)) * largest_value);
        if (r + 1 < n) continue;
        for (std::size_t i = 0; i < count; ++i)
          note(worst_probe, static_cast<double>(probe(h, i)) - exact_probe(h, i), relative * exact_probe(h, i));
      }
    CHECK(worst_out <= 1);
    CHECK(worst_probe <= 1);
  }
}

}  // namespace

TEST_CASE("attention with keys and values in every type agrees with the reference" ON_EVERY_PATH) {
  for (const dtype type : every_kv_type) {
    CAPTURE(std::string(name_of(type)));
    check_against_reference(type);
  }
}
