// SPDX-License-Identifier: MIT
// The parameters that a part describes (policy/arguments.hpp), as values. Parsing, canonical text and help use them.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/policy/arguments.hpp>

namespace lazyprune {
inline namespace v0 {

/// One parameter of one object. The object must outlive the parameter.
struct parameter {
  std::string_view key;
  bool required;                                       // a text must give it
  std::string expected{};                              // the kind of value, for error messages: "a whole number"
  std::vector<std::string_view> choices{};             // the names of its possible values; empty if the values have no names
  std::optional<layer_range> layers{};                 // set if the value is a number of layers; the model then limits it
  std::string_view instead_of{};                       // the key of another parameter, if a text must give exactly one of the two
  std::function<std::optional<std::string>()> text{};  // its value as text; nullopt for a missing optional value, and for a false
                                                       // bool that is named only where it is set
  std::function<bool(std::string_view)> set{};         // returns false and keeps the value if the text is not valid
};

namespace detail {

template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};

/// A number whose type restricts its values, as `positive` does.
template <class T>
concept restricted_number = requires(typename T::number number) {
  { T::holds(number) } -> std::convertible_to<bool>;
  { T::expected() } -> std::convertible_to<std::string>;
};

/// A value with a text form of its own, as `position_scores` has.
template <class T>
concept value_with_text = requires(const T value, std::string_view text) {
  { T::read(text) } -> std::same_as<std::optional<T>>;
  { value.text() } -> std::convertible_to<std::string>;
  { T::expected() } -> std::convertible_to<std::string>;
};

template <class T>
std::string expected_of() {
  if constexpr (restricted_number<T> || value_with_text<T>)
    return T::expected();
  else if constexpr (std::same_as<T, std::string>)
    return "a text";
  else
    return std::integral<T> ? "a whole number" : "a number";
}

template <class T>
std::optional<T> value_in(std::string_view text) {
  if constexpr (restricted_number<T>) {
    const auto number = number_in<typename T::number>(text);
    return number && T::holds(*number) ? std::optional<T>(*number) : std::nullopt;
  } else if constexpr (value_with_text<T>) {
    return T::read(text);
  } else if constexpr (std::same_as<T, std::string>) {
    return std::string(text);
  } else {
    return number_in<T>(text);
  }
}

template <class T>
std::string text_of_value(const T& value) {
  if constexpr (restricted_number<T>)
    return text_of_number(static_cast<typename T::number>(value));
  else if constexpr (value_with_text<T>)
    return value.text();
  else if constexpr (std::same_as<T, std::string>)
    return value;
  else
    return text_of_number(value);
}

/// The visitor that collects the parameters that `describe` names.
class parameter_collector {
 public:
  std::vector<parameter> list;

  template <class T>
  void operator()(parameter_key key, T& member) {
    parameter& added = add(key);
    if constexpr (is_optional<T>::value) {
      using value_type = typename T::value_type;
      added.expected = expected_of<value_type>();
      added.text = [&member] { return member ? std::optional(text_of_value(*member)) : std::nullopt; };
    } else {
      added.expected = expected_of<T>();
      added.text = [&member] { return std::optional(text_of_value(member)); };
    }
    added.set = [&member](std::string_view text) { return assign(member, text); };
  }

  void operator()(parameter_key key, bool& member) {
    (*this)(key, member, {"false", "true"});
    if (key.only_where_set) list.back().text = [&member] { return member ? std::optional<std::string>("true") : std::nullopt; };
  }

  template <class Choice>
  void operator()(parameter_key key, Choice& member, std::initializer_list<std::string_view> names) {
    parameter& added = add(key);
    added.choices = names;
    added.text = [&member, all = added.choices] { return std::optional(std::string(all[static_cast<std::size_t>(member)])); };
    added.set = [&member, all = added.choices](std::string_view text) {
      for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i] == text) {
          member = static_cast<Choice>(i);
          return true;
        }
      return false;
    };
  }

  template <class T>
  void operator()(parameter_key key, T& member, layer_range range) {
    (*this)(key, member);
    list.back().layers = range;
  }

  template <class One, class Other>
  void just_one(parameter_key key, std::optional<One>& one, parameter_key other_key, std::optional<Other>& other) {
    (*this)(key, one);
    (*this)(other_key, other);
    list.back().instead_of = key.name;
  }

 private:
  parameter& add(parameter_key key) {
    list.push_back({.key = key.name, .required = key.required});
    return list.back();
  }

  template <class T>
  static bool assign(T& member, std::string_view text) {
    const auto value = value_in<T>(text);
    if (value) member = *value;
    return value.has_value();
  }
  template <class T>
  static bool assign(std::optional<T>& member, std::string_view text) {
    const auto value = value_in<T>(text);
    if (value) member = *value;
    return value.has_value();
  }
};

}  // namespace detail

template <class T>
concept describes_parameters = requires(T object, detail::parameter_collector& visit) {
  object.describe(visit);
};

/// A part of a policy that a text can choose.
template <class P>
concept described_part = std::default_initializable<P> && describes_parameters<P> && requires {
  { P::name } -> std::convertible_to<std::string_view>;
};

template <describes_parameters T>
std::vector<parameter> parameters_of(T& object) {
  detail::parameter_collector collector;
  object.describe(collector);
  return std::move(collector.list);
}

}  // namespace v0
}  // namespace lazyprune
