// SPDX-License-Identifier: MIT
#include "engine/model_choice.hpp"

#include <cstdlib>
#include <system_error>

namespace lazyprune {
namespace program {
namespace {

/// Where an installed program finds the model, seen from its own folder; or the place in the source tree that it was built from.
std::filesystem::path bundled_model() {
  std::error_code failure;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
#ifdef LAZYPRUNE_INSTALLED_MODEL
  if (!failure) {
    const std::filesystem::path installed = (program.parent_path() / LAZYPRUNE_INSTALLED_MODEL).lexically_normal();
    if (std::filesystem::exists(installed, failure)) return installed;
  }
#endif
  return LAZYPRUNE_MODEL_DIR;
}

}  // namespace

std::filesystem::path model_directory(const model_flags& flags) {
  if (!flags.directory.empty()) return flags.directory;
  if (const char* named = std::getenv("LAZYPRUNE_MODEL"); named && *named) return named;
  return bundled_model();
}

lazyprune::checkpoint open_model(const model_flags& flags) {
  return lazyprune::checkpoint(model_directory(flags), flags.no_mmap ? lazyprune::file_access::read : lazyprune::file_access::map);
}

}  // namespace program
}  // namespace lazyprune
