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

/// Returns a score from 0 to 1. If the prediction names the answer, the score is 1 over the number of classes that it names. Otherwise it
/// is 0. A class whose name is part of the answer's name does not count as another class. But the named class that follows such a class in
/// the list is never checked for this, because LongBench removes entries from the list while it iterates over it.
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
