// SPDX-License-Identifier: MIT
#include "engine/memory_forecast.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "engine/cuda_engine.hpp"
#include "engine/engine.hpp"
#include "tables/number_text.hpp"

#include <lazyprune/backend/cpu/kernels/panel_layout.hpp>
#include <lazyprune/backend/machine_limits.hpp>
#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/core/error.hpp>
#include <lazyprune/files/ggml_type.hpp>
#include <lazyprune/model/config.hpp>

namespace lazyprune {
namespace program {
namespace {

/// Bytes of one number of the tensor after loading.
double loaded_size(const tensor_entry& tensor, const backend_flags& flags) {
  if (flags.backend == "reference") return flags.dtype == "f32" ? sizeof(float) : sizeof(double);
  const bool as_float = flags.dtype == "f32" || (flags.backend == "cuda" && flags.exact);
  if (tensor.shape.size() < 2 || as_float) return sizeof(float);
  const ggml_type* const type = ggml_type_of(tensor.type);
  const block_format* const format = type ? type->format : nullptr;
  if (flags.backend == "cpu" && flags.dtype == "auto" && format && tensor.shape.back() % format->inputs == 0)
    return static_cast<double>(kernels::panel_layout(*format).bytes) / static_cast<double>(format->inputs * kernels::tile_outputs);
  const bool wide = tensor.type == "F32" || tensor.type == "F16";  // see load_options::as
  return flags.dtype == "bf16" || !wide ? size_of(dtype::bf16) : sizeof(float);
}

std::size_t weight_bytes(const opened_model& model, const backend_flags& flags) {
  double bytes = 0;
  for (const tensor_entry& tensor : model.tensors()) {
    double numbers = 1;
    for (const std::uint64_t n : tensor.shape) numbers *= static_cast<double>(n);
    bytes += numbers * loaded_size(tensor, flags);
  }
  return static_cast<std::size_t>(bytes);
}

/// Counts the numbers in a workspace's buffers, in the packed inputs of a product and in the rotary table.
std::size_t scratch_numbers(const model_config& c, std::size_t prompt, std::size_t length) {
  constexpr std::size_t most_rows = 512;  // computed at a time
  const std::size_t rows = std::min(prompt, most_rows), q = c.n_heads * c.head_dim, kv = c.n_kv_heads * c.head_dim;
  const std::size_t of_row = c.hidden + 2 * q + 2 * kv + c.ffn + std::max({c.hidden, c.ffn, q});
  return prompt * c.hidden + rows * of_row + 2 * c.vocabulary + (c.window_rope ? 2 : 1) * length * c.head_dim;
}

/// Returns whether the weights that compute keys and values of this layer are loaded as bf16.
bool has_bf16_keys(const opened_model& model, std::size_t layer) {
  const std::string attention = "model.layers." + std::to_string(layer) + ".self_attn.";
  return std::ranges::all_of(std::array{"q_proj", "k_proj", "v_proj", "qkv_proj"}, [&](const char* name) {
    return model.loaded_type(attention + name + ".weight").value_or(dtype::bf16) ==
           dtype::bf16;  // a model has either the first three or the last
  });
}

/// Bytes of the keys and values of `length` tokens. The types of the layers may differ.
std::size_t kv_bytes(const opened_model& model, const backend_flags& flags, std::size_t length) {
  const model_config& c = model.config();
  if (flags.backend == "reference")
    return length * c.layers * 2 * c.n_kv_heads * c.head_dim * (flags.dtype == "f32" ? sizeof(float) : sizeof(double));
  if (const auto type = kv_type_of(flags)) return memory_of(c, *type, dtype::f32, length).kv;
  const context_memory wide = memory_of(c, dtype::f32, dtype::f32, length);  // throws if the bytes do not fit
  if (flags.dtype == "f32") return wide.kv;
  const context_memory narrow = memory_of(c, dtype::bf16, dtype::bf16, length);
  std::size_t token = 0;
  for (std::size_t layer = 0; layer < c.layers; ++layer) token += has_bf16_keys(model, layer) ? narrow.kv_row : wide.kv_row;
  return length * token;
}

}  // namespace

std::optional<bool> stays_quantized(std::string_view type) {
  const ggml_type* const of = ggml_type_of(type);
  if (!of || of->values == 1 || !of->dequantize) return std::nullopt;
  return of->format != nullptr;
}

memory_forecast forecast_memory(const opened_model& model, const backend_flags& flags, std::size_t prompt, std::size_t length) {
  const model_config& c = model.config();
  const bool reference = flags.backend == "reference";
  const std::size_t number = reference && flags.dtype != "f32" ? sizeof(double) : sizeof(float);
  return {
      .weights = weight_bytes(model, flags), .kv = kv_bytes(model, flags, length), .scratch = number * scratch_numbers(c, prompt, length)};
}

std::optional<std::uint64_t> memory_for_sequences(const backend_flags& flags, std::size_t weights) {
  if (flags.backend != "cuda") return available_memory();
  const std::uint64_t all = this_gpu().memory;
  return all - std::min<std::uint64_t>(all, weights);
}

void check_memory(const memory_forecast& forecast, const backend_flags& flags) {
  const bool gpu = flags.backend == "cuda";
  const std::optional<std::uint64_t> left = gpu ? std::optional<std::uint64_t>(this_gpu().memory) : available_memory();
  if (!left || forecast.total() <= *left) return;
  throw error("memory", "",
              "at most the " + bytes_text(*left) + (gpu ? " of the GPU" : " that are free") + " (--force-memory loads the model anyway)",
              bytes_text(forecast.weights) + " of weights, " + bytes_text(forecast.kv) + " of keys and values and " +
                  bytes_text(forecast.scratch) + " of scratch",
              error_code::no_memory);
}

}  // namespace program
}  // namespace lazyprune
