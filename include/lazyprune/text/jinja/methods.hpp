// SPDX-License-Identifier: MIT
// The methods of Python's strings, dictionaries and lists that templates call. The result of a string method keeps the string's origin.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/text/jinja/arguments.hpp>
#include <lazyprune/text/jinja/characters.hpp>
#include <lazyprune/text/jinja/operations.hpp>
#include <lazyprune/text/jinja/printing.hpp>
#include <lazyprune/text/jinja/search.hpp>
#include <lazyprune/text/jinja/value.hpp>
#include <lazyprune/text/letter_case.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

/// Strips the characters of `set`, or white space if `set` is null.
inline tagged_text stripped(const tagged_text& text, const tagged_text* set, bool left, bool right, budget& work) {
  work.read(text.size());
  work.write(text.size());
  const auto goes = [&](utf8_character c, std::string_view bytes) {
    if (!set) return is_python_space(c.code);
    work.read(set->size());
    return set->bytes().find(bytes) != std::string::npos;
  };
  std::string_view rest = text.bytes();
  std::size_t begin = 0;
  while (left && !rest.empty()) {
    const utf8_character c = first_character(rest);
    if (!goes(c, rest.substr(0, c.size))) break;
    rest.remove_prefix(c.size);
    begin += c.size;
  }
  while (right && !rest.empty()) {
    const utf8_character c = last_character(rest);
    if (!goes(c, rest.substr(rest.size() - c.size))) break;
    rest.remove_suffix(c.size);
  }
  return text.substr(begin, rest.size());
}

/// Returns the text with each character mapped. Runs keep their origin, and bytes that are not UTF-8 stay. `map` receives all characters
/// and the index of the one to map.
template <class Map>
tagged_text mapped(const tagged_text& text, budget& work, Map map) {
  work.write(sizeof(char32_t) * text.size());
  std::u32string all;
  for (const text_run& run : text.runs()) all += characters_of(run.text);
  tagged_text out;
  std::size_t at = 0;
  for (const text_run& run : text.runs()) {
    std::string made;
    for (std::string_view rest = run.text; !rest.empty(); ++at) {
      if (utf8_prefix(rest) == 0)
        made += rest[0];
      else
        for (const char32_t letter : map(all, at)) append_utf8(made, letter);
      rest.remove_prefix(first_character(rest).size);
    }
    work.write(made.size());
    out.append(made, run.trusted, run.document);
  }
  return out;
}

inline tagged_text upper(const tagged_text& text, budget& work) {
  return mapped(text, work, [](std::u32string_view all, std::size_t at) { return upper_letters(all[at]); });
}
inline tagged_text lower(const tagged_text& text, budget& work) { return mapped(text, work, lower_letters); }
inline tagged_text swapped_case(const tagged_text& text, budget& work) { return mapped(text, work, swapped_letters); }
/// Returns str.capitalize(): the first character in title case, the others in lower case.
inline tagged_text capitalized(const tagged_text& text, budget& work) {
  return mapped(text, work,
                [](std::u32string_view all, std::size_t at) { return at == 0 ? title_letters(all[at]) : lower_letters(all, at); });
}
/// Returns str.title(): a character after a cased letter in lower case, the others in title case.
inline tagged_text titled(const tagged_text& text, budget& work) {
  return mapped(text, work, [](std::u32string_view all, std::size_t at) {
    return at > 0 && is_cased(all[at - 1]) ? lower_letters(all, at) : title_letters(all[at]);
  });
}

inline tagged_text replaced(const tagged_text& text, const tagged_text& old, const tagged_text& fresh, std::int64_t most, budget& work) {
  const searcher search(old.bytes(), work);
  work.read(text.size() + old.size());
  work.write(text.size());
  tagged_text out;
  std::size_t copied = 0;
  for (std::size_t at = search.find(text.bytes()); at != std::string::npos && most != 0; --most) {
    work.write(fresh.size());
    out.append(text, copied, at - copied);
    out.append(fresh);
    copied = at + old.size();
    // An empty `old` is found before each character and at the end.
    at = !old.empty()       ? search.find(text.bytes(), copied)
         : at < text.size() ? at + first_character(std::string_view(text.bytes()).substr(at)).size
                            : std::string::npos;
  }
  out.append(text, copied, text.size() - copied);
  return out;
}

