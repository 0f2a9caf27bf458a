// SPDX-License-Identifier: MIT
#include <lazyprune/files/checkpoint_weights.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <lazyprune/backend/reference.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/model/random_source.hpp>

#include <files/gguf_writer.hpp>
#include <files/model_files.hpp>
#include <files/support.hpp>
#include <test_data.hpp>

using namespace lazyprune_test;
using lazyprune::checkpoint;
using lazyprune::checkpoint_shapes;
using lazyprune::checkpoint_weights;
using lazyprune::dtype;
using lazyprune::file_access;
using lazyprune::model_config;
using lazyprune::rope_scaling;
using lazyprune::tensor;

namespace {

/// Reads the weights of `numbers`, and stores each tensor that was read in `asked`, by name.
template <class Source>
struct asked_weights {
  const Source& numbers;
  std::map<std::string, tensor>& asked;

  bool contains(std::string_view name) const { return numbers.contains(name); }
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    return asked[std::string(name)] = numbers.get(name, rows, columns);
  }
};

/// Writes this config.json and the weights of its model to a folder. The weights have the names that `stored_name` returns. `beside` has
/// the names of further tensors to write.
template <class StoredName>
void write_model(const temporary_folder& folder, const nlohmann::json& config_file, StoredName stored_name,
                 const std::vector<std::string>& beside = {}) {
  const model_config model = model_config_of(lazyprune::json_value::parse(config_file.dump(), "config.json", 1 << 20));
  lazyprune::reference<float> backend{lazyprune::execution{}};
  const lazyprune::random_source numbers(model, dtype::f32);
  std::map<std::string, tensor> asked;
  load_model(backend, model, asked_weights<lazyprune::random_source>{numbers, asked});
  nlohmann::json header;
  std::string data;
  const auto add = [&](const std::string& name, const nlohmann::json& shape, std::string_view bytes) {
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
  };
  for (const auto& [name, t] : asked) {
    const nlohmann::json shape = t.rows == 1 ? nlohmann::json{t.columns} : nlohmann::json{t.rows, t.columns};
    add(stored_name(name), shape, {reinterpret_cast<const char*>(t.data), t.bytes()});
  }
  for (const std::string& name : beside) add(name, {1}, std::string(4, '\0'));
  folder.write("config.json", config_file.dump());
  folder.write("model.safetensors", bytes_of_number<std::uint64_t>(header.dump().size()) + header.dump() + data);
}

/// Returns the bytes of each weight of the model in a folder, by name.
std::map<std::string, std::string> weights_of(const temporary_folder& folder) {
  lazyprune::reference<float> backend{lazyprune::execution{}};
  const checkpoint files(folder.path());
  load_model(backend, files);  // refuses tensors that are no part of the model
  const lazyprune::checkpoint_weights weights(files);
  std::map<std::string, tensor> asked;
  load_model(backend, files.config(), asked_weights<lazyprune::checkpoint_weights>{weights, asked});
  std::map<std::string, std::string> bytes;
  for (const auto& [name, t] : asked) bytes[name] = std::string(reinterpret_cast<const char*>(t.data), t.bytes());
  return bytes;
}

}  // namespace

TEST_CASE("a model of text and images yields its text model alone, whether its tensors have old or new names") {
  const auto gemma = nlohmann::json::parse(R"({"hidden_size": 16, "intermediate_size": 24, "model_type": "gemma3_text",
    "num_hidden_layers": 3, "sliding_window": 4, "sliding_window_pattern": 2, "vocab_size": 40})");
  nlohmann::json gemma_alone = gemma;  // has transformers' defaults for the keys that `gemma` leaves out
  gemma_alone.update({{"num_attention_heads", 8}, {"num_key_value_heads", 4}, {"head_dim", 256}, {"eos_token_id", 1}, {"bos_token_id", 2}});
  const auto mistral = nlohmann::json::parse(R"({"hidden_size": 16, "intermediate_size": 24, "model_type": "mistral",
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": null, "vocab_size": 40,
    "rope_theta": 1e9, "bos_token_id": 1, "eos_token_id": 2})");
  struct kind {
    std::string wrapper, architecture;
    nlohmann::json text, alone;
  };
  for (const kind& k : {kind{"gemma3", "Gemma3ForConditionalGeneration", gemma, gemma_alone},
                        kind{"mistral3", "Mistral3ForConditionalGeneration", mistral, mistral}}) {
    CAPTURE(k.wrapper);
    const temporary_folder alone, old_style, new_style;
    write_model(alone, k.alone, [](const std::string& name) { return name; });
    const nlohmann::json wrapper{{"model_type", k.wrapper}, {"architectures", {k.architecture}}, {"text_config", k.text}};
    write_model(old_style, wrapper, [](const std::string& name) { return "language_model." + name; },
                {"vision_tower.vision_model.post_layernorm.weight", "multi_modal_projector.norm.weight"});
    write_model(new_style, wrapper,
                [](const std::string& name) { return name.starts_with("model.") ? "model.language_model." + name.substr(6) : name; },
                {"model.vision_tower.ln_pre.weight", "model.multi_modal_projector.norm.weight"});
    const auto expected = weights_of(alone);
    CHECK(expected.size() > 18);
    for (const temporary_folder* wrapped : {&old_style, &new_style}) {
      CHECK(checkpoint(wrapped->path()).config() == checkpoint(alone.path()).config());
      CHECK(weights_of(*wrapped) == expected);
    }
  }
  const temporary_folder other;
  write_model(other, {{"model_type", "gemma3"}, {"text_config", gemma}}, [](const std::string& name) { return "language_model." + name; },
              {"language_model.model.layers.0.mlp.extra.weight"});
  CHECK(error_of([&] { weights_of(other); }) ==
        at((other / "model.safetensors").string() + ": tensor language_model.model.layers.0.mlp.extra.weight"));
}

