// SPDX-License-Identifier: MIT
// The tokens that the device chooses in the layers of one step. The host queues all selections, and reads their results back once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include <lazyprune/backend/cuda/elementwise.cuh>
#include <lazyprune/backend/cuda/launch.hpp>
#include <lazyprune/backend/cuda/lists.hpp>
#include <lazyprune/backend/cuda/locked_memory.hpp>
#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/cuda/row_store.hpp>
#include <lazyprune/backend/cuda/selection.cuh>
#include <lazyprune/backend/tensor_backend.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

class choices {
 public:
  std::size_t bytes() const { return work_.bytes() + results_.bytes() + moves_.bytes(); }

  /// Reserves scratch for steps with up to this many active tokens in the first layer, and this many selections.
  void reserve(std::size_t active, std::size_t selections) {
    if (selections == 0) return;
    work_.reserve(arrays * active);
    results_.reserve(selections * (2 * active + 3));
    moves_.reserve(active);
  }

  /// Begins the selections of a step. `positions` and `standing` belong to the active tokens of the first layer that selects.
  void begin(std::span<const position> positions, std::span<const candidacy> standing, std::size_t page,
             std::span<const selection_size> sizes, lists& lists) {
    first_ = positions.size();
    page_ = static_cast<unsigned>(page);
    next_ = 0;
    in_first_layer_ = nullptr;
    all_.clear();
    std::size_t size = 0;
    for (const selection_size& s : sizes) {
      all_.push_back({s, size});
      size += s.kept + s.active + 3;
    }
    results_.reserve(size);
    results_size_ = size;
    work_.reserve(arrays * first_);
    moves_.reserve(first_);
    const auto [p, s] = lists.send(positions, standing);
    keep(p, array_of(positions_at));
    keep(s, array_of(standing_at));
  }

  /// Makes the next selection, by `scores` (active) on the device.
  void choose(const float* scores) {
    const selection& now = all_[next_++];
    const auto active = static_cast<unsigned>(now.size.active), count = static_cast<unsigned>(now.size.kept);
    std::uint32_t* const results = results_.reserve(0) + now.at;
    copy(scores, results + count, active * sizeof(float));
    token_selection s{};
    s.scores = reinterpret_cast<const float*>(results + count);
    s.in_first_layer = in_first_layer_;
    s.positions = array_of(positions_at);
    s.standing = reinterpret_cast<const candidacy*>(array_of(standing_at));
    s.active = active;
    s.count = count;
    s.page = page_;
    s.scratch = array_of(keys_at);
    s.chosen = results;
    s.chosen_in_first_layer = array_of(next_ % 2 ? indices_at : other_indices_at);
    s.dropped = array_of(dropped_at);
    s.numbers = results + count + active;
    launch_early(choose_tokens<>, {1}, {selection_block::threads_for(active)}, selection_block::shared_bytes, s);
    in_first_layer_ = array_of(next_ % 2 ? indices_at : other_indices_at);
    launch_early(gather_numbers<>, {blocks_for(count)}, {threads}, 0, array_of(positions_at), in_first_layer_, count,
                 array_of(chosen_positions_at));
  }

  /// The positions of the tokens that the last selection chose, on the device.
  const std::uint32_t* positions() { return array_of(chosen_positions_at); }

  /// Stores the rows that the last selection dropped, in the order of their positions.
  void store_dropped(rows_view<const float> x, row_store& store, std::span<const std::uint32_t> slots, lists& lists) {
    if (slots.empty()) return;
    rows_of_slots_.clear();
    for (const std::uint32_t slot : slots) rows_of_slots_.push_back(static_cast<char*>(store.row(slot)));
    const auto [rows] = lists.send(std::span<char* const>(rows_of_slots_));
    const auto count = static_cast<unsigned>(slots.size());
    launch_early(list_moves<>, {blocks_for(count)}, {threads}, 0, places(x), array_of(dropped_at), row_places{nullptr, 0, rows, 1}, nullptr,
                 count, moves_.reserve(0));
    move(store.type() == dtype::bf16 ? move_rows<float, std::uint16_t> : move_rows<float, float>, count, x.columns);
  }

