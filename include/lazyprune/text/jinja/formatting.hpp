// SPDX-License-Identifier: MIT
// Formats values as Python does with '%5.2f' % x and '{:>5}'.format(x). The format's own bytes and the padding have the origin of the
// format. Strings keep their own origin. Numbers count as the user's text, and so does padding between sign and digits.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <lazyprune/text/jinja/arguments.hpp>
#include <lazyprune/text/jinja/members.hpp>
#include <lazyprune/text/jinja/operations.hpp>
#include <lazyprune/text/jinja/printing.hpp>
#include <lazyprune/text/jinja/value.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {
namespace detail {

/// The layout of a formatted value.
struct layout {
  tagged_text fill{" ", false};  // one character
  char align = '\0';             // < > ^, or = to pad between sign and digits; '\0': strings at the left, numbers at the right
  char sign = '\0';              // + or space: stands before numbers that are not negative
  bool alternate = false;        // whether the flag # is given
  char grouping = '\0';          // , or _: stands between groups of digits
  std::size_t width = 0;         // the least number of characters
  std::optional<std::size_t> precision{};
  char type = '\0';
};

/// The parts of a number's text: "-", "0x", "1234", ".5e+10".
struct number_parts {
  std::string sign, prefix, digits, rest;
};

[[noreturn]] inline void refuse_format(char type, const value& v) {
  refuse("a value for the format type " + in_quotes({&type, 1}), described(v));
}

inline tagged_text padded_text(const tagged_text& text, const layout& how, char usual, budget& work) {
  const std::size_t length = count_characters(text.bytes());
  if (length >= how.width) return text;
  const std::size_t missing = how.width - length;
  work.step(missing);
  const char align = how.align == '\0' ? usual : how.align;
  const std::size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  tagged_text out;
  for (std::size_t i = 0; i < left; ++i) out.append(how.fill);
  out.append(text);
  for (std::size_t i = left; i < missing; ++i) out.append(how.fill);
  return out;
}

inline std::string grouped(std::string_view digits, char separator, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out;
}

inline tagged_text laid_out(number_parts number, const layout& how, budget& work) {
  if (number.sign.empty() && (how.sign == '+' || how.sign == ' ')) number.sign = how.sign;
  const std::size_t around = number.sign.size() + number.prefix.size() + number.rest.size();
  const std::size_t inside = how.width > around ? how.width - around : 0;
  if (how.align == '=') work.write(inside);
  if (how.grouping != '\0') {
    const std::size_t size = std::string_view("xXob").find(how.type) == std::string_view::npos ? 3 : 4;
    std::size_t count = number.digits.size();
    if (how.align == '=' && how.fill.bytes() == "0")  // padding zeros are digits of the groups, too
      while (count + (std::max<std::size_t>(count, 1) - 1) / size < inside) ++count;
    number.digits.insert(0, count - number.digits.size(), '0');
    number.digits = grouped(number.digits, how.grouping, size);
  }
  tagged_text out(number.sign + number.prefix, false);
  if (how.align == '=')
    for (std::size_t i = number.digits.size(); i < inside; ++i) out.append(how.fill.bytes(), false);
  out.append(number.digits + number.rest, false);
  return padded_text(out, how, '>', work);
}

inline std::string upper_ascii(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return text;
}

inline number_parts integer_parts(std::int64_t number, const layout& how) {
  number_parts out;
  const int base = how.type == 'x' || how.type == 'X' ? 16 : how.type == 'o' ? 8 : how.type == 'b' ? 2 : 10;
  const std::uint64_t size = number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
  char buffer[64];
  out.digits.assign(buffer, std::to_chars(buffer, buffer + sizeof buffer, size, base).ptr);
  if (number < 0) out.sign = "-";
  if (how.alternate && base != 10) out.prefix = {'0', how.type};
  if (how.type == 'X') out.digits = upper_ascii(std::move(out.digits));
  return out;
}

/// Returns the digits of a finite number that is not negative, in the form that `how.type` names: e, f, g or %. If there is neither a type
/// nor a precision, returns the digits of repr. If there is only a precision, returns the digits of g, with at least one digit after the
/// point where the form has no exponent.
inline std::string real_digits(double number, const layout& how, budget& work) {
  const auto with_point = [&](std::string text) {
    if (text.find('.') == text.npos) text.insert(std::min(text.find('e'), text.size()), ".");
    return text;
  };
  const bool none = how.type == '\0';
  if (none && !how.precision) return how.alternate ? with_point(real_text(number)) : real_text(number);
  std::size_t precision = how.precision.value_or(6);
  work.write(precision);
  std::string buffer(precision + 330, '\0');
  const auto written = [&](std::chars_format form, std::size_t digits) {
    return std::string(buffer.data(),
                       std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, form, static_cast<int>(digits)).ptr);
  };
  const char type = static_cast<char>(how.type | 0x20);
  if (type == 'e' || type == 'f' || type == '%') {
    std::string text = written(type == 'e' ? std::chars_format::scientific : std::chars_format::fixed, precision);
    return how.alternate ? with_point(std::move(text)) : text;
  }
  precision = std::max<std::size_t>(precision, 1);  // for g, the precision counts all digits
  std::string text = written(std::chars_format::scientific, precision - 1);
  int exponent = 0;
  const std::size_t e = text.find('e');
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);
  const int most = static_cast<int>(std::min<std::size_t>(precision, 1000)) - (none ? 1 : 0);
  const bool fixed = exponent >= -4 && exponent < most;
  if (fixed) text = written(std::chars_format::fixed, static_cast<std::size_t>(static_cast<int>(precision) - 1 - exponent));
  if (how.alternate) return with_point(std::move(text));
  const std::size_t end = std::min(text.find('e'), text.size());
  if (const std::size_t point = text.find('.'); point < end) {
    std::size_t last = end;
    while (text[last - 1] == '0') --last;
    if (last == point + 1) last = point;
    text.erase(last, end - last);
  }
  if (none && fixed && text.find('.') == text.npos) text += ".0";
  return text;
}

