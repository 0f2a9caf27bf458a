// SPDX-License-Identifier: MIT
// Computes the weights of the models of families.jsonl, by the same formula as make_families.py.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <lazyprune/files/config_json.hpp>
#include <lazyprune/model/weights.hpp>

#include "../test_data.hpp"

namespace lazyprune_test {

/// Returns a number in [-1, 1) that is exact in float. The generator is splitmix64, seeded with the FNV-1a hash of the name.
inline float family_number(std::string_view name, std::uint64_t index) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  std::uint64_t z = hash + (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return static_cast<float>(z >> 40) * 0x1p-23f - 1.0f;
}

/// Returns the lines of families.jsonl. The key of each line is the name of its model.
inline std::map<std::string, nlohmann::json> family_goldens() {
  std::ifstream file(source_dir() / "tests/golden/families.jsonl");
  std::map<std::string, nlohmann::json> goldens;
  for (std::string line; std::getline(file, line);) {
    auto golden = nlohmann::json::parse(line);
    const std::string name = golden.at("name");
    goldens[name] = std::move(golden);
  }
  return goldens;
}

inline lazyprune::model_config config_of(const nlohmann::json& golden) {
  return lazyprune::model_config_of(lazyprune::json_value::parse(golden.at("config").dump(), "config", 1 << 20));
}

/// A source of weights: makes any tensor from its Hugging Face name.
class family_weights {
 public:
  /// `rounded`: round the values to bf16.
  explicit family_weights(const lazyprune::model_config& config, bool rounded = false)
      : tied_(config.tied), less_one_(config.embedding_scale != 1.0), rounded_(rounded) {}

  bool contains(std::string_view name) const { return name != "lm_head.weight" || !tied_; }

  lazyprune::tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    std::vector<float>& values = made_[std::string(name)];
    if (values.empty()) {
      values.resize(rows * columns);
      const float more = name.ends_with("norm.weight") && !less_one_ ? 1.0f : 0.0f;
      const float wide = name == "model.embed_tokens.weight" && !less_one_ ? 1.0f : 0.25f;
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = family_number(name, i) * wide + more;
      if (rounded_)
        for (float& value : values) value = lazyprune::float_of_bf16(lazyprune::bf16_of_float(value));
    }
    return {lazyprune::dtype::f32, rows, columns, reinterpret_cast<const std::byte*>(values.data())};
  }

 private:
  bool tied_, less_one_, rounded_;
  mutable std::map<std::string, std::vector<float>> made_;  // mutable, because a source's `get` is const
};

static_assert(lazyprune::tensor_source<family_weights>);

}  // namespace lazyprune_test
