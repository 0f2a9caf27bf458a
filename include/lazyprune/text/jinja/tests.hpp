// SPDX-License-Identifier: MIT
// jinja2's tests, such as `x is defined`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

#include <lazyprune/text/jinja/arguments.hpp>
#include <lazyprune/text/jinja/methods.hpp>
#include <lazyprune/text/jinja/operations.hpp>
#include <lazyprune/text/jinja/value.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

/// A test. Its parameters are the value, the call's arguments, the name that the template calls it by, and the budget.
using test_function = bool (*)(const value&, const arguments&, std::string_view, budget&);

namespace detail {

struct named_test {
  std::string_view name;
  test_function holds;
};

inline bool compare_test(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"other"}, 1);
  if (name == "eq" || name == "equalto" || name == "==") return equal(v, a[0], work);
  if (name == "ne" || name == "!=") return !equal(v, a[0], work);
  if (name == "lt" || name == "lessthan" || name == "<") return less(v, a[0], work);
  if (name == "gt" || name == "greaterthan" || name == ">") return less(a[0], v, work);
  if (name == "le" || name == "<=") return less(v, a[0], work) || equal(v, a[0], work);
  return less(a[0], v, work) || equal(v, a[0], work);  // for ge and >=
}

/// The tests for the kind of a value.
inline bool kind_test(const value& v, const arguments& given, std::string_view name, budget&) {
  bound_arguments(name, given, {});
  if (name == "defined") return !v.is_undefined();
  if (name == "undefined") return v.is_undefined();
  if (name == "none") return v.is_none();
  if (name == "boolean") return v.is(kind::boolean);
  if (name == "true") return v.is(kind::boolean) && truth(v);
  if (name == "false") return v.is(kind::boolean) && !truth(v);
  if (name == "integer") return v.is(kind::integer);
  if (name == "float") return v.is(kind::real);
  if (name == "number") return v.is_number();
  if (name == "string") return v.text() != nullptr;
  if (name == "mapping") return v.dict() != nullptr;
  const sequence* s = v.sequence();
  if (name == "iterable") return s || v.text() || v.dict() || v.is_undefined() || v.is(kind::loop);
  if (name == "sequence") return (s && s->kind <= sequence_kind::range) || v.text() || v.dict() || v.is_undefined();
  const auto* turn = v.get_if<turns*>();
  return v.kind() >= kind::macro || v.is_undefined() || (turn && (*turn)->joins);  // for callable
}

inline bool parity_test(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"num"}, name == "divisibleby" ? 1 : 0);
  const value divisor = a.or_else(0, value(std::int64_t{2}));
  if (!v.is_number() || !divisor.is_number()) refuse("a number", described(v.is_number() ? divisor : v));
  const value rest = arithmetic(operation::modulo, v, divisor, work);
  return equal(rest, value(std::int64_t{name == "odd" ? 1 : 0}), work);
}

inline bool case_test(const value& v, const arguments& given, std::string_view name, budget& work) {
  bound_arguments(name, given, {});
  return truth(is_class(name == "upper" ? "isupper" : "islower", *text_of(v, work), work));
}

inline bool in_test(const value& v, const arguments& given, std::string_view name, budget& work) {
  return contains(bound_arguments(name, given, {"seq"}, 1)[0], v, work);
}

inline bool same_test(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"other"}, 1);
  if (v.kind() != a[0].kind() || v.is_undefined() || v.is(kind::real)) return false;
  if (v.dict() || v.sequence()) return v.dict() == a[0].dict() && v.sequence() == a[0].sequence();
  return equal(v, a[0], work);
}

inline constexpr named_test tests[] = {
    {"defined", kind_test}, {"undefined", kind_test},     {"none", kind_test},     {"boolean", kind_test},        {"true", kind_test},
    {"false", kind_test},   {"integer", kind_test},       {"float", kind_test},    {"number", kind_test},         {"string", kind_test},
    {"mapping", kind_test}, {"iterable", kind_test},      {"sequence", kind_test}, {"callable", kind_test},       {"odd", parity_test},
    {"even", parity_test},  {"divisibleby", parity_test}, {"eq", compare_test},    {"equalto", compare_test},     {"==", compare_test},
    {"ne", compare_test},   {"!=", compare_test},         {"lt", compare_test},    {"lessthan", compare_test},    {"<", compare_test},
    {"le", compare_test},   {"<=", compare_test},         {"gt", compare_test},    {"greaterthan", compare_test}, {">", compare_test},
    {"ge", compare_test},   {">=", compare_test},         {"upper", case_test},    {"lower", case_test},          {"in", in_test},
    {"sameas", same_test},
};

}  // namespace detail

/// Returns the test with this name, or null if there is none.
inline test_function find_test(std::string_view name) {
  const auto* at = std::ranges::find(detail::tests, name, &detail::named_test::name);
  return at == std::end(detail::tests) ? nullptr : at->holds;
}

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
