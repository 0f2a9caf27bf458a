// SPDX-License-Identifier: MIT
// Computes a model in several ways, and prints how far the logits are from those of its dequantized weights in float.
//
//   bench.rounding MODEL IDS [LOGITS]
//
// IDS is a file of token ids, separated by spaces. The model reads them as one prompt, and every token gives a row of logits. LOGITS is a
// file with another program's rows, as float32 (llama_cpp_logits.py writes one).
#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/transformer.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using lazyprune::dtype, lazyprune::token_id;

/// Computes in float, but rounds the operands of products to 8 bits, with one scale for each `group` of their numbers.
class grouped_activations : public lazyprune::cpu {
 public:
  explicit grouped_activations(std::size_t group) : cpu({.kv = dtype::f32, .exact = true}), group_(group) {}

  void multiply(const operand& x, const matrix& w, const parameters* bias, lazyprune::rows_view<float> out) {
    cpu::multiply(rounded(x, w), w, bias, out);
  }
  void multiply_add(const operand& x, const matrix& w, const parameters* bias, lazyprune::rows_view<float> out) {
    cpu::multiply_add(rounded(x, w), w, bias, out);
  }
  void gated_multiply(const operand& x, const matrix& w, const parameters* bias, lazyprune::gate_activation gate, operand& out) {
    cpu::gated_multiply(rounded(x, w), w, bias, gate, out);
  }

 private:
  operand rounded(const operand& x, const matrix& w) const {
    std::vector<float> numbers(x.rows() * x.columns());
    read(x, numbers.data());
    for (std::size_t row = 0; row < x.rows(); ++row)
      for (std::size_t first = 0; first < x.columns(); first += group_) {
        const auto all = std::span(numbers).subspan(row * x.columns() + first, std::min(group_, x.columns() - first));
        float most = 0;
        for (const float number : all) most = std::max(most, std::abs(number));
        if (most == 0) continue;
        for (float& number : all) number = std::nearbyint(number * (127 / most)) * (most / 127);
      }
    operand to(x.columns());
    prepare(to, x.rows(), w);
    pack_rows({numbers.data(), x.rows(), x.columns(), x.columns()}, to);
    return to;
  }

  std::size_t group_;
};

/// Returns the rows of logits (tokens, vocabulary).
template <class Backend>
std::vector<float> logits_in(Backend& backend, const lazyprune::checkpoint& files, std::optional<dtype> as, std::span<const token_id> ids) {
  const auto net = load_model(backend, files, {.as = as});
  lazyprune::workspace<Backend> work(net, backend);
  lazyprune::sequence<Backend> text(
      net, lazyprune::any_session(lazyprune::dense(), {.layers = static_cast<lazyprune::layer_id>(net.config.layers)}));
  const lazyprune::sequence_step<Backend> step{text, ids, lazyprune::phase::prefill, ids.size()};
  if (!forward(work, step)) throw std::logic_error("the step was stopped");  // no observer stops it
  const auto logits = read_logits(work, 0, ids.size());
  return {logits.begin(), logits.end()};
}

std::vector<float> logits_of(const lazyprune::checkpoint& files, const lazyprune::execution& how, std::optional<dtype> as,
                             std::span<const token_id> ids) {
  lazyprune::cpu backend(how);
  return logits_in(backend, files, as, ids);
}

struct row_of_table {
  double kl = 0, loss = 0, same = 0, squares = 0;
};

/// Returns the logarithms of the probabilities, from a row of logits.
std::vector<double> log_probabilities(std::span<const float> logits) {
  const double most = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - most);
  std::vector<double> logs;
  for (const float x : logits) logs.push_back(static_cast<double>(x) - most - std::log(sum));
  return logs;
}

