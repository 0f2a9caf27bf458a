// SPDX-License-Identifier: MIT
// Finds a needle in a text, in linear time (Knuth, Morris, Pratt).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include <lazyprune/text/jinja/budget.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

class searcher {
 public:
  /// The needle must outlive this object.
  searcher(std::string_view needle, budget& work) : needle_(needle) {
    if (needle.size() <= shortest) return;
    work.write(needle.size() * sizeof(std::size_t));
    borders_.resize(needle.size());
    for (std::size_t i = 1, border = 0; i < needle.size(); ++i) {
      while (border > 0 && needle[i] != needle[border]) border = borders_[border - 1];
      if (needle[i] == needle[border]) ++border;
      borders_[i] = border;
    }
  }

  /// Returns the first place at or after `from` at which the needle begins, or npos. An empty needle is found at every place up to the end.
  std::size_t find(std::string_view text, std::size_t from = 0) const {
    if (borders_.empty()) return text.find(needle_, from);
    for (std::size_t i = from, matched = 0; i < text.size(); ++i) {
      while (matched > 0 && text[i] != needle_[matched]) matched = borders_[matched - 1];
      if (text[i] == needle_[matched]) ++matched;
      if (matched == needle_.size()) return i + 1 - matched;
    }
    return std::string_view::npos;
  }

 private:
  static constexpr std::size_t shortest = 16;  // bytes; for a needle of at most this size, std::string_view::find is fast enough

  std::string_view needle_;
  std::vector<std::size_t> borders_;  // for each prefix of the needle: the size of its longest proper prefix that is also its suffix
};

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