TEST_CASE("the weights of the bundled model") {
  const checkpoint model(pocket_model());
  CHECK(model.config().vocabulary == 2304);
  CHECK(model.config().eos == std::vector<lazyprune::token_id>{2});
  CHECK(model.pruning().value().stages == "3:0.3,5:0.1");
  const tensor embedding = checkpoint_weights(model).get("model.embed_tokens.weight", 2304, 128);
  CHECK(embedding.type == dtype::bf16);
  CHECK(embedding.bytes() == std::size_t{2304} * 128 * 2);
  std::vector<float> row(128);
  widen(embedding, 5 * 128, 128, row.data());
  for (const float value : row) CHECK(std::abs(value) < 100.0f);
}

TEST_CASE("rows of a mapped file are copied from the file; rows of a file that was read, and vectors, are read in place") {
  const checkpoint mapped(pocket_model()), read(pocket_model(), file_access::read);
  const checkpoint_weights weights(mapped), weights_in_memory(read);
  const tensor head = weights.get("lm_head.weight", 2304, 128);
  std::vector<std::byte> room(40 * head.row_bytes());
  if (head.copied_rows(2000, 40, room.data()))  // some file systems cannot read without waiting
    CHECK(std::memcmp(room.data(), head.data + 2000 * head.row_bytes(), room.size()) == 0);
  CHECK_FALSE(weights_in_memory.get("lm_head.weight", 2304, 128).copied_rows(0, 1, room.data()));
  CHECK(weights.get("model.norm.weight", 1, 128).source == nullptr);
}

TEST_CASE("a matrix can be asked for again after its last copy is gone") {
  for (const file_access how : {file_access::map, file_access::read}) {
    const checkpoint model(pocket_model(), how);
    const checkpoint_weights weights(model);
    std::vector<std::byte> before;
    {
      const tensor head = weights.get("lm_head.weight", 2304, 128), copy = head;
      CHECK(head.held.use_count() == 2);
      before.assign(copy.data, copy.data + copy.bytes());
    }
    const tensor again = weights.get("lm_head.weight", 2304, 128);
    CHECK(std::memcmp(again.data, before.data(), before.size()) == 0);
  }
}

TEST_CASE("tensors are found by name and shape") {
  const small_folder folder;
  const checkpoint model(folder.path());
  const checkpoint_weights weights(model);
  CHECK(model.tensors().size() == 2);
  CHECK(weights.contains("a"));
  CHECK_FALSE(weights.contains("c"));
  CHECK(model.find("c") == nullptr);
  const tensor a = weights.get("a", 2, 3);
  CHECK(a.type == dtype::f32);
  CHECK(a.rows == 2);
  CHECK(a.columns == 3);
  CHECK(static_cast<char>(a.data[1]) == 'b');
  const tensor b = weights.get("b", 1, 4);
  CHECK(b.type == dtype::bf16);
  CHECK(b.rows == 1);
  CHECK(b.columns == 4);
  CHECK_FALSE(model.pruning().has_value());

  const auto said = [&](std::string_view name, std::size_t rows, std::size_t columns) {
    return error_of([&] { weights.get(name, rows, columns); });
  };
  const std::string file = folder.file("model.safetensors");
  CHECK(said("a", 3, 2) == at(file + ": tensor a", {"[3, 2]", "[2, 3]"}));
  CHECK(said("a", 1, 6) == at(file + ": tensor a", {"[6]", "[2, 3]"}));
  CHECK(said("b", 1, 5) == at(file + ": tensor b", {"[5]", "[4]"}));
  CHECK(said("b", 4, 1) == at(file + ": tensor b", {"[4, 1]", "[4]"}));
  CHECK(said("c", 4, 1) == at(file + ": tensor c", {"[4, 1]"}));
}

