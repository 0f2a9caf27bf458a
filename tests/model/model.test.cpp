// SPDX-License-Identifier: MIT
#include <lazyprune/model/model.hpp>

#include <lazyprune/model/weights.hpp>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/model/random_source.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <backend/samples.hpp>
#include <fault.hpp>

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

namespace {

/// Passes tensors on, and records which tensors were asked for.
struct listed {
  random_source numbers;
  std::set<std::string, std::less<>> missing;
  std::map<std::string, std::pair<std::size_t, std::size_t>>* asked;

  bool contains(std::string_view name) const { return !missing.contains(name); }
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    if (missing.contains(name)) throw error("listed", name, "a tensor", "none");
    (*asked)[std::string(name)] = {rows, columns};
    return numbers.get(name, rows, columns);
  }
};

/// Replaces some matrices by quantized ones.
struct some_quantized {
  random_source numbers;
  std::set<std::string> projections;
  lazyprune_test::rows_of_blocks blocks{{32, 32, 4, 8, false}, true};

  bool contains(std::string_view name) const { return numbers.contains(name); }
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    for (const std::string& projection : projections)
      if (name.find(projection) != std::string_view::npos) return blocks.matrix(rows, columns);
    return numbers.get(name, rows, columns);
  }
};

model_config two_layers() {
  model_config c;
  c.family = "llama";
  c.vocabulary = 50;
  c.hidden = 24;
  c.layers = 2;
  c.n_heads = 6;
  c.n_kv_heads = 2;
  c.head_dim = 8;
  c.ffn = 32;
  c.max_positions = 16;
  return c;
}

std::map<std::string, std::pair<std::size_t, std::size_t>> asked_for(const model_config& c, std::set<std::string, std::less<>> missing = {},
                                                                     std::size_t* bytes = nullptr) {
  std::map<std::string, std::pair<std::size_t, std::size_t>> asked;
  reference<float> backend{execution{}};
  const auto net = load_model(backend, c, listed{random_source(c, dtype::f32), std::move(missing), &asked});
  if (bytes) *bytes = bytes_of(net.weights);
  return asked;
}

}  // namespace

TEST_CASE("a plain Llama asks for its tensors by their Hugging Face names and shapes; bytes_of is the memory of its weights") {
  std::size_t bytes = 0;
  const auto asked = asked_for(two_layers(), {}, &bytes);
  CHECK(asked.size() == 2 * 9 + 3);
  CHECK(asked.at("model.embed_tokens.weight") == std::pair<std::size_t, std::size_t>{50, 24});
  CHECK(asked.at("lm_head.weight") == std::pair<std::size_t, std::size_t>{50, 24});
  CHECK(asked.at("model.norm.weight") == std::pair<std::size_t, std::size_t>{1, 24});
  CHECK(asked.at("model.layers.1.self_attn.q_proj.weight") == std::pair<std::size_t, std::size_t>{48, 24});
  CHECK(asked.at("model.layers.1.self_attn.v_proj.weight") == std::pair<std::size_t, std::size_t>{16, 24});
  CHECK(asked.at("model.layers.0.self_attn.o_proj.weight") == std::pair<std::size_t, std::size_t>{24, 48});
  CHECK(asked.at("model.layers.0.mlp.down_proj.weight") == std::pair<std::size_t, std::size_t>{24, 32});
  std::size_t numbers = 0;
  for (const auto& [name, shape] : asked) numbers += shape.first * shape.second;
  CHECK(bytes >= numbers * sizeof(float));  // rows may be padded
}

TEST_CASE("biases and head norms are read only if the config has them") {
  model_config c = two_layers();
  c.qkv_bias = c.output_bias = c.mlp_bias = c.qk_norm = true;
  const auto asked = asked_for(c);
  CHECK(asked.size() == 2 * (9 + 3 + 1 + 3 + 2) + 3);
  CHECK(asked.at("model.layers.0.self_attn.k_proj.bias") == std::pair<std::size_t, std::size_t>{1, 16});
  CHECK(asked.at("model.layers.1.self_attn.q_norm.weight") == std::pair<std::size_t, std::size_t>{1, 8});
}

