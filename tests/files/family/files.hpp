// SPDX-License-Identifier: MIT
// Shared by the tests of model families. Makes a model_config from JSON or from the metadata of a small GGUF file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <lazyprune/files/config_json.hpp>
#include <lazyprune/files/gguf_config.hpp>

#include "../gguf_writer.hpp"
#include "../support.hpp"

namespace lazyprune_test {

inline lazyprune::model_config config_of_json(const nlohmann::json& config) {
  return lazyprune::model_config_of(lazyprune::json_value::parse(config.dump(), "c", 1 << 20));
}

/// Returns the error for a config.json with this patch (null removes a key), or "no error".
inline fault said_of(nlohmann::json config, const nlohmann::json& patch) {
  config.merge_patch(patch);
  return error_of([&] { config_of_json(config); });
}

/// The metadata of a small GGUF model with 4 layers and 2 heads of head_dim 8. Tests change single keys.
struct small_gguf {
  std::string architecture;
  std::map<std::string, std::string> keys{};
  std::vector<gguf_tensor> tensors{{"token_embd.weight", {16, 6}, 0, std::string(384, '\0')}};

  explicit small_gguf(const std::string& name) : architecture(name) {
    keys["general.architecture"] = gguf_key("general.architecture", name.c_str());
    number("embedding_length", 16);
    number("block_count", 4);
    number("context_length", 64);
    number("feed_forward_length", 8);
    number("attention.head_count", 2);
    real("attention.layer_norm_rms_epsilon", 1e-5f);
  }
  small_gguf& number(const std::string& key, std::uint32_t value) { return put(key, gguf_key(architecture + "." + key, value)); }
  small_gguf& real(const std::string& key, float value) { return put(key, gguf_key(architecture + "." + key, value)); }
  small_gguf& text(const std::string& key, const char* value) { return put(key, gguf_key(architecture + "." + key, value)); }
  small_gguf& floats(const std::string& name, const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) bytes += bytes_of_number(value);
    tensors.push_back({name, {values.size()}, 0, bytes});
    return *this;
  }

  lazyprune::model_config config() const {
    std::vector<std::string> all;
    for (const auto& [key, bytes] : keys) all.push_back(bytes);
    const temporary_folder folder;
    std::vector<lazyprune::gguf_file> parts;
    parts.emplace_back(lazyprune::mapped_file(folder.write("f.gguf", gguf_model(all, tensors))));
    return lazyprune::model_config_of(parts);
  }
  fault said() const {
    return error_of([&] { config(); }).after("f.gguf: ");
  }

 private:
  small_gguf& put(const std::string& key, const std::string& bytes) {
    keys[key] = bytes;
    return *this;
  }
};

using window_list = std::vector<std::size_t>;

}  // namespace lazyprune_test