inline number_parts real_parts(double number, const layout& how, budget& work) {
  number_parts out;
  if (std::signbit(number) && !std::isnan(number)) out.sign = "-";
  const double size = std::abs(how.type == '%' ? number * 100 : number);
  std::string text = std::isfinite(size) ? real_digits(size, how, work) : std::isnan(size) ? "nan" : "inf";
  if (how.type >= 'A' && how.type <= 'Z') text = upper_ascii(std::move(text));
  const std::size_t whole = std::min(text.find_first_not_of("0123456789"), text.size());
  out.digits = text.substr(0, whole);
  out.rest = text.substr(whole) + (how.type == '%' ? "%" : "");
  return out;
}

/// Returns ascii(v): repr(v) with all characters beyond ASCII escaped.
inline tagged_text ascii_of(const value& v, budget& work) {
  tagged_text shown, out;
  append_repr(v, shown, work);
  work.write(4 * shown.size());
  for (std::size_t at = 0; at < shown.size();) {
    const auto [code, size] = first_character(std::string_view(shown.bytes()).substr(at));
    if (code < 0x80)
      out.append(shown, at, size);
    else if (code < 0x100)
      append_escape(out, 'x', code, 2, shown.document_at(at));
    else if (code < 0x10000)
      append_escape(out, 'u', code, 4, shown.document_at(at));
    else
      append_escape(out, 'U', code, 8, shown.document_at(at));
    at += size;
  }
  return out;
}

/// Returns str(v) if `how` is s, repr(v) if it is r, and ascii(v) if it is a. `safe`: whether the format is safe (tagged_text). A safe
/// format escapes the result for HTML, unless the result is safe too.
inline tagged_text shown_as(char how, const value& v, bool safe, budget& work) {
  tagged_text text;
  if (how == 's') {
    text = *text_of(v, work);
    work.write(text.size());
  } else if (how == 'r') {
    append_repr(v, text, work);
  } else {
    text = ascii_of(v, work);
  }
  return safe && !text.safe ? escaped(text, work) : text;
}

