// SPDX-License-Identifier: MIT
// A program for nvcc to compile. It has all kernels and all code that launches them.
#include <lazyprune/backend/cuda.hpp>

#include <vector>

using namespace lazyprune;

/// Calls every operation once, so that every kernel is compiled.
void use(cuda_backend& b, rows_view<const float> x, rows_view<float> out, const tensor& part, cuda_backend::kv_layer& kv,
         const attention_rows& what) {
  const std::vector<std::uint32_t> ids(1);
  const cuda_backend::matrix w = b.pack(std::span(&part, 1), dtype::bf16);
  const cuda_backend::parameters p = b.load(std::span(&part, 1));
  b.embed(w, ids, 1, out);
  b.rms_norm(x, p, 1e-5, out);
  cuda_backend::operand from(x.columns), to(x.columns);
  b.prepare(from, x.rows, w);
  b.prepare(to, x.rows, w);
  b.pack_rows(x, from);
  b.rms_norm(x, p, 1e-5, from);
  b.multiply_add(from, w, &p, out);
  b.gated_multiply(from, w, &p, gate_activation::silu, to);
  b.add(x, out);
  const cuda_backend::rope_table rope = b.make_rope(std::vector<double>(32), 1, 1);
  b.rotate(out, 64, ids, rope);
  b.put(kv, ids, x, x);
  b.attend(x, kv, what, to, 0, {});
  b.prepare_results(to, x.rows, w);
  b.multiply(from, w, &p, to);
  b.norm_heads(to, 64, p, 1e-5);
  b.rotate_and_put(kv, ids, to, to, 0, {ids}, rope);
  b.attend(to, 0, {ids}, rope, kv, what, from, 0, {});
  b.read(to, nullptr);
  cuda_backend::row_store store(1);
  b.copy_rows(x, ids, out, ids);
  b.store_rows(x, ids, store, ids);
  b.take_rows(store, ids, out, ids);
  b.read_keys(kv, ids, nullptr);
  b.write(nullptr, out);
  b.begin_choices(ids, {}, 1, {});
  b.choose();
  b.store_dropped(x, store, ids);
  b.take_chosen(out);
  b.rotate_and_put(kv, ids, to, to, 0, {{}, b.chosen_positions()}, rope);
}

int main() {}
