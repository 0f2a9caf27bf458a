// SPDX-License-Identifier: MIT
// Everything is computed once, and what is asked for is what comes next. What products make of it: linear_layers.test.cpp.
#include <lazyprune/backend/cpu/product_plan.hpp>

#include <doctest/doctest.h>

#include <lazyprune/backend/cpu/kernels/kernels.hpp>

#include <backend/samples.hpp>

#include <set>

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

packed_matrix zeros(std::size_t outputs, std::size_t inputs, dtype as) {
  return {only(stored(std::vector<float>(outputs * inputs), outputs, inputs, dtype::f32)), as, 1};
}

/// f(group, part) in the order of one thread.
template <class F>
void for_parts(const product_plan& plan, F f) {
  for (std::size_t g = 0; g < plan.groups(); ++g)
    for (product_part p = plan.first_part(g); p.first == plan.first_part(g).first; p = plan.after(p)) f(p);
}

}  // namespace

TEST_CASE("parts hold every tile and input once, and what tiles ask for is there") {
  for (const dtype as : {dtype::f32, dtype::bf16}) {
    const packed_matrix w = zeros(700, 2100, as);
    for (const isa path : every_isa)
      for (const std::size_t rows : {1u, 5u, 40u, 500u})
        for (const int threads : {1, 3}) {
          CAPTURE(name_of(path));
          CAPTURE(rows);
          const kernels::product_kernel& kernel = kernels::product_kernel_for(path, as);
          const product_plan plan(kernel, rows, w, threads);
          const std::vector<std::byte> packed(plan.strips() * plan.strip_bytes());
          const auto inside = [](const std::byte* at, const std::byte* data, std::size_t bytes) { return at >= data && at < data + bytes; };
          std::vector<int> times(w.panels() / 2 * w.depth());
          bool there = true;
          for_parts(plan, [&](const product_part& p) {
            for (std::size_t t = p.first; t < p.last; ++t) {
              for (std::size_t k = p.k; k < p.k + p.count; ++k) ++times[t * w.depth() + k];
              for (std::size_t s = 0; s < plan.strips(); ++s) {
                const std::byte* at = plan.ahead(p, s, t - p.first, packed.data()).from;
                there = there && (inside(at, packed.data(), packed.size()) || inside(at, w.panel(0), w.bytes()));
              }
            }
          });
          CHECK(std::ranges::all_of(times, [](int n) { return n == 1; }));
          CHECK(there);
          std::size_t in_strips = 0;
          for (std::size_t s = 0; s < plan.strips(); ++s) in_strips += plan.rows_of(s);
          CHECK(in_strips == rows);
        }
  }
}

TEST_CASE("while a part is computed, the next strip and nearly all lines of the next part are asked for") {
  const packed_matrix w = zeros(1024, 2048, dtype::bf16);
  for (const isa path : every_isa) {
    CAPTURE(name_of(path));
    const kernels::product_kernel& kernel = kernels::product_kernel_for(path, dtype::bf16);
    const product_plan plan(kernel, 500, w, 1);
    const std::vector<std::byte> packed(plan.strips() * plan.strip_bytes());
    const product_part p = plan.first_part(0), next = plan.after(p);
    std::set<const std::byte*> weights, strip;  // lines
    const auto line_of = [](const std::byte* at) { return at - reinterpret_cast<std::uintptr_t>(at) % kernels::line_bytes; };
    for (std::size_t s = 0; s < plan.strips(); ++s)
      for (std::size_t i = 0; i < p.last - p.first; ++i) {
        const kernels::reading_ahead ahead = plan.ahead(p, s, i, packed.data());
        for (std::size_t k = 0; k < p.count; ++k) {
          const std::byte* line = line_of(ahead.from + k * ahead.step);
          if (i % 2 == 1) weights.insert(line);
          if (i % 2 == 0 && s == 0) strip.insert(line);
        }
      }
    if (plan.ahead(p, 0, 0, packed.data()).step == 0) {
      MESSAGE("nothing is read ahead for " << std::string(name_of(path)) << ": no room in this processor's L2");
      continue;
    }
    std::size_t lines = 0, asked = 0;
    for (std::size_t panel = 2 * next.first; panel < 2 * next.last; ++panel)
      for (std::size_t k = next.k; k < next.k + next.count; k += 2, ++lines) asked += weights.count(w.panel(panel, k));
    CHECK(asked * 100 >= lines * 95);
    lines = asked = 0;
    const std::size_t first = plan.packed_offset(1, p.k), bytes = plan.packed_offset(1, p.k + p.count) - first;
    for (std::size_t at = 0; at < bytes; at += kernels::line_bytes, ++lines) asked += strip.count(line_of(packed.data() + first + at));
    CHECK(asked * 100 >= lines * 95);
  }
}