void print(const std::string& name, std::span<const float> logits, std::span<const float> exact, std::span<const token_id> ids) {
  if (logits.size() != exact.size())
    throw std::runtime_error(name + ": " + std::to_string(logits.size()) + " logits, expected " + std::to_string(exact.size()));
  const std::size_t vocabulary = exact.size() / ids.size();
  row_of_table sum;
  double size = 0;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const auto row = logits.subspan(t * vocabulary, vocabulary), exact_row = exact.subspan(t * vocabulary, vocabulary);
    const auto logs = log_probabilities(row), exact_logs = log_probabilities(exact_row);
    for (std::size_t i = 0; i < vocabulary; ++i) {
      const auto difference = static_cast<double>(row[i]) - static_cast<double>(exact_row[i]);
      sum.kl += std::exp(exact_logs[i]) * (exact_logs[i] - logs[i]);
      sum.squares += difference * difference, size += static_cast<double>(exact_row[i]) * static_cast<double>(exact_row[i]);
    }
    sum.same +=
        std::max_element(row.begin(), row.end()) - row.begin() == std::max_element(exact_row.begin(), exact_row.end()) - exact_row.begin();
    if (t + 1 < ids.size()) sum.loss -= logs[ids[t + 1]];
  }
  const auto n = static_cast<double>(ids.size());
  std::printf("| %s | %.2e | %.4f | %.1f %% | %.2e |\n", name.c_str(), sum.kl / n, std::exp(sum.loss / (n - 1)), 100 * sum.same / n,
              std::sqrt(sum.squares / size));
}

void measure(const std::string& model, const std::string& ids_file, const std::string& theirs) {
  std::ifstream list(ids_file);
  const std::vector<token_id> ids{std::istream_iterator<token_id>(list), {}};
  if (ids.size() < 2) throw std::runtime_error(ids_file + ": expected two token ids or more, separated by spaces");
  const lazyprune::checkpoint files{std::filesystem::path(model)};
  const auto exact = logits_of(files, {.kv = dtype::f32, .exact = true}, dtype::f32, ids);
  std::printf("%zu tokens, path %s\n\n", ids.size(), std::string(name_of(lazyprune::best_isa())).c_str());
  std::printf("| | KL, nats | perplexity | same best token | r.m.s. difference |\n|---|---:|---:|---:|---:|\n");
  print("float", exact, exact, ids);
  print("weights in bf16, `--exact`", logits_of(files, {.exact = true}, dtype::bf16, ids), exact, ids);
  print("weights in bf16", logits_of(files, {}, dtype::bf16, ids), exact, ids);
  print("quantized weights", logits_of(files, {}, std::nullopt, ids), exact, ids);
  for (const std::size_t group : {32u, 128u, 256u}) {
    grouped_activations backend(group);
    print("weights in float, activations in 8 bits, a scale for each " + std::to_string(group), logits_in(backend, files, dtype::f32, ids),
          exact, ids);
  }
  for (const dtype kv : {dtype::bf16, dtype::f16, dtype::q8_0}) {
    const std::string name = "weights in float, keys and values in " + std::string(name_of(kv));
    if (kv != dtype::f16)  // its products never round to bf16
      print(name + ", `--exact`", logits_of(files, {.kv = kv, .exact = true}, dtype::f32, ids), exact, ids);
    print(name, logits_of(files, {.kv = kv}, dtype::f32, ids), exact, ids);
  }
  if (theirs.empty()) return;
  std::ifstream file(theirs, std::ios::binary);
  std::vector<float> logits(exact.size());
  file.read(reinterpret_cast<char*>(logits.data()), static_cast<std::streamsize>(logits.size() * sizeof(float)));
  if (!file) throw std::runtime_error(theirs + ": expected " + std::to_string(exact.size()) + " numbers");
  print("llama.cpp", logits, exact, ids);
}

}  // namespace

int main(int count, char** words) {
  if (count < 3 || count > 4) {
    std::fputs("usage: bench.rounding MODEL IDS [LOGITS]\n", stderr);
    return 2;
  }
  try {
    measure(words[1], words[2], count == 4 ? words[3] : "");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
