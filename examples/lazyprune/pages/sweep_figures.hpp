// SPDX-License-Identifier: MIT
// The paper's Figures 5, 6 and 7 from a sweep: HTML with charts, and with tables of what they show.
#pragma once

#include <string>
#include <vector>

#include "pages/svg_chart.hpp"
#include "pages/sweep_view.hpp"

namespace lazyprune {
namespace program {

/// An axis of scores spans at least ten points, so that noise does not look like more than it is.
chart_axis score_axis(std::string label, double low, double high);

/// One a task, one line a method through its budgets; first that of their means. None where no speedup was measured.
std::vector<chart> accuracy_charts(const sweep_view& view);

/// Figure 5: scores over speedups.
std::string accuracy_figure(const sweep_view& view);

/// Figure 6: one line a share kept, over the layers after which it is kept; scores are means over tasks.
std::string sensitivity_figure(const sweep_view& view);

/// Figure 7: one chart a budget, one line a stage, the layers between two prunings, which have computed the same tokens.
std::string usage_figure(const sweep_view& view);

}  // namespace program
}  // namespace lazyprune