/// Returns the character with this code point.
inline tagged_text character_of(std::int64_t code) {
  if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) refuse("a character's number", std::to_string(code));
  std::string bytes;
  append_utf8(bytes, static_cast<char32_t>(code));
  return tagged_text(bytes, false);
}

inline tagged_text cut(const tagged_text& text, const std::optional<std::size_t>& characters, budget& work) {
  work.read(text.size());
  return characters ? text.substr(0, character_offset(text.bytes(), *characters)) : text;
}

// The operator %

/// Formats a value by one directive of %.
inline tagged_text directed(const value& v, layout how, bool safe, budget& work) {
  switch (how.type) {
    case 's':
    case 'r':
    case 'a':
      how.fill = tagged_text(" ", how.fill.trusted());
      if (how.align == '=') how.align = '>';
      return padded_text(cut(shown_as(how.type, v, safe, work), how.precision, work), how, '>', work);
    case 'c':
      how.fill = tagged_text(" ", how.fill.trusted());
      if (how.align == '=') how.align = '>';
      if (v.integer()) return padded_text(character_of(*v.integer()), how, '>', work);
      if (!v.text() || count_characters(v.text()->bytes()) != 1) refuse_format(how.type, v);
      return padded_text(*v.text(), how, '>', work);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      if (!v.is_number()) refuse_format(how.type, v);
      if (!how.precision) how.precision = 6;
      return laid_out(real_parts(v.number(), how, work), how, work);
    default:
      break;
  }
  number_parts number;
  if (v.integer()) {
    number = integer_parts(*v.integer(), how);
  } else {
    const double* real = v.get_if<double>();
    if (!real || how.type != 'd' || !std::isfinite(*real)) refuse_format(how.type, v);
    layout whole;
    whole.type = 'f';
    whole.precision = 0;
    number = real_parts(std::trunc(*real), whole, work);
    if (number.digits == "0") number.sign.clear();
  }
  if (how.precision && *how.precision > number.digits.size()) {
    work.write(*how.precision);
    number.digits.insert(0, *how.precision - number.digits.size(), '0');
  }
  return laid_out(std::move(number), how, work);
}

inline constexpr std::int64_t widest = 1 << 30;
inline constexpr char zero_padded = '0';  // a layout::align for widths that begin with 0: pads numbers as = does, and strings as < does

}  // namespace detail

