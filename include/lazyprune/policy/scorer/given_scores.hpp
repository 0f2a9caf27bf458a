// SPDX-License-Identifier: MIT
// Scores that the caller gives. They may come from a small model that reads the prompt first, as in SpecPrefill (arXiv 2502.02789), or from
// the model's own first layers.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/error.hpp>
#include <lazyprune/core/finite.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/core/precise_math.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

/// Scores for the first positions of a sequence, at least one score: "0.25/0.5/0.125". The object is immutable, and copies share the
/// scores.
class position_scores {
 public:
  static std::string expected() { return "numbers separated by slashes"; }

  /// Throws `error` if there are no scores, or if one is not finite.
  explicit position_scores(std::vector<float> scores) {
    if (scores.empty()) report_error(error("scores", "", "at least one score", "none"));
    const auto wrong = std::ranges::find_if_not(scores, [](float s) { return is_finite(s); });
    if (wrong != scores.end())
      report_error(error("scores", "position " + std::to_string(wrong - scores.begin()), "a finite number", std::to_string(*wrong)));
    highest_ = std::ranges::max(scores);
    list_ = std::make_shared<const std::vector<float>>(std::move(scores));
  }

  /// The scores in a text such as "0.25/0.5/0.125", or nullopt if the text has another form.
  static std::optional<position_scores> read(std::string_view text) {
    std::vector<float> scores;
    for (const std::string_view piece : split(text, '/')) {
      const auto score = number_in<float>(piece);
      if (!score) return std::nullopt;
      scores.push_back(*score);
    }
    if (scores.empty()) return std::nullopt;
    return position_scores(std::move(scores));
  }

  /// The text that `read` reads back as the same scores.
  std::string text() const {
    std::string text;
    for (const float score : *list_) text.append(text.empty() ? "" : "/").append(text_of_number(score));
    return text;
  }

  /// The score of a position. Positions beyond the given scores get the highest score. They rank first, because among equal scores the
  /// later positions stay.
  float operator[](position p) const { return p < list_->size() ? (*list_)[p] : highest_; }

  friend bool operator==(const position_scores& a, const position_scores& b) { return *a.list_ == *b.list_; }

 private:
  std::shared_ptr<const std::vector<float>> list_;
  float highest_;
};

/// The score is the one given for the token's position, at every layer and step. If no scores are given, all tokens score 0.
struct given_scores {
  static constexpr std::string_view name = "given_scores";
  std::optional<position_scores> scores{};

  void score(const token_view& tokens, std::span<float> out) const {
    std::ranges::transform(tokens.positions, out.begin(), [this](position p) { return scores ? (*scores)[p] : 0.0f; });
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("scores", scores);
  }

  friend bool operator==(const given_scores&, const given_scores&) = default;
};

static_assert(importance_scorer<given_scores>);

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
