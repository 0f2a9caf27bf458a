// SPDX-License-Identifier: MIT
// The values of expressions: the types of Python that templates use. Strings, lists and dictionaries are immutable. A string records for
// each byte whether this byte comes from the template or from the user.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <lazyprune/text/jinja/budget.hpp>
#include <lazyprune/text/jinja/tagged_text.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

class value;
struct sequence;
struct dict;
// The interpreter owns namespaces, loops, turns (joiners and cyclers) and macros. Values only point to these objects.
struct name_space;
struct loop_state;
struct turns;
struct macro;
struct bound_method;

using text_ptr = std::shared_ptr<const tagged_text>;

/// The value of a missing name or member. It prints as an empty text, iterates as an empty list, and is false. A template gets an error if
/// it calls this value, asks whether it is less or greater than another, computes with it or reads one of its members.
struct undefined {
  std::shared_ptr<const std::string> why;  // the value in the words of an error, such as: "x", which is undefined
};
struct none_type {};

/// The functions that every template can call.
// NOLINTNEXTLINE(readability-identifier-naming): `namespace` is a keyword
enum class function : std::uint8_t { range, dict, namespace_, joiner, cycler, raise_exception, strftime_now };

/// The kind of a value. The kinds have the order of the types in `value::data_`, because value::kind() casts the index of the type.
enum class kind : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  sequence,
  dict,
  name_space,
  loop,
  turns,
  macro,
  method,
  function
};

class value {
 public:
  value() : data_(undefined{}) {}
  value(undefined u) : data_(std::move(u)) {}
  value(none_type n) : data_(n) {}
  explicit value(bool b) : data_(b) {}
  explicit value(std::int64_t i) : data_(i) {}
  explicit value(double d) : data_(d) {}
  value(tagged_text t) : data_(std::make_shared<const tagged_text>(std::move(t))) {}
  value(text_ptr t) : data_(std::move(t)) {}
  value(std::shared_ptr<const jinja::sequence> s) : data_(std::move(s)) {}
  value(std::shared_ptr<const jinja::dict> d) : data_(std::move(d)) {}
  value(jinja::name_space* n) : data_(n) {}
  value(const loop_state* l) : data_(l) {}
  value(jinja::turns* t) : data_(t) {}
  value(const jinja::macro* m) : data_(m) {}
  value(std::shared_ptr<const bound_method> m) : data_(std::move(m)) {}
  value(jinja::function f) : data_(f) {}

  jinja::kind kind() const { return static_cast<jinja::kind>(data_.index()); }
  bool is(jinja::kind k) const { return kind() == k; }
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&data_);
  }

  bool is_undefined() const { return is(jinja::kind::undefined); }
  bool is_none() const { return is(jinja::kind::none); }
  const tagged_text* text() const {
    const auto* found = get_if<text_ptr>();
    return found ? found->get() : nullptr;
  }
  const jinja::sequence* sequence() const {
    const auto* found = get_if<std::shared_ptr<const jinja::sequence>>();
    return found ? found->get() : nullptr;
  }
  const jinja::dict* dict() const {
    const auto* found = get_if<std::shared_ptr<const jinja::dict>>();
    return found ? found->get() : nullptr;
  }
  /// Returns a pointer to the whole number, to 1 for true, or to 0 for false. Returns null for all other values.
  const std::int64_t* integer() const {
    static constexpr std::int64_t of_boolean[] = {0, 1};
    if (const bool* b = get_if<bool>()) return &of_boolean[*b ? 1 : 0];
    return get_if<std::int64_t>();
  }
  bool is_number() const { return is(jinja::kind::boolean) || is(jinja::kind::integer) || is(jinja::kind::real); }
  double number() const {
    if (const double* d = get_if<double>()) return *d;
    return static_cast<double>(*integer());
  }

 private:
  std::variant<undefined, none_type, bool, std::int64_t, double, text_ptr, std::shared_ptr<const jinja::sequence>,
               std::shared_ptr<const jinja::dict>, jinja::name_space*, const loop_state*, jinja::turns*, const jinja::macro*,
               std::shared_ptr<const bound_method>, jinja::function>
      data_;
};

inline value make_undefined(std::string why) { return undefined{std::make_shared<const std::string>(std::move(why))}; }
inline value template_text(std::string_view bytes) { return tagged_text(bytes, true); }
inline value user_text(std::string_view bytes) { return tagged_text(bytes, false); }

/// The largest allowed height of a value. It bounds the recursion of all code that walks through values.
inline constexpr std::size_t most_height = 100;

/// Returns how deeply lists and dictionaries are nested in the value: 1 for a list of numbers, 0 for a number or a string.
inline std::size_t height_of(const value& v);

enum class sequence_kind : std::uint8_t {
  list,
  tuple,
  range,
  view,      // a view of a dictionary: it has a length, but its elements have no index
  generator  // the result of a filter: it has no length and is empty after one iteration
};

struct sequence {
  sequence_kind kind;
  std::vector<value> items;
  std::size_t height = 1;
  mutable bool spent = false;  // whether this generator has been iterated
  bool grouped = false;        // whether the filter groupby made it: its two items also have the names "grouper" and "list"
};

