// SPDX-License-Identifier: MIT
// Reads the flags of both programs, run.cpp and bench.cpp. Makes the engine's settings and sessions from these flags.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/registry/make_session.hpp>
#include <lazyprune/registry/shipped_policies.hpp>

#include "engine.hpp"

namespace ggml_engine {

struct program_options {
  std::string model, ids, policy = "lazyllm", device;
  std::size_t tokens = 8, chunk = 0, forget = 0, prompt = 2048, repeat = 3, ubatch = 512, llama_ubatch = 512;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  ggml_type kv = GGML_TYPE_F16;
  bool flash_attention = true, full = false, logits = false;
};

/// Reads the flags that both programs have, and the flags in `flags`. Throws `error` for an unknown flag or a wrong value.
inline program_options read_options(int argc, char** argv, std::vector<std::string_view> flags) {
  program_options o;
  flags.insert(flags.begin(), {"-m", "--threads", "--kv", "--flash-attention", "--ubatch", "--device"});
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (std::ranges::find(flags, flag) == flags.end()) throw error("arguments", "", lazyprune::one_of_names(flags), flag);
    if (flag == "--full" || flag == "--logits") {
      (flag == "--full" ? o.full : o.logits) = true;
      continue;
    }
    if (++i == argc) throw error(flag, "", "a value", "none");
    const std::string_view value = argv[i];
    const auto number = [&](std::size_t least) {
      const auto n = lazyprune::number_in<std::size_t>(value);
      if (!n || *n < least || *n > 1u << 24)
        throw error(flag, "", "a whole number from " + std::to_string(least) + " to " + std::to_string(1u << 24), value);
      return *n;
    };
    const auto choice = [&](std::string_view yes, std::string_view no) {
      if (value != yes && value != no) throw error(flag, "", std::string(yes).append(" or ").append(no), value);
      return value == yes;
    };
    if (flag == "-m") o.model = value;
    if (flag == "--ids") o.ids = value;
    if (flag == "--policy") o.policy = value;
    if (flag == "--device") o.device = value;
    if (flag == "--tokens") o.tokens = number(1);
    if (flag == "--chunk") o.chunk = number(0);
    if (flag == "--forget") o.forget = number(0);
    if (flag == "--prompt") o.prompt = number(1);
    if (flag == "--repeat") o.repeat = number(1);
    if (flag == "--ubatch") o.ubatch = number(1);
    if (flag == "--llama-ubatch") o.llama_ubatch = number(1);
    if (flag == "--threads") o.threads = static_cast<int>(std::min<std::size_t>(number(1), 512));
    if (flag == "--kv") o.kv = choice("f16", "f32") ? GGML_TYPE_F16 : GGML_TYPE_F32;
    if (flag == "--flash-attention") o.flash_attention = choice("on", "off");
  }
  if (o.model.empty()) throw error("-m", "", "a GGUF file", "none");
  return o;
}

/// Turns off ggml's log on stderr. Errors are reported by exceptions.
inline void keep_quiet() {
  ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
}

/// Reads token ids between white space. Throws `error` if the file cannot be read, has no ids, or has an id beyond the vocabulary.
inline std::vector<token_id> read_ids(const std::string& path, std::int64_t vocabulary) {
  std::ifstream file(path);
  if (!file) throw error(path, "", "a file of token ids that can be read", "none", lazyprune::error_code::io);
  std::vector<token_id> ids;
  for (std::string word; file >> word;) {
    const auto id = lazyprune::number_in<token_id>(word);
    if (!id || *id >= vocabulary)
      throw error(path, "id " + std::to_string(ids.size()), "a whole number below " + std::to_string(vocabulary), word);
    ids.push_back(*id);
  }
  if (ids.empty()) throw error(path, "", "at least one token id", "none");
  return ids;
}

/// Returns a session for the text of a policy, such as "lazyllm --stages 9:0.7".
inline lazyprune::any_session session_of(const std::string& policy, const model& m) {
  return lazyprune::make_session(lazyprune::parse_policy(policy), {.layers = static_cast<layer_id>(m.layers.size())},
                                 lazyprune::shipped_policies());
}

inline engine_options engine_options_of(const program_options& o, const model& m, std::size_t tokens) {
  if (tokens > static_cast<std::size_t>(m.positions))
    throw error(o.model, "metadata: llama.context_length", "room for " + std::to_string(tokens) + " tokens, prompt and answer",
                std::to_string(m.positions));
  return {.max_tokens = tokens, .kv_type = o.kv, .flash_attention = o.flash_attention, .ubatch = o.ubatch};
}

}  // namespace ggml_engine