/// Returns the lines of a text, with their line ends if `keep_ends` is true.
inline std::vector<tagged_text> lines_of(const tagged_text& text, bool keep_ends, budget& work) {
  work.read(text.size());
  const std::string_view bytes = text.bytes();
  std::vector<tagged_text> lines;
  const auto put = [&](std::size_t begin, std::size_t end) {
    work.write(end - begin + sizeof(tagged_text));
    lines.push_back(text.substr(begin, end - begin));
  };
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto [code, size] = first_character(bytes.substr(at));
    std::size_t end = at + size;
    if (is_line_end(code)) {
      if (code == '\r' && end < bytes.size() && bytes[end] == '\n') ++end;
      put(begin, keep_ends ? end : at);
      begin = end;
    }
    at = end;
  }
  if (begin < bytes.size()) put(begin, bytes.size());
  return lines;
}

namespace detail {

using method_text = const tagged_text&;

inline value list_of_texts(std::vector<tagged_text> texts, budget& work) {
  std::vector<value> items;
  items.reserve(texts.size());
  for (tagged_text& t : texts) items.emplace_back(std::move(t));
  return make_list(std::move(items), work);
}

/// Splits at the first `most` runs of white space, or at the last `most` if `from_right` is true. A negative `most` means all runs.
inline std::vector<tagged_text> split_at_spaces(method_text text, std::int64_t most, bool from_right, budget& work) {
  const std::string_view bytes = text.bytes();
  std::vector<std::pair<std::size_t, std::size_t>> words;  // begin, end
  bool inside = false;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto [code, size] = first_character(bytes.substr(at));
    const bool space = is_python_space(code);
    if (!space && !inside) {
      work.write(sizeof(std::pair<std::size_t, std::size_t>));
      words.emplace_back(at, at);
    }
    at += size;
    inside = !space;
    if (inside) words.back().second = at;
  }
  if (most >= 0 && words.size() > static_cast<std::size_t>(most)) {  // the text beyond the last split is one piece, and keeps its spaces
    const auto splits = static_cast<std::ptrdiff_t>(most);
    if (from_right) {
      words.erase(words.begin(), words.end() - splits - 1);
      words.front().first = 0;
    } else {
      words.erase(words.begin() + splits + 1, words.end());
      words.back().second = bytes.size();
    }
  }
  std::vector<tagged_text> parts;
  for (const auto& [begin, end] : words) {
    work.write(end - begin + sizeof(tagged_text));
    parts.push_back(text.substr(begin, end - begin));
  }
  return parts;
}

inline std::vector<tagged_text> split_at(method_text text, method_text separator, std::int64_t most, bool from_right, budget& work) {
  if (separator.empty()) refuse("a separator that is not empty", "an empty string");
  const searcher search(separator.bytes(), work);
  std::vector<std::size_t> cuts;
  if (!from_right) {
    for (std::size_t at = search.find(text.bytes()); at != std::string::npos && (most < 0 || cuts.size() < static_cast<std::size_t>(most));
         at = search.find(text.bytes(), at + separator.size())) {
      work.write(sizeof at);
      cuts.push_back(at);
    }
  } else {  // searches the mirrored text, so that the matches are chosen from the right
    std::string mirrored(text.bytes().rbegin(), text.bytes().rend()), needle(separator.bytes().rbegin(), separator.bytes().rend());
    work.write(mirrored.size());
    const searcher back(needle, work);
    for (std::size_t at = back.find(mirrored); at != std::string::npos && (most < 0 || cuts.size() < static_cast<std::size_t>(most));
         at = back.find(mirrored, at + needle.size())) {
      work.write(sizeof at);
      cuts.push_back(text.size() - at - needle.size());
    }
    std::ranges::reverse(cuts);
  }
  std::vector<tagged_text> parts;
  std::size_t begin = 0;
  cuts.push_back(text.size());
  for (const std::size_t cut : cuts) {
    work.write(cut - begin + sizeof(tagged_text));
    parts.push_back(text.substr(begin, cut - begin));
    begin = cut + separator.size();
  }
  return parts;
}

inline value split(std::string_view name, method_text text, const arguments& given, budget& work) {
  const bound_arguments a(name, given, {"sep", "maxsplit"});
  work.read(text.size());
  const std::int64_t most = a.integer(1, -1);
  const bool from_right = name == "rsplit";
  const bool at_spaces = !a.has(0) || a[0].is_none();
  return list_of_texts(at_spaces ? split_at_spaces(text, most, from_right, work) : split_at(text, a.text(0), most, from_right, work), work);
}

