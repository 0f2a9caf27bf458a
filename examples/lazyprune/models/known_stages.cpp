// SPDX-License-Identifier: MIT
#include "models/known_stages.hpp"

namespace lazyprune {
namespace program {
namespace {

struct known_model {
  std::string_view name;
  layer_id layers;
  tried_stages tried;
};

constexpr known_model known_models[] = {
    {"Smollm2 135M 8k Lc100K Mix1 Ep2", 30, {"18:0.7,21:0.2,28:0.05", 1000}},  // SmolLM2-135M-Instruct (bench/smollm2)
};

}  // namespace

std::optional<tried_stages> known_stages(std::string_view name, layer_id layers) {
  for (const known_model& known : known_models)
    if (known.name == name && known.layers == layers) return known.tried;
  return std::nullopt;
}

}  // namespace program
}  // namespace lazyprune
