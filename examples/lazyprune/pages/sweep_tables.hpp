// SPDX-License-Identifier: MIT
// Writes the tables of a sweep's page in HTML: the paper's Tables 1 and 2, and all results.
#pragma once

#include <string>

#include "pages/sweep_view.hpp"

namespace lazyprune {
namespace program {

/// The methods that were run, each with a sentence for readers who know only the paper.
std::string method_list(const sweep_view& view);

/// The tasks, with their numbers of samples and the dense model's scores and times.
std::string task_table(const sweep_view& view);

/// A table with groups of tasks and methods down and budgets across. Each budget has two columns, one for each quantity. With `mark`, the
/// first quantity is bold if the interval of the points lost includes 0 or lies below it.
std::string group_table(const sweep_view& view, const sweep_quantity& first, const sweep_quantity& second, bool mark);

/// The flags of each setting.
std::string setting_table(const sweep_view& view);

/// All entries, one row each.
std::string result_table(const sweep_view& view);

}  // namespace program
}  // namespace lazyprune
