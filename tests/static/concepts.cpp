// SPDX-License-Identifier: MIT
// Tests of the concepts of core/concepts.hpp: which types satisfy them, and which do not. The test is that this file compiles.
#include <lazyprune/core/policy.hpp>

namespace {

using namespace lazyprune;
using floats = std::span<float>;
using indices = std::span<std::uint32_t>;

// Scorers. The type of `score`'s first parameter says which view a scorer needs.
struct of_attention {
  void score(const attention_view&, floats) const {}
};
struct of_positions {
  void score(const token_view&, floats) const {}
};
struct of_window {
  std::size_t window = 8;
  void score(const window_view&, floats) const {}
};
struct of_every_layer {
  void score(const every_layer<attention_view>&, floats) {}  // `score` may change the scorer's state
};
struct of_text {
  void score(const id_view&, floats) const {}
};
struct of_probes {
  std::size_t window = 8;
  std::span<const head_probe> probes(layer_id) const { return {}; }
  void score(const every_layer<probe_view>&, floats) const {}
};
struct of_probes_without_names {
  std::size_t window = 8;
  void score(const every_layer<probe_view>&, floats) const {}
};
struct of_probes_at_one_layer {  // refused, because sessions gather probes over all layers
  std::size_t window = 8;
  std::span<const head_probe> probes(layer_id) const { return {}; }
  void score(const probe_view&, floats) const {}
};
static_assert(importance_scorer<of_probes> && std::same_as<evidence_of<of_probes>, probe_view> &&
              kind_of<probe_view>() == evidence_kind::probes && needs_of(of_probes{}).window == 8 && needs_of(of_probes{}).every_layer);
static_assert(!importance_scorer<of_probes_without_names> && !importance_scorer<of_probes_at_one_layer>);
static_assert(importance_scorer<of_text> && std::same_as<view_of<of_text>, id_view> && kind_of<id_view>() == evidence_kind::ids);
static_assert(importance_scorer<of_attention> && std::same_as<view_of<of_attention>, attention_view>);
static_assert(importance_scorer<of_positions> && std::same_as<view_of<of_positions>, token_view>);
static_assert(importance_scorer<of_window> && std::same_as<evidence_of<of_window>, window_view>);
static_assert(importance_scorer<of_every_layer> && std::same_as<view_of<of_every_layer>, every_layer<attention_view>> &&
              std::same_as<evidence_of<of_every_layer>, attention_view>);

struct misspelt_scorer {
  void scores(const attention_view&, floats) const {}
};
struct windowless {  // does not say how many queries it needs
  void score(const window_view&, floats) const {}
};
struct of_another_library {
  struct view {};
  void score(const view&, floats) const {}
};
struct greedy_scorer {  // could write to the engine's memory
  void score(attention_view&, floats) const {}
};
struct uncopied : of_attention {
  uncopied(const uncopied&) = delete;
};
struct of_anything {  // does not say which view it needs
  void score(const auto&, floats) const {}
};
struct of_any_evidence {  // `evidence` converts from each view
  void score(const evidence&, floats) const {}
};
struct of_two_views {
  void score(const attention_view&, floats) const {}
  void score(const key_view&, floats) const {}
};
struct of_one_view_at_any_layer {
  void score(const attention_view&, floats) const {}
  void score(const every_layer<attention_view>&, floats) const {}
};
template <class S>
constexpr bool refused_as_ambiguous = ambiguous_scorer<S> && !importance_scorer<S> && std::is_void_v<view_of<S>>;
static_assert(refused_as_ambiguous<of_anything> && refused_as_ambiguous<of_any_evidence> && refused_as_ambiguous<of_two_views> &&
              refused_as_ambiguous<of_one_view_at_any_layer>);
static_assert(!ambiguous_scorer<of_attention> && !ambiguous_scorer<of_every_layer> && !ambiguous_scorer<misspelt_scorer>);

static_assert(!importance_scorer<misspelt_scorer>);
static_assert(!importance_scorer<windowless>);
static_assert(!importance_scorer<of_another_library>);
static_assert(!importance_scorer<greedy_scorer>);
static_assert(!importance_scorer<uncopied>);
static_assert(std::is_void_v<view_of<misspelt_scorer>>);

// Schedules.
struct halve {
  std::size_t keep(const layer_context& c) const { return c.active / 2; }
};
struct halve_by_score {
  std::size_t keep(const layer_context& c, std::span<const float>) const { return c.active / 2; }
};
static_assert(layer_schedule<halve> && !adaptive_schedule<halve>);
static_assert(adaptive_schedule<halve_by_score> && !layer_schedule<halve_by_score>);

struct halve_either_way {  // does not say whether `keep` needs the scores
  std::size_t keep(const layer_context& c, std::span<const float> = {}) const { return c.active / 2; }
};
struct halve_by_choice : halve_either_way {
  bool sees_scores() const { return true; }
};
static_assert(ambiguous_schedule<halve_either_way>);
static_assert(!ambiguous_schedule<halve_by_choice> && !ambiguous_schedule<halve> && !ambiguous_schedule<halve_by_score>);

struct misspelt_schedule {
  std::size_t keeps(const layer_context& c) const { return c.active; }
};
struct changing_schedule {  // keep must be const
  std::size_t keep(const layer_context& c) { return c.active; }
};
struct silent_schedule {
  void keep(const layer_context&) const {}
};
static_assert(!layer_schedule<misspelt_schedule> && !adaptive_schedule<misspelt_schedule>);
static_assert(!layer_schedule<changing_schedule>);
static_assert(!layer_schedule<silent_schedule>);

// Selectors and stores.
struct first_ones {
  std::size_t select(const candidates& c, indices) const { return c.keep; }
};
struct refuses_all {
  std::size_t admit(const stored_rows&, indices) const { return 0; }
};
static_assert(token_selector<first_ones> && !token_selector<refuses_all>);
static_assert(aux_store<refuses_all> && !aux_store<first_ones>);

struct misspelt_selector {
  std::size_t selects(const candidates& c, indices) const { return c.keep; }
};
struct misspelt_store {
  std::size_t admits(const stored_rows&, indices) const { return 0; }
};
static_assert(!token_selector<misspelt_selector>);
static_assert(!aux_store<misspelt_store>);

// Four parts make one policy.
constexpr policy whole{of_attention{}, halve{}, first_ones{}, refuses_all{}};
static_assert(std::same_as<decltype(whole), const policy<of_attention, halve, first_ones, refuses_all>>);

}  // namespace
