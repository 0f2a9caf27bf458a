// SPDX-License-Identifier: MIT
// What tells a family of models from the others, in files: its names, transformers' defaults where a config.json does not say, and how the
// keys that are its own are read. One value a family, one family a file; files/family/all.hpp lists them. What it computes is in
// model_config.
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

/// A tensor's name in both kinds of files, without ".weight" or ".bias"; of a layer's tensors without the layer's.
struct tensor_name {
  std::string_view hugging_face, gguf;
};

struct model_family {
  std::string_view name;          // of model_config
  std::string_view model_type;    // in config.json
  std::string_view architecture;  // there too
  std::string_view gguf{};        // general.architecture in GGUF files; empty: they have no name of its own for it

  std::size_t max_positions;              // where the file says nothing; transformers' defaults, like the following
  std::optional<std::size_t> head_dim{};  // none: hidden / heads
  bool own_kv_heads = false;              // the file must say how many; else as many as query heads
  double rms_epsilon = 1e-6;
  bool tied = false;
  bool attention_bias = false, mlp_bias = false;  // the keys mean something
  bool partial_rotation = false;                  // GGUF files may rotate less than a whole head

  std::span<const std::string_view> keys{};       // of config.json, of those that belong to other models' arithmetic elsewhere
  std::span<const std::string_view> gguf_keys{};  // of the architecture, beside those that all have
  std::span<const tensor_name> tensors{};         // beside those that all have, or in their place
  bool interleaved = false;                       // GGUF files hold the rows of q and k for a rotary embedding that turns neighbours

  // Models of text and images around one of this family, whose config.json holds it in text_config: their names there, and transformers'
  // defaults of the keys that files leave out of it, as a JSON object.
  std::string_view wrapper_type{}, wrapper_architecture{};
  std::string_view text_defaults = "{}";

  /// Read what is the family's own, once all else is read. They throw `error` for what is not computed.
  void (*read_json)(const json_value& config, model_config& c);
  void (*read_gguf)(const lazyprune::gguf_keys& file, model_config& c) = [](const lazyprune::gguf_keys&, model_config&) {};
};

}  // namespace v0
}  // namespace lazyprune
