// SPDX-License-Identifier: MIT
#include "engine/backend_engines.hpp"

#include <lazyprune/backend/cpu.hpp>

#include "engine/cpu_peaks.hpp"
#include "engine/loaded_engine.hpp"

namespace lazyprune {
namespace program {
namespace {

class cpu_engine final : public loaded_engine<cpu> {
 public:
  using loaded_engine::loaded_engine;

  /// Measures the rates; this takes time.
  std::optional<peak_rates> peaks() const override {
    const cpu backend(how());
    const isa path = backend.instructions();
    const lazyprune::kernels::product_kernel& kernel = backend.kernel_for(largest_matrix());
    const cpu_peaks here(threads());
    const double reading = here.reading(cpu_peaks::beyond_caches());
    if (kernel.int8) return peak_rates{byte_instruction(kernel), here.byte_arithmetic(kernel), reading};
    return peak_rates{instruction(path, weight_type()), here.arithmetic(path, weight_type()), reading};
  }

 protected:
  std::size_t kv_row_bytes_as(dtype type) const override { return packed_kv::slot_bytes(config().n_kv_heads, config().head_dim, type); }

 private:
  static std::string_view instruction(isa path, dtype weights) {
    if (path == isa::portable) return "128-bit multiply and add";
    if (path == isa::avx2) return "256-bit FMA";
    if (path == isa::avx512 || weights == dtype::f32) return "512-bit FMA";
    return path == isa::amx ? "TDPBF16PS" : "VDPBF16PS";
  }

  static std::string_view byte_instruction([[maybe_unused]] const lazyprune::kernels::product_kernel& kernel) {
#if defined(__x86_64__)
    if (&kernel == &lazyprune::kernels::avx512_vnni::int8) return "512-bit VPDPBUSD";
    if (&kernel == &lazyprune::kernels::avx_vnni::int8) return "256-bit VPDPBUSD";
    if (&kernel == &lazyprune::kernels::avx2::int8) return "VPMADDUBSW and VPMADDWD";
#endif
    return instruction(isa::portable, dtype::f32);
  }
};

/// Returns the product of sizes from a config. They may be any numbers, so it throws `error` if the product does not fit into std::size_t.
std::size_t product(std::initializer_list<std::size_t> factors) {
  std::size_t result = 1;
  for (const std::size_t factor : factors)
    if (__builtin_mul_overflow(result, factor, &result))
      throw error("config.json", "", "sizes whose bytes fit into 64 bits", "larger ones");
  return result;
}

}  // namespace

context_memory memory_of(const model_config& config, dtype kv, dtype stored, std::size_t context) {
  product({2, packed_kv::block_slots, config.n_kv_heads, config.head_dim + 31, sizeof(float)});  // the bytes of a block, for slot_bytes
  context_memory memory{};
  memory.kv_row = packed_kv::slot_bytes(config.n_kv_heads, config.head_dim, kv);
  memory.kv_token = product({config.layers, memory.kv_row});
  memory.kv = product({context, memory.kv_token});
  memory.stored_row = product({config.hidden, size_of(stored)});
  return memory;
}

std::unique_ptr<engine> load_cpu_engine(const execution& how, const load_options& options, const weights_source& from) {
  return std::make_unique<cpu_engine>(how, options, from);
}

}  // namespace program
}  // namespace lazyprune
