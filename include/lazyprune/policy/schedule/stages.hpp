// SPDX-License-Identifier: MIT
// The paper's schedule (section 3.2, Figure 4): prunes at a few points between the layers, each time to a share of the active tokens.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/policy/arguments.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

/// A session never reaches some stages, which then prune nothing, without an error: those with `after` >= the number of layers, and those
/// with `after` == 0 under a scorer that needs evidence. Texts with such stages are refused (registry/policy_parts.hpp).
struct stage {
  layer_id after;  // the number of layers that are done when the stage prunes; 0: before the first layer
  fraction share;  // the share of the active tokens that goes on
  friend bool operator==(const stage&, const stage&) = default;
};

class stages {
 public:
  /// `stages{{9, 0.7}, {19, 0.5}}`: keeps 70 % of the tokens after 9 layers, and half of those after 19 layers. An empty list never prunes.
  /// Throws `error` if the layers do not ascend.
  stages(std::initializer_list<stage> list) : stages(std::vector(list)) {}
  explicit stages(std::vector<stage> list) : list_(std::move(list)) {
    for (std::size_t i = 1; i < list_.size(); ++i)
      if (list_[i].after <= list_[i - 1].after)
        report_error(error("stages", "stage " + std::to_string(i + 1), "a layer after " + std::to_string(list_[i - 1].after),
                           std::to_string(list_[i].after)));
  }

  /// Reads LAYER:SHARE pieces such as "9:0.7,19:0.5,28:0.3". The empty text has no stages. Throws `error` with the piece that is wrong.
  static stages parse(std::string_view text) {
    std::vector<stage> list;
    while (!text.empty()) {
      const std::string_view piece = text.substr(0, text.find(','));
      list.push_back(parse_stage(piece, list.size() + 1));
      if (piece.size() + 1 == text.size())
        report_error(error("stages", "stage " + std::to_string(list.size() + 1), "LAYER:SHARE", "nothing"));
      text.remove_prefix(std::min(text.size(), piece.size() + 1));
    }
    return stages(std::move(list));
  }

  /// The text that `parse` reads back as the same stages.
  std::string text() const {
    std::string text;
    for (const stage& s : list_) {
      if (!text.empty()) text += ',';
      text.append(std::to_string(s.after)).append(":").append(text_of_number<double>(s.share));
    }
    return text;
  }

  /// The stages, ascending by `after`. The span is valid as long as this object.
  std::span<const stage> list() const& { return list_; }
  std::span<const stage> list() && = delete;

  std::size_t keep(const layer_context& context) const {
    const auto at = std::ranges::find(list_, context.done, &stage::after);
    return at == list_.end() ? everything : share_of(at->share, context.active);
  }

  layer_id first(phase, layer_id layers) const { return list_.empty() ? layers : std::min(list_.front().after, layers); }

  bool prunes_after(layer_id done, phase, layer_id) const { return std::ranges::find(list_, done, &stage::after) != list_.end(); }

  friend bool operator==(const stages&, const stages&) = default;

 private:
  static stage parse_stage(std::string_view piece, std::size_t number) {
    const std::size_t colon = piece.find(':');
    const auto after = number_in<layer_id>(piece.substr(0, colon));
    const auto share = colon == piece.npos ? std::nullopt : number_in<double>(piece.substr(colon + 1));
    if (!after || !share || !(*share > 0.0 && *share <= 1.0))
      report_error(error("stages", "stage " + std::to_string(number), "LAYER:SHARE with a share in (0, 1], like 9:0.7",
                         "\"" + std::string(piece) + "\""));
    return {*after, *share};
  }

  std::vector<stage> list_;
};

static_assert(layer_schedule<stages>);

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
