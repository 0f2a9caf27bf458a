// SPDX-License-Identifier: MIT
// Stored rows of activations on the device (the Aux Cache), as f32, or as bf16 in half the memory.
#pragma once

#include <cstddef>

#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/memory/typed_rows.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// row() returns device addresses.
using row_store = typed_rows<array<std::byte, purpose::aux_cache>>;

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
