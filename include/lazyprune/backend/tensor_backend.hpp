// SPDX-License-Identifier: MIT
// The operations that a transformer needs from a backend, most of them on rows of activations. A backend object is one execution context
// (threads or stream, and scratch memory). Each workspace has its own context. Weights are made once and are immutable. All contexts share
// them.
//
//   type            meaning
//   scalar          the type of activations as the host reads them: float or double
//   parameters      a vector of scalars: norm weights, biases
//   matrix          a weight (outputs, inputs), packed for the backend's products
//   buffer          activations (rows, columns) in the backend's memory; it can grow
//   operand         rows of activations (rows, columns) in the order and the type in which products read them
//   kv_layer        keys and values of one layer, (slots, kv_heads * head_dim) each; memory grows in blocks and is never moved
//   row_store       stored rows of activations, (slots, columns): the Aux Cache, or the waiting rows of a chunked prefill
//                   (copies of a kv_layer or a row_store share memory, block by block, until one of them writes)
//   rope_table      cosines and sines by position
//   block_rows      the largest number of rows that a layer works on at a time; this number bounds the scratch memory
//                   (if more rows than that are probed, a layer works on all probed rows at a time)
//
//   operation                                    meaning                                               shapes
//   pack(parts, as)                              stacks the matrices along the outputs, rounded to     (outputs_i, inputs) each
//                                                dtype `as` (f32 or bf16)
//   pack_gated(gate, up, as)                     joins two matrices to a weight for gated_multiply     (ffn, inputs) each
//   load(parts)                                  joins the vectors                                     (1, n_i) each
//   make_rope(frequencies, scale, n)             table for positions 0..n-1: scale * cos(a) and        (head_dim / 2)
//                                                scale * sin(a), a = position * frequencies[i],
//                                                computed in double; pairs of frequency 0 are not
//                                                scaled
//   embed(table, ids, scale, out)                row ids[r] of the matrix, times the scale             out (ids, inputs)
//   prepare(operand, rows, w)                    makes room in the operand for this many rows, for     w (outputs, operand's columns)
//                                                products with w and with weights of w's type that
//                                                are quantized if w is; the operand's numbers are lost
//   pack_rows(x, operand)                        writes all rows of a prepared operand                 x like the operand
//   rms_norm(x, weight, epsilon, out)            x / sqrt(mean(x^2) + epsilon) * weight, per row;      out like x; may be x
//                                                out: rows, or all rows of a prepared operand
//   multiply(operand, w, bias, out)              x w^T + bias (null: no bias), x: the operand's rows   out (rows, outputs)
//   multiply_add(operand, w, bias, out)          out += x w^T + bias                                   out (rows, outputs)
//   add(x, out)                                  out += x                                              out like x
//   gated_multiply(operand, w, bias, gate, out)  act(x gate^T + b) * (x up^T + b'); bias (2 ffn);      out: all rows (rows, ffn) of
//                                                `gate` chooses act: silu or GELU                      a prepared operand
//   rotate(x, head_dim, positions, rope)         RoPE in place, pairs (i, i + head_dim / 2)            x (rows, heads * head_dim)
//   put(kv, slots, k, v)                         writes the rows (finite numbers) to the slots         k, v (rows, kv_heads * head_dim)
//                                                (ascending); creates missing slots
//   attend(q, kv, what, operand, first, probe)   attention, see attention_rows; writes the rows from   q (rows, heads * head_dim)
//                                                `first` on of a prepared operand, each row once
//   copy_rows(from, from_rows, to, to_rows)      to[to_rows[i]] = from[from_rows[i]] for i = 0, 1...   indices
//                                                in this order; rows may move within one buffer
//   keep_rows(x, rows, store, slots)             store[slots[i]] = x[rows[i]], not rounded; creates    indices
//                                                missing slots
//   store_rows(x, rows, store, slots)            like keep_rows, but the store may round the numbers   indices
//   take_rows(store, slots, x, rows)             x[rows[i]] = store[slots[i]]                          indices
//   reserve(sizes)                               allocates scratch for operations up to these sizes,   see operation_sizes
//                                                if allocating it later is slow
//   reserve(kv, n)                               allocates memory for the slots below n
//   reserve_kept / reserve_stored(store, n)      allocates memory for the slots below n, for
//                                                keep_rows or store_rows; the memory stays allocated
//   read_keys / read_values(kv, slots, out)      copies keys or values to scalars on the host          out (slots, kv_heads * head_dim)
//   read(x, out)                                 copies rows to scalars on the host; x: rows or an     out (rows, columns)
//                                                operand, whose numbers may be rounded
//   write(numbers, x)                            copies scalars on the host to rows; afterwards        numbers (rows, columns)
//                                                they may be freed
//   threads()                                    the number of host threads
//   bytes()                                      bytes of scratch memory
//
// Results depend only on the input. They have the same bits for any number of threads.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/core/head_reduction.hpp>
#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

