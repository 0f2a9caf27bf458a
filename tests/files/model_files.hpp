// SPDX-License-Identifier: MIT
// Small models as folders and files: a config with two tensors, shards, a GGUF file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/files/checkpoint.hpp>

#include <files/gguf_writer.hpp>
#include <files/support.hpp>

namespace lazyprune_test {

struct made {
  std::string name, type, shape;
  std::size_t bytes;
};

inline std::string safetensors(const std::vector<made>& tensors) {
  std::string header = "{", data;
  for (const made& t : tensors) {
    header += (header.size() > 1 ? ",\"" : "\"") + t.name + R"(":{"dtype":")" + t.type + R"(","shape":)" + t.shape +
              R"(,"data_offsets":[)" + std::to_string(data.size()) + "," + std::to_string(data.size() + t.bytes) + "]}";
    for (std::size_t i = 0; i < t.bytes; ++i) data += static_cast<char>(t.name.back() + static_cast<char>(i));
  }
  header += "}";
  const std::uint64_t size = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &size, 8);
  return file + header + data;
}

inline const std::string config =
    R"({"model_type": "llama", "vocab_size": 300, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
  "intermediate_size": 6, "bos_token_id": 1, "eos_token_id": 2})";
inline const std::vector<made> two_tensors = {{"a", "F32", "[2,3]", 24}, {"b", "BF16", "[4]", 8}};

/// A folder with a config and two tensors.
struct small_folder : temporary_folder {
  small_folder() {
    write("config.json", config);
    write("model.safetensors", safetensors(two_tensors));
  }
  fault said() const {
    return error_of([&] { const lazyprune::checkpoint opened(path()); });
  }
  std::string file(std::string_view name) const { return (*this / name).string(); }
};

/// A folder with the same config and tensors in shards, and with this weight_map.
struct sharded_folder : small_folder {
  explicit sharded_folder(const std::string& weight_map) {
    std::filesystem::remove(*this / "model.safetensors");
    write("one.safetensors", safetensors({two_tensors[0]}));
    write("two.safetensors", safetensors({two_tensors[1]}));
    write("model.safetensors.index.json", R"({"metadata": {"total_size": 32}, "weight_map": )" + weight_map + "}");
  }
};

inline std::string floats(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += bytes_of_number(static_cast<float>(i));
  return bytes;
}

/// Returns a GGUF llama with one layer, a head width of 4, and only some of its tensors. `q_type` is the ggml type of the
/// query weight, and `q` has its bytes.
inline std::string small_gguf(std::uint32_t q_type = 0, const std::string& q = floats(64)) {
  const std::vector<std::string> keys{gguf_key("general.architecture", "llama"),
                                      gguf_key("llama.embedding_length", 8u),
                                      gguf_key("llama.block_count", 1u),
                                      gguf_key("llama.context_length", 64u),
                                      gguf_key("llama.feed_forward_length", 8u),
                                      gguf_key("llama.attention.head_count", 2u),
                                      gguf_key("llama.attention.layer_norm_rms_epsilon", 1e-5f)};
  return gguf_model(keys, {{"token_embd.weight", {8, 6}, 0, floats(48)},
                           {"blk.0.attn_q.weight", {8, 8}, q_type, q},
                           {"blk.0.attn_k.bias", {8}, 0, floats(8)},
                           {"blk.0.attn_norm.weight", {8}, 1, std::string(16, '\0')}});
}

inline std::vector<float> values_of(const lazyprune::tensor& t) {
  std::vector<float> values(t.rows * t.columns);
  widen(t, values.data());
  return values;
}

}  // namespace lazyprune_test
