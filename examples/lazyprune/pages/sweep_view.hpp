// SPDX-License-Identifier: MIT
// The data of a sweep's page: the entries in order, and the quantities that the page shows.
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

/// One quantity of a summary, and its format.
struct sweep_quantity {
  std::string_view head;
  std::optional<estimate> (*of)(const eval_summary&);
  double scale;  // the page shows the value times this
  int digits;    // after the point
  std::string_view unit;
};

extern const sweep_quantity score_quantity, lost_quantity, ttft_quantity, speedup_quantity, computed_quantity, generated_quantity,
    overall_quantity;

std::string mean_text(const sweep_quantity& q, const estimate& e);

/// The mean and its interval: "20.0 (17.0–24.0)".
std::string whole_text(const sweep_quantity& q, const estimate& e);

/// A cell of an HTML table; a dash if there is no estimate.
std::string html_cell(const sweep_quantity& q, const std::optional<estimate>& e, bool bold = false);

/// Appends the value unless the list has it already.
template <class T>
void add_once(std::vector<T>& list, const T& value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(value);
}

/// The tasks, methods and budgets of a sweep, and a lookup of its entries.
struct sweep_view {
  struct group {
    std::string name;
    std::vector<std::string> tasks;
  };
  const sweep_table& table;
  std::vector<std::string> tasks, methods;  // methods: without dense
  std::vector<double> budgets;              // descending
  std::vector<group> groups;

  /// Throws `error` if the table has no entries.
  explicit sweep_view(const sweep_table& t);

  /// Returns the entry of this setting and task; null if there is none. Without a budget, returns the dense entry, whatever `method` is.
  const sweep_entry* find(std::string_view method, std::optional<double> budget, std::string_view task) const;

  /// The mean over tasks; nullopt if one of them lacks the quantity.
  std::optional<estimate> mean(const sweep_quantity& q, std::string_view method, std::optional<double> budget,
                               const std::vector<std::string>& over) const;
  std::optional<estimate> dense(const sweep_quantity& q, const std::vector<std::string>& over) const {
    return mean(q, "", std::nullopt, over);
  }
};

/// Returns the method's name without the layers: "lazyllm" for "lazyllm@3+5".
std::string_view name_in(std::string_view method);

}  // namespace program
}  // namespace lazyprune