  /// Moves the rows that the last selection chose to the front. `between` has room for them.
  void take_chosen(rows_view<float> x, float* between) {
    const selection& last = all_[next_ - 1];
    const auto count = static_cast<unsigned>(last.size.kept);
    const rows_view<const float> to{between, count, x.columns, x.columns};
    launch_early(list_moves<>, {blocks_for(count)}, {threads}, 0, places(x), results_.reserve(0) + last.at, places(to), nullptr, count,
                 moves_.reserve(0));
    move(move_rows<float, float>, count, x.columns);
    const std::size_t width = x.columns * sizeof(float);
    check(cudaMemcpy2DAsync(x.data, x.stride * sizeof(float), between, width, width, count, cudaMemcpyDeviceToDevice, stream()),
          "chosen rows");
  }

  /// Copies the results of all selections to the host, and waits for them.
  void read(std::vector<made_choice>& out, read_back& back) {
    here_.resize(results_size_);
    back.copy(here_.data(), here_.size() * sizeof(std::uint32_t), results_.reserve(0), here_.size() * sizeof(std::uint32_t),
              here_.size() * sizeof(std::uint32_t), 1);
    std::size_t scores = 0;
    for (const selection& s : all_) scores += s.size.active;
    scores_.resize(scores);
    out.clear();
    float* next = scores_.data();
    for (const selection& s : all_) {
      const std::uint32_t* const of = here_.data() + s.at;
      const std::uint32_t* const numbers = of + s.size.kept + s.size.active;
      std::memcpy(next, of + s.size.kept, s.size.active * sizeof(float));
      out.push_back({{of, s.size.kept}, {next, s.size.active}, numbers[0], numbers[2] == 0});
      next += s.size.active;
    }
  }

 private:
  static constexpr unsigned threads = 256;
  static constexpr std::size_t arrays = 8;  // of as many numbers as the first layer has active tokens
  enum : std::size_t { positions_at, standing_at, keys_at, indices_at = 4, other_indices_at, dropped_at, chosen_positions_at };

  struct selection {
    selection_size size;
    std::size_t at;  // in the results: chosen (kept), scores (active), three numbers
  };

  std::uint32_t* array_of(std::size_t which) { return work_.reserve(0) + which * first_; }
  static unsigned blocks_for(unsigned count) { return (count + threads - 1) / threads; }
  static row_places places(rows_view<const float> x) {
    return {reinterpret_cast<char*>(const_cast<float*>(x.data)), x.stride * sizeof(float), {}, 1};
  }
  static void copy(const void* from, void* to, std::size_t bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()), "selections");
  }
  /// Copies a list out of the room for lists, because later lists may replace it there.
  void keep(const void* list, std::uint32_t* to) { copy(list, to, first_ * sizeof(std::uint32_t)); }
  void move(void (*kernel)(global<const row_move>, std::size_t), unsigned count, std::size_t columns) {
    if (count == 0 || columns == 0) return;
    launch_early(kernel, {count, pieces_for(columns)}, {threads_for(columns)}, 0, moves_.reserve(0), columns);
  }

  std::vector<selection> all_;
  std::size_t first_ = 0;  // active tokens of the first layer that selects
  std::size_t next_ = 0;   // the next selection
  std::size_t results_size_ = 0;
  unsigned page_ = 1;
  const std::uint32_t* in_first_layer_ = nullptr;  // of the next selection, see token_selection
  scratch<std::uint32_t> work_;                    // (arrays, first_)
  scratch<std::uint32_t> results_;                 // of all selections
  scratch<row_move> moves_;
  std::vector<char*> rows_of_slots_;
  std::vector<std::uint32_t> here_;  // the results on the host
  std::vector<float> scores_;        // those of all selections, on the host
};

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
