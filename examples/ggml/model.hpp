// SPDX-License-Identifier: MIT
// Loads a Llama from a GGUF file into the memory of any device that ggml supports. Weights keep the type in which they are stored. Rows of
// q and k keep the order of GGUF files, in which RoPE rotates neighbours. A file that needs other features is refused.
#pragma once

#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>

namespace ggml_engine {

using lazyprune::error;

/// The device that computes, and the CPU for operations that the device does not support.
struct devices {
  std::vector<ggml_backend_ptr> backends;  // the first one computes; the last one is the CPU

  ggml_backend_dev_t main() const { return ggml_backend_get_device(backends.front().get()); }
};

/// Opens a device and the CPU. `name` is a name that ggml_backend_dev_name returns. If `name` is empty, opens a GPU if there is one, else
/// only the CPU. Throws `error` if there is no such device, or if the device cannot be opened.
inline devices open_devices(const std::string& name, int threads) {
  ggml_backend_load_all();
  ggml_backend_dev_t device = ggml_backend_dev_by_type(name.empty() ? GGML_BACKEND_DEVICE_TYPE_GPU : GGML_BACKEND_DEVICE_TYPE_CPU);
  const ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (name.empty() && !device) device = cpu;
  if (!name.empty() && !(device = ggml_backend_dev_by_name(name.c_str()))) {
    std::string names;
    for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i)
      names.append(i > 0 ? ", " : "one of ").append(ggml_backend_dev_name(ggml_backend_dev_get(i)));
    throw error("--device", "", names, name);
  }
  devices opened;
  for (const ggml_backend_dev_t d : {device, cpu}) {
    if (!opened.backends.empty() && d == device) break;
    opened.backends.emplace_back(ggml_backend_dev_init(d, nullptr));
    if (!opened.backends.back()) throw error("--device", ggml_backend_dev_name(d), "a device that can be opened", "one that cannot");
    const auto set_threads = reinterpret_cast<ggml_backend_set_n_threads_t>(
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(d), "ggml_backend_set_n_threads"));
    if (set_threads) set_threads(opened.backends.back().get(), threads);
  }
  return opened;
}

struct layer_weights {
  ggml_tensor *attention_norm, *q, *k, *v, *output, *feed_forward_norm, *gate, *up, *down;
};

struct model {
  std::int64_t hidden, feed_forward, heads, kv_heads, head_dim, vocabulary, positions;
  float epsilon, rope_base, rope_scale;
  ggml_tensor *embedding, *norm, *head, *rope_divisors;  // rope_divisors: (head_dim / 2), divisors of RoPE's frequencies; may be null
  std::vector<layer_weights> layers;

  std::int64_t kv_size() const { return kv_heads * head_dim; }

  std::vector<ggml_context_ptr> contexts;  // the contexts of all tensors
  std::vector<ggml_backend_buffer_ptr> buffers;
};

namespace detail {

/// Reads the metadata and the list of tensors of one file.
class gguf_reader {
 public:
  explicit gguf_reader(std::string file) : file_(std::move(file)) {
    std::error_code fault;
    bytes_ = std::filesystem::file_size(file_, fault);
    if (fault) throw error(file_, "", "a file that can be read", fault.message(), lazyprune::error_code::io);
    ggml_context* tensors = nullptr;
    gguf_.reset(gguf_init_from_file(file_.c_str(), {.no_alloc = true, .ctx = &tensors}));
    tensors_.reset(tensors);
    if (!gguf_) throw error(file_, "header", "a complete GGUF file", "one that ggml cannot read");
    for (std::int64_t i = 0; i < gguf_get_n_tensors(gguf_.get()); ++i) unused_.emplace(gguf_get_tensor_name(gguf_.get(), i), i);
  }

  const std::string& file() const { return file_; }
  [[noreturn]] void refuse(std::string_view where, std::string_view expected, std::string_view found) const {
    throw error(file_, where, expected, found);
  }

  bool has(const std::string& key) const { return gguf_find_key(gguf_.get(), key.c_str()) >= 0; }

  std::string text(const std::string& key) const {
    const std::int64_t id = at(key);
    if (gguf_get_kv_type(gguf_.get(), id) != GGUF_TYPE_STRING) refuse_type(key, id, "a string");
    return gguf_get_val_str(gguf_.get(), id);
  }

