// SPDX-License-Identifier: MIT
#include <lazyprune/files/family/all.hpp>

#include <doctest/doctest.h>

#include "files.hpp"

#include <set>

TEST_CASE("every family has its own names, and family_names lists them in order") {
  using namespace lazyprune;
  std::set<std::string_view> names, types, architectures, ggufs;
  for (const model_family* family : all_families) {
    CHECK(names.insert(family->name).second);
    CHECK(types.insert(family->model_type).second);
    CHECK(architectures.insert(family->architecture).second);
    if (!family->gguf.empty()) CHECK(ggufs.insert(family->gguf).second);
    CHECK(find_family(&model_family::name, family->name) == family);
    CHECK((family->read_json && family->read_gguf));
  }
  CHECK(find_family(&model_family::gguf, "") == nullptr);
  CHECK(find_family(&model_family::model_type, "gpt2") == nullptr);
  CHECK(family_names(&model_family::gguf) == "llama, qwen2, qwen3, phi3, gemma2 or gemma3");
}
