// SPDX-License-Identifier: MIT
// Compares the tokens that each layer of a backend keeps with those of the reference.
#pragma once

#include <lazyprune/backend/reference.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>
#include <lazyprune/text/model_tokenizer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "../model/followed.hpp"
#include "../model/tiny_model.hpp"
#include "../path_tolerance.hpp"
#include "../test_data.hpp"

namespace lazyprune_test {

/// Returns `count` prompts of 60 to 160 tokens, drawn from the contexts of the bundled tasks.
inline std::vector<std::vector<lazyprune::token_id>> drawn_prompts(const lazyprune::checkpoint& files, std::size_t count) {
  using namespace lazyprune;
  const auto words = find_tokenizer(files);
  std::vector<std::vector<token_id>> texts;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "examples/pocket/prompts")) {
    if (entry.path().extension() != ".jsonl") continue;
    std::istringstream lines(read_text(entry.path()));
    for (std::string line; std::getline(lines, line);)
      texts.push_back(words->encode(nlohmann::json::parse(line)["context"].get<std::string>(), true));
  }
  std::ranges::sort(texts);  // the order of files in a folder is not defined
  std::vector<std::vector<token_id>> prompts;
  for (std::size_t p = 0; p < count; ++p) {
    const std::vector<token_id>& text = texts[mix(p, 1) % texts.size()];
    const std::size_t size = std::min(60 + mix(p, 2) % 101, text.size()), first = mix(p, 3) % (text.size() - size + 1);
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(first);
    prompts.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
  }
  return prompts;
}

/// How the tokens that a backend keeps compare with those that the reference keeps.
///
/// A choice is within margins if the score at the cut and the next one differ by no more than rounding allows. It may then differ, by
/// tokens that are as close to the cut. All other choices must be those of the reference. path_tolerance.hpp has the error of one score.
/// The errors of two scores are independent, so their difference may be sqrt(2) times as large. The error depends on the spread of a
/// layer's scores. It is taken from a dense run, because the scores of kept tokens alone are close to each other.
struct kept_tokens {
  std::size_t choices = 0;         // one for each prompt and each layer that prunes
  std::size_t within_margins = 0;  // choices
  std::size_t different = 0;       // choices
  std::size_t tokens = 0;          // of all choices
  std::size_t certain = 0;         // tokens that are further from the cut than allowed, so that no rounding exchanges them
  double furthest = 0;             // the largest distance of an exchanged token from the cut, as a share of the allowed one

  std::string text() const {
    std::ostringstream out;
    out << choices << " choices, " << within_margins << " within margins, " << different << " differ; " << certain << " of " << tokens
        << " tokens are outside of margins; the furthest exchanged token is at " << furthest << " of the allowed distance";
    return out.str();
  }
};

/// Stages of the bundled model that keep few tokens, because the largest scores are far apart.
inline const lazyprune::stages few_tokens{{1, 0.15}, {2, 0.4}, {3, 0.5}, {4, 0.5}, {5, 0.5}};

/// Returns the trace of a prefill.
template <class Backend, class Scorer>
std::vector<lazyprune::step_trace> traced_prefill(const lazyprune::model<Backend>& net, Backend& backend, const Scorer& scorer,
                                                  const lazyprune::stages& when, const std::vector<lazyprune::token_id>& prompt) {
  using namespace lazyprune;
  workspace<Backend> work(net, backend);
  auto text = begin(net, policy{scorer, when, top_k{}, keep_all{}});
  generation_options options;
  options.force = {prompt.front()};
  options.trace = true;
  return generate(work, text, prompt, options).trace;
}

/// Compares prefills that prune by `when`. `tolerance(tokens)` returns the path_tolerance for sequences of this many tokens.
template <class Backend, class Tolerance>
kept_tokens compare_kept_tokens(const std::vector<std::vector<lazyprune::token_id>>& prompts,
                                const lazyprune::model<lazyprune::reference<double>>& oracle, const lazyprune::model<Backend>& net,
                                Backend& backend, const lazyprune::stages& when, const Tolerance& tolerance) {
  using namespace lazyprune;
  reference<double> exact;
  std::vector<stage> everywhere;
  for (std::size_t l = 1; l < oracle.config.layers; ++l) everywhere.push_back({static_cast<layer_id>(l), 1.0});
  kept_tokens all;
  for (const std::vector<token_id>& prompt : prompts) {
    score_log dense, leader, own;
    traced_prefill(oracle, exact, followed(last_query_attention{}, dense), stages(everywhere), prompt);
    const auto expected = traced_prefill(oracle, exact, followed(last_query_attention{}, leader), when, prompt);
    traced_prefill(net, backend, followed(last_query_attention{}, own, &leader), when, prompt);
    const path_tolerance allowed = tolerance(prompt.size() + 1);
    const auto allowed_of = [&](std::size_t layers, double) {
      return std::sqrt(2.0) * allowed.scores(layers, dense.at(layers - 1).spread);
    };
    for (const choice& c : choices_of(expected, leader, own, allowed_of)) {
      ++all.choices;
      all.within_margins += c.margin <= c.allowed;
      all.different += c.exchanged > 0;
      all.tokens += c.tokens;
      all.certain += c.certain;
      all.furthest = std::max(all.furthest, c.furthest / c.allowed);
    }
  }
  return all;
}

}  // namespace lazyprune_test
