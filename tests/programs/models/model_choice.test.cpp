// SPDX-License-Identifier: MIT
// Tests broken model directories: the program prints one line that names the file, and exits with 1.
#include "models/model_choice.hpp"

#include <filesystem>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "programs/program.hpp"
#include "test_data.hpp"

namespace {

/// A copy of the bundled model for a test to break.
struct spoiled_model {
  temporary_folder files;

  spoiled_model() { std::filesystem::copy(bundled_model, files.path()); }

  void replace(const std::string& file, std::string_view from, std::string_view to) {
    std::string text = file_text(files / file);
    const std::size_t at = text.find(from);
    REQUIRE(at != text.npos);
    write_file(files / file, text.replace(at, from.size(), to));
  }
  complaint_line complaint_of(const std::string& command) {
    return complaint(command == "run" ? lazyprune_program({"run", "-m", files.path(), "-p", "x", "-n", "1", "--json"})
                                      : lazyprune_program({command, "-m", files.path()}));
  }
  /// Checks that all these commands report the same error.
  void check(const std::string& where, std::vector<std::string> values = {},
             const std::vector<const char*>& commands = {"run", "inspect", "bench"}) {
    for (const char* command : commands) {
      CAPTURE(command);
      CHECK(complaint_of(command) == complaint_at(files.path() + where, values));
    }
  }
};

}  // namespace

TEST_CASE("a model has the name of its folder; the bundled model is called pocket") {
  using lazyprune::program::model_name;
  const temporary_folder files;
  std::filesystem::create_directories(files / "some/model-7b");
  const std::filesystem::path folder = files / "some/model-7b";
  CHECK(model_name(folder) == "model-7b");
  CHECK(model_name(folder / "") == "model-7b");
  CHECK(model_name(folder / ".") == "model-7b");
  CHECK(model_name(folder / ".." / "model-7b") == "model-7b");
  CHECK(model_name(".") == std::filesystem::current_path().filename());
  CHECK(model_name(bundled_model) == "pocket");
  CHECK(model_name(bundled_model + "/") == "pocket");
  std::filesystem::create_directory(files / "model");
  CHECK(model_name(files / "model") == "model");
  CHECK(model_name(files / "some/Model-1.5B-Q4_K_M.gguf") == "Model-1.5B-Q4_K_M");
}

TEST_CASE("a missing directory, and a directory without a model") {
  CHECK(complaint(lazyprune_program({"inspect", "-m", "/nowhere"})) == complaint_at("/nowhere", {"GGUF"}));
  const temporary_folder empty;
  CHECK(complaint(lazyprune_program({"inspect", "-m", empty.path()})) == complaint_at(empty.path(), {".gguf"}));
  write_file(empty / "file", "");
  CHECK(complaint(lazyprune_program({"run", "-p", "x", "-m", empty / "file"})) == complaint_at(empty / "file", {"GGUF"}));
}

TEST_CASE("a GGUF file is accepted as a model" NEEDS("data")) {
  const auto data = test_data("gguf");
  if (data.empty()) return;
  const std::string file = data / "llama-f32.gguf", folder = data / "llama";
  const auto tokens = [](const std::string& model) {
    const program_result result = lazyprune_program(
        {"run", "-m", model, "--ids", "1,17,30,4,200,9,81", "-n", "8", "--ignore-eos", "-t", "1", "--stages", "1:0.5", "--json"});
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    return nlohmann::json::parse(result.out)["tokens"];
  };
  CHECK(tokens(file) == tokens(folder));
  const temporary_folder cache;  // as of a program that names model files by their hash
  std::filesystem::create_symlink(file, cache / "sha256-0123abcd");
  CHECK(tokens(cache / "sha256-0123abcd") == tokens(file));
  CHECK(lazyprune_program({"tokenize", "-m", cache / "sha256-0123abcd", "-p", "hi there"}).out ==
        lazyprune_program({"tokenize", "-m", file, "-p", "hi there"}).out);
  const program_result inspected = lazyprune_program({"inspect", "--json", "-m", data / "llama-q4_k_m.gguf"});
  REQUIRE(inspected.code == 0);
  const auto all = nlohmann::json::parse(inspected.out);
  CHECK(all["types"]["Q4_K"]["bits_per_weight"] == 4.5);
  CHECK(all["types"]["Q6_K"]["bits_per_weight"] == 6.5625);
  CHECK(all["tensors"][0]["name"] == "blk.0.attn_k.weight");
  CHECK(all["memory"]["stored_row_bytes"] == 256 * 2);  // widened to bf16
  CHECK(complaint(lazyprune_program({"inspect", "-m", data})) == complaint_at(data.string()));
}

