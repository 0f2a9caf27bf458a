// SPDX-License-Identifier: MIT
// Compares the engine with llama.cpp, on the same file and in one process.
//   lazyprune_ggml_bench -m FILE.gguf [--policy TEXT] [--prompt N] [--repeat N] [--ids FILE] [--threads N] [--kv f16|f32]
//                        [--flash-attention on|off] [--ubatch N] [--llama-ubatch N] [--device NAME] [--logits]
// Without --logits it prints the time to the first token in seconds, in alternating runs: llama.cpp's dense prefill, the engine's dense
// prefill, and the engine's prefill under the policy. It also prints the speedup that the cost model predicts from the number of rows.
// With --logits it keeps all tokens, and prints how far the engine's logits are from llama.cpp's. It also prints how far llama.cpp's logits
// are from its own logits with another number of threads.
// The prompt is the first tokens of --ids. Without --ids, the program makes up token ids.
#include <llama.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <string_view>

#include <lazyprune/model/cost_model.hpp>

#include "engine.hpp"
#include "options.hpp"

namespace {

using namespace ggml_engine;

struct model_deleter {
  void operator()(llama_model* m) const { llama_model_free(m); }
};
struct context_deleter {
  void operator()(llama_context* c) const { llama_free(c); }
};
using llama_model_ptr = std::unique_ptr<llama_model, model_deleter>;

llama_model_ptr load_llama(const program_options& o, const devices& where) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_params params = llama_model_default_params();
  if (where.backends.size() == 1) params.n_gpu_layers = 0;
  llama_model_ptr m(llama_model_load_from_file(o.model.c_str(), params));
  if (!m) throw error(o.model, "", "a file that llama.cpp can load", "one that it cannot");
  return m;
}

/// One sequence computed by llama.cpp.
class llama_run {
 public:
  llama_run(llama_model* m, const program_options& o, std::size_t tokens, int threads) : model_(m) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = static_cast<std::uint32_t>(tokens);
    params.n_ubatch = static_cast<std::uint32_t>(o.llama_ubatch);
    params.n_threads = params.n_threads_batch = threads;
    params.flash_attn_type = o.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.type_k = params.type_v = o.kv;
    context_.reset(llama_init_from_model(m, params));
    if (!context_) throw error(o.model, "", "a context of llama.cpp", "none");
  }

  void clear() { llama_memory_clear(llama_get_memory(context_.get()), false); }

  std::span<const float> step(std::span<const token_id> ids) {
    std::vector<llama_token> tokens(ids.begin(), ids.end());
    if (const int status = llama_decode(context_.get(), llama_batch_get_one(tokens.data(), static_cast<std::int32_t>(tokens.size()))))
      throw error("llama_decode", std::to_string(tokens.size()) + " tokens", "status 0", std::to_string(status));
    const auto vocabulary = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model_)));
    return {llama_get_logits_ith(context_.get(), -1), vocabulary};
  }

 private:
  llama_model* model_;
  std::unique_ptr<llama_context, context_deleter> context_;
};

std::vector<token_id> prompt_of(const program_options& o, const model& m) {
  if (!o.ids.empty()) {
    std::vector<token_id> ids = read_ids(o.ids, m.vocabulary);
    ids.resize(std::min(ids.size(), o.prompt));
    return ids;
  }
  if (m.vocabulary < 300) throw error("--ids", "", "a file of token ids, since the vocabulary has fewer than 300", "none");
  std::vector<token_id> ids(o.prompt);
  const auto words = static_cast<std::uint64_t>(m.vocabulary) - 259;  // any ids will do: the work does not depend on them
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<token_id>(259 + i * 7919 % words);
  return ids;
}

struct distance {
  // The largest difference, the sum of squared differences, the sum of squared logits, and the number of logits.
  double most = 0, squares = 0, of_logits = 0, count = 0;
  bool same_best = true, same_bits = true;

  void add(std::span<const float> a, std::span<const float> b) {
    if (a.size() != b.size()) throw error("logits", "", std::to_string(a.size()), std::to_string(b.size()));
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double apart = static_cast<double>(a[i]) - static_cast<double>(b[i]);
      most = std::max(most, std::abs(apart));
      squares += apart * apart;
      of_logits += static_cast<double>(a[i]) * static_cast<double>(a[i]);
    }
    count += static_cast<double>(a.size());
    same_best = same_best && std::ranges::max_element(a) - a.begin() == std::ranges::max_element(b) - b.begin();
    same_bits = same_bits && std::ranges::equal(a, b);
  }

  void print(const char* what) const {
    if (same_bits)
      std::printf("  %-42s the same, every bit\n", what);
    else
      std::printf("  %-42s %.1e of the logits (r.m.s.), %.1e at most; the best token %s\n", what, std::sqrt(squares / of_logits),
                  most / std::sqrt(of_logits / count), same_best ? "is the same" : "DIFFERS");
  }
};

