// SPDX-License-Identifier: MIT
#include "questions/results.hpp"

#include <filesystem>
#include <system_error>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/output_file.hpp>

namespace lazyprune {
namespace program {

void make_directory(const std::string& directory) {
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) throw error(directory, "", "a directory that exists or can be made", failure.message());
}

std::string file_in(const std::string& directory, std::string_view name) { return (std::filesystem::path(directory) / name).string(); }

void write_whole(const std::string& file, std::string_view text) {
  output_file out(file);
  out.write(text);
  out.commit();
}

void remove_file(const std::string& file) {
  std::error_code failure;
  std::filesystem::remove(file, failure);
  if (failure) throw error(file, "", "no such file, or one that can be removed", failure.message());
}

}  // namespace program
}  // namespace lazyprune
