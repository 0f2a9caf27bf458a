// SPDX-License-Identifier: MIT
// The parts and presets that can be chosen by name. Some come with the library (`shipped_policies`), and users can add their own.
//
//   lazyprune::policy_registry policies = lazyprune::shipped_policies();
//   policies.add<my_scorer, my_schedule>();
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/error.hpp>
#include <lazyprune/policy/schedule/any_schedule.hpp>
#include <lazyprune/policy/scorer/any_scorer.hpp>
#include <lazyprune/policy/selector/any_selector.hpp>
#include <lazyprune/policy/store/any_store.hpp>
#include <lazyprune/registry/parameters.hpp>
#include <lazyprune/registry/part_text.hpp>
#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

/// Throws `error` unless the name consists of lower-case letters, digits and underscores. In a policy's text, other characters such as
/// colons and commas are separators.
inline void check_name(std::string_view name) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (name.empty() || !std::ranges::all_of(name, fits))
    report_error(error("registry", "name", "lower-case letters, digits and underscores", name.empty() ? "nothing" : name));
}

}  // namespace detail

/// A part that was read, and its canonical text. This text reads back as the same part.
template <class Any>
struct read_part {
  Any policy;
  std::string text;
};

/// The parts of one kind. `Any` is any_scorer, any_schedule, any_selector or any_store.
template <class Any>
class parts_of_a_kind {
 public:
  struct entry {
    std::string name;
    std::string help;  // the name and the keys
    std::function<read_part<Any>(const part_text& text, const pruning_layers& where)> read;
  };

  template <class P>
  void add() {
    P policy{};
    add({std::string(P::name), help_of(P::name, parameters_of(policy)), [](const part_text& text, const pruning_layers& where) {
           P chosen{};
           std::vector<parameter> parameters = parameters_of(chosen);
           text.read_into(parameters, where);
           std::string canonical = text_of(P::name, parameters);
           return read_part<Any>{Any(chosen), std::move(canonical)};
         }});
  }

  /// Adds a part that already exists. Its text is its name, without keys.
  void add(std::string_view name, Any policy) {
    add({std::string(name), std::string(name), [policy = std::move(policy)](const part_text& text, const pruning_layers& where) {
           text.read_into({}, where);
           return read_part<Any>{policy, text.name()};
         }});
  }

  std::span<const entry> entries() const { return entries_; }

  read_part<Any> read(const part_text& text, const pruning_layers& where) const {
    const auto at = find(text.name());
    if (at != entries_.end()) return at->read(text, where);
    text.unknown_name(one_of_names(entries_, &entry::name));
  }

  /// All names with their keys, separated by spaces.
  std::string help() const {
    std::string text;
    for (const entry& e : entries_) text.append(text.empty() ? "" : " ").append(e.help);
    return text;
  }

 private:
  void add(entry e) {
    detail::check_name(e.name);
    if (find(e.name) != entries_.end())
      report_error(error("registry", e.name, "a name that is not in use", "another policy with this name"));
    entries_.push_back(std::move(e));
  }

  auto find(std::string_view name) const { return std::ranges::find(entries_, name, &entry::name); }

  std::vector<entry> entries_;
};

/// A whole policy with a name of its own.
struct policy_preset {
  std::string name;
  std::string what;                            // what it does, in a few words; empty if the name says it
  std::function<policy_spec(layer_id)> flags;  // all flags, for a model with that many layers
};

/// After the last addition, any number of threads may use it at once.
class policy_registry {
 public:
  /// Adds scorers, schedules, selectors or stores that describe themselves. A name has lower-case letters, digits and underscores. Throws
  /// `error` for other names, and for a name that another part of the same kind has.
  template <class... Policies>
  void add() {
    (add_one<Policies>(), ...);
  }

