// SPDX-License-Identifier: MIT
#include <lazyprune/files/checkpoint.hpp>

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

#include <files/gguf_writer.hpp>
#include <files/model_files.hpp>
#include <files/support.hpp>
#include <test_data.hpp>

using namespace lazyprune_test;
using lazyprune::checkpoint;
using lazyprune::dtype;
using lazyprune::file_access;
using lazyprune::model_config;
using lazyprune::rope_scaling;
using lazyprune::tensor;

namespace {

fault index_error(const std::string& weight_map) {
  const sharded_folder folder(weight_map);
  return folder.said().after(folder.file("model.safetensors.index.json") + ": ");
}

}  // namespace

TEST_CASE("every tensor is the same, whether the file is mapped or read") {
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

TEST_CASE("the index is checked against the shards") {
  CHECK(index_error(R"({"a": "two.safetensors"})") == at("weight_map.a", {"\"two.safetensors\""}));
  CHECK(index_error(R"({"a": "one.safetensors", "c": "one.safetensors"})") == at("weight_map.c", {"\"one.safetensors\""}));
  CHECK(index_error(R"({"a": 1})") == at("weight_map.a", {", found 1"}));
  CHECK(index_error("[]") == at("weight_map"));
  CHECK(index_error(R"({"a": "one.safetensors", "a": "one.safetensors"})") == at("a"));
  CHECK(index_error(R"({"a": "three.safetensors"})") == at("weight_map.a", {"\"three.safetensors\""}));
  CHECK(index_error(R"({"a": "config.json"})").find("config.json: header: expected at most ") != std::string::npos);
}

TEST_CASE("an index without tensors: nothing is read ahead, and a missing weight is reported by name") {
  const sharded_folder folder("{}");
  const checkpoint files(folder.path());
  lazyprune::read_ahead ahead;
  files.prefetch(ahead);
  CHECK(error_of([&] { files.of_shape("a", 1, 1); }).ends_with("tensor a: expected a tensor of shape [1], found no tensor of this name"));
}

TEST_CASE("the index cannot name a file outside the directory") {
  for (const std::string bad : {"", ".", "..", "/etc/passwd", "../one.safetensors", "./one.safetensors", "sub/one.safetensors",
                                "..\\\\one.safetensors", "one.safetensors\\u0000x"}) {
    CAPTURE(bad);
    CHECK(index_error("{\"a\": \"" + bad + "\"}") == at("weight_map.a"));
  }
}

TEST_CASE("shards may be links to anywhere, and so may a single file") {
  const temporary_folder cache;
  cache.write("blob", safetensors({two_tensors[0]}));
  for (const std::filesystem::path& to : {cache / "blob", std::filesystem::path("one.safetensors")}) {
    CAPTURE(to);
    const sharded_folder folder(R"({"a": "link.safetensors"})");
    std::filesystem::create_symlink(to, folder / "link.safetensors");
    CHECK(checkpoint(folder.path()).contains("a"));
  }
  const small_folder linked;
  std::filesystem::remove(linked / "model.safetensors");
  std::filesystem::create_symlink(cache / "blob", linked / "model.safetensors");
  CHECK(checkpoint(linked.path()).contains("a"));
  const sharded_folder folder(R"({"a": "link.safetensors"})");
  std::filesystem::create_symlink("nowhere", folder / "link.safetensors");
  CHECK(folder.said() == at(folder.file("model.safetensors.index.json") + ": weight_map.a", {"\"link.safetensors\""}));
}

TEST_CASE("a broken link is refused, although the file that it stands for may be missing") {
  for (const char* name : {"lazyprune.json", "generation_config.json"}) {
    const small_folder folder;
    std::filesystem::create_symlink("nowhere", folder / name);
    CHECK(folder.said().starts_with(folder.file(name) + ": "));
  }
}

TEST_CASE("weights that are no part of the model are refused by name") {
  const small_folder folder;
  folder.write("model.safetensors",
               safetensors({{"a", "F32", "[2,3]", 24}, {"b", "BF16", "[4]", 8}, {"layers.0.rotary_emb.inv_freq", "F32", "[1]", 4}}));
  const checkpoint files(folder.path());
  std::set<std::string, std::less<>> asked;
  const auto said = [&] { return error_of([&] { files.refuse_all_but(asked); }); };
  const std::string end = ": expected a weight of the model that config.json describes, found a weight that is no part of it";
  CHECK(said() == folder.file("model.safetensors") + ": tensor a" + end);
  asked.insert("a");
  CHECK(said() == folder.file("model.safetensors") + ": tensor b" + end);
  asked.insert("b");
  CHECK(said() == "no error");
}

TEST_CASE("folders without a model are refused") {
  const temporary_folder empty;
  const auto said = [](const std::filesystem::path& path) { return error_of([&] { const checkpoint opened(path); }); };
  CHECK(said(empty / "none") == at((empty / "none").string()));
  CHECK(said(empty.write("file", "x")) == at((empty / "file").string()));
  CHECK(said(empty.path()) == at(empty.path().string(), {".gguf"}));
  const small_folder folder;
  std::filesystem::remove(folder / "model.safetensors");
  CHECK(folder.said() == at(folder.path().string()));
  folder.write("config.json", std::string((1 << 20) + 1, ' '));
  CHECK(folder.said() == at(folder.file("config.json"), {"1048576", "1048577"}));
  folder.write("config.json", "{\"model_type\": \"llama\"");
  CHECK(folder.said() == at(folder.file("config.json") + ": byte 22"));
}

TEST_CASE("a folder's model is its safetensors with config.json, or else its only GGUF model") {
  const small_folder folder;
  folder.write("m-00001-of-00002.gguf", small_gguf());
  CHECK_FALSE(checkpoint(folder.path()).is_gguf());
  std::filesystem::remove(folder / "model.safetensors");
  std::filesystem::remove(folder / "m-00001-of-00002.gguf");
  folder.write("a.gguf", small_gguf());
  folder.write("lazyprune.json", R"({"stages": "1:0.5"})");
  const checkpoint one(folder.path());  // ignores config.json, because the folder has no safetensors
  CHECK(one.is_gguf());
  CHECK(one.path() == folder.path());
  CHECK(one.pruning().value().stages == "1:0.5");
  CHECK_FALSE(checkpoint(folder / "a.gguf").pruning().has_value());  // lazyprune.json belongs to the folder, not to the file
  folder.write("b-00001-of-00002.gguf", "");
  folder.write("b-00002-of-00002.gguf", "");
  CHECK(folder.said() == at(folder.path().string(), {"00001", "00002"}));
  std::filesystem::remove(folder / "a.gguf");
  CHECK(folder.said() == at(folder.file("b-00001-of-00002.gguf") + ": header"));
}

TEST_CASE("a GGUF file may have any name") {
  const temporary_folder folder;
  for (const char* name : {"sha256-0123abcd", "M.GGUF", "m.gguf"}) {
    CAPTURE(name);
    CHECK(checkpoint(folder.write(name, small_gguf())).is_gguf());
  }
  const auto page = folder.write("page.gguf", "<html>");  // a failed download
  CHECK(error_of([&] { const checkpoint opened(page); }) == at(page.string() + ": header", {"\"<htm\""}));
}

TEST_CASE("generation_config.json adds EOS tokens") {
  const small_folder folder;
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
  CHECK(folder.said() == at(folder.file("generation_config.json") + ": eos_token_id", {"299", "300"}));
}

TEST_CASE("a checkpoint has notes about keys of its config.json that only other engines use") {
  const small_folder folder;
  CHECK(checkpoint(folder.path()).remarks().empty());
  nlohmann::json with = nlohmann::json::parse(config);
  with["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}, {"attn_factor", 0.5}};
  folder.write("config.json", with.dump());
  const auto remarks = checkpoint(folder.path()).remarks();
  REQUIRE(remarks.size() == 1);
  CHECK(remarks[0].starts_with(folder.file("config.json") + ": rope_scaling.attn_factor: "));
}

TEST_CASE("lazyprune.json has stages and nothing else") {
  const small_folder folder;
  const auto said = [&](const std::string& text) {
    folder.write("lazyprune.json", text);
    return folder.said().after(folder.file("lazyprune.json") + ": ");
  };
  CHECK(said(R"({"stages": "1:0.5"})") == "no error");
  CHECK(checkpoint(folder.path()).pruning().value().stages == "1:0.5");
  CHECK(said(R"({"stages": "1:0.5", "stage": 1})") == at("stage", {", found 1"}));
  CHECK(said("{}") == at("", {"\"stages\""}));
  CHECK(said(R"({"stages": [1]})") == at("stages"));
}
