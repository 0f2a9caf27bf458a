// SPDX-License-Identifier: MIT
// The dense model reads each prompt, the blocks that matter are marked, and a fit chooses probes. If the answers are known, a block matters
// if it holds a part of an answer, or of the answer's sentence before it. Otherwise the model generates 32 tokens. The blocks that these
// tokens attend to most in the last third of the layers then matter. A quarter of the prompts is held out: recall is measured on these
// prompts.
#include "commands/calibrate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <span>
#include <utility>

#include "engine/engine.hpp"
#include "models/model_choice.hpp"
#include "questions/runner.hpp"
#include "tables/number_text.hpp"
#include "tables/table.hpp"
#include "terminal/interrupts.hpp"
#include "terminal/progress.hpp"

#include <lazyprune/eval/calibration_prompts.hpp>
#include <lazyprune/eval/head_calibration.hpp>
#include <lazyprune/files/output_file.hpp>
#include <lazyprune/files/pruning_file.hpp>
#include <lazyprune/model/config.hpp>
#include <lazyprune/model/generation.hpp>
#include <lazyprune/model/layers_of.hpp>
#include <lazyprune/policy/schedule/stages.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include <lazyprune/policy/store/keep_all.hpp>
#include <lazyprune/registry/model_layers.hpp>
#include <lazyprune/session/any_session.hpp>
#include <lazyprune/text/tokenizer.hpp>

namespace lazyprune {
namespace program {
namespace {

constexpr std::size_t window = 64, generated = 32;

// The probes find only the block in which an answer begins. So this block also lifts the scores of the next three: 48 tokens with the
// default block size.
constexpr std::size_t following = 3;

/// Keeps what the heads attended to in a dense run of one prompt.
struct head_notes {
  std::size_t heads, layers, prompt, block;
  std::size_t blocks = (prompt + block - 1) / block;
  std::vector<float> numbers = std::vector<float>(layers * heads * calibration_prompt::numbers_of_head * blocks);
  std::vector<float> masses = std::vector<float>(layers * heads * blocks);  // the most that a generated token attends to a block
  std::vector<float> scratch = std::vector<float>(prompt + generated + 1);
};

/// Notes what each head attends to. It scores nothing.
struct noting_heads {
  std::size_t window = program::window;
  const std::vector<head_probe>* reads = nullptr;  // (heads, 3): the same in all layers that see the whole text
  const model_config* config = nullptr;
  head_notes* notes = nullptr;

  std::span<const head_probe> probes(layer_id layer) const {
    return config->window(layer) > 0 ? std::span<const head_probe>{} : std::span<const head_probe>(*reads);
  }

  void score(const every_layer<probe_view>& view, std::span<float> out) const {
    head_notes& n = *notes;
    std::ranges::fill(out, 0.0f);
    if (view.now.probes == 0) return;
    if (view.now.active() == n.prompt)
      note_prompt(view);
    else
      note_step(view);
  }

 private:
  void note_prompt(const every_layer<probe_view>& view) const {
    head_notes& n = *notes;
    for (std::size_t i = 0; i < reads->size(); ++i)
      for (const auto pool : {block_pooling::max, block_pooling::mean}) {
        standardise_blocks(view.now.probe(i), view.now.positions, n.block, pool, n.scratch);
        const std::size_t row = (view.layer * reads->size() + i) * 2 + static_cast<std::size_t>(pool);
        std::copy_n(n.scratch.begin(), n.blocks, &n.numbers[row * n.blocks]);
      }
  }

