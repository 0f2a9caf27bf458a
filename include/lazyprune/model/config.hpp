// SPDX-License-Identifier: MIT
// The shape of a model of the Llama family, in the words of the field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

/// How rotary positions are stretched beyond the length the model was first trained for.
enum class rope_scaling : std::uint8_t {
  none,
  linear,  // every frequency divided by `factor`
  llama3,  // low frequencies divided, high ones kept, a ramp between (Llama 3.1)
  yarn,    // arXiv 2309.00071: the same by rotations over the original length, and attention scaled
};

struct rope_config {
  double theta = 10000.0;
  rope_scaling scaling = rope_scaling::none;
  double factor = 1.0;
  std::size_t original_positions = 0;  // llama3, yarn: the length before stretching
  double low_frequency = 1.0;          // llama3: `low_freq_factor`
  double high_frequency = 4.0;         // llama3: `high_freq_factor`
  double beta_fast = 32.0;             // yarn
  double beta_slow = 1.0;              // yarn
  double attention_factor = 1.0;       // yarn: cosines and sines are multiplied by it
  bool truncate = true;                // yarn: correction range rounded to whole dimensions
  std::vector<double> divisors{};      // (head_dim / 2): each frequency is divided by its own; empty: none is

  friend bool operator==(const rope_config&, const rope_config&) = default;
};

struct model_config {
  std::string family;          // "llama", "mistral", "qwen2", "qwen3"
  std::size_t vocabulary = 0;  // tokens
  std::size_t hidden = 0;      // width of the residual stream
  std::size_t layers = 0;
  std::size_t n_heads = 0;     // query heads
  std::size_t n_kv_heads = 0;  // key/value heads: divides n_heads (GQA)
  std::size_t head_dim = 0;
  std::size_t ffn = 0;            // width of the gated feed-forward
  std::size_t max_positions = 0;  // longest sequence
  double rms_epsilon = 1e-5;
  rope_config rope;
  bool tied = false;  // the head is the embedding table
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output product
  bool mlp_bias = false;
  bool qk_norm = false;       // RMSNorm of each query and key head before RoPE (Qwen3)
  std::vector<token_id> bos;  // at most one
  std::vector<token_id> eos;  // any of them ends the text

  friend bool operator==(const model_config&, const model_config&) = default;
};

}  // namespace v0
}  // namespace lazyprune
