// SPDX-License-Identifier: MIT
// The filters of jinja2 that chat templates use, and the tojson of transformers. Each filter keeps the origin of its input texts.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <lazyprune/text/jinja/arguments.hpp>
#include <lazyprune/text/jinja/formatting.hpp>
#include <lazyprune/text/jinja/json_text.hpp>
#include <lazyprune/text/jinja/members.hpp>
#include <lazyprune/text/jinja/methods.hpp>
#include <lazyprune/text/jinja/operations.hpp>
#include <lazyprune/text/jinja/tests.hpp>
#include <lazyprune/text/jinja/value.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

/// A filter. Its parameters are the value, the call's arguments, the name that the template calls it by, and the budget.
using filter_function = value (*)(const value&, const arguments&, std::string_view, budget&);

/// Returns the filter with this name, or null if there is none.
inline filter_function find_filter(std::string_view name);

namespace detail {

// Filters of texts

inline value text_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  bound_arguments(name, given, {});
  const text_ptr text = text_of(v, work);
  if (name == "upper") return upper(*text, work);
  if (name == "lower") return lower(*text, work);
  if (name == "capitalize") return capitalized(*text, work);
  if (name == "string") return text;
  if (name == "escape" || name == "e") return text->safe ? value(text) : value(escaped(*text, work));
  tagged_text marked = *text;  // for the filter `safe`
  work.write(marked.size());
  marked.safe = true;
  return marked;
}

/// Gives each word an upper-case first letter and lower-case letters after it. White space and - ( { [ < separate words.
inline value title_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  bound_arguments(name, given, {});
  std::size_t begin = 0, end = 0;  // the bounds of the current word, or of the separators between two words
  return mapped(*text_of(v, work), work, [&](std::u32string_view all, std::size_t at) {
    if (at < end) return lower_letters(all.substr(begin + 1, end - begin - 1), at - begin - 1);
    const auto between = [&](std::size_t i) { return is_python_space(all[i]) || std::u32string_view(U"-({[<").find(all[i]) != all.npos; };
    for (begin = end++; end < all.size() && between(end) == between(begin);) ++end;
    return upper_letters(all[at]);
  });
}

inline value trim_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"chars"});
  const tagged_text* set = a.has(0) && !a[0].is_none() ? &a.text(0) : nullptr;
  return stripped(*text_of(v, work), set, true, true, work);
}

inline value replace_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"old", "new", "count"}, 2);
  const std::int64_t most = a.has(2) && a[2].is_none() ? -1 : a.integer(2, -1);
  return replaced(*text_of(v, work), *text_of(a[0], work), *text_of(a[1], work), most, work);
}

inline value format_filter(const value& v, const arguments& given, std::string_view, budget& work) {
  const text_ptr format = text_of(v, work);
  if (given.named.empty()) return formatted(*format, make_sequence(sequence_kind::tuple, given.positional, work), work);
  if (!given.positional.empty()) refuse("only named values or only values without a name", "both");
  dict members;
  const std::size_t written = given.named.size() - given.named_by_user;
  for (std::size_t i = 0; i < given.named.size(); ++i) {
    const auto& [name, item] = given.named[i];
    work.write(sizeof(dict::entry) + name.size());
    members.set(tagged_text(name, i < written), item);
  }
  return formatted(*format, std::make_shared<const dict>(std::move(members)), work);
}

inline value indent_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"width", "first", "blank"});
  if (!v.text()) refuse("a string to indent", described(v));
  tagged_text indent;
  if (a.has(0) && a[0].text())
    indent = a.text(0);
  else
    for (std::int64_t left = a.integer(0, 4); left > 0; --left) {
      work.step();
      indent.append(" ", true);
    }
  work.write(2 * v.text()->size());
  tagged_text text = *v.text();
  text.append("\n", true);
  const std::vector<tagged_text> lines = lines_of(text, false, work);
  tagged_text out = a.flag(1) ? indent : tagged_text();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    work.write(lines[i].size() + indent.size() + 1);
    if (i > 0) {
      out.append("\n", true);
      if (a.flag(2) || !lines[i].empty()) out.append(indent);
    }
    out.append(lines[i]);
  }
  return out;
}

