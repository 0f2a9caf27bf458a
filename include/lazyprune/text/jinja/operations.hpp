// SPDX-License-Identifier: MIT
// Python's operators on values: truth, equality and order, membership, arithmetic, indices and slices.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/text/jinja/budget.hpp>
#include <lazyprune/text/jinja/characters.hpp>
#include <lazyprune/text/jinja/printing.hpp>
#include <lazyprune/text/jinja/search.hpp>
#include <lazyprune/text/jinja/syntax.hpp>
#include <lazyprune/text/jinja/value.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

/// Throws `error` if the value is undefined.
inline void need_defined(const value& v) {
  if (v.is_undefined()) refuse("a value", described(v));
}

inline bool truth(const value& v) {
  switch (v.kind()) {
    case kind::undefined:
    case kind::none:
      return false;
    case kind::boolean:
      return *v.get_if<bool>();
    case kind::integer:
      return *v.get_if<std::int64_t>() != 0;
    case kind::real:
      return *v.get_if<double>() != 0;
    case kind::string:
      return !v.text()->empty();
    case kind::sequence:
      return v.sequence()->kind == sequence_kind::generator || !v.sequence()->items.empty();
    case kind::dict:
      return !v.dict()->entries.empty();
    default:
      return true;
  }
}

/// Returns the number of bytes that a lookup of this key reads.
inline std::size_t key_size(const value& key) {
  if (key.text()) return key.text()->size();
  std::size_t size = sizeof(std::int64_t);
  if (const sequence* s = key.sequence(); s && s->kind == sequence_kind::tuple)
    for (const value& item : s->items) size += key_size(item);
  return size;
}

/// Returns a == b. The depth of recursion is at most the height of the values.
inline bool equal(const value& a, const value& b, budget& work) {
  work.step();
  if (a.is_number() && b.is_number()) {
    if (a.integer() && b.integer()) return *a.integer() == *b.integer();
    return a.number() == b.number();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case kind::undefined:
    case kind::none:
      return true;
    case kind::string:
      if (a.text()->size() != b.text()->size()) return false;
      work.read(a.text()->size());
      return a.text()->bytes() == b.text()->bytes();
    case kind::sequence: {
      const sequence &x = *a.sequence(), &y = *b.sequence();
      if (&x == &y) return true;
      if (x.kind != y.kind || x.items.size() != y.items.size() || x.kind > sequence_kind::range) return false;
      return std::equal(x.items.begin(), x.items.end(), y.items.begin(), [&](const value& p, const value& q) { return equal(p, q, work); });
    }
    case kind::dict: {
      const dict &x = *a.dict(), &y = *b.dict();
      if (x.entries.size() != y.entries.size()) return false;
      return std::ranges::all_of(x.entries, [&](const dict::entry& e) {
        work.read(key_size(e.key));
        const value* other = y.find(e.key);
        return other && equal(e.item, *other, work);
      });
    }
    case kind::name_space:
      return *a.get_if<name_space*>() == *b.get_if<name_space*>();
    case kind::macro:
      return *a.get_if<const macro*>() == *b.get_if<const macro*>();
    case kind::loop:
      return *a.get_if<const loop_state*>() == *b.get_if<const loop_state*>();
    case kind::turns:
      return *a.get_if<turns*>() == *b.get_if<turns*>();
    case kind::function:
      return *a.get_if<function>() == *b.get_if<function>();
    default:
      return false;
  }
}

/// Returns a < b. Throws `error` if the two values have no order.
inline bool less(const value& a, const value& b, budget& work) {
  work.step();
  need_defined(a);
  need_defined(b);
  if (a.is_number() && b.is_number()) {
    if (a.integer() && b.integer()) return *a.integer() < *b.integer();
    return a.number() < b.number();
  }
  if (a.text() && b.text()) {
    work.read(std::min(a.text()->size(), b.text()->size()));
    return a.text()->bytes() < b.text()->bytes();  // the order of UTF-8 bytes is the order of code points
  }
  const sequence *x = a.sequence(), *y = b.sequence();
  if (x && y && x->kind == y->kind && x->kind <= sequence_kind::tuple) {
    for (std::size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i)
      if (!equal(x->items[i], y->items[i], work)) return less(x->items[i], y->items[i], work);
    return x->items.size() < y->items.size();
  }
  refuse("two values that have an order", described(a) + " and " + described(b));
}

