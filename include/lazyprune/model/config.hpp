// SPDX-License-Identifier: MIT
// The shape of a model, and what its family computes otherwise than others: plain values, in the words of the field.
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

/// How rotary positions are stretched beyond the length the model was first trained for.
enum class rope_scaling : std::uint8_t {
  none,
  linear,    // every frequency divided by `factor`
  llama3,    // low frequencies divided, high ones kept, a ramp between (Llama 3.1)
  yarn,      // arXiv 2309.00071: the same by rotations over the original length, and attention scaled
  longrope,  // arXiv 2402.13753: each frequency divided by its own number, others where a text is long, and attention scaled
};

struct rope_config {
  double theta = 10000.0;
  rope_scaling scaling = rope_scaling::none;
  double factor = 1.0;
  std::size_t original_positions = 0;   // llama3, yarn, longrope: the length before stretching
  double low_frequency = 1.0;           // llama3: `low_freq_factor`
  double high_frequency = 4.0;          // llama3: `high_freq_factor`
  double beta_fast = 32.0;              // yarn
  double beta_slow = 1.0;               // yarn
  double attention_factor = 1.0;        // yarn, longrope: cosines and sines are multiplied by it
  bool truncate = true;                 // yarn: correction range rounded to whole dimensions
  std::vector<double> divisors{};       // (rotary_dim / 2): each frequency is divided by its own; empty: none is
  std::vector<double> long_divisors{};  // longrope: in their place where a text gets longer than original_positions

  friend bool operator==(const rope_config&, const rope_config&) = default;
};

struct model_config {
  std::string family;          // "llama", "gemma3", ...: model_family::name
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
  std::size_t rotary_dim = 0;                // so many numbers of each head rotate, the first ones; 0: all
  std::vector<std::size_t> windows{};        // (layers): a row sees so many tokens, itself and those before it; 0, or empty: all
  std::optional<rope_config> window_rope{};  // of the layers that have a window; none: as the others
  bool tied = false;                         // the head is the embedding table
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output product
  bool mlp_bias = false;
  bool qk_norm = false;         // RMSNorm of each query and key head before RoPE (Qwen3)
  bool post_norms = false;      // RMSNorm of what attention and feed-forward add (Gemma)
  bool norms_less_one = false;  // the weights of all norms are stored less 1 (Gemma)
  bool fused = false;           // q, k and v are stored as one, and so are gate and up (Phi 3)
  gate_activation activation = gate_activation::silu;
  double embedding_scale = 1.0;     // of the rows of the embedding table
  double attention_scale = 0.0;     // of q.k; 0: 1 / sqrt(head_dim)
  double attention_soft_cap = 0.0;  // scores become cap * tanh(score / cap); 0: they stay
  double logit_soft_cap = 0.0;      // logits likewise
  std::vector<token_id> bos;        // at most one
  std::vector<token_id> eos;        // any of them ends the text

  std::size_t window(std::size_t layer) const { return windows.empty() ? 0 : windows[layer]; }

  friend bool operator==(const model_config&, const model_config&) = default;
};

}  // namespace v0
}  // namespace lazyprune