inline value tojson_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"ensure_ascii", "indent", "separators", "sort_keys"});
  json_format format;
  format.only_ascii = a.flag(0);
  format.sorted = a.flag(3);
  if (a.has(1) && !a[1].is_none()) {
    if (a[1].text()) {
      format.indent = a.text(1);
    } else {
      const std::int64_t width = a.integer(1, 0);
      if (width > 0) work.write(static_cast<std::size_t>(width));
      format.indent = tagged_text(std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' '), false);
    }
    format.between_items = tagged_text(",", false);
  }
  if (a.has(2) && !a[2].is_none()) {
    const std::vector<value> two = items_of(a[2], work);
    if (two.size() != 2 || !two[0].text() || !two[1].text()) refuse("two separators", described(a[2]));
    format.between_items = *two[0].text();
    format.after_key = *two[1].text();
  }
  return json_writer(format, work).write(v);
}

// Filters of sequences

inline value length_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  bound_arguments(name, given, {});
  const auto length = length_of(v, work);
  if (!length) refuse("a value with a length", described(v));
  return value(static_cast<std::int64_t>(*length));
}

inline value list_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  bound_arguments(name, given, {});
  return make_list(items_of(v, work), work);
}

inline value reverse_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  bound_arguments(name, given, {});
  if (v.text()) return *sliced(v, std::nullopt, std::nullopt, -1, work);
  std::vector<value> items = items_of(v, work);
  std::ranges::reverse(items);
  return make_sequence(sequence_kind::generator, std::move(items), work);
}

inline value first_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  bound_arguments(name, given, {});
  const std::vector<value> items = items_of(v, work);
  if (items.empty()) return make_undefined("an item of an empty sequence");
  return name == "first" ? items.front() : items.back();
}

inline value join_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"d", "attribute"});
  const text_ptr separator = text_of(a.or_else(0, template_text("")), work);
  if (!a.has(1) || a[1].is_none()) return join_texts(*separator, v, work, false);
  std::vector<value> items = items_of(v, work);
  const attribute_path path(a[1]);
  for (value& item : items) item = path.of(item, work);
  return join_texts(*separator, make_list(std::move(items), work), work, false);
}

inline value items_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  bound_arguments(name, given, {});
  if (v.is_undefined()) return make_sequence(sequence_kind::generator, {}, work);
  if (!v.dict()) refuse("a dictionary", described(v));
  return make_sequence(sequence_kind::generator, call_dict_method(name, *v.dict(), {}, work).sequence()->items, work);
}

/// Returns argument `i`, the value that takes the place of a missing member. If the argument is none or not given, returns undefined.
inline value preset_of(const bound_arguments& a, std::size_t i) { return a.has(i) && !a[i].is_none() ? a[i] : value(); }

/// Returns the key to sort by. Strings are converted to lower case unless `case_counts` is true.
inline value order_key(const value& v, bool case_counts, budget& work) {
  return v.text() && !case_counts ? value(lower(*v.text(), work)) : v;
}

/// Takes pairs of a key and an item. Returns the items, sorted by their keys: ascending, or descending if `reverse` is true. Items with
/// equal keys keep their order.
inline std::vector<value> sorted_by(std::vector<std::pair<value, value>> keyed, bool reverse, budget& work) {
  work.write(2 * keyed.size() * sizeof(std::pair<value, value>));
  std::ranges::stable_sort(
      keyed, [&](const auto& a, const auto& b) { return reverse ? less(b.first, a.first, work) : less(a.first, b.first, work); });
  std::vector<value> items;
  items.reserve(keyed.size());
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return items;
}

