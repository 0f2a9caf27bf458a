// SPDX-License-Identifier: MIT
// Tells models apart that have the same shape, so that a calibration is not used with another model than its own.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

/// Returns 16 hexadecimal digits: the FNV-1a hash of the model's sizes and of the weights of its first RMSNorm. Files of one model that
/// differ only in how the matrices are quantized have the same digits, because converters keep the norms in float. Each weight is rounded
/// to 1/256 first: Gemma's files store w - 1 or w, and the difference is rounded. Throws `error` if the files lack the weights.
inline std::string model_fingerprint(const checkpoint& files) {
  const model_config& c = files.config();
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t number) {
    for (int byte = 0; byte < 8; ++byte) hash = (hash ^ (number >> 8 * byte & 0xff)) * 0x100000001b3;
  };
  for (const std::size_t size : {c.hidden, c.layers, c.n_heads, c.n_kv_heads, c.head_dim, c.ffn}) add(size);
  const checkpoint_weights source(files);
  std::vector<float> weights(c.hidden);
  widen(source.get("model.layers.0.input_layernorm.weight", 1, c.hidden), 0, c.hidden, weights.data());
  // The shift keeps bf16 numbers away from the steps of floor, where the rounding of w - 1 would matter.
  for (const float w : weights) {
    const double rounded = std::floor((static_cast<double>(w) + (c.norms_less_one ? 1.0 : 0.0)) * 256.0 + 0.3);
    // A damaged file may hold a number that no integer has.
    add(std::abs(rounded) < 0x1p62 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(rounded))
                                   : std::bit_cast<std::uint64_t>(rounded));
  }
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += digits[hash >> shift & 0xf];
  return text;
}

}  // namespace v0
}  // namespace lazyprune
