// SPDX-License-Identifier: MIT
// A model on disk. It is a GGUF file, whole or in shards, or a folder with Hugging Face's layout. Such a folder has config.json and the
// weights in one safetensors file or in shards. It may also have generation_config.json, a tokenizer's files and our own lazyprune.json.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/files/config_json.hpp>
#include <lazyprune/files/ggml_type.hpp>
#include <lazyprune/files/gguf.hpp>
#include <lazyprune/files/gguf_config.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/mapped_file.hpp>
#include <lazyprune/files/model_folder.hpp>
#include <lazyprune/files/pruning_file.hpp>
#include <lazyprune/files/read_ahead.hpp>
#include <lazyprune/files/safetensors.hpp>
#include <lazyprune/files/stored_tensor.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

/// A tensor and the file that contains it.
struct placed_tensor {
  const stored_tensor* stored;
  const mapped_file* file;

  [[noreturn]] void refuse(std::string_view expected, std::string_view found, error_code code = error_code::bad_input) const {
    throw error(file->name(), "tensor " + printable(stored->name), expected, found, code);
  }
};

/// Why a model is opened: to compute with it, or only to describe it. A model that this library does not support can still be described.
enum class model_use : std::uint8_t { computed, described };

/// Several threads may call const member functions at once.
class checkpoint {
 public:
  /// `path`: a GGUF file, the first shard of a GGUF model, or a model's folder. If a folder has both safetensors and GGUF files, the
  /// safetensors are used. Throws `error` if a file is missing or malformed. Throws `error` if the config is not supported, unless `use` is
  /// `described`.
  explicit checkpoint(std::filesystem::path path, file_access how = file_access::map, model_use use = model_use::computed)
      : path_(std::move(path)), use_(use) {
    std::error_code failure;
    if (is_gguf_path(path_))
      open_gguf_shards(path_, how);
    else if (std::filesystem::is_directory(path_, failure))
      open_folder(how);
    else
      throw error(path_.string(), "", "a model directory or a GGUF file", failure ? failure.message() : "something else");
  }

  const std::filesystem::path& path() const { return path_; }
  const model_config& config() const { return config_; }

  /// Returns why the model cannot be computed, or nullopt if the config and the types of all tensors are supported. If the config is the
  /// reason, config() has only default values.
  std::optional<error> unsupported_reason() const {
    if (config_fault_) return config_fault_;
    try {
      for (const auto& [name, t] : tensors_) check_type(t);
    } catch (const error& fault) {
      return fault;
    }
    return std::nullopt;
  }

  /// Throws `error` if the tensor's type is not supported.
  void check_type(const placed_tensor& t) const {
    const ggml_type* const type = ggml_type_of(t.stored->type);
    if (!plain_type(t.stored->type) && (!type || !type->dequantize)) t.refuse(types_read(), t.stored->type, error_code::unsupported);
  }
  /// Returns the dtype of a plain type, or nullopt for any other type. Numbers of plain types are used as they are in the file.
  static std::optional<dtype> plain_type(std::string_view type) {
    for (const auto& [name, plain] : {std::pair(std::string_view("F32"), dtype::f32), {"F16", dtype::f16}, {"BF16", dtype::bf16}})
      if (type == name) return plain;
    return std::nullopt;
  }

  /// Returns notes for the user about keys of the config. Each note begins with the file and the key. There are no notes for a GGUF model,
  /// or if the config is not supported.
  const std::vector<std::string>& remarks() const { return remarks_; }

  /// Returns what lazyprune.json recommends, or nullopt if there is no such file.
  const std::optional<pruning_file>& pruning() const { return pruning_; }

  /// Returns all tensors by their names in the files. The names are views that are valid while the checkpoint exists.
  const std::map<std::string_view, placed_tensor>& tensors() const { return tensors_; }

  /// Starts to read, in the background, the first 128 MiB of the file with the weights, or of the first shard. Does nothing if the file is
  /// not mapped. `ahead` must not outlive this checkpoint.
  void prefetch(read_ahead& ahead) const {
    constexpr std::size_t beginning = std::size_t{128} << 20;
    if (!is_gguf() && files_.empty()) return;  // an index without tensors
    const mapped_file& first = is_gguf() ? shards_[0].file() : files_.begin()->second.file();
    if (first.mapped()) ahead.ask(first, first.bytes().first(std::min(beginning, first.bytes().size())));
  }

  bool is_gguf() const { return !shards_.empty(); }
  /// The first shard, which holds the metadata. Null if this is not a GGUF model.
  const gguf_file* gguf() const { return shards_.empty() ? nullptr : &shards_[0]; }