inline value partition(std::string_view name, method_text text, const arguments& given, budget& work) {
  const bound_arguments a(name, given, {"sep"}, 1);
  work.read(text.size());
  const bool last = name == "rpartition";
  std::vector<tagged_text> parts = split_at(text, a.text(0), 1, last, work);
  std::vector<value> items;
  if (parts.size() == 2)
    items = {std::move(parts[0]), a[0], std::move(parts[1])};
  else if (last)
    items = {tagged_text(), tagged_text(), text};
  else
    items = {text, tagged_text(), tagged_text()};
  return make_sequence(sequence_kind::tuple, std::move(items), work);
}

/// Implements startswith and endswith. The argument is a string or a tuple of strings, any of which may match.
inline value has_affix(std::string_view name, method_text text, const arguments& given, budget& work) {
  const bound_arguments a(name, given, {"prefix"}, 1);
  const auto fits = [&](const value& affix) {
    if (!affix.text()) refuse("a string, or a tuple of strings", described(affix));
    work.read(affix.text()->size());
    return name == "startswith" ? text.bytes().starts_with(affix.text()->bytes()) : text.bytes().ends_with(affix.text()->bytes());
  };
  const sequence* several = a[0].sequence();
  if (several && several->kind == sequence_kind::tuple) return value(std::ranges::any_of(several->items, fits));
  return value(fits(a[0]));
}

inline value without_affix(std::string_view name, method_text text, const arguments& given, budget& work) {
  const bound_arguments a(name, given, {"affix"}, 1);
  const std::string& affix = a.text(0).bytes();
  work.write(text.size());
  if (name == "removeprefix" && text.bytes().starts_with(affix)) return text.substr(affix.size());
  if (name == "removesuffix" && text.bytes().ends_with(affix)) return text.substr(0, text.size() - affix.size());
  return text;
}

/// Implements find, rfind, index, rindex and count. Places are counted in characters.
inline value look_for(std::string_view name, method_text text, const arguments& given, budget& work) {
  const bound_arguments a(name, given, {"sub", "start", "end"}, 1);
  const std::size_t length = count_characters(text.bytes());
  const auto bound = [&](std::size_t i) { return a.has(i) && !a[i].is_none() ? std::optional(a.integer(i, 0)) : std::nullopt; };
  const slice_bounds range(bound(1), bound(2), 1, length);
  const std::size_t first = character_offset(text.bytes(), static_cast<std::size_t>(range.start));
  const std::string_view inside =
      std::string_view(text.bytes())
          .substr(first, character_offset(text.bytes(), static_cast<std::size_t>(std::max(range.start, range.stop))) - first);
  work.read(4 * text.size() + a.text(0).size());
  const searcher search(a.text(0).bytes(), work);
  const std::size_t step = a.text(0).size();
  const bool beyond = bound(1).value_or(0) > static_cast<std::int64_t>(length);  // if `start` is beyond the end, not even "" is found
  if (name == "count") {
    if (beyond) return value(std::int64_t{0});
    if (step == 0) return value(static_cast<std::int64_t>(count_characters(inside)) + 1);
    std::int64_t count = 0;
    for (std::size_t at = search.find(inside); at != inside.npos; at = search.find(inside, at + step)) ++count;
    return value(count);
  }
  std::size_t found = search.find(inside);
  if (name == "rfind" || name == "rindex") {
    const std::string mirrored(inside.rbegin(), inside.rend()), needle(a.text(0).bytes().rbegin(), a.text(0).bytes().rend());
    work.write(mirrored.size());
    found = searcher(needle, work).find(mirrored);
    if (found != inside.npos) found = inside.size() - found - step;
  }
  if (found == inside.npos || beyond) {
    if (name == "index" || name == "rindex") refuse("a string that holds " + in_quotes(a.text(0).bytes()), "one that does not");
    return value(std::int64_t{-1});
  }
  return value(static_cast<std::int64_t>(count_characters(inside.substr(0, found))) + range.start);
}

inline value join_texts(method_text separator, const value& several, budget& work, bool only_strings) {
  tagged_text out;
  bool first = true;
  for (const value& item : items_of(several, work)) {
    if (only_strings && !item.text()) refuse("strings to join", described(item));
    const text_ptr text = text_of(item, work);
    work.write(text->size() + separator.size());
    if (!std::exchange(first, false)) out.append(separator);
    out.append(*text);
  }
  return out;
}

