// SPDX-License-Identifier: MIT
// The tables of a sweep's page, in HTML: the paper's Tables 1 and 2, and all that was run.
#pragma once

#include <string>

#include "pages/sweep_view.hpp"

namespace lazyprune {
namespace program {

/// The methods that were run, and what each does, for those who know only the paper.
std::string method_list(const sweep_view& view);

std::string task_table(const sweep_view& view);

/// Groups of tasks and methods down, budgets across, two quantities each. Bold, if asked for: the first one of a setting whose loss has an
/// interval that reaches 0.
std::string group_table(const sweep_view& view, const sweep_quantity& first, const sweep_quantity& second, bool mark);

/// The flags of each setting.
std::string setting_table(const sweep_view& view);

/// Every entry.
std::string result_table(const sweep_view& view);

}  // namespace program
}  // namespace lazyprune
