// SPDX-License-Identifier: MIT
#include "questions/run_results.hpp"

#include <iostream>
#include <map>

namespace lazyprune {
namespace program {

std::string missing_samples(const run_record& record, const std::vector<std::size_t>& missing,
                            const std::vector<std::pair<run_part, std::string>>& folders) {
  std::map<std::string, std::size_t> lacks;
  for (const std::size_t q : missing) {
    const std::uint64_t digest = record.samples[q].digest;
    bool named = false;
    for (const auto& [part, directory] : folders)
      if (part.has(digest)) {
        ++lacks["part " + part.text() + " in " + directory + " is unfinished and lacks "];
        named = true;
      }
    if (named) continue;
    const std::size_t of = folders.front().first.of;
    const run_part absent{digest % of + 1, of};
    ++lacks["part " + absent.text() + " has no folder and lacks "];
  }
  std::string text = std::to_string(record.samples.size() - missing.size());
  for (const auto& [part, samples] : lacks) text += (&part == &lacks.begin()->first ? ": " : ", ") + part + std::to_string(samples);
  return text;
}

void tell_of_part(const run_record& record, std::size_t answered) {
  std::cerr << "part " << record.part.text() << " is done: " << answered << " of " << record.samples.size()
            << " samples; `lazyprune merge` makes the tables when all parts are done" << std::endl;
}

}  // namespace program
}  // namespace lazyprune
