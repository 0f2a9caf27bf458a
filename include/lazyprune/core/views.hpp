// SPDX-License-Identifier: MIT
// Evidence for scorers: read-only views of the engine's memory, valid during the call. The parameter of a scorer's `score` says which view
// the scorer needs. The engine computes no other view. Probabilities, keys and values are float, whatever type the engine computes in.
#pragma once

#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

/// The query token's attention probabilities at one layer.
struct attention_view {
  const float* data;  // (heads, active), rows `stride` floats apart
  std::size_t heads;  // query heads
  std::size_t stride;
  std::span<const position> positions;  // (active), ascending; the last one is the query token

  std::size_t active() const { return positions.size(); }
  std::span<const float> head(std::size_t h) const { return {data + h * stride, active()}; }
  float operator()(std::size_t h, std::size_t i) const { return data[h * stride + i]; }
};

/// The attention probabilities of the last queries that this step computed at one layer. The probability is 0 if a query does not see a
/// token.
struct window_view {
  const float* data;    // (queries, heads, active), rows `stride` floats apart
  std::size_t queries;  // step::window(): at most the scorer's window; the last one is the query token's
  std::size_t heads;
  std::size_t stride;
  std::span<const position> positions;  // (active), ascending

  std::size_t active() const { return positions.size(); }
  attention_view query(std::size_t q) const { return {data + q * heads * stride, heads, stride, positions}; }
};

/// The ways to make one number out of the probabilities that several queries give to a token: that of the last query, the largest one, or
/// the mean.
enum class query_reduction : std::uint8_t { last, max, mean };

/// The attention of one query head at one layer, reduced over the step's last queries.
struct head_probe {
  std::uint32_t head;
  query_reduction over;

  friend bool operator==(const head_probe&, const head_probe&) = default;
};

/// The probes that the scorer names for one layer. The queries are the step's evidence rows (step::window()). A query gives 0 to a token
/// that it does not see. The mean is a sum in double, in the order of the queries, rounded once.
struct probe_view {
  const float* data;  // (probes, active), rows `stride` floats apart, in the order of the scorer's list
  std::size_t probes;
  std::size_t stride;
  std::span<const position> positions;  // (active), ascending; the last one is the query token

  std::size_t active() const { return positions.size(); }
  std::span<const float> probe(std::size_t p) const { return {data + p * stride, active()}; }
};

/// The cached keys of the active tokens at one layer, after RoPE.
struct key_view {
  const float* data;  // (active, kv_heads, head_dim), tokens `stride` floats apart
  std::size_t kv_heads;
  std::size_t head_dim;
  std::size_t stride;
  std::span<const position> positions;  // (active), ascending

  std::size_t active() const { return positions.size(); }
  std::span<const float> head(std::size_t i, std::size_t h) const { return {data + i * stride + h * head_dim, head_dim}; }
};

/// The query token's attention probabilities and the values that they weigh. Query head h uses value head h * kv_heads / heads.
struct value_view {
  attention_view attention;
  const float* values;  // (active, kv_heads, head_dim), tokens `stride` floats apart
  std::size_t kv_heads;
  std::size_t head_dim;
  std::size_t stride;

  std::size_t active() const { return attention.active(); }
  std::span<const float> head(std::size_t i, std::size_t h) const { return {values + i * stride + h * head_dim, head_dim}; }
};

/// The hidden states that this layer produced. They exist only for the tokens that this step computed at this layer (`rows`).
struct hidden_view {
  const float* data;  // (rows, hidden), rows `stride` floats apart
  std::size_t hidden;
  std::size_t stride;
  std::span<const position> rows;       // (rows), ascending: a subset of `positions`
  std::span<const position> positions;  // (active), ascending

  std::size_t active() const { return positions.size(); }
  std::span<const float> row(std::size_t r) const { return {data + r * stride, hidden}; }
};

/// Positions only: no evidence from the model. No other view exists before layer 0.
struct token_view {
  std::span<const position> positions;  // (active), ascending; the last one is the query token
  layer_id done;                        // layers that are done
  std::size_t known;                    // tokens of the sequence so far

  std::size_t active() const { return positions.size(); }
};

/// The ids of all known tokens, and the positions of the active ones: for scorers that look at the token ids themselves.
struct id_view {
  std::span<const token_id> ids;        // (known), by position
  std::span<const position> positions;  // (active), ascending; the last one is the query token

  std::size_t active() const { return positions.size(); }
  token_id operator()(std::size_t i) const { return ids[positions[i]]; }
};

/// A scorer with this parameter gets evidence after every layer but the last, not only after layers at which the schedule prunes. (A
/// scorer of one step gets none after the last layer at which the schedule could prune in the step.) It also gets memory, which the session
/// keeps across layers and steps. The memory is zero when the sequence starts.
template <class View>
struct every_layer {
  View now;
  layer_id layer;           // the layer that gave `now`, from 0
  std::span<float> memory;  // (known), by position

  std::size_t active() const { return now.active(); }
};

}  // namespace v0
}  // namespace lazyprune