  /// Returns the name that the file gives to the tensor with this Hugging Face name. In a model of text and images, the text model's
  /// tensors are under language_model. Transformers before 4.52 wrote language_model.model.NAME. Later versions write
  /// model.language_model.NAME.
  std::string stored_name(std::string_view name) const {
    if (family_) return gguf_name_of(name, family_->tensors);
    if (!wrapped_) return std::string(name);
    constexpr std::string_view model = "model.";
    const std::string before = std::string("language_model.").append(name);
    if (tensors_.contains(before) || !name.starts_with(model)) return tensors_.contains(before) ? before : std::string(name);
    return std::string("model.language_model.").append(name.substr(model.size()));
  }

  /// Returns the tensor with this Hugging Face name, or null.
  const placed_tensor* find(std::string_view name) const {
    const auto at = tensors_.find(stored_name(name));
    return at == tensors_.end() ? nullptr : &at->second;
  }
  bool contains(std::string_view name) const { return find(name) != nullptr; }

  /// Returns the tensor with this Hugging Face name. Throws `error` if there is none.
  const placed_tensor& at(std::string_view name, std::string_view expected) const {
    if (const placed_tensor* found = find(name)) return *found;
    throw error(weights_name_, "tensor " + printable(stored_name(name)), expected, "no tensor of this name");
  }

  /// Like `at`, but also throws `error` if the tensor has an unsupported type or another shape. If `rows` is 1, the tensor may also be a
  /// vector.
  const placed_tensor& of_shape(std::string_view name, std::size_t rows, std::size_t columns) const {
    const std::vector<std::uint64_t> shape = rows == 1 ? std::vector<std::uint64_t>{columns} : std::vector<std::uint64_t>{rows, columns};
    const std::string expected = "shape " + detail::shape_text(shape);
    const placed_tensor& placed = at(name, "a tensor of " + expected);
    const stored_tensor& t = *placed.stored;
    check_type(placed);
    if (t.shape.size() != 1 && t.shape.size() != 2) placed.refuse("a vector or a matrix", "shape " + detail::shape_text(t.shape));
    if (t.shape.back() != columns || (t.shape.size() == 2 ? t.shape[0] : 1) != rows) placed.refuse(expected, detail::shape_text(t.shape));
    return placed;
  }

  /// Returns whether the file interleaves the two halves of each head's rows in this tensor. GGUF files do this for q and k of some
  /// families, such as llama, because llama.cpp's RoPE for these families rotates neighbouring rows.
  bool interleaves(std::string_view name) const {
    if (!family_ || !family_->interleaved) return false;
    return name.find(".self_attn.q_proj.") != name.npos || name.find(".self_attn.k_proj.") != name.npos;
  }

  /// Throws `error` if the files have a weight that is not in `names`, because the config then leaves out a part of the model. Ignores
  /// three kinds of weights. The first is RoPE frequencies, which old checkpoints store, and divisors of frequencies, which GGUF files
  /// store. The second is the output head of a model with tied embeddings. The third is the image model beside a text model.
  void refuse_all_but(const std::set<std::string, std::less<>>& names) const {
    std::set<std::string, std::less<>> known;
    for (const std::string& name : names) known.insert(stored_name(name));
    for (const auto& [name, t] : tensors_) {
      const bool rotary = name.ends_with("rotary_emb.inv_freq") || is_rotary_divisor(name) || name.ends_with(".attn_rot_embd.weight");
      if (!known.contains(name) && !rotary && !(wrapped_ && sees_images(name)) && !(config_.tied && name == stored_name("lm_head.weight")))
        t.refuse("a weight of the model that " + std::string(shards_.empty() ? "config.json describes" : "the metadata describes"),
                 "a weight that is no part of it");
    }
  }

  /// The number of token ids, or nullopt if the config is not supported.
  std::optional<std::size_t> vocabulary() const { return config_fault_ ? std::nullopt : std::optional(config_.vocabulary); }

 private:
  static bool is_rotary_divisor(std::string_view name) {
    return name == "rope_freqs.weight" || name == "rope_factors_short.weight" || name == "rope_factors_long.weight";
  }

  static bool sees_images(std::string_view name) {
    if (name.starts_with("model.")) name.remove_prefix(6);
    return name.starts_with("vision_tower.") || name.starts_with("multi_modal_projector.");
  }

  static constexpr std::size_t small = std::size_t{1} << 20;

