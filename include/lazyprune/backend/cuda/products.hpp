// SPDX-License-Identifier: MIT
// Products with weights, by cuBLASLt. cuBLASLt is column-major, so it reads a row-major matrix as its transpose. We therefore compute out =
// x w^T as out^T = (w^T)^T x^T, where cuBLASLt sees w^T and x^T in memory. The weight is the left operand. The weights of one output are
// adjacent in memory, as tensor cores want them.
#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include <lazyprune/backend/cuda/check.hpp>
#include <lazyprune/backend/cuda/elementwise.cuh>
#include <lazyprune/backend/cuda/launch.hpp>
#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/cuda/weights.hpp>
#include <lazyprune/backend/tensor_backend.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// Computes products of activations with weights. Sums are float. Activations are rounded to bf16 if the weight is bf16. cuBLASLt chooses
/// the order of the additions by the shapes, the distances between rows, and the alignments. A row gets the same bits whenever these are
/// the same, but it may get other bits in another batch.
class products {
 public:
  products() {
    cublasLtHandle_t made;
    check(cublasLtCreate(&made), "cuBLASLt");
    handle_.reset(made);
  }

  std::size_t bytes() const { return rounded_.bytes() + room_.bytes(); }

  /// Reserves scratch memory for products of up to `rows` rows and `inputs` inputs. `rounds` is true if weights may be bf16.
  void reserve(std::size_t rows, std::size_t inputs, bool rounds) {
    if (rounds) rounded_.reserve(rows * weight::pitch_of(inputs));
    room_.reserve(workspace_bytes);
  }

  /// Computes out (rows, outputs) = x w^T + bias, or out += x w^T + bias if `add` is true. `bias` may be null.
  void multiply(rows_view<const float> x, const weight& w, const float* bias, bool add, rows_view<float> out) {
    if (x.rows == 0 || w.outputs() == 0) return;
    const void* from = x.data;
    std::size_t pitch = x.stride;
    if (w.type() == dtype::bf16) {
      pitch = w.pitch();
      std::uint16_t* const rounded = rounded_.reserve(x.rows * pitch);
      launch(round_rows<float>, {static_cast<unsigned>(x.rows), pieces_for(pitch)}, {threads_for(pitch)}, 0, stream(),
             row_span<const float>{x.data, x.stride}, x.columns, row_span<std::uint16_t>{rounded, pitch});
      from = rounded;
    }
    const cudaDataType type = w.type() == dtype::bf16 ? CUDA_R_16BF : CUDA_R_32F;
    const std::size_t inputs = w.type() == dtype::bf16 ? pitch : w.inputs();  // includes padding zeros: tensor cores want a multiple of 8
    const layout left(type, inputs, w.outputs(), w.pitch()), right(type, inputs, x.rows, pitch),
        result(CUDA_R_32F, w.outputs(), x.rows, out.stride);
    const description how(bias);
    const choice_key key{w.outputs(),
                         x.rows,
                         inputs,
                         pitch,
                         out.stride,
                         static_cast<std::size_t>(type),
                         bias != nullptr,
                         add,
                         alignment_of(w.data<std::byte>()),
                         alignment_of(from),
                         alignment_of(out.data)};
    const auto found = choices_.find(key);
    const choice& algorithm = found != choices_.end() ? found->second : choose(key, how, left, right, result);
    const float one = 1, kept = add ? 1.0f : 0.0f;
    void* const room = algorithm.room > 0 ? room_.reserve(workspace_bytes) : nullptr;
    check(cublasLtMatmul(handle_.get(), how.made.get(), &one, w.data<std::byte>(), left.made.get(), from, right.made.get(), &kept, out.data,
                         result.made.get(), out.data, result.made.get(), &algorithm.algorithm, room, algorithm.room, stream()),
          "product");
  }

 private:
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // the size that cuBLAS itself uses on compute capability 9.0

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
    explicit description(const float* bias) {
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
  using choice_key = std::array<std::size_t, 11>;
  struct choice {
    cublasLtMatmulAlgo_t algorithm;
    std::size_t room;
  };

  /// Returns the alignment of an address in bytes, at most 256. No algorithm needs more.
  static std::size_t alignment_of(const void* p) {
    return std::min<std::size_t>(std::size_t{1} << std::countr_zero(reinterpret_cast<std::uintptr_t>(p)), 256);
  }

  const choice& choose(const choice_key& key, const description& how, const layout& left, const layout& right, const layout& result) {
    cublasLtMatmulPreference_t it;
    check(cublasLtMatmulPreferenceCreate(&it), "product");
    const owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> wish(it);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(wish.get(), which, &value, sizeof value), "product");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(key[8]));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(key[9]));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(key[10]));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(key[10]));
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle_.get(), how.made.get(), left.made.get(), right.made.get(), result.made.get(),
                                         result.made.get(), wish.get(), 1, &best, &found),
          "product");
    if (found == 0) check(CUBLAS_STATUS_NOT_SUPPORTED, "product");
    check(best.state, "product");
    return choices_.emplace(key, choice{best.algo, best.workspaceSize}).first->second;
  }

  owned<cublasLtHandle_t, cublasLtDestroy> handle_;
  std::map<choice_key, choice> choices_;
  scratch<std::uint16_t> rounded_;
  scratch<std::byte> room_;
};

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
