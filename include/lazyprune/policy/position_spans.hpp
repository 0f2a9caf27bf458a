// SPDX-License-Identifier: MIT
// Positions in a sequence, as spans: "0-63,900-930".
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

/// The positions from `first` to `last`, both included.
struct position_span {
  position first;
  position last;
  friend bool operator==(const position_span&, const position_span&) = default;
};

/// Spans in ascending order. There is a gap between each span and the next.
class position_spans {
 public:
  position_spans() = default;

  /// Takes spans in any order, and merges spans that overlap or touch. Throws `error` if a span ends before it begins.
  position_spans(std::initializer_list<position_span> spans) : position_spans(std::vector(spans)) {}
  explicit position_spans(std::vector<position_span> spans) {
    for (const position_span& s : spans)
      if (s.last < s.first) report_error(error("positions", text_of(s), "FIRST-LAST with FIRST at most LAST"));
    std::ranges::sort(spans, {}, &position_span::first);
    for (const position_span& s : spans)
      if (list_.empty() || (s.first > list_.back().last && s.first - list_.back().last > 1))
        list_.push_back(s);
      else
        list_.back().last = std::max(list_.back().last, s.last);
  }

  /// Reads "0-63,900-930", or "7" for one position. The empty text has no positions. Throws `error` if a piece is wrong. The error names
  /// the wrong piece, and gives `flag` as its file.
  static position_spans parse(std::string_view text, std::string_view flag = "positions") {
    std::vector<position_span> list;
    for (const std::string_view piece : split(text, ',')) {
      const std::size_t dash = piece.find('-');
      const auto first = number_in<position>(piece.substr(0, dash));
      const auto last = dash == piece.npos ? first : number_in<position>(piece.substr(dash + 1));
      if (!first || !last || *last < *first)
        report_error(error(flag, text, "FIRST-LAST with FIRST at most LAST, like 0-63",
                           piece.empty() ? "nothing" : "\"" + std::string(piece) + "\""));
      list.push_back({*first, *last});
    }
    return position_spans(std::move(list));
  }

  /// The text that `parse` reads back as the same spans.
  std::string text() const {
    std::string text;
    for (const position_span& s : list_) text.append(text.empty() ? "" : ",").append(text_of(s));
    return text;
  }

  /// The spans. The returned view is valid as long as this object.
  std::span<const position_span> list() const& { return list_; }
  std::span<const position_span> list() && = delete;

  friend bool operator==(const position_spans&, const position_spans&) = default;

 private:
  static std::string text_of(const position_span& s) {
    return s.first == s.last ? std::to_string(s.first) : std::to_string(s.first) + "-" + std::to_string(s.last);
  }

  std::vector<position_span> list_;
};

}  // namespace v0
}  // namespace lazyprune
