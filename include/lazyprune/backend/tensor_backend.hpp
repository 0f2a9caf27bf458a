// SPDX-License-Identifier: MIT
// What the transformer asks of a machine: some twenty operations on rows of activations. A backend object is one execution context
// (threads or stream, and scratch): one per workspace. Weights are made by it once, immutable, and shared by all contexts.
//
//   type            is
//   scalar          what activations are computed in, as the host reads them: float or double
//   parameters      a vector of scalars: norm weights, biases
//   matrix          a weight (outputs, inputs), packed as the products want it
//   buffer          activations (rows, columns), growing, in the backend's memory
//   kv_layer        keys and values of one layer, (slots, kv_heads * head_dim) each; memory grows in blocks and what is there is not moved
//   row_store       rows of activations put aside, (slots, columns): the Aux Cache's, or those that wait where a chunk ended
//                   (copies of these two share memory, block by block, until one of them writes)
//   rope_table      cosines and sines by position
//   block_rows      a number: inside a layer so many rows, or as many as a scorer looks at, are worked on at a time; bounds the scratch
//
//   operation                                    means                                             shapes
//   pack(parts, as)                              the parts stacked along the outputs, stored as    (outputs_i, inputs) each
//                                                the dtype `as` (float or bf16)
//   pack_gated(gate, up, as)                     the two made one, for gated_multiply              (ffn, inputs) each
//   load(parts)                                  parameters, the parts joined                      (1, n_i) each
//   make_rope(frequencies, scale, n)             table for positions 0..n-1: scale * cos and sin   (head_dim / 2)
//                                                of position * frequencies[i], computed in double;
//                                                pairs of frequency 0 are not scaled: they stay
//   embed(table, ids, scale, out)                rows of the matrix, times the scale               out (ids, inputs)
//   rms_norm(x, weight, epsilon, out)            x / sqrt(mean(x^2) + epsilon) * weight, per row   out like x; may be x
//   multiply(x, w, bias, out)                    x w^T + bias (null: none)                         out (rows, outputs)
//   multiply_add(x, w, bias, out)                out += x w^T + bias                               out (rows, outputs)
//   add(x, out)                                  out += x                                          out like x
//   gated_multiply(x, w, bias, gate, out)        gate(x gate^T + b) * (x up^T + b'); bias (2 ffn)  out (rows, ffn)
//   rotate(x, head_dim, positions, rope)         RoPE in place, pairs (i, i + head_dim / 2)        x (rows, heads * head_dim)
//   put(kv, slots, k, v)                         the rows, finite numbers, are written to the slots, k, v (rows, kv_heads * head_dim)
//                                                ascending; those that are missing are made
//   attend(q, kv, what, out, probe)              attention, see attention_rows                     q, out (rows, heads * head_dim)
//   copy_rows(from, from_rows, to, to_rows)      to[to_rows[i]] = from[from_rows[i]], as if in order:    indices
//                                                rows may move within one buffer
//   keep_rows(x, rows, store, slots)             store[slots[i]] = x[rows[i]], as they are; slots     indices
//                                                that are missing are made
//   store_rows(x, rows, store, slots)            the same, where the store may round them             indices
//   take_rows(store, slots, x, rows)             x[rows[i]] = store[slots[i]]                         indices
//   reserve(sizes)                               takes the scratch of operations up to these sizes   see operation_sizes
//                                                ahead, where it is dear to get in their course
//   reserve(kv, n)                               memory for the slots below n, to be put
//   reserve_kept / reserve_stored(store, n)      memory for the slots below n, to be written by
//                                                keep_rows or store_rows: it stays with the store
//   read_keys / read_values(kv, slots, out)      to host floats                                    out (slots, kv_heads * head_dim)
//   read(x, out)                                 to host scalars                                   out (rows, columns)
//   threads()                                    how many it computes with
//   bytes()                                      scratch memory that it holds
//
// Results are a function of the input: the same bits for any number of threads.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/core/head_reduction.hpp>
#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

