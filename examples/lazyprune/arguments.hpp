// SPDX-License-Identifier: MIT
// Flags whose values are checked to the last character: what is no number, or out of its range, ends in one clear line.
#pragma once

#include <concepts>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include <lazyprune/core/error.hpp>
#include <lazyprune/session/flag_text.hpp>

/// From `least` to `most`.
template <class T>
struct number_range {
  T least;
  T most = std::numeric_limits<T>::max();

  /// Throws `error` where the text is no such number.
  T read(std::string_view flag, std::string_view text) const {
    const auto value = lazyprune::number_in<T>(text);
    if (value && *value >= least && *value <= most) return *value;
    const std::string_view kind = std::integral<T> ? "a whole number" : "a number";
    std::string expected = std::string(kind) + " from " + lazyprune::text_of_number(least);
    if (most != std::numeric_limits<T>::max()) expected += " to " + lazyprune::text_of_number(most);
    throw lazyprune::error(flag, "", expected, text.empty() ? "nothing" : text);
  }
};

/// "-n,--predict" is called by its last name in errors.
inline std::string name_of_flag(std::string_view names) { return std::string(names.substr(names.rfind(',') + 1)); }

template <class T>
CLI::Option* add_number(CLI::App& app, const std::string& names, T& to, number_range<T> range, const std::string& help) {
  return app
      .add_option_function<std::string>(
          names, [&to, range, flag = name_of_flag(names)](const std::string& text) { to = range.read(flag, text); }, help)
      ->type_name("N");
}

/// Numbers with commas between them, at least one.
template <class T>
CLI::Option* add_numbers(CLI::App& app, const std::string& names, std::vector<T>& to, number_range<T> range, const std::string& help) {
  const auto read = [&to, range, flag = name_of_flag(names)](const std::string& text) {
    to.clear();
    if (text.empty()) throw lazyprune::error(flag, "", "numbers with commas between them", "nothing");
    for (const std::string_view piece : lazyprune::split(text, ',')) to.push_back(range.read(flag, piece));
  };
  return app.add_option_function<std::string>(names, read, help)->type_name("N,N,...");
}
