// SPDX-License-Identifier: MIT
// The backend for NVIDIA GPUs. cuBLASLt computes the products of many rows, and the library's own kernels everything else, in one stream.
// nvcc must compile a file that includes this header (CMake target lazyprune::cuda).
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <lazyprune/backend/cuda/attention.hpp>
#include <lazyprune/backend/cuda/choices.hpp>
#include <lazyprune/backend/cuda/elementwise.cuh>
#include <lazyprune/backend/cuda/launch.hpp>
#include <lazyprune/backend/cuda/lists.hpp>
#include <lazyprune/backend/cuda/locked_memory.hpp>
#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/cuda/operand.hpp>
#include <lazyprune/backend/cuda/products.hpp>
#include <lazyprune/backend/cuda/row_store.hpp>
#include <lazyprune/backend/cuda/stored_kv.hpp>
#include <lazyprune/backend/cuda/weight_upload.hpp>
#include <lazyprune/backend/cuda/weights.hpp>
#include <lazyprune/backend/execution.hpp>
#include <lazyprune/backend/host/host_parameters.hpp>
#include <lazyprune/backend/host/host_rope_table.hpp>
#include <lazyprune/backend/memory/row_buffer.hpp>
#include <lazyprune/backend/packing_checks.hpp>
#include <lazyprune/backend/tensor_backend.hpp>