TEST_CASE("norms after attention and feed-forward have names of their own; one tensor may hold q, k and v, and another gate and up") {
  model_config c = two_layers();
  c.post_norms = c.fused = true;
  const auto asked = asked_for(c);
  CHECK(asked.size() == 2 * (4 + 4) + 3);
  for (const char* name : {"post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"})
    CHECK(asked.at("model.layers.1." + std::string(name) + ".weight") == std::pair<std::size_t, std::size_t>{1, 24});
  CHECK(asked.at("model.layers.0.self_attn.qkv_proj.weight") == std::pair<std::size_t, std::size_t>{80, 24});
  CHECK(asked.at("model.layers.0.mlp.gate_up_proj.weight") == std::pair<std::size_t, std::size_t>{64, 24});
}

namespace {

/// A source whose vectors hold 0, 1, 2, ... In its matrices, every number of row i is i.
struct numbered {
  std::map<std::string, std::vector<float>>* made;

  bool contains(std::string_view) const { return true; }
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    std::vector<float>& values = (*made)[std::string(name)];
    for (std::size_t i = 0; i < rows * columns; ++i) values.push_back(static_cast<float>(rows == 1 ? i : i / columns));
    return {dtype::f32, rows, columns, reinterpret_cast<const std::byte*>(values.data())};
  }
};

}  // namespace

TEST_CASE("if RoPE rotates a part of each head, rows that rotate together are loaded half a head apart; norms stored minus 1 get 1 added") {
  model_config c = two_layers();
  c.rotary_dim = 4;
  c.fused = c.qkv_bias = c.qk_norm = c.norms_less_one = true;
  reference<double> backend{execution{}};
  std::map<std::string, std::vector<float>> made;
  const auto net = load_model(backend, c, numbered{&made});
  const std::size_t order[] = {0, 1, 4, 5, 2, 3, 6, 7};  // RoPE rotates 0 with 2, and 1 with 3
  const auto& layer = net.weights.layers[1];
  for (std::size_t row = 0; row < 48; ++row) {
    const std::size_t from = row / 8 * 8 + order[row % 8];
    CHECK(layer.q.row(row)[0] == static_cast<double>(from));
    CHECK((*layer.q_bias)[row] == static_cast<double>(from));
    if (row >= 16) continue;
    CHECK(layer.k.row(row)[0] == static_cast<double>(48 + from));
    CHECK((*layer.k_bias)[row] == static_cast<double>(from));
    CHECK(layer.v.row(row)[0] == static_cast<double>(64 + row));
    CHECK((*layer.v_bias)[row] == static_cast<double>(row));
  }
  for (std::size_t i = 0; i < 8; ++i) CHECK((*layer.q_norm)[i] == static_cast<double>(order[i] + 1));
  CHECK(layer.attention_norm[3] == 4.0);
  CHECK(layer.gate_up.row(63)[0] == 63.0);
}

namespace {

/// A source of numbers that bf16 cannot hold exactly. Tensors whose names end in one of `in_bf16` are stored as bf16.
struct of_two_types {
  std::vector<std::string> in_bf16;
  std::map<std::string, std::vector<std::byte>>* made;

  bool contains(std::string_view) const { return true; }
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    const bool half = std::ranges::any_of(in_bf16, [&](const std::string& end) { return name.ends_with(end); });
    std::vector<std::byte>& bytes = (*made)[std::string(name)];
    for (std::size_t i = 0; i < rows * columns; ++i) {
      const float number = 1.0f + static_cast<float>(i % 7) * 0x1p-20f;
      const std::uint16_t bits = bf16_of_float(number);
      const std::byte* const from = half ? reinterpret_cast<const std::byte*>(&bits) : reinterpret_cast<const std::byte*>(&number);
      bytes.insert(bytes.end(), from, from + (half ? 2 : 4));
    }
    return {half ? dtype::bf16 : dtype::f32, rows, columns, bytes.data()};
  }
};

}  // namespace