TEST_CASE("a tensor of an unsupported type or shape is refused when it is asked for, not before") {
  const small_folder folder;
  folder.write("model.safetensors",
               safetensors({{"a", "I8", "[4]", 4}, {"b", "F32", "[]", 4}, {"c", "F16", "[1,2,1]", 4}, {"d", "F64", "[1]", 8}}));
  const checkpoint model(folder.path());
  const checkpoint_weights weights(model);
  const std::string file = folder.file("model.safetensors");
  CHECK(error_of([&] { weights.get("a", 1, 4); }) == unsupported(file + ": tensor a"));
  CHECK(error_of([&] { weights.get("b", 1, 1); }) == at(file + ": tensor b"));
  CHECK(error_of([&] { weights.get("c", 1, 2); }) == at(file + ": tensor c", {"[1, 2, 1]"}));
  CHECK(error_of([&] { weights.get("d", 1, 1); }) == unsupported(file + ": tensor d"));
  CHECK(code_of([&] { weights.get("d", 1, 1); }) == lazyprune::error_code::unsupported);
}

TEST_CASE("shards have the same tensors as a single file") {
  const sharded_folder folder(R"({"a": "one.safetensors", "b": "two.safetensors"})");
  const checkpoint model(folder.path());
  CHECK(model.tensors().size() == 2);
  const small_folder other;
  const checkpoint whole(other.path());
  for (const std::string name : {"a", "b"}) {
    const lazyprune::stored_tensor &x = *model.find(name)->stored, &y = *whole.find(name)->stored;
    CHECK(x.shape == y.shape);
    CHECK(std::ranges::equal(x.data, y.data));
  }
  CHECK(error_of([&] { checkpoint_weights(model).get("b", 1, 5); }) == at(folder.file("two.safetensors") + ": tensor b", {"[5]", "[4]"}));
  CHECK(error_of([&] { checkpoint_weights(model).get("c", 1, 5); }) ==
        at(folder.file("model.safetensors.index.json") + ": tensor c", {"[5]"}));
}

TEST_CASE("a checkpoint must hold exactly the weights of its model") {
  const std::string layer = "model.layers.0.";
  std::vector<made> tensors{{"model.embed_tokens.weight", "F32", "[300,4]", 4800},
                            {"model.norm.weight", "F32", "[4]", 16},
                            {"lm_head.weight", "F32", "[300,4]", 4800}};
  for (const char* name : {"input_layernorm", "post_attention_layernorm"}) tensors.push_back({layer + name + ".weight", "F32", "[4]", 16});
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
    tensors.push_back({layer + "self_attn." + name + ".weight", "F32", "[4,4]", 64});
  for (const char* name : {"gate_proj", "up_proj"}) tensors.push_back({layer + "mlp." + name + ".weight", "F32", "[6,4]", 96});
  tensors.push_back({layer + "mlp.down_proj.weight", "F32", "[4,6]", 96});

  const small_folder folder;
  folder.write("model.safetensors", safetensors(tensors));
  lazyprune::reference<float> backend;
  CHECK(load_model(backend, checkpoint(folder.path())).config == checkpoint(folder.path()).config());
  tensors.push_back({layer + "self_attn.q_proj.bias", "F32", "[4]", 16});
  folder.write("model.safetensors", safetensors(tensors));
  CHECK(error_of([&] { load_model(backend, checkpoint(folder.path())); }) ==
        at(folder.file("model.safetensors") + ": tensor model.layers.0.self_attn.q_proj.bias"));
  tensors.erase(tensors.begin());
  folder.write("model.safetensors", safetensors(tensors));
  CHECK(error_of([&] { load_model(backend, checkpoint(folder.path())); }) ==
        at(folder.file("model.safetensors") + ": tensor model.embed_tokens.weight", {"[300, 4]"}));
}

