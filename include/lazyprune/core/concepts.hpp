// SPDX-License-Identifier: MIT
// The four parts of a policy, as concepts. Each concept asks for one expression. Any struct that has this expression can be that part.
//
//   concept             expression               meaning
//   importance_scorer   s.score(view, out)       Writes out[i], the importance of active token i. Larger is more important. The type of
//                                                `view` says which evidence the scorer needs: exactly one view of core/views.hpp, or
//                                                every_layer<that view>. A scorer of window_view has a member `window`, the number of
//                                                queries. A scorer of every_layer<evidence> has a function needs(), see chosen_scorer
//   probing_scorer      s.probes(layer)          A scorer of every_layer<probe_view>. Returns the probes that it reads at a layer, as
//                                                std::span<const head_probe>. At a layer without probes it is shown a view without them.
//                                                It has a member `window`, too
//   one_step_scorer     s.of_one_step()          A scorer of every_layer<view> that also has the function of_one_step. Returns true if its
//                                                scores depend on the evidence of one step alone. A base class's of_one_step is ignored
//                                                if the scorer has a score of its own
//   head_reducing_scorer                         A scorer of attention that also has the function over_heads
//                       s.over_heads()           Returns head_reduction::mean or max if the scorer reads only the mean or maximum over the
//                                                heads, else nullopt. With mean or max, an engine can copy one row from its device
//                                                instead of one row for each head. A base class's over_heads is ignored if the scorer has
//                                                a score of its own
//   row_scorer          S::row_is_score          A scorer with over_heads whose score of a token is its number in the row that over_heads
//                                                makes. An engine that has this row can choose tokens by it. The name stands for the
//                                                scorer's own type, so a scorer that is derived from another one must say it anew
//   layer_schedule      s.keep(context)          Returns how many of the active tokens go on to the next layer, or `everything`,
//                                                or `all_with_keys`
//   adaptive_schedule   s.keep(context, scores)  Also returns how many tokens go on, but decides by `scores`, one for each active token.
//                                                A schedule has only one of the two forms of keep, unless s.sees_scores() says which
//                                                one to call
//   foretelling_schedule                         A schedule that also has the function first
//                       s.first(phase, layers)   Returns the smallest number of done layers at which the schedule could prune in that
//                                                phase. The number must be right for every length of the sequence. Returns
//                                                `layers` if the schedule never prunes
//   layer_naming_schedule                        A schedule that also has the function prunes_after
//                       s.prunes_after(done, phase, layers)   Returns whether the schedule could prune by scores after `done` layers in
//                                                that phase (`all_with_keys` needs no scores). The answer must be right for every length
//                                                of the sequence. After the last such layer, a one_step_scorer is shown nothing more in
//                                                that step
//   token_selector      s.select(c, kept)        Writes the indices of the kept tokens, ascending, into kept. Returns their number. `kept`
//                                                has room for all candidates and may serve as scratch. The session checks the list. If it
//                                                is wrong, nothing is dropped and step::finish reports it
//   counting_selector                            A selector that also has the function count
//                       s.count(c)               Returns how many candidates `select` keeps if this number does not depend on the scores,
//                                                else nullopt. The scores of `c` are +inf for required tokens and 0 for the others. If
//                                                the selector requires more tokens, it sets their scores to +inf
//   aux_store           s.admit(rows, kept)      `rows` has the hidden states that are stored and those just dropped. Writes the indices of
//                                                the rows that get a slot, ascending, into kept. Returns their number. The other rows are
//                                                lost. If a store has a member or a function `for_good` that is true, dropped tokens never
//                                                come back, and nothing is stored
//   uniform_store                                An aux store that also has the function admits_all
//                       s.admits_all()           Returns true if the store admits every row, and false if it admits only rows that must
//                                                stay for the next layer; nullopt if this depends on the rows
//
// Parts are values: a session copies them, and == compares them. They have no base class. To vary a part, wrap it in another struct. The
// functions of a part must not throw. A session that never allocates needs parts that never allocate.
#pragma once

#include <algorithm>
#include <concepts>
#include <type_traits>

