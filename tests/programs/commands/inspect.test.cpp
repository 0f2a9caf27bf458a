// SPDX-License-Identifier: MIT
#include "programs/program.hpp"

#include <algorithm>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "files/gguf_writer.hpp"
#include "test_data.hpp"

TEST_CASE("the description of the bundled model as JSON") {
  const program_result result = lazyprune_program({"inspect", "--json", "-c", "1000"});
  REQUIRE(result.code == 0);
  const auto all = nlohmann::json::parse(result.out);
  CHECK(all["version"] == 1);
  CHECK(all["model"] == bundled_model);
  CHECK(all["config"]["hidden"] == 128);
  CHECK(all["config"]["layers"] == 6);
  CHECK(all["config"]["rope"]["theta"] == 1e7);
  CHECK(all["stages"] == "3:0.3,5:0.1");
  CHECK(all["stages_from"] == "lazyprune.json");
  CHECK(all["first_pruning_layer"] == 3);
  CHECK(all["tensors"].size() == 6 * 9 + 3);
  std::uint64_t bytes = 0;
  for (const auto& tensor : all["tensors"]) {
    CHECK(tensor["type"] == "BF16");
    bytes += tensor["bytes"].get<std::uint64_t>();
  }
  CHECK(all["totals"]["bytes"] == bytes);
  CHECK(all["totals"]["parameters"] == bytes / 2);
  CHECK(all["totals"]["bits_per_weight"] == 16.0);
  CHECK(all["types"] == nlohmann::json{{"BF16", all["totals"]}});
  CHECK(all["tokenizer"]["kind"] == "BPE");
  CHECK(all["tokenizer"]["pre"].is_null());
  CHECK(all["tokenizer"]["vocabulary"] == 2304);
  CHECK(all["chat_template"].is_null());
  CHECK(all["supported"] == true);
  CHECK(all["tokenizer"]["bos"] == 1);
  CHECK(all["tokenizer"]["end_of_generation"] == nlohmann::json{2});
  CHECK(all["memory"]["context"] == 1000);
  CHECK(all["memory"]["kv_bytes_per_token"] == 6 * 2 * 2 * 32 * 2);
  CHECK(all["memory"]["kv_bytes"] == 1000 * 6 * 2 * 2 * 32 * 2);
  CHECK(all["memory"]["kv_bytes_by_type"] == nlohmann::json{{"f32", 1000 * 6 * 2 * 2 * 32 * 4},
                                                            {"bf16", 1000 * 6 * 2 * 2 * 32 * 2},
                                                            {"f16", 1000 * 6 * 2 * 2 * 32 * 2},
                                                            {"q8_0", 1000 * 6 * 2 * 2 * 34}});
  CHECK(all["memory"]["stored_row_bytes"] == 128 * 2);
  CHECK(all["memory"]["stored_row_in_layers"] == 1.0);  // 128 / (2 * 2 * 32), both in bf16
  CHECK(all["isa"].is_string());
  CHECK(std::ranges::count(all["isas"], all["isa"]) == 1);
}

TEST_CASE("the description of the bundled model for people") {
  const program_result result = lazyprune_program({"inspect", "-m", bundled_model});
  REQUIRE(result.code == 0);
  for (const char* part :
       {"n_kv_heads", "model.layers.5.mlp.up_proj.weight", "1.48 million parameters, ", ", 16.0 bits a weight", "adds_bos",
        "of 4096 tokens", "cpu path ", "first pruning layer     3: a chunk of a prompt runs the layers before this one",
        " (LAZYPRUNE_ISA chooses one of "})
    CHECK_MESSAGE(result.out.find(part) != std::string::npos, part);
  // The summary comes first, and the tensors come last.
  std::size_t last = 0;
  for (const char* part : {"supported\n", "known stages", "memory  ", "tokenizer  ", "\nconfig\n", "\nmemory of a context", "\ntokenizer\n",
                           "\ntensors\n", "  57 tensors, 1.48 million parameters, "}) {
    const std::size_t at = result.out.find(part, last);
    REQUIRE_MESSAGE(at != result.out.npos, part);
    last = at;
  }
  CHECK(result.out.find('\n', last) == result.out.size() - 1);
  CHECK(complaint(lazyprune_program({"inspect", "-c", "5000"})) == complaint_at("--ctx-size", {"4096", ", found 5000"}));
}