TEST_CASE("several threads may read one checkpoint") {
  const checkpoint files(pocket_model());
  const std::string name = "model.layers.3.mlp.gate_proj.weight";
  const tensor expected = checkpoint_weights(files).get(name, 256, 128);
  const std::vector<std::byte> bytes(expected.data, expected.data + expected.bytes());
  std::vector<int> same(4);
  {
    std::vector<std::jthread> running;
    for (int& count : same)
      running.emplace_back([&] {
        const checkpoint_weights weights(files);
        for (const auto& [each, t] : files.tensors()) {
          if (t.stored->shape.size() == 2) weights.get(each, t.stored->shape[0], t.stored->shape[1]);  // the matrix is released at once
          const tensor again = weights.get(name, 256, 128);
          count += std::memcmp(again.data, bytes.data(), bytes.size()) == 0;
        }
      });
  }
  for (const int count : same) CHECK(static_cast<std::size_t>(count) == files.tensors().size());
}

TEST_CASE("tensors of a GGUF file are found by Hugging Face's names, and rows of q and k come in transformers' order") {
  const temporary_folder folder;
  const checkpoint files(folder.write("m.gguf", small_gguf()));
  const checkpoint_weights weights(files);
  CHECK(files.is_gguf());
  CHECK(files.config().hidden == 8);
  CHECK(files.tensors().size() == 4);
  CHECK(weights.contains("model.layers.0.self_attn.q_proj.weight"));
  CHECK_FALSE(weights.contains("blk.0.attn_q.weight"));
  CHECK_FALSE(weights.contains("lm_head.weight"));
  CHECK(files.interleaves("model.layers.0.self_attn.k_proj.bias"));
  CHECK_FALSE(files.interleaves("model.layers.0.self_attn.v_proj.weight"));
  const tensor embedding = weights.get("model.embed_tokens.weight", 6, 8);
  CHECK(embedding.data == files.find("model.embed_tokens.weight")->stored->data.data());  // points into the file, without a copy
  const tensor q = weights.get("model.layers.0.self_attn.q_proj.weight", 8, 8);
  const std::size_t rows[] = {0, 2, 1, 3, 4, 6, 5, 7};
  const auto numbers = values_of(q);
  for (std::size_t i = 0; i < 64; ++i) CHECK(numbers[i] == static_cast<float>(rows[i / 8] * 8 + i % 8));
  CHECK(values_of(weights.get("model.layers.0.self_attn.k_proj.bias", 1, 8)) == std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7});
  CHECK(error_of([&] { weights.get("model.layers.0.self_attn.q_proj.weight", 8, 4); }) ==
        at((folder / "m.gguf").string() + ": tensor blk.0.attn_q.weight", {"[8, 4]", "[8, 8]"}));
  CHECK(error_of([&] { weights.get("model.norm.weight", 1, 8); }) ==
        at((folder / "m.gguf").string() + ": tensor output_norm.weight", {"[8]"}));
  using place = std::pair<std::string_view, std::size_t>;
  const lazyprune::mapped_file& file = files.gguf()->file();
  CHECK(weights.place("model.norm.weight") == place{});  // missing
  CHECK(weights.place("model.embed_tokens.weight") == place{file.name(), static_cast<std::size_t>(embedding.data - file.bytes().data())});
  CHECK(weights.place("model.embed_tokens.weight") < weights.place("model.layers.0.self_attn.q_proj.weight"));
  const checkpoint_shapes shapes(files);
  shapes.get("model.embed_tokens.weight", 6, 8);
  shapes.get("model.layers.0.self_attn.q_proj.weight", 8, 8);
  shapes.get("model.layers.0.self_attn.k_proj.bias", 1, 8);
  CHECK(error_of([&] { shapes.get("model.layers.0.self_attn.k_proj.bias", 8, 8); }) ==
        at((folder / "m.gguf").string() + ": tensor blk.0.attn_k.bias", {"[8, 8]", "[8]"}));
  CHECK(error_of([&] { files.refuse_all_but(shapes.asked()); }) == at((folder / "m.gguf").string() + ": tensor blk.0.attn_norm.weight"));
}

TEST_CASE("missing weights are found before anything is packed") {
  const temporary_folder folder;
  folder.write("m.gguf", small_gguf());
  lazyprune::reference<float> backend{lazyprune::execution{}};
  bool packed = false;
  const lazyprune::load_options options{.as = {}, .progress = [&](std::size_t, std::size_t) { packed = true; }};
  CHECK(error_of([&] { load_model(backend, checkpoint(folder / "m.gguf"), options); }).find("found no tensor of this name") !=
        std::string::npos);
  CHECK_FALSE(packed);
}

