// SPDX-License-Identifier: MIT
// The pruning that is recommended for a model: lazyprune.json in the model's folder, or a file that the user names.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include <lazyprune/files/json.hpp>
#include <lazyprune/files/mapped_file.hpp>

namespace lazyprune {
inline namespace v0 {

struct pruning_file {
  static constexpr std::string_view name = "lazyprune.json";  // in a model's folder
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;

  std::string stages;  // in the syntax of stages::parse

  /// Throws `error` if the file cannot be read, or is not a JSON object with the one key "stages".
  static pruning_file read(const std::filesystem::path& path) {
    const mapped_file file(path, file_access::read, most_bytes);
    const json_value all = json_value::parse(file.text(), file.name(), most_bytes);
    all.allow_only({"stages"});
    return {all.at("stages").string()};
  }
};

}  // namespace v0
}  // namespace lazyprune
