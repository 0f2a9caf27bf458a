// SPDX-License-Identifier: MIT
// product_plan.test.cpp tests the blocks and prefetches that follow from these numbers.
#include <lazyprune/backend/cpu/tuning.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/architecture.hpp>

using namespace lazyprune;
using lazyprune_test::paths_here;

TEST_CASE("blocks fit into the caches of any processor") {
  for (const std::size_t l1 : {16u << 10, 32u << 10, 48u << 10})
    for (const std::size_t l2 : {256u << 10, 1u << 20, 2u << 20, 16u << 20})
      for (const bool amd : {false, true})
        for (const isa path : paths_here())
          for (const kernels::product_kernel* const kernel :
               {&kernels::kernels_of(path).f32, &kernels::kernels_of(path).bf16, kernels::int8_kernel_of(path)}) {
            if (!kernel) continue;
            CAPTURE(l1);
            CAPTURE(l2);
            CAPTURE(name_of(path));
            detail::processor here;
            here.l1 = l1;
            here.l2 = l2;
            here.amd = amd;
            const product_tuning t = tuning_of(path, *kernel, here);
            const bool bf16 = kernel == &kernels::kernels_of(path).bf16, int8 = kernel->int8;
            const std::size_t of_rows = t.inputs * kernel->unit_bytes / kernels::pack_inputs;
            const std::size_t group = t.group * t.inputs * kernels::line_bytes / kernel->line_inputs;
            CHECK((t.inputs >= 32 && t.inputs % 32 == 0));
            CHECK((kernel->strip * of_rows <= l1 || t.inputs == 32));
            CHECK(t.weight_bytes < l2);
            if (path == isa::amx && bf16 && l2 >= 1u << 20) {
              const std::size_t sums = t.pass_rows * t.group * kernels::tile_outputs * sizeof(float);
              CHECK(t.pass_rows * of_rows + sums + 2 * group <= l2 * 3 / 4);
              CHECK((t.ahead == 0 && t.stream_ahead > 0));
            }
            CHECK(t.pass_rows >= kernel->strip);
            CHECK((t.group > 0 && t.group % 2 == 0));
            CHECK(t.far % kernels::line_bytes == 0);
            const bool tile_registers = path == isa::amx && bf16;
            const bool helped = amd && path != isa::portable && !tile_registers && !int8;
            CHECK((t.many_rows > 1) == (helped || tile_registers));
            CHECK((t.next_tile > 0) == helped);
            CHECK((t.far > 0) == (amd && path == isa::avx512_bf16 && bf16));
          }
}