#include <lazyprune/core/evidence.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/core/views.hpp>

namespace lazyprune {
inline namespace v0 {

/// A scorer that accepts this view.
template <class S, class View>
concept scorer_of = std::copyable<S> && requires(S s, const View& view, std::span<float> out) {
  s.score(view, out);
};

namespace detail {

template <class... Views>
struct view_list {};

using views = view_list<attention_view, window_view, key_view, value_view, hidden_view, id_view, token_view, every_layer<attention_view>,
                        every_layer<window_view>, every_layer<key_view>, every_layer<value_view>, every_layer<hidden_view>,
                        every_layer<id_view>, every_layer<probe_view>, every_layer<evidence>>;

template <class S, class List>
struct first_view {
  using type = void;
};
template <class S, class View, class... Rest>
struct first_view<S, view_list<View, Rest...>> : first_view<S, view_list<Rest...>> {};
template <class S, class View, class... Rest>
  requires scorer_of<S, View>
struct first_view<S, view_list<View, Rest...>> {
  using type = View;
};

template <class S, class... Views>
constexpr std::size_t count_views(view_list<Views...>) {
  return (std::size_t{0} + ... + (scorer_of<S, Views> ? 1 : 0));
}

template <class S>
struct only_view {
  using type = void;
};
template <class S>
  requires(count_views<S>(views{}) == 1)
struct only_view<S> {
  using type = typename first_view<S, views>::type;
};

template <class View>
struct evidence_type {
  using type = View;
  static constexpr bool every_layer = false;
};
template <class View>
struct evidence_type<every_layer<View>> {
  using type = View;
  static constexpr bool every_layer = true;
};

}  // namespace detail

/// The view that a scorer takes: attention_view, every_layer<key_view>, ... It is void if the scorer takes no view of views.hpp, or
/// several.
template <class S>
using view_of = typename detail::only_view<S>::type;

/// A scorer that takes several views, because its parameter is `const auto&` or `const evidence&`. The session cannot tell which one to
/// show.
template <class S>
concept ambiguous_scorer = detail::count_views<S>(detail::views{})
> 1;

/// The view that a scorer takes, without every_layer.
template <class S>
using evidence_of = typename detail::evidence_type<view_of<S>>::type;

/// A scorer that names the probes of each layer. The span must stay valid while the scorer exists.
template <class S>
concept probing_scorer = requires(const S s, layer_id layer) {
  { s.probes(layer) } -> std::convertible_to<std::span<const head_probe>>;
};

template <class S>
concept scorer_with_window = requires(const S s) {
  { s.window } -> std::convertible_to<std::size_t>;
};

/// A scorer that has the members which its view needs.
template <class S, class View>
concept names_its_queries = (!std::same_as<View, window_view> && !std::same_as<View, probe_view>) || scorer_with_window<S>;
template <class S, class View>
concept names_its_probes = !std::same_as<View, probe_view> || probing_scorer<S>;

/// A scorer that was chosen at run time. Its `needs()` says which evidence it needs. The session shows it an `every_layer<evidence>` with
/// evidence of that kind.
template <class S>
concept chosen_scorer = scorer_of<S, every_layer<evidence>> && requires(const S s) {
  { s.needs() } -> std::same_as<scorer_needs>;
};
template <class S, class View>
concept names_its_needs = !std::same_as<View, evidence> || chosen_scorer<S>;

template <class S>
concept importance_scorer = std::copyable<S> && !std::is_void_v<view_of<S>> && names_its_queries<S, evidence_of<S>> &&
                            names_its_probes<S, evidence_of<S>> && names_its_needs<S, evidence_of<S>>;

namespace detail {

/// Declared only for decltype: the class that declares a member function.
template <class Class, class Result, class... Arguments>
Class declared_in(Result (Class::*member)(Arguments...) const);
template <class Class, class Result, class... Arguments>
Class declared_in(Result (Class::*member)(Arguments...));

}  // namespace detail

/// A scorer that says how it reduces the heads. A scorer without `over_heads` is shown each head. If a derived class has a `score` of
/// its own, the `over_heads` of its base class is ignored.
template <class S>
concept head_reducing_scorer = requires(const S s) {
  { s.over_heads() } -> std::convertible_to<std::optional<head_reduction>>;
  requires std::derived_from<decltype(detail::declared_in(&S::over_heads)), decltype(detail::declared_in(&S::score))>;
};

/// A scorer that says whether it remembers something from one step to the next. If a derived class has a `score` of its own, the
/// `of_one_step` of its base class is ignored.
template <class S>
concept one_step_scorer = requires(const S s) {
  { s.of_one_step() } -> std::convertible_to<bool>;
  requires std::derived_from<decltype(detail::declared_in(&S::of_one_step)), decltype(detail::declared_in(&S::score))>;
};

/// A scorer whose score is the number in the row that `over_heads` makes.
template <class S>
concept row_scorer = head_reducing_scorer<S> && std::same_as<typename S::row_is_score, S>;

/// The evidence that the engine has to show the scorer.
template <class Scorer>
constexpr scorer_needs needs_of(const Scorer& scorer) {
  if constexpr (chosen_scorer<Scorer>) {
    return scorer.needs();
  } else {
    scorer_needs needs{kind_of<evidence_of<Scorer>>(), !std::same_as<view_of<Scorer>, evidence_of<Scorer>>, 0};
    if constexpr (std::same_as<evidence_of<Scorer>, window_view> || std::same_as<evidence_of<Scorer>, probe_view>)
      if constexpr (scorer_with_window<Scorer>) needs.window = scorer.window;
    if constexpr (head_reducing_scorer<Scorer>) needs.over_heads = scorer.over_heads();
    if constexpr (one_step_scorer<Scorer>) needs.of_one_step = scorer.of_one_step();
    needs.row_is_score = row_scorer<Scorer>;
    return needs;
  }
}

/// The probes that the engine has to show the scorer at this layer; empty if the scorer reads no probes there.
template <class Scorer>
constexpr std::span<const head_probe> probes_of(const Scorer& scorer, layer_id layer) {
  if constexpr (probing_scorer<Scorer>)
    return scorer.probes(layer);
  else
    return {};
}

template <class S>
concept layer_schedule = std::copyable<S> && requires(const S s, const layer_context& context) {
  { s.keep(context) } -> std::convertible_to<std::size_t>;
};

template <class S>
concept adaptive_schedule = std::copyable<S> && requires(const S s, const layer_context& context, std::span<const float> scores) {
  { s.keep(context, scores) } -> std::convertible_to<std::size_t>;
};

template <class S>
concept any_kind_of_schedule = layer_schedule<S> || adaptive_schedule<S>;

/// A schedule that was chosen at run time. Its `sees_scores()` says whether it decides by the scores.
template <class S>
concept chosen_schedule = layer_schedule<S> && adaptive_schedule<S> && requires(const S s) {
  { s.sees_scores() } -> std::convertible_to<bool>;
};

/// A schedule that has both forms of `keep` and does not say which one to call.
template <class S>
concept ambiguous_schedule = layer_schedule<S> && adaptive_schedule<S> && !chosen_schedule<S>;

/// Returns whether the schedule has to see the scores to decide.
template <any_kind_of_schedule Schedule>
constexpr bool sees_scores(const Schedule& schedule) {
  if constexpr (chosen_schedule<Schedule>)
    return schedule.sees_scores();
  else
    return adaptive_schedule<Schedule>;
}

/// A schedule that says how early it could prune. `session::chunk_layers` uses this number: chunks of a prompt stop before the first
/// pruning.
template <class S>
concept foretelling_schedule = any_kind_of_schedule<S> && requires(const S s, phase step, layer_id layers) {
  { s.first(step, layers) } -> std::convertible_to<layer_id>;
};

/// The smallest number of done layers at which the schedule could prune, at most `layers`; 0 if the schedule does not say.
template <any_kind_of_schedule Schedule>
constexpr layer_id first_pruning(const Schedule& schedule, phase step, layer_id layers) {
  if constexpr (foretelling_schedule<Schedule>)
    return std::min<layer_id>(schedule.first(step, layers), layers);
  else
    return 0;
}

/// A schedule that says after which layers it could prune by scores.
template <class S>
concept layer_naming_schedule = any_kind_of_schedule<S> && requires(const S s, layer_id done, phase step, layer_id layers) {
  { s.prunes_after(done, step, layers) } -> std::convertible_to<bool>;
};

/// Returns whether the schedule could prune by scores after `done` layers. If the schedule does not say, it could prune after any number of
/// layers from `first_pruning` on.
template <any_kind_of_schedule Schedule>
constexpr bool could_prune(const Schedule& schedule, layer_id done, phase step, layer_id layers) {
  if constexpr (layer_naming_schedule<Schedule>)
    return schedule.prunes_after(done, step, layers);
  else
    return done >= first_pruning(schedule, step, layers);
}

/// Asks a schedule of either kind how many tokens go on. The shape of `scores` is (active).
template <any_kind_of_schedule Schedule>
std::size_t ask(const Schedule& schedule, const layer_context& context, std::span<const float> scores) {
  if constexpr (adaptive_schedule<Schedule>)
    return schedule.keep(context, scores);
  else
    return schedule.keep(context);
}

template <class S>
concept token_selector = std::copyable<S> && requires(const S s, const candidates& c, std::span<std::uint32_t> kept) {
  { s.select(c, kept) } -> std::convertible_to<std::size_t>;
};

/// A selector that says how many candidates it keeps before any score is known. One class must declare `select` and `count`: if a
/// derived class has a `select` of its own, the `count` of its base class is ignored.
template <class S>
concept counting_selector = token_selector<S> && requires(const S s, const candidates& c) {
  { s.count(c) } -> std::convertible_to<std::optional<kept_count>>;
  requires std::same_as<decltype(detail::declared_in(&S::select)), decltype(detail::declared_in(&S::count))>;
};

/// The number of candidates that the selector keeps; nullopt if the number depends on the scores, or if the selector does not say. Also
/// nullopt if the selector's answer is impossible: the session then selects by evidence, so the answer does no harm.
template <token_selector Selector>
std::optional<kept_count> count_of(const Selector& selector, const candidates& c) {
  if constexpr (counting_selector<Selector>) {
    const std::optional<kept_count> count = selector.count(c);
    return count && count->possible(c.scores.size()) ? count : std::nullopt;
  } else {
    return std::nullopt;
  }
}

template <class S>
concept aux_store = std::copyable<S> && requires(const S s, const stored_rows& rows, std::span<std::uint32_t> kept) {
  { s.admit(rows, kept) } -> std::convertible_to<std::size_t>;
};

/// Stores with `for_good`, as a data member here and as a function below. If `for_good` is true, dropped tokens never come back.
template <class S>
concept store_saying_for_good = requires(const S s) {
  { s.for_good } -> std::convertible_to<bool>;
};
template <class S>
concept store_answering_for_good = requires(const S s) {
  { s.for_good() } -> std::convertible_to<bool>;
};

/// Returns whether a token that is dropped is missing from every later plan.
template <aux_store Store>
constexpr bool drops_for_good(const Store& store) {
  if constexpr (store_answering_for_good<Store>)
    return store.for_good();
  else if constexpr (store_saying_for_good<Store>)
    return store.for_good;
  else
    return false;
}

/// A store that says what it admits. One class must declare `admit` and `admits_all`.
template <class S>
concept uniform_store = aux_store<S> && requires(const S s) {
  { s.admits_all() } -> std::convertible_to<std::optional<bool>>;
  requires std::same_as<decltype(detail::declared_in(&S::admit)), decltype(detail::declared_in(&S::admits_all))>;
};

/// true if the store admits every row. false if it admits only rows that must stay, or if dropped tokens never come back: such a store is
/// asked for nothing. nullopt if the answer depends on the rows, or if the store does not say.
template <aux_store Store>
constexpr std::optional<bool> admits_all(const Store& store) {
  if (drops_for_good(store)) return false;
  if constexpr (uniform_store<Store>)
    return store.admits_all();
  else
    return std::nullopt;
}

}  // namespace v0
}  // namespace lazyprune
