// SPDX-License-Identifier: MIT
// LongBench's classification score: does the prediction name the right class, and how many other classes?
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lazyprune {
inline namespace v0 {

/// Returns a score from 0 to 1. If the prediction names the answer, the score is 1 over the number of classes that the prediction names.
/// Otherwise the score is 0. A named class is not counted if its name is a part of the answer's name. The next named class after such a
/// class is counted unchecked, because LongBench removes entries from the list of named classes while it iterates over this list.
inline double classification_score(std::string_view prediction, std::string_view answer, const std::vector<std::string>& classes) {
  std::vector<std::string_view> named;
  for (const std::string& name : classes)
    if (prediction.find(name) != prediction.npos) named.push_back(name);
  for (std::size_t i = 0; i < named.size(); ++i) {
    const std::string_view name = named[i];
    if (name != answer && answer.find(name) != answer.npos) named.erase(std::ranges::find(named, name));
  }
  const bool right = std::ranges::find(named, answer) != named.end();
  return right ? 1.0 / static_cast<double>(named.size()) : 0.0;
}

}  // namespace v0
}  // namespace lazyprune