/// Implements center, ljust, rjust and zfill.
inline value padded(std::string_view name, method_text text, const arguments& given, budget& work) {
  const bool zeros = name == "zfill";
  const bound_arguments a(name, given, {"width", "fillchar"}, 1);
  const std::int64_t width = a.integer(0, 0), length = static_cast<std::int64_t>(count_characters(text.bytes()));
  if (width <= length) return text;
  const std::int64_t missing = width - length;
  const tagged_text fill = zeros ? tagged_text("0", true) : a.has(1) ? a.text(1) : tagged_text(" ", true);
  if (count_characters(fill.bytes()) != 1) refuse("one character to fill with", in_quotes(fill.bytes()));
  work.step(static_cast<std::size_t>(missing));
  const std::int64_t left = name == "ljust" ? 0 : name == "center" ? missing / 2 + (missing & width & 1) : missing;
  const bool sign = zeros && (text.bytes().starts_with('-') || text.bytes().starts_with('+'));
  tagged_text out = text.substr(0, sign ? 1 : 0);
  for (std::int64_t i = 0; i < left; ++i) out.append(fill);
  out.append(text, sign ? 1 : 0, text.size());
  for (std::int64_t i = left; i < missing; ++i) out.append(fill);
  return out;
}

/// Implements isalpha and similar methods. Returns whether the text is not empty and all its characters belong to the class. For isupper
/// and islower, characters without case do not count, and at least one character must have case.
inline value is_class(std::string_view name, method_text text, budget& work) {
  work.read(text.size());
  bool any = false;
  for (std::string_view rest = text.bytes(); !rest.empty();) {
    const auto [code, size] = first_character(rest);
    rest.remove_prefix(size);
    const bool digit = code >= '0' && code <= '9', is_lower = upper_letters(code) != std::u32string(1, code),
               is_upper = lower_case(code) != code;
    if (name == "isupper" || name == "islower") {
      if (name == "isupper" ? is_lower : is_upper) return value(false);
      any = any || is_lower || is_upper;
      continue;
    }
    if (code >= 0x80 && name != "isspace" && !is_lower && !is_upper)
      refuse("a text with characters that " + std::string(name) + " supports", in_quotes(text.bytes()), error_code::unsupported);
    const bool letter = is_lower || is_upper;
    if (name == "isspace" ? !is_python_space(code) : name == "isalpha" ? !letter : name == "isalnum" ? !letter && !digit : !digit)
      return value(false);
    any = true;
  }
  return value(any);
}

inline constexpr std::string_view string_methods[] = {
    "strip",        "lstrip",   "rstrip",       "split",        "rsplit",     "splitlines", "partition",  "rpartition",
    "startswith",   "endswith", "removeprefix", "removesuffix", "find",       "rfind",      "index",      "rindex",
    "count",        "join",     "replace",      "upper",        "lower",      "casefold",   "capitalize", "title",
    "swapcase",     "center",   "ljust",        "rjust",        "zfill",      "isalpha",    "isdigit",    "isdecimal",
    "isnumeric",    "isalnum",  "isspace",      "isupper",      "islower",    "isascii",    "istitle",    "isprintable",
    "isidentifier", "format",   "format_map",   "encode",       "expandtabs", "maketrans",  "translate"};
inline constexpr std::string_view dict_methods[] = {"get",      "items", "keys",    "values",     "clear", "copy",
                                                    "fromkeys", "pop",   "popitem", "setdefault", "update"};
inline constexpr std::string_view list_methods[] = {"append", "clear", "copy",   "count",   "extend", "index",
                                                    "insert", "pop",   "remove", "reverse", "sort"};

inline constexpr std::string_view cycler_methods[] = {"next", "reset"};