/// Rows of activations in a backend's memory: (rows, columns), rows `stride` scalars apart.
template <class T>
struct rows_view {
  T* data;
  std::size_t rows;
  std::size_t columns;
  std::size_t stride;

  T* row(std::size_t r) const { return data + r * stride; }
  rows_view slice(std::size_t first, std::size_t count) const { return {row(first), count, columns, stride}; }
  /// To be read alone. A template, since nvcc warns of a conversion that rows which are to be read already have no use for.
  template <class U>
    requires(std::is_same_v<U, const T> && !std::is_const_v<T>)
  operator rows_view<U>() const { return {data, rows, columns, stride}; }
};

/// What becomes of the gate's half of a gated product before it is multiplied with the other.
enum class gate_activation : std::uint8_t {
  silu,       // x / (1 + e^-x)
  gelu_tanh,  // x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): GELU's approximation (arXiv 1606.08415), as in Gemma
};

struct attention_shape {
  std::size_t heads;
  std::size_t kv_heads;
  std::size_t head_dim;
};

/// How a family's attention differs from softmax(q.k / sqrt(head_dim)) over all tokens before.
struct attention_variant {
  double scale = 0;        // of q.k; 0: 1 / sqrt(head_dim)
  double soft_cap = 0;     // scores become soft_cap * tanh(score / soft_cap) before the softmax (Gemma 2); 0: they stay
  std::size_t window = 0;  // the token t sees t itself and window - 1 positions before it, and nothing earlier; 0: all

  friend bool operator==(const attention_variant&, const attention_variant&) = default;
};

/// Row r, the token rows[r], attends to the active tokens u <= rows[r] that its window holds, whose keys lie in the slots given. Every row
/// is itself active and its keys are in the cache.
struct attention_rows {
  attention_shape shape;
  std::span<const position> rows;        // (rows), ascending
  std::span<const position> active;      // (active), ascending
  std::span<const std::uint32_t> slots;  // (active)
  /// The rows that this layer of the sequence finishes, in this call and in others; 0: these alone. How keys are cut may depend on their
  /// number, and not on the company in which the rows come.
  std::size_t rows_of_layer = 0;
  attention_variant variant = {};
};

/// Where the attention probabilities of the last `queries` rows go: host memory (queries, heads, active), rows `stride` floats
/// apart; 0 where a row does not attend. No queries: nobody asked. `over_heads` asks for one row a query, (queries, 1, active), that holds
/// what reduce_heads makes of the heads' probabilities as float, to the bit.
struct attention_probe {
  float* data = nullptr;
  std::size_t queries = 0;
  std::size_t stride = 0;
  std::optional<head_reduction> over_heads = std::nullopt;

  /// Rows of a query.
  std::size_t heads(const attention_shape& shape) const { return over_heads ? 1 : shape.heads; }
};

/// The most that operations are given, for `reserve`.
struct operation_sizes {
  std::size_t rows;           // that are embedded, moved or put aside at a time
  std::size_t columns;        // of those
  std::size_t block;          // rows that are multiplied, rotated or attended at a time
  std::size_t inputs;         // of a matrix
  std::size_t gated_outputs;  // of a gated matrix, both halves
  attention_shape shape;
  std::size_t active;   // tokens
  std::size_t queries;  // whose probabilities are shown
  std::size_t read;     // slots whose keys or values are read
};

namespace detail {

/// What `retain` is called with, as an example: nvcc finds no lambda in a concept.
struct keep_one {
  template <class Keep>
  void operator()(Keep&& keep) const {
    keep(0u);
  }
};

}  // namespace detail

