// SPDX-License-Identifier: MIT
// Keys of config.json that several families share, read as transformers reads them: flags, sliding windows and RoPE.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/finite.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

template <class Value>
double positive(const Value& value) {
  if (!(value.number() > 0)) value.refuse("a number above 0");
  return value.number();
}

inline bool flag(const json_value& config, std::string_view key, bool otherwise = false) {
  const auto value = config.find(key);
  return value ? value->boolean() : otherwise;
}

inline void refuse_flag(const json_value& config, std::string_view key, std::string_view expected = "false") {
  if (flag(config, key)) config.at(key).refuse_unsupported(expected);
}

inline constexpr std::size_t most_positions = std::size_t{1} << 30;

inline std::size_t positions_of(const json_value& value) { return static_cast<std::size_t>(value.whole_number(1, most_positions)); }

/// Refuses sliding windows, for families that have none. A window that is at least as long as the longest sequence is accepted, since it
/// changes nothing.
inline void refuse_windows(const json_value& config, const model_config& c) {
  if (const auto types = config.find("layer_types"))
    for (const json_value& type : types->items())
      if (type.string() != "full_attention") type.refuse_unsupported("full_attention");
  if (const auto window = config.find("sliding_window"); window && positions_of(*window) < c.max_positions)
    window->refuse_unsupported("null, because this family has no sliding windows");
}

/// Returns the value of sliding_window. If the key is missing, returns `otherwise`, which is transformers' default. If the value is null,
/// returns nullopt.
inline std::optional<std::size_t> sliding_window(const json_value& config, std::size_t otherwise) {
  if (!config.has("sliding_window")) return otherwise;
  const auto value = config.find("sliding_window");
  return value ? std::optional(positions_of(*value)) : std::nullopt;
}

/// Sets this window in the layers for which `windowed(layer)` is true, and no window in the others.
template <class Windowed>
void set_windows(std::size_t window, Windowed windowed, model_config& c) {
  c.windows.assign(c.layers, 0);
  for (std::size_t l = 0; l < c.layers; ++l)
    if (windowed(l)) c.windows[l] = window;
}

/// Sets the window of each layer. If the file has no layer_types, `windowed(layer)` says which layers have a window.
template <class Windowed>
void read_windows(const json_value& config, std::optional<std::size_t> window, Windowed windowed, model_config& c) {
  if (const auto types = config.find("layer_types")) {
    c.windows.assign(c.layers, 0);
    if (types->size() != c.layers) types->refuse(std::to_string(c.layers) + " items, one for each layer");
    const std::vector<json_value> list = types->items();
    for (std::size_t l = 0; l < c.layers; ++l) {
      if (list[l].string() == "full_attention") continue;
      if (list[l].string() != "sliding_attention") list[l].refuse_unsupported("full_attention or sliding_attention");
      if (!window) list[l].refuse("full_attention, because no sliding window is set");
      c.windows[l] = *window;
    }
  } else {
    set_windows(window.value_or(0), windowed, c);
  }
  if (std::ranges::all_of(c.windows, [](std::size_t w) { return w == 0; })) c.windows.clear();
}

/// Returns the number by which YaRN multiplies cosines and sines (arXiv 2309.00071, section 3.4). transformers calls this function
/// `get_mscale`.
inline double yarn_scale(double factor, double weight = 1.0) { return factor <= 1.0 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0; }

/// Returns the number by which LongRoPE multiplies cosines and sines (arXiv 2402.13753), for files that do not give this number.
inline double longrope_scale(double factor, std::size_t original) {
  return factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(static_cast<double>(original)));
}

/// Reads one object of config.json that describes RoPE.
class rope_reader {
 public:
  /// `rotary`: how many numbers of each head RoPE rotates. `original`: transformers' default for the longest sequence before scaling, or
  /// nullopt if the family has no such default.
  rope_reader(const json_value& config, std::size_t max_positions, std::size_t rotary, std::optional<std::size_t> original = {})
      : config_(config), max_positions_(max_positions), rotary_(rotary), original_(original) {}

  /// `theta`: the RoPE base if `scaling` has none.
  rope_config read(const std::optional<json_value>& scaling, double theta) const {
    rope_config rope{.theta = theta};
    if (!scaling) return rope;
    scaling->allow_only({"type", "rope_type", "rope_theta", "factor", "original_max_position_embeddings", "low_freq_factor",
                         "high_freq_factor", "beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate",
                         "partial_rotary_factor", "finetuned", "short_factor", "long_factor", "attn_factor", "extrapolation_factor"},
                        error_code::unsupported);
    if (const auto inner = scaling->find("rope_theta")) rope.theta = positive(*inner);
    const auto type = scaling->find("rope_type"), old_type = scaling->find("type");
    if (type && old_type && type->string() != old_type->string()) old_type->refuse("the same as rope_type");
    if (type || old_type)
      read_kind(*scaling, type ? *type : *old_type, rope);
    else
      refuse_stretching(*scaling);
    return rope;
  }

