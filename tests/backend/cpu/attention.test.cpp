// SPDX-License-Identifier: MIT
// The two ways of attention against each other, and how keys are cut into blocks; against the definition: tensor_backend.test.cpp.
#include <lazyprune/backend/cpu/attention.hpp>

#include <doctest/doctest.h>

#include <lazyprune/backend/cpu.hpp>

#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

attention_rows with_slots(const attention_sample& s, std::span<const std::uint32_t> slots) { return {s.shape, {}, {}, slots}; }

}  // namespace

TEST_CASE("blocks cover the keys; those of a run are the cache's own, in place") {
  cpu backend;
  const attention_sample s({2, 2, 8}, 900, 1, attention_sample::layout::run, 1);
  const auto kv = s.cache(backend);
  std::vector<float> scratch(simd::key_blocks::size * 8);
  for (const std::size_t first : {0u, 1u, 255u, 256u, 300u})
    for (const std::size_t count : {1u, 2u, 255u, 256u, 257u, 600u}) {
      CAPTURE(first);
      CAPTURE(count);
      std::vector<std::uint32_t> slots(count);
      std::iota(slots.begin(), slots.end(), static_cast<std::uint32_t>(first));
      for (const bool scattered : {false, true}) {
        if (scattered) std::ranges::reverse(slots);
        const simd::key_blocks keys(kv, with_slots(s, slots));
        std::size_t covered = 0;
        for (std::size_t block = 0; block < keys.count(); ++block) {
          REQUIRE(keys.begin(block) == covered);
          const auto k = keys.key_rows(block, 1, scratch.data());
          REQUIRE(k.rows > 0);
          REQUIRE(k.rows <= simd::key_blocks::size);
          CHECK((k.data == scratch.data()) == (scattered && count > 1));
          for (std::size_t i = 0; i < k.rows; ++i) REQUIRE(std::equal(k.row(i), k.row(i) + 8, kv.key(slots[covered + i]) + 8));
          const auto v = keys.value_rows(block, 1, scratch.data());
          for (std::size_t i = 0; i < v.rows; ++i) REQUIRE(std::equal(v.row(i), v.row(i) + 8, kv.value(slots[covered + i]) + 8));
          covered += k.rows;
        }
        CHECK(covered == count);
      }
    }
  CHECK(simd::key_blocks(kv, with_slots(s, {})).count() == 0);
}

TEST_CASE("a row alone, a few rows and many rows agree") {
  cpu backend;
  const attention_sample s({6, 2, 24}, 700, 40, attention_sample::layout::late_run, 2);
  const auto kv = s.cache(backend);
  const guarded<float> q(40, s.q_width(), s.q);
  guarded<float> many(40, s.q_width()), few(40, s.q_width());
  backend.attend(q.view(), kv, s.what(), many.view(), {});
  for (std::size_t r = 0; r < 40; r += 4) {
    attention_rows what = s.what();
    what.rows = what.rows.subspan(r, 4);
    backend.attend(q.view().slice(r, 4), kv, what, few.view().slice(r, 4), {});
  }
  double worst = 0;
  for (std::size_t r = 0; r < 40; ++r)
    for (std::size_t i = 0; i < s.q_width(); ++i) worst = std::max(worst, static_cast<double>(std::abs(many(r, i) - few(r, i))));
  CHECK(worst <= 2e-5);  // values and scores up to 5: some hundred roundings of 2^-24 each on either side
}
