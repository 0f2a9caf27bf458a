// SPDX-License-Identifier: MIT
// Opens the model that the flags name, or the one that comes with the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commands/flags.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {
class checkpoint;
struct pruning_file;
struct model_config;
enum class dtype : std::uint8_t;
}  // namespace v0

namespace program {

/// Returns the path of the model that the flags name. Without such a flag, returns the path in the environment variable LAZYPRUNE_MODEL; if
/// that is not set, the path of the bundled model.
std::filesystem::path model_path(const model_flags& flags);

enum class stages_source : std::uint8_t { pruning_file, folder, program };

/// The pruning that is recommended for a model.
struct recommended_stages {
  std::string text;
  stages_source from;
  std::string where;                                  // the file that holds them; empty: the program's own table
  std::size_t least_tokens = 0;                       // nothing is pruned while fewer are known
  std::shared_ptr<const pruning_file> calibration{};  // the whole file, if it is a calibration
};

/// A tensor as its file describes it.
struct tensor_entry {
  std::string name, type;
  std::vector<std::uint64_t> shape;
  std::size_t bytes;
};

/// An open model file or directory. The weights are not loaded yet.
class opened_model {
 public:
  /// Throws `error` if there is no model, or this library cannot compute it.
  explicit opened_model(const model_flags& flags);
  /// Opens a model only to describe it. A model that this library cannot compute is not an error: see `unsupported_reason`.
  static opened_model described(const model_flags& flags);

  /// Why this library cannot compute the model; nullopt if it can. Only the config and the types of the tensors are checked. If the reason
  /// is the config, config() has only default values.
  std::optional<error> unsupported_reason() const;

  const checkpoint& files() const { return *files_; }
  const std::filesystem::path& path() const;
  const model_config& config() const;
  layer_id layers() const;

  /// Looks for stages in the file of --pruning-file, then in the folder's lazyprune.json, then in the program's own table
  /// (known_pruning). Returns nullopt if there are none. Throws `error` if the file of --pruning-file cannot be used, or if a calibration
  /// belongs to another model.
  std::optional<recommended_stages> stages() const;
  /// True if the flags named a file with --pruning-file.
  bool has_pruning_file() const { return !pruning_file_.empty(); }
  /// Returns the stages, and the calibration if there is one, in a file for --pruning-file. Throws `error` if the file cannot be used, or
  /// if its calibration belongs to another model.
  recommended_stages stages_in(const std::string& file) const;
  /// Returns the text of `stages()` if there are any. Otherwise returns stages at the depths at which the paper prunes Llama 2, scaled to
  /// this model's number of layers. Nobody has tried these stages on this model.
  std::string stages_to_compare() const;

  /// Returns what tells the model from others of the same shape (model_fingerprint).
  std::string fingerprint() const;

  /// Returns what tells the model from all others, also from files of the same model that are quantized differently: the fingerprint and
  /// the weights' digest.
  std::string identity() const;

  /// Returns a text that differs after a change of the files that hold the weights or the config: the sizes of these files, the times at
  /// which they were written, and config.json itself. The names of the files do not matter. Throws std::filesystem::filesystem_error if a
  /// file is gone.
  std::string state_of_files() const;

  /// All tensors of the files, by name.
  std::vector<tensor_entry> tensors() const;

  /// The type in which products read a tensor by default, bf16 if it is quantized; nullopt if the files have no such tensor.
  std::optional<dtype> loaded_type(std::string_view tensor) const;

  /// The name of a GGUF file's pre-tokenizer; nullopt if it names none.
  std::optional<std::string> pre_tokenizer() const;

  /// The longest sequence in tokens: `asked`, or the model's limit if `asked` is 0. Throws `error` if the model's limit is smaller than
  /// `asked`.
  std::size_t context(std::size_t asked) const;

 private:
  opened_model(std::shared_ptr<const checkpoint> files, std::string pruning_file);

  recommended_stages recommended_by(const pruning_file& file, stages_source from, const std::string& where) const;

  std::shared_ptr<const checkpoint> files_;
  std::string pruning_file_;
};

/// Returns a model's name for output: "pocket" for the bundled model, otherwise the folder's name, or the file's name without .gguf.
std::string model_name(const std::filesystem::path& path);

}  // namespace program
}  // namespace lazyprune