TEST_CASE("the first pruning layer depends on the policy") {
  const auto first = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"inspect", "--json"});
    const program_result result = lazyprune_program(flags);
    REQUIRE(result.code == 0);
    return nlohmann::json::parse(result.out)["first_pruning_layer"];
  };
  CHECK(first({"--keep", "0-63", "--least-tokens", "512"}) == 3);  // these flags leave the known stages
  CHECK(first({"--policy", "lazyllm"}) == 1);
  CHECK(first({"--policy", "dense"}) == 6);
  CHECK(first({"--policy", "random"}) == 0);
  CHECK(first({"--stages", ""}) == 6);
  CHECK(first({"--stages", "4:0.5", "--decode", "dense"}) == 4);
  CHECK(first({"--stages", "4:0.5", "--decode", "only"}) == 6);
  CHECK(first({"--stages", "4:0.5", "--scorer", "window_attention:window=8"}) == 3);
  CHECK(first({"--schedule", "cosine:from=1,share=0.5"}) == 2);

  const auto line = [](const char* policy) { return lazyprune_program({"inspect", "--policy", policy}).out; };
  CHECK(line("dense").find("\n  first pruning layer     none: a chunk of a prompt runs all layers\n") != std::string::npos);
  CHECK(line("random").find("\n  first pruning layer     0: a chunk of a prompt computes nothing\n") != std::string::npos);
  CHECK(complaint(lazyprune_program({"inspect", "--stages", "6:0.5"})) == complaint_at("--stages: 6:0.5", {"1 to 5"}));
}

TEST_CASE("LAZYPRUNE_ISA chooses a path that the processor has; any other value is an error in every command that uses it") {
  const std::vector<std::string> isas = nlohmann::json::parse(lazyprune_program({"inspect", "--json"}).out)["isas"];
  std::string names;
  for (const std::string& name : isas) {
    CHECK(nlohmann::json::parse(lazyprune_program({"inspect", "--json"}, "", {"LAZYPRUNE_ISA=" + name}).out)["isa"] == name);
    const program_result run = lazyprune_program({"run", "--ids", "1,5,9", "-n", "1", "--json", "-t", "1"}, "", {"LAZYPRUNE_ISA=" + name});
    CHECK(nlohmann::json::parse(run.out)["isa"] == name);
    names += (names.empty() ? "" : ", ") + name;
  }
  for (const std::string name : {"avx2", "avx512", "avx512_bf16", "amx", "AVX2", "sse"}) {
    if (std::ranges::count(isas, name)) continue;
    for (const std::vector<std::string>& command : {std::vector<std::string>{"run", "--ids", "1", "-n", "1"},
                                                    {"inspect"},
                                                    {"bench", "-P", "8"},
                                                    {"bench", "--random-weights", "pocket"}})
      CHECK(complaint(lazyprune_program(command, "", {"LAZYPRUNE_ISA=" + name})) ==
            complaint_at("LAZYPRUNE_ISA", {names, ", found " + name}));
  }
  const program_result reference = lazyprune_program({"run", "--ids", "1", "-n", "1", "--backend", "reference"}, "", {"LAZYPRUNE_ISA=sse"});
  CHECK(reference.code == 0);  // the reference backend uses no instruction set
}

TEST_CASE("line breaks in a tensor's name are escaped") {
  const temporary_folder files;
  std::filesystem::copy(bundled_model, files.path());
  std::string weights = file_text(files / "model.safetensors");
  const std::string name = "\"model.norm.weight\"";
  const std::size_t at = weights.find(name);
  REQUIRE(at != weights.npos);
  write_file(files / "model.safetensors", weights.replace(at, name.size(), "\"model.\\u000aeight\""));  // the same length as before
  const program_result inspected = lazyprune_program({"inspect", "-m", files.path()});
  CHECK(inspected.code == 0);
  CHECK(inspected.out.find("model.\\x0aeight") != std::string::npos);
}

namespace {

nlohmann::json inspected(const std::string& model) {
  const program_result people = lazyprune_program({"inspect", "-m", model}), result = lazyprune_program({"inspect", "-m", model, "--json"});
  CHECK_MESSAGE(people.code == 0, people.err);
  CHECK_MESSAGE(result.code == 0, result.err);
  auto all = nlohmann::json::parse(result.out);
  CHECK((people.out.find("not supported: ") == std::string::npos) == (all["supported"] == true));
  return all;
}

/// The keys of a small model, without a vocabulary.
std::vector<std::string> llama_keys(std::uint32_t layers) {
  using lazyprune_test::gguf_key;
  return {gguf_key("general.architecture", "llama"),
          gguf_key("llama.embedding_length", std::uint32_t{4}),
          gguf_key("llama.block_count", layers),
          gguf_key("llama.context_length", std::uint32_t{64}),
          gguf_key("llama.feed_forward_length", std::uint32_t{8}),
          gguf_key("llama.attention.head_count", std::uint32_t{2}),
          gguf_key("llama.attention.layer_norm_rms_epsilon", 1e-5f)};
}

}  // namespace

