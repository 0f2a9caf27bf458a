// SPDX-License-Identifier: MIT
#include <lazyprune/io/checkpoint.hpp>

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

#include <io/gguf_writer.hpp>
#include <io/sentencepiece_writer.hpp>
#include <io/support.hpp>
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

struct made {
  std::string name, type, shape;
  std::size_t bytes;
};

std::string safetensors(const std::vector<made>& tensors) {
  std::string header = "{", data;
  for (const made& t : tensors) {
    header += (header.size() > 1 ? ",\"" : "\"") + t.name + R"(":{"dtype":")" + t.type + R"(","shape":)" + t.shape +
              R"(,"data_offsets":[)" + std::to_string(data.size()) + "," + std::to_string(data.size() + t.bytes) + "]}";
    for (std::size_t i = 0; i < t.bytes; ++i) data += static_cast<char>(t.name.back() + static_cast<char>(i));
  }
  header += "}";
  const std::uint64_t size = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &size, 8);
  return file + header + data;
}

const std::string config = R"({"model_type": "llama", "vocab_size": 300, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
  "intermediate_size": 6, "bos_token_id": 1, "eos_token_id": 2})";
const std::vector<made> two_tensors = {{"a", "F32", "[2,3]", 24}, {"b", "BF16", "[4]", 8}};

/// A folder with a config and two tensors.
struct model_folder : temporary_folder {
  model_folder() {
    write("config.json", config);
    write("model.safetensors", safetensors(two_tensors));
  }
  std::string said() const {
    return error_of([&] { const checkpoint opened(path()); });
  }
  std::string file(std::string_view name) const { return (*this / name).string(); }
};

/// The same in shards, with this weight_map.
struct sharded_folder : model_folder {
  explicit sharded_folder(const std::string& weight_map) {
    std::filesystem::remove(*this / "model.safetensors");
    write("one.safetensors", safetensors({two_tensors[0]}));
    write("two.safetensors", safetensors({two_tensors[1]}));
    write("model.safetensors.index.json", R"({"metadata": {"total_size": 32}, "weight_map": )" + weight_map + "}");
  }
};

std::string index_error(const std::string& weight_map) {
  const sharded_folder folder(weight_map);
  const std::string said = folder.said(), file = folder.file("model.safetensors.index.json");
  return said.starts_with(file) ? "index" + said.substr(file.size()) : said;
}

}  // namespace

TEST_CASE("the bundled model") {
  const checkpoint model(pocket_model());
  CHECK(model.config().vocabulary == 2304);
  CHECK(model.config().eos == std::vector<lazyprune::token_id>{2});
  CHECK(model.stages() == "3:0.3,5:0.1");
  const tensor embedding = checkpoint_weights(model).get("model.embed_tokens.weight", 2304, 128);
  CHECK(embedding.type == dtype::bf16);
  CHECK(embedding.bytes() == std::size_t{2304} * 128 * 2);
  std::vector<float> row(128);
  widen(embedding, 5 * 128, 128, row.data());
  for (const float value : row) CHECK(std::abs(value) < 100.0f);
  const auto tokens = model.load_tokenizer();
  REQUIRE(tokens.has_value());
  CHECK(tokens->size() == 2304);
  CHECK(tokens->adds_bos());
}

TEST_CASE("every tensor is the same, mapped or read") {
  const checkpoint mapped(pocket_model(), file_access::map), read(pocket_model(), file_access::read);
  CHECK(mapped.tensors().size() == read.tensors().size());
  for (const auto& [name, placed] : mapped.tensors()) {
    const auto* const other = read.find(name);
    REQUIRE(other != nullptr);
    const auto here = placed.stored->data, there = other->stored->data;
    CHECK(there.size() == here.size());
    CHECK(std::memcmp(there.data(), here.data(), here.size()) == 0);
  }
}