/// Returns the items of an iteration: the elements of a list, the keys of a dictionary, the characters of a string. A generator is empty
/// afterwards.
inline std::vector<value> items_of(const value& v, budget& work) {
  if (const sequence* s = v.sequence()) {
    work.write(s->items.size() * sizeof(value));
    if (s->kind != sequence_kind::generator) return s->items;
    return std::exchange(s->spent, true) ? std::vector<value>{} : s->items;
  }
  std::vector<value> items;
  if (const dict* d = v.dict()) {
    work.write(d->entries.size() * sizeof(value));
    for (const dict::entry& e : d->entries) items.push_back(e.key);
  } else if (const tagged_text* t = v.text()) {
    for (std::size_t at = 0; at < t->size();) {
      work.write(sizeof(tagged_text) + sizeof(value));
      const std::size_t size = first_character(std::string_view(t->bytes()).substr(at)).size;
      items.emplace_back(t->substr(at, size));
      at += size;
    }
  } else if (!v.is_undefined()) {
    refuse("a value to iterate", described(v));
  }
  return items;
}

/// Returns len(v), or nullopt if the value has no length.
inline std::optional<std::size_t> length_of(const value& v, budget& work) {
  if (const tagged_text* t = v.text()) {
    work.read(t->size());
    return count_characters(t->bytes());
  }
  if (const sequence* s = v.sequence(); s && s->kind != sequence_kind::generator) return s->items.size();
  if (const dict* d = v.dict()) return d->entries.size();
  if (v.is_undefined()) return 0;
  return std::nullopt;
}

/// Returns whether `item` is in `container`.
inline bool contains(const value& container, const value& item, budget& work) {
  if (const tagged_text* t = container.text()) {
    if (!item.text()) refuse("a string to look for in a string", described(item));
    work.read(t->size() + item.text()->size());
    return searcher(item.text()->bytes(), work).find(t->bytes()) != std::string::npos;
  }
  if (const dict* d = container.dict()) {
    work.read(key_size(item));
    return d->find(item) != nullptr;
  }
  if (const sequence* s = container.sequence(); s && s->kind != sequence_kind::generator)
    return std::ranges::any_of(s->items, [&](const value& each) { return equal(each, item, work); });
  const std::vector<value> items = items_of(container, work);
  return std::ranges::any_of(items, [&](const value& each) { return equal(each, item, work); });
}

/// Returns the text with <, >, &, " and ' escaped for HTML.
inline tagged_text escaped(const tagged_text& text, budget& work) {
  tagged_text out;
  const std::string_view bytes = text.bytes();
  work.write(bytes.size());
  std::size_t plain = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const char c = bytes[at];
    const std::string_view written = c == '&'    ? "&amp;"
                                     : c == '<'  ? "&lt;"
                                     : c == '>'  ? "&gt;"
                                     : c == '"'  ? "&#34;"
                                     : c == '\'' ? "&#39;"
                                                 : "";
    if (written.empty()) continue;
    work.write(written.size());
    out.append(text, plain, at - plain);
    out.append(written, text.trusted_at(at), text.document_at(at));
    plain = at + 1;
  }
  out.append(text, plain, bytes.size() - plain);
  out.safe = true;
  return out;
}