/// Returns format % given. If `given` is a tuple, it has one value for each directive. If it is a dictionary, directives with names take
/// their values from it. Anything else is the value of the only directive.
inline tagged_text formatted(const tagged_text& format, const value& given, budget& work) {
  const sequence* several = given.sequence();
  const bool is_tuple = several && several->kind == sequence_kind::tuple;
  const std::vector<value> single = is_tuple ? std::vector<value>{} : std::vector<value>{given};
  const std::vector<value>& values = is_tuple ? several->items : single;
  const std::string_view form = format.bytes();
  work.write(form.size());
  tagged_text out;
  std::size_t used = 0, at = 0;
  const auto next_value = [&]() -> const value& {
    if (used >= values.size()) refuse("a value for each directive", std::to_string(values.size()) + " values");
    return values[used++];
  };
  /// Reads a number, or a * in place of a number. For a * it returns the next value. Returns nullopt if neither comes next.
  const auto number_here = [&]() -> std::optional<std::int64_t> {
    std::int64_t number = 0;
    if (at < form.size() && form[at] == '*') {
      ++at;
      const value& v = next_value();
      if (!v.integer()) refuse("a whole number for *", described(v));
      number = *v.integer();
    } else {
      const auto [end, fault] = std::from_chars(form.data() + at, form.data() + form.size(), number);
      if (end == form.data() + at || form[at] == '-') return std::nullopt;
      if (fault != std::errc{}) number = detail::widest + 1;
      at = static_cast<std::size_t>(end - form.data());
    }
    if (number > detail::widest || number < -detail::widest) refuse("a width of at most 2^30", "more");
    return number;
  };
  while (at < form.size()) {
    const std::size_t percent = std::min(form.find('%', at), form.size());
    out.append(format, at, percent - at);
    if (percent == form.size()) break;
    at = percent + 1;
    if (form.substr(at, 1) == "%") {
      out.append(format, at++, 1);
      continue;
    }
    const value* named = nullptr;
    if (at < form.size() && form[at] == '(') {
      std::size_t end = at + 1;
      for (std::size_t open = 1; end < form.size(); ++end)
        if (form[end] == '(')
          ++open;
        else if (form[end] == ')' && --open == 0)
          break;
      if (end >= form.size()) refuse("a name that ends with )", in_quotes(form.substr(percent)));
      if (!given.dict()) refuse("a dictionary for the names of directives", described(given));
      const std::string_view name = form.substr(at + 1, end - at - 1);
      work.read(name.size());
      named = given.dict()->find(name);
      if (!named) refuse("a value for each directive", "none for " + in_quotes(name));
      used = values.size();
      at = end + 1;
    }
    detail::layout how;
    bool left = false, zeros = false;
    for (; at < form.size() && std::string_view("-+ #0").find(form[at]) != std::string_view::npos; ++at) {
      left = left || form[at] == '-';
      zeros = zeros || form[at] == '0';
      how.alternate = how.alternate || form[at] == '#';
      if (form[at] == '+' || (form[at] == ' ' && how.sign == '\0')) how.sign = form[at];
    }
    const std::int64_t width = number_here().value_or(0);
    left = left || width < 0;
    how.width = static_cast<std::size_t>(std::abs(width));
    if (at < form.size() && form[at] == '.') {
      ++at;
      how.precision = static_cast<std::size_t>(std::max<std::int64_t>(number_here().value_or(0), 0));
    }
    if (at < form.size() && std::string_view("hlL").find(form[at]) != std::string_view::npos) ++at;
    if (at == form.size()) refuse("a whole directive", in_quotes(form.substr(percent)));
    how.type = form[at++];
    if (how.type == 'i' || how.type == 'u') how.type = 'd';
    if (std::string_view("sracdoxXeEfFgG").find(how.type) == std::string_view::npos)
      refuse("a directive that is supported", in_quotes(form.substr(percent, at - percent)));
    how.fill = tagged_text(zeros && !left ? "0" : " ", format.trusted_at(percent));
    how.align = left ? '<' : zeros ? '=' : '>';
    const tagged_text text = detail::directed(named ? *named : next_value(), std::move(how), format.safe, work);
    work.write(text.size());
    out.append(text);
  }
  const bool names_values = given.dict() || (several && several->kind <= sequence_kind::range && !is_tuple);
  if (used < values.size() && !names_values) refuse("a directive for each value", std::to_string(used));
  out.safe = format.safe;
  return out;
}