TEST_CASE("a matrix whose last copy is gone is there again when it is asked for") {
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

TEST_CASE("tensors by name and shape") {
  const model_folder folder;
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
  CHECK_FALSE(model.stages().has_value());
  CHECK_FALSE(model.load_tokenizer().has_value());

  const auto said = [&](std::string_view name, std::size_t rows, std::size_t columns) {
    return error_of([&] { weights.get(name, rows, columns); });
  };
  const std::string file = folder.file("model.safetensors");
  CHECK(said("a", 3, 2) == file + ": tensor a: expected shape [3, 2], found [2, 3]");
  CHECK(said("a", 1, 6) == file + ": tensor a: expected shape [6], found [2, 3]");
  CHECK(said("b", 1, 5) == file + ": tensor b: expected shape [5], found [4]");
  CHECK(said("b", 4, 1) == file + ": tensor b: expected shape [4, 1], found [4]");
  CHECK(said("c", 4, 1) == file + ": tensor c: expected one of shape [4, 1], found none of that name");
}

TEST_CASE("types and ranks that are not read are refused when asked for, not before") {
  const model_folder folder;
  folder.write("model.safetensors",
               safetensors({{"a", "I8", "[4]", 4}, {"b", "F32", "[]", 4}, {"c", "F16", "[1,2,1]", 4}, {"d", "F64", "[1]", 8}}));
  const checkpoint model(folder.path());
  const checkpoint_weights weights(model);
  const std::string file = folder.file("model.safetensors");
  CHECK(error_of([&] { weights.get("a", 1, 4); }) == file + ": tensor a: expected F32, F16 or BF16, found I8");
  CHECK(error_of([&] { weights.get("b", 1, 1); }) == file + ": tensor b: expected a vector or a matrix, found shape []");
  CHECK(error_of([&] { weights.get("c", 1, 2); }) == file + ": tensor c: expected a vector or a matrix, found shape [1, 2, 1]");
  CHECK(error_of([&] { weights.get("d", 1, 1); }) == file + ": tensor d: expected F32, F16 or BF16, found F64");
  CHECK(code_of([&] { weights.get("d", 1, 1); }) == lazyprune::error_code::unsupported);
}

TEST_CASE("shards: the same tensors as in one file") {
  const sharded_folder folder(R"({"a": "one.safetensors", "b": "two.safetensors"})");
  const checkpoint model(folder.path());
  CHECK(model.tensors().size() == 2);
  const model_folder other;
  const checkpoint whole(other.path());
  for (const std::string name : {"a", "b"}) {
    const lazyprune::stored_tensor &x = *model.find(name)->stored, &y = *whole.find(name)->stored;
    CHECK(x.shape == y.shape);
    CHECK(std::ranges::equal(x.data, y.data));
  }
  CHECK(error_of([&] { checkpoint_weights(model).get("b", 1, 5); }) ==
        folder.file("two.safetensors") + ": tensor b: expected shape [5], found [4]");
  CHECK(error_of([&] { checkpoint_weights(model).get("c", 1, 5); }) ==
        folder.file("model.safetensors.index.json") + ": tensor c: expected one of shape [5], found none of that name");
}

TEST_CASE("the index is held to what it says") {
  CHECK(index_error(R"({"a": "two.safetensors"})") ==
        "index: weight_map.a: expected the file that holds the tensor, found \"two.safetensors\"");
  CHECK(index_error(R"({"a": "one.safetensors", "c": "one.safetensors"})") ==
        "index: weight_map.c: expected the file that holds the tensor, found \"one.safetensors\"");
  CHECK(index_error(R"({"a": 1})") == "index: weight_map.a: expected a string, found 1");
  CHECK(index_error("[]") == "index: weight_map: expected an object, found an array");
  CHECK(index_error(R"({"a": "one.safetensors", "a": "one.safetensors"})") ==
        "index: a: expected the key once, found it twice in one object");
  CHECK(index_error(R"({"a": "three.safetensors"})") ==
        "index: weight_map.a: expected a file in this directory, found \"three.safetensors\"");
  CHECK(index_error(R"({"a": "config.json"})").find("config.json: header: expected at most ") != std::string::npos);
}

TEST_CASE("an index of nothing: nothing comes into memory, and a weight is missed by name") {
  const sharded_folder folder("{}");
  const checkpoint files(folder.path());
  lazyprune::read_ahead ahead;
  files.come_into_memory(ahead);
  CHECK(error_of([&] { files.of_shape("a", 1, 1); }).ends_with("tensor a: expected one of shape [1], found none of that name"));
}

TEST_CASE("the index cannot name a file outside the directory") {
  for (const std::string bad : {"", ".", "..", "/etc/passwd", "../one.safetensors", "./one.safetensors", "sub/one.safetensors",
                                "..\\\\one.safetensors", "one.safetensors\\u0000x"}) {
    CAPTURE(bad);
    CHECK(index_error("{\"a\": \"" + bad + "\"}")
              .starts_with("index: weight_map.a: expected the plain name of a file in this directory, found "));
  }
  const sharded_folder folder(R"({"a": "link.safetensors"})");
  const temporary_folder outside;
  outside.write("x", safetensors({two_tensors[0]}));
  std::filesystem::create_symlink(outside / "x", folder / "link.safetensors");
  CHECK(folder.said() ==
        folder.file("model.safetensors.index.json") + ": weight_map.a: expected no link out of this directory, found \"link.safetensors\"");
  std::filesystem::remove(folder / "link.safetensors");
  std::filesystem::create_symlink("one.safetensors", folder / "link.safetensors");
  CHECK(folder.said() == "no error");
}

TEST_CASE("a link that leads nowhere is not a file that is absent") {
  for (const char* name : {"lazyprune.json", "generation_config.json"}) {
    const model_folder folder;
    std::filesystem::create_symlink("nowhere", folder / name);
    CHECK(folder.said().starts_with(folder.file(name) + ": "));
  }
}

TEST_CASE("weights that no model asked for are refused by name, once it is loaded") {
  const model_folder folder;
  folder.write("model.safetensors",
               safetensors({{"a", "F32", "[2,3]", 24}, {"b", "BF16", "[4]", 8}, {"layers.0.rotary_emb.inv_freq", "F32", "[1]", 4}}));
  const checkpoint files(folder.path());
  std::set<std::string, std::less<>> asked;
  const auto said = [&] { return error_of([&] { files.refuse_all_but(asked); }); };
  const std::string end = ": expected a weight that the model of config.json has, found one that it has not";
  CHECK(said() == folder.file("model.safetensors") + ": tensor a" + end);
  asked.insert("a");
  CHECK(said() == folder.file("model.safetensors") + ": tensor b" + end);
  asked.insert("b");
  CHECK(said() == "no error");
}

TEST_CASE("a model of a checkpoint's weights: all of them, and no others") {
  const std::string layer = "model.layers.0.";
  std::vector<made> tensors{{"model.embed_tokens.weight", "F32", "[300,4]", 4800},
                            {"model.norm.weight", "F32", "[4]", 16},
                            {"lm_head.weight", "F32", "[300,4]", 4800}};
  for (const char* name : {"input_layernorm", "post_attention_layernorm"}) tensors.push_back({layer + name + ".weight", "F32", "[4]", 16});
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
    tensors.push_back({layer + "self_attn." + name + ".weight", "F32", "[4,4]", 64});
  for (const char* name : {"gate_proj", "up_proj"}) tensors.push_back({layer + "mlp." + name + ".weight", "F32", "[6,4]", 96});
  tensors.push_back({layer + "mlp.down_proj.weight", "F32", "[4,6]", 96});

  const model_folder folder;
  folder.write("model.safetensors", safetensors(tensors));
  lazyprune::reference<float> backend;
  CHECK(load_model(backend, checkpoint(folder.path())).config == checkpoint(folder.path()).config());
  tensors.push_back({layer + "self_attn.q_proj.bias", "F32", "[4]", 16});
  folder.write("model.safetensors", safetensors(tensors));
  CHECK(
      error_of([&] { load_model(backend, checkpoint(folder.path())); }) ==
      folder.file("model.safetensors") +
          ": tensor model.layers.0.self_attn.q_proj.bias: expected a weight that the model of config.json has, found one that it has not");
  tensors.erase(tensors.begin());
  folder.write("model.safetensors", safetensors(tensors));
  CHECK(error_of([&] { load_model(backend, checkpoint(folder.path())); }) ==
        folder.file("model.safetensors") + ": tensor model.embed_tokens.weight: expected one of shape [300, 4], found none of that name");
}

TEST_CASE("threads may read one checkpoint at a time") {
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
          if (t.stored->shape.size() == 2) weights.get(each, t.stored->shape[0], t.stored->shape[1]);  // and gives it back
          const tensor again = weights.get(name, 256, 128);
          count += std::memcmp(again.data, bytes.data(), bytes.size()) == 0;
        }
      });
  }
  for (const int count : same) CHECK(static_cast<std::size_t>(count) == files.tensors().size());
}