TEST_CASE("gate and up are never rounded: if both are bf16 they stay bf16, otherwise both become float") {
  const model_config c = two_layers();
  const auto second_of_up = [&](const std::vector<std::string>& in_bf16) {
    std::map<std::string, std::vector<std::byte>> made;
    reference<double> backend{execution{}};
    return load_model(backend, c, of_two_types{in_bf16, &made}).weights.layers[0].gate_up.row(c.ffn)[1];
  };
  constexpr double stored = 1.0 + 0x1p-20;
  CHECK(second_of_up({}) == stored);
  CHECK(second_of_up({"gate_proj.weight"}) == stored);
  CHECK(second_of_up({"up_proj.weight"}) == 1.0);

  const auto type = [&](const std::vector<std::string>& in_bf16) {
    std::map<std::string, std::vector<std::byte>> made;
    cpu backend{execution{.threads = 1}};
    return load_model(backend, c, of_two_types{in_bf16, &made}).weights.layers[0].gate_up.type();
  };
  CHECK(type({"gate_proj.weight"}) == dtype::f32);
  CHECK(type({"up_proj.weight"}) == dtype::f32);
  CHECK(type({"gate_proj.weight", "up_proj.weight"}) == dtype::bf16);
}

TEST_CASE("q, k and v multiply the same rows, so all of them stay quantized or none") {
  model_config c = two_layers();
  c.hidden = 64;
  c.n_heads = 8;  // o has 64 inputs, which are two blocks
  const some_quantized all{random_source(c, dtype::bf16), {"q_proj", "k_proj", "v_proj", "o_proj"}};
  const some_quantized without_v{random_source(c, dtype::bf16), {"q_proj", "k_proj", "o_proj"}};
  cpu backend({.threads = 1});
  const auto kept = load_model(backend, c, all).weights.layers[0];
  CHECK((kept.q.panels() && kept.k.panels() && kept.v.panels() && kept.o.panels()));
  const auto widened = load_model(backend, c, without_v).weights.layers[0];
  CHECK((!widened.q.panels() && !widened.k.panels() && !widened.v.panels()));
  CHECK(widened.o.panels());
}

TEST_CASE("keys and values have the type of their layer's weights; stored rows have the common type of all layers") {
  const auto types = [](const std::vector<std::string>& in_bf16, auto&& backend) {
    std::map<std::string, std::vector<std::byte>> made;
    const auto net = load_model(backend, two_layers(), of_two_types{in_bf16, &made});
    return std::pair(net.kv_types(), net.stored_type());
  };
  using kinds = std::vector<dtype>;
  cpu fast{execution{.threads = 1}};
  CHECK(types({}, fast) == std::pair(kinds{dtype::f32, dtype::f32}, dtype::f32));
  const std::vector<std::string> all{"q_proj.weight", "k_proj.weight", "v_proj.weight"};
  CHECK(types(all, fast) == std::pair(kinds{dtype::bf16, dtype::bf16}, dtype::bf16));
  for (std::size_t left_out = 0; left_out < all.size(); ++left_out) {  // q, k and v of a layer have one type
    std::vector<std::string> two = all;
    two.erase(two.begin() + static_cast<std::ptrdiff_t>(left_out));
    CHECK(types(two, fast) == std::pair(kinds{dtype::f32, dtype::f32}, dtype::f32));
  }
  CHECK(types({"1.self_attn.q_proj.weight", "1.self_attn.k_proj.weight", "1.self_attn.v_proj.weight"}, fast) ==
        std::pair(kinds{dtype::f32, dtype::bf16}, dtype::f32));
  CHECK(types(all, reference<float>{}) == std::pair(kinds{dtype::f32, dtype::f32}, dtype::f32));
}

namespace {

/// A source that tracks how long its matrices are in use.
struct returned {
  random_source numbers;
  std::size_t* given;
  std::shared_ptr<std::size_t> read;  // matrices still in use

  bool contains(std::string_view name) const { return numbers.contains(name); }
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    tensor t = numbers.get(name, rows, columns);
    if (rows > 1) t.held = std::shared_ptr<const void>(t.data, [all = read](const void*) { --*all; });
    *given += rows > 1;
    *read += rows > 1;
    return t;
  }
};

}  // namespace

TEST_CASE("after a layer is packed, the source learns that the layer's matrices are no longer used, also if they were used in slices") {
  for (const bool fused : {false, true}) {
    model_config c = two_layers();
    c.fused = fused;
    reference<float> backend{execution{}};
    std::size_t given = 0;
    const auto read = std::make_shared<std::size_t>(0);
    std::vector<std::size_t> after_layers;
    load_options options;
    options.progress = [&](std::size_t, std::size_t) { after_layers.push_back(*read); };
    load_model(backend, c, returned{random_source(c, dtype::f32), &given, read}, options);
    CHECK(given == (fused ? 2 * 4 + 2 : 2 * 7 + 2));
    CHECK(*read == 0);
    CHECK(after_layers == std::vector<std::size_t>(3, 0));
  }
}