namespace lazyprune {
inline namespace v0 {

/// Activations stay on the device, so a rows_view holds a device address. Weights are float or bf16. Sums, the residual stream and logits
/// are float. By default, bf16 weights make everything else in a layer bf16:
/// - Norms, attention and gates round their results, which are operands of products with such weights.
/// - The products round queries, keys and values, before RoPE, and the two inputs of a gate. For more than 4 rows, the biases of these
///   products are bf16, too. The gate of 4 rows or fewer reads its inputs before they are rounded.
/// - RoPE computes in float. It rounds keys to the type of the KV cache.
/// In a layer with more than 16 rows, queries after RoPE and attention weights are rounded to bf16 before a product with bf16 keys and
/// values. With `execution::exact`, nothing of this is rounded. The backend then keeps bf16 weights as float, in twice the memory.
///
/// An operation that copies numbers to the host waits for the copy. Every other operation returns when its work is queued. Scratch
/// memory grows to the largest operation seen and is then reused. The same input gives the same bits in every run, but a row may get other
/// bits in another batch. A process may have any number of these objects (contexts). Only one thread at a time may use a context.
class cuda_backend {
 public:
  using scalar = float;
  using matrix = device::weight;
  using buffer = row_buffer<float, device::array<float, device::purpose::activations>>;
  using operand = device::operand;
  using kv_layer = device::stored_kv;
  using row_store = device::row_store;
  // Blocks are large, because a layer reads its weights and launches about a dozen kernels for each block of rows.
  static constexpr std::size_t block_rows = 2048;

  class parameters {
   public:
    explicit parameters(const host_parameters<float>& from) : memory_(from.size()), rounded_(from.size()) {
      if (from.size() == 0) return;
      std::vector<std::uint16_t> rounded(from.size());
      std::transform(from.data(), from.data() + from.size(), rounded.begin(), bf16_of_float);
      device::check(cudaMemcpyAsync(memory_.data(), from.data(), from.bytes(), cudaMemcpyHostToDevice, device::stream()), "parameters");
      device::check(cudaMemcpyAsync(rounded_.data(), rounded.data(), rounded_.bytes(), cudaMemcpyHostToDevice, device::stream()),
                    "parameters");
      device::synchronize();
    }
    std::size_t size() const { return memory_.size(); }
    std::size_t bytes() const { return memory_.bytes() + rounded_.bytes(); }
    const float* data() const { return memory_.data(); }
    /// Returns these parameters as the bias of a product.
    device::bias_of_product bias() const { return {memory_.data(), rounded_.data()}; }

   private:
    device::array<float, device::purpose::weights> memory_;
    device::array<std::uint16_t, device::purpose::weights> rounded_;
  };

  class rope_table {
   public:
    rope_table(const host_rope_table<float>& from, std::size_t positions) : half_(from.half()), memory_(2 * half_ * positions) {
      if (memory_.size() == 0) return;
      device::check(cudaMemcpyAsync(memory_.data(), from.cosines(0), memory_.bytes(), cudaMemcpyHostToDevice, device::stream()), "rope");
      device::synchronize();
    }
    std::size_t half() const { return half_; }
    std::size_t bytes() const { return memory_.bytes(); }
    const float* data() const { return memory_.data(); }  // (positions, 2, half): cosines, then sines

   private:
    std::size_t half_;
    device::array<float, device::purpose::weights> memory_;
  };

  cuda_backend() : cuda_backend(execution{}) {}

  /// Throws `error` if `e.kv` is f16, if there is no such device as e.cuda.device, or if this process already computes on another one.
  /// `e.threads` is the number of host threads that pack weights. `e.instructions` has no effect.
  explicit cuda_backend(const execution& e) : kv_type_(e.kv), exact_(e.exact), attention_(e.exact), upload_(e.threads) {
    if (e.kv == dtype::f16 || e.kv == dtype::q8_0) throw error("", "kv", "f32 or bf16", name_of(*e.kv));
    place_ = device::work_order::of_process().place_of(e.cuda);
  }

  cuda_backend(const cuda_backend&) = delete;
  cuda_backend& operator=(const cuda_backend&) = delete;
  ~cuda_backend() { device::work_order::of_process().leave(place_); }

  int threads() const { return 1; }  // host threads

  /// Calls work(). Memory that it allocates comes from this backend's allocator.
  template <class Work>
  void in_one_team(const Work& work) const {
    const device::at_place here(place_);
    work();
  }

  /// Returns the bytes of scratch memory on the device.
  std::size_t bytes() const {
    return products_.bytes() + attention_.bytes() + choices_.bytes() + lists_.bytes() + gated_.bytes() + moved_.bytes() + read_.bytes();
  }

  matrix pack(std::span<const tensor> parts, dtype as) const {
    const device::at_place here(place_);
    return matrix(parts, as, exact_ ? dtype::f32 : as, upload_);
  }
  matrix pack_gated(const tensor& gate, const tensor& up, dtype as) const {
    lazyprune::detail::check_gated(gate, up);
    const tensor parts[] = {gate, up};
    return pack(parts, as);
  }
  parameters load(std::span<const tensor> parts) const {
    const device::at_place here(place_);
    return parameters(host_parameters<float>(parts));
  }
  rope_table make_rope(std::span<const double> frequencies, double scale, std::size_t positions) const {
    const device::at_place here(place_);
    return rope_table(host_rope_table<float>(frequencies, scale, positions), positions);
  }

  void embed(const matrix& table, std::span<const std::uint32_t> ids, double scale, rows_view<float> out) {
    const device::at_place here(place_);
    assert(out.columns == table.inputs());
    const std::uint32_t* const there = send(ids);
    const auto rows = [&](const auto* data) {
      launch_pieces(device::embed_rows<std::remove_cvref_t<decltype(*data)>>, ids.size(), out.columns,
                    device::row_span<std::remove_reference_t<decltype(*data)>>{data, table.pitch()}, there, static_cast<float>(scale),
                    out.columns, span(out));
    };
    table.type() == dtype::bf16 ? rows(table.data<std::uint16_t>()) : rows(table.data<float>());
  }

  void rms_norm(rows_view<const float> x, const parameters& weight, double epsilon, rows_view<float> out) {
    const device::at_place here(place_);
    assert(out.columns == x.columns);
    norm(span(x), x.rows, x.columns, weight, epsilon, span(out));
  }

  void prepare(operand& x, std::size_t rows, const matrix& w) const {
    const device::at_place here(place_);
    assert(x.columns() == w.inputs());
    x.prepare(rows, w.type());
  }

  void pack_rows(rows_view<const float> x, operand& out) const {
    const device::at_place here(place_);
    assert(x.rows == out.rows() && x.columns == out.columns());
    by_type(out, [&]<class To>(device::row_span<To> to) {
      launch_pieces(device::convert_rows<float, To>, x.rows, x.columns, span(x), x.columns, to);
    });
  }

  void rms_norm(rows_view<const float> x, const parameters& weight, double epsilon, operand& out) {
    const device::at_place here(place_);
    assert(x.rows == out.rows() && x.columns == out.columns());
    by_type(out, [&](auto to) { norm(span(x), x.rows, x.columns, weight, epsilon, to); });
  }

  /// Replaces each head of x (rows, heads * head_dim) by its rms_norm.
  void norm_heads(operand& x, std::size_t head_dim, const parameters& weight, double epsilon) {
    const device::at_place here(place_);
    by_type(x, [&]<class T>(device::row_span<T> rows) {
      if (x.pitch() == x.columns())
        return norm(device::row_span<const T>{rows.data, head_dim}, x.rows() * (x.columns() / head_dim), head_dim, weight, epsilon,
                    device::row_span<T>{rows.data, head_dim});
      for (std::size_t head = 0; head < x.columns(); head += head_dim)
        norm(device::row_span<const T>{rows.data + head, rows.stride}, x.rows(), head_dim, weight, epsilon,
             device::row_span<T>{rows.data + head, rows.stride});
    });
  }

  void multiply(const operand& x, const matrix& w, const parameters* bias, rows_view<float> out) {
    const device::at_place here(place_);
    multiply(x, w, bias, false, out);
  }

  /// Makes room in `out` for the results of products with w, in the type of w.
  void prepare_results(operand& out, std::size_t rows, const matrix& w) const {
    const device::at_place here(place_);
    out.prepare(rows, w.type());
  }

  /// Writes all rows of `out`, see prepare_results.
  void multiply(const operand& x, const matrix& w, const parameters* bias, operand& out) {
    const device::at_place here(place_);
    assert(x.rows() == out.rows());
    out.type() == dtype::bf16 ? multiply(x, w, bias, false, out.view<std::uint16_t>()) : multiply(x, w, bias, false, out.view<float>());
  }

  void multiply_add(const operand& x, const matrix& w, const parameters* bias, rows_view<float> out) {
    const device::at_place here(place_);
    multiply(x, w, bias, true, out);
  }

  void add(rows_view<const float> x, rows_view<float> out) {
    const device::at_place here(place_);
    assert(x.rows == out.rows && x.columns == out.columns);
    launch_pieces(device::add_rows<float>, x.rows, x.columns, span(x), x.columns, span(out));
  }

  void gated_multiply(const operand& x, const matrix& w, const parameters* bias, gate_activation gate, operand& out) {
    const device::at_place here(place_);
    assert(2 * out.columns() == w.outputs() && x.rows() == out.rows());
    if (device::products::are_few(x.rows(), w))
      return device::products::multiply_gated(x, w, bias ? bias->data() : nullptr, gate, out.from(0));
    if (w.type() == dtype::bf16 && out.type() == dtype::bf16)
      multiply_and_gate<std::uint16_t>(x, w, bias, gate, out);
    else
      multiply_and_gate<float>(x, w, bias, gate, out);
  }

  void rotate(rows_view<float> x, std::size_t head_dim, std::span<const position> positions, const rope_table& rope) {
    const device::at_place here(place_);
    assert(positions.size() == x.rows && rope.half() == head_dim / 2);
    launch_pieces(device::rotate_rows<float>, x.rows, x.columns, span(x), static_cast<unsigned>(x.columns / head_dim),
                  device::rotation{send(positions), rope.data(), static_cast<unsigned>(rope.half())});
  }

  /// After this call, operations up to these sizes allocate neither device memory nor page-locked memory of the host. Reading an operand
  /// may.
  void reserve(const operation_sizes& most) {
    const device::at_place here(place_);
    products_.reserve();
    attention_.reserve(most);
    choices_.reserve(most.active, most.selections);
    back_.reserve();
    gated_.reserve(most.block * matrix::pitch_of(most.gated_outputs) * sizeof(float));
    moved_.reserve(most.rows * most.columns);
    read_.reserve(most.read * most.shape.kv_heads * most.shape.head_dim);
    // Makes room for the largest lists of any operation. A copy within one buffer has two moves a row. Attention has a range and a position
    // for each row, and 5 bytes at most for each active token: the token's slot, and its share of a block's address.
    lists_.reserve(2 * most.rows * sizeof(device::row_move) + most.block * (sizeof(uint2) + sizeof(position)) + most.active * 5 + 256);
  }
  void reserve(kv_layer& kv, std::size_t slots) const {
    const device::at_place here(place_);
    kv.reserve(slots, kv_type_.value_or(kv.type()));
  }
  void reserve_kept(row_store& store, std::size_t slots) const {
    const device::at_place here(place_);
    store.hold(slots, dtype::f32);
  }
  void reserve_stored(row_store& store, std::size_t slots) const {
    const device::at_place here(place_);
    store.hold(slots, kv_type_.value_or(store.type()));
  }

  /// If execution::kv is set, an empty cache takes this type. Otherwise the cache keeps its type.
  void put(kv_layer& kv, std::span<const std::uint32_t> slots, rows_view<const float> k, rows_view<const float> v) {
    const device::at_place here(place_);
    assert(slots.size() == k.rows && k.rows == v.rows);
    put(kv, slots, span(k), span(v), {}, nullptr);
  }

  /// Rotates k by RoPE, and puts k and v, which have the same type, as `put` does. Their rows are those from `first` on, one for each slot.
  void rotate_and_put(kv_layer& kv, std::span<const std::uint32_t> slots, const operand& k, const operand& v, std::size_t first,
                      const row_positions& positions, const rope_table& rope) {
    const device::at_place here(place_);
    assert(positions.in_backend || positions.on_host.size() == slots.size());
    assert(first + slots.size() <= k.rows() && k.rows() == v.rows() && k.type() == v.type());
    by_type(k, [&]<class T>(device::row_span<const T>) { put(kv, slots, k.rows_of<T>(first), v.rows_of<T>(first), positions, &rope); });
  }

  void attend(rows_view<const float> q, const kv_layer& kv, const attention_rows& what, operand& out, std::size_t first,
              const attention_probe& probe) {
    const device::at_place here(place_);
    assert(q.rows == what.rows.size() && what.active.size() == what.slots.size() && probe.queries <= q.rows);
    assert(first + q.rows <= out.rows() && out.columns() == q.columns);
    attention_.attend({span(q), {}, {}}, {}, kv, what, out.from(first), probe, lists_, back_);
  }

  /// Rotates the rows of q from `first_query` on to `positions`, and attends as above. q itself is not changed.
  void attend(const operand& q, std::size_t first_query, const row_positions& positions, const rope_table& rope, const kv_layer& kv,
              const attention_rows& what, operand& out, std::size_t first, const attention_probe& probe) {
    const device::at_place here(place_);
    assert(positions.in_backend || positions.on_host.size() == what.rows.size());
    assert(first_query + what.rows.size() <= q.rows() && what.active.size() == what.slots.size() && probe.queries <= what.rows.size());
    assert(first + what.rows.size() <= out.rows() && out.columns() == q.columns());
    device::query_rows queries{{}, {}, {nullptr, rope.data(), static_cast<unsigned>(rope.half())}};
    if (q.type() == dtype::bf16)
      queries.bf16 = q.rows_of<std::uint16_t>(first_query);
    else
      queries.floats = q.rows_of<float>(first_query);
    attention_.attend(queries, positions, kv, what, out.from(first), probe, lists_, back_);
  }

  // The selections of a step, see choosing_backend.
  void begin_choices(std::span<const position> positions, std::span<const candidacy> standing, std::size_t page,
                     std::span<const selection_size> sizes) {
    const device::at_place here(place_);
    choices_.begin(positions, standing, page, sizes, lists_);
  }
  void choose() {
    const device::at_place here(place_);
    choices_.choose(attention_.probed());
  }
  void store_dropped(rows_view<const float> x, row_store& store, std::span<const std::uint32_t> slots) {
    const device::at_place here(place_);
    store.reserve(slots, kv_type_.value_or(store.type()));
    choices_.store_dropped(x, store, slots, lists_);
  }
  void take_chosen(rows_view<float> x) {
    const device::at_place here(place_);
    choices_.take_chosen(x, moved_.reserve(x.rows * x.columns));
  }
  const position* chosen_positions() { return choices_.positions(); }
  void read_choices(std::vector<made_choice>& out) {
    const device::at_place here(place_);
    choices_.read(out, back_);
  }

  /// The result is the same as that of copying one row after another, in the order of the lists: a source row that an earlier copy has
  /// overwritten is copied with its new numbers. For this, the host finds out from which row each destination finally gets its numbers. If
  /// both views are of one buffer, the device then reads all rows before it writes any.
  void copy_rows(rows_view<const float> from, std::span<const std::uint32_t> from_rows, rows_view<float> to,
                 std::span<const std::uint32_t> to_rows) {
    const device::at_place here(place_);
    assert(from_rows.size() == to_rows.size() && from.columns == to.columns);
    if (from_rows.empty()) return;
    // An index may lie past the rows of its view, because an earlier layer may have had more rows in the same buffer.
    const std::size_t from_end = *std::ranges::max_element(from_rows) + std::size_t{1},
                      to_end = *std::ranges::max_element(to_rows) + std::size_t{1};
    const bool within = from.data < to.row(to_end) && to.data < from.row(from_end);
    assert(!within || (from.data == to.data && from.stride == to.stride));
    source_of_.assign(std::max(from_end, to_end), none);
    for (std::size_t i = 0; i < from_rows.size(); ++i) {
      const std::uint32_t source = within ? source_of_[from_rows[i]] : none;
      source_of_[to_rows[i]] = source == none ? from_rows[i] : source;
    }
    moves_.clear();
    for (std::uint32_t r = 0; r < source_of_.size(); ++r)
      if (source_of_[r] != none && !(within && source_of_[r] == r)) moves_.push_back({from.row(source_of_[r]), to.row(r)});
    leaving_.clear();
    if (within) {
      float* const between = moved_.reserve(moves_.size() * to.columns);
      for (std::size_t i = 0; i < moves_.size(); ++i) {
        leaving_.push_back({between + i * to.columns, moves_[i].to});
        moves_[i].to = between + i * to.columns;
      }
    }
    const auto [moves, leaving] = lists_.send(std::span<const device::row_move>(moves_), std::span<const device::row_move>(leaving_));
    move<float, float>(moves, moves_.size(), to.columns);
    move<float, float>(leaving, leaving_.size(), to.columns);
  }

  void keep_rows(rows_view<const float> x, std::span<const std::uint32_t> rows, row_store& store, std::span<const std::uint32_t> slots) {
    const device::at_place here(place_);
    write_rows(x, rows, store, slots, dtype::f32);
  }

  /// If execution::kv is set, an empty store takes this type. Otherwise the store keeps its type.
  void store_rows(rows_view<const float> x, std::span<const std::uint32_t> rows, row_store& store, std::span<const std::uint32_t> slots) {
    const device::at_place here(place_);
    write_rows(x, rows, store, slots, kv_type_.value_or(store.type()));
  }

  void take_rows(const row_store& store, std::span<const std::uint32_t> slots, rows_view<float> x, std::span<const std::uint32_t> rows) {
    const device::at_place here(place_);
    moves_.clear();
    for (std::size_t i = 0; i < rows.size(); ++i) moves_.push_back({store.row(slots[i]), x.row(rows[i])});
    store.type() == dtype::bf16 ? move<std::uint16_t, float>(x.columns) : move<float, float>(x.columns);
  }

  void read_keys(const kv_layer& kv, std::span<const std::uint32_t> slots, float* out) {
    const device::at_place here(place_);
    read_slots(kv, slots, false, out);
  }
  void read_values(const kv_layer& kv, std::span<const std::uint32_t> slots, float* out) {
    const device::at_place here(place_);
    read_slots(kv, slots, true, out);
  }

  void read(rows_view<const float> x, float* out) {
    const device::at_place here(place_);
    const std::size_t width = x.columns * sizeof(float);
    back_.copy(out, width, x.data, x.stride * sizeof(float), width, x.rows);
  }
  void write(const float* numbers, rows_view<float> x) {
    const device::at_place here(place_);
    if (x.rows == 0 || x.columns == 0) return;
    const std::size_t width = x.columns * sizeof(float);
    device::check(
        cudaMemcpy2DAsync(x.data, x.stride * sizeof(float), numbers, width, width, x.rows, cudaMemcpyHostToDevice, device::stream()),
        "copy to the GPU");
    device::synchronize();  // the caller may then free the numbers
  }
  void read(const operand& x, float* out) {
    const device::at_place here(place_);
    const rows_view<float> numbers{read_.reserve(x.rows() * x.columns()), x.rows(), x.columns(), x.columns()};
    by_type(x, [&]<class From>(device::row_span<const From> from) {
      launch_pieces(device::convert_rows<From, float>, x.rows(), x.columns(), from, x.columns(), span(numbers));
    });
    read(numbers, out);
  }

 private:
  static constexpr std::uint32_t none = static_cast<std::uint32_t>(-1);

  template <class T>
  static device::row_span<T> span(rows_view<T> rows) {
    return {rows.data, rows.stride};
  }

  /// Calls work(rows) with the operand's rows, a row_span of their type.
  template <class Operand, class Work>
  static void by_type(Operand& x, const Work& work) {
    x.type() == dtype::bf16 ? work(x.template rows_of<std::uint16_t>()) : work(x.template rows_of<float>());
  }

  template <class In, class Out>
  static void norm(device::row_span<const In> x, std::size_t rows, std::size_t columns, const parameters& weight, double epsilon,
                   device::row_span<Out> out) {
    assert(weight.size() == columns);
    launch_rows(device::norm_rows<In, Out>, rows, columns, device::threads_for(columns) / device::warp_lanes * sizeof(float), x,
                weight.data(), static_cast<float>(epsilon), columns, out);
  }

  template <class Out>
  void multiply(const operand& x, const matrix& w, const parameters* bias, bool add, rows_view<Out> out) {
    assert(out.columns == w.outputs() && (!bias || bias->size() == w.outputs()));
    products_.multiply(x, w, bias ? bias->bias() : device::bias_of_product{}, add, out);
  }

  /// Computes a gated product with two kernels. The inputs of the gate are of type Between.
  template <class Between>
  void multiply_and_gate(const operand& x, const matrix& w, const parameters* bias, gate_activation gate, operand& out) {
    const std::size_t pitch = matrix::pitch_of(w.outputs());
    auto* const room = reinterpret_cast<Between*>(gated_.reserve(x.rows() * pitch * sizeof(Between)));
    multiply(x, w, bias, false, rows_view<Between>{room, x.rows(), w.outputs(), pitch});
    by_type(out, [&]<class To>(device::row_span<To> to) {
      launch_pieces(device::gate_rows<Between, To>, x.rows(), out.columns(), device::row_span<const Between>{room, pitch}, out.columns(),
                    gate, to);
    });
  }

  /// Puts rows k and v of type T, one for each slot. Rotates k first if `rope` is not null.
  template <class T>
  void put(kv_layer& kv, std::span<const std::uint32_t> slots, device::row_span<const T> k, device::row_span<const T> v,
           const row_positions& positions, const rope_table* rope) {
    kv.reserve(slots, kv_type_.value_or(kv.type()));
    const auto [there, blocks, sent] = lists_.send(slots, kv.addresses(blocks_), positions.on_host);
    const device::rotation by{positions.in_backend ? positions.in_backend : sent, rope ? rope->data() : nullptr,
                              static_cast<unsigned>(kv.head_dim() / 2)};
    launch_pieces(kv.type() == dtype::bf16 ? device::put_rows<T, std::uint16_t> : device::put_rows<T, float>, slots.size(), kv.width(), k,
                  v, by, there, const_cast<void* const*>(blocks), static_cast<unsigned>(kv.kv_heads()),
                  static_cast<unsigned>(kv.head_dim()), static_cast<unsigned>(kv.pitch()));
  }

  /// Launches one block of threads_for(columns) threads for each row.
  template <class... Parameters, class... Arguments>
  static void launch_rows(void (*kernel)(Parameters...), std::size_t rows, std::size_t columns, std::size_t shared_bytes,
                          Arguments&&... arguments) {
    if (rows == 0 || columns == 0) return;
    device::launch_early(kernel, {static_cast<unsigned>(rows)}, {device::threads_for(columns)}, shared_bytes,
                         std::forward<Arguments>(arguments)...);
  }

  /// Launches pieces_for(columns) blocks of threads_for(columns) threads for each row.
  template <class... Parameters, class... Arguments>
  static void launch_pieces(void (*kernel)(Parameters...), std::size_t rows, std::size_t columns, Arguments&&... arguments) {
    if (rows == 0 || columns == 0) return;
    device::launch_early(kernel, {static_cast<unsigned>(rows), device::pieces_for(columns)}, {device::threads_for(columns)}, 0,
                         std::forward<Arguments>(arguments)...);
  }

  template <class T>
  const T* send(std::span<const T> list) {
    return std::get<0>(lists_.send(list));
  }

  template <class From, class To>
  static void move(const device::row_move* there, std::size_t rows, std::size_t columns) {
    launch_pieces(device::move_rows<From, To>, rows, columns, there, columns);
  }
  template <class From, class To>
  void move(std::size_t columns) {
    move<From, To>(send(std::span<const device::row_move>(moves_)), moves_.size(), columns);
  }

  void write_rows(rows_view<const float> x, std::span<const std::uint32_t> rows, row_store& store, std::span<const std::uint32_t> slots,
                  dtype as) {
    store.reserve(slots, as);
    moves_.clear();
    for (std::size_t i = 0; i < rows.size(); ++i) moves_.push_back({x.row(rows[i]), store.row(slots[i])});
    store.type() == dtype::bf16 ? move<float, std::uint16_t>(x.columns) : move<float, float>(x.columns);
  }

  void read_slots(const kv_layer& kv, std::span<const std::uint32_t> slots, bool values, float* out) {
    if (slots.empty()) return;
    const std::size_t width = kv.kv_heads() * kv.head_dim();
    const auto [there, blocks] = lists_.send(slots, kv.addresses(blocks_));
    float* const numbers = read_.reserve(slots.size() * width);
    launch_rows(kv.type() == dtype::bf16 ? device::read_slots<std::uint16_t> : device::read_slots<float>, slots.size(), width, 0, blocks,
                there, values, static_cast<unsigned>(kv.kv_heads()), static_cast<unsigned>(kv.head_dim()),
                static_cast<unsigned>(kv.pitch()), numbers);
    read({numbers, slots.size(), width, width}, out);
  }

  device::place place_{};
  std::optional<dtype> kv_type_;
  bool exact_;
  device::products products_;
  device::attention_layer attention_;
  device::choices choices_;
  device::lists lists_;
  device::read_back back_;
  mutable device::weight_upload upload_;
  device::scratch<std::byte> gated_;  // (rows, 2 ffn) in float or bf16
  device::scratch<float> moved_;      // (rows, columns): copies of the rows that move within one buffer
  device::scratch<float> read_;       // keys, values or an operand's rows, for the host
  std::vector<const void*> blocks_;
  std::vector<device::row_move> moves_, leaving_;
  std::vector<std::uint32_t> source_of_;  // for copy_rows: the source row of each destination row, or `none`
};

static_assert(attention_from_operands<cuda_backend>);
static_assert(choosing_backend<cuda_backend>);

}  // namespace v0
}  // namespace lazyprune
