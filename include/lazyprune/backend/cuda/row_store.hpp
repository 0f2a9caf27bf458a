// SPDX-License-Identifier: MIT
// The Aux Cache on the device: stored rows of hidden states, as f32, or as bf16 in half the memory.
#pragma once

#include <cstddef>

#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/memory/typed_rows.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// Stored rows in device memory. row() returns device addresses.
using row_store = typed_rows<array<std::byte, purpose::aux_cache>>;

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
