// SPDX-License-Identifier: MIT
// A folder with a model's files: either config.json with safetensors files, or one GGUF model (one file, or its shards).
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/gguf.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/mapped_file.hpp>
#include <lazyprune/files/utf8.hpp>

namespace lazyprune {
inline namespace v0 {

class model_folder {
 public:
  static constexpr std::string_view one_file = "model.safetensors", index_file = "model.safetensors.index.json";

  explicit model_folder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }

  bool has(std::string_view name) const {
    std::error_code ignored;  // a broken link counts as present, so that opening it reports the fault
    return std::filesystem::symlink_status(path_ / name, ignored).type() != std::filesystem::file_type::not_found;
  }
  bool has_safetensors() const { return has(one_file) || has(index_file); }

  /// Reads a small file. Throws `error` if it cannot be read or has more than `limit` bytes.
  mapped_file open(std::string_view name, std::size_t limit) const { return mapped_file(path_ / name, file_access::read, limit); }
  json_value read_json(std::string_view name, std::size_t limit) const {
    const mapped_file file = open(name, limit);
    return json_value::parse(file.text(), file.name(), limit);
  }

  /// Returns the names of all entries, ascending. Throws `error` with code io if the folder cannot be read.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    std::error_code failure;
    for (std::filesystem::directory_iterator at(path_, failure), end; !failure && at != end; at.increment(failure))
      all.push_back(at->path().filename().string());
    if (failure) throw error(path_.string(), "", "a directory that can be read", failure.message(), error_code::io);
    std::ranges::sort(all);
    return all;
  }

  /// Returns the path of the folder's GGUF model, or of its first shard. Returns nullopt if the folder has config.json and safetensors, or
  /// if it has no GGUF model. If there are several GGUF files, ignores those whose metadata say that they are not language models. Throws
  /// `error` if several files remain.
  std::optional<std::filesystem::path> gguf() const {
    if (has("config.json") && has_safetensors()) return std::nullopt;
    std::vector<std::string> models = names();
    std::erase_if(models, [&](const std::string& name) { return is_later_shard(name) || !is_gguf_path(path_ / name); });
    if (models.size() > 1) std::erase_if(models, [&](const std::string& name) { return serves_a_model(path_ / name); });
    if (models.size() > 1) throw error(path_.string(), "", "one model", list_text(models));
    return models.empty() ? std::nullopt : std::optional(path_ / models[0]);
  }

 private:
  /// Returns whether a GGUF file only accompanies a model: an image encoder (mmproj-NAME.gguf), an adapter or an importance matrix.
  static bool serves_a_model(const std::filesystem::path& path) {
    try {
      const gguf_file file{mapped_file(path)};
      const auto says_other = [&](std::string_view key, auto other) {
        const auto value = file.find(key);
        return value && value->is_string() && other(value->string());
      };
      return says_other("general.type", [](std::string_view type) { return type != "model"; }) ||
             says_other("general.architecture", [](std::string_view name) { return name == "clip"; });
    } catch (const error&) {
      return false;  // opening it as a model reports the fault
    }
  }

  /// Returns whether a name ends in -0000K-of-0000N.gguf with K above 1.
  static bool is_later_shard(std::string_view name) {
    constexpr std::string_view form = "-00000-of-00000.gguf";
    if (name.size() < form.size()) return false;
    name.remove_prefix(name.size() - form.size());
    for (std::size_t i = 0; i < form.size(); ++i)
      if (form[i] == '0' ? name[i] < '0' || name[i] > '9' : name[i] != form[i]) return false;
    return name.substr(1, 5) > "00001";
  }

  static std::string list_text(const std::vector<std::string>& names) {
    std::string text = std::to_string(names.size()) + ":";
    for (const std::string& name : names) text.append(text.back() == ':' ? " " : ", ").append(printable(name));
    return text;
  }

  std::filesystem::path path_;
};

}  // namespace v0
}  // namespace lazyprune
