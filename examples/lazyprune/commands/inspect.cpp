// SPDX-License-Identifier: MIT
#include "commands/inspect.hpp"

#include <array>
#include <iostream>
#include <map>
#include <optional>

#include <nlohmann/json.hpp>

#include "engine/engine.hpp"
#include "engine/memory_forecast.hpp"
#include "models/model_choice.hpp"
#include "models/sessions.hpp"
#include "tables/number_text.hpp"
#include "terminal/columns.hpp"
#include "words/model_words.hpp"

#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/model/config.hpp>
#include <lazyprune/session/any_session.hpp>
#include <lazyprune/text/end_of_generation.hpp>
#include <lazyprune/text/tokenizer.hpp>

namespace lazyprune {
namespace program {
namespace {

using json = nlohmann::ordered_json;

json rope_json(const rope_config& rope) {
  constexpr std::array<const char*, 5> names{"none", "linear", "llama3", "yarn", "longrope"};
  json result{{"theta", rope.theta}, {"scaling", names[static_cast<std::size_t>(rope.scaling)]}};
  if (rope.scaling != rope_scaling::none) result["factor"] = rope.factor;
  if (rope.original_positions > 0) result["original_positions"] = rope.original_positions;
  return result;
}

json config_json(const model_config& c) {
  json result{{"family", c.family},
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
  if (c.rotary_dim > 0) result["rotary_dim"] = c.rotary_dim;
  if (!c.windows.empty()) result["windows"] = c.windows;
  if (c.window_rope) result["window_rope"] = rope_json(*c.window_rope);
  if (c.activation != gate_activation::silu) result["activation"] = "gelu";
  if (c.embedding_scale != 1.0) result["embedding_scale"] = c.embedding_scale;
  if (c.attention_scale != 0.0) result["attention_scale"] = c.attention_scale;
  if (c.attention_soft_cap != 0.0) result["attention_soft_cap"] = c.attention_soft_cap;
  if (c.logit_soft_cap != 0.0) result["logit_soft_cap"] = c.logit_soft_cap;
  return result;
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

/// The totals of the tensors of each type. Quantized types also say whether the CPU backend keeps them quantized.
json types_json(const std::vector<tensor_entry>& tensors) {
  std::map<std::string, std::vector<tensor_entry>> by_type;
  for (const tensor_entry& tensor : tensors) by_type[tensor.type].push_back(tensor);
  json result = json::object();
  for (const auto& [type, of] : by_type) {
    result[type] = totals_json(of);
    if (const std::optional<bool> stays = stays_quantized(type)) result[type]["stays_quantized"] = *stays;
  }
  return result;
}

/// The name of a GGUF file's pre-tokenizer; null if the file names none.
json pre_json(const opened_model& model) {
  const std::optional<std::string> pre = model.pre_tokenizer();
  return pre ? json(*pre) : json(nullptr);
}

json tokenizer_json(const model_words& words, const opened_model& model) {
  if (words.tokens().fault())
    return {{"kind", nullptr}, {"pre", pre_json(model)}, {"vocabulary", nullptr}, {"not_usable", words.tokens().fault()->what()}};
  const std::optional<tokenizer>& tokens = words.tokens().get();
  if (!tokens) return nullptr;
  const auto id = [](const std::optional<token_id>& token) { return token ? json(*token) : json(nullptr); };
  return {{"kind", tokens->kind()},
          {"pre", pre_json(model)},
          {"vocabulary", tokens->size()},
          {"bos", id(tokens->bos())},
          {"eos", id(tokens->eos())},
          {"unknown", id(tokens->unknown())},
          {"adds_bos", tokens->adds_bos()},
          {"byte_fallback", tokens->byte_fallback()},
          {"end_of_generation", end_of_generation(*tokens, model.config().eos)}};
}

/// Adds the chat template's text, or why it cannot be used.
void add_chat_template(json& all, const model_words& words) {
  const found_once<chat_words> chat([&] { return words.find_chat(); });
  all["chat_template"] = !chat.fault() && chat.get() ? json(chat.get()->source()) : json(nullptr);
  if (chat.fault()) all["chat_template_not_usable"] = chat.fault()->what();
}

/// Returns true, or the reason why the model or its tokenizer cannot be used.
json supported_json(const opened_model& model, const std::vector<tensor_entry>& tensors, const model_words& words) {
  if (const auto fault = model.unsupported_reason()) return fault->what();
  if (tensors.empty()) return error(model.path().string(), "tensors", "the weights of a model", "none").what();
  if (const auto& fault = words.tokens().fault()) return fault->what();
  return true;
}

/// The memory that the model and a context of `context` tokens take on the cpu backend.
json memory_json(const opened_model& model, std::size_t context) {
  const memory_forecast whole = forecast_memory(model, {}, context, context);
  const bool bf16 = model.loaded_type("model.layers.0.self_attn.k_proj.weight") == dtype::bf16;
  const dtype stored = bf16 ? dtype::bf16 : dtype::f32;
  const context_memory memory = memory_of(model.config(), stored, stored, context);
  json by_type;
  for (const dtype kv : every_kv_type) by_type[lazyprune::name_of(kv)] = memory_of(model.config(), kv, stored, context).kv;
  return {{"context", context},
          {"weight_bytes", whole.weights},
          {"scratch_bytes", whole.scratch},
          {"kv_bytes_per_token", memory.kv_token},
          {"kv_bytes", memory.kv},
          {"kv_bytes_by_type", by_type},
          {"stored_row_bytes", memory.stored_row},
          {"stored_row_in_layers", static_cast<double>(memory.stored_row) / static_cast<double>(memory.kv_row)}};
}

/// Says which layers a chunk of a prompt runs: those before `first`.
std::string chunk_text(layer_id first, layer_id layers) {
  if (first == layers) return "none: a chunk of a prompt runs all layers";
  if (first == 0) return "0: a chunk of a prompt computes nothing";
  return std::to_string(first) + ": a chunk of a prompt runs the layers before this one, then its rows wait for the question";
}

/// Prints a line for each value. A nested value has a name like "rope.theta".
void print_lines(const json& object, const std::string& before = "  ") {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object())
      print_lines(value, before + key + ".");
    else
      std::cout << left(before + key, 26) << (value.is_string() ? value.get<std::string>() : value.dump()) << '\n';
  }
}

std::string_view name_of(stages_source from) {
  return from == stages_source::folder ? "lazyprune.json" : from == stages_source::program ? "program" : "pruning_file";
}

std::string stages_text(const json& all) {
  if (all["stages"].is_null()) return "none: dense unless --policy, --stages or --schedule is given";
  const std::string stages = all["stages"], from = all["stages_from"];
  if (from == name_of(stages_source::program)) return stages + ", by the program's table of models";
  return stages + (from == name_of(stages_source::folder) ? ", by its lazyprune.json" : ", by --pruning-file");
}

std::string totals_text(const json& totals) {
  return three_digits(totals["parameters"].get<double>() * 1e-6) + " million parameters, " +
         bytes_text(totals["bytes"].get<std::size_t>()) + ", " + three_digits(totals["bits_per_weight"].get<double>()) + " bits a weight";
}

std::string tokenizer_text(const json& tokens) {
  if (tokens.is_null()) return "none: the model has no tokenizer";
  if (tokens.contains("not_usable")) return "not usable: " + one_line(tokens["not_usable"].get<std::string>());
  return tokens["kind"].get<std::string>() + ", " + tokens["vocabulary"].dump() + " tokens";
}

std::string chat_template_text(const json& all) {
  if (all.contains("chat_template_not_usable")) return "not usable: " + one_line(all["chat_template_not_usable"].get<std::string>());
  if (all["chat_template"].is_null()) return "none: the model has no chat template";
  return std::to_string(all["chat_template"].get_ref<const std::string&>().size()) + " bytes; --json shows it";
}

std::string memory_text(const json& memory) {
  const auto bytes = [&](const char* key) { return memory[key].get<std::size_t>(); };
  return "about " + bytes_text(bytes("weight_bytes") + bytes("scratch_bytes") + bytes("kv_bytes")) + " with a context of " +
         memory["context"].dump() + " tokens, dense";
}

/// Answers what a user asks first: does the model run, how is it pruned, does it fit into memory?
void print_summary(const json& all) {
  const auto line = [](const char* label, const std::string& text) { std::cout << "  " << left(label, 24) << text << '\n'; };
  std::cout << one_line(all["model"].get<std::string>()) << "\n\n";
  if (all["supported"].is_boolean())
    std::cout << "supported\n";
  else
    std::cout << "not supported: " << one_line(all["supported"].get<std::string>()) << '\n';
  if (!all["config"].is_null()) {
    const json& config = all["config"];
    line("family", config["family"].get<std::string>() + ", " + config["layers"].dump() + " layers");
    line("known stages", stages_text(all));
    line("first pruning layer", chunk_text(all["first_pruning_layer"].get<layer_id>(), config["layers"].get<layer_id>()));
    line("memory", memory_text(all["memory"]));
  }
  line("weights", totals_text(all["totals"]));
  line("tokenizer", tokenizer_text(all["tokenizer"]));
  line("chat template", chat_template_text(all));
}

void print_memory(const json& memory) {
  std::string by_type;
  for (const dtype kv : every_kv_type)
    by_type += (by_type.empty() ? "" : ", ") + std::string(lazyprune::name_of(kv)) + ' ' +
               bytes_text(memory["kv_bytes_by_type"][lazyprune::name_of(kv)].get<std::size_t>());
  const double layers = memory["stored_row_in_layers"].get<double>();
  std::cout << "\nmemory of a context of " << memory["context"] << " tokens, dense\n  weights                 "
            << bytes_text(memory["weight_bytes"].get<std::size_t>()) << "\n  scratch, about          "
            << bytes_text(memory["scratch_bytes"].get<std::size_t>()) << "\n  keys and values         "
            << bytes_text(memory["kv_bytes"].get<std::size_t>()) << ", " << bytes_text(memory["kv_bytes_per_token"].get<std::size_t>())
            << " a token\n  with --kv               " << by_type << "\n  a row of the aux store  "
            << bytes_text(memory["stored_row_bytes"].get<std::size_t>()) << ", as much as the keys and values of " << three_digits(layers)
            << " layers:\n"
            << "                          pruning a token saves memory if more layers than that come after\n";
}

void print_tensors(const json& all) {
  std::cout << "\ntensors\n";
  for (const json& tensor : all["tensors"])
    std::cout << "  " << left(printable(tensor["name"].get<std::string>()), 52) << left(tensor["type"].get<std::string>(), 8)
              << left(tensor["shape"].dump(), 16) << right(bytes_text(tensor["bytes"].get<std::size_t>()), 10) << '\n';
  std::cout << "  " << all["totals"]["tensors"] << " tensors, " << totals_text(all["totals"]) << '\n';
  if (all["types"].size() > 1)
    for (const auto& [type, share] : all["types"].items())
      std::cout << "  " << left(type, 8) << right(bytes_text(share["bytes"].get<std::size_t>()), 10) << " in " << share["tensors"]
                << " tensors, " << three_digits(share["bits_per_weight"].get<double>()) << " bits a weight"
                << (share.value("stays_quantized", true) ? "" : ", loaded as bf16") << '\n';
}

void print(const json& all) {
  print_summary(all);
  std::cout << "  " << left("cpu path", 24) << all["isa"].get<std::string>() << " (LAZYPRUNE_ISA chooses one of ";
  for (const json& name : all["isas"]) std::cout << (name == all["isas"].front() ? "" : ", ") << name.get<std::string>();
  std::cout << ")\n";
  if (!all["config"].is_null()) {
    std::cout << "\nconfig\n";
    print_lines(all["config"]);
    print_memory(all["memory"]);
  }
  if (const json& tokens = all["tokenizer"]; !tokens.is_null() && !tokens.contains("not_usable")) {
    std::cout << "\ntokenizer\n";
    print_lines(tokens);
  }
  print_tensors(all);
}

}  // namespace

int inspect(const inspect_flags& flags, const policy_registry& policies) {
  check(backend_flags{});
  const opened_model model = opened_model::described(flags.model);
  const model_words words(model);
  const std::vector<tensor_entry> tensors = model.tensors();
  json all{{"version", 1}, {"model", model.path().string()}, {"supported", supported_json(model, tensors, words)}};
  for (const char* key : {"config", "stages", "stages_from", "first_pruning_layer", "memory"}) all[key] = nullptr;
  if (model.layers() > 0) {
    if (const auto stages = model.stages()) {
      all["stages"] = stages->text;
      all["stages_from"] = name_of(stages->from);
    }
    const any_session session = new_session(policy_for(flags.policy, model, policies).spec, model.config(), policies);
    all["config"] = config_json(model.config());
    all["first_pruning_layer"] = session.chunk_layers(phase::prefill);
    all["memory"] = memory_json(model, model.context(flags.context));
  }
  all["tensors"] = tensors_json(tensors);
  all["totals"] = totals_json(tensors);
  all["types"] = types_json(tensors);
  all["tokenizer"] = tokenizer_json(words, model);
  add_chat_template(all, words);
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
