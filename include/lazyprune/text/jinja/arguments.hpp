// SPDX-License-Identifier: MIT
// The arguments of a call, matched to the names of the parameters as in Python.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/jinja/budget.hpp>
#include <lazyprune/text/jinja/operations.hpp>
#include <lazyprune/text/jinja/value.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

struct arguments {
  std::vector<value> positional;
  std::vector<std::pair<std::string, value>> named;
  std::size_t named_by_user = 0;  // the last `named_by_user` entries of `named` have names that the user wrote
};

/// The values of the parameters. The arguments must outlive this object.
class bound_arguments {
 public:
  /// Throws `error` if there are too many arguments, if an argument has an unknown name or comes twice, or if one of the first `required`
  /// names has no argument.
  bound_arguments(std::string_view callee, const arguments& given, std::initializer_list<std::string_view> names, std::size_t required = 0)
      : callee_(callee), names_(names), values_(names.size()) {
    if (given.positional.size() > names_.size())
      refuse("at most " + std::to_string(names_.size()) + " arguments of " + in_quotes(callee), std::to_string(given.positional.size()));
    for (std::size_t i = 0; i < given.positional.size(); ++i) values_[i] = &given.positional[i];
    for (const auto& [name, item] : given.named) {
      const auto at = static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin());
      if (at == names_.size()) refuse("an argument that " + in_quotes(callee) + " has", in_quotes(name));
      if (values_[at]) refuse("each argument of " + in_quotes(callee) + " once", in_quotes(name) + " twice");
      values_[at] = &item;
    }
    for (std::size_t i = 0; i < required; ++i)
      if (!values_[i]) refuse("the argument " + in_quotes(names_[i]) + " of " + in_quotes(callee), "none");
  }

  bool has(std::size_t i) const { return values_[i] != nullptr; }
  const value& operator[](std::size_t i) const { return *values_[i]; }
  value or_else(std::size_t i, const value& preset) const { return values_[i] ? *values_[i] : preset; }

  bool flag(std::size_t i, bool preset = false) const { return values_[i] ? truth(*values_[i]) : preset; }
  std::int64_t integer(std::size_t i, std::int64_t preset) const {
    if (!values_[i]) return preset;
    if (!values_[i]->integer()) fail(i, "a whole number");
    return *values_[i]->integer();
  }
  const tagged_text& text(std::size_t i) const {
    if (!values_[i]->text()) fail(i, "a string");
    return *values_[i]->text();
  }

 private:
  [[noreturn]] void fail(std::size_t i, std::string_view expected) const {
    refuse(std::string(expected) + " for " + in_quotes(names_[i]) + " of " + in_quotes(callee_), described(*values_[i]));
  }

  std::string_view callee_;
  std::vector<std::string_view> names_;
  std::vector<const value*> values_;
};

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
