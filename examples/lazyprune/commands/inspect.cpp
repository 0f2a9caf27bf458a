// SPDX-License-Identifier: MIT
#include "commands/inspect.hpp"

#include <array>
#include <initializer_list>
#include <iostream>
#include <map>
#include <optional>

#include <nlohmann/json.hpp>

#include "engine/engine.hpp"
#include "engine/model_choice.hpp"
#include "engine/sessions.hpp"
#include "tables/number_text.hpp"
#include "terminal/columns.hpp"

#include <lazyprune/backend/cpu/packed_kv.hpp>
#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/io/text.hpp>
#include <lazyprune/io/tokenizer.hpp>
#include <lazyprune/model/config.hpp>
#include <lazyprune/session/any_session.hpp>

namespace lazyprune {
namespace program {
namespace {

using json = nlohmann::ordered_json;

json rope_json(const rope_config& rope) {
  constexpr std::array<const char*, 4> names{"none", "linear", "llama3", "yarn"};
  json result{{"theta", rope.theta}, {"scaling", names[static_cast<std::size_t>(rope.scaling)]}};
  if (rope.scaling != rope_scaling::none) result["factor"] = rope.factor;
  if (rope.original_positions > 0) result["original_positions"] = rope.original_positions;
  return result;
}

json config_json(const model_config& c) {
  return {{"family", c.family},
          {"vocabulary", c.vocabulary},
          {"hidden", c.hidden},
          {"layers", c.layers},
          {"n_heads", c.n_heads},
          {"n_kv_heads", c.n_kv_heads},
          {"head_dim", c.head_dim},
          {"ffn", c.ffn},
          {"max_positions", c.max_positions},
          {"rms_epsilon", c.rms_epsilon},
          {"rope", rope_json(c.rope)},
          {"tied", c.tied},
          {"qkv_bias", c.qkv_bias},
          {"output_bias", c.output_bias},
          {"mlp_bias", c.mlp_bias},
          {"qk_norm", c.qk_norm},
          {"bos", c.bos},
          {"eos", c.eos}};
}

json tensors_json(const std::vector<tensor_entry>& tensors) {
  json list = json::array();
  for (const tensor_entry& tensor : tensors)
    list.push_back({{"name", tensor.name}, {"type", tensor.type}, {"shape", tensor.shape}, {"bytes", tensor.bytes}});
  return list;
}

json totals_json(const std::vector<tensor_entry>& tensors) {
  std::uint64_t parameters = 0, bytes = 0;
  for (const tensor_entry& tensor : tensors) {
    std::uint64_t elements = 1;
    for (const std::uint64_t n : tensor.shape) elements *= n;
    parameters += elements;
    bytes += tensor.bytes;
  }
  const double bits = parameters == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(parameters);
  return {{"tensors", tensors.size()}, {"parameters", parameters}, {"bytes", bytes}, {"bits_per_weight", bits}};
}

/// The same for the tensors of each type.
json types_json(const std::vector<tensor_entry>& tensors) {
  std::map<std::string, std::vector<tensor_entry>> by_type;
  for (const tensor_entry& tensor : tensors) by_type[tensor.type].push_back(tensor);
  json result = json::object();
  for (const auto& [type, of] : by_type) result[type] = totals_json(of);
  return result;
}

json tokenizer_json(const opened_model& model) {
  std::optional<tokenizer> tokenizer;
  try {
    tokenizer = model.load_tokenizer();
  } catch (const error& fault) {
    if (fault.code() == error_code::io) throw;
    return {{"not_usable", fault.what()}};
  }
  if (!tokenizer) return nullptr;
  const auto id = [](const std::optional<token_id>& token) { return token ? json(*token) : json(nullptr); };
  return {{"pieces", tokenizer->size()},     {"bos", id(tokenizer->bos())},       {"eos", id(tokenizer->eos())},
          {"unknown", id(tokenizer->unknown())}, {"adds_bos", tokenizer->adds_bos()}, {"byte_fallback", tokenizer->byte_fallback()}};
}

/// Throws `error` where it does not fit: a config may have any numbers.
std::size_t product(std::initializer_list<std::size_t> factors) {
  std::size_t result = 1;
  for (const std::size_t factor : factors)
    if (__builtin_mul_overflow(result, factor, &result))
      throw error("config.json", "", "sizes whose memory can be counted", "too large ones");
  return result;
}

/// The memory that a context takes on the cpu backend: keys, values and stored rows are in bf16 where the weights are.
json memory_json(const opened_model& model, std::size_t context) {
  const model_config& c = model.config();
  const bool bf16 = model.loaded_type("model.layers.0.self_attn.k_proj.weight") == dtype::bf16;
  const dtype type = bf16 ? dtype::bf16 : dtype::f32;
  product({2, packed_kv::block_slots, c.n_kv_heads, c.head_dim + 31, sizeof(float)});  // a block's, counted below: it must fit
  const std::size_t row = product({c.hidden, size_of(type)}), per_layer = packed_kv::slot_bytes(c.n_kv_heads, c.head_dim, type);
  return {{"context", context},
          {"kv_bytes_per_token", product({c.layers, per_layer})},
          {"kv_bytes", product({context, c.layers, per_layer})},
          {"stored_row_bytes", row},
          {"stored_row_in_layers", static_cast<double>(row) / static_cast<double>(per_layer)}};
}

/// What a chunk of a prompt does, which runs `first` of the layers.
std::string chunk_text(layer_id first, layer_id layers) {
  if (first == layers) return "none: a chunk of a prompt runs all layers";
  if (first == 0) return "0: a chunk of a prompt computes nothing";
  return std::to_string(first) + ": a chunk of a prompt runs so many layers before its rows wait";
}

/// Prints one line a value; a nested one is called "rope.theta".
void print_lines(const json& object, const std::string& before = "  ") {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object())
      print_lines(value, before + key + ".");
    else
      std::cout << left(before + key, 26) << (value.is_string() ? value.get<std::string>() : value.dump()) << '\n';
  }
}

void print(const json& all) {
  std::cout << one_line(all["model"].get<std::string>()) << "\n\nconfig\n";
  print_lines(all["config"]);
  std::cout << "  " << left("recommended stages", 24) << (all["stages"].is_null() ? "none" : all["stages"].get<std::string>()) << "\n  "
            << left("first pruning layer", 24)
            << chunk_text(all["first_pruning_layer"].get<layer_id>(), all["config"]["layers"].get<layer_id>()) << "\n\ntensors\n";
  for (const json& tensor : all["tensors"])
    std::cout << "  " << left(printable(tensor["name"].get<std::string>()), 52) << left(tensor["type"].get<std::string>(), 8)
              << left(tensor["shape"].dump(), 16) << right(bytes_text(tensor["bytes"].get<std::size_t>()), 10) << '\n';
  const json& totals = all["totals"];
  std::cout << "  " << totals["tensors"] << " tensors, " << three_digits(totals["parameters"].get<double>() * 1e-6)
            << " million parameters, " << bytes_text(totals["bytes"].get<std::size_t>()) << ", "
            << three_digits(totals["bits_per_weight"].get<double>()) << " bits a weight\n";
  if (all["types"].size() > 1)
    for (const auto& [type, share] : all["types"].items())
      std::cout << "  " << left(type, 8) << right(bytes_text(share["bytes"].get<std::size_t>()), 10) << " in " << share["tensors"]
                << " tensors, " << three_digits(share["bits_per_weight"].get<double>()) << " bits a weight\n";
  std::cout << "\ntokenizer\n";
  if (all["tokenizer"].is_null())
    std::cout << "  none: the model has no tokenizer\n";
  else if (all["tokenizer"].contains("not_usable"))
    std::cout << "  not usable: " << one_line(all["tokenizer"]["not_usable"].get<std::string>()) << '\n';
  else
    print_lines(all["tokenizer"]);
  const json& memory = all["memory"];
  const double layers = memory["stored_row_in_layers"].get<double>();
  std::cout << "\nmemory of a context of " << memory["context"] << " tokens, dense\n  keys and values         "
            << bytes_text(memory["kv_bytes"].get<std::size_t>()) << ", " << bytes_text(memory["kv_bytes_per_token"].get<std::size_t>())
            << " a token\n  a row of the aux store  " << bytes_text(memory["stored_row_bytes"].get<std::size_t>())
            << ", as much as the keys and values of " << three_digits(layers) << " layers:\n"
            << "                          a token pruned with more layers than that above it saves memory\n\ncpu path: "
            << all["isa"].get<std::string>() << ", of ";
  for (const json& name : all["isas"]) std::cout << (name == all["isas"].front() ? "" : ", ") << name.get<std::string>();
  std::cout << "; LAZYPRUNE_ISA chooses\n";
}

}  // namespace

int inspect(const inspect_flags& flags, const policy_registry& policies) {
  check(backend_flags{});
  const opened_model model(flags.model);
  const std::size_t context = model.context(flags.context);
  const any_session session = new_session(with_recommended_stages(flags.policy, model, policies), model.layers(), policies);
  const std::vector<tensor_entry> tensors = model.tensors();
  json all;
  all["version"] = 1;
  all["model"] = model.path().string();
  all["config"] = config_json(model.config());
  all["stages"] = model.stages() ? json(*model.stages()) : json(nullptr);
  all["first_pruning_layer"] = session.chunk_layers(phase::prefill);
  all["tensors"] = tensors_json(tensors);
  all["totals"] = totals_json(tensors);
  all["types"] = types_json(tensors);
  all["tokenizer"] = tokenizer_json(model);
  all["memory"] = memory_json(model, context);
  all["isa"] = isa_of({});
  all["isas"] = isas_here();
  if (flags.json)
    std::cout << all.dump(-1, ' ', false, json::error_handler_t::replace) << '\n';
  else
    print(all);
  return 0;
}

}  // namespace program
}  // namespace lazyprune
