// SPDX-License-Identifier: MIT
// Which model: the one named, or the one that comes with the program.
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
struct model_config;
enum class dtype : std::uint8_t;
}  // namespace v0

namespace program {

/// The one named; else that of the environment variable LAZYPRUNE_MODEL; else the bundled model.
std::filesystem::path model_path(const model_flags& flags);

enum class stages_source : std::uint8_t { pruning_file, folder, program };

/// Stages that somebody found for a model.
struct recommended_stages {
  std::string text;
  stages_source from;
  std::string where;             // the file that has them; empty: the program
  std::size_t least_tokens = 0;  // for shorter texts nobody tried them
};

/// What a file says of a tensor.
struct tensor_entry {
  std::string name, type;
  std::vector<std::uint64_t> shape;
  std::size_t bytes;
};

/// A model's file or directory, whose weights are not loaded yet.
class opened_model {
 public:
  /// Throws `error` where there is no model.
  explicit opened_model(const model_flags& flags);
  /// A model to be described: what is not computed here is no fault, and `not_computed` tells it.
  static opened_model described(const model_flags& flags);

  /// Why it cannot be computed; none where it can, as far as config and types of tensors say. Where the config is why, config() is empty.
  std::optional<error> not_computed() const;

  const checkpoint& files() const { return *files_; }
  const std::filesystem::path& path() const;
  const model_config& config() const;
  layer_id layers() const;

  /// The stages of --pruning-file, else of the folder's lazyprune.json, else those that this program knows for the model; none where nobody
  /// knows any. Throws `error` where the named file cannot be used.
  std::optional<recommended_stages> stages() const;
  /// The same, or the stages that the paper draws for Llama 2, at the same shares of this model's layers. Nobody tried those on this model.
  std::string stages_to_compare() const;

  /// All tensors of its files, by name.
  std::vector<tensor_entry> tensors() const;

  /// The type in which a tensor is loaded unless another is asked for; none where its files have no such tensor.
  std::optional<dtype> loaded_type(std::string_view tensor) const;

  /// The name of a GGUF file's way to split text; none where it has none.
  std::optional<std::string> pre_tokenizer() const;

  /// The longest sequence: what was asked for, or with 0 the model's limit. Throws `error` where that is shorter.
  std::size_t context(std::size_t asked) const;

 private:
  opened_model(std::shared_ptr<const checkpoint> files, std::string pruning_file);

  std::shared_ptr<const checkpoint> files_;
  std::string pruning_file_;
};

/// What people call a model: the bundled one by its name, any other by its folder's, or by its file's without .gguf.
std::string model_name(const std::filesystem::path& path);

}  // namespace program
}  // namespace lazyprune
