// SPDX-License-Identifier: MIT
// Writes a sweep as one self-contained HTML page: Tables 1 and 2 and Figures 5, 6 and 7 of LazyLLM's paper (arXiv 2407.14057), with the
// sweep's own results. Charts are SVG, without scripts. Every number in a chart is also in a table.
#pragma once

#include <string>

#include "tables/sweep_table.hpp"

namespace lazyprune {
namespace program {

/// Writes the whole page. Throws `error` if the table has no entries.
std::string sweep_page(const sweep_table& table);

/// Writes the first chart of Figure 5 as an SVG file with its legend: scores over speedups, means over all tasks. Empty if no speedup was
/// measured. Throws `error` if the table has no entries.
std::string sweep_figure(const sweep_table& table);

}  // namespace program
}  // namespace lazyprune