/// Rows of activations in a backend's memory: (rows, columns). Each row begins `stride` scalars after the row before it.
template <class T>
struct rows_view {
  T* data;
  std::size_t rows;
  std::size_t columns;
  std::size_t stride;

  T* row(std::size_t r) const { return data + r * stride; }
  rows_view slice(std::size_t first, std::size_t count) const { return {row(first), count, columns, stride}; }
  /// Converts to a read-only view. The operator is a template, because nvcc warns of a plain conversion operator if T is already const.
  template <class U>
    requires(std::is_same_v<U, const T> && !std::is_const_v<T>)
  operator rows_view<U>() const { return {data, rows, columns, stride}; }
};

/// The activation function of a gated product. It is applied to the outputs of `gate`. The results are multiplied by the outputs of `up`.
enum class gate_activation : std::uint8_t {
  silu,       // x / (1 + e^-x)
  gelu_tanh,  // x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): GELU's approximation (arXiv 1606.08415), as in Gemma
};

struct attention_shape {
  std::size_t heads;
  std::size_t kv_heads;
  std::size_t head_dim;
};

/// How a model family's attention differs from softmax(q.k / sqrt(head_dim)) over all earlier tokens.
struct attention_variant {
  double scale = 0;        // the factor of q.k; 0: 1 / sqrt(head_dim)
  double soft_cap = 0;     // scores become soft_cap * tanh(score / soft_cap) before the softmax (Gemma 2); 0: no cap
  std::size_t window = 0;  // token t sees itself and the window - 1 positions before it; 0: all earlier tokens

  friend bool operator==(const attention_variant&, const attention_variant&) = default;
};

/// Row r of the queries is the token at position rows[r]. It attends to the active tokens u <= rows[r] in its window. The key and the value
/// of active[i] are in slot slots[i]. The tokens of all rows are active too, and their keys and values are already in the cache.
struct attention_rows {
  attention_shape shape;
  std::span<const position> rows;        // (rows), ascending
  std::span<const position> active;      // (active), ascending: all active tokens of the layer up to the last row of all its calls
  std::span<const std::uint32_t> slots;  // (active)
  /// The rows of this sequence that the layer computes in all its calls of `attend` together, ascending. If the list is empty, this is the
  /// only call. A backend may choose by these rows, the active tokens and their slots how it orders and splits the keys. It must not choose
  /// by the rows of one call, because results would then depend on how the rows are divided into calls.
  std::span<const position> rows_of_layer = {};
  attention_variant variant = {};

  std::span<const position> all_rows() const { return rows_of_layer.empty() ? rows : rows_of_layer; }
};

/// Where `attend` writes the attention probabilities of the last `queries` rows: host memory (queries, heads, active), whose rows are
/// `stride` floats apart. A token that a row does not see gets 0. If `queries` is 0, `attend` writes no probabilities. If `over_heads` is
/// set, each query has only one row: (queries, 1, active). This row has the bits that reduce_heads computes from the float probabilities of
/// all heads. A choosing_backend may be given null as `data`, for one query with `over_heads`: the row then stays in the backend's memory.
struct attention_probe {
  float* data = nullptr;
  std::size_t queries = 0;
  std::size_t stride = 0;
  std::optional<head_reduction> over_heads = std::nullopt;
  /// If this list is not empty, the memory is (probes, active) instead: one row for each probe, reduced over the queries as reduce_queries
  /// does. `over_heads` is then not set.
  std::span<const head_probe> probes{};

  /// Returns how many rows each query has in this memory, if there are no probes.
  std::size_t heads(const attention_shape& shape) const { return over_heads ? 1 : shape.heads; }
  /// Returns how many rows this memory has.
  std::size_t rows(const attention_shape& shape) const { return probes.empty() ? queries * heads(shape) : probes.size(); }
};

/// The positions to which RoPE rotates rows, one for each row. If the host does not know them yet, because the backend has chosen the
/// tokens (choosing_backend), they are in the backend's memory.
struct row_positions {
  std::span<const position> on_host;
  const position* in_backend = nullptr;  // null: the positions are on_host
};

