// SPDX-License-Identifier: MIT
// The shape of a model, and the properties in which model families differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lazyprune/backend/tensor_backend.hpp>
#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

/// How a model scales its RoPE frequencies, so that it can read longer sequences than in pre-training.
enum class rope_scaling : std::uint8_t {
  none,
  linear,    // divides every frequency by `factor`
  llama3,    // divides low frequencies, keeps high ones, interpolates between (Llama 3.1)
  yarn,      // arXiv 2309.00071: like llama3, but interpolates by the index of a frequency (model/rope.hpp); also scales attention
  longrope,  // arXiv 2402.13753: divides each frequency by its own divisor (`divisors`, `long_divisors`); also scales attention
};

struct rope_config {
  double theta = 10000.0;
  rope_scaling scaling = rope_scaling::none;
  double factor = 1.0;
  std::size_t original_positions = 0;   // llama3, yarn, longrope: the longest sequence before scaling
  double low_frequency = 1.0;           // llama3: `low_freq_factor`
  double high_frequency = 4.0;          // llama3: `high_freq_factor`
  double beta_fast = 32.0;              // yarn: frequencies with more rotations over original_positions are kept
  double beta_slow = 1.0;               // yarn: frequencies with fewer rotations over original_positions are divided
  double attention_factor = 1.0;        // yarn, longrope: multiplies cosines and sines
  bool truncate = true;                 // yarn: rounds the correction range to whole dimensions
  std::vector<double> divisors{};       // (rotary_dim / 2): divides each frequency; empty: no division
  std::vector<double> long_divisors{};  // longrope: replaces `divisors` for sequences longer than original_positions

  friend bool operator==(const rope_config&, const rope_config&) = default;
};

struct model_config {
  std::string family;          // "llama", "gemma3", ...: model_family::name
  std::size_t vocabulary = 0;  // tokens
  std::size_t hidden = 0;      // width of the residual stream
  std::size_t layers = 0;
  std::size_t n_heads = 0;     // query heads
  std::size_t n_kv_heads = 0;  // key/value heads; a divisor of n_heads (GQA)
  std::size_t head_dim = 0;
  std::size_t ffn = 0;            // width of the gated feed-forward
  std::size_t max_positions = 0;  // longest sequence
  double rms_epsilon = 1e-5;
  rope_config rope;
  std::size_t rotary_dim = 0;                // numbers at the start of each head that RoPE rotates; 0: all
  std::vector<std::size_t> windows{};        // (layers): tokens in the sliding window, with the query token; 0 or empty: no window
  std::optional<rope_config> window_rope{};  // RoPE of the layers with a window; nullopt: they use `rope`
  bool tied = false;                         // the output head (lm_head) shares the embedding table
  bool qkv_bias = false;
  bool output_bias = false;  // bias of o_proj
  bool mlp_bias = false;
  bool qk_norm = false;         // RMSNorm of each query and key head before RoPE (Qwen3)
  bool post_norms = false;      // RMSNorm of the outputs of attention and feed-forward (Gemma)
  bool norms_less_one = false;  // the file stores the weight w of a norm as w - 1 (Gemma)
  bool fused = false;           // one tensor stores q, k and v, another stores gate and up (Phi 3)
  gate_activation activation = gate_activation::silu;
  double embedding_scale = 1.0;     // multiplies the rows of the embedding table
  double attention_scale = 0.0;     // multiplies q.k; 0: 1 / sqrt(head_dim)
  double attention_soft_cap = 0.0;  // scores become cap * tanh(score / cap); 0: no cap
  double logit_soft_cap = 0.0;      // logits become cap * tanh(logit / cap); 0: no cap
  std::vector<token_id> bos;        // begins the sequence; at most one
  std::vector<token_id> eos;        // each of them ends the sequence

  std::size_t window(std::size_t layer) const { return windows.empty() ? 0 : windows[layer]; }

  friend bool operator==(const model_config&, const model_config&) = default;
};

}  // namespace v0
}  // namespace lazyprune
