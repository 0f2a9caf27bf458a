// SPDX-License-Identifier: MIT
#include <lazyprune/files/model_folder.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <files/gguf_writer.hpp>
#include <files/model_files.hpp>
#include <files/support.hpp>

using namespace lazyprune_test;
using lazyprune::model_folder;

TEST_CASE("which files of a folder are its model") {
  const temporary_folder folder;
  const model_folder model(folder.path());
  CHECK_FALSE(model.gguf().has_value());
  folder.write("b-00002-of-00002.gguf", "");
  CHECK_FALSE(model.gguf().has_value());
  folder.write("b-00001-of-00002.gguf", "");
  CHECK(model.gguf() == folder / "b-00001-of-00002.gguf");
  CHECK(model.names() == std::vector<std::string>{"b-00001-of-00002.gguf", "b-00002-of-00002.gguf"});
  folder.write("a.gguf", "");
  CHECK(error_of([&] { model.gguf(); }) == at(folder.path().string(), {"00001", "00002"}));
  folder.write("config.json", "{}");
  CHECK_FALSE(model.has_safetensors());
  CHECK(error_of([&] { model.gguf(); }) != "no error");
  folder.write("model.safetensors.index.json", "{}");
  CHECK(model.has_safetensors());
  CHECK_FALSE(model.gguf().has_value());
  std::filesystem::create_symlink("nowhere", folder / "link");
  CHECK(model.has("link"));
  CHECK_FALSE(model.has("nowhere"));
}

TEST_CASE("the first bytes identify a GGUF file, whatever its name") {
  const temporary_folder folder;
  const model_folder model(folder.path());
  folder.write("config.json", "{}");
  folder.write("notes", "GGU");
  std::filesystem::create_directory(folder / "GGUF");
  CHECK_FALSE(model.gguf().has_value());
  folder.write("sha256-0123abcd", small_gguf());
  CHECK(model.gguf() == folder / "sha256-0123abcd");
  folder.write("B.GGUF", small_gguf());
  CHECK(error_of([&] { model.gguf(); }) == at(folder.path().string(), {"B.GGUF", "sha256-0123abcd"}));
}

TEST_CASE("GGUF files that accompany a language model are ignored") {
  const auto file = [](const std::string& key, const char* value) { return gguf_model({gguf_key(key, value)}, {}); };
  const std::pair<const char*, const char*> others[] = {
      {"general.architecture", "clip"}, {"general.type", "mmproj"}, {"general.type", "adapter"}, {"general.type", "imatrix"}};
  for (const auto& other : others) {
    CAPTURE(other.second);
    const temporary_folder folder;
    const model_folder model(folder.path());
    folder.write("a.gguf", file(other.first, other.second));
    CHECK(model.gguf() == folder / "a.gguf");  // a lone file is not ignored: opening it reports what it is
    folder.write("b.gguf", small_gguf());
    CHECK(model.gguf() == folder / "b.gguf");
    folder.write("c.gguf", small_gguf());
    CHECK(error_of([&] { model.gguf(); }) == at(folder.path().string(), {"2", "b.gguf", "c.gguf"}));
  }
}

TEST_CASE("small files of a folder are read up to a limit") {
  const temporary_folder folder;
  const model_folder model(folder.path());
  folder.write("x.json", R"({"a": 1})");
  CHECK(model.read_json("x.json", 8).at("a").whole_number() == 1);
  CHECK(error_of([&] { model.read_json("x.json", 7); }) == at((folder / "x.json").string(), {", found 8"}));
  CHECK(error_of([&] { model_folder(folder / "none").names(); }).starts_with("io: "));
}