inline value make_sequence(sequence_kind kind, std::vector<value> items, budget& work) {
  work.write(items.size() * sizeof(value));
  std::size_t height = 0;
  for (const value& item : items) height = std::max(height, height_of(item));
  if (height >= most_height) refuse("lists and dictionaries of at most " + std::to_string(most_height) + " levels", "more");
  return std::make_shared<const sequence>(sequence{kind, std::move(items), height + 1});
}
inline value make_list(std::vector<value> items, budget& work) { return make_sequence(sequence_kind::list, std::move(items), work); }

/// Returns the value as a whole number. Accepts truth values, and real numbers without a fraction. Returns nullopt for other values.
inline std::optional<std::int64_t> whole_number_of(const value& v) {
  if (v.integer()) return *v.integer();
  const double* real = v.get_if<double>();
  if (!real || !(*real >= -0x1p63 && *real < 0x1p63) || *real != static_cast<double>(static_cast<std::int64_t>(*real))) return std::nullopt;
  return static_cast<std::int64_t>(*real);
}

/// Returns bytes that are the same for two keys if and only if the keys are equal. Returns nullopt if the value cannot be a key. The depth
/// of recursion is at most the height of the value.
inline std::optional<std::string> key_bytes(const value& v) {
  if (v.is_none()) return "n";
  if (v.text()) return "s" + std::to_string(v.text()->size()) + ":" + v.text()->bytes();
  if (const auto whole = whole_number_of(v)) return "i" + std::to_string(*whole) + ";";
  if (const double* real = v.get_if<double>()) return "r" + std::to_string(std::bit_cast<std::uint64_t>(*real)) + ";";
  if (!v.sequence() || v.sequence()->kind != sequence_kind::tuple) return std::nullopt;
  std::string all = "(";
  for (const value& item : v.sequence()->items) {
    const auto part = key_bytes(item);
    if (!part) return std::nullopt;
    all += *part;
  }
  return all + ")";
}

/// A dictionary in insertion order. Keys are strings, numbers, truth values, none, and tuples of these. A key that is set again keeps its
/// place and gets the new value.
struct dict {
  struct entry {
    value key, item;
  };
  std::vector<entry> entries;
  std::size_t height = 1;

  const value* find(std::string_view key) const { return item_at(place_of(key)); }
  /// Returns null if the dictionary does not have this key, or if no dictionary can have it.
  const value* find(const value& key) const { return item_at(place_of(key)); }

  /// `key_bytes` of the key must not be nullopt.
  void set(value key, value item) {
    height = std::max(height, height_of(item) + 1);
    if (height > most_height) refuse("lists and dictionaries of at most " + std::to_string(most_height) + " levels", "more");
    if (const std::size_t at = place_of(key); at < entries.size()) {
      entries[at].item = std::move(item);
      return;
    }
    entries.push_back({std::move(key), std::move(item)});
    if (entries.size() <= few) return;
    for (std::size_t i = entries.size() == few + 1 ? 0 : entries.size() - 1; i < entries.size(); ++i) {
      const value& k = entries[i].key;
      if (const tagged_text* text = k.text())
        texts_.emplace(text->bytes(), i);
      else if (const auto number = whole_number_of(k))
        numbers_.emplace(*number, i);
      else
        others_.emplace(*key_bytes(k), i);
    }
  }

 private:
  static constexpr std::size_t few = 8;  // up to this size, entries are searched one by one

  const value* item_at(std::size_t at) const { return at == entries.size() ? nullptr : &entries[at].item; }

  std::size_t place_of(std::string_view key) const {
    return place_of(texts_, key, [&](const value& k) { return k.text() && k.text()->bytes() == key; });
  }
  std::size_t place_of(std::int64_t key) const {
    return place_of(numbers_, key, [&](const value& k) { return whole_number_of(k) == key; });
  }
  std::size_t place_of(const value& key) const {
    if (key.text()) return place_of(std::string_view(key.text()->bytes()));
    if (const auto number = whole_number_of(key)) return place_of(*number);
    const auto bytes = key_bytes(key);
    if (!bytes) return entries.size();
    return place_of(others_, *bytes, [&](const value& k) { return !k.text() && key_bytes(k) == bytes; });
  }
  template <class Places, class Key, class Is>
  std::size_t place_of(const Places& places, const Key& key, Is is) const {
    if (entries.size() <= few) return static_cast<std::size_t>(std::ranges::find_if(entries, is, &entry::key) - entries.begin());
    const auto at = places.find(key);
    return at == places.end() ? entries.size() : at->second;
  }

  std::unordered_map<std::string_view, std::size_t> texts_;  // points into the keys' bytes, which do not move
  std::unordered_map<std::int64_t, std::size_t> numbers_;
  std::unordered_map<std::string, std::size_t> others_;  // by key_bytes
};

inline std::size_t height_of(const value& v) {
  if (const sequence* s = v.sequence()) return s->height;
  if (const dict* d = v.dict()) return d->height;
  return 0;
}

/// The result of `namespace()`: the only object whose members a template may set. Values point to it and do not own it.
struct name_space {
  std::unordered_map<std::string, value> members;
};

/// The result of `joiner` or `cycler`: items that come in turn. After the last item, a cycler begins again, and a joiner repeats the last
/// item. A template calls a joiner like a function, and calls the method `next` of a cycler.
struct turns {
  std::vector<value> items;
  std::size_t at = 0;
  bool joins = false;

  value next() {
    value item = items[at];
    if (++at == items.size()) at = joins ? at - 1 : 0;
    return item;
  }
};

/// A method that was looked up but not yet called.
struct bound_method {
  value self;
  std::string_view name;  // points to a literal
};

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