inline value sort_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"reverse", "case_sensitive", "attribute"});
  std::vector<attribute_path> paths;  // "a,b" sorts by a and then by b
  if (!a.has(2) || !a[2].text()) paths.emplace_back(a.or_else(2, none_type{}));
  for (std::string_view rest = a.has(2) && a[2].text() ? std::string_view(a.text(2).bytes()) : ""; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    paths.emplace_back(user_text(part));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  }
  std::vector<std::pair<value, value>> keyed;
  for (const value& item : items_of(v, work)) {
    std::vector<value> keys;
    for (const attribute_path& path : paths) keys.push_back(order_key(path.of(item, work), a.flag(1), work));
    keyed.emplace_back(make_list(std::move(keys), work), item);
  }
  return make_list(sorted_by(std::move(keyed), a.flag(0), work), work);
}

inline value dictsort_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"case_sensitive", "by", "reverse"});
  if (!v.dict()) refuse("a dictionary", described(v));
  const bool by_value = a.has(1) && a.text(1).bytes() == "value";
  if (a.has(1) && !by_value && a.text(1).bytes() != "key") refuse("\"key\" or \"value\"", in_quotes(a.text(1).bytes()));
  std::vector<std::pair<value, value>> keyed;
  for (const auto& [key, item] : v.dict()->entries)
    keyed.emplace_back(order_key(by_value ? item : key, a.flag(0), work), make_sequence(sequence_kind::tuple, {key, item}, work));
  return make_list(sorted_by(std::move(keyed), a.flag(2), work), work);
}

inline value extreme_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"case_sensitive", "attribute"});
  const attribute_path path(a.or_else(1, none_type{}));
  std::optional<std::pair<value, value>> best;
  for (const value& item : items_of(v, work)) {
    value key = order_key(path.of(item, work), a.flag(0), work);
    if (!best || (name == "min" ? less(key, best->first, work) : less(best->first, key, work))) best.emplace(std::move(key), item);
  }
  return best ? best->second : make_undefined("an item of an empty sequence");
}

inline value sum_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"attribute", "start"});
  const attribute_path path(a.or_else(0, none_type{}));
  value sum = a.or_else(1, value(std::int64_t{0}));
  for (const value& item : items_of(v, work)) sum = arithmetic(operation::add, sum, path.of(item, work), work);
  return sum;
}

inline value unique_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"case_sensitive", "attribute"});
  const attribute_path path(a.or_else(1, none_type{}));
  std::vector<value> keys, items;
  for (const value& item : items_of(v, work)) {
    value key = order_key(path.of(item, work), a.flag(0), work);
    if (std::ranges::any_of(keys, [&](const value& seen) { return equal(seen, key, work); })) continue;
    keys.push_back(std::move(key));
    items.push_back(item);
  }
  return make_sequence(sequence_kind::generator, std::move(items), work);
}

/// Returns the arguments without the first `first` positional ones.
inline arguments rest_of(const arguments& given, std::size_t first) {
  arguments rest = given;
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(first));
  return rest;
}

inline const tagged_text& name_argument(const arguments& given, std::size_t i, std::string_view what) {
  if (i >= given.positional.size() || !given.positional[i].text()) refuse("the name of a " + std::string(what), "none");
  return *given.positional[i].text();
}

/// select and reject test each item. selectattr and rejectattr test an attribute of each item.
inline value select_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bool by_attribute = name.ends_with("attr"), rejects = name.starts_with("reject");
  if (by_attribute && given.positional.empty()) refuse("the name of an attribute", "none");
  const attribute_path path(by_attribute ? given.positional[0] : value(none_type{}));
  const std::size_t at = by_attribute ? 1 : 0;
  test_function holds = nullptr;
  arguments rest;
  std::string_view test_name;
  if (given.positional.size() > at) {
    test_name = name_argument(given, at, "test").bytes();
    holds = find_test(test_name);
    if (!holds) refuse("a test that is supported", in_quotes(test_name), error_code::unsupported);
    rest = rest_of(given, at + 1);
  }
  std::vector<value> kept;
  for (const value& item : items_of(v, work)) {
    const value looked_at = path.of(item, work);
    if ((holds ? holds(looked_at, rest, test_name, work) : truth(looked_at)) != rejects) kept.push_back(item);
  }
  return make_sequence(sequence_kind::generator, std::move(kept), work);
}

