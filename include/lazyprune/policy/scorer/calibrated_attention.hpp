// SPDX-License-Identifier: MIT
// A weighted sum of what chosen heads attend to. Few heads of a model look for the tokens that answer a question (retrieval heads, arXiv
// 2404.15574; query-focused retrieval heads, arXiv 2506.09944). A calibration finds them, once for each model.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/error.hpp>
#include <lazyprune/core/finite.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/policy/arguments.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

/// The ways to make one number out of the probabilities of a block's tokens.
enum class block_pooling : std::uint8_t { max, mean };

/// The block for which a term counts: the block that the probe looks at, or the block after it.
enum class counted_block : std::uint8_t { own, next };

/// The names of the choices in texts and files.
inline constexpr std::array<std::string_view, 3> query_reduction_names{"last", "max", "mean"};
inline constexpr std::array<std::string_view, 2> block_pooling_names{"max", "mean"};
inline constexpr std::array<std::string_view, 2> counted_block_names{"own", "next"};

/// One term of the score at a stage.
struct calibrated_probe {
  layer_id after;           // the first stage that it serves, as a number of done layers; it serves the later stages, too
  layer_id layer;           // from 0, before `after`
  std::uint32_t head;       // from 0, a query head
  query_reduction queries;  // over the evidence rows
  block_pooling block;      // over the active tokens of a block
  float weight;
  counted_block counts_for = counted_block::own;

  friend bool operator==(const calibrated_probe&, const calibrated_probe&) = default;
};

/// The probes of all stages, in the order of their layers. The object is immutable, and copies share the probes. Text form: a probe is
/// AFTER.LAYER.HEAD.QUERIES.BLOCK@WEIGHT, as "9.4.3.last.max@0.5", or AFTER.LAYER.HEAD.QUERIES.BLOCK.next@WEIGHT if it counts for the next
/// block. Slashes stand between probes.
class calibration {
 public:
  static std::string expected() {
    return "probes AFTER.LAYER.HEAD.QUERIES.BLOCK[.next]@WEIGHT, separated by slashes, such as 9.4.3.last.max@0.5";
  }

  /// Sorts the probes by layer; probes of one layer keep their order. Throws `error` if there are no probes, if a weight is not finite, or
  /// if a probe's layer is not below its `after`, or is below the `after` of the previous stage. Layers are below 65,536, so that one probe
  /// cannot ask for much memory.
  explicit calibration(std::vector<calibrated_probe> probes) {
    if (probes.empty()) report_error(error("probes", "", "at least one probe", "none"));
    std::ranges::stable_sort(probes, {}, &calibrated_probe::layer);
    for (std::size_t i = 0; i < probes.size(); ++i) {
      const calibrated_probe& p = probes[i];
      const std::string place = "probe " + text_of(p);
      if (!is_finite(p.weight)) report_error(error("probes", place, "a finite weight", std::to_string(p.weight)));
      if (p.layer >= 1u << 16) report_error(error("probes", place, "a layer below 65536", std::to_string(p.layer)));
      if (p.layer >= p.after) report_error(error("probes", place, "a layer before " + std::to_string(p.after), std::to_string(p.layer)));
      if (i == 0) continue;
      const layer_id before = probes[i - 1].after;
      if (before != p.after && before > p.layer)
        report_error(error("probes", place, "a layer from " + std::to_string(before) + " on, where the stage before it ends",
                           std::to_string(p.layer)));
    }
    data all{std::move(probes), {}, {}, {}};
    for (const calibrated_probe& p : all.list) {
      const head_probe read{p.head, p.queries};
      while (all.first_read.size() <= p.layer) all.first_read.push_back(all.reads.size());
      const auto of_layer = std::span(all.reads).subspan(all.first_read[p.layer]);
      const auto known = std::ranges::find(of_layer, read);
      all.row.push_back(static_cast<std::size_t>(known - of_layer.begin()));
      if (known == of_layer.end()) all.reads.push_back(read);
    }
    all.first_read.push_back(all.reads.size());
    all_ = std::make_shared<const data>(std::move(all));
  }

  /// The probes in a text, or nullopt if the text has another form. Throws `error` as the constructor does.
  static std::optional<calibration> read(std::string_view text) {
    std::vector<calibrated_probe> probes;
    for (const std::string_view piece : split(text, '/')) {
      const auto probe = probe_in(piece);
      if (!probe) return std::nullopt;
      probes.push_back(*probe);
    }
    return calibration(std::move(probes));
  }

