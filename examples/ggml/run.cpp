// SPDX-License-Identifier: MIT
// Continues a prompt greedily, and prints a trace of what each layer computed. The trace has the format of lazyprune run --trace, which
// examples/VALIDATING.md describes. lazyprune compare compares two traces.
//   lazyprune_ggml -m FILE.gguf --ids FILE [--policy TEXT] [--tokens N] [--chunk N] [--threads N] [--kv f16|f32] [--flash-attention on|off]
//                  [--ubatch N] [--device NAME] [--forget N] [--full]
// --ids: the prompt, as token ids between white space. --full: the trace also has scores and logits. --forget: before each step, the engine
// reads a chunk of N tokens and takes it back. This must not change the result.
#include <cstdio>
#include <string_view>

#include <lazyprune/files/trace_file.hpp>
#include <lazyprune/model/sampler.hpp>

#include "engine.hpp"
#include "options.hpp"

namespace {

using namespace ggml_engine;

void run(const program_options& o) {
  if (o.ids.empty()) throw error("--ids", "", "a file of token ids", "none");
  const devices where = open_devices(o.device, o.threads);
  const model m = load_model(o.model, where);
  const std::vector<token_id> prompt = read_ids(o.ids, m.vocabulary);
  engine e(m, where, session_of(o.policy, m), engine_options_of(o, m, prompt.size() + o.tokens + o.forget));
  const std::vector<token_id> forgotten(o.forget, 0);

  std::span<const token_id> rest = prompt;
  std::vector<token_id> written;
  lazyprune::phase phase = lazyprune::phase::prefill;
  for (std::size_t s = 0; s < o.tokens; ++s) {
    lazyprune::step_trace trace{};
    trace.step = s;
    trace.tokens.assign(rest.begin(), rest.end());
    trace.layers.resize(m.layers.size());
    if (const std::size_t known = e.session().known(); o.forget > 0) {
      e.step(forgotten, phase, true, nullptr);
      e.truncate(known);
    }
    for (; o.chunk > 0 && rest.size() > o.chunk; rest = rest.subspan(o.chunk)) e.step(rest.first(o.chunk), phase, true, &trace);
    const std::span<const float> logits = e.step(rest, phase, false, &trace);
    trace.next = lazyprune::greedy(logits);
    if (o.full)
      trace.logits.assign(logits.begin(), logits.end());
    else
      for (lazyprune::layer_trace& layer : trace.layers) layer.scores.clear();
    std::printf("%s\n", lazyprune::to_line(trace).c_str());
    written = {trace.next};
    rest = written;
    phase = lazyprune::phase::decode;
  }
  const lazyprune::statistics& stats = e.session().stats();
  std::fprintf(stderr, "%zu rows computed, %zu of them revived; the dense model computes %zu\n", stats.rows, stats.revived,
               stats.dense_rows);
}

}  // namespace

int main(int argc, char** argv) try {
  ggml_engine::keep_quiet();
  run(ggml_engine::read_options(argc, argv, {"--ids", "--policy", "--tokens", "--chunk", "--forget", "--full"}));
} catch (const std::exception& fault) {
  std::fprintf(stderr, "lazyprune_ggml: %s\n", fault.what());
  return 1;
}