/// Compares the logits after the prompt, and after each of four decode steps.
void hold_logits(const program_options& o) {
  constexpr std::size_t more = 4;
  const devices where = open_devices(o.device, o.threads);
  const model m = load_model(o.model, where);
  const llama_model_ptr peer = load_llama(o, where);
  const std::vector<token_id> ids = prompt_of(o, m);
  if (ids.size() <= more) throw error("--prompt", "", "more than 4 tokens", std::to_string(ids.size()));
  engine ours(m, where, session_of("dense", m), engine_options_of(o, m, ids.size()));
  llama_run theirs(peer.get(), o, ids.size(), o.threads), others(peer.get(), o, ids.size(), o.threads == 1 ? 2 : 1);
  const auto both_read = [&](std::span<const token_id> next, lazyprune::phase phase, distance& of_ours, distance& of_theirs) {
    const std::span<const float> expected = theirs.step(next);
    of_ours.add(expected, ours.step(next, phase, false, nullptr));
    of_theirs.add(expected, others.step(next));
  };
  distance prompt, prompt_of_theirs, decoded, decoded_of_theirs;
  const std::size_t read = ids.size() - more;
  both_read(std::span(ids).first(read), lazyprune::phase::prefill, prompt, prompt_of_theirs);
  for (std::size_t i = read; i < ids.size(); ++i)
    both_read(std::span(ids).subspan(i, 1), lazyprune::phase::decode, decoded, decoded_of_theirs);
  std::printf("%zu tokens, %d threads, keys and values %s, flash attention %s: distance from llama.cpp's logits\n", read, o.threads,
              ggml_type_name(o.kv), o.flash_attention ? "on" : "off");
  const std::string other = std::string("llama.cpp on ") + (o.threads == 1 ? "2 threads" : "1 thread");
  prompt.print("the engine, after the prompt");
  decoded.print("the engine, the next 4 tokens");
  prompt_of_theirs.print((other + ", after the prompt").c_str());
  decoded_of_theirs.print((other + ", the next 4 tokens").c_str());
}

double median(std::vector<double> list) {
  std::ranges::sort(list);
  const std::size_t half = list.size() / 2;
  return list.size() % 2 == 1 ? list[half] : (list[half - 1] + list[half]) / 2;
}

/// The wall time of each run, and its processor time summed over all threads, both in seconds. Other processes on the machine affect only
/// the wall time, unless this program's threads wait by spinning.
struct times {
  std::vector<double> seconds{}, processor{};
};

void time_prompts(const program_options& o) {
  const devices where = open_devices(o.device, o.threads);
  const model m = load_model(o.model, where);
  const llama_model_ptr peer = load_llama(o, where);
  const std::vector<token_id> ids = prompt_of(o, m);
  const engine_options options = engine_options_of(o, m, ids.size());
  engine dense(m, where, session_of("dense", m), options), pruned(m, where, session_of(o.policy, m), options);
  llama_run theirs(peer.get(), o, ids.size(), o.threads);

  const auto timed = [](times& to, bool counts, auto work) {
    const std::clock_t processor = std::clock();
    const auto start = std::chrono::steady_clock::now();
    work();
    if (!counts) return;
    to.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    to.processor.push_back(static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC);
  };
  times of_llama, of_dense, of_pruned;
  std::vector<std::size_t> rows(m.layers.size(), 0), all(m.layers.size(), ids.size());
  for (std::size_t r = 0; r <= o.repeat; ++r) {
    const bool counts = r > 0;  // the first run warms up
    const std::span<const token_id> prompt = std::span(ids).first(counts ? ids.size() : std::min<std::size_t>(ids.size(), 64));
    theirs.clear();
    dense.truncate(0);
    pruned.truncate(0);
    const std::vector<std::size_t> before = pruned.session().stats().prefill_rows;
    timed(of_llama, counts, [&] { theirs.step(prompt); });
    timed(of_dense, counts, [&] { dense.step(prompt, lazyprune::phase::prefill, false, nullptr); });
    timed(of_pruned, counts, [&] { pruned.step(prompt, lazyprune::phase::prefill, false, nullptr); });
    std::ranges::transform(pruned.session().stats().prefill_rows, before, rows.begin(), std::minus());
  }

  lazyprune::model_config shape;
  shape.hidden = static_cast<std::size_t>(m.hidden);
  shape.ffn = static_cast<std::size_t>(m.feed_forward);
  shape.n_heads = static_cast<std::size_t>(m.heads);
  shape.n_kv_heads = static_cast<std::size_t>(m.kv_heads);
  shape.head_dim = static_cast<std::size_t>(m.head_dim);
  shape.vocabulary = static_cast<std::size_t>(m.vocabulary);
  const lazyprune::cost_model operations;
  const double promised = operations.prefill(shape, all) / operations.prefill(shape, rows);
  std::printf("%zu tokens, %d threads, keys and values %s, flash attention %s; medians of %zu: seconds (range), processor seconds\n",
              ids.size(), o.threads, ggml_type_name(o.kv), o.flash_attention ? "on" : "off", o.repeat);
  const auto line = [](const char* what, const times& t) {
    const auto [least, most] = std::ranges::minmax(t.seconds);
    std::printf("%-24s %8.3f (%.3f to %.3f) %8.3f\n", what, median(t.seconds), least, most, median(t.processor));
  };
  line("llama.cpp, dense", of_llama);
  line("the engine, dense", of_dense);
  line("the engine, pruned", of_pruned);
  std::printf("%-24s %8.2fx\n", "predicted speedup", promised);
  const auto share = [&](const char* beside, const times& t) {
    const double faster = median(t.seconds) / median(of_pruned.seconds), less = median(t.processor) / median(of_pruned.processor);
    std::printf("%-24s %8.2fx, %.2f of the predicted; in processor time %.2fx, %.2f of the predicted\n", beside, faster, faster / promised,
                less, less / promised);
  };
  share("speedup over llama.cpp", of_llama);
  share("speedup over dense", of_dense);
}

}  // namespace

int main(int argc, char** argv) try {
  ggml_engine::keep_quiet();
  const auto o = ggml_engine::read_options(argc, argv, {"--policy", "--prompt", "--repeat", "--ids", "--llama-ubatch", "--logits"});
  if (o.logits)
    hold_logits(o);
  else
    time_prompts(o);
} catch (const std::exception& fault) {
  std::fprintf(stderr, "lazyprune_ggml_bench: %s\n", fault.what());
  return 1;
}
