// SPDX-License-Identifier: MIT
// What the session tells the engine: which tokens a layer sees, which rows it computes, where those come from, and which rows to save.
#pragma once

#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

/// Where the input of a row comes from.
struct row_source {
  enum class origin : std::uint8_t {
    embedding,  // look the token at position `index` up in the embedding table
    carried,    // row `index` of the layer before, in this step
    stored,     // slot `index` of the aux store: the row is revived
    waiting,    // slot `index` of the rows that wait where a chunk ended
  };
  origin from;
  std::uint32_t index;
  friend bool operator==(const row_source&, const row_source&) = default;
};

/// A hidden state to save: row `row` of the layer just done, or slot `row` of the rows that wait, in slot `slot` of the aux store or of the
/// rows that wait. What waits is kept as it was computed; what is stored may be rounded.
struct spill {
  std::uint32_t row;
  std::uint32_t slot;
  row_source::origin from = row_source::origin::carried;  // or waiting
  row_source::origin to = row_source::origin::stored;     // or waiting
  friend bool operator==(const spill&, const spill&) = default;
};

/// One layer of one step. The spans are valid until the layer is left.
struct layer_plan {
  layer_id layer;
  std::span<const position> active;     // ascending: the tokens that take part. All have keys and values here, or are rows
  std::span<const position> rows;       // ascending: the tokens to compute. Each attends to the active tokens up to itself
  std::span<const row_source> sources;  // (rows)
  std::size_t finish;                   // so many of the last rows need this layer's output; the others only keys and values
};

}  // namespace v0
}  // namespace lazyprune