namespace detail {

inline value joined(const tagged_text& a, const tagged_text& b, budget& work) {
  work.write(a.size() + b.size());
  if (a.safe != b.safe) return joined(a.safe ? a : escaped(a, work), b.safe ? b : escaped(b, work), work);
  tagged_text out = a;
  out.append(b);
  return out;
}

inline value repeated(const value& v, std::int64_t times, budget& work) {
  const std::size_t count = times > 0 ? static_cast<std::size_t>(times) : 0;
  const std::size_t size = v.text() ? v.text()->size() : v.sequence()->items.size() * sizeof(value);
  if (size > 0 && count > std::numeric_limits<std::uint32_t>::max()) work.step(count);
  work.write(size * count);
  if (const tagged_text* t = v.text()) {
    tagged_text out;
    if (size > 0)
      for (std::size_t i = 0; i < count; ++i) out.append(*t);
    out.safe = t->safe;
    return out;
  }
  std::vector<value> items;
  if (size > 0)
    for (std::size_t i = 0; i < count; ++i) items.insert(items.end(), v.sequence()->items.begin(), v.sequence()->items.end());
  return make_sequence(v.sequence()->kind, std::move(items), work);
}

[[noreturn]] inline void refuse_overflow() { refuse("whole numbers of at most 64 bits", "a larger one", error_code::unsupported); }

inline value integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t product = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(product, base, &product)) refuse_overflow();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) refuse_overflow();
  }
  return value(product);
}

inline value integer_result(operation what, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  bool over = false;
  switch (what) {
    case operation::add:
      over = __builtin_add_overflow(a, b, &out);
      break;
    case operation::subtract:
      over = __builtin_sub_overflow(a, b, &out);
      break;
    case operation::multiply:
      over = __builtin_mul_overflow(a, b, &out);
      break;
    case operation::power:
      if (b < 0) return value(std::pow(static_cast<double>(a), static_cast<double>(b)));
      return integer_power(a, b);
    default: {
      if (b == 0) refuse("a divisor that is not 0", "0");
      if (what == operation::divide) return value(static_cast<double>(a) / static_cast<double>(b));
      if (b == -1) {  // the only divisor with which a quotient can overflow
        if (what == operation::modulo) return value(std::int64_t{0});
        over = __builtin_sub_overflow(std::int64_t{0}, a, &out);
        break;
      }
      const bool below = a % b != 0 && (a < 0) != (b < 0);  // Python rounds quotients down
      out = what == operation::floor_divide ? a / b - (below ? 1 : 0) : a % b + (below ? b : 0);
    }
  }
  if (over) refuse_overflow();
  return value(out);
}

inline value real_result(operation what, double a, double b) {
  if (b == 0 && what >= operation::divide && what <= operation::modulo) refuse("a divisor that is not 0", "0");
  switch (what) {
    case operation::add:
      return value(a + b);
    case operation::subtract:
      return value(a - b);
    case operation::multiply:
      return value(a * b);
    case operation::divide:
      return value(a / b);
    case operation::power:
      return value(std::pow(a, b));
    default: {
      double rest = std::fmod(a, b);
      if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
      return what == operation::modulo ? value(rest) : value(std::floor((a - rest) / b + 0.5));
    }
  }
}

}  // namespace detail

/// Returns a OP b. Throws `error` where Python raises an exception, and where a whole number would need more than 64 bits. Do not call this
/// for `%` after a string: `formatted` (formatting.hpp) computes that.
inline value arithmetic(operation what, const value& a, const value& b, budget& work) {
  need_defined(a);
  need_defined(b);
  if (a.is_number() && b.is_number()) {
    if (a.integer() && b.integer()) return detail::integer_result(what, *a.integer(), *b.integer());
    return detail::real_result(what, a.number(), b.number());
  }
  const auto repeats = [](const value& v) { return v.text() || (v.sequence() && v.sequence()->kind <= sequence_kind::tuple); };
  if (what == operation::add) {
    if (a.text() && b.text()) return detail::joined(*a.text(), *b.text(), work);
    const sequence *x = a.sequence(), *y = b.sequence();
    if (x && y && x->kind == y->kind && x->kind <= sequence_kind::tuple) {
      work.write((x->items.size() + y->items.size()) * sizeof(value));
      std::vector<value> items = x->items;
      items.insert(items.end(), y->items.begin(), y->items.end());
      return make_sequence(x->kind, std::move(items), work);
    }
  }
  if (what == operation::multiply) {
    if (repeats(a) && b.integer()) return detail::repeated(a, *b.integer(), work);
    if (repeats(b) && a.integer()) return detail::repeated(b, *a.integer(), work);
  }
  constexpr std::string_view verbs[] = {"added", "subtracted", "multiplied", "divided", "divided", "divided", "raised to a power"};
  refuse("values that can be " + std::string(verbs[static_cast<std::size_t>(what)]), described(a) + " and " + described(b));
}