  void open_folder(file_access how) {
    const model_folder folder(path_);
    if (const auto gguf = folder.gguf()) {
      open_gguf_shards(*gguf, how);
    } else {
      if (!folder.has("config.json")) throw error(path_.string(), "", "a model: config.json with safetensors, or a .gguf file", "neither");
      read_configs(folder);
      if (folder.has(model_folder::one_file))
        open_one(how);
      else if (folder.has(model_folder::index_file))
        open_shards(folder, how);
      else
        throw error(path_.string(), "", std::string(model_folder::one_file) + " or " + std::string(model_folder::index_file), "neither");
    }
    if (folder.has(pruning_file::name)) pruning_ = pruning_file::read(folder.path() / pruning_file::name);
  }

  std::string types_read() const {
    if (!is_gguf()) return "F32, F16 or BF16";
    std::string names;
    for (const ggml_type& type : detail::ggml_types)
      if (type.dequantize) names.append(names.empty() ? "" : ", ").append(type.name);
    return "one of " + names;
  }

  /// Stores the config that `read` returns. If the model is only described and its config is not supported, stores the reason instead.
  template <class Read>
  void read_config(const Read& read) {
    try {
      config_ = read();
    } catch (const error& fault) {
      if (use_ != model_use::described || fault.code() != error_code::unsupported) throw;
      config_fault_ = fault;
    }
  }

  void read_configs(const model_folder& folder) {
    const json_value config = folder.read_json("config.json", small);
    read_config([&] { return model_config_of(config); });
    if (!config_fault_) {
      wrapped_ = detail::wrapped_family(config) != nullptr;
      remarks_ = detail::passed_over(detail::text_config_of(config));
    }
    if (config_fault_ || !folder.has("generation_config.json")) return;
    const json_value generation = folder.read_json("generation_config.json", small);
    for (const token_id id : token_ids_of(generation, "eos_token_id", config_.vocabulary))
      if (std::ranges::find(config_.eos, id) == config_.eos.end()) config_.eos.push_back(id);
  }

  void open_one(file_access how) {
    weights_name_ = (path_ / model_folder::one_file).string();
    const auto [at, fresh] = files_.emplace(model_folder::one_file, safetensors_file(mapped_file(weights_name_, how)));
    for (const stored_tensor& t : at->second.tensors()) tensors_.emplace(t.name, placed_tensor{&t, &at->second.file()});
  }

  void open_shards(const model_folder& folder, file_access how) {
    weights_name_ = (path_ / model_folder::index_file).string();
    const json_value index = folder.read_json(model_folder::index_file, std::size_t{64} << 20);
    index.at("weight_map").each_member([&](const std::string& name, const json_value& shard) {
      auto at = files_.find(shard.string());
      if (at == files_.end()) at = files_.emplace(shard.string(), safetensors_file(mapped_file(path_of(shard), how))).first;
      const stored_tensor* const t = at->second.find(name);
      if (!t) shard.refuse("the file that holds the tensor");
      tensors_.emplace(t->name, placed_tensor{t, &at->second.file()});
    });
  }

  void open_gguf_shards(const std::filesystem::path& first, file_access how) {
    weights_name_ = first.string();
    shards_ = open_gguf(first, how);
    read_config([&] { return model_config_of(shards_); });
    family_ = find_family(&model_family::name, config_.family);
    for (const gguf_file& shard : shards_)
      for (const stored_tensor& t : shard.tensors()) tensors_.emplace(t.name, placed_tensor{&t, &shard.file()});
  }

  /// Returns the path of a shard that the index names. The shard must be in this folder. It may be a symbolic link, since download caches
  /// keep the files elsewhere.
  std::filesystem::path path_of(const json_value& shard) const {
    const std::string& name = shard.string();
    if (name.empty() || name == "." || name == ".." || name.find_first_of(std::string_view("/\\\0", 3)) != name.npos)
      shard.refuse("the plain name of a file in this directory");
    std::error_code failure;
    if (!std::filesystem::exists(path_ / name, failure)) shard.refuse("a file in this directory");
    return path_ / name;
  }

  std::filesystem::path path_;
  model_use use_;
  model_config config_;
  std::optional<error> config_fault_;
  const model_family* family_ = nullptr;  // null unless this is a GGUF model
  bool wrapped_ = false;                  // the text model is in the config of a model of text and images
  std::optional<pruning_file> pruning_;
  std::vector<std::string> remarks_;
  std::string weights_name_;  // the file that lists the tensors
  std::map<std::string, safetensors_file, std::less<>> files_;
  std::vector<gguf_file> shards_;  // of a GGUF model; files_ is then empty
  std::map<std::string_view, placed_tensor> tensors_;
};

}  // namespace v0
}  // namespace lazyprune
