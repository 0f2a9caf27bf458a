// SPDX-License-Identifier: MIT
// The metadata keys that belong to the architecture of a GGUF model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/finite.hpp>
#include <lazyprune/files/gguf.hpp>

namespace lazyprune {
inline namespace v0 {

class gguf_keys {
 public:
  static constexpr std::size_t most_wide = std::size_t{1} << 20;

  /// The first shard holds the metadata.
  gguf_keys(std::span<const gguf_file> shards, std::string_view architecture) : shards_(shards), architecture_(architecture) {}

  const gguf_file& file() const { return shards_[0]; }
  std::string_view architecture() const { return architecture_; }

  /// Returns the full key: "llama.block_count" for "block_count".
  std::string key(std::string_view name) const { return std::string(architecture_).append(".").append(name); }

  /// Returns the value of a key, or nullopt. An array with a number for each layer is read as one number if all its numbers are equal.
  std::optional<gguf_value> find(std::string_view name) const {
    const auto value = file().find(key(name));
    return value ? std::optional(of_all_layers(*value)) : std::nullopt;
  }
  gguf_value at(std::string_view name) const { return of_all_layers(file().at(key(name))); }
  /// Returns the values of all keys of the architecture, ascending by key.
  std::vector<gguf_value> all() const {
    std::vector<gguf_value> values = file().values_under(key(""));
    for (gguf_value& value : values) value = of_all_layers(value);
    return values;
  }

  /// Returns the value of a key, a whole number from 1 to `most`. Throws `error` if the key is missing or has another value.
  std::size_t size(std::string_view name, std::size_t most = most_wide) const {
    return static_cast<std::size_t>(at(name).whole_number(1, most));
  }
  std::optional<std::size_t> size_if(std::string_view name, std::size_t most = most_wide) const {
    const auto value = find(name);
    return value ? std::optional(static_cast<std::size_t>(value->whole_number(1, most))) : std::nullopt;
  }

  /// Returns a tensor from any shard, or null.
  const stored_tensor* tensor(std::string_view name) const { return find_tensor(shards_, name); }

  /// Returns the `count` numbers of an F32 tensor. Each divides one frequency of RoPE. Returns an empty vector if there is no such tensor.
  /// Throws `error` if the tensor has another type or shape, or if one of its numbers is not finite or not above 0.
  std::vector<double> divisors(std::string_view name, std::size_t count) const {
    const stored_tensor* const t = tensor(name);
    if (!t) return {};
    if (t->type != "F32") refuse_tensor(name, "F32", t->type, error_code::unsupported);
    if (t->shape != std::vector<std::uint64_t>{count})
      refuse_tensor(name, "shape [" + std::to_string(count) + "]", detail::shape_text(t->shape));
    std::vector<double> values;
    for (std::size_t i = 0; i < count; ++i) {
      values.push_back(detail::number_at<float>(t->data.data() + 4 * i));
      if (!(is_finite(values.back()) && values.back() > 0)) refuse_tensor(name, "only numbers above 0", "another number");
    }
    return values;
  }

  [[noreturn]] void refuse_tensor(std::string_view name, std::string_view expected, std::string_view found,
                                  error_code code = error_code::bad_input) const {
    throw error(file().name(), "tensor " + std::string(name), expected, found, code);
  }

 private:
  gguf_value of_all_layers(const gguf_value& value) const {
    const auto layers = file().find(key("block_count"));
    return layers && !layers->is_array() ? value.if_equal(layers->whole_number()) : value;
  }

  std::span<const gguf_file> shards_;
  std::string_view architecture_;
};

}  // namespace v0
}  // namespace lazyprune
