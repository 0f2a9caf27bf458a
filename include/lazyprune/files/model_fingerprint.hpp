// SPDX-License-Identifier: MIT
// Tells models apart that have the same shape. A calibration may then not be used with another model than its own, and the answers of two
// models may not be mixed.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/core/fnv_hash.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/files/model_folder.hpp>
#include <lazyprune/files/stored_tensor.hpp>
#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

/// The FNV-1a hash of numbers, as eight bytes each, and of texts with their sizes.
class fingerprint_hash {
 public:
  void add(std::uint64_t number) {
    for (int byte = 0; byte < 8; ++byte) hash_.add(static_cast<unsigned char>(number >> 8 * byte & 0xff));
  }
  void add(std::string_view text) {
    add(text.size());
    hash_.add(text);
  }

  /// Returns 16 hexadecimal digits.
  std::string text() const {
    constexpr char digits[] = "0123456789abcdef";
    std::string result;
    for (int shift = 60; shift >= 0; shift -= 4) result += digits[hash_.value() >> shift & 0xf];
    return result;
  }

 private:
  fnv_hash hash_;
};

}  // namespace detail

/// Returns 16 hexadecimal digits: the FNV-1a hash of the model's sizes and of the weights of its first RMSNorm. Files of one model that
/// differ only in how the matrices are quantized have the same digits, because converters keep the norms in float. Each weight is rounded
/// to 1/256 first: Gemma's files store w - 1 or w, and the difference is rounded. Throws `error` if the files lack the weights.
inline std::string model_fingerprint(const checkpoint& files) {
  const model_config& c = files.config();
  detail::fingerprint_hash hash;
  for (const std::size_t size : {c.hidden, c.layers, c.n_heads, c.n_kv_heads, c.head_dim, c.ffn}) hash.add(std::uint64_t{size});
  const checkpoint_weights source(files);
  std::vector<float> weights(c.hidden);
  widen(source.get("model.layers.0.input_layernorm.weight", 1, c.hidden), 0, c.hidden, weights.data());
  // The shift keeps bf16 numbers away from the steps of floor, where the rounding of w - 1 would matter.
  for (const float w : weights) {
    const double rounded = std::floor((static_cast<double>(w) + (c.norms_less_one ? 1.0 : 0.0)) * 256.0 + 0.3);
    // A damaged file may hold a number that no integer has.
    hash.add(std::abs(rounded) < 0x1p62 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(rounded))
                                        : std::bit_cast<std::uint64_t>(rounded));
  }
  return hash.text();
}

/// Returns 16 hexadecimal digits: the FNV-1a hash of config.json, or of the first bytes of a GGUF file, and of all tensors' names, types
/// and shapes, and some bytes of each. Other than `model_fingerprint`, it differs between files of one model that are quantized
/// differently, and between models whose norms are the same, as fine-tuning by adapters (LoRA) leaves them. It does not depend on the path.
/// Throws `error` if config.json cannot be read.
inline std::string weights_digest(const checkpoint& files) {
  constexpr std::size_t places = 4, bytes = 64, beginning = 4096;  // reading all bytes would take as long as loading the model
  detail::fingerprint_hash hash;
  const auto add = [&](std::span<const std::byte> some) { hash.add({reinterpret_cast<const char*>(some.data()), some.size()}); };
  if (files.is_gguf()) {
    const std::span<const std::byte> all = files.gguf()->file().bytes();
    add(all.first(std::min(beginning, all.size())));
  } else {
    hash.add(model_folder(files.path()).open("config.json", std::size_t{1} << 20).text());
  }
  for (const auto& [name, tensor] : files.tensors()) {
    const stored_tensor& stored = *tensor.stored;
    hash.add(name);
    hash.add(stored.type);
    hash.add(detail::shape_text(stored.shape));
    const std::size_t size = stored.data.size(), count = std::min(bytes, size);
    for (std::size_t place = 0; place < places; ++place) add(stored.data.subspan((size - count) / (places - 1) * place, count));
  }
  return hash.text();
}

}  // namespace v0
}  // namespace lazyprune