 private:
  /// Refuses keys that belong to a kind of scaling, in an object that names no kind. Such an object has the kind "default", so these keys
  /// have no clear meaning.
  static void refuse_stretching(const json_value& scaling) {
    scaling.each_member([&](const std::string& key, const json_value& value) {
      if (key != "rope_theta" && key != "partial_rotary_factor" && key != "original_max_position_embeddings" && !value.is_null())
        scaling.at("rope_type").refuse("a string");
    });
  }

  static double factor_of(const json_value& scaling) {
    const double value = scaling.at("factor").number();
    if (value < 1.0 || value > 1e6) scaling.at("factor").refuse("a number from 1 to a million");
    return value;
  }

  /// Returns the length of the longest sequence before scaling, or nullopt if neither the file nor transformers gives it. As in
  /// transformers, the key outside of the object comes first, then the family's default, then the key inside.
  std::optional<std::size_t> original(const json_value& scaling) const {
    if (const auto beside = config_.find("original_max_position_embeddings")) return positions_of(*beside);
    if (original_) return original_;
    const auto inside = scaling.find("original_max_position_embeddings");
    return inside ? std::optional(positions_of(*inside)) : std::nullopt;
  }

  void read_kind(const json_value& scaling, const json_value& kind, rope_config& rope) const {
    if (kind.string() == "linear") {
      rope.scaling = rope_scaling::linear;
      rope.factor = factor_of(scaling);
    } else if (kind.string() == "llama3") {
      read_llama3(scaling, rope);
    } else if (kind.string() == "yarn") {
      read_yarn(scaling, kind, rope);
    } else if (kind.string() == "longrope" || kind.string() == "su") {
      read_longrope(scaling, rope);
    } else if (kind.string() != "default") {
      kind.refuse_unsupported("default, linear, llama3, yarn or longrope");
    }
  }

  void read_llama3(const json_value& scaling, rope_config& rope) const {
    rope.scaling = rope_scaling::llama3;
    rope.factor = factor_of(scaling);
    const auto before = original(scaling);
    rope.original_positions = before ? *before : positions_of(scaling.at("original_max_position_embeddings"));
    rope.low_frequency = positive(scaling.at("low_freq_factor"));
    rope.high_frequency = positive(scaling.at("high_freq_factor"));
    if (rope.high_frequency <= rope.low_frequency) scaling.at("high_freq_factor").refuse("a number above low_freq_factor");
  }

  /// `kind` is the JSON value "yarn". Errors about several keys name the place of `kind`.
  void read_yarn(const json_value& scaling, const json_value& kind, rope_config& rope) const {
    const auto positive_or = [&](std::string_view key, double otherwise) {
      const auto value = scaling.find(key);
      return value ? positive(*value) : otherwise;
    };
    rope.scaling = rope_scaling::yarn;
    const auto before = original(scaling);
    rope.original_positions = before.value_or(max_positions_);
    // If the file has no factor and the length before scaling is known, the factor is max_positions over this length, as in transformers.
    rope.factor = scaling.find("factor") || !before ? factor_of(scaling) : ratio_to(rope.original_positions);
    rope.beta_fast = positive_or("beta_fast", rope.beta_fast);
    rope.beta_slow = positive_or("beta_slow", rope.beta_slow);
    if (rope.beta_fast < rope.beta_slow) kind.refuse("beta_fast not below beta_slow");
    if (rope.theta <= 1.0) kind.refuse("a rope_theta above 1 with yarn");
    if (scaling.find("truncate")) rope.truncate = flag(scaling, "truncate");
    const auto weight = scaling.find("mscale"), weight_all = scaling.find("mscale_all_dim");
    const bool weighted = weight && weight_all && weight->number() != 0 && weight_all->number() != 0;
    rope.attention_factor =
        positive_or("attention_factor", weighted ? yarn_scale(rope.factor, weight->number()) / yarn_scale(rope.factor, weight_all->number())
                                                 : yarn_scale(rope.factor));
    if (!(is_finite(rope.attention_factor) && rope.attention_factor > 0)) kind.refuse("mscale and mscale_all_dim above 0");
  }

  void read_longrope(const json_value& scaling, rope_config& rope) const {
    rope.scaling = rope_scaling::longrope;
    const auto before = original(scaling);
    rope.original_positions = before.value_or(max_positions_);
    rope.divisors = divisors(scaling.at("short_factor"));
    rope.long_divisors = divisors(scaling.at("long_factor"));
    rope.factor = scaling.find("factor") ? factor_of(scaling) : ratio_to(rope.original_positions);
    const auto given = scaling.find("attention_factor");
    if (!given && rope.factor > 1.0 && rope.original_positions == 1) scaling.refuse("original_max_position_embeddings above 1");
    rope.attention_factor = given ? positive(*given) : longrope_scale(rope.factor, rope.original_positions);
  }