TEST_CASE("a config that is not JSON, lacks a key, or asks for an unsupported feature") {
  spoiled_model model;
  model.replace("config.json", "\"hidden_size\": 128,", "\"hidden_size\": 128");
  for (const char* command : {"run", "inspect", "bench"})
    CHECK(model.complaint_of(command).where.starts_with(model.files / "config.json: byte "));
  spoiled_model lacking;
  lacking.replace("config.json", "\"hidden_size\": 128,", "");
  lacking.check("/config.json", {"\"hidden_size\""});
  spoiled_model dynamic;
  dynamic.replace("config.json", "\"rope_scaling\": null", "\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}");
  dynamic.check("/config.json: rope_scaling.rope_type", {"default, linear, llama3, yarn or longrope", "\"dynamic\""},
                {"run", "bench"});  // not inspect, which describes such a model
  spoiled_model other;
  other.replace("config.json", "\"model_type\": \"llama\"", "\"model_type\": \"gpt2\"");
  other.check("/config.json: model_type", {"llama, mistral, qwen2, qwen3, phi3, gemma2 or gemma3_text", "\"gpt2\""}, {"run", "bench"});
}

TEST_CASE("weights that are missing, truncated or of another shape") {
  spoiled_model missing;
  std::filesystem::remove(missing.files / "model.safetensors");
  missing.check("", {"model.safetensors or model.safetensors.index.json"});
  spoiled_model cut;
  std::filesystem::resize_file(cut.files / "model.safetensors", 1'000'000);
  cut.check("/model.safetensors: header: tensor model.embed_tokens.weight: data_offsets", {", found 1179648"});
  spoiled_model empty;
  std::filesystem::resize_file(empty.files / "model.safetensors", 0);
  empty.check("/model.safetensors");
  spoiled_model narrow;
  narrow.replace("config.json", "\"intermediate_size\": 256", "\"intermediate_size\": 255");
  CHECK(narrow.complaint_of("run").starts_with(narrow.files / "model.safetensors: tensor model.layers.0.mlp."));
}

TEST_CASE("a broken tokenizer, and recommended stages that do not fit the model") {
  spoiled_model tokens;
  std::filesystem::remove(tokens.files / "tokenizer.json");  // tokenizer.json is read first, if it exists
  std::filesystem::resize_file(tokens.files / "tokenizer.model", 1000);
  CHECK(tokens.complaint_of("run").starts_with(tokens.files / "tokenizer.model: "));
  const std::vector<std::string> ids{"run", "-m", tokens.files.path(), "--ids", "1,5,9", "-n", "1", "-t", "1"};
  std::vector<std::string> more = ids;
  more.push_back("--json");
  const program_result by_ids = lazyprune_program(more);
  CHECK(by_ids.code == 0);
  CHECK(by_ids.out.find("\"text\":null") != std::string::npos);
  CHECK(by_ids.err.find("the tokenizer cannot be used: " + (tokens.files / "tokenizer.model: ")) != std::string::npos);
  CHECK(by_ids.err.find('\n') == by_ids.err.size() - 1);
  more = ids;
  more.insert(more.end(), {"--stop", "x"});
  CHECK(complaint(lazyprune_program(more)).starts_with(tokens.files / "tokenizer.model: "));
  const program_result inspected = lazyprune_program({"inspect", "-m", tokens.files.path()});
  CHECK(inspected.code == 0);
  CHECK(inspected.out.find(" not usable: " + (tokens.files / "tokenizer.model: ")) != std::string::npos);

  spoiled_model stages;
  stages.replace("lazyprune.json", "5:0.1", "6:0.1");
  const complaint_line said = stages.complaint_of("run");
  CHECK(said == complaint_at(stages.files / "lazyprune.json: --stages: 3:0.3,6:0.1", {"1 to 5", ", found 6"}));
  CHECK(said.find("expected", said.find("expected") + 1) == said.npos);
  // --policy lazyllm does not use the recommended stages.
  CHECK(lazyprune_program({"run", "-m", stages.files.path(), "-p", "x", "-n", "1", "--policy", "lazyllm"}).code == 0);
  CHECK(stages.complaint_of("inspect") == said);
  CHECK(lazyprune_program({"inspect", "-m", stages.files.path(), "--policy", "lazyllm"}).code == 0);
  spoiled_model unknown;
  unknown.replace("lazyprune.json", "stages", "stage");
  CHECK(unknown.complaint_of("run").starts_with(unknown.files / "lazyprune.json: stage: "));
}
