// SPDX-License-Identifier: MIT
// How the files of one model family differ from the files of other families. A model_family has the family's names, transformers' defaults
// for missing keys of config.json, and functions that read the family's own keys. Each family is one value in a file of its own, and
// files/family/all.hpp lists all families. model_config says what a model computes.
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

/// The two names of a tensor, without ".weight" or ".bias". Names of a layer's tensor also lack "model.layers.N." or "blk.N.".
struct tensor_name {
  std::string_view hugging_face, gguf;
};

struct model_family {
  std::string_view name;          // in model_config
  std::string_view model_type;    // in config.json
  std::string_view architecture;  // in config.json, too
  std::string_view gguf{};        // general.architecture in GGUF files; empty: the family has no name there

  // max_positions, head_dim, rms_epsilon, tied, bos and eos are transformers' defaults for a config.json without these keys.
  std::size_t max_positions;
  std::optional<std::size_t> head_dim{};  // nullopt: hidden / heads
  bool own_kv_heads = false;              // true: config.json must have num_key_value_heads; false: the default is n_heads
  double rms_epsilon = 1e-6;
  bool tied = false;
  std::optional<token_id> bos{}, eos{};
  bool attention_bias = false, mlp_bias = false;  // whether config.json may set the key of this name to true
  bool partial_rotation = false;                  // whether rope.dimension_count of a GGUF file may be less than the width of a head

  std::span<const std::string_view> keys{};       // keys of config.json that this family reads, although they are refused for others
  std::span<const std::string_view> gguf_keys{};  // keys of the architecture that this family reads, besides those of all families
  std::span<const tensor_name> tensors{};         // names besides those of all families; the family's names have precedence
  // Whether GGUF files interleave the rows of q and k, because llama.cpp's RoPE for this architecture rotates neighbouring rows.
  bool interleaved = false;

  // These members are for models of text and images whose config.json has a model of this family under text_config. `text_defaults` is a
  // JSON object with transformers' defaults for keys that text_config may omit.
  std::string_view wrapper_type{}, wrapper_architecture{};
  std::string_view text_defaults = "{}";

  /// These functions read the family's own keys, and throw `error` for anything unsupported. When they are called, everything that
  /// families share has been read, except the ids of BOS and EOS in a config.json.
  void (*read_json)(const json_value& config, model_config& c);
  void (*read_gguf)(const lazyprune::gguf_keys& file, model_config& c) = [](const lazyprune::gguf_keys&, model_config&) {};
};

}  // namespace v0
}  // namespace lazyprune