  /// The text that `read` reads back as the same probes.
  std::string text() const {
    std::string all;
    for (const calibrated_probe& p : list()) all.append(all.empty() ? "" : "/").append(text_of(p));
    return all;
  }

  std::span<const calibrated_probe> list() const { return all_->list; }

  /// The heads and reductions that the scorer reads at this layer, without duplicates.
  std::span<const head_probe> reads(layer_id layer) const {
    const auto& first = all_->first_read;
    if (layer + std::size_t{1} >= first.size()) return {};
    return std::span(all_->reads).subspan(first[layer], first[layer + 1] - first[layer]);
  }

  /// The row that probe `i` of `list()` reads in the probe_view of the probe's layer.
  std::size_t row(std::size_t i) const { return all_->row[i]; }

  friend bool operator==(const calibration& a, const calibration& b) { return a.all_->list == b.all_->list; }

 private:
  struct data {
    std::vector<calibrated_probe> list;
    std::vector<head_probe> reads;        // of all layers, in the order of the layers
    std::vector<std::size_t> first_read;  // (layers + 1): where the reads of a layer begin
    std::vector<std::size_t> row;         // (list)
  };

  static std::string text_of(const calibrated_probe& p) {
    return std::to_string(p.after) + "." + std::to_string(p.layer) + "." + std::to_string(p.head) + "." +
           std::string(query_reduction_names[static_cast<std::size_t>(p.queries)]) + "." +
           std::string(block_pooling_names[static_cast<std::size_t>(p.block)]) + (p.counts_for == counted_block::next ? ".next" : "") +
           "@" + text_of_number(p.weight);
  }

  template <class Choice, std::size_t Count>
  static std::optional<Choice> choice_in(const std::array<std::string_view, Count>& names, std::string_view text) {
    const auto found = std::ranges::find(names, text);
    return found == names.end() ? std::nullopt : std::optional(static_cast<Choice>(found - names.begin()));
  }

  static std::optional<calibrated_probe> probe_in(std::string_view text) {
    const std::size_t at = text.find('@');
    if (at == std::string_view::npos) return std::nullopt;
    const std::vector<std::string_view> words = split(text.substr(0, at), '.');
    if (words.size() != 5 && words.size() != 6) return std::nullopt;
    const auto after = number_in<layer_id>(words[0]), layer = number_in<layer_id>(words[1]);
    const auto head = number_in<std::uint32_t>(words[2]);
    const auto queries = choice_in<query_reduction>(query_reduction_names, words[3]);
    const auto block = choice_in<block_pooling>(block_pooling_names, words[4]);
    const auto counts_for = words.size() == 5 ? counted_block::own : choice_in<counted_block>(counted_block_names, words[5]);
    const auto weight = number_in<float>(text.substr(at + 1));
    if (!after || !layer || !head || !queries || !block || !counts_for || !weight) return std::nullopt;
    return calibrated_probe{*after, *layer, *head, *queries, *block, *weight, *counts_for};
  }

  std::shared_ptr<const data> all_;
};

/// The number of first positions whose probabilities count as 0, because most heads attend to them whatever the text is (attention sinks,
/// arXiv 2309.17453).
inline constexpr position ignored_sinks = 4;

namespace detail {

/// Calls use(begin, end) for each block with active tokens. These tokens have the indices begin to end - 1.
template <class Use>
void for_blocks(std::span<const position> positions, std::size_t block, Use use) {
  for (std::size_t begin = 0, end = 0; begin < positions.size(); begin = end) {
    const std::size_t next = (positions[begin] / block + 1) * block;  // one division for each block, as divisions are slow
    while (end < positions.size() && positions[end] < next) ++end;
    use(begin, end);
  }
}

}  // namespace detail

/// Writes z(log(eps + p)) of each block that has an active token to `out`, and returns the number of these blocks. p is the pooled
/// probability of the block's active tokens, and z standardises over the blocks. The probabilities of the first `ignored_sinks` positions
/// count as 0. eps is 1e-6 for the maximum and 1e-7 for the mean. If all blocks have the same p, their numbers are 0. `probability` is
/// (active), and `out` has room for as many numbers.
inline std::size_t standardise_blocks(std::span<const float> probability, std::span<const position> positions, std::size_t block,
                                      block_pooling pool, std::span<float> out) {
  const double eps = pool == block_pooling::max ? 1e-6 : 1e-7;
  std::size_t blocks = 0;
  double sum = 0;
  detail::for_blocks(positions, block, [&](std::size_t begin, std::size_t end) {
    double most = 0, total = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const double value = positions[i] < ignored_sinks ? 0.0 : static_cast<double>(probability[i]);
      most = std::max(most, value);
      total += value;
    }
    const double pooled = pool == block_pooling::max ? most : total / static_cast<double>(end - begin);
    out[blocks] = static_cast<float>(std::log(eps + pooled));
    sum += static_cast<double>(out[blocks++]);
  });
  const double mean = sum / static_cast<double>(blocks);
  double squares = 0;
  for (const float x : out.first(blocks)) squares += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(blocks));
  for (float& x : out.first(blocks)) x = deviation == 0 ? 0.0f : static_cast<float>((static_cast<double>(x) - mean) / deviation);
  return blocks;
}

