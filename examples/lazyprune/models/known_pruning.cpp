// SPDX-License-Identifier: MIT
#include "models/known_pruning.hpp"

#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/pruning_file.hpp>

#include <known_pruning_files.hpp>

namespace lazyprune {
namespace program {

std::shared_ptr<const pruning_file> known_pruning(std::string_view fingerprint) {
  static const auto all = [] {
    std::vector<std::shared_ptr<const pruning_file>> read;
    for (const std::string_view text : known_pruning_files) {
      read.push_back(std::make_shared<const pruning_file>(pruning_file::parse(text, "the program's table")));
      if (!read.back()->heads) throw error("the program's table", "", "calibrations", read.back()->stages);
    }
    return read;
  }();
  for (const auto& known : all)
    if (known->heads->fingerprint == fingerprint) return known;
  return nullptr;
}

}  // namespace program
}  // namespace lazyprune