  /// Returns a whole number from 1 to `most`, or `otherwise` if the key is missing. Throws `error` for any other value.
  std::int64_t whole(const std::string& key, std::optional<std::int64_t> otherwise = {}, std::int64_t most = 1 << 30) const {
    if (otherwise && !has(key)) return *otherwise;
    const std::int64_t id = at(key);
    const gguf_type type = gguf_get_kv_type(gguf_.get(), id);
    const double found = type == GGUF_TYPE_UINT32   ? gguf_get_val_u32(gguf_.get(), id)
                         : type == GGUF_TYPE_INT32  ? gguf_get_val_i32(gguf_.get(), id)
                         : type == GGUF_TYPE_UINT64 ? static_cast<double>(gguf_get_val_u64(gguf_.get(), id))
                         : type == GGUF_TYPE_UINT16 ? gguf_get_val_u16(gguf_.get(), id)
                                                    : (refuse_type(key, id, "a whole number"), 0.0);
    if (found < 1 || found > static_cast<double>(most))
      refuse("metadata: " + key, "a number from 1 to " + std::to_string(most), std::to_string(static_cast<std::int64_t>(found)));
    return static_cast<std::int64_t>(found);
  }

  float number(const std::string& key, std::optional<float> otherwise = {}) const {
    if (otherwise && !has(key)) return *otherwise;
    const std::int64_t id = at(key);
    if (gguf_get_kv_type(gguf_.get(), id) != GGUF_TYPE_FLOAT32) refuse_type(key, id, "a float");
    const float found = gguf_get_val_f32(gguf_.get(), id);
    if (!(found > 0) || !std::isfinite(found)) refuse("metadata: " + key, "a positive number", std::to_string(found));
    return found;
  }

  /// Throws `error` if the architecture has a key that is not in `known`, since such a key may ask for other arithmetic.
  void refuse_other_keys(const std::string& architecture, std::initializer_list<std::string_view> known) const {
    for (std::int64_t i = 0; i < gguf_get_n_kv(gguf_.get()); ++i) {
      const std::string_view key = gguf_get_key(gguf_.get(), i);
      if (!key.starts_with(architecture + ".")) continue;
      if (std::ranges::find(known, key.substr(architecture.size() + 1)) == known.end())
        refuse("metadata: " + std::string(key), "only keys that this engine supports", "this one");
    }
  }

  /// Returns the description of a tensor, or null if it is optional and missing. Throws `error` if the tensor has another shape, if it
  /// is a vector and not F32, if it is a matrix of a type that ggml cannot multiply, or if the file is too short for its data.
  ggml_tensor* tensor(const std::string& name, std::initializer_list<std::int64_t> shape, bool optional = false) {
    ggml_tensor* const found = ggml_get_tensor(tensors_.get(), name.c_str());
    if (!found && optional) return nullptr;
    if (!found) refuse("tensors: " + name, "this tensor", "none");
    std::array<std::int64_t, GGML_MAX_DIMS> expected{1, 1, 1, 1};
    std::ranges::copy(shape, expected.begin());
    const auto text = [](const std::int64_t* ne) {
      std::string dimensions = "(" + std::to_string(ne[0]);
      for (int d = 1; d < GGML_MAX_DIMS; ++d)
        if (d < 2 || ne[d] > 1) dimensions += ", " + std::to_string(ne[d]);
      return dimensions + ")";
    };
    if (!std::equal(expected.begin(), expected.end(), found->ne))
      refuse("tensors: " + name, "the shape " + text(expected.data()), text(found->ne));
    const ggml_type_traits_cpu* const computes = ggml_get_type_traits_cpu(found->type);
    const bool multiplied = computes->vec_dot && (found->type == GGML_TYPE_F32 || ggml_get_type_traits(found->type)->to_float);
    if (shape.size() == 1 ? found->type != GGML_TYPE_F32 : !multiplied)
      refuse("tensors: " + name, shape.size() == 1 ? "f32" : "a type that can be multiplied", ggml_type_name(found->type));
    const std::int64_t id = gguf_find_tensor(gguf_.get(), name.c_str());
    const std::size_t begin = gguf_get_data_offset(gguf_.get()) + gguf_get_tensor_offset(gguf_.get(), id);
    if (begin > bytes_ || bytes_ - begin < ggml_nbytes(found))
      refuse("tensors: " + name, std::to_string(ggml_nbytes(found)) + " bytes from " + std::to_string(begin) + " on",
             "a file of " + std::to_string(bytes_));
    unused_.erase(name);
    return found;
  }

  /// Returns the number of rows of a matrix.
  std::int64_t rows(const std::string& name) const {
    const ggml_tensor* const found = ggml_get_tensor(tensors_.get(), name.c_str());
    if (!found) refuse("tensors: " + name, "this tensor", "none");
    return found->ne[1];
  }

  void refuse_unused() const {
    if (!unused_.empty()) refuse("tensors: " + unused_.begin()->first, "only tensors that this engine supports", "this one");
  }

