// SPDX-License-Identifier: MIT
#include "engine/model_choice.hpp"

#include <cstdlib>
#include <system_error>
#include <utility>

#include <lazyprune/io/checkpoint.hpp>

namespace lazyprune {
namespace program {
namespace {

/// The place of the model beside an installed program, seen from its own folder; else that in the source tree that it was built from.
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

std::filesystem::path directory_of(const model_flags& flags) {
  if (!flags.directory.empty()) return flags.directory;
  if (const char* named = std::getenv("LAZYPRUNE_MODEL"); named && *named) return named;
  return bundled_model();
}

}  // namespace

opened_model::opened_model(const model_flags& flags)
    : files_(std::make_shared<const checkpoint>(directory_of(flags), flags.no_mmap ? file_access::read : file_access::map)) {}

const std::filesystem::path& opened_model::directory() const { return files_->directory(); }
const model_config& opened_model::config() const { return files_->config(); }
layer_id opened_model::layers() const { return static_cast<layer_id>(config().layers); }
const std::optional<std::string>& opened_model::stages() const { return files_->stages(); }
std::vector<tensor_entry> opened_model::tensors() const {
  std::vector<tensor_entry> all;
  for (const auto& [name, tensor] : files_->tensors())
    all.push_back({std::string(name), std::string(tensor->type), {tensor->shape.begin(), tensor->shape.end()}, tensor->data.size()});
  return all;
}

std::optional<dtype> opened_model::stored_type(std::string_view tensor) const {
  const auto found = files_->find(tensor);
  return found ? std::optional(found->type) : std::nullopt;
}

std::optional<tokenizer> opened_model::load_tokenizer() const { return files_->load_tokenizer(); }

tokenizer opened_model::tokenizer_for(std::string_view who, std::string_view expected) const {
  if (auto tokens = load_tokenizer()) return std::move(*tokens);
  throw error(who, "", expected, "no tokenizer.model in " + directory().string());
}

std::size_t opened_model::context(std::size_t asked) const {
  const std::size_t most = config().max_positions;
  if (asked > most)
    throw error("--ctx-size", "", "at most the model's " + std::to_string(most), std::to_string(asked), error_code::no_room);
  return asked > 0 ? asked : most;
}

std::string model_name(const std::filesystem::path& directory) {
  std::error_code none;
  if (std::filesystem::equivalent(directory, bundled_model(), none)) return "pocket";
  std::filesystem::path folder = std::filesystem::absolute(directory).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return folder.filename().string();
}

}  // namespace program
}  // namespace lazyprune