TEST_CASE("the hub's cache is made of links into its own blobs, and of no others") {
  const temporary_folder hub;
  const std::filesystem::path snapshot = hub / "models--x/snapshots/0123", blobs = hub / "models--x/blobs";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(blobs);
  hub.write("models--x/blobs/aa", safetensors({two_tensors[0]}));
  hub.write("models--x/aa", safetensors({two_tensors[0]}));
  hub.write("models--x/snapshots/0123/config.json", config);
  hub.write("models--x/snapshots/0123/model.safetensors.index.json", R"({"weight_map": {"a": "one.safetensors"}})");
  std::filesystem::create_symlink("../../blobs/aa", snapshot / "one.safetensors");
  CHECK(checkpoint(snapshot).contains("a"));
  std::filesystem::remove(snapshot / "one.safetensors");
  std::filesystem::create_symlink("../../aa", snapshot / "one.safetensors");
  CHECK(
      error_of([&] { const checkpoint opened(snapshot); }).ends_with("expected no link out of this directory, found \"one.safetensors\""));
}

TEST_CASE("directories that are no model") {
  const temporary_folder empty;
  const auto said = [](const std::filesystem::path& path) { return error_of([&] { const checkpoint opened(path); }); };
  CHECK(said(empty / "none") ==
        (empty / "none").string() + ": expected a model directory or a .gguf file, found No such file or directory");
  CHECK(said(empty.write("file", "x")) == (empty / "file").string() + ": expected a model directory or a .gguf file, found something else");
  CHECK(said(empty.path()) == (empty / "config.json").string() + ": expected a file that can be read, found No such file or directory");
  const model_folder folder;
  std::filesystem::remove(folder / "model.safetensors");
  CHECK(folder.said() == folder.path().string() + ": expected model.safetensors or model.safetensors.index.json, found neither");
  folder.write("config.json", std::string((1 << 20) + 1, ' '));
  CHECK(folder.said() == folder.file("config.json") + ": expected at most 1048576 bytes, found 1048577");
  folder.write("config.json", "{\"model_type\": \"llama\"");
  CHECK(folder.said().starts_with(folder.file("config.json") + ": byte 22: expected JSON, found unexpected end of input"));
}