inline value map_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  std::vector<value> items;
  if (truth(v)) items = items_of(v, work);
  if (given.positional.empty()) {
    const bound_arguments a(name, given, {"attribute", "default"}, 1);
    const attribute_path path(a[0], preset_of(a, 1));
    for (value& item : items) item = path.of(item, work);
  } else {
    const std::string_view other = name_argument(given, 0, "filter").bytes();
    const filter_function apply = find_filter(other);
    if (!apply) refuse("a filter that is supported", in_quotes(other), error_code::unsupported);
    const arguments rest = rest_of(given, 1);
    const budget::level deeper(work);
    for (value& item : items) item = apply(item, rest, other, work);
  }
  return make_sequence(sequence_kind::generator, std::move(items), work);
}

/// Returns one tuple for each key: the key and the list of the items with this key. The tuples are in the order of the keys.
inline value groupby_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"attribute", "default", "case_sensitive"}, 1);
  const attribute_path path(a[0], preset_of(a, 1));
  const auto key_of = [&](const value& item) { return order_key(path.of(item, work), a.flag(2), work); };
  std::vector<std::pair<value, value>> keyed;
  for (const value& item : items_of(v, work)) keyed.emplace_back(key_of(item), item);
  std::vector<value> groups, group;
  const std::vector<value> sorted = sorted_by(std::move(keyed), false, work);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    group.push_back(sorted[i]);
    if (i + 1 < sorted.size() && equal(key_of(sorted[i]), key_of(sorted[i + 1]), work)) continue;
    value key = path.of(group.front(), work), list = make_list(std::exchange(group, {}), work);
    sequence made = *make_sequence(sequence_kind::tuple, {std::move(key), std::move(list)}, work).sequence();
    made.grouped = true;
    groups.emplace_back(std::make_shared<const sequence>(std::move(made)));
  }
  return make_list(std::move(groups), work);
}

inline value batch_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"linecount", "fill_with"}, 1);
  const std::int64_t size = a.integer(0, 1);
  if (size < 1) refuse("at least 1 item per batch", std::to_string(size));
  std::vector<value> batches, batch;
  for (const value& item : items_of(v, work)) {
    if (batch.size() == static_cast<std::size_t>(size)) batches.push_back(make_list(std::exchange(batch, {}), work));
    batch.push_back(item);
  }
  if (!batch.empty()) {
    while (a.has(1) && !a[1].is_none() && batch.size() < static_cast<std::size_t>(size)) {
      work.step();
      batch.push_back(a[1]);
    }
    batches.push_back(make_list(std::move(batch), work));
  }
  return make_sequence(sequence_kind::generator, std::move(batches), work);
}

// Filters of numbers, and other filters

inline value default_filter(const value& v, const arguments& given, std::string_view name, budget&) {
  const bound_arguments a(name, given, {"default_value", "boolean"});
  return v.is_undefined() || (a.flag(1) && !truth(v)) ? a.or_else(0, template_text("")) : v;
}

inline value abs_filter(const value& v, const arguments& given, std::string_view name, budget&) {
  bound_arguments(name, given, {});
  if (!v.is_number()) refuse("a number", described(v));
  return v.number() < 0 ? negated(v) : v.is(kind::boolean) ? value(*v.integer()) : v;
}

/// Returns the text of a number in the form that from_chars reads. Removes white space around the number, a plus sign, and single
/// underscores between digits. Any other underscore stays, so that from_chars refuses the text.
inline std::string number_text(std::string_view text) {
  text = without_trailing_space(without_leading_space(text));
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  std::string plain;
  const auto is_digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '_' || i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) plain += text[i];
  return plain;
}