  void note_step(const every_layer<probe_view>& view) const {
    head_notes& n = *notes;
    for (std::size_t h = 0; h < n.heads; ++h) {
      const auto attention = view.now.probe(3 * h);
      float* const masses = &n.masses[(view.layer * n.heads + h) * n.blocks];
      for (std::size_t b = 0; b < n.blocks; ++b) {
        float mass = 0;
        for (std::size_t t = std::max<std::size_t>(b * n.block, ignored_sinks); t < std::min((b + 1) * n.block, n.prompt); ++t)
          mass += attention[t];
        masses[b] = std::max(masses[b], mass);
      }
    }
  }
};

/// The blocks before the evidence rows: these can be dropped.
std::size_t candidates_of(std::size_t prompt, std::size_t block) { return prompt > window ? (prompt - window) / block : 0; }

/// Marks a twelfth of the candidates: those that the generated tokens attend to most in the last third of the layers. A block's rank is
/// that of the mean over the eight heads that attend to it most.
std::vector<std::uint8_t> attended_blocks(const head_notes& n) {
  const std::size_t candidates = candidates_of(n.prompt, n.block), late = n.layers * 2 / 3, rows = (n.layers - late) * n.heads;
  const std::size_t counted = std::min<std::size_t>(8, rows);
  std::vector<std::pair<float, std::size_t>> ranked;
  for (std::size_t b = 0; b < candidates; ++b) {
    std::vector<float> of_heads;
    for (std::size_t r = 0; r < rows; ++r) of_heads.push_back(n.masses[(late * n.heads + r) * n.blocks + b]);
    std::ranges::partial_sort(of_heads, of_heads.begin() + static_cast<std::ptrdiff_t>(counted), std::greater{});
    float sum = 0;
    for (std::size_t i = 0; i < counted; ++i) sum += of_heads[i];
    ranked.emplace_back(sum, b);
  }
  std::ranges::sort(ranked, std::greater{});
  std::vector<std::uint8_t> matters(candidates);
  for (std::size_t i = 0; i < std::max<std::size_t>(1, candidates / 12) && i < candidates; ++i) matters[ranked[i].second] = 1;
  return matters;
}

/// Takes the first place of each answer in the prompt. Marks the candidates that hold a token of the answer, or of its sentence before it.
/// The words before a value say whose value it is. In two needle tasks with several values (48 samples of 2,000 tokens, a stage after 12 of
/// 30 layers), the model lost 16 points with the values alone in the kept blocks, and 7 with their sentences.
std::vector<std::uint8_t> blocks_of_answers(std::span<const token_id> prompt, std::span<const std::string> answers, const tokenizer& words,
                                            std::size_t block) {
  std::string text;
  std::vector<std::size_t> ends;  // of each token, in bytes
  token_decoder decoder(words);
  for (const token_id id : prompt) {
    text += decoder.push(id);
    ends.push_back(text.size());
  }
  std::vector<std::uint8_t> matters(candidates_of(prompt.size(), block));
  for (const std::string& answer : answers) {
    const std::size_t at = answer.empty() ? std::string::npos : text.find(answer);
    if (at == std::string::npos) continue;
    auto token = static_cast<std::size_t>(std::ranges::upper_bound(ends, beginning_of_sentence(text, at)) - ends.begin());
    for (; token < ends.size() && (token == 0 ? 0 : ends[token - 1]) < at + answer.size(); ++token)
      if (token / block < matters.size()) matters[token / block] = 1;
  }
  return matters;
}

class calibrating {
 public:
  calibrating(const calibrate_flags& flags, const policy_registry& policies)
      : flags_(flags), runner_(flags.model, flags.backend, labels_may_lack(flags.questions), policies) {
    const model_config& config = model().config();
    if (config.layers < 4) throw error("calibrate", "layers", "a model of at least 4 layers", std::to_string(config.layers));
    for (std::uint32_t h = 0; h < config.n_heads; ++h)
      for (const auto over : {query_reduction::last, query_reduction::max, query_reduction::mean}) reads_.push_back({h, over});
  }

  void run() {
    output_file out(flags_.out);  // before any prompt is read, so that a path that cannot be written costs no time
    const std::vector<question_to_read> to_read = questions_to_read();
    runner_.load();
    progress_bar bar("reading");
    for (std::size_t i = 0; i < to_read.size(); ++i) {
      bar.show(i, to_read.size());
      calibration_prompt noted = note(to_read[i].question);
      if (std::ranges::count(noted.matters, 1) > 0) (to_read[i].held_out ? held_out_ : fitted_).push_back(std::move(noted));
    }
    if (fitted_.empty() || held_out_.empty())
      throw error("calibrate", "prompts", "at least 8 in which a block matters", std::to_string(fitted_.size() + held_out_.size()));
    const pruning_file found = fit_stages();
    out.write(found.text());
    out.commit();
    std::cout << "stages " << found.stages << "; written to " << flags_.out << '\n';
  }

 private:
  static constexpr std::array<std::size_t, 4> probe_counts{4, 8, 16, 32};

  static question_flags labels_may_lack(question_flags questions) {
    questions.needs_answers = false;
    return questions;
  }

  const opened_model& model() const { return runner_.model(); }
  bool has_texts() const { return !flags_.questions.texts.files.empty(); }