  /// Adds a part that was made at run time: `policies.add("mine", any_scorer(...))`. Its text is this name alone. Throws `error` for
  /// the same names as the overload above.
  void add(std::string_view name, any_scorer scorer) {
    const bool of_positions = scorer.needs().kind == evidence_kind::none;
    scorers_.add(name, std::move(scorer));
    if (of_positions) names_of_position_scorers_.emplace_back(name);
  }
  void add(std::string_view name, any_schedule schedule) { schedules_.add(name, std::move(schedule)); }

  /// Adds a preset. `make(layers)` returns a policy of described parts. A name has lower-case letters, digits and underscores. Throws
  /// `error` for other names, and for a name that another preset has.
  template <class Make>
  void add_preset(std::string_view name, std::string_view what, Make make) {
    detail::check_name(name);
    if (name == custom_policy) report_error(error("registry", name, "another name, because this one stands for flags alone", "it"));
    if (std::ranges::find(presets_, name, &policy_preset::name) != presets_.end())
      report_error(error("registry", name, "a name that is not in use", "another preset with this name"));
    presets_.push_back({std::string(name), std::string(what), [name = std::string(name), make](layer_id layers) {
                          policy_spec spec = spec_of(make(layers), layers);
                          spec.preset = name;
                          return spec;
                        }});
  }

  const parts_of_a_kind<any_scorer>& scorers() const { return scorers_; }
  const parts_of_a_kind<any_schedule>& schedules() const { return schedules_; }  // without `stages`, which has a flag of its own
  const parts_of_a_kind<any_selector>& selectors() const { return selectors_; }
  const parts_of_a_kind<any_store>& stores() const { return stores_; }
  std::span<const policy_preset> presets() const { return presets_; }

  /// All flags of the preset of that name, for a model with `layers` layers. Throws `error` if there is no such preset.
  policy_spec preset(std::string_view name, layer_id layers) const {
    const auto at = std::ranges::find(presets_, name, &policy_preset::name);
    if (at != presets_.end()) return at->flags(layers);
    report_error(error(flag_of("policy"), "", one_of_names(presets_, &policy_preset::name), name));
  }

  /// The names of the presets, and what the presets do: "static: prunes only the prompt, and pruned tokens are lost; dense: prunes
  /// nothing".
  std::string preset_help() const {
    std::string text;
    for (const policy_preset& p : presets_) {
      text.append(text.empty() ? "" : "; ").append(p.name);
      if (!p.what.empty()) text.append(": ").append(p.what);
    }
    return text;
  }

  /// The names of the scorers that need only positions and can therefore prune before the first layer: "random and recency".
  std::string scorers_of_positions() const {
    std::vector<std::string> names = names_of_position_scorers_;
    std::ranges::sort(names);
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i) text.append(i == 0 ? "" : i + 1 == names.size() ? " and " : ", ").append(names[i]);
    return text;
  }

 private:
  template <class P>
  void add_one() {
    static_assert(importance_scorer<P> || any_kind_of_schedule<P> || token_selector<P> || aux_store<P>,
                  "A registry takes scorers (score), schedules (keep), selectors (select) and stores (admit)");
    static_assert(described_part<P>,
                  "A policy of the registry needs: static constexpr std::string_view name; template <class Visitor> void describe(Visitor& "
                  "visit); and defaults for all its members");
    if constexpr (!described_part<P>) {
      return;  // so that the static_assert above is the only error
    } else if constexpr (importance_scorer<P>) {
      scorers_.template add<P>();
      if (std::same_as<view_of<P>, token_view>) names_of_position_scorers_.emplace_back(P::name);
    } else if constexpr (any_kind_of_schedule<P>) {
      schedules_.template add<P>();
    } else if constexpr (token_selector<P>) {
      selectors_.template add<P>();
    } else if constexpr (aux_store<P>) {
      stores_.template add<P>();
    }
  }

  parts_of_a_kind<any_scorer> scorers_;
  parts_of_a_kind<any_schedule> schedules_;
  parts_of_a_kind<any_selector> selectors_;
  parts_of_a_kind<any_store> stores_;
  std::vector<policy_preset> presets_;
  std::vector<std::string> names_of_position_scorers_;
};

}  // namespace v0
}  // namespace lazyprune
