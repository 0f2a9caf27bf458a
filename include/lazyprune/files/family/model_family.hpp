// SPDX-License-Identifier: MIT
// How the files of one model family differ from the files of other families. A family has its names, transformers' defaults for missing
// keys of config.json, and functions that read its own keys. Each family is one value in one file, and files/family/all.hpp lists all of
// them. model_config says what a model computes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

class json_value;
class gguf_keys;

/// The two names of a tensor, without ".weight" or ".bias". For a layer's tensor, also without the layer.
struct tensor_name {
  std::string_view hugging_face, gguf;
};

struct model_family {
  std::string_view name;          // in model_config
  std::string_view model_type;    // in config.json
  std::string_view architecture;  // in config.json, too
  std::string_view gguf{};        // general.architecture in GGUF files; empty: the family has no name there

  std::size_t max_positions;              // for files that do not say: transformers' default, like head_dim, rms_epsilon and tied below
  std::optional<std::size_t> head_dim{};  // nullopt: hidden / heads
  bool own_kv_heads = false;              // true: config.json must have num_key_value_heads; false: the default is n_heads
  double rms_epsilon = 1e-6;
  bool tied = false;
  bool attention_bias = false, mlp_bias = false;  // whether the key of this name may be true
  bool partial_rotation = false;                  // GGUF files may rotate only a part of each head

  std::span<const std::string_view> keys{};       // keys of config.json that this family reads, although they are refused for others
  std::span<const std::string_view> gguf_keys{};  // keys of the architecture, besides those that all families have
  std::span<const tensor_name> tensors{};         // names besides those of all families; the family's names have precedence
  bool interleaved = false;                       // GGUF files interleave the rows of q and k, because their RoPE rotates neighbouring rows

  // These members are for models of text and images whose config.json has a model of this family under text_config. `text_defaults` is a
  // JSON object with transformers' defaults for keys that text_config may omit.
  std::string_view wrapper_type{}, wrapper_architecture{};
  std::string_view text_defaults = "{}";

  /// These functions read the family's own keys. Everything that families share is read before, except the ids of BOS and EOS in a
  /// config.json. They throw `error` for anything unsupported.
  void (*read_json)(const json_value& config, model_config& c);
  void (*read_gguf)(const lazyprune::gguf_keys& file, model_config& c) = [](const lazyprune::gguf_keys&, model_config&) {};
};

}  // namespace v0
}  // namespace lazyprune
