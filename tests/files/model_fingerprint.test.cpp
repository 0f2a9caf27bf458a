// SPDX-License-Identifier: MIT
#include <lazyprune/files/model_fingerprint.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <files/model_files.hpp>
#include <files/support.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

/// The first norm of a model, as the only tensor of a safetensors file.
std::string norm_alone(const std::vector<float>& weights, bool bf16) {
  std::string data;
  for (const float w : weights) {
    const std::string bytes = bytes_of_number(w);
    data += bf16 ? bytes.substr(2) : bytes;
  }
  const std::string header = R"({"model.layers.0.input_layernorm.weight":{"dtype":")" + std::string(bf16 ? "BF16" : "F32") +
                             R"(","shape":[)" + std::to_string(weights.size()) + R"(],"data_offsets":[0,)" + std::to_string(data.size()) +
                             "]}}";
  return bytes_of_number(std::uint64_t{header.size()}) + header + data;
}

}  // namespace

TEST_CASE("a fingerprint depends on the sizes and the first norm, and not on the type that stores it") {
  small_folder folder;
  const std::vector<float> weights{0.5f, 1.0078125f, -2.0f, 0.0f};  // these are bf16 numbers
  const auto of = [&](const std::string& file) {
    folder.write("model.safetensors", file);
    return model_fingerprint(checkpoint(folder.path()));
  };
  const std::string own = of(norm_alone(weights, false));
  CHECK(own.size() == 16);
  CHECK(own.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(of(norm_alone(weights, true)) == own);
  CHECK(of(norm_alone({0.5f, 1.0078125f, -2.0f, 0.0000001f}, false)) == own);  // as the rounding of w - 1 may leave it
  CHECK(of(norm_alone({0.5f, 1.0078125f, -2.0f, 0.0078125f}, false)) != own);
  std::string wider = config;
  folder.write("config.json", wider.replace(wider.find("\"intermediate_size\": 6"), 22, "\"intermediate_size\": 7"));
  CHECK(of(norm_alone(weights, false)) != own);
}

TEST_CASE("a digest of weights depends on the config, and on the type and the bytes of each tensor, but not on the path") {
  const auto of = [&](const std::string& file, const std::string& more = "") {
    small_folder folder;
    folder.write("config.json", config + more);
    folder.write("model.safetensors", file);
    return weights_digest(checkpoint(folder.path()));
  };
  const std::vector<float> weights{0.5f, 1.0078125f, -2.0f, 0.0f};
  const std::string own = of(norm_alone(weights, false));
  CHECK(own.size() == 16);
  CHECK(of(norm_alone(weights, false)) == own);
  CHECK(of(norm_alone(weights, true)) != own);
  CHECK(of(norm_alone({0.5f, 1.0078125f, -2.0f, 0.0000001f}, false)) != own);
  CHECK(of(norm_alone({0.25f, 1.0078125f, -2.0f, 0.0f}, false)) != own);
  CHECK(of(norm_alone(weights, false), " ") != own);
}

TEST_CASE("a fingerprint needs the first norm") {
  const small_folder folder;
  CHECK(error_of([&] { model_fingerprint(checkpoint(folder.path())); }).find("input_layernorm") != std::string::npos);
}