namespace {

std::string floats(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += bytes_of_number(static_cast<float>(i));
  return bytes;
}

/// A llama of one layer with heads of four, some of its tensors, and a type for q.
std::string small_gguf(std::uint32_t q_type = 0, const std::string& q = floats(64)) {
  const std::vector<std::string> keys{gguf_key("general.architecture", "llama"),
                                      gguf_key("llama.embedding_length", 8u),
                                      gguf_key("llama.block_count", 1u),
                                      gguf_key("llama.context_length", 64u),
                                      gguf_key("llama.feed_forward_length", 8u),
                                      gguf_key("llama.attention.head_count", 2u),
                                      gguf_key("llama.attention.layer_norm_rms_epsilon", 1e-5f)};
  return gguf_model(keys, {{"token_embd.weight", {8, 6}, 0, floats(48)},
                           {"blk.0.attn_q.weight", {8, 8}, q_type, q},
                           {"blk.0.attn_k.bias", {8}, 0, floats(8)},
                           {"blk.0.attn_norm.weight", {8}, 1, std::string(16, '\0')}});
}

std::vector<float> values_of(const tensor& t) {
  std::vector<float> values(t.rows * t.columns);
  widen(t, values.data());
  return values;
}

}  // namespace

TEST_CASE("a GGUF file: tensors by Hugging Face's names, the rows of q and k in transformers' order") {
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
  CHECK(embedding.data == files.find("model.embed_tokens.weight")->stored->data.data());  // as it lies in the file
  const tensor q = weights.get("model.layers.0.self_attn.q_proj.weight", 8, 8);
  const std::size_t rows[] = {0, 2, 1, 3, 4, 6, 5, 7};
  const auto numbers = values_of(q);
  for (std::size_t i = 0; i < 64; ++i) CHECK(numbers[i] == static_cast<float>(rows[i / 8] * 8 + i % 8));
  CHECK(values_of(weights.get("model.layers.0.self_attn.k_proj.bias", 1, 8)) == std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7});
  CHECK(error_of([&] { weights.get("model.layers.0.self_attn.q_proj.weight", 8, 4); }) ==
        (folder / "m.gguf").string() + ": tensor blk.0.attn_q.weight: expected shape [8, 4], found [8, 8]");
  CHECK(error_of([&] { weights.get("model.norm.weight", 1, 8); }) ==
        (folder / "m.gguf").string() + ": tensor output_norm.weight: expected one of shape [8], found none of that name");
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
        (folder / "m.gguf").string() + ": tensor blk.0.attn_k.bias: expected shape [8, 8], found [8]");
  CHECK(error_of([&] { files.refuse_all_but(shapes.asked()); }) ==
        (folder / "m.gguf").string() +
            ": tensor blk.0.attn_norm.weight: expected a weight that the model of the metadata has, found one that it has not");
}