inline std::optional<double> read_real(std::string_view given) {
  const std::string text = number_text(given);
  double number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault == std::errc::result_out_of_range) refuse("a number that a double holds", in_quotes(text), error_code::unsupported);
  return fault == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

inline value int_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"default", "base"});
  if (a.integer(1, 10) != 10) refuse("base 10", std::to_string(a.integer(1, 10)), error_code::unsupported);
  std::optional<double> real;
  need_defined(v);
  if (v.integer()) return value(*v.integer());
  if (const tagged_text* text = v.text()) {
    work.read(text->size());
    const std::string digits = number_text(text->bytes());
    std::int64_t number = 0;
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (fault == std::errc::result_out_of_range) refuse_overflow();
    if (fault == std::errc{} && end == digits.data() + digits.size()) return value(number);
    real = read_real(text->bytes());
  } else if (v.is(kind::real)) {
    real = v.number();
  }
  if (!real || !std::isfinite(*real)) return a.or_else(0, value(std::int64_t{0}));
  if (std::abs(*real) >= 0x1p63) refuse_overflow();
  return value(static_cast<std::int64_t>(*real));
}

inline value float_filter(const value& v, const arguments& given, std::string_view name, budget& work) {
  const bound_arguments a(name, given, {"default"});
  need_defined(v);
  if (v.is_number()) return value(v.number());
  if (const tagged_text* text = v.text()) {
    work.read(text->size());
    if (const auto real = read_real(text->bytes())) return value(*real);
  }
  return a.or_else(0, value(0.0));
}

inline value round_filter(const value& v, const arguments& given, std::string_view name, budget&) {
  const bound_arguments a(name, given, {"precision", "method"});
  if (!v.is_number()) refuse("a number", described(v));
  const std::string method = a.has(1) ? a.text(1).bytes() : "common";
  const std::int64_t precision = a.integer(0, 0);
  if (method != "common" && method != "ceil" && method != "floor") refuse("common, ceil or floor", in_quotes(method));
  if (precision < 0 || precision > 15) refuse("a precision from 0 to 15", std::to_string(precision), error_code::unsupported);
  if (method == "common" && v.integer()) return value(*v.integer());
  if (!std::isfinite(v.number())) refuse("a finite number", real_text(v.number()));
  if (method == "common") {  // printing with `precision` digits rounds correctly
    char buffer[400];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, v.number(), std::chars_format::fixed, static_cast<int>(precision)).ptr;
    double number = 0;
    std::from_chars(buffer, end, number);
    return value(number);
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = v.number() * scale;
  return value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

struct named_filter {
  std::string_view name;
  filter_function apply;
};

inline constexpr named_filter filters[] = {
    {"abs", abs_filter},         {"batch", batch_filter},       {"capitalize", text_filter},   {"count", length_filter},
    {"d", default_filter},       {"default", default_filter},   {"dictsort", dictsort_filter}, {"e", text_filter},
    {"escape", text_filter},     {"first", first_filter},       {"float", float_filter},       {"format", format_filter},
    {"groupby", groupby_filter}, {"indent", indent_filter},     {"int", int_filter},           {"items", items_filter},
    {"join", join_filter},       {"last", first_filter},        {"length", length_filter},     {"list", list_filter},
    {"lower", text_filter},      {"map", map_filter},           {"max", extreme_filter},       {"min", extreme_filter},
    {"reject", select_filter},   {"rejectattr", select_filter}, {"replace", replace_filter},   {"reverse", reverse_filter},
    {"round", round_filter},     {"safe", text_filter},         {"select", select_filter},     {"selectattr", select_filter},
    {"sort", sort_filter},       {"string", text_filter},       {"sum", sum_filter},           {"title", title_filter},
    {"tojson", tojson_filter},   {"trim", trim_filter},         {"unique", unique_filter},     {"upper", text_filter},
};

}  // namespace detail

inline filter_function find_filter(std::string_view name) {
  const auto* at = std::ranges::find(detail::filters, name, &detail::named_filter::name);
  return at == std::end(detail::filters) ? nullptr : at->apply;
}

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
