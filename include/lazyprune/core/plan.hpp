// SPDX-License-Identifier: MIT
// The plan of a layer, which a session hands to an engine. It lists the tokens that take part, the rows to compute, the places of their
// inputs, and the rows to save.
#pragma once

#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

/// The place of a row's input. A waiting row was computed by a chunk: a step over a piece of a prompt, without a query. A later step with a
/// query takes the row into the next layer.
struct row_source {
  enum class origin : std::uint8_t {
    embedding,  // look the token at position `index` up in the embedding table
    carried,    // row `index` of the layer before, in this step
    stored,     // slot `index` of the aux store: the row is revived
    waiting,    // slot `index` of the waiting rows
  };
  origin from;
  std::uint32_t index;
  friend bool operator==(const row_source&, const row_source&) = default;
};

/// A hidden state to save: row `row` of the layer just done, or slot `row` of the waiting rows. It goes to slot `slot` of the aux store or
/// of the waiting rows. Keep waiting rows exactly as they were computed. Stored rows may be rounded.
struct spill {
  std::uint32_t row;
  std::uint32_t slot;
  row_source::origin from = row_source::origin::carried;  // carried or waiting
  row_source::origin to = row_source::origin::stored;     // stored or waiting
  friend bool operator==(const spill&, const spill&) = default;
};

/// One layer of one step. The spans are valid until `step::leave` of this layer.
struct layer_plan {
  layer_id layer;
  std::span<const position> active;     // ascending: the tokens that take part. Each has keys and values at this layer, or is a row
  std::span<const position> rows;       // ascending: the tokens to compute. Each sees the active tokens up to itself
  std::span<const row_source> sources;  // (rows), the place of each row's input
  std::size_t output_rows;              // the last `output_rows` rows need this layer's output; the others need only keys and values
};

}  // namespace v0
}  // namespace lazyprune
