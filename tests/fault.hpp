// SPDX-License-Identifier: MIT
// How tests compare an error with the one that they expect. File, place and code must be equal, and the expected values must occur in the
// error's text. The test does not depend on the other words of the text.
#pragma once

#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>

namespace lazyprune_test {

/// The text and the fields of a lazyprune::error. If its code is io, "io: " precedes the text. If there was no error, the text is "no
/// error".
struct fault : std::string {
  std::string where{};  // "FILE: PLACE"; either may be empty
  std::optional<lazyprune::error_code> code{};

  fault() : std::string("no error") {}
  explicit fault(const lazyprune::error& e)
      : std::string((e.code() == lazyprune::error_code::io ? "io: " : "") + std::string(e.what())),
        where(e.file() + (e.file().empty() || e.place().empty() ? "" : ": ") + e.place()),
        code(e.code()) {}

  /// Returns the fault with a shorter text and a shorter `where`: both begin after `mark`, for example the name of a temporary folder.
  fault after(const std::string& mark) const {
    fault rest = *this;
    for (std::string* part : {static_cast<std::string*>(&rest), &rest.where}) {
      const std::size_t found = (*part + ": ").find(mark);
      if (found != npos) part->erase(0, std::min(found + mark.size(), part->size()));
    }
    return rest;
  }

  friend std::ostream& operator<<(std::ostream& out, const fault& f) {
    return out << static_cast<const std::string&>(f) << " (" << (f.code ? name_of(*f.code) : "none") << ')';
  }
};

/// The error that a test expects: its file, place and code, and values that occur in its sentence.
struct at {
  std::string where;
  std::vector<std::string> values{};
  lazyprune::error_code code = lazyprune::error_code::bad_input;

  at(std::string where_, std::vector<std::string> values_ = {}, lazyprune::error_code code_ = lazyprune::error_code::bad_input)
      : where(std::move(where_)), values(std::move(values_)), code(code_) {}

  friend bool operator==(const fault& f, const at& wanted) {
    return f.code == wanted.code && f.where == wanted.where &&
           std::ranges::all_of(wanted.values, [&](const std::string& value) { return f.find(value) != f.npos; });
  }
  friend std::ostream& operator<<(std::ostream& out, const at& wanted) {
    out << "at " << wanted.where << " (" << name_of(wanted.code) << ')';
    for (const std::string& value : wanted.values) out << ", with " << value;
    return out;
  }
};

/// Returns an expected error with the code `unsupported`.
inline at unsupported(std::string where, std::vector<std::string> values = {}) {
  return {std::move(where), std::move(values), lazyprune::error_code::unsupported};
}

/// Returns the lazyprune::error that the call throws; "no error" if it throws none.
template <class Call>
fault error_of(Call call) {
  try {
    call();
  } catch (const lazyprune::error& e) {
    return fault(e);
  }
  return {};
}

/// Returns the code of the lazyprune::error that the call throws; nullopt if it throws none.
template <class Call>
std::optional<lazyprune::error_code> code_of(Call call) {
  try {
    call();
  } catch (const lazyprune::error& e) {
    return e.code();
  }
  return std::nullopt;
}

}  // namespace lazyprune_test
