// SPDX-License-Identifier: MIT
// How a model is best pruned, in a file: lazyprune.json in the model's folder, or one that the user names.
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

  std::string stages;  // as stages::parse reads them

  /// Throws `error` where the file cannot be read or holds something else.
  static pruning_file read(const std::filesystem::path& path) {
    const mapped_file file(path, file_access::read, most_bytes);
    const json_value all = json_value::parse(file.text(), file.name(), most_bytes);
    all.allow_only({"stages"});
    return {all.at("stages").string()};
  }
};

}  // namespace v0
}  // namespace lazyprune