TEST_CASE("what a model lacks is found before anything is packed") {
  const temporary_folder folder;
  folder.write("m.gguf", small_gguf());
  lazyprune::reference<float> backend{lazyprune::execution{}};
  bool packed = false;
  const lazyprune::load_options options{.as = {}, .progress = [&](std::size_t, std::size_t) { packed = true; }};
  CHECK(error_of([&] { load_model(backend, checkpoint(folder / "m.gguf"), options); }).find("found none of that name") !=
        std::string::npos);
  CHECK_FALSE(packed);
}

TEST_CASE("a folder: safetensors with their config.json, else one GGUF model") {
  const model_folder folder;
  folder.write("m-00001-of-00002.gguf", small_gguf());
  CHECK_FALSE(checkpoint(folder.path()).is_gguf());
  std::filesystem::remove(folder / "model.safetensors");
  std::filesystem::remove(folder / "m-00001-of-00002.gguf");
  folder.write("a.gguf", small_gguf());
  folder.write("lazyprune.json", R"({"stages": "1:0.5"})");
  const checkpoint one(folder.path());  // its config.json belongs to weights that are not there
  CHECK(one.is_gguf());
  CHECK(one.path() == folder.path());
  CHECK(one.stages() == "1:0.5");
  CHECK_FALSE(checkpoint(folder / "a.gguf").stages().has_value());  // the folder's, not the file's
  folder.write("b-00001-of-00002.gguf", "");
  folder.write("b-00002-of-00002.gguf", "");
  CHECK(folder.said() == folder.path().string() + ": expected one model, found 2: a.gguf, b-00001-of-00002.gguf");
  std::filesystem::remove(folder / "a.gguf");
  CHECK(folder.said() == folder.file("b-00001-of-00002.gguf") + ": header: expected a GGUF file, found no bytes");
}

TEST_CASE("quantized matrices become bf16 or float, quantized vectors float; other types are refused by name") {
  const temporary_folder folder;
  const checkpoint files(folder.write("m.gguf", small_gguf(24, std::string(64, '\1'))));
  CHECK(error_of([&] { checkpoint_weights(files).get("model.layers.0.self_attn.q_proj.weight", 8, 8); }).ends_with(", MXFP4, found I8"));
  CHECK(code_of([&] { checkpoint_weights(files).get("model.layers.0.self_attn.q_proj.weight", 8, 8); }) ==
        lazyprune::error_code::unsupported);
  const auto data = test_data("gguf/llama-q8_0.gguf");
  if (data.empty()) return;
  const checkpoint quantized(data);
  CHECK(checkpoint_weights(quantized).get("lm_head.weight", 320, 256).type == dtype::bf16);
  CHECK(checkpoint_weights(quantized, dtype::f32).get("lm_head.weight", 320, 256).type == dtype::f32);
  const checkpoint odd(data.parent_path() / "malformed/norm-quantized.gguf");
  CHECK(checkpoint_weights(odd).get("model.layers.0.input_layernorm.weight", 1, 32).type == dtype::f32);
}

