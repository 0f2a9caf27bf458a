// SPDX-License-Identifier: MIT
// Products with weights, by cuBLASLt, or by a kernel of ours if there are few rows. cuBLASLt is column-major, so it reads a row-major
// matrix as its transpose. We therefore compute out = x w^T as out^T = (w^T)^T x^T, where cuBLASLt sees w^T and x^T in memory. The weight
// is the left operand. The weights of one output are adjacent in memory, as tensor cores want them.
#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>

#include <lazyprune/backend/cuda/check.hpp>
#include <lazyprune/backend/cuda/launch.hpp>
#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/cuda/operand.hpp>
#include <lazyprune/backend/cuda/row_products.cuh>
#include <lazyprune/backend/cuda/weights.hpp>
#include <lazyprune/backend/tensor_backend.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// A bias in device memory, in float and in bf16, because cuBLASLt adds a bias in the type of its results. Both are null if there is none.
struct bias_of_product {
  const float* floats = nullptr;
  const std::uint16_t* bf16 = nullptr;
};

/// The algorithms of cuBLASLt's products. All backend objects (contexts) of a process share them, so a new context need not choose again.
/// Each number of rows has a choice of its own: with the algorithm for a few percent more rows, products took 8 % longer on an H100.
/// Any number of threads may call this object at once.
class product_algorithms {
 public:
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // the size that cuBLAS itself uses on compute capability 9.0

  /// A product of `rows` rows, as cuBLASLt sees it: its types, sizes, distances between rows, and addresses. Pitches are in numbers.
  struct product {
    cudaDataType type;
    const void* weight;
    std::size_t outputs, inputs, weight_pitch;
    const void* x;
    std::size_t rows, x_pitch;
    const void* bias;  // in the type of `out`, or null
    bool add;
    cudaDataType out_type;  // float, or bf16 if `type` is bf16
    void* out;
    std::size_t out_pitch;
  };

  /// Returns the object of this process. It is never destroyed, because the driver may end before it.
  static product_algorithms& of_process() {
    static product_algorithms& one = *new product_algorithms;
    return one;
  }

  /// Queues the product. `room` is device memory of workspace_bytes bytes.
  void multiply(const product& p, void* room) {
    const layout left(p.type, p.inputs, p.outputs, p.weight_pitch), right(p.type, p.inputs, p.rows, p.x_pitch),
        result(p.out_type, p.outputs, p.rows, p.out_pitch);
    const description how(p.bias);
    const choice algorithm = choose(p, how, left, right, result);
    const float one = 1, kept = p.add ? 1.0f : 0.0f;
    check(cublasLtMatmul(handle_.get(), how.made.get(), &one, p.weight, left.made.get(), p.x, right.made.get(), &kept, p.out,
                         result.made.get(), p.out, result.made.get(), &algorithm.algorithm, algorithm.room > 0 ? room : nullptr,
                         algorithm.room, stream()),
          "product");
  }

 private:
  template <auto Destroy>
  struct destroy {
    template <class T>
    void operator()(T* it) const {
      Destroy(it);
    }
  };
  template <class Pointer, auto Destroy>
  using owned = std::unique_ptr<std::remove_pointer_t<Pointer>, destroy<Destroy>>;

  struct layout {
    layout(cudaDataType type, std::size_t rows, std::size_t columns, std::size_t pitch) {
      cublasLtMatrixLayout_t it;
      check(cublasLtMatrixLayoutCreate(&it, type, rows, columns, static_cast<std::int64_t>(pitch)), "layout");
      made.reset(it);
    }
    owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> made;
  };

  struct description {
    explicit description(const void* bias) {
      cublasLtMatmulDesc_t it;
      check(cublasLtMatmulDescCreate(&it, CUBLAS_COMPUTE_32F, CUDA_R_32F), "product");
      made.reset(it);
      set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
      set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
      if (!bias) return;
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    }
    template <class T>
    void set(cublasLtMatmulDescAttributes_t which, const T& value) {
      check(cublasLtMatmulDescSetAttribute(made.get(), which, &value, sizeof value), "product");
    }
    owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> made;
  };

  /// The key of `choices_`: everything that the choice of an algorithm depends on.
  using choice_key = std::array<std::size_t, 13>;
  struct choice {
    cublasLtMatmulAlgo_t algorithm;
    std::size_t room;
  };

  product_algorithms() {
    cublasLtHandle_t made;
    check(cublasLtCreate(&made), "cuBLASLt");
    handle_.reset(made);
  }

  /// Returns the alignment of an address in bytes, at most 256. No algorithm needs more.
  static std::size_t alignment_of(const void* p) {
    return std::min<std::size_t>(std::size_t{1} << std::countr_zero(reinterpret_cast<std::uintptr_t>(p)), 256);
  }

  choice choose(const product& p, const description& how, const layout& left, const layout& right, const layout& result) {
    const choice_key key{static_cast<std::size_t>(p.type),
                         p.outputs,
                         p.inputs,
                         p.weight_pitch,
                         p.rows,
                         p.x_pitch,
                         p.out_pitch,
                         p.bias != nullptr,
                         p.add,
                         static_cast<std::size_t>(p.out_type),
                         alignment_of(p.weight),
                         alignment_of(p.x),
                         alignment_of(p.out)};
    const std::lock_guard lock(mutex_);
    const auto found = choices_.find(key);
    return found != choices_.end() ? found->second : choices_.emplace(key, ask(key, how, left, right, result)).first->second;
  }

