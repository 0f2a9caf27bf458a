// SPDX-License-Identifier: MIT
// lazyprune merge: puts the folders of the parts of one run together. The tables and the page are those of one run over all samples, apart
// from times. It needs neither the model nor the samples.
#pragma once

#include <string>
#include <vector>

#include "tables/table.hpp"

namespace lazyprune {
namespace program {

struct merge_flags {
  std::vector<std::string> parts;  // the folders
  std::string directory;           // the folder for the results
  table_format output = table_format::md;
};

/// Returns the exit code. Throws `error` if samples are missing, or if the folders contradict each other.
int merge(const merge_flags& flags);

}  // namespace program
}  // namespace lazyprune
