// SPDX-License-Identifier: MIT
#include "models/model_choice.hpp"

#include <cstdlib>
#include <iostream>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "models/known_pruning.hpp"
#include "terminal/columns.hpp"

#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/descriptor.hpp>
#include <lazyprune/files/model_fingerprint.hpp>
#include <lazyprune/files/model_folder.hpp>
#include <lazyprune/files/pruning_file.hpp>
#include <lazyprune/model/layers_of.hpp>
#include <lazyprune/policy/presets.hpp>

namespace lazyprune {
namespace program {
namespace {

/// Returns the path of the model that was installed with the program. It is found relative to the program's folder. If that model does not
/// exist, returns the path of the model in the source tree.
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

/// Opens a model's files. Starts to read the first weights into memory in the background, before they are needed.
std::shared_ptr<const checkpoint> coming_into_memory(const std::filesystem::path& path, file_access how) {
  struct read_files {
    checkpoint files;
    read_ahead ahead{};  // destroyed before `files`
    read_files(const std::filesystem::path& path, file_access how) : files(path, how) { files.prefetch(ahead); }
  };
  const auto opened = std::make_shared<read_files>(path, how);
  return {opened, &opened->files};
}

/// Prints the checkpoint's remarks on stderr, and returns the checkpoint.
std::shared_ptr<const checkpoint> remarked_on(std::shared_ptr<const checkpoint> files) {
  for (const std::string& remark : files->remarks()) std::cerr << one_line(remark) << std::endl;
  return files;
}

constexpr std::size_t most_config = std::size_t{1} << 20;  // bytes of config.json

/// Returns the model's fingerprint; nullopt if the files lack the weights for it. A model without weights can still be described.
std::optional<std::string> fingerprint_if_readable(const checkpoint& files) {
  try {
    return model_fingerprint(files);
  } catch (const error&) {
    return std::nullopt;
  }
}

}  // namespace

std::filesystem::path model_path(const model_flags& flags) {
  if (!flags.path.empty()) return flags.path;
  if (const char* named = std::getenv("LAZYPRUNE_MODEL"); named && *named) return named;
  return bundled_model();
}

opened_model::opened_model(const model_flags& flags)
    : opened_model(remarked_on(coming_into_memory(model_path(flags), flags.no_mmap ? file_access::read : file_access::map)),
                   flags.pruning_file) {}

opened_model::opened_model(std::shared_ptr<const checkpoint> files, std::string pruning_file)
    : files_(std::move(files)), pruning_file_(std::move(pruning_file)) {}

opened_model opened_model::described(const model_flags& flags) {
  const file_access how = flags.no_mmap ? file_access::read : file_access::map;
  return {remarked_on(std::make_shared<const checkpoint>(model_path(flags), how, model_use::described)), flags.pruning_file};
}

std::optional<error> opened_model::unsupported_reason() const { return files_->unsupported_reason(); }

const std::filesystem::path& opened_model::path() const { return files_->path(); }
const model_config& opened_model::config() const { return files_->config(); }
layer_id opened_model::layers() const { return static_cast<layer_id>(config().layers); }

std::optional<recommended_stages> opened_model::stages() const {
  if (!pruning_file_.empty()) return stages_in(pruning_file_);
  if (files_->pruning()) return recommended_by(*files_->pruning(), stages_source::folder, (path() / pruning_file::name).string());
  if (unsupported_reason()) return std::nullopt;
  const std::optional<std::string> own = fingerprint_if_readable(*files_);
  const std::shared_ptr<const pruning_file> known = own ? known_pruning(*own) : nullptr;
  if (!known) return std::nullopt;
  return recommended_stages{known->stages, stages_source::program, "", known->heads->least_tokens(), known};
}

recommended_stages opened_model::stages_in(const std::string& file) const {
  return recommended_by(pruning_file::read(file), stages_source::pruning_file, file);
}

recommended_stages opened_model::recommended_by(const pruning_file& file, stages_source from, const std::string& where) const {
  recommended_stages found{file.stages, from, where};
  if (!file.heads) return found;
  const calibrated_heads& heads = *file.heads;
  const auto refuse = [&](const char* place, const std::string& expected, const std::string& wrong) {
    throw error(where, place, expected + ", because the calibration is of another model (\"" + printable(heads.model) + "\")", wrong);
  };
  if (heads.layers != config().layers) refuse("model.layers", std::to_string(config().layers), std::to_string(heads.layers));
  if (heads.heads != config().n_heads) refuse("model.heads", std::to_string(config().n_heads), std::to_string(heads.heads));
  const std::string own = fingerprint();
  if (heads.fingerprint != own) refuse("model.fingerprint", own, printable(heads.fingerprint));
  found.least_tokens = heads.least_tokens();
  found.calibration = std::make_shared<const pruning_file>(file);
  return found;
}

std::string opened_model::stages_to_compare() const {
  if (const auto known = stages(); known && !known->calibration) return known->text;  // those of a calibration need its scorer
  return moved_to(layers_of(config()), lazyllm_stages(layers())).text();
}

std::string opened_model::fingerprint() const { return model_fingerprint(*files_); }

std::string opened_model::identity() const { return fingerprint() + '-' + weights_digest(*files_); }

std::string opened_model::state_of_files() const {
  std::set<std::string> names;
  if (files_->gguf()) names.insert(files_->gguf()->file().name());  // it may have no tensors
  for (const auto& [name, tensor] : files_->tensors()) names.insert(tensor.file->name());
  std::string state;
  for (const std::string& name : names)
    state += std::to_string(std::filesystem::file_size(name)) + ' ' +
             std::to_string(std::filesystem::last_write_time(name).time_since_epoch().count()) + ' ';
  if (!files_->is_gguf()) state += model_folder(path()).open("config.json", most_config).text();
  return state;
}

std::vector<tensor_entry> opened_model::tensors() const {
  std::vector<tensor_entry> all;
  for (const auto& [name, tensor] : files_->tensors())
    all.push_back({std::string(name), std::string(tensor.stored->type), tensor.stored->shape, tensor.stored->data.size()});
  return all;
}

std::optional<dtype> opened_model::loaded_type(std::string_view tensor) const {
  const placed_tensor* const found = files_->find(tensor);
  if (!found) return std::nullopt;
  const std::string_view type = found->stored->type;
  return type == "F32" ? dtype::f32 : type == "F16" ? dtype::f16 : dtype::bf16;
}

std::optional<std::string> opened_model::pre_tokenizer() const {
  const auto name = files_->gguf() ? files_->gguf()->find("tokenizer.ggml.pre") : std::nullopt;
  return name && name->is_string() ? std::optional(std::string(name->string())) : std::nullopt;
}

std::size_t opened_model::context(std::size_t asked) const {
  const std::size_t most = config().max_positions;
  if (asked > most)
    throw error("--ctx-size", "", "at most the model's " + std::to_string(most), std::to_string(asked), error_code::no_room);
  return asked > 0 ? asked : most;
}

std::string model_name(const std::filesystem::path& path) {
  if (same_file(path, bundled_model())) return "pocket";
  std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  return (whole.extension() == ".gguf" ? whole.stem() : whole.filename()).string();
}

}  // namespace program
}  // namespace lazyprune