inline value call_string_method(std::string_view name, method_text text, const arguments& given, budget& work) {
  const auto none = [&] { bound_arguments(name, given, {}); };
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const bound_arguments a(name, given, {"chars"});
    const tagged_text* set = a.has(0) && !a[0].is_none() ? &a.text(0) : nullptr;
    return stripped(text, set, name != "rstrip", name != "lstrip", work);
  }
  if (name == "split" || name == "rsplit") return split(name, text, given, work);
  if (name == "startswith" || name == "endswith") return has_affix(name, text, given, work);
  if (name == "removeprefix" || name == "removesuffix") return without_affix(name, text, given, work);
  if (name == "partition" || name == "rpartition") return partition(name, text, given, work);
  if (name == "splitlines") return list_of_texts(lines_of(text, bound_arguments(name, given, {"keepends"}).flag(0), work), work);
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex" || name == "count") return look_for(name, text, given, work);
  if (name == "join") {
    const bound_arguments a(name, given, {"iterable"}, 1);
    return join_texts(text, a[0], work, true);
  }
  if (name == "replace") {
    const bound_arguments a(name, given, {"old", "new", "count"}, 2);
    return replaced(text, a.text(0), a.text(1), a.integer(2, -1), work);
  }
  if (name == "center" || name == "ljust" || name == "rjust" || name == "zfill") return padded(name, text, given, work);
  constexpr std::pair<std::string_view, tagged_text (*)(const tagged_text&, budget&)> cases[] = {
      {"upper", upper}, {"lower", lower}, {"capitalize", capitalized}, {"title", titled}, {"swapcase", swapped_case}};
  for (const auto& [known, changed] : cases)
    if (name == known) {
      none();
      return changed(text, work);
    }
  for (const std::string_view known : {"isalpha", "isdigit", "isdecimal", "isnumeric", "isalnum", "isspace", "isupper", "islower"})
    if (name == known) {
      none();
      return is_class(name, text, work);
    }
  if (name == "isascii") {
    none();
    work.read(text.size());
    return value(std::ranges::all_of(text.bytes(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
  }
  refuse("a method of strings that is supported", in_quotes(name), error_code::unsupported);
}

inline value call_dict_method(std::string_view name, const dict& d, const arguments& given, budget& work) {
  if (name == "get") {
    const bound_arguments a(name, given, {"key", "default"}, 1);
    work.read(key_size(a[0]));
    const value* found = d.find(a[0]);
    return found ? *found : a.or_else(1, none_type{});
  }
  if (name == "items" || name == "keys" || name == "values" || name == "copy") {
    bound_arguments(name, given, {});
    work.write(d.entries.size() * sizeof(dict::entry));
    if (name == "copy") return std::make_shared<const dict>(d);
    std::vector<value> items;
    items.reserve(d.entries.size());
    for (const auto& [key, item] : d.entries) {
      if (name == "keys")
        items.push_back(key);
      else if (name == "values")
        items.push_back(item);
      else
        items.push_back(make_sequence(sequence_kind::tuple, {key, item}, work));
    }
    return make_sequence(sequence_kind::view, std::move(items), work);
  }
  refuse("a method that does not change the dictionary", in_quotes(name), error_code::unsupported);
}

inline value call_list_method(std::string_view name, const sequence& s, const arguments& given, budget& work) {
  if (name == "count" || name == "index") {
    const bound_arguments a(name, given, {"value"}, 1);
    std::int64_t count = 0;
    for (std::size_t i = 0; i < s.items.size(); ++i)
      if (equal(s.items[i], a[0], work)) {
        if (name == "index") return value(static_cast<std::int64_t>(i));
        ++count;
      }
    if (name == "index") refuse("a value that is in the list", "one that is not in it");
    return value(count);
  }
  if (name == "copy" && s.kind == sequence_kind::list) {
    bound_arguments(name, given, {});
    return make_list(s.items, work);
  }
  refuse("a method that does not change the list", in_quotes(name), error_code::unsupported);
}

inline value call_cycler_method(std::string_view name, turns& t, const arguments& given) {
  bound_arguments(name, given, {});
  if (name == "next") return t.next();
  t.at = 0;
  return none_type{};
}

}  // namespace detail

/// Returns the name of a method of this value, or null if the value has no such method. The name lives as long as the program.
inline const std::string_view* find_method(const value& self, std::string_view name) {
  const auto among = [&](std::span<const std::string_view> names) -> const std::string_view* {
    const auto at = std::ranges::find(names, name);
    return at == names.end() ? nullptr : &*at;
  };
  if (self.text()) return among(detail::string_methods);
  if (self.dict()) return among(detail::dict_methods);
  if (const auto* t = self.get_if<turns*>(); t && !(*t)->joins) return among(detail::cycler_methods);
  if (const sequence* s = self.sequence()) {
    if (s->kind == sequence_kind::list) return among(detail::list_methods);
    if (s->kind <= sequence_kind::range && (name == "count" || name == "index")) return among(detail::list_methods);
  }
  return nullptr;
}

/// Calls a method. The value must have this method. Throws `error` for methods that change a list or a dictionary, as in transformers'
/// sandbox.
inline value call_method(const value& self, std::string_view name, const arguments& given, budget& work) {
  if (const tagged_text* t = self.text()) return detail::call_string_method(name, *t, given, work);
  if (const dict* d = self.dict()) return detail::call_dict_method(name, *d, given, work);
  if (const auto* t = self.get_if<turns*>()) return detail::call_cycler_method(name, **t, given);
  return detail::call_list_method(name, *self.sequence(), given, work);
}

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