  struct question_to_read {
    std::size_t question;
    bool held_out;
  };

  /// The first question of each task, then the second one of each, and so on. Every fourth of these rounds is held out.
  std::vector<question_to_read> questions_to_read() const {
    std::vector<std::vector<std::size_t>> by_task;
    for (const eval_task* task : runner_.questions().tasks()) by_task.push_back(runner_.questions().of_task(*task));
    std::vector<question_to_read> to_read;
    const std::size_t most = flags_.questions.texts.prompts;
    for (std::size_t round = 0; to_read.size() < most; ++round) {
      const std::size_t before = to_read.size();
      for (const auto& task : by_task)
        if (round < task.size() && to_read.size() < most) to_read.push_back({task[round], round % 4 == 3});
      if (to_read.size() == before) break;
    }
    return to_read;
  }

  calibration_prompt note(std::size_t question) {
    const model_config& config = model().config();
    const std::vector<token_id> prompt = runner_.prompt(question);
    const std::vector<std::string>& known = runner_.questions()[question].sample.answers;
    head_notes notes{config.n_heads, config.layers - 1, prompt.size(), flags_.block};
    generation_options options;
    options.max_new = known.empty() ? generated : 1;
    any_session session(policy{noting_heads{.reads = &reads_, .config = &config, .notes = &notes}, stages{}, top_k{}, keep_all{}},
                        {.layers = static_cast<layer_id>(config.layers)});
    runner_.loaded().generate(std::move(session), prompt, options);
    std::vector<std::uint8_t> matters =
        known.empty() ? attended_blocks(notes) : blocks_of_answers(prompt, known, runner_.tokens(), flags_.block);
    return {.heads = notes.heads, .blocks = notes.blocks, .numbers = std::move(notes.numbers), .matters = std::move(matters)};
  }

  /// The stages to try: after 20, 30, 40, 50 and 60 % of the layers. Each moves to the nearest layer that sees the whole text.
  stages tried_stages() const {
    std::vector<stage> list;
    for (const double share : {0.2, 0.3, 0.4, 0.5, 0.6}) {
      const auto after = static_cast<layer_id>(std::lround(share * static_cast<double>(model().layers())));
      if (after >= 1 && (list.empty() || after > list.back().after)) list.push_back({after, 0.5});
    }
    return moved_to(layers_of(model().config()), stages(list));
  }

  /// The features of the heads in layers from `begin` to `end` - 1 that see the whole text.
  std::vector<std::size_t> features_of(layer_id begin, layer_id end) const {
    std::vector<std::size_t> features;
    const std::size_t of_layer = model().config().n_heads * calibration_prompt::features_of_head;
    for (std::size_t layer = begin; layer < end; ++layer)
      for (std::size_t f = 0; f < of_layer && model().config().window(layer) == 0; ++f) features.push_back(layer * of_layer + f);
    return features;
  }

  /// The probes of a stage.
  struct fitted_stage {
    std::vector<weighted_feature> probes;
    std::vector<std::string> recalls;  // with 4, 8, 16, 32 and all features
  };

  /// The mean of the recalls on the held-out prompts when a tenth and when a fifth of the blocks is kept. A fifth alone hardly tells good
  /// scores apart.
  double held_out_recall(const std::vector<weighted_feature>& score) const {
    return (recall(held_out_, score, 0.1, following) + recall(held_out_, score, 0.2, following)) / 2;
  }

  /// Fits the probes that a stage adds to the probes of the stages before it. Without --probes, keeps the fewest whose recall is within
  /// 0.01 of that of all, or 32.
  fitted_stage fit_stage(const std::vector<std::size_t>& features, const std::vector<weighted_feature>& earlier) const {
    constexpr double given_up = 0.01;
    const std::vector<weighted_feature> all = fit(fitted_, features, earlier);
    const double best = held_out_recall(joined(earlier, all));
    fitted_stage result;
    bool found = false;
    for (const std::size_t count : probe_counts) {
      std::vector<weighted_feature> few = fit_best(fitted_, all, count, earlier);
      const double reached = held_out_recall(joined(earlier, few));
      result.recalls.push_back(fixed(reached, 3));
      if (!found && (reached >= best - given_up || count == probe_counts.back())) {
        result.probes = std::move(few);
        found = true;
      }
    }
    result.recalls.push_back(fixed(best, 3));
    if (flags_.probes > 0) result.probes = fit_best(fitted_, all, flags_.probes, earlier);
    return result;
  }

