// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/attention_layout.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/architecture.hpp>
#include <backend/kv_samples.hpp>
#include <backend/samples.hpp>
#include <lazyprune/backend/cpu/kernels/kernels.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("the strips of all tasks contain every query of every head once, and the areas of a task's memory do not overlap") {
  for (const isa path : paths_here())
    for (const dtype type : every_kv_type)
      for (const attention_shape shape : {attention_shape{8, 2, 64}, attention_shape{6, 3, 5}, attention_shape{32, 1, 20}})
        for (const std::size_t rows : {1u, 7u, 600u}) {
          const kernels::kernel_set& set = kernels::kernels_of(path);
          const kernels::product_kernel& product = set.product(set.tiles_of(type));
          packed_kv kv(shape.kv_heads, shape.head_dim);
          const guarded<float> one(1, kv.width());
          kv.put(std::vector<std::uint32_t>{0}, one.view(), one.view(), type, 1);
          const attention_layout layout(set, shape, kv, rows);
          REQUIRE(&layout.product() == &product);
          REQUIRE(product.strip <= attention_layout::most_strip);
          std::vector<int> times(rows * shape.heads);
          std::size_t most_strips = 0;
          for (std::size_t t = 0; t < layout.tasks(); ++t) {
            const query_rows task = layout.task(t);
            most_strips = std::max(most_strips, layout.strips(task.count));
            for (std::size_t s = 0; s < layout.strips(task.count); ++s) {
              const auto [from, count] = layout.strip_of(task, s);
              REQUIRE(count >= 1);
              REQUIRE(count <= product.strip);
              for (std::size_t i = from; i < from + count; ++i) ++times[layout.row_of(task, i) * shape.heads + layout.head_of(task, i)];
            }
          }
          CHECK(std::ranges::all_of(times, [](int n) { return n == 1; }));
          CHECK(layout.converts() == (most_strips > 1 && (product.widen || kv.needs_unpacking())));
          CHECK(layout.value_slots() % 32 == 0);
          if (kv.needs_unpacking()) CHECK(layout.value_slots() * kernels::tile_outputs * layout.converted_size() == 8192);

          const std::size_t key_numbers = packed_kv::block_slots * kv.key_depth();
          const std::size_t value_numbers = packed_kv::block_slots * kv.value_tiles() * kernels::tile_outputs;
          std::vector<float> memory(std::max(layout.state_floats(), layout.local_floats()));
          float* const begin = memory.data();
          const auto at = [&](const float* place) { return static_cast<std::size_t>(place - begin); };
          const auto last = layout.state_of(begin, most_strips - 1);
          CHECK(at(last.largest) - at(last.sums) >= layout.value_floats());
          CHECK(at(last.mass) - at(last.largest) >= product.strip);
          CHECK(layout.state_floats() - at(last.mass) >= product.strip * kernels::mass_lanes);
          const std::size_t padded = product.padded(product.strip);
          const auto scratch = layout.scratch_of(begin);
          CHECK(at(scratch.scores) - at(layout.packed_queries(begin, most_strips - 1)) >=
                padded * kv.key_depth() * product.unit_bytes / kernels::pack_inputs / 4);
          CHECK(at(scratch.weights) - at(scratch.scores) >= packed_kv::block_tiles * layout.tile_floats());
          CHECK(at(scratch.packed_weights) - at(scratch.weights) >= product.strip * packed_kv::block_slots);
          CHECK(at(scratch.scaled) - at(scratch.packed_weights) >=
                padded * packed_kv::block_slots * product.unit_bytes / kernels::pack_inputs / 4);
          const auto* const keys = reinterpret_cast<const float*>(scratch.keys);
          CHECK(at(keys) - at(scratch.scaled) >= product.strip * shape.head_dim);
          const bool converts = layout.converts() || kv.needs_unpacking();
          CHECK(layout.converted_size() == (converts ? size_of(product.widen ? dtype::f32 : set.tiles_of(type)) : 0));
          CHECK(scratch.values - scratch.keys == static_cast<std::ptrdiff_t>(key_numbers * layout.converted_size()));
          CHECK((layout.local_floats() - at(keys)) * sizeof(float) >= (key_numbers + value_numbers) * layout.converted_size());
        }
}