TEST_CASE("generation_config.json adds ends of text") {
  const model_folder folder;
  const auto eos = [&](const std::string& text) {
    folder.write("generation_config.json", text);
    return checkpoint(folder.path()).config().eos;
  };
  using ids = std::vector<lazyprune::token_id>;
  CHECK(eos("{}") == ids{2});
  CHECK(eos(R"({"eos_token_id": 2})") == ids{2});
  CHECK(eos(R"({"eos_token_id": 7, "temperature": 0.6})") == ids{2, 7});
  CHECK(eos(R"({"eos_token_id": [9, 2, 7]})") == ids{2, 9, 7});
  folder.write("generation_config.json", R"({"eos_token_id": 300})");
  CHECK(folder.said() == folder.file("generation_config.json") + ": eos_token_id: expected a whole number from 0 to 299, found 300");
}

TEST_CASE("lazyprune.json has the stages and nothing else") {
  const model_folder folder;
  const auto said = [&](const std::string& text) {
    folder.write("lazyprune.json", text);
    const std::string error = folder.said(), file = folder.file("lazyprune.json");
    return error.starts_with(file) ? error.substr(file.size()) : error;
  };
  CHECK(said(R"({"stages": "1:0.5"})") == "no error");
  CHECK(checkpoint(folder.path()).stages() == "1:0.5");
  CHECK(said(R"({"stages": "1:0.5", "stage": 1})") == ": stage: expected no such key, found 1");
  CHECK(said("{}") == ": expected the key \"stages\", found none");
  CHECK(said(R"({"stages": [1]})") == ": stages: expected a string, found an array");
}

TEST_CASE("the tokenizer beside the model, and what tokenizer_config.json may say") {
  const model_folder folder;
  const std::string model = special_pieces() + byte_pieces() + piece_field("a", -1) + trainer(true) + normalizer(true, false);
  folder.write("tokenizer.model", model);
  const checkpoint loaded(folder.path());
  CHECK(loaded.load_tokenizer()->size() == 260);
  CHECK(loaded.load_tokenizer()->adds_bos());
  const auto adds_bos = [&](const std::string& text) {
    folder.write("tokenizer_config.json", text);
    return loaded.load_tokenizer()->adds_bos();
  };
  CHECK(adds_bos("{}"));
  CHECK(adds_bos(R"({"add_bos_token": null})"));
  CHECK(adds_bos(R"({"add_bos_token": true, "bos_token": {"content": "<s>"}, "add_prefix_space": true, "add_eos_token": false})"));
  CHECK_FALSE(adds_bos(R"({"add_bos_token": false, "bos_token": "<s>", "model_max_length": 1000000000000000019884624838656})"));
  const auto said = [&](const std::string& text) {
    folder.write("tokenizer_config.json", text);
    const std::string error = error_of([&] { loaded.load_tokenizer(); }), file = folder.file("tokenizer_config.json");
    return error.starts_with(file) ? error.substr(file.size()) : error;
  };
  CHECK(said(R"({"add_bos_token": 1})") == ": add_bos_token: expected true or false, found 1");
  CHECK(said(R"({"add_eos_token": true})") == ": add_eos_token: expected false, found true");
  CHECK(said(R"({"add_prefix_space": false})") ==
        ": add_prefix_space: expected the same as tokenizer.model's add_dummy_prefix, found false");
  CHECK(said(R"({"bos_token": "<bos>"})") == ": bos_token: expected \"<s>\", as in tokenizer.model, found \"<bos>\"");
  std::filesystem::remove(folder / "tokenizer_config.json");
  std::string more = model;
  for (int i = 0; i < 41; ++i) more += piece_field("piece " + std::to_string(i), -2);
  folder.write("tokenizer.model", more);
  CHECK(said("{}") == folder.file("tokenizer.model") + ": pieces: expected at most 300, the vocabulary of the model, found 301");
}

TEST_CASE("one of each family") {
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
  // The tensors that the flags promise are there, with their shapes.
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

TEST_CASE("a tied model that stores only its head") {
  const auto folder = test_data("models/story-hf");
  if (folder.empty()) return;
  const checkpoint model(folder);
  CHECK(model.config().tied);
  CHECK(model.config().bos == std::vector<lazyprune::token_id>{1});
  CHECK_FALSE(model.contains("model.embed_tokens.weight"));
  CHECK(checkpoint_weights(model).get("lm_head.weight", 2048, 128).type == dtype::f32);
  CHECK(model.load_tokenizer()->size() == 2048);
}