/// Each token has a sum, 0 at the start of a step. After each layer up to the last at which the schedule prunes, each probe of the layer
/// adds a term to the sums of the active tokens: its weight times the standardised number of a block (standardise_blocks). The block is the
/// token's own. If the probe counts for the next block, it is the block before; if that block has no active token, the term is 0. Such a
/// probe reads a head that attends to the question's words in the text: the answer often begins in the next block. A later stage goes on
/// with these sums. With the probes of its own three layers alone, fewer of the blocks that matter rank high.
///
/// The token's score is its sum. `following` = n keeps answers whole that go on in the next blocks. The score is then the largest of n + 1
/// numbers: the token's own sum and, for d = 1 to n, the sum of the last token of the d-th block before its own, less d. Tokens that are
/// not active any more keep their sums. The evidence rows are the prompt's last `window` tokens. Without probes all tokens score 0.
///
/// Use it with a schedule of the same stages, and with selectors that count or compare scores (top_k, blocks). Scores may be negative, and
/// a negative score has no mass for top_p or adaptive. The memory (known) has each token's sum.
struct calibrated_attention {
  static constexpr std::string_view name = "calibrated_attention";
  positive window = 64;
  positive block = 32;
  std::optional<calibration> chosen{};
  std::optional<positive> following{};

  std::span<const head_probe> probes(layer_id layer) const { return chosen ? chosen->reads(layer) : std::span<const head_probe>{}; }
  bool of_one_step() const { return true; }

  void score(const every_layer<probe_view>& view, std::span<float> out) const {
    const std::span<const position> positions = view.now.positions;
    if (!chosen) {
      std::ranges::fill(out, 0.0f);
      return;
    }
    if (view.layer == 0) std::ranges::fill(view.memory, 0.0f);
    const std::span<const calibrated_probe> list = chosen->list();
    const auto first = std::ranges::lower_bound(list, view.layer, {}, &calibrated_probe::layer);
    for (auto p = first; p != list.end() && p->layer == view.layer; ++p)
      add(*p, view.now.probe(chosen->row(static_cast<std::size_t>(p - list.begin()))), positions, view.memory, out);
    detail::for_blocks(positions, block, [&](std::size_t begin, std::size_t end) {
      float of_before = -std::numeric_limits<float>::infinity();  // the largest sum of a previous block, less its distance
      std::size_t start = positions[begin] / block * block;       // start - 1 is the last position of the block that is read next
      const auto larger = [](float a, float b) { return a < b ? b : a; };
      for (std::size_t distance = 1; following && distance <= *following && start > 0; ++distance, start -= block)
        of_before = larger(of_before, view.memory[start - 1] - static_cast<float>(distance));
      for (std::size_t i = begin; i < end; ++i) out[i] = larger(view.memory[positions[i]], of_before);
    });
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("window", window);
    visit("block", block);
    visit("probes", chosen);
    visit("following", following);
  }

  friend bool operator==(const calibrated_attention&, const calibrated_attention&) = default;

 private:
  /// Adds the probe's term to the memory of each active token. `of_blocks` (active) is scratch for one number of each block.
  void add(const calibrated_probe& p, std::span<const float> probability, std::span<const position> positions, std::span<float> memory,
           std::span<float> of_blocks) const {
    standardise_blocks(probability, positions, block, p.block, of_blocks);
    std::size_t at = 0;
    detail::for_blocks(positions, block, [&](std::size_t begin, std::size_t end) {
      float number = of_blocks[at];
      if (p.counts_for == counted_block::next) {
        const bool follows = begin > 0 && positions[begin - 1] / block + 1 == positions[begin] / block;
        number = follows ? of_blocks[at - 1] : 0.0f;
      }
      ++at;
      const float term = p.weight * number;
      for (std::size_t i = begin; i < end; ++i) memory[positions[i]] += term;
    });
  }
};

static_assert(importance_scorer<calibrated_attention>);

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
