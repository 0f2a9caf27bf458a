// SPDX-License-Identifier: MIT
#include <lazyprune/files/model_folder.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <files/support.hpp>

using namespace lazyprune_test;
using lazyprune::model_folder;

TEST_CASE("which files of a folder are the model") {
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

TEST_CASE("small files of a folder are read within their limit") {
  const temporary_folder folder;
  const model_folder model(folder.path());
  folder.write("x.json", R"({"a": 1})");
  CHECK(model.read_json("x.json", 8).at("a").whole_number() == 1);
  CHECK(error_of([&] { model.read_json("x.json", 7); }) == at((folder / "x.json").string(), {", found 8"}));
  CHECK(error_of([&] { model_folder(folder / "none").names(); }).starts_with("io: "));
}
