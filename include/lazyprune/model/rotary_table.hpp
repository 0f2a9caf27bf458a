// SPDX-License-Identifier: MIT
// The RoPE cosines and sines of a model by position, shared by all threads. Most sequences are much shorter than the model allows. So the
// table is at most twice as long as the longest sequence so far. A sequence that is longer than the table makes a new table. The old table
// lives as long as a workspace holds it.
#pragma once

#include <algorithm>
#include <cassert>
#include <memory>
#include <mutex>

#include <lazyprune/backend/tensor_backend.hpp>
#include <lazyprune/model/rope.hpp>

namespace lazyprune {
inline namespace v0 {

template <tensor_backend Backend>
class rotary_table {
 public:
  /// One immutable table.
  struct table {
    std::size_t positions;  // number of positions, from 0 on
    typename Backend::rope_table values;
    std::size_t bytes_of(std::size_t rows) const { return values.bytes() / positions * rows; }
  };

  explicit rotary_table(const model_config& c, rope_kind kind = rope_kind::usual)
      : frequencies_(frequencies_of(c, kind)), most_(c.max_positions), made_(std::make_unique<guarded>()) {}

  /// Returns a table for at least `positions` positions. The first table has exactly that many. Each later one is at least twice as long as
  /// the one before, or has all positions of the model. So a sequence that grows token by token makes few tables. Safe to call from any
  /// thread. If it throws, nothing has changed.
  std::shared_ptr<const table> reach(Backend& backend, std::size_t positions) const {
    assert(positions > 0 && positions <= most_);
    const std::lock_guard lock(made_->mutex);
    std::shared_ptr<const table>& last = made_->last;
    if (!last || last->positions < positions) {
      const std::size_t n = std::max(positions, last ? std::min(2 * last->positions, most_) : 0);
      last = std::make_shared<const table>(table{n, backend.make_rope(frequencies_.radians, frequencies_.scale, n)});
    }
    return last;
  }

 private:
  struct guarded {
    std::mutex mutex;
    std::shared_ptr<const table> last;
  };

  rope_frequencies frequencies_;
  std::size_t most_;  // number of positions of the model
  std::unique_ptr<guarded> made_;
};

}  // namespace v0
}  // namespace lazyprune
