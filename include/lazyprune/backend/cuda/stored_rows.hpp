// SPDX-License-Identifier: MIT
// Rows of activations put aside on the device (the Aux Cache's), as float or in half the memory.
#pragma once

#include <cstddef>

#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/memory/typed_rows.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// Its rows are the device's addresses.
using stored_rows = typed_rows<array<std::byte, purpose::stored_rows>>;

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