TEST_CASE("unsupported types are refused by name") {
  const temporary_folder folder;
  const checkpoint files(folder.write("m.gguf", small_gguf(24, std::string(64, '\1'))));
  CHECK(error_of([&] { checkpoint_weights(files).get("model.layers.0.self_attn.q_proj.weight", 8, 8); }).ends_with(", MXFP4, found I8"));
  CHECK(code_of([&] { checkpoint_weights(files).get("model.layers.0.self_attn.q_proj.weight", 8, 8); }) ==
        lazyprune::error_code::unsupported);
}

TEST_CASE("quantized matrices become bf16 or float, and quantized vectors become float" NEEDS("data")) {
  const auto data = test_data("gguf/llama-q8_0.gguf");
  if (data.empty()) return;
  const checkpoint quantized(data);
  CHECK(checkpoint_weights(quantized).get("lm_head.weight", 320, 256).type == dtype::bf16);
  CHECK(checkpoint_weights(quantized, dtype::f32).get("lm_head.weight", 320, 256).type == dtype::f32);
  const checkpoint odd(data.parent_path() / "malformed/norm-quantized.gguf");
  CHECK(checkpoint_weights(odd).get("model.layers.0.input_layernorm.weight", 1, 32).type == dtype::f32);
}

TEST_CASE("a model of each family loads" NEEDS("data")) {
  const auto families = test_data("models/families");
  if (families.empty()) return;
  const auto load = [&](const std::string& name) { return checkpoint(families / name).config(); };
  const model_config llama3 = load("llama3_rope_scaled"), mha = load("llama_mha_untied_bias"), mistral = load("mistral_head_dim"),
                     qwen2 = load("qwen2_bias"), qwen3 = load("qwen3_qk_norm");
  CHECK(llama3.rope.scaling == rope_scaling::llama3);
  CHECK(llama3.rope.theta == 500000.0);
  CHECK(load("llama_gqa_tied").tied);
  CHECK(load("llama_linear_rope").rope.factor == 4.0);
  CHECK(mha.qkv_bias);
  CHECK(mha.output_bias);
  CHECK(mha.mlp_bias);
  CHECK(mha.n_kv_heads == 6);
  CHECK(load("llama_yarn_rope").rope.attention_factor == doctest::Approx(1.0 + 0.1 * std::log(4.0)));
  CHECK(mistral.head_dim * mistral.n_heads != mistral.hidden);
  CHECK(qwen2.qkv_bias);
  CHECK_FALSE(qwen2.output_bias);
  CHECK(qwen3.qk_norm);
  CHECK(qwen3.tied);
  CHECK(load("mistral_sliding").windows == std::vector<std::size_t>(4, 16));
  // A tensor is there exactly if the config says so, and it has the right shape.
  for (const auto& entry : std::filesystem::directory_iterator(families)) {
    CAPTURE(entry.path().string());
    const checkpoint model(entry.path());
    const checkpoint_weights weights(model);
    const model_config& c = model.config();
    const std::size_t last = c.layers - 1;
    const std::string at = "model.layers." + std::to_string(last) + ".";
    CHECK(error_of([&] { weights.get(at + "self_attn.q_proj.weight", c.n_heads * c.head_dim, c.hidden); }) == "no error");
    CHECK(error_of([&] { weights.get(at + "self_attn.k_proj.weight", c.n_kv_heads * c.head_dim, c.hidden); }) == "no error");
    CHECK(error_of([&] { weights.get(at + "mlp.down_proj.weight", c.hidden, c.ffn); }) == "no error");
    CHECK(model.contains(at + "self_attn.q_proj.bias") == c.qkv_bias);
    CHECK(model.contains(at + "self_attn.o_proj.bias") == c.output_bias);
    CHECK(model.contains(at + "mlp.up_proj.bias") == c.mlp_bias);
    CHECK(model.contains(at + "self_attn.q_norm.weight") == c.qk_norm);
    CHECK(model.contains("lm_head.weight") == !c.tied);
    CHECK_FALSE(model.contains("model.layers." + std::to_string(c.layers) + ".input_layernorm.weight"));
  }
}

TEST_CASE("a tied model may store only its head" NEEDS("data")) {
  const auto folder = test_data("models/story-hf");
  if (folder.empty()) return;
  const checkpoint model(folder);
  CHECK(model.config().tied);
  CHECK(model.config().bos == std::vector<lazyprune::token_id>{1});
  CHECK_FALSE(model.contains("model.embed_tokens.weight"));
  CHECK(checkpoint_weights(model).get("lm_head.weight", 2048, 128).type == dtype::f32);
}
