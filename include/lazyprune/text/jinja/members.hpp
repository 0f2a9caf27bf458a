// SPDX-License-Identifier: MIT
// Evaluates `a.b` and `a[b]`: methods, members, elements, and the members of `loop`.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/jinja/methods.hpp>
#include <lazyprune/text/jinja/operations.hpp>
#include <lazyprune/text/jinja/value.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

/// The variable `loop`. It owns the items, so that a template may use `loop` after the loop has ended.
struct loop_state {
  std::vector<value> items;
  std::size_t index = 0;
  mutable std::optional<std::vector<value>> seen;  // the last arguments of changed()
};

namespace detail {

inline std::optional<value> loop_member(const loop_state& loop, std::string_view name) {
  const auto number = [](std::size_t n) { return value(static_cast<std::int64_t>(n)); };
  const std::size_t left = loop.items.size() - loop.index;
  if (name == "index") return number(loop.index + 1);
  if (name == "index0") return number(loop.index);
  if (name == "revindex") return number(left);
  if (name == "revindex0") return number(left - 1);
  if (name == "first") return value(loop.index == 0);
  if (name == "last") return value(left == 1);
  if (name == "length") return number(loop.items.size());
  if (name == "depth") return number(1);
  if (name == "depth0") return number(0);
  if (name == "previtem") return loop.index == 0 ? make_undefined("an item before the first") : loop.items[loop.index - 1];
  if (name == "nextitem") return left == 1 ? make_undefined("an item after the last") : loop.items[loop.index + 1];
  return std::nullopt;
}

inline value missing(const value& object, std::string_view name) {
  return make_undefined("no " + in_quotes(name) + " in " + described(object));
}

/// Returns the method with this name, or the member of a namespace, loop, cycler or group. Returns nullopt if there is neither.
inline std::optional<value> attribute(const value& object, std::string_view name) {
  if (const std::string_view* method = find_method(object, name))
    return std::make_shared<const bound_method>(bound_method{object, *method});
  if (const auto* loop = object.get_if<const loop_state*>()) {
    if (name == "cycle" || name == "changed")
      return std::make_shared<const bound_method>(bound_method{object, name == "cycle" ? "cycle" : "changed"});
    return loop_member(**loop, name);
  }
  if (const auto* space = object.get_if<name_space*>())
    if (const auto at = (*space)->members.find(std::string(name)); at != (*space)->members.end()) return at->second;
  if (const auto* t = object.get_if<turns*>(); t && !(*t)->joins && name == "current") return (*t)->items[(*t)->at];
  if (const sequence* s = object.sequence(); s && s->grouped) {
    if (name == "grouper") return s->items[0];
    if (name == "list") return s->items[1];
  }
  return std::nullopt;
}

inline std::optional<value> item(const value& object, const value& key, budget& work) {
  if (const dict* d = object.dict()) {
    work.read(key_size(key));
    const value* found = d->find(key);
    return found ? std::optional(*found) : std::nullopt;
  }
  if (!key.integer()) return std::nullopt;
  if (const tagged_text* t = object.text()) return character_at(*t, *key.integer(), work);
  const sequence* s = object.sequence();
  if (!s || s->kind > sequence_kind::range) return std::nullopt;
  const value* found = element(*s, *key.integer());
  return found ? std::optional(*found) : std::nullopt;
}

}  // namespace detail

/// Returns object.name: an attribute, else an item, else undefined. Throws `error` if the object itself is undefined.
inline value member_of(const value& object, std::string_view name, budget& work) {
  work.step(2);
  need_defined(object);
  if (auto found = detail::attribute(object, name)) return *std::move(found);
  if (const dict* d = object.dict()) {
    work.read(name.size());
    if (const value* found = d->find(name)) return *found;
  }
  return detail::missing(object, name);
}

/// Returns object[key]: an item, else an attribute, else undefined. Throws `error` if the object itself is undefined.
inline value item_of(const value& object, const value& key, budget& work) {
  work.step(2);
  need_defined(object);
  if (auto found = detail::item(object, key, work)) return *std::move(found);
  if (key.text()) {
    if (auto found = detail::attribute(object, key.text()->bytes())) return *std::move(found);
    return detail::missing(object, key.text()->bytes());
  }
  return make_undefined("no such element in " + described(object));
}

/// The argument `attribute` of filters: names or numbers with points between them. `none` stands for the value itself. If an
/// object does not have a name or number, the preset takes the place of the missing value.
class attribute_path {
 public:
  explicit attribute_path(const value& attribute, value preset = {}) : preset_(std::move(preset)) {
    if (attribute.is_none()) return;
    if (attribute.is(kind::integer)) {
      keys_.push_back(attribute);
      return;
    }
    if (!attribute.text()) refuse("an attribute's name or number", described(attribute));
    for (std::string_view rest = attribute.text()->bytes();;) {
      const std::string_view part = rest.substr(0, rest.find('.'));
      std::int64_t number = 0;
      const auto [end, fault] = std::from_chars(part.data(), part.data() + part.size(), number);
      const bool is_number = fault == std::errc{} && end == part.data() + part.size() && number >= 0;
      keys_.push_back(is_number ? value(number) : user_text(part));
      if (part.size() == rest.size()) break;
      rest.remove_prefix(part.size() + 1);
    }
  }

  value of(const value& object, budget& work) const {
    value v = object;
    for (const value& key : keys_) {
      v = item_of(v, key, work);
      if (v.is_undefined() && !preset_.is_undefined()) v = preset_;
    }
    return v;
  }

 private:
  value preset_;  // undefined if there is no preset
  std::vector<value> keys_;
};

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
