// SPDX-License-Identifier: MIT
// product_plan.test.cpp tests the blocks and prefetches that follow from these numbers.
#include <lazyprune/backend/cpu/tuning.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

TEST_CASE("blocks fit into the caches of any processor") {
  for (const std::size_t l1 : {16u << 10, 32u << 10, 48u << 10})
    for (const std::size_t l2 : {256u << 10, 1u << 20, 2u << 20, 16u << 20})
      for (const bool amd : {false, true})
        for (const isa path : every_isa)
          for (const dtype weights : {dtype::f32, dtype::bf16}) {
            CAPTURE(l1);
            CAPTURE(l2);
            CAPTURE(name_of(path));
            detail::processor here;
            here.l1 = l1;
            here.l2 = l2;
            here.amd = amd;
            const product_tuning t = tuning_of(path, weights, here);
            const kernels::product_kernel& kernel = kernels::kernels_of(path).product(weights);
            const std::size_t strip = kernel.strip * t.inputs * kernel.element;
            const std::size_t group = t.group * t.inputs * kernels::line_bytes / kernel.line_inputs;
            CHECK((t.inputs >= 32 && t.inputs % 32 == 0));
            CHECK((strip <= l1 || group <= l2 / 4));
            CHECK(t.weight_bytes < l2);
            CHECK(t.pass_rows >= kernel.strip);
            CHECK((t.group > 0 && t.group % 2 == 0));
            CHECK(t.far % kernels::line_bytes == 0);
            const bool helped = amd && path != isa::portable;
            CHECK((t.many_rows > 1) == helped);
            CHECK((t.next_tile > 0) == helped);
            CHECK((t.far > 0) == (amd && path == isa::avx512_bf16 && weights == dtype::bf16));
          }
}