/// The largest sizes that operations will be given, for `reserve`.
struct operation_sizes {
  std::size_t rows;           // rows that are embedded, moved or stored at a time
  std::size_t columns;        // columns of these rows
  std::size_t block;          // rows that are multiplied, rotated or attended at a time
  std::size_t gated_outputs;  // of a gated matrix, both halves
  attention_shape shape;
  std::size_t active;          // active tokens
  std::size_t queries;         // probed rows
  std::size_t read;            // slots whose keys or values are read at a time
  std::size_t selections = 0;  // selections of a step that a choosing_backend makes
};

namespace detail {

/// An example of an argument for `retain`. It is a struct, because nvcc does not compile a lambda in a concept.
struct keep_one {
  template <class Keep>
  void operator()(Keep&& keep) const {
    keep(0u);
  }
};

}  // namespace detail

/// The operations that make a model's weights. Matrices given to `pack` and `pack_gated` may have a reader, so a packer reads their rows
/// with tensor::row, or their blocks with row_reader::read_blocks. It may first copy rows with tensor::copied_rows, which can be faster.
/// Vectors given to `load` have no reader. A packer may have a member `pack_together(load)`, which calls load(). A matrix that load() makes
/// may be incomplete until pack_together returns. Threads can thus begin a matrix before the matrix before it is complete. Until
/// pack_together returns, the packer holds copies of the `tensor` objects that it packs.
template <class B>
concept weight_packer = requires(B b, std::span<const tensor> parts, const tensor& part, dtype as) {
  { b.pack(parts, as) } -> std::same_as<typename B::matrix>;
  { b.pack_gated(part, part, as) } -> std::same_as<typename B::matrix>;
  { b.load(parts) } -> std::same_as<typename B::parameters>;
};

