// SPDX-License-Identifier: MIT
// Reads a llama2.c checkpoint for the tests (.bin, version 1: https://github.com/karpathy/llama2.c/blob/master/export.py). Tensors get the
// names of Hugging Face. llama2.c rotates the neighbours (2i, 2i+1). We rotate (i, i + head_dim/2), so the rows of q and k are permuted.
#pragma once

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <lazyprune/model/weights.hpp>

class llama2c_file {
 public:
  explicit llama2c_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    std::array<std::int32_t, 9> header;  // magic, version, dim, ffn, layers, heads, kv_heads, vocabulary, context
    std::memcpy(header.data(), bytes_.data(), sizeof header);
    const auto at = [&](int i) { return static_cast<std::size_t>(header[static_cast<std::size_t>(i)]); };
    config_.family = "llama";
    config_.vocabulary = at(7);
    config_.hidden = at(2);
    config_.layers = at(4);
    config_.n_heads = at(5);
    config_.n_kv_heads = at(6);
    config_.head_dim = at(2) / at(5);
    config_.ffn = at(3);
    config_.max_positions = at(8);
    config_.tied = bytes_[36] != 0;
    config_.bos = {1};
    config_.eos = {2};
    const auto& c = config_;
    std::size_t offset = 256;
    const auto take = [&](const std::string& name, std::size_t rows, std::size_t columns) {
      tensors_[name] = {lazyprune::dtype::f32, rows, columns, reinterpret_cast<const std::byte*>(bytes_.data() + offset)};
      offset += rows * columns * 4;
    };
    const auto take_all = [&](const std::string& name, std::size_t rows, std::size_t columns) {
      for (std::size_t l = 0; l < c.layers; ++l) take("model.layers." + std::to_string(l) + "." + name + ".weight", rows, columns);
    };
    const std::size_t q = c.n_heads * c.head_dim, kv = c.n_kv_heads * c.head_dim;
    take_all("input_layernorm", 1, c.hidden);
    take_all("post_attention_layernorm", 1, c.hidden);
    take("model.norm.weight", 1, c.hidden);
    take("model.embed_tokens.weight", c.vocabulary, c.hidden);
    take_all("self_attn.q_proj", q, c.hidden);
    take_all("self_attn.k_proj", kv, c.hidden);
    take_all("self_attn.v_proj", kv, c.hidden);
    take_all("self_attn.o_proj", c.hidden, q);
    take_all("mlp.gate_proj", c.ffn, c.hidden);
    take_all("mlp.down_proj", c.hidden, c.ffn);
    take_all("mlp.up_proj", c.ffn, c.hidden);
    for (std::size_t l = 0; l < c.layers; ++l)
      for (const char* name : {"q_proj", "k_proj"})
        to_halves(tensors_["model.layers." + std::to_string(l) + ".self_attn." + name + ".weight"]);
  }

  const lazyprune::model_config& config() const { return config_; }
  bool contains(std::string_view name) const { return tensors_.count(std::string(name)) > 0; }
  lazyprune::tensor get(std::string_view name, std::size_t, std::size_t) const { return tensors_.at(std::string(name)); }

 private:
  void to_halves(lazyprune::tensor& t) {
    const std::size_t row_bytes = t.columns * 4, half = config_.head_dim / 2;
    std::vector<std::byte>& rows = permuted_.emplace_back(t.bytes());
    for (std::size_t r = 0; r < t.rows; ++r) {
      const std::size_t head = r / config_.head_dim, i = r % config_.head_dim;
      std::memcpy(rows.data() + (head * config_.head_dim + i / 2 + (i % 2) * half) * row_bytes, t.data + r * row_bytes, row_bytes);
    }
    t.data = rows.data();
  }

  std::vector<char> bytes_;
  std::vector<std::vector<std::byte>> permuted_;
  std::map<std::string, lazyprune::tensor> tensors_;
  lazyprune::model_config config_;
};
