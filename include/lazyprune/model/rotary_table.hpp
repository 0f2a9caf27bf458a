// SPDX-License-Identifier: MIT
// A model's cosines and sines by position, shared by all threads. Sequences are mostly much shorter than a model allows, so the table
// reaches as far as the longest one so far: a longer one makes a new table, and whoever holds the old one goes on reading it.
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
  /// One table, which never changes.
  struct part {
    std::size_t positions;  // from 0 on
    typename Backend::rope_table values;
    std::size_t bytes_of(std::size_t rows) const { return values.bytes() / positions * rows; }
  };

  explicit rotary_table(const model_config& c, rope_kind kind = rope_kind::usual)
      : frequencies_(frequencies_of(c, kind)), most_(c.max_positions), made_(std::make_unique<guarded>()) {}

  /// The table for so many of the model's positions, or for more. The first one made has exactly these, and each later one is at least
  /// twice as long as the one before, so that a sequence that grows token by token makes few. Any thread may ask at any time. Where memory
  /// runs out nothing has changed.
  std::shared_ptr<const part> reach(Backend& backend, std::size_t positions) const {
    assert(positions > 0 && positions <= most_);
    const std::lock_guard lock(made_->mutex);
    std::shared_ptr<const part>& last = made_->last;
    if (!last || last->positions < positions) {
      const std::size_t n = std::max(positions, last ? std::min(2 * last->positions, most_) : 0);
      last = std::make_shared<const part>(part{n, backend.make_rope(frequencies_.radians, frequencies_.scale, n)});
    }
    return last;
  }

 private:
  struct guarded {
    std::mutex mutex;
    std::shared_ptr<const part> last;
  };

  rope_frequencies frequencies_;
  std::size_t most_;  // positions
  std::unique_ptr<guarded> made_;
};

}  // namespace v0
}  // namespace lazyprune