/// The operations of a backend, see the top of this file. A backend may have a member `in_one_team(work)`, which calls work() once. The
/// operations in it may share a team of threads. If work() throws, in_one_team throws the same exception. It may also have a member
/// `in_parallel(count, work)`, which calls work(i) for each i below `count`, on several threads. Then work(i) does not throw.
template <class B>
concept tensor_backend = weight_packer<B> && std::floating_point<typename B::scalar> &&
    std::constructible_from<typename B::buffer, std::size_t> && std::movable<typename B::buffer> &&                    // columns
    std::constructible_from<typename B::row_store, std::size_t> && std::copyable<typename B::row_store> &&             // columns
    std::constructible_from<typename B::kv_layer, std::size_t, std::size_t> && std::copyable<typename B::kv_layer> &&  // kv_heads, head_dim
    std::constructible_from<typename B::operand, std::size_t> && std::movable<typename B::operand> &&                  // columns
    requires(B b, const B& made, std::span<const double> frequencies, std::size_t n, double epsilon, std::span<const std::uint32_t> ids,
             rows_view<const typename B::scalar> x, rows_view<typename B::scalar> out, const typename B::matrix& w,
             const typename B::parameters& p, const typename B::parameters* bias, const typename B::rope_table& rope,
             typename B::kv_layer& kv, const typename B::kv_layer& keys, typename B::row_store& store, const typename B::row_store& stored,
             const attention_rows& what, const attention_probe& probe, const operation_sizes& sizes, gate_activation gate,
             typename B::scalar* scalars, typename B::buffer& buffer, typename B::operand& to, const typename B::operand& from) {
  { B::block_rows } -> std::convertible_to<std::size_t>;
  { b.make_rope(frequencies, epsilon, n) } -> std::same_as<typename B::rope_table>;
  b.embed(w, ids, epsilon, out);
  b.prepare(to, n, w);
  b.pack_rows(x, to);
  b.rms_norm(x, p, epsilon, out);
  b.rms_norm(x, p, epsilon, to);
  b.multiply(from, w, bias, out);
  b.multiply_add(from, w, bias, out);
  b.add(x, out);
  b.gated_multiply(from, w, bias, gate, to);
  b.rotate(out, n, ids, rope);
  b.put(kv, ids, x, x);
  b.attend(x, keys, what, to, n, probe);
  b.copy_rows(x, ids, out, ids);
  b.keep_rows(x, ids, store, ids);
  b.store_rows(x, ids, store, ids);
  b.take_rows(stored, ids, out, ids);
  b.reserve(sizes);
  b.reserve(kv, n);
  b.reserve_kept(store, n);
  b.reserve_stored(store, n);
  b.read_keys(keys, ids, scalars);
  b.read_values(keys, ids, scalars);
  b.read(x, scalars);
  b.read(from, scalars);
  b.write(scalars, out);
  { made.threads() } -> std::convertible_to<int>;
  { made.bytes() } -> std::convertible_to<std::size_t>;

  buffer.reserve(n);  // room for at least n rows; the contents stay
  { buffer.view() } -> std::same_as<rows_view<typename B::scalar>>;
  { buffer.bytes() } -> std::convertible_to<std::size_t>;
  { from.bytes() } -> std::convertible_to<std::size_t>;
  store.release(ids);                                     // frees these slots
  store.retain(detail::keep_one{});                       // frees all slots except those that `keep` is called with
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

/// A backend that also keeps queries, keys and values in operands, from the product that computes them until attention or the KV cache
/// reads them. The product can then write them in the type of the weights, and the kernel that reads them can rotate them. A transformer
/// uses these operations instead of those for rows:
///   prepare_results(out, rows, w)             makes room in the operand `out` for `rows` rows of products with w
///   multiply(operand, w, bias, out)           x w^T + bias, to all rows of `out`
///   norm_heads(x, head_dim, weight, epsilon)  rms_norm of each head of x, in place
///   rotate_and_put(kv, slots, k, v, first, positions, rope)
///                                             RoPE of the rows of k from `first` on, then `put` of these rows; k does not change
///   attend(q, first_query, positions, rope, kv, what, out, first, probe)
///                                             RoPE of the rows of q from first_query on, then `attend`; q does not change
template <class B>
concept attention_from_operands = tensor_backend<B> &&
    requires(B b, std::size_t n, double epsilon, std::span<const std::uint32_t> ids, const typename B::matrix& w,
             const typename B::parameters& p, const typename B::parameters* bias, const typename B::rope_table& rope,
             typename B::kv_layer& kv, const typename B::kv_layer& keys, const attention_rows& what, const attention_probe& probe,
             typename B::operand& to, const typename B::operand& from, const row_positions& positions) {
  b.prepare_results(to, n, w);
  b.multiply(from, w, bias, to);
  b.norm_heads(to, n, p, epsilon);
  b.rotate_and_put(kv, ids, from, from, n, positions, rope);
  b.attend(from, n, positions, rope, keys, what, to, n, probe);
};

/// Calls work() by the backend's `in_one_team`, or itself if the backend has none. Threads that start and end with every step may wait for
/// the system each time, so a loop of many steps is best one `work`.
template <tensor_backend B, class Work>
void in_one_team(const B& backend, const Work& work) {
  if constexpr (requires { backend.in_one_team(work); })
    backend.in_one_team(work);
  else
    work();
}

/// Calls work(i) for each i below `count`, by the backend's `in_parallel`, or one after the other if the backend has none. work(i) must not
/// throw.
template <tensor_backend B, class Work>
void in_parallel(const B& backend, std::size_t count, const Work& work) {
  if constexpr (requires { backend.in_parallel(count, work); })
    backend.in_parallel(count, work);
  else
    for (std::size_t i = 0; i < count; ++i) work(i);
}

/// The sizes of a selection that a choosing_backend makes: the active tokens, and those that stay.
struct selection_size {
  std::size_t active, kept;
};

/// A selection that a choosing_backend has made. Valid until the next step.
struct made_choice {
  std::span<const std::uint32_t> chosen;  // (kept) indices of the active tokens that stay, ascending
  std::span<const float> scores;          // (active)
  std::size_t stayed;                     // how many tokens the backend found to stay; if it is not `kept`, the choice is wrong
  bool finite;                            // whether all scores are finite
};

/// A backend that can select tokens in its own memory, so that the host need not wait between the layers of a step. The transformer calls
/// begin_choices before the first selection. After each layer that selects it calls choose, store_dropped and take_chosen. The scores are
/// the row that the layer's last attention probe left in the backend's memory.
///
///   begin_choices(positions, standing, page, sizes)  begins a step. The lists belong to the active tokens of the first layer that selects
///   choose()                                         selects by the rules of session/engine_choice.hpp
///   store_dropped(x, store, slots)                   like store_rows: the rows that were dropped, in the order of their positions
///   take_chosen(x)                                   moves the rows that were chosen to the front of x
///   chosen_positions()                               returns where the positions of the tokens that were chosen last are, in the backend's
///                                                    memory (row_positions); the next `choose` overwrites them
///   read_choices(out)                                copies the results of all selections to the host, and waits for them
template <class B>
concept choosing_backend = attention_from_operands<B> &&
    requires(B b, std::span<const position> positions, std::span<const candidacy> standing, std::size_t n,
             std::span<const selection_size> sizes, rows_view<typename B::scalar> x, typename B::row_store& store,
             std::vector<made_choice>& out) {
  b.begin_choices(positions, standing, n, sizes);
  b.choose();
  b.store_dropped(x, store, positions);
  b.take_chosen(x);
  { b.chosen_positions() } -> std::convertible_to<const position*>;
  b.read_choices(out);
};

}  // namespace v0
}  // namespace lazyprune
