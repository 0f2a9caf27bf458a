// SPDX-License-Identifier: MIT
// A sweep as one HTML page that needs nothing else: Tables 1 and 2 and Figures 5, 6 and 7 of LazyLLM's paper (arXiv 2407.14057), from
// one's own runs. Charts are SVG, without script; every number in them stands in a table too.
#pragma once

#include <string>

#include "tables/sweep_table.hpp"

namespace lazyprune {
namespace program {

/// The whole page. Throws `error` where the table has no entries.
std::string sweep_page(const sweep_table& table);

/// The first chart of Figure 5 alone, an SVG file with its legend: scores over speedups, means over all tasks. Empty where no speedup was
/// measured. Throws `error` where the table is empty.
std::string sweep_figure(const sweep_table& table);

}  // namespace program
}  // namespace lazyprune