  choice ask(const choice_key& key, const description& how, const layout& left, const layout& right, const layout& result) const {
    cublasLtMatmulPreference_t it;
    check(cublasLtMatmulPreferenceCreate(&it), "product");
    const owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> wish(it);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(wish.get(), which, &value, sizeof value), "product");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(key[10]));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(key[11]));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(key[12]));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(key[12]));
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle_.get(), how.made.get(), left.made.get(), right.made.get(), result.made.get(),
                                         result.made.get(), wish.get(), 1, &best, &found),
          "product");
    if (found == 0) check(CUBLAS_STATUS_NOT_SUPPORTED, "product");
    check(best.state, "product");
    return {best.algo, best.workspaceSize};
  }

  owned<cublasLtHandle_t, cublasLtDestroy> handle_;
  std::mutex mutex_;
  std::map<choice_key, choice> choices_;
};

/// Computes products of activations with weights of the same type. Sums are float. cuBLASLt computes
/// products of many rows, and multiply_rows those of few rows with a weight in bf16. cuBLASLt chooses the order of the additions by the
/// shapes, the distances between rows, and the alignments. A row gets the same bits whenever these are the same, but it may get other bits
/// in another batch.
class products {
 public:
  std::size_t bytes() const { return room_.bytes(); }

  /// Reserves the workspace of cuBLASLt.
  void reserve() { room_.reserve(product_algorithms::workspace_bytes); }

  /// Computes out (rows, outputs) = x w^T + bias, or out += x w^T + bias if `add` is true. `Out` is float or, if the
  /// weight is bf16 and `add` is false, bf16. Results in bf16 are rounded once, after the bias is added. cuBLASLt then adds the bias in
  /// bf16.
  template <class Out>
  void multiply(const operand& x, const weight& w, const bias_of_product& bias, bool add, rows_view<Out> out) {
    constexpr bool in_bf16 = sizeof(Out) == 2;
    assert(x.type() == w.type() && x.columns() == w.inputs() && !(in_bf16 && (add || w.type() != dtype::bf16)));
    if (x.rows() == 0 || w.outputs() == 0) return;
    if (are_few(x.rows(), w)) return multiply_few<1>(x, w, bias.floats, add, {}, any(out));
    const cudaDataType type = w.type() == dtype::bf16 ? CUDA_R_16BF : CUDA_R_32F;
    const std::size_t inputs = w.type() == dtype::bf16 ? w.pitch() : w.inputs();  // with zeros: tensor cores want a multiple of 8
    const void* const added = in_bf16 ? static_cast<const void*>(bias.bf16) : bias.floats;
    product_algorithms::of_process().multiply({type, w.data<std::byte>(), w.outputs(), inputs, w.pitch(), x.data(), x.rows(), x.pitch(),
                                               added, add, in_bf16 ? CUDA_R_16BF : CUDA_R_32F, out.data, out.stride},
                                              room_.reserve(product_algorithms::workspace_bytes));
  }

  /// Returns whether multiply_rows computes a product of `rows` rows with this weight.
  static bool are_few(std::size_t rows, const weight& w) {
    return w.type() == dtype::bf16 && rows <= 4 && row_product_block::shared_bytes(std::bit_ceil(rows), w.pitch()) <= most_shared;
  }

  /// Computes out (rows, outputs / 2) = gate(first half of x w^T + bias) * second half. are_few(x.rows(), w) must be true.
  static void multiply_gated(const operand& x, const weight& w, const float* bias, gate_activation gate, any_rows out) {
    assert(x.type() == w.type() && x.columns() == w.inputs());
    if (x.rows() > 0 && w.outputs() > 0) multiply_few<2>(x, w, bias, false, gate, out);
  }

 private:
  static any_rows any(rows_view<float> rows) { return {{rows.data, rows.stride}, {}}; }
  static any_rows any(rows_view<std::uint16_t> rows) { return {{}, {rows.data, rows.stride}}; }

  // The most bytes of shared memory that a block of multiply_rows may have, so that at least two blocks fit on a multiprocessor.
  static constexpr std::size_t most_shared = std::size_t{64} << 10;

  template <unsigned Parts>
  static void multiply_few(const operand& x, const weight& w, const float* bias, bool add, gate_activation gate, any_rows out) {
    const auto kernel = x.rows() == 1 ? multiply_rows<1, Parts> : x.rows() == 2 ? multiply_rows<2, Parts> : multiply_rows<4, Parts>;
    row_product p{};
    p.x = x.rows_of<std::uint16_t>();
    p.weight = w.data<std::uint16_t>();
    p.bias = bias;
    p.out = out;
    p.rows = static_cast<unsigned>(x.rows());
    p.pitch = static_cast<unsigned>(w.pitch());
    p.results = static_cast<unsigned>(w.outputs() / Parts);
    p.add = add;
    p.activation = gate;
    launch_early(kernel, {(p.results + row_product_block::warps - 1) / row_product_block::warps}, {row_product_block::threads},
                 row_product_block::shared_bytes(std::bit_ceil(x.rows()), w.pitch()), p);
  }

  scratch<std::byte> room_;
};

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
