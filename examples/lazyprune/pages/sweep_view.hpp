// SPDX-License-Identifier: MIT
// A sweep's entries in order, and its quantities as the page shows them: what tables and figures are made of.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tables/sweep_table.hpp"

#include <lazyprune/eval/estimate.hpp>

namespace lazyprune {
namespace program {

/// What is shown of a summary.
struct sweep_quantity {
  std::string_view head;
  std::optional<estimate> (*of)(const eval_summary&);
  double scale;
  int digits;
  std::string_view unit;
};

extern const sweep_quantity score_quantity, lost_quantity, ttft_quantity, speedup_quantity, computed_quantity, generated_quantity,
    overall_quantity;

std::string mean_text(const sweep_quantity& q, const estimate& e);

/// The mean and its interval: "20.0 (17.0–24.0)".
std::string whole_text(const sweep_quantity& q, const estimate& e);

/// A cell of a table in HTML; a dash where there is nothing to show.
std::string html_cell(const sweep_quantity& q, const std::optional<estimate>& e, bool bold = false);

/// Adds what the list does not have yet.
template <class T>
void add_once(std::vector<T>& list, const T& value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(value);
}

/// What there is of each kind, and where an entry stands.
struct sweep_view {
  struct group {
    std::string name;
    std::vector<std::string> tasks;
  };
  const sweep_table& table;
  std::vector<std::string> tasks, methods;  // methods: the dense one is none
  std::vector<double> budgets;              // mild to harsh
  std::vector<group> groups;

  /// Throws `error` where the table has no entries.
  explicit sweep_view(const sweep_table& t);

  /// The entry of that setting and task; null where there is none. The dense entries have no budget, whatever `method` says.
  const sweep_entry* find(std::string_view method, std::optional<double> budget, std::string_view task) const;

  /// The mean over tasks; none where one of them lacks it.
  std::optional<estimate> mean(const sweep_quantity& q, std::string_view method, std::optional<double> budget,
                               const std::vector<std::string>& over) const;
  std::optional<estimate> dense(const sweep_quantity& q, const std::vector<std::string>& over) const {
    return mean(q, "", std::nullopt, over);
  }
};

/// "lazyllm" of "lazyllm@3+5".
std::string_view name_in(std::string_view method);

}  // namespace program
}  // namespace lazyprune
