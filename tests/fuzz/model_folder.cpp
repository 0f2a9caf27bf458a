// SPDX-License-Identifier: MIT
// The input is a model.safetensors.index.json and, after zero bytes, a lazyprune.json, a generation_config.json and a config.json. A part
// that is empty is not in the folder; config.json is then a valid one. Opening the folder reports an error, or gives the tensors of its two
// shards.
#include <lazyprune/files/checkpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "fuzzed.hpp"

namespace {

using namespace lazyprune;
using namespace lazyprune_test;

constexpr std::string_view valid_config =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 8, "rms_norm_eps": 1e-5, "max_position_embeddings": 16,
        "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": 2})";

class folder {
 public:
  folder() {
    std::string name = (std::filesystem::temp_directory_path() / "lazyprune-fuzz-XXXXXX").string();
    must(::mkdtemp(name.data()) != nullptr, "a folder can be made");
    path_ = name;
    for (const std::string_view shard : {"a", "b"}) {
      const std::string header = R"({")" + std::string(shard) + R"(.weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})";
      std::string bytes(8, '\0');
      bytes[0] = static_cast<char>(header.size());
      write(std::string(shard) + ".safetensors", bytes + header + std::string(8, '\0'));
    }
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }

  void write(std::string_view name, std::string_view bytes) const { std::ofstream(path_ / name, std::ios::binary) << bytes; }
  void write_unless_empty(std::string_view name, std::string_view bytes) const {
    if (bytes.empty())
      std::filesystem::remove(path_ / name);
    else
      write(name, bytes);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const folder model;
  std::string_view rest = text_of({data, size});
  model.write_unless_empty(model_folder::index_file, next_part(rest));
  model.write_unless_empty(pruning_file::name, next_part(rest));
  model.write_unless_empty("generation_config.json", next_part(rest));
  model.write("config.json", rest.empty() ? valid_config : rest);
  const bounded_work bounds(size);
  for (const model_use use : {model_use::computed, model_use::described})
    unless_refused([&] {
      const checkpoint opened(model.path(), file_access::map, use);
      must(opened.tensors().size() <= 2, "only the tensors of the two shards");
      volatile int sum = 0;
      for (const auto& [name, t] : opened.tensors()) sum = sum + std::to_integer<int>(t.stored->data.front());
      unless_refused([&] { (void)opened.unsupported_reason(); });
      if (const auto& pruning = opened.pruning())
        never_refused([&] {
          const pruning_file again = pruning_file::parse(pruning->text(), "again");
          must(again.text() == pruning->text(), "recommended stages are read back as they were written");
        });
    });
  return 0;
}