/// What a model's weights are made with. The matrices that `pack` and `pack_gated` get may have a reader: their rows are asked for by
/// tensor::row. The vectors that `load` gets have none. A packer may have `pack_together(load)`: it calls load(), and the matrices made in
/// there need not be whole before it returns, so that threads go on from one to the next; until then it holds copies of their tensors.
template <class B>
concept weight_packer = requires(B b, std::span<const tensor> parts, const tensor& part, dtype as) {
  { b.pack(parts, as) } -> std::same_as<typename B::matrix>;
  { b.pack_gated(part, part, as) } -> std::same_as<typename B::matrix>;
  { b.load(parts) } -> std::same_as<typename B::parameters>;
};

template <class B>
concept tensor_backend = weight_packer<B> && std::floating_point<typename B::scalar> &&
    std::constructible_from<typename B::buffer, std::size_t> &&                                                        // columns
    std::constructible_from<typename B::row_store, std::size_t> && std::copyable<typename B::row_store> &&             // columns
    std::constructible_from<typename B::kv_layer, std::size_t, std::size_t> && std::copyable<typename B::kv_layer> &&  // kv_heads, head_dim
    requires(B b, const B& made, std::span<const double> frequencies, std::size_t n, double epsilon, std::span<const std::uint32_t> ids,
             rows_view<const typename B::scalar> x, rows_view<typename B::scalar> out, const typename B::matrix& w,
             const typename B::parameters& p, const typename B::parameters* bias, const typename B::rope_table& rope,
             typename B::kv_layer& kv, const typename B::kv_layer& keys, typename B::row_store& store, const typename B::row_store& stored,
             const attention_rows& what, const attention_probe& probe, const operation_sizes& sizes, gate_activation gate, float* floats,
             typename B::scalar* scalars, typename B::buffer& buffer) {
  { B::block_rows } -> std::convertible_to<std::size_t>;
  { b.make_rope(frequencies, epsilon, n) } -> std::same_as<typename B::rope_table>;
  b.embed(w, ids, epsilon, out);
  b.rms_norm(x, p, epsilon, out);
  b.multiply(x, w, bias, out);
  b.multiply_add(x, w, bias, out);
  b.add(x, out);
  b.gated_multiply(x, w, bias, gate, out);
  b.rotate(out, n, ids, rope);
  b.put(kv, ids, x, x);
  b.attend(x, keys, what, out, probe);
  b.copy_rows(x, ids, out, ids);
  b.keep_rows(x, ids, store, ids);
  b.store_rows(x, ids, store, ids);
  b.take_rows(stored, ids, out, ids);
  b.reserve(sizes);
  b.reserve(kv, n);
  b.reserve_kept(store, n);
  b.reserve_stored(store, n);
  b.read_keys(keys, ids, floats);
  b.read_values(keys, ids, floats);
  b.read(x, scalars);
  { made.threads() } -> std::convertible_to<int>;
  { made.bytes() } -> std::convertible_to<std::size_t>;

  buffer.reserve(n);  // room for n rows at least; what is there stays
  { buffer.view() } -> std::same_as<rows_view<typename B::scalar>>;
  { buffer.bytes() } -> std::convertible_to<std::size_t>;
  store.release(ids);                                     // what these slots hold is not needed any more
  store.retain(detail::keep_one{});                       // nothing is, but the slots that `keep` is called with
  { stored.size() } -> std::convertible_to<std::size_t>;  // slots in use
  { stored.bytes() } -> std::convertible_to<std::size_t>;
  kv.truncate(n);                                       // forgets the slots from n on
  { keys.size() } -> std::convertible_to<std::size_t>;  // slots
  { keys.bytes() } -> std::convertible_to<std::size_t>;
  { w.bytes() } -> std::convertible_to<std::size_t>;
  { w.outputs() } -> std::convertible_to<std::size_t>;
  { w.inputs() } -> std::convertible_to<std::size_t>;
  { p.bytes() } -> std::convertible_to<std::size_t>;
  { rope.bytes() } -> std::convertible_to<std::size_t>;
};

}  // namespace v0
}  // namespace lazyprune
