// SPDX-License-Identifier: MIT
// Draws the paper's Figures 5, 6 and 7 from a sweep, as HTML with charts. Figures 6 and 7 also have a table of their numbers.
#pragma once

#include <string>
#include <vector>

#include "pages/svg_chart.hpp"
#include "pages/sweep_view.hpp"

namespace lazyprune {
namespace program {

/// Returns an axis of scores. It spans at least ten points, so that noise does not look large.
chart_axis score_axis(std::string label, double low, double high);

/// Returns one chart per task, with one line per method through its budgets. If there are several tasks, a chart of their means comes
/// first. Tasks without a speedup are left out. Empty if no speedup was measured.
std::vector<chart> accuracy_charts(const sweep_view& view);

/// Figure 5: scores over speedups.
std::string accuracy_figure(const sweep_view& view);

/// Figure 6: one line per share kept, over the layer after which the model is pruned. Scores are means over tasks.
std::string sensitivity_figure(const sweep_view& view);

/// Figure 7: one chart per lazyllm method and budget, one line per stage. A stage is the layers between two prunings. All layers of a stage
/// have computed the same tokens.
std::string usage_figure(const sweep_view& view);

}  // namespace program
}  // namespace lazyprune
