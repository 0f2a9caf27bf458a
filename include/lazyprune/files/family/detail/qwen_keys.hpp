// SPDX-License-Identifier: MIT
// Keys that all Qwen families share in their files.
#pragma once

#include <cstddef>
#include <optional>

#include <lazyprune/files/family/json_keys.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// Reads the keys of a config.json that all Qwen families share. If use_sliding_window is true and there are no layer_types, the layers
/// from max_window_layers on have a sliding window.
inline void read_qwen(const json_value& config, model_config& c) {
  expect_activation(config, "hidden_act", "silu");
  refuse_partial_rotation(config);
  refuse_flag(config, "use_mrope");
  const auto from = config.find("max_window_layers");
  const std::size_t first = from ? static_cast<std::size_t>(from->whole_number(0, most_positions)) : 28;
  const auto window = flag(config, "use_sliding_window") ? sliding_window(config, 4096) : std::nullopt;
  read_windows(
      config, window, [&](std::size_t layer) { return layer >= first; }, c);
  read_rope(config, c);
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
