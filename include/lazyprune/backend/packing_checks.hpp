// SPDX-License-Identifier: MIT
// Checks of the weights that a backend packs.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/core/error.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

/// Returns the number of outputs of all parts together. Throws `error` if there are no parts, if they have different numbers of inputs, or
/// if `as` is neither f32 nor bf16.
inline std::size_t stacked_outputs(std::span<const tensor> parts, dtype as) {
  if (as != dtype::f32 && as != dtype::bf16) throw error("", "pack", "f32 or bf16", name_of(as));
  if (parts.empty()) throw error("", "pack", "at least one tensor", "none");
  std::size_t outputs = 0;
  for (const tensor& part : parts) {
    if (part.columns != parts[0].columns)
      throw error("", "pack", std::to_string(parts[0].columns) + " inputs in every tensor", std::to_string(part.columns));
    outputs += part.rows;
  }
  return outputs;
}

/// Throws `error` unless `gate` and `up` have the same number of rows.
inline void check_gated(const tensor& gate, const tensor& up) {
  if (gate.rows != up.rows) throw error("", "pack_gated", std::to_string(gate.rows) + " rows of up", std::to_string(up.rows));
}

}  // namespace detail

}  // namespace v0
}  // namespace lazyprune