namespace detail {

// The methods format and format_map

/// Reads [[fill]align][sign][#][0][width][grouping][.precision][type].
inline layout read_layout(const tagged_text& text) {
  layout how;
  std::string_view rest = text.bytes();
  const auto is_align = [](std::string_view at) { return !at.empty() && std::string_view("<>^=").find(at[0]) != at.npos; };
  const auto takes = [&](std::string_view any) {
    if (rest.empty() || any.find(rest[0]) == any.npos) return '\0';
    const char taken = rest[0];
    rest.remove_prefix(1);
    return taken;
  };
  const auto number = [&]() -> std::optional<std::size_t> {
    if (rest.empty() || rest[0] < '0' || rest[0] > '9') return std::nullopt;
    std::int64_t read = 0;
    const auto [end, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), read);
    if (fault != std::errc{} || read > widest) refuse("a width of at most 2^30", "more");
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return static_cast<std::size_t>(read);
  };
  const std::size_t first = rest.empty() ? 0 : first_character(rest).size;
  how.fill = tagged_text(" ", text.trusted());
  const bool fills = is_align(rest.substr(first));
  if (fills) {
    how.fill = text.substr(0, first);
    rest.remove_prefix(first);
  }
  how.align = takes("<>^=");
  how.sign = takes("+- ");
  how.alternate = takes("#") != '\0';
  if (!fills && takes("0") != '\0') {
    how.fill = tagged_text("0", text.trusted());
    if (how.align == '\0') how.align = zero_padded;
  }
  how.width = number().value_or(0);
  how.grouping = takes(",_");
  if (takes(".") != '\0') {
    how.precision = number();
    if (!how.precision) refuse("a precision after the point", in_quotes(text.bytes()));
  }
  how.type = takes("sbcdoxXneEfFgG%");
  if (!rest.empty()) refuse("a format that is supported", in_quotes(text.bytes()), error_code::unsupported);
  return how;
}

/// Returns format(v, spec).
inline tagged_text laid_out(const value& v, const tagged_text& spec, bool safe, budget& work) {
  if (spec.empty()) return shown_as('s', v, safe, work);
  layout how = read_layout(spec);
  const auto refuse_spec = [&]() { refuse("a format for " + described(v), in_quotes(spec.bytes())); };
  if (v.text()) {
    if ((how.type != '\0' && how.type != 's') || how.align == '=' || how.sign != '\0' || how.alternate || how.grouping != '\0')
      refuse_spec();
    if (how.align == zero_padded) how.align = '<';
    return padded_text(cut(shown_as('s', v, safe, work), how.precision, work), how, '<', work);
  }
  if (!v.is_number() || how.type == 's') refuse_spec();
  if (how.align == zero_padded) how.align = '=';
  if (how.type == 'n') {
    if (how.grouping != '\0') refuse_spec();
    how.type = v.integer() ? 'd' : 'g';
  }
  if (v.integer() && std::string_view("bcdoxX").find(how.type == '\0' ? 'd' : how.type) != std::string_view::npos) {
    if (how.precision) refuse_spec();
    if (how.type == 'c') {
      if (how.sign != '\0' || how.alternate || how.grouping != '\0') refuse_spec();
      if (how.align == '=') how.align = '>';
      return padded_text(character_of(*v.integer()), how, '>', work);
    }
    if (how.grouping == ',' && how.type != '\0' && how.type != 'd') refuse_spec();
    return laid_out(integer_parts(*v.integer(), how), how, work);
  }
  if (std::string_view("bcdoxX").find(how.type == '\0' ? 'g' : how.type) != std::string_view::npos) refuse_spec();
  if (!how.precision && how.type != '\0') how.precision = 6;
  return laid_out(real_parts(v.number(), how, work), how, work);
}

/// The values for the fields of a format.
struct field_values {
  const std::vector<value>* positional;
  const std::vector<std::pair<std::string, value>>* named;
  const dict* members;  // the argument of format_map, else null
  std::size_t used = 0;
  bool counts = false, numbers = false;  // counts: some field had no name; numbers: some field had a number

  value of(std::string_view name, budget& work) {
    std::size_t number = 0;
    const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_number = fault == std::errc{} && end == name.data() + name.size();
    counts = counts || name.empty();
    numbers = numbers || is_number;
    if (counts && numbers) refuse("only fields without a number or only fields with one", "both");
    if (name.empty()) number = used++;
    if (name.empty() || is_number) {
      if (number < positional->size()) return (*positional)[number];
    } else if (members) {
      work.read(name.size());
      if (const value* found = members->find(name)) return *found;
    } else {
      for (const auto& [known, item] : *named)
        if (known == name) return item;
    }
    refuse("a value for each field", "none for " + in_quotes(name));
  }
};