  /// Copies the bytes of the tensor named to->name into `to`, a tensor of the same shape and type on any device.
  void read(std::ifstream& stream, ggml_tensor* to) const {
    const std::int64_t id = gguf_find_tensor(gguf_.get(), to->name);
    std::vector<char> bytes(ggml_nbytes(to));
    stream.seekg(static_cast<std::streamoff>(gguf_get_data_offset(gguf_.get()) + gguf_get_tensor_offset(gguf_.get(), id)));
    if (!stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
      throw error(file_, std::string("tensors: ") + to->name, "bytes that can be read", "none", lazyprune::error_code::io);
    ggml_backend_tensor_set(to, bytes.data(), 0, bytes.size());
  }

 private:
  std::int64_t at(const std::string& key) const {
    const std::int64_t id = gguf_find_key(gguf_.get(), key.c_str());
    if (id < 0) refuse("metadata", "the key " + key, "none");
    return id;
  }
  [[noreturn]] void refuse_type(const std::string& key, std::int64_t id, std::string_view expected) const {
    refuse("metadata: " + key, expected, gguf_type_name(gguf_get_kv_type(gguf_.get(), id)));
  }

  std::string file_;
  std::uintmax_t bytes_ = 0;
  gguf_context_ptr gguf_;
  ggml_context_ptr tensors_;
  std::map<std::string, std::int64_t> unused_;
};

/// Places weights in memory. The kind of memory decides which device computes with a weight.
class weight_memory {
 public:
  explicit weight_memory(const devices& where) {
    const ggml_backend_dev_t main = where.main(), cpu = ggml_backend_get_device(where.backends.back().get());
    // The CPU has extra buffer types that repack some weights for its vector units. llama.cpp prefers them too (make_cpu_buft_list).
    const auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(main), "ggml_backend_dev_get_extra_bufts"));
    for (ggml_backend_buffer_type_t* type = extra ? extra(main) : nullptr; type && *type; ++type) kinds_.push_back({main, *type});
    kinds_.push_back({main, ggml_backend_dev_buffer_type(main)});
    if (cpu != main) kinds_.push_back({cpu, ggml_backend_dev_buffer_type(cpu)});
  }

  /// Returns a tensor like `stored`. It lies in the first kind of memory whose device supports the operation `of(context, weight)`. Returns
  /// null if there is no such memory.
  template <class Operation>
  ggml_tensor* place(const ggml_tensor* stored, Operation of) {
    for (kind& k : kinds_) {
      const ggml_context_ptr scratch(ggml_init({8 * ggml_tensor_overhead(), nullptr, true}));
      ggml_tensor* const weight = ggml_dup_tensor(scratch.get(), stored);
      const ggml_backend_buffer_ptr nowhere(ggml_backend_buft_alloc_buffer(k.type, 0));
      weight->buffer = nowhere.get();
      if (!ggml_backend_dev_supports_op(k.device, of(scratch.get(), weight))) continue;
      if (!k.context) k.context.reset(ggml_init({4096 * ggml_tensor_overhead(), nullptr, true}));
      ggml_tensor* const placed = ggml_dup_tensor(k.context.get(), stored);
      ggml_set_name(placed, stored->name);
      return placed;
    }
    return nullptr;
  }

  /// Allocates all placed tensors, reads their data, and moves them to the model.
  void fill(const gguf_reader& from, model& m) {
    std::ifstream stream(from.file(), std::ios::binary);
    for (kind& k : kinds_) {
      if (!k.context) continue;
      m.buffers.emplace_back(ggml_backend_alloc_ctx_tensors_from_buft(k.context.get(), k.type));
      if (!m.buffers.back()) throw error(from.file(), "", "memory for the weights", "too little", lazyprune::error_code::no_memory);
      ggml_backend_buffer_set_usage(m.buffers.back().get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
      for (ggml_tensor* t = ggml_get_first_tensor(k.context.get()); t; t = ggml_get_next_tensor(k.context.get(), t)) from.read(stream, t);
      m.contexts.push_back(std::move(k.context));
    }
  }

 private:
  struct kind {
    ggml_backend_dev_t device;
    ggml_backend_buffer_type_t type;
    ggml_context_ptr context{};
  };
  std::vector<kind> kinds_;
};

}  // namespace detail