  static std::vector<weighted_feature> joined(std::vector<weighted_feature> earlier, const std::vector<weighted_feature>& added) {
    earlier.insert(earlier.end(), added.begin(), added.end());
    return earlier;
  }

  /// The mean number of blocks in a prompt.
  double mean_blocks() const {
    std::size_t blocks = 0;
    for (const auto* prompts : {&fitted_, &held_out_})
      for (const calibration_prompt& p : *prompts) blocks += p.blocks;
    return static_cast<double>(blocks) / static_cast<double>(fitted_.size() + held_out_.size());
  }

  /// The number of last tokens that always go on: a tenth of a prompt, but at least the evidence rows. Prose goes on from its last tokens
  /// (bench/smollm2/README.md, "Heads found by a calibration").
  std::size_t kept_last() const { return std::max(window, static_cast<std::size_t>(mean_blocks() / 10) * flags_.block); }

  /// The smallest share of a prompt that holds the last tokens and, in twentieths of the other blocks, nearly all blocks that matter.
  double share_to_keep(const std::vector<weighted_feature>& score) const {
    constexpr double enough = 0.99;
    const double last = std::min(1.0, static_cast<double>(kept_last()) / (mean_blocks() * static_cast<double>(flags_.block)));
    for (int twentieths = 1; twentieths < 20; ++twentieths)
      if (recall(held_out_, score, twentieths / 20.0, following, (kept_last() - window) / flags_.block) >= enough)
        return last + (1 - last) * twentieths / 20.0;
    return 1;
  }

  /// Fits the probes of all stages, and prints their recalls.
  pruning_file fit_stages() {
    const model_config& config = model().config();
    pruning_file file{.stages = {},
                      .heads = calibrated_heads{.model = model_name(model().path()),
                                                .layers = config.layers,
                                                .heads = config.n_heads,
                                                .fingerprint = model().fingerprint(),
                                                .window = window,
                                                .keep_last = kept_last(),
                                                .block = flags_.block,
                                                .following = following,
                                                .fitted_on = fitted_on()}};
    std::vector<stage> list;
    std::vector<std::vector<std::string>> lines;
    std::vector<weighted_feature> score;
    auto begin = std::min<layer_id>(2, model().layers() / 10);
    double kept = 1;
    const stages all_tried = tried_stages();
    for (const stage& tried : all_tried.list()) {
      const fitted_stage fitted = fit_stage(features_of(begin, tried.after), score);
      begin = tried.after;
      score = joined(score, fitted.probes);
      const double share = std::min(kept, share_to_keep(score));
      if (share <= 0.9 * kept) {
        list.push_back({tried.after, std::round(1000 * share / kept) / 1000});
        kept = share;
      }
      for (const weighted_feature& w : fitted.probes) file.heads->probes.push_back(probe_of(w, config.n_heads, tried.after));
      std::vector<std::string> line{std::to_string(tried.after)};
      line.insert(line.end(), fitted.recalls.begin(), fitted.recalls.end());
      line.insert(line.end(), {std::to_string(fitted.probes.size()), fixed(share, 2)});
      lines.push_back(std::move(line));
    }
    if (file.heads->probes.empty()) throw error("calibrate", "probes", "a head that shows which blocks matter", "none");
    file.stages = stages(list).text();
    std::cout << "recall of the blocks with the answers, on " << held_out_.size()
              << " held-out prompts: the mean of the recalls at a tenth and at a fifth of the blocks\n"
              << markdown_table(markdown_columns(1, {"after", "4 probes", "8", "16", "32", "all", "chosen", "keep"}), lines);
    return file;
  }

  std::string fitted_on() const {
    std::string names;
    for (const std::string& path : has_texts() ? flags_.questions.texts.files : flags_.questions.data)
      names.append(names.empty() ? "" : ", ").append(std::filesystem::path(path).filename().string());
    return std::to_string(fitted_.size() + held_out_.size()) + " prompts" + (has_texts() ? " made" : "") + " from " + names;
  }

  calibrate_flags flags_;
  runner runner_;
  std::vector<head_probe> reads_;
  std::vector<calibration_prompt> fitted_, held_out_;
};

}  // namespace

int calibrate(const calibrate_flags& flags, const policy_registry& policies) {
  remove_files_when_interrupted();
  calibrating(flags, policies).run();
  return 0;
}

}  // namespace program
}  // namespace lazyprune