namespace {

/// A source that stores its layers in the order of their names.
struct ordered_by_name {
  random_source numbers;
  std::vector<std::string>* norms;  // names of the layers' norms, in the order in which they were asked for

  bool contains(std::string_view name) const { return numbers.contains(name); }
  std::string place(std::string_view name) const { return std::string(name); }
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    if (name.ends_with(".input_layernorm.weight")) norms->emplace_back(name);
    return numbers.get(name, rows, columns);
  }
};

}  // namespace

TEST_CASE("layers are loaded in the order in which the source stores them, and this order changes no layer") {
  model_config c = two_layers();
  c.layers = 12;
  reference<float> backend{execution{}};
  std::vector<std::string> norms;
  const auto by_name = load_model(backend, c, ordered_by_name{random_source(c, dtype::f32), &norms});
  REQUIRE(norms.size() == 12);
  CHECK(std::ranges::is_sorted(norms));
  CHECK(norms[2] == "model.layers.10.input_layernorm.weight");
  const auto by_number = load_model(backend, c, random_source(c, dtype::f32));
  for (std::size_t l = 0; l < 12; ++l) {
    const float* const q = by_name.weights.layers[l].q.row(0);
    CHECK(std::equal(q, q + c.hidden, by_number.weights.layers[l].q.row(0)));
    CHECK(std::equal(q, q + c.hidden, by_name.weights.layers[0].q.row(0)) == (l == 0));
  }
}

TEST_CASE("if embedding and head are tied, the one matrix may be stored as the embedding or as the head") {
  model_config c = two_layers();
  c.tied = true;
  CHECK(!asked_for(c).contains("lm_head.weight"));
  const auto head_only = asked_for(c, {"model.embed_tokens.weight"});
  CHECK(head_only.contains("lm_head.weight"));
  CHECK(!head_only.contains("model.embed_tokens.weight"));
}

TEST_CASE("a config with contradicting numbers is refused before anything is read") {
  const auto said = [](auto change) {
    model_config c = two_layers();
    change(c);
    return error_of([&] { asked_for(c); });
  };
  CHECK(said([](model_config& c) { c.n_kv_heads = 4; }) == at("model: n_kv_heads", {"6", ", found 4"}));
  CHECK(said([](model_config& c) { c.n_kv_heads = 0; }) == at("model: n_kv_heads", {", found 0"}));
  CHECK(said([](model_config& c) { c.n_kv_heads = 12; }) == at("model: n_kv_heads", {"6", ", found 12"}));
  CHECK(said([](model_config& c) { c.head_dim = 7; }) == at("model: head_dim", {", found 7"}));
  CHECK(said([](model_config& c) { c.layers = 0; }) == at("model: layers", {", found 0"}));
  CHECK(said([](model_config& c) { c.max_positions = 0; }) == at("model: max_positions", {", found 0"}));
  CHECK(said([](model_config& c) { c.rotary_dim = 10; }) == at("model: rotary_dim", {"8", ", found 10"}));
  CHECK(said([](model_config& c) { c.windows = {4}; }) == at("model: windows", {"2", ", found 1"}));
  CHECK(said([](model_config& c) { c.n_kv_heads = 6; }) == "no error");
}

TEST_CASE("a missing tensor is an error; progress is told the number of loaded layers; f16 is refused as the type of the weights") {
  CHECK_THROWS_AS(asked_for(two_layers(), {"model.layers.1.mlp.up_proj.weight"}), error);
  CHECK_THROWS_AS(asked_for(two_layers(), {"lm_head.weight"}), error);
  reference<float> backend{execution{}};
  std::vector<std::size_t> told;
  load_options options;
  options.progress = [&](std::size_t done, std::size_t of) {
    CHECK(of == 2);
    told.push_back(done);
  };
  load_model(backend, two_layers(), random_source(two_layers(), dtype::f32), options);
  CHECK(told == std::vector<std::size_t>{0, 1, 2});
  options.as = dtype::f16;
  CHECK_THROWS_AS(load_model(backend, two_layers(), random_source(two_layers(), dtype::f32), options), error);
}