/// Loads a model. Throws `error` if the file is not a GGUF file, is cut off, or needs something that is not supported.
inline model load_model(const std::string& path, const devices& where) {
  detail::gguf_reader file(path);
  if (const std::string found = file.text("general.architecture"); found != "llama")
    file.refuse("metadata: general.architecture", "llama", found);
  file.refuse_other_keys("llama", {"vocab_size", "context_length", "embedding_length", "block_count", "feed_forward_length",
                                   "attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length",
                                   "attention.layer_norm_rms_epsilon", "rope.dimension_count", "rope.freq_base", "rope.scaling.type",
                                   "rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.finetuned"});
  const auto key = [](const char* name) { return std::string("llama.") + name; };
  model m{};
  m.hidden = file.whole(key("embedding_length"));
  m.feed_forward = file.whole(key("feed_forward_length"));
  m.positions = file.whole(key("context_length"));
  m.heads = file.whole(key("attention.head_count"));
  m.kv_heads = file.whole(key("attention.head_count_kv"), m.heads);
  m.head_dim = file.whole(key("attention.key_length"), std::max<std::int64_t>(1, m.hidden / m.heads));
  if (m.heads % m.kv_heads != 0)
    file.refuse("metadata: llama.attention.head_count_kv", "a divisor of " + std::to_string(m.heads), std::to_string(m.kv_heads));
  for (const char* name : {"attention.value_length", "rope.dimension_count"})
    if (const std::int64_t found = file.whole(key(name), m.head_dim); found != m.head_dim || found % 2 != 0)
      file.refuse("metadata: " + key(name), std::to_string(m.head_dim) + ", the width of a head, an even number", std::to_string(found));
  m.epsilon = file.number(key("attention.layer_norm_rms_epsilon"));
  m.rope_base = file.number(key("rope.freq_base"), 10000.0f);
  const std::string scaling = file.has(key("rope.scaling.type")) ? file.text(key("rope.scaling.type")) : "linear";
  if (scaling != "none" && scaling != "linear") file.refuse("metadata: llama.rope.scaling.type", "none or linear", scaling);
  m.rope_scale = scaling == "none" ? 1.0f : 1.0f / file.number(key("rope.scaling.factor"), 1.0f);

  const auto multiply = [](ggml_context* c, ggml_tensor* w) {
    return ggml_mul_mat(c, w, ggml_new_tensor_2d(c, GGML_TYPE_F32, w->ne[0], 512));
  };
  const auto look_up = [](ggml_context* c, ggml_tensor* w) { return ggml_get_rows(c, w, ggml_new_tensor_1d(c, GGML_TYPE_I32, 512)); };
  const auto scale = [](ggml_context* c, ggml_tensor* w) { return ggml_mul(c, ggml_new_tensor_2d(c, GGML_TYPE_F32, w->ne[0], 512), w); };
  const auto rotate = [](ggml_context* c, ggml_tensor* w) {
    return ggml_rope_ext(c, ggml_new_tensor_3d(c, GGML_TYPE_F32, 2 * w->ne[0], 1, 512), ggml_new_tensor_1d(c, GGML_TYPE_I32, 512), w,
                         static_cast<int>(2 * w->ne[0]), GGML_ROPE_TYPE_NORMAL, 0, 10000.0f, 1.0f, 0.0f, 1.0f, 0.0f, 0.0f);
  };
  detail::weight_memory memory(where);
  const auto place = [&](const ggml_tensor* stored, auto operation) {
    ggml_tensor* const placed = memory.place(stored, operation);
    if (!placed) file.refuse(std::string("tensors: ") + stored->name, "a type that some device computes", ggml_type_name(stored->type));
    return placed;
  };
  const auto matrix = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    return place(file.tensor(name, {in, out}), multiply);
  };
  const auto norm = [&](const std::string& name) { return place(file.tensor(name, {m.hidden}), scale); };

  // The number of rows of the embedding table is the vocabulary size. `file.tensor` then checks the table's width.
  m.vocabulary = file.rows("token_embd.weight");
  const ggml_tensor* const embedding = file.tensor("token_embd.weight", {m.hidden, m.vocabulary});
  const ggml_tensor* const head = file.tensor("output.weight", {m.hidden, m.vocabulary}, true);
  const ggml_tensor* const divisors = file.tensor("rope_freqs.weight", {m.head_dim / 2}, true);
  m.embedding = place(embedding, look_up);
  m.norm = norm("output_norm.weight");
  m.head = place(head ? head : embedding, multiply);  // tied embeddings get a second copy, in memory that products can read
  m.rope_divisors = divisors ? place(divisors, rotate) : nullptr;
  const std::int64_t q_size = m.heads * m.head_dim;
  for (std::int64_t l = 0; l < file.whole(key("block_count"), {}, 400); ++l) {
    const auto name = [&](const char* part) { return "blk." + std::to_string(l) + "." + part + ".weight"; };
    m.layers.push_back({.attention_norm = norm(name("attn_norm")),
                        .q = matrix(name("attn_q"), m.hidden, q_size),
                        .k = matrix(name("attn_k"), m.hidden, m.kv_size()),
                        .v = matrix(name("attn_v"), m.hidden, m.kv_size()),
                        .output = matrix(name("attn_output"), q_size, m.hidden),
                        .feed_forward_norm = norm(name("ffn_norm")),
                        .gate = matrix(name("ffn_gate"), m.hidden, m.feed_forward),
                        .up = matrix(name("ffn_up"), m.hidden, m.feed_forward),
                        .down = matrix(name("ffn_down"), m.feed_forward, m.hidden)});
  }
  file.refuse_unused();
  memory.fill(file, m);
  return m;
}

}  // namespace ggml_engine
