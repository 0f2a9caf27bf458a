// SPDX-License-Identifier: MIT
// A model directory as Hugging Face lays it out: config.json, weights in one safetensors file or in shards, and, where they are
// there, generation_config.json, tokenizer.model, tokenizer_config.json and our own lazyprune.json.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/core/error.hpp>
#include <lazyprune/io/config_json.hpp>
#include <lazyprune/io/json.hpp>
#include <lazyprune/io/mapped_file.hpp>
#include <lazyprune/io/safetensors.hpp>
#include <lazyprune/io/sentencepiece_model.hpp>
#include <lazyprune/io/tokenizer.hpp>
#include <lazyprune/model/config.hpp>
#include <lazyprune/model/model.hpp>

namespace lazyprune {
inline namespace v0 {

/// Every member function that is const may be called by any number of threads at a time.
class checkpoint {
 public:
  /// Throws `error` where a file is missing, malformed, or asks for what is not computed.
  explicit checkpoint(std::filesystem::path directory, file_access how = file_access::map) : directory_(std::move(directory)) {
    std::error_code failure;
    if (!std::filesystem::is_directory(directory_, failure))
      throw error(directory_.string(), "", "a model directory", failure ? failure.message() : "something else");
    config_ = model_config_of(read_json("config.json", small));
    if (has("generation_config.json")) {
      const json_value generation = read_json("generation_config.json", small);
      for (const token_id id : token_ids_of(generation, "eos_token_id", config_.vocabulary))
        if (std::ranges::find(config_.eos, id) == config_.eos.end()) config_.eos.push_back(id);
    }
    if (has("lazyprune.json")) {
      const json_value ours = read_json("lazyprune.json", small);
      ours.allow_only({"stages"});
      stages_ = ours.at("stages").string();
    }
    if (has(one_file))
      open_one(how);
    else if (has(index_file))
      open_shards(how);
    else
      throw error(directory_.string(), "", std::string(one_file) + " or " + std::string(index_file), "neither");
  }

  const std::filesystem::path& directory() const { return directory_; }
  const model_config& config() const { return config_; }

  /// The stages that lazyprune.json recommends, as stages::parse reads them.
  const std::optional<std::string>& stages() const { return stages_; }

  /// Every tensor, by name. The views live as long as the checkpoint.
  const std::map<std::string_view, const stored_tensor*>& tensors() const { return tensors_; }

  bool contains(std::string_view name) const { return tensors_.contains(name); }

  /// Throws `error` where the tensor is there, but is no vector or matrix of a type that we read.
  std::optional<tensor> find(std::string_view name) const {
    const auto at = tensors_.find(name);
    if (at == tensors_.end()) return std::nullopt;
    return read(*at->second);
  }

  /// The tensor, which must have this shape; with one row it may also be a vector. Throws `error` otherwise. It is about to be read, so
  /// where it is mapped it begins to come into memory.
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    const auto at = tensors_.find(name);
    const std::vector<std::uint64_t> shape = rows == 1 ? std::vector<std::uint64_t>{columns} : std::vector<std::uint64_t>{rows, columns};
    const std::string expected = "shape " + detail::shape_text(shape);
    if (at == tensors_.end()) throw error(weights_name_, "tensor " + printable(name), "one of " + expected, "none of that name");
    const tensor t = read(*at->second);
    if (t.rows != rows || t.columns != columns) fail(*at->second, expected, detail::shape_text(at->second->shape));
    file_of(*at->second).file().will_need(at->second->data);
    return t;
  }

  /// A tensor that `get` has given out is not needed any more: what is mapped of it does not stand in memory beside what was made of it.
  void release(const tensor& t) const {
    const auto holds = [&](const auto& file) {
      const std::span<const std::byte> bytes = file.second.file().bytes();
      return !std::less<>{}(t.data, bytes.data()) && std::less<>{}(t.data, bytes.data() + bytes.size());
    };
    if (const auto file = std::ranges::find_if(files_, holds); file != files_.end()) file->second.file().release({t.data, t.bytes()});
  }

  /// Throws `error` where the files hold a weight beside these, since the config then leaves out a part of the model. Rotary frequencies,
  /// which old files carry along, and the head of a tied model are passed over.
  void refuse_all_but(const std::set<std::string, std::less<>>& names) const {
    for (const auto& [name, t] : tensors_)
      if (!names.contains(name) && !name.ends_with("rotary_emb.inv_freq") && !(config_.tied && name == "lm_head.weight"))
        fail(*t, "a weight that the model of config.json has", "one that it has not");
  }

  /// Returns none where the directory has no tokenizer.model.
  std::optional<tokenizer> load_tokenizer() const {
    if (!has("tokenizer.model")) return std::nullopt;
    const mapped_file file(directory_ / "tokenizer.model", file_access::read, std::size_t{64} << 20);
    sentencepiece_model model = parse_sentencepiece_model(file.text(), file.name());
    if (model.pieces.size() > config_.vocabulary)
      throw error(file.name(), "pieces", "at most " + std::to_string(config_.vocabulary) + ", the vocabulary of the model",
                  std::to_string(model.pieces.size()));
    const bool adds_bos = !has("tokenizer_config.json") || adds_bos_by(read_json("tokenizer_config.json", std::size_t{16} << 20), model);
    return tokenizer(std::move(model), adds_bos);
  }

 private:
  static constexpr std::size_t small = std::size_t{1} << 20;
  static constexpr std::string_view one_file = "model.safetensors", index_file = "model.safetensors.index.json";

  bool has(std::string_view name) const {
    std::error_code ignored;  // a link that leads nowhere is there: opening it says what is wrong with it
    return std::filesystem::symlink_status(directory_ / name, ignored).type() != std::filesystem::file_type::not_found;
  }

  json_value read_json(std::string_view name, std::size_t limit) const {
    const mapped_file file(directory_ / name, file_access::read, limit);
    return json_value::parse(file.text(), file.name(), limit);
  }

  void open_one(file_access how) {
    weights_name_ = (directory_ / one_file).string();
    const auto [at, fresh] = files_.emplace(one_file, safetensors_file(mapped_file(weights_name_, how)));
    for (const stored_tensor& t : at->second.tensors()) tensors_.emplace(t.name, &t);
  }

  void open_shards(file_access how) {
    weights_name_ = (directory_ / index_file).string();
    const json_value index = read_json(index_file, std::size_t{64} << 20);
    for (const auto& [name, shard] : index.at("weight_map").members()) {
      auto at = files_.find(shard.string());
      if (at == files_.end()) at = files_.emplace(shard.string(), safetensors_file(mapped_file(path_of(shard), how))).first;
      const stored_tensor* const t = at->second.find(name);
      if (!t) shard.refuse("the file that holds the tensor");
      tensors_.emplace(t->name, t);
    }
  }

  /// The index may name files of this directory only, and none by a path or link that leads out of it; but for the links that the hub's own
  /// cache is made of (snapshots/REVISION/NAME -> blobs/HASH).
  std::filesystem::path path_of(const json_value& shard) const {
    const std::string& name = shard.string();
    if (name.empty() || name == "." || name == ".." || name.find_first_of(std::string_view("/\\\0", 3)) != name.npos)
      shard.refuse("the plain name of a file in this directory");
    std::error_code missing, no_home;
    const std::filesystem::path real = std::filesystem::canonical(directory_ / name, missing);
    const std::filesystem::path home = std::filesystem::canonical(directory_, no_home), above = home.parent_path();
    if (missing || no_home) shard.refuse("a file in this directory");
    const bool in_cache = above.filename() == "snapshots" && real.parent_path() == above.parent_path() / "blobs";
    if (real.parent_path() != home && !in_cache) shard.refuse("no link out of this directory");
    return directory_ / name;
  }

  /// What tokenizer_config.json says on top of the model: whether a text begins with BOS.
  static bool adds_bos_by(const json_value& config, const sentencepiece_model& model) {
    if (detail::flag(config, "add_eos_token")) config.at("add_eos_token").not_computed("false");
    if (const auto prefix = config.find("add_prefix_space"); prefix && prefix->boolean() != model.add_dummy_prefix)
      prefix->refuse("the same as tokenizer.model's add_dummy_prefix");
    if (const auto bos = config.find("bos_token")) {
      const json_value text = bos->is_string() ? *bos : bos->at("content");
      if (text.string() != model.bos_piece) text.refuse(in_quotes(model.bos_piece) + ", as in tokenizer.model");
    }
    const auto adds = config.find("add_bos_token");
    return !adds || adds->boolean();
  }

  tensor read(const stored_tensor& t) const {
    const auto type = t.type == "F32"    ? std::optional(dtype::f32)
                      : t.type == "F16"  ? std::optional(dtype::f16)
                      : t.type == "BF16" ? std::optional(dtype::bf16)
                                         : std::nullopt;
    if (!type) fail(t, "F32, F16 or BF16", t.type, error_code::unsupported);
    if (t.shape.size() != 1 && t.shape.size() != 2) fail(t, "a vector or a matrix", "shape " + detail::shape_text(t.shape));
    return {*type, t.shape.size() == 1 ? 1 : static_cast<std::size_t>(t.shape[0]), static_cast<std::size_t>(t.shape.back()), t.data.data()};
  }

  [[noreturn]] void fail(const stored_tensor& t, std::string_view expected, std::string_view found,
                         error_code code = error_code::bad_input) const {
    throw error(file_of(t).name(), "tensor " + printable(t.name), expected, found, code);
  }

  const safetensors_file& file_of(const stored_tensor& t) const {
    const auto holds = [&](const auto& file) { return file.second.find(t.name) == &t; };
    return std::ranges::find_if(files_, holds)->second;
  }

  std::filesystem::path directory_;
  model_config config_;
  std::optional<std::string> stages_;
  std::string weights_name_;  // the file that says which tensors there are
  std::map<std::string, safetensors_file, std::less<>> files_;
  std::map<std::string_view, const stored_tensor*> tensors_;
};

static_assert(tensor_source<checkpoint>);

namespace detail {

/// Hands on a checkpoint's tensors, and notes in `asked` which ones.
struct noted_tensors {
  const checkpoint& files;
  std::set<std::string, std::less<>>& asked;

  bool contains(std::string_view name) const { return files.contains(name); }
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    const tensor t = files.get(name, rows, columns);
    asked.emplace(name);
    return t;
  }
  void release(const tensor& t) const { files.release(t); }
};

}  // namespace detail

/// Packs a checkpoint's weights. Throws `error` where one is missing, has another shape than config.json says, or is not of the model.
template <tensor_backend Backend>
model<Backend> load_model(Backend& backend, const checkpoint& files, const load_options& options = {}) {
  std::set<std::string, std::less<>> asked;
  model<Backend> loaded = load_model(backend, files.config(), detail::noted_tensors{files, asked}, options);
  files.refuse_all_but(asked);
  return loaded;
}

}  // namespace v0
}  // namespace lazyprune
