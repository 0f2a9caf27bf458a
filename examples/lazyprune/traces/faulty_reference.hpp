// SPDX-License-Identifier: MIT
// The reference backend with a planted fault: a mistake that is easily made when LazyLLM is built into an engine. A trace is replayed with
// each fault, to find the fault that explains another engine's logits.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include <lazyprune/backend/reference.hpp>

namespace lazyprune {
namespace program {

/// Faults that show in the logits but not in the plan (which tokens are active, computed or revived).
enum class hidden_fault : std::uint8_t {
  none,
  next_position,    // RoPE takes the next position instead of a revived row's own
  last_position,    // RoPE takes the last position of the sequence for revived rows
  index_in_active,  // RoPE takes a row's index among the active tokens of its layer
  index_in_rows,    // RoPE takes a row's index among the rows of its layer
  reversed_slots,   // revived rows are read from the store in reverse order
  next_slot,        // each revived row gets the content of the next one
  ascending_slots,  // revived rows are read in ascending order of their slots
  reversed_spills,  // rows are written to the store in reverse order
  forgotten_keys,   // stored tokens are not attended to at layers that have their keys
};
inline constexpr std::array hidden_faults{hidden_fault::next_position,   hidden_fault::last_position,   hidden_fault::index_in_active,
                                          hidden_fault::index_in_rows,   hidden_fault::reversed_slots,  hidden_fault::next_slot,
                                          hidden_fault::ascending_slots, hidden_fault::reversed_spills, hidden_fault::forgotten_keys};

constexpr std::string_view name_of(hidden_fault fault) {
  constexpr std::array<std::string_view, 10> names{"none",
                                                   "a shifted position: rows that come back are rotated one place too far",
                                                   "a shifted position: rows that come back are rotated by the text's last position",
                                                   "a shifted position: rows are rotated by their place among the active tokens",
                                                   "a shifted position: rows are rotated by their place among the rows of the step",
                                                   "a permuted slot: rows that come back get each other's contents, in reverse order",
                                                   "a permuted slot: each row that comes back gets the contents of the next one",
                                                   "a permuted slot: rows that come back get their contents in the order of the slots",
                                                   "a permuted slot: rows are stored in each other's slots, in reverse order",
                                                   "a dropped early key: stored tokens are not attended to at layers that have their keys"};
  return names[static_cast<std::size_t>(fault)];
}

/// The reference backend with one of the faults. A step_observer fills `now` during a step, so that the backend knows which rows are
/// revived.
class faulty_reference : public reference<double> {
 public:
  using reference<double>::reference;

  struct view {
    hidden_fault fault = hidden_fault::none;
    position last = 0;             // the last position of the sequence
    std::vector<position> active;  // the active tokens of the current layer; `rows` and `revived` are also of this layer
    std::vector<position> rows;
    std::vector<position> revived;
    std::vector<position> aside;  // the tokens that were in the store when the step began
  };
  std::shared_ptr<view> now = std::make_shared<view>();

  void rotate(rows_view<double> x, std::size_t head_dim, std::span<const position> positions, const rope_table& rope) const {
    std::vector<position> turned(positions.begin(), positions.end());
    const auto index = [](const std::vector<position>& in, position t) {
      return static_cast<position>(std::ranges::lower_bound(in, t) - in.begin());
    };
    for (position& t : turned) {
      const bool back = std::ranges::binary_search(now->revived, t);
      if (now->fault == hidden_fault::next_position && back) t = std::min(t + 1, now->last);
      if (now->fault == hidden_fault::last_position && back) t = now->last;
      if (now->fault == hidden_fault::index_in_active) t = index(now->active, t);
      if (now->fault == hidden_fault::index_in_rows) t = index(now->rows, t);
    }
    reference<double>::rotate(x, head_dim, turned, rope);
  }

  void take_rows(const row_store& store, std::span<const std::uint32_t> slots, rows_view<double> x,
                 std::span<const std::uint32_t> rows) const {
    std::vector<std::uint32_t> from(slots.begin(), slots.end());
    if (now->fault == hidden_fault::reversed_slots) std::ranges::reverse(from);
    if (now->fault == hidden_fault::next_slot && from.size() > 1) std::rotate(from.begin(), from.begin() + 1, from.end());
    if (now->fault == hidden_fault::ascending_slots) std::ranges::sort(from);
    reference<double>::take_rows(store, from, x, rows);
  }

  void store_rows(rows_view<const double> x, std::span<const std::uint32_t> rows, row_store& store,
                  std::span<const std::uint32_t> slots) const {
    std::vector<std::uint32_t> to(slots.begin(), slots.end());
    if (now->fault == hidden_fault::reversed_spills) std::ranges::reverse(to);
    reference<double>::store_rows(x, rows, store, to);
  }

  void attend(rows_view<const double> q, const kv_layer& kv, const attention_rows& what, operand& out, std::size_t first,
              const attention_probe& probe) const {
    if (now->fault != hidden_fault::forgotten_keys) return reference<double>::attend(q, kv, what, out, first, probe);
    std::vector<position> active;
    std::vector<std::uint32_t> slots;
    std::vector<std::size_t> at;
    for (std::size_t i = 0; i < what.active.size(); ++i) {
      const position t = what.active[i];
      if (std::ranges::binary_search(now->aside, t) && !std::ranges::binary_search(now->rows, t)) continue;
      active.push_back(t);
      slots.push_back(what.slots[i]);
      at.push_back(i);
    }
    attention_rows fewer = what;
    fewer.active = active;
    fewer.slots = slots;
    const std::size_t rows = probe.queries * probe.heads(what.shape);
    std::vector<float> seen(rows * active.size());
    reference<double>::attend(q, kv, fewer, out, first, {seen.data(), probe.queries, active.size(), probe.over_heads});
    for (std::size_t r = 0; r < rows; ++r) {
      std::fill_n(probe.data + r * probe.stride, what.active.size(), 0.0f);
      for (std::size_t i = 0; i < at.size(); ++i) probe.data[r * probe.stride + at[i]] = seen[r * active.size() + i];
    }
  }
};
static_assert(tensor_backend<faulty_reference>);

}  // namespace program
}  // namespace lazyprune
