// SPDX-License-Identifier: MIT
// Reads and writes a part of a policy as text, NAME[:key=value,...]. A text that is read may leave parameters out. A text that is written
// has all parameters that have a text: an optional parameter without a value has none, and some bools have none while they are false.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/registry/parameters.hpp>

namespace lazyprune {
inline namespace v0 {

/// The flag with this name: two hyphens, then the name with hyphens for underscores.
inline std::string flag_of(std::string_view name) {
  std::string flag = "--" + std::string(name);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

/// The layers after which a policy can prune, in a model with `layers` layers.
struct pruning_layers {
  layer_id layers;
  layer_id least = 1;          // the least number of done layers: 0 if the scorer needs only positions
  std::string_view knowing{};  // the names of the scorers that need only positions: "random and recency"

  layer_id least_in(const layer_range& range) const { return range.least.value_or(least); }
  layer_id most_in(const layer_range& range) const {
    const layer_id most = std::max(layers, 1u) - 1;
    return range.before_last ? std::max(most, 1u) - 1 : most;
  }
  bool has(layer_id done, const layer_range& range) const { return done >= least_in(range) && done <= most_in(range); }

  std::string text(const layer_range& range) const {
    std::string text = "a layer from " + std::to_string(least_in(range)) + " to " + std::to_string(most_in(range)) + " (the model has " +
                       std::to_string(layers);
    if (least_in(range) > 0) text.append("; only the scorers ").append(knowing).append(" can prune before the first layer");
    return text + ")";
  }
};

/// The text of a part, NAME[:key=value,...], split into the part's name and its values. Errors name the flag. They also quote the whole
/// text, except the error of an unknown name.
class part_text {
 public:
  /// `part`: scorer, schedule, selector or store. Throws `error` if the text has another form, or gives a key twice.
  part_text(std::string_view part, std::string_view text) : flag_(flag_of(part)), text_(text) {
    const std::size_t colon = text.find(':');
    name_ = text.substr(0, colon);
    if (colon == text.npos) return;
    if (colon + 1 == text.size()) fail("key=value after the colon", "nothing");
    for (const std::string_view piece : split(text.substr(colon + 1), ',')) {
      const std::size_t equals = piece.find('=');
      if (equals == piece.npos || equals == 0) fail("key=value", piece.empty() ? "nothing" : piece);
      const std::string_view key = piece.substr(0, equals);
      if (value_of(key)) fail("each key once", std::string(key) + " twice");
      values_.emplace_back(key, piece.substr(equals + 1));
    }
  }

  const std::string& name() const { return name_; }

  /// Sets the parameters to the values that the text gives. Throws `error` if a key is unknown, if a required key is missing, or if a value
  /// is not valid. Of two parameters that replace each other, the text must give exactly one.
  void read_into(std::span<parameter> parameters, const pruning_layers& where) const {
    allow(parameters);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (i + 1 < parameters.size() && parameters[i + 1].instead_of == parameters[i].key)
        just_one(parameters[i].key, parameters[i + 1].key);
      read_into(parameters[i], where);
    }
  }

  /// Throws an `error` that says that no part has this name. `known` lists the names that exist.
  [[noreturn]] void unknown_name(std::string_view known) const { fault("", known, name_.empty() ? "nothing" : name_); }

 private:
  std::optional<std::string> value_of(std::string_view key) const {
    for (const auto& [k, v] : values_)
      if (k == key) return v;
    return std::nullopt;
  }

  void allow(std::span<const parameter> parameters) const {
    for (const auto& [key, value] : values_)
      if (std::ranges::find(parameters, key, &parameter::key) == parameters.end())
        fail(parameters.empty() ? "no key" : one_of_names(parameters, &parameter::key), key);
  }

  void just_one(std::string_view key, std::string_view other) const {
    const bool both = value_of(other).has_value();
    if (value_of(key).has_value() == both) fail("either " + std::string(key) + " or " + std::string(other), both ? "both" : "neither");
  }

  void read_into(parameter& p, const pruning_layers& where) const {
    const std::optional<std::string> given = value_of(p.key);
    if (!given && p.required) fail("the key " + std::string(p.key), "none");
    const std::optional<std::string> value = given ? given : p.text();
    if (!value) return;
    const auto layer = number_in<layer_id>(*value);
    if (!(p.layers && !(layer && where.has(*layer, *p.layers))) && p.set(*value)) return;
    const std::string expected = p.layers ? where.text(*p.layers) : p.choices.empty() ? p.expected : one_of_names(p.choices);
    fail(expected + " for " + std::string(p.key), value->empty() ? "nothing" : *value);
  }

  [[noreturn]] void fail(std::string_view expected, std::string_view found) const { fault(text_, expected, found); }
  [[noreturn]] void fault(std::string_view place, std::string_view expected, std::string_view found) const {
    report_error(error(flag_, place, expected, found));
  }

  std::string flag_, text_, name_;
  std::vector<std::pair<std::string, std::string>> values_;
};

/// The text of the part called `name`, with every parameter whose `text()` has a value: "window_attention:window=32,kernel=7,pool=max".
inline std::string text_of(std::string_view name, std::span<const parameter> parameters) {
  std::string text(name);
  char before = ':';
  for (const parameter& p : parameters)
    if (const auto value = p.text()) {
      text.append(1, before).append(p.key).append("=").append(*value);
      before = ',';
    }
  return text;
}

template <described_part P>
std::string text_of(P policy) {
  return text_of(P::name, parameters_of(policy));
}

/// The help text of a part, with its name, its keys and the choices of each key: "window_attention:window=,kernel=,pool=max|mean".
inline std::string help_of(std::string_view name, std::span<const parameter> parameters) {
  std::string text(name);
  char before = ':';
  for (const parameter& p : parameters) {
    text.append(1, p.instead_of.empty() ? before : '|').append(p.key).append("=");
    for (const std::string_view choice : p.choices) text.append(choice == p.choices.front() ? "" : "|").append(choice);
    before = ',';
  }
  return text;
}

}  // namespace v0
}  // namespace lazyprune