  std::vector<double> divisors(const json_value& list) const {
    if (list.size() != rotary_ / 2) list.refuse(std::to_string(rotary_ / 2) + " numbers, one for each frequency");
    std::vector<double> values;
    list.each_item([&](const json_value& value) { values.push_back(positive(value)); });
    return values;
  }

  double ratio_to(std::size_t original) const { return static_cast<double>(max_positions_) / static_cast<double>(original); }

  const json_value& config_;
  std::size_t max_positions_, rotary_;
  std::optional<std::size_t> original_;
};

/// The objects that describe RoPE. transformers 4 writes `rope_scaling` and a top-level `rope_theta`. transformers 5 writes
/// `rope_parameters` with everything inside. If a file has both objects, they must agree.
struct rope_objects {
  std::optional<json_value> old_style, new_style;

  explicit rope_objects(const json_value& config) : old_style(config.find("rope_scaling")), new_style(config.find("rope_parameters")) {}

  /// Returns the object that the file has. If the file has both, returns the new one.
  const std::optional<json_value>& either() const { return new_style ? new_style : old_style; }
  /// Throws `error` if the file has both objects and `same` is false.
  void expect(bool same) const {
    if (old_style && new_style && !same) old_style->refuse("the same as rope_parameters");
  }
};

/// Returns notes about keys that transformers and this library ignore, but another engine uses. Each note is one sentence: "FILE:
/// rope_scaling.attn_factor: ...".
inline std::vector<std::string> passed_over(const json_value& config) {
  std::vector<std::string> sentences;
  for (const auto& object : {config.find("rope_scaling"), config.find("rope_parameters")}) {
    const auto type = !object ? std::nullopt : object->find("rope_type") ? object->find("rope_type") : object->find("type");
    if (!type || type->string() != "yarn") continue;
    for (const std::string_view key : {"attn_factor", "extrapolation_factor"})
      if (const auto value = object->find(key); value && value->number() != 1.0)
        sentences.push_back(value->file() + ": " + value->place() + ": ignored, as in transformers; vLLM uses it");
  }
  return sentences;
}

/// Returns a RoPE base: the value of `key` if the file has it, else `inner`, else `otherwise`. `inner` is the base in a RoPE object. Throws
/// `error` if `inner` differs from the value of `key`.
inline double rope_base(const json_value& config, std::string_view key, const std::optional<json_value>& inner, double otherwise) {
  const auto stated = config.find(key);
  if (stated && inner && inner->number() != positive(*stated)) inner->refuse("the same as the other rope_theta");
  return stated ? positive(*stated) : inner ? positive(*inner) : otherwise;
}

/// Reads the keys of RoPE in the layout that most families use. `original`: as in the constructor of rope_reader.
inline void read_rope(const json_value& config, model_config& c, std::optional<std::size_t> original = {}) {
  const rope_objects objects(config);
  const auto base_in = [](const auto& object) { return object ? object->find("rope_theta") : std::nullopt; };
  const double theta = rope_base(config, "rope_theta", base_in(objects.either()), 10000.0);
  const rope_reader reader(config, c.max_positions, c.rotary_dim ? c.rotary_dim : c.head_dim, original);
  c.rope = reader.read(objects.either(), theta);
  objects.expect(reader.read(objects.old_style, theta) == c.rope);
  // Qwen's files give the length before scaling as max_position_embeddings, but c.max_positions is the length after scaling.
  if (c.rope.scaling == rope_scaling::yarn)
    c.max_positions = std::max(c.max_positions, static_cast<std::size_t>(static_cast<double>(c.rope.original_positions) * c.rope.factor));
}

/// Reads how many numbers of each head RoPE rotates. These numbers are the first of each head.
inline void read_partial_rotation(const json_value& factor, model_config& c) {
  const double part = factor.number();
  const auto rotary = part > 0 && part <= 1 ? static_cast<std::size_t>(static_cast<double>(c.head_dim) * part) : 0;
  if (rotary < 2 || rotary % 2 != 0)
    factor.refuse("a share with which RoPE rotates an even number of the " + std::to_string(c.head_dim) + " numbers of a head");
  if (rotary < c.head_dim) c.rotary_dim = rotary;
}

/// Refuses partial rotation, for families in which RoPE rotates whole heads.
inline void refuse_partial_rotation(const json_value& config) {
  for (const auto& holder : {std::optional(config), config.find("rope_scaling"), config.find("rope_parameters")})
    if (holder)
      if (const auto factor = holder->find("partial_rotary_factor"); factor && factor->number() != 1.0) factor->refuse_unsupported("1");
}

/// Refuses an activation of the feed-forward's gate other than `expected`. transformers also calls SiLU "swish".
inline void expect_activation(const json_value& config, std::string_view key, std::string_view expected) {
  const auto name = config.find(key);
  if (name && (name->string() == "swish" ? "silu" : name->string()) != expected) name->refuse_unsupported(expected);
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