TEST_CASE("stages come from lazyprune.json; a model without it that the program does not know stays dense") {
  const temporary_folder folder;
  write_file(folder / "m.gguf", lazyprune_test::gguf_model(llama_keys(20), {{"token_embd.weight", {4, 6}, 0, std::string(96, '\0')}}));
  const auto described = [&] { return lazyprune_program({"inspect", "-m", folder.path()}).out; };
  auto all = inspected(folder.path());
  CHECK(all["stages"].is_null());
  CHECK(all["stages_from"].is_null());
  CHECK(all["first_pruning_layer"] == 20);  // all layers: the model stays dense
  CHECK(described().find("\n  known stages            none: dense ") != std::string::npos);
  write_file(folder / "lazyprune.json", R"({"stages": "18:0.5"})");
  all = inspected(folder.path());
  CHECK(all["stages"] == "18:0.5");
  CHECK(all["stages_from"] == "lazyprune.json");
  CHECK(all["first_pruning_layer"] == 18);
  CHECK(described().find("\n  known stages            18:0.5, by its lazyprune.json\n") != std::string::npos);
}

TEST_CASE("a GGUF file without tensors is not supported") {
  const temporary_folder folder;
  std::vector<std::string> keys = llama_keys(2);
  keys.push_back(lazyprune_test::gguf_key("llama.vocab_size", std::uint32_t{6}));
  write_file(folder / "m.gguf", lazyprune_test::gguf_model(keys, {}));
  const auto all = inspected(folder / "m.gguf");
  CHECK(complaint_line(1, all["supported"].get<std::string>()) == complaint_at((folder / "m.gguf") + ": tensors"));
  CHECK(all["tensors"].empty());
}

TEST_CASE("a model that the library cannot compute is described, with the reason") {
  const temporary_folder folder;
  for (const char* name : {"model.safetensors", "tokenizer.model"})
    std::filesystem::create_symlink(bundled_model + "/" + name, folder / name);
  write_file(folder / "config.json", R"({"model_type": "mixtral"})");
  write_file(folder / "chat_template.jinja", "{{ messages }}");
  const auto all = inspected(folder.path());
  CHECK(complaint_line(1, all["supported"].get<std::string>()) == complaint_at((folder / "config.json") + ": model_type"));
  CHECK(all["config"].is_null());
  CHECK(all["first_pruning_layer"].is_null());
  CHECK(all["memory"].is_null());
  CHECK(all["tensors"].size() == 6 * 9 + 3);
  CHECK(all["tokenizer"]["vocabulary"] == 2304);
  CHECK(all["chat_template"] == "{{ messages }}");

  write_file(folder / "config.json", file_text(bundled_model + "/config.json"));
  write_file(folder / "chat_template.jinja", "{% include 'x' %}");
  std::filesystem::remove(folder / "tokenizer.model");
  write_file(folder / "tokenization_x.py", "");
  const auto other = inspected(folder.path());
  CHECK(other["supported"] == other["tokenizer"]["not_usable"]);
  for (const char* key : {"kind", "pre", "vocabulary"}) CHECK(other["tokenizer"].at(key).is_null());
  CHECK(complaint_line(1, other["supported"].get<std::string>()) == complaint_at((folder / "tokenization_x.py")));
  CHECK(other["chat_template_not_usable"].get<std::string>().starts_with((folder / "chat_template.jinja") + ": line 1, column 4: "));
  CHECK(other["config"]["layers"] == 6);

  write_file(folder / "config.json", "{");  // malformed, so not merely unsupported
  CHECK(complaint(lazyprune_program({"inspect", "-m", folder.path()})) == complaint_at((folder / "config.json") + ": byte 1"));
}

TEST_CASE("the types and the pre-tokenizer of a GGUF file, and a type that is not supported" NEEDS("data")) {
  const std::filesystem::path path = test_data("gguf/llama-q4_k_m.gguf"), other = test_data("gguf/llama-iq3_s.gguf");
  if (path.empty() || other.empty()) return;
  const auto all = inspected(path.string());
  CHECK(all["supported"] == true);
  CHECK(all["types"].contains("Q4_K"));
  CHECK(all["types"]["Q4_K"]["stays_quantized"] == true);
  CHECK_FALSE(all["types"]["F32"].contains("stays_quantized"));
  CHECK(inspected(test_data("gguf/llama-iq4_nl.gguf").string())["types"]["IQ4_NL"]["stays_quantized"] == true);
  CHECK(inspected(test_data("gguf/llama-mxfp4.gguf").string())["types"]["MXFP4"]["stays_quantized"] == false);
  CHECK(all["tokenizer"]["pre"] == "default");
  const auto refused = inspected(other.string());
  CHECK(refused["supported"].get<std::string>().ends_with(", found IQ3_S"));
}
