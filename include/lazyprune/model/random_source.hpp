// SPDX-License-Identifier: MIT
// Random weights for a model of any shape, to measure speed without a checkpoint. Speed does not depend on their values.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <lazyprune/backend/machine_limits.hpp>
#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/core/fnv_hash.hpp>
#include <lazyprune/core/mix.hpp>
#include <lazyprune/model/weights.hpp>

namespace lazyprune {
inline namespace v0 {

/// The config of a published model, by name.
struct known_shape {
  std::string_view name;
  model_config config;
};

inline const std::vector<known_shape>& known_shapes() {
  const auto shape = [](std::string_view name, model_config c, double theta, double epsilon) {
    c.head_dim = c.hidden / c.n_heads;
    c.rope.theta = theta;
    c.rms_epsilon = epsilon;
    c.bos = {1};
    c.eos = {2};
    return known_shape{name, std::move(c)};
  };
  const auto config = [](std::string family, std::size_t vocabulary, std::size_t hidden, std::size_t layers, std::size_t n_heads,
                         std::size_t n_kv_heads, std::size_t ffn, std::size_t max_positions) {
    model_config c;
    c.family = std::move(family);
    c.vocabulary = vocabulary;
    c.hidden = hidden;
    c.layers = layers;
    c.n_heads = n_heads;
    c.n_kv_heads = n_kv_heads;
    c.ffn = ffn;
    c.max_positions = max_positions;
    c.qkv_bias = c.family == "qwen2";
    return c;
  };
  static const std::vector<known_shape> shapes{
      shape("tinyllama-1.1b", config("llama", 32000, 2048, 22, 32, 4, 5632, 2048), 1e4, 1e-5),
      shape("llama-2-7b", config("llama", 32000, 4096, 32, 32, 32, 11008, 4096), 1e4, 1e-5),
      shape("xgen-7b", config("llama", 51200, 4096, 32, 32, 32, 11008, 8192), 1e4, 1e-6),
      shape("llama-3-8b", config("llama", 128256, 4096, 32, 32, 8, 14336, 8192), 5e5, 1e-5),
      shape("mistral-7b", config("mistral", 32000, 4096, 32, 32, 8, 14336, 32768), 1e6, 1e-5),
      shape("qwen2-7b", config("qwen2", 152064, 3584, 28, 28, 4, 18944, 32768), 1e6, 1e-6),
      shape("pocket", config("llama", 2304, 128, 6, 4, 2, 256, 4096), 1e7, 1e-5),
  };
  return shapes;
}

/// Returns the config with this name in known_shapes. Throws `error` if there is none.
inline const model_config& shape_named(std::string_view name) {
  for (const known_shape& s : known_shapes())
    if (s.name == name) return s.config;
  throw error("shape", "", one_of_names(known_shapes(), &known_shape::name), name);
}

/// A tensor_source of random weights. Each tensor, except those of norms, is a slice of one pool of numbers. The tensor's name decides
/// where its slice begins. So all tensors together take about as much memory as the largest one. Numbers are uniform in [-0.035, 0.035).
/// Their standard deviation is 0.02, as in freshly initialised models. The weights of norms are all 1. The numbers are the same on every
/// platform and for any number of threads.
class random_source {
 public:
  /// Throws `error` if `type` is neither f32 nor bf16.
  random_source(const model_config& config, dtype type) : type_(type), tied_(config.tied) {
    if (type != dtype::f32 && type != dtype::bf16) throw error("random weights", "dtype", "f32 or bf16", name_of(type));
    const std::size_t queries = config.n_heads * config.head_dim, keys = config.n_kv_heads * config.head_dim;
    const std::size_t fused = config.fused ? std::max(2 * config.ffn, queries + 2 * keys) : 0;
    const std::size_t widest = std::max({config.vocabulary, config.ffn, queries, fused});
    largest_ = widest * std::max(config.hidden, config.head_dim);
    pool_ = std::make_unique_for_overwrite<std::byte[]>((largest_ + shifts) * size_of(type));
    fill(largest_ + shifts);
    ones_.resize(std::max(config.hidden, config.head_dim) * size_of(type));
    for (std::size_t at = 0; at < ones_.size(); at += size_of(type)) store(ones_.data() + at, type, 1.0f);
  }

  bool contains(std::string_view name) const { return name != "lm_head.weight" || !tied_; }

  /// Throws `error` if the tensor is larger than every tensor of this config.
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    const bool norm = name.ends_with("norm.weight");
    if (const std::size_t most = norm ? ones_.size() / size_of(type_) : largest_; rows > 0 && columns > most / rows)
      throw error("random weights", name, "at most " + std::to_string(most) + " numbers",
                  std::to_string(rows) + " rows of " + std::to_string(columns));
    if (norm) return {type_, rows, columns, ones_.data()};
    return {type_, rows, columns, pool_.get() + hash(name) % shifts * size_of(type_)};
  }

 private:
  static constexpr std::size_t shifts = 4096;

  static std::uint64_t hash(std::string_view text) {
    fnv_hash hash;
    hash.add(text);
    return hash.value();
  }

  /// Returns number `place` of the pool, in [-0.035, 0.035).
  static float number(std::uint64_t place) { return (static_cast<float>(mix(0, place) >> 40) * 0x1p-23f - 1.0f) * 0.035f; }

  static void store(std::byte* at, dtype type, float value) {
    if (type == dtype::f32) {
      std::memcpy(at, &value, 4);
    } else {
      const std::uint16_t bits = bf16_of_float(value);
      std::memcpy(at, &bits, 2);
    }
  }

  void fill(std::size_t size) {
    const auto parts = static_cast<std::size_t>(usable_processors());
    std::vector<std::jthread> workers;
    for (std::size_t p = 0; p < parts; ++p)
      workers.emplace_back([this, first = size * p / parts, last = size * (p + 1) / parts] {
        for (std::size_t i = first; i < last; ++i) store(pool_.get() + i * size_of(type_), type_, number(i));
      });
  }

  dtype type_;
  bool tied_;
  std::size_t largest_ = 0;  // numbers in the largest tensor; the pool has `shifts` more
  std::unique_ptr<std::byte[]> pool_;
  std::vector<std::byte> ones_;
};

static_assert(tensor_source<random_source>);

}  // namespace v0
}  // namespace lazyprune