inline value negated(const value& v) {
  if (const double* d = v.get_if<double>()) return value(-*d);
  if (const std::int64_t* i = v.integer()) return detail::integer_result(operation::subtract, 0, *i);
  refuse("a number", described(v));
}

/// Returns the element at `index`, or null if there is none. A negative index counts from the end.
inline const value* element(const sequence& s, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(s.items.size());
  if (index < 0) index += size;
  return index < 0 || index >= size ? nullptr : &s.items[static_cast<std::size_t>(index)];
}

/// Returns the character of a string at `index`, or nullopt if there is none. A negative index counts from the end.
inline std::optional<value> character_at(const tagged_text& t, std::int64_t index, budget& work) {
  work.read(t.size());
  if (index < 0) index += static_cast<std::int64_t>(count_characters(t.bytes()));
  if (index < 0) return std::nullopt;
  const std::size_t begin = character_offset(t.bytes(), static_cast<std::size_t>(index));
  if (begin == t.size()) return std::nullopt;
  return t.substr(begin, first_character(std::string_view(t.bytes()).substr(begin)).size);
}

/// The indices that start:stop:step selects among `count` elements.
struct slice_bounds {
  std::int64_t start, stop, step;

  slice_bounds(const std::optional<std::int64_t>& from, const std::optional<std::int64_t>& to, std::int64_t by, std::size_t count)
      : step(by) {
    const auto size = static_cast<std::int64_t>(count);
    const std::int64_t least = by < 0 ? -1 : 0, most = by < 0 ? size - 1 : size;
    const auto bounded = [&](std::int64_t i) { return std::clamp(i < 0 ? i + size : i, least, most); };
    start = from ? bounded(*from) : by < 0 ? most : least;
    stop = to ? bounded(*to) : by < 0 ? least : most;
  }
  std::vector<std::size_t> indices() const {
    std::vector<std::size_t> out;
    for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
      out.push_back(static_cast<std::size_t>(i));
      if (__builtin_add_overflow(i, step, &i)) break;
    }
    return out;
  }
};

/// Returns v[start:stop:step], or nullopt if the value has no slices. Throws `error` if the step is 0.
inline std::optional<value> sliced(const value& v, const std::optional<std::int64_t>& start, const std::optional<std::int64_t>& stop,
                                   const std::optional<std::int64_t>& step, budget& work) {
  const tagged_text* t = v.text();
  const sequence* s = v.sequence();
  if (!t && (!s || s->kind > sequence_kind::range)) return std::nullopt;
  const std::int64_t by = step.value_or(1);
  if (by == 0) refuse("a step that is not 0", "0");
  if (s) {
    work.write(s->items.size() * sizeof(value));
    std::vector<value> items;
    for (const std::size_t i : slice_bounds(start, stop, by, s->items.size()).indices()) items.push_back(s->items[i]);
    return make_sequence(s->kind, std::move(items), work);
  }
  work.read(t->size());
  work.write(t->size());
  const std::string_view bytes = t->bytes();
  const slice_bounds bounds(start, stop, by, count_characters(bytes));
  if (by == 1) {
    const std::size_t begin = character_offset(bytes, static_cast<std::size_t>(bounds.start));
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(bounds.stop - bounds.start, 0));
    return t->substr(begin, character_offset(bytes.substr(begin), count));
  }
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at < bytes.size(); at += first_character(bytes.substr(at)).size) offsets.push_back(at);
  offsets.push_back(bytes.size());
  work.write(offsets.size() * 2 * sizeof(std::size_t));
  tagged_text out;
  for (const std::size_t i : bounds.indices()) out.append(*t, offsets[i], offsets[i + 1] - offsets[i]);
  return out;
}

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