/// Returns the value of a field: a name with members and elements after it, such as "x.y[0]".
inline value field_value(std::string_view field, field_values& values, budget& work) {
  std::size_t at = std::min(field.find_first_of(".["), field.size());
  value v = values.of(field.substr(0, at), work);
  while (at < field.size()) {
    const bool is_member = field[at] == '.';
    const std::size_t begin = at + 1, end = std::min(is_member ? field.find_first_of(".[", begin) : field.find(']', begin), field.size());
    const std::string_view name = field.substr(begin, end - begin);
    const bool ends = is_member || (end < field.size() && (end + 1 == field.size() || field[end + 1] == '.' || field[end + 1] == '['));
    if (name.empty() || !ends) refuse("a field with names and elements", in_quotes(field));
    std::int64_t index = 0;
    const auto [stop, fault] = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index = fault == std::errc{} && stop == name.data() + name.size() && index >= 0;
    v = is_member ? member_of(v, name, work) : item_of(v, is_index ? value(index) : user_text(name), work);
    at = is_member ? end : end + 1;
  }
  return v;
}

inline tagged_text fields_filled(const tagged_text& format, field_values& values, int levels, budget& work) {
  if (levels == 0) refuse("fields nested in a format at most once", "more");
  const std::string_view form = format.bytes();
  work.write(form.size());
  tagged_text out;
  for (std::size_t at = 0; at < form.size();) {
    const std::size_t brace = std::min(form.find_first_of("{}", at), form.size());
    out.append(format, at, brace - at);
    if (brace == form.size()) break;
    if (brace + 1 < form.size() && form[brace + 1] == form[brace]) {
      out.append(format, brace, 1);
      at = brace + 2;
      continue;
    }
    std::size_t end = brace + 1, colon = form.npos;  // the field's closing brace, and the first : or ! in the field
    bool in_brackets = false;
    for (std::size_t open = 1; form[brace] == '{' && end < form.size(); ++end) {
      in_brackets = form[end] == '[' ? colon == form.npos || in_brackets : form[end] == ']' ? false : in_brackets;
      if (in_brackets) continue;
      if (colon == form.npos && (form[end] == ':' || form[end] == '!')) colon = end;
      if (form[end] == '{')
        ++open;
      else if (form[end] == '}' && --open == 0)
        break;
    }
    if (form[brace] == '}' || end >= form.size()) refuse("braces in pairs", "a single one");
    colon = std::min(colon, end);
    const std::string_view field = form.substr(brace + 1, colon - brace - 1);
    if (field.find('{') != field.npos) refuse("a field's name without braces", in_quotes(field));
    value v = field_value(field, values, work);
    if (form[colon] == '!') {
      const char how = form[colon + 1];
      if (std::string_view("sra").find(how) == std::string_view::npos || (colon + 2 != end && form[colon + 2] != ':'))
        refuse("!s, !r or !a", in_quotes(form.substr(colon, end - colon)));
      v = shown_as(how, v, false, work);
      colon += 2;
    }
    const tagged_text spec =
        colon == end ? tagged_text() : fields_filled(format.substr(colon + 1, end - colon - 1), values, levels - 1, work);
    const tagged_text text = laid_out(v, spec, format.safe, work);
    work.write(text.size());
    out.append(text);
    at = end + 1;
  }
  out.safe = format.safe;
  return out;
}

}  // namespace detail

/// Returns format.format(...).
inline tagged_text formatted_by_fields(const tagged_text& format, const arguments& given, budget& work) {
  detail::field_values values{&given.positional, &given.named, nullptr};
  return detail::fields_filled(format, values, 2, work);
}
/// Returns format.format_map(members).
inline tagged_text formatted_by_fields(const tagged_text& format, const dict& members, budget& work) {
  const arguments none;
  detail::field_values values{&none.positional, &none.named, &members};
  return detail::fields_filled(format, values, 2, work);
}

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
