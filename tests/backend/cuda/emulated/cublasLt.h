// SPDX-License-Identifier: MIT
// Implements the parts of cuBLASLt that this project uses. Plain loops on the host compute the products that the descriptors describe in
// cuBLASLt's terms (column-major). Every other setting fails. A product fails if its pointers or layouts differ from those that its
// algorithm was requested for.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_NOT_SUPPORTED = 15 };
inline const char* cublasLtGetStatusName(cublasStatus_t s) {
  return s == CUBLAS_STATUS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
         : s == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                            : "CUBLAS_STATUS_NOT_SUPPORTED";
}

enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16BF = 14 };
using cudaDataType = cudaDataType_t;
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8
};
enum cublasLtEpilogue_t { CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_BIAS = 4 };
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
};

namespace emulated {

struct handle {};
struct product {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t of_a = CUBLAS_OP_N, of_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;  // in the type of the result
};
struct layout {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t pitch;
};
struct preference {
  std::size_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};
};
struct algorithm {
  std::uint32_t alignment[4];
  layout a, b, d;
};

template <class T>
bool set(T& to, const void* from, std::size_t bytes) {
  if (bytes != sizeof(T)) return false;
  std::memcpy(&to, from, bytes);
  return true;
}

inline std::size_t bytes_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

inline float number_of(const std::byte* from, cudaDataType_t type) {
  std::uint32_t bits = 0;
  if (type == CUDA_R_32F)
    std::memcpy(&bits, from, 4);
  else
    std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, from, 2);
  return std::bit_cast<float>(bits);
}

/// Rounds to the nearest number of the type, ties to even. The number is finite.
inline void write_number(float value, std::byte* to, cudaDataType_t type) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if (type == CUDA_R_32F) {
    std::memcpy(to, &bits, 4);
  } else {
    bits += 0x7fffu + (bits >> 16 & 1u);
    std::memcpy(to, reinterpret_cast<const std::byte*>(&bits) + 2, 2);
  }
}

/// Returns an operand as floats in row-major order. Each row has the k numbers that the product sums over.
inline std::vector<float> operand(const void* p, const layout& l, bool rows_are_k) {
  const std::size_t size = bytes_of(l.type), pitch = static_cast<std::size_t>(l.pitch);
  const std::size_t k = rows_are_k ? l.rows : l.columns, others = rows_are_k ? l.columns : l.rows;
  std::vector<float> numbers(k * others);
  for (std::size_t column = 0; column < l.columns; ++column) {
    const std::byte* from =
        the_device().store.to_read(static_cast<const std::byte*>(p) + column * pitch * size, l.rows * size, "a product");
    for (std::size_t row = 0; row < l.rows; ++row) {
      numbers[rows_are_k ? column * k + row : row * k + column] = number_of(from + row * size, l.type);
    }
  }
  return numbers;
}

}  // namespace emulated

using cublasLtHandle_t = emulated::handle*;
using cublasLtMatmulDesc_t = emulated::product*;
using cublasLtMatrixLayout_t = emulated::layout*;
using cublasLtMatmulPreference_t = emulated::preference*;
using cublasLtMatmulAlgo_t = emulated::algorithm;
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize;
  cublasStatus_t state;
};

inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* to) {
  *to = new emulated::handle;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t it) {
  delete it;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* to, cublasComputeType_t compute, cudaDataType_t scale) {
  *to = new emulated::product{compute, scale};
  return scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
inline cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t it) {
  delete it;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t it, cublasLtMatmulDescAttributes_t which, const void* from,
                                                     std::size_t bytes) {
  bool good = false;
  if (which == CUBLASLT_MATMUL_DESC_TRANSA) good = emulated::set(it->of_a, from, bytes);
  if (which == CUBLASLT_MATMUL_DESC_TRANSB) good = emulated::set(it->of_b, from, bytes);
  if (which == CUBLASLT_MATMUL_DESC_EPILOGUE) good = emulated::set(it->epilogue, from, bytes);
  if (which == CUBLASLT_MATMUL_DESC_BIAS_POINTER) good = emulated::set(it->bias, from, bytes);
  return good ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
inline cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* to, cudaDataType_t type, std::uint64_t rows, std::uint64_t columns,
                                                 std::int64_t pitch) {
  *to = new emulated::layout{type, rows, columns, pitch};
  return pitch >= static_cast<std::int64_t>(rows) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
inline cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t it) {
  delete it;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* to) {
  *to = new emulated::preference;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t it) {
  delete it;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t it, cublasLtMatmulPreferenceAttributes_t which,
                                                           const void* from, std::size_t bytes) {
  bool good = false;
  if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) good = emulated::set(it->workspace, from, bytes);
  if (which >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
    good = emulated::set(it->alignment[which - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], from, bytes);
  return good ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t p, cublasLtMatrixLayout_t a,
                                                     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                                     cublasLtMatmulPreference_t wish, int wanted, cublasLtMatmulHeuristicResult_t* to,
                                                     int* found) {
  *found = 0;
  const std::uint64_t m = p->of_a == CUBLAS_OP_N ? a->rows : a->columns, k = p->of_a == CUBLAS_OP_N ? a->columns : a->rows;
  const std::uint64_t n = p->of_b == CUBLAS_OP_N ? b->columns : b->rows, other_k = p->of_b == CUBLAS_OP_N ? b->rows : b->columns;
  if (wanted < 1 || k != other_k || d->rows != m || d->columns != n || m == 0 || n == 0 || k == 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (a->type != b->type || (d->type != CUDA_R_32F && d->type != a->type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *to = {{{wish->alignment[0], wish->alignment[1], wish->alignment[2], wish->alignment[3]}, *a, *b, *d},
         std::min<std::size_t>(wish->workspace, 4096),
         CUBLAS_STATUS_SUCCESS};
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha, const void* a,
                                     cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                                     const void* c, cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                                     const cublasLtMatmulAlgo_t* how, void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  if ((stream ? stream : emulated::the_device().default_stream())->device != emulated::device::current())
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto aligned = [&](const void* p, int which) { return reinterpret_cast<std::uintptr_t>(p) % how->alignment[which] == 0; };
  if (!aligned(a, 0) || !aligned(b, 1) || !aligned(c, 2) || !aligned(d, 3) || c != d) return CUBLAS_STATUS_INVALID_VALUE;
  for (const auto& [asked, given] : {std::pair{how->a, *a_layout}, std::pair{how->b, *b_layout}, std::pair{how->d, *d_layout}})
    if (asked.type != given.type || asked.rows != given.rows || asked.columns != given.columns || asked.pitch != given.pitch)
      return CUBLAS_STATUS_INVALID_VALUE;
  emulated::the_device().give(stream, [=, p = *description, la = *a_layout, lb = *b_layout, ld = *d_layout,
                                       times = *static_cast<const float*>(alpha), kept = *static_cast<const float*>(beta)] {
    emulated::memory& memory = emulated::the_device().store;
    if (workspace_bytes > 0) memory.to_write(workspace, workspace_bytes, "a product's workspace");
    const std::vector<float> left = emulated::operand(a, la, p.of_a == CUBLAS_OP_T),
                             right = emulated::operand(b, lb, p.of_b == CUBLAS_OP_N);
    const std::size_t k = p.of_a == CUBLAS_OP_T ? la.rows : la.columns, size = emulated::bytes_of(ld.type), bytes = ld.rows * size;
    const auto* const bias =
        p.epilogue == CUBLASLT_EPILOGUE_BIAS ? memory.to_read(static_cast<const std::byte*>(p.bias), bytes, "a bias") : nullptr;
    for (std::size_t column = 0; column < ld.columns; ++column) {
      std::byte* const out = static_cast<std::byte*>(d) + column * static_cast<std::size_t>(ld.pitch) * size;
      const std::byte* const earlier = kept != 0 ? memory.to_read(out, bytes, "the output that a product is added to") : nullptr;
      std::vector<std::byte> results(bytes);
      for (std::size_t row = 0; row < ld.rows; ++row) {
        float sum[8] = {};
        const float *x = &left[row * k], *y = &right[column * k];
        std::size_t i = 0;
        for (; i + 8 <= k; i += 8)
          for (std::size_t lane = 0; lane < 8; ++lane) sum[lane] += x[i + lane] * y[i + lane];
        for (; i < k; ++i) sum[i % 8] += x[i] * y[i];
        const float all = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
        const float before = earlier ? kept * emulated::number_of(earlier + row * size, ld.type) : 0.0f,
                    offset = bias ? emulated::number_of(bias + row * size, ld.type) : 0.0f;
        emulated::write_number(times * all + before + offset, &results[row * size], ld.type);
      }
      std::memcpy(memory.to_write(out, bytes, "a product"), results.data(), bytes);
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}
