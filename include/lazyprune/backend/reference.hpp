// SPDX-License-Identifier: MIT
// The backend that the tests compare the other backends with. Plain loops follow the formula of each operation of tensor_backend, in any
// floating-point type.
#pragma once

#include <numbers>

#include <lazyprune/backend/execution.hpp>
#include <lazyprune/backend/host/host_backend.hpp>
#include <lazyprune/backend/memory/row_operand.hpp>
#include <lazyprune/backend/packing_checks.hpp>

namespace lazyprune {
inline namespace v0 {

/// Weights are kept as T. If the argument `as` of `pack` is bf16, `pack` rounds the weights to bf16, as the other backends do. The backends
/// then differ only in their arithmetic.
template <std::floating_point T = double>
class reference : public host_backend<T> {
 public:
  using typename host_backend<T>::parameters;
  using typename host_backend<T>::kv_layer;
  using typename host_backend<T>::rope_table;
  using operand = row_operand<T>;

  class matrix {
   public:
    std::size_t outputs() const { return outputs_; }
    std::size_t inputs() const { return inputs_; }
    std::size_t bytes() const { return values_.size() * sizeof(T); }
    const T* row(std::size_t output) const { return values_.data() + output * inputs_; }

   private:
    friend reference;
    std::size_t outputs_;
    std::size_t inputs_;
    std::vector<T> values_;  // (outputs, inputs)
  };

  reference() = default;
  explicit reference(const execution&) {}  // no setting has an effect: there is always one thread

  int threads() const { return 1; }
  std::size_t bytes() const { return 0; }  // there is no scratch memory

  matrix pack(std::span<const tensor> parts, dtype as) const {
    matrix w;
    w.outputs_ = detail::stacked_outputs(parts, as);
    w.inputs_ = parts[0].columns;
    w.values_.resize(w.outputs_ * w.inputs_);
    T* to = w.values_.data();
    for (const tensor& part : parts) {
      widen(part, to);
      to += part.rows * part.columns;
    }
    if (as == dtype::bf16)
      for (T& value : w.values_) value = float_of_bf16(bf16_of_float(static_cast<float>(value)));
    return w;
  }

  matrix pack_gated(const tensor& gate, const tensor& up, dtype as) const {
    detail::check_gated(gate, up);
    const tensor parts[] = {gate, up};
    return pack(parts, as);
  }

  void embed(const matrix& table, std::span<const std::uint32_t> ids, double scale, rows_view<T> out) const {
    for (std::size_t r = 0; r < ids.size(); ++r)
      for (std::size_t i = 0; i < table.inputs(); ++i) out.row(r)[i] = table.row(ids[r])[i] * static_cast<T>(scale);
  }

  void rms_norm(rows_view<const T> x, const parameters& weight, double epsilon, rows_view<T> out) const {
    for (std::size_t r = 0; r < x.rows; ++r) {
      T squares = 0;
      for (std::size_t i = 0; i < x.columns; ++i) squares += x.row(r)[i] * x.row(r)[i];
      const T root = std::sqrt(squares / static_cast<T>(x.columns) + static_cast<T>(epsilon));
      for (std::size_t i = 0; i < x.columns; ++i) out.row(r)[i] = x.row(r)[i] / root * weight[i];
    }
  }

  void prepare(operand& x, std::size_t rows, const matrix&) const { x.prepare(rows); }

  void pack_rows(rows_view<const T> x, operand& out) const {
    for (std::size_t r = 0; r < x.rows; ++r) std::copy_n(x.row(r), x.columns, out.view().row(r));
  }

  using host_backend<T>::read;
  void read(const operand& x, T* out) const { host_backend<T>::read(x.view(), out); }

  void rms_norm(rows_view<const T> x, const parameters& weight, double epsilon, operand& out) const {
    rms_norm(x, weight, epsilon, out.view());
  }

  void multiply(const operand& x, const matrix& w, const parameters* bias, rows_view<T> out) const {
    for (std::size_t r = 0; r < x.rows(); ++r)
      for (std::size_t n = 0; n < w.outputs(); ++n) out.row(r)[n] = product(x.view().row(r), w, bias, n);
  }

  void multiply_add(const operand& x, const matrix& w, const parameters* bias, rows_view<T> out) const {
    for (std::size_t r = 0; r < x.rows(); ++r)
      for (std::size_t n = 0; n < w.outputs(); ++n) out.row(r)[n] += product(x.view().row(r), w, bias, n);
  }

  void gated_multiply(const operand& x, const matrix& w, const parameters* bias, gate_activation activation, operand& out) const {
    const std::size_t ffn = w.outputs() / 2;
    for (std::size_t r = 0; r < x.rows(); ++r)
      for (std::size_t n = 0; n < ffn; ++n) {
        const T* row = x.view().row(r);
        const T gate = product(row, w, bias, n);
        out.view().row(r)[n] = (activation == gate_activation::silu ? silu(gate) : gelu_tanh(gate)) * product(row, w, bias, ffn + n);
      }
  }

  void rotate(rows_view<T> x, std::size_t head_dim, std::span<const position> positions, const rope_table& rope) const {
    const std::size_t half = head_dim / 2;
    for (std::size_t r = 0; r < x.rows; ++r)
      for (std::size_t head = 0; head < x.columns; head += head_dim)
        for (std::size_t i = 0; i < half; ++i) {
          T& a = x.row(r)[head + i];
          T& b = x.row(r)[head + i + half];
          const T cosine = rope.cosines(positions[r])[i];
          const T sine = rope.sines(positions[r])[i];
          const T rotated = a * cosine - b * sine;
          b = b * cosine + a * sine;
          a = rotated;
        }
  }

  void attend(rows_view<const T> q, const kv_layer& kv, const attention_rows& what, operand& out, std::size_t first_row,
              const attention_probe& probe) const {
    const auto [heads, kv_heads, head_dim] = what.shape;
    const std::size_t active = what.active.size(), window = what.variant.window;
    const T scale = what.variant.scale != 0 ? static_cast<T>(what.variant.scale) : 1 / std::sqrt(static_cast<T>(head_dim));
    const T cap = static_cast<T>(what.variant.soft_cap);
    std::vector<T> probability(active);
    std::vector<float> of_heads(probe.over_heads ? heads * active : 0);
    std::vector<float> of_probes(probe.probes.size() * probe.queries * active);  // (probes, queries, active)
    for (std::size_t r = 0; r < q.rows; ++r) {
      const bool probed = r + probe.queries >= q.rows;
      const std::size_t query_of_probe = r + probe.queries - q.rows;  // if it is probed
      float* const shown = probed ? probe.data + query_of_probe * probe.heads(what.shape) * probe.stride : nullptr;
      for (std::size_t h = 0; h < heads; ++h) {
        const T* query = q.row(r) + h * head_dim;
        const std::size_t kv_at = h * kv_heads / heads * head_dim;  // offset of this head's key and value in a slot
        std::size_t first = 0, last = 0;                            // the row sees active[first] to active[last - 1]
        while (last < active && what.active[last] <= what.rows[r]) ++last;
        while (window > 0 && what.rows[r] - what.active[first] >= window) ++first;

        T largest = -std::numeric_limits<T>::infinity();
        for (std::size_t i = first; i < last; ++i) {
          probability[i] = dot(query, kv.key(what.slots[i]) + kv_at, head_dim) * scale;
          if (cap > 0) probability[i] = cap * std::tanh(probability[i] / cap);
          largest = std::max(largest, probability[i]);
        }
        T sum = 0;
        for (std::size_t i = first; i < last; ++i) sum += probability[i] = std::exp(probability[i] - largest);

        T* to = out.view().row(first_row + r) + h * head_dim;
        std::fill_n(to, head_dim, T{0});
        for (std::size_t i = first; i < last; ++i) {
          probability[i] /= sum;
          const T* value = kv.value(what.slots[i]) + kv_at;
          for (std::size_t d = 0; d < head_dim; ++d) to[d] += probability[i] * value[d];
        }

        if (!probed) continue;
        const auto show = [&](float* row) {
          for (std::size_t i = 0; i < active; ++i) row[i] = first <= i && i < last ? static_cast<float>(probability[i]) : 0.0f;
        };
        for (std::size_t p = 0; p < probe.probes.size(); ++p)
          if (probe.probes[p].head == h) show(&of_probes[(p * probe.queries + query_of_probe) * active]);
        if (probe.probes.empty()) show(probe.over_heads ? &of_heads[h * active] : shown + h * probe.stride);
      }
      if (probed && probe.over_heads) reduce_heads({of_heads.data(), heads, active, what.active}, *probe.over_heads, {shown, active});
    }
    for (std::size_t p = 0; p < probe.probes.size(); ++p)
      reduce_queries(&of_probes[p * probe.queries * active], probe.queries, active, probe.probes[p].over,
                     {probe.data + p * probe.stride, active});
  }

 private:
  static T silu(T x) { return x / (1 + std::exp(-x)); }
  static T gelu_tanh(T x) {
    const T inner = std::sqrt(2 * std::numbers::inv_pi_v<T>) * (x + static_cast<T>(0.044715) * x * x * x);
    return x / 2 * (1 + std::tanh(inner));
  }

  static T dot(const T* a, const T* b, std::size_t count) {
    T sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
    return sum;
  }

  static T product(const T* x, const matrix& w, const parameters* bias, std::size_t output) {
    return dot(x, w.row(output), w.inputs()) + (bias ? (*bias)[output] : T{0});
  }
};

static_assert(tensor_backend<reference<double>>);
static_assert(tensor_backend<reference<float>>);

}  // namespace v0
}  // namespace lazyprune
