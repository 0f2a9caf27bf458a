// SPDX-License-Identifier: MIT
// The pruning session: LazyLLM's bookkeeping for one sequence (arXiv 2407.14057, section 3; the Aux Cache). The session plans; the engine
// computes and owns all memory. Every token has a frontier: the number of layers that have its keys and values. No step lowers a frontier,
// so no step computes a token again at a layer that has its keys and values. Each step starts from all known tokens, so a pruned token can
// come back.
//
//   lazyprune::session s{policy, {.layers = L, .max_tokens = n}};
//   auto step = s.begin({.tokens = m, .phase = phase::prefill});
//   for (layer_id l = 0; l < step.layers(); ++l) {
//     const layer_plan& p = step.enter(l);      // gather p.sources, compute p.rows, attend over p.active
//     if (step.wants_scores()) step.leave(view_over_my_attention_row);  // or chosen_tokens, where there is a step.quota()
//     else                     step.leave();
//     for (const spill& s : step.spills()) ...  // save row s.row in slot s.slot; s.from and s.to name the memories
//   }
//   step.finish();
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include <lazyprune/core/policy.hpp>
#include <lazyprune/session/admission.hpp>
#include <lazyprune/session/selection.hpp>
#include <lazyprune/session/step.hpp>
#include <lazyprune/session/step_machine.hpp>

namespace lazyprune {
inline namespace v0 {

/// The session of one policy. It can be copied between steps. The copy goes on as the session would. In each layer a step looks at
/// each known token a few times at most. If nothing is pruned or revived, it looks only at its new tokens. After `reserve` (or with
/// max_tokens) nothing allocates. Calls between steps report errors at once. In a step, only `finish`, `check_finish` and `check` report
/// errors. Only one thread at a time may change a session. While none does, several threads may copy it at once, unless it has a shared
/// scratch.
template <class Scorer, class Schedule, class Selector, class Store>
class session final : public step_machine {
 public:
  using policy_type = policy<Scorer, Schedule, Selector, Store>;
  using evidence_type = evidence_of<Scorer>;  // the view that the scorer takes; `evidence` if it was chosen at run time

  session(policy_type policy, const session_options& options)
      : step_machine(options, needs_of(policy.scorer).every_layer), pristine_(std::move(policy)), policy_(pristine_) {}
  session(const session&) = default;
  session(session&&) noexcept = default;
  session& operator=(const session& other) { return *this = session(other); }
  session& operator=(session&&) noexcept = default;

  /// Begins a forward pass over tokens that follow the known ones. Throws `error`, and changes nothing, if there is no room for the tokens,
  /// if the request is not valid, or if the previous step was neither finished nor abandoned.
  step<session> begin(const step_request& request) {
    step_machine::begin(request);
    return step<session>(*this);
  }

  const policy_type& policy_in_use() const noexcept { return pristine_; }

  /// A chunk stops before the first pruning. If the evidence covers the rows of a step (window, hidden), the chunk stops one layer earlier.
  /// The step with the query then computes all rows of that layer, so that the evidence is complete. If the scorer needs hidden states at
  /// every layer, a chunk runs no layer. For windows at every layer see `evidence_window`.
  layer_id chunk_layers(phase phase) const noexcept override {
    if constexpr (is_policy)
      return layers_of_chunk(phase);
    else
      return 0;
  }

  std::size_t evidence_window() const noexcept override {
    const scorer_needs needs = this->needs();
    return needs.every_layer ? needs.window : 0;
  }

  bool remembers() const noexcept override { return needs().every_layer && !needs().of_one_step; }

  /// Whether `step::leave` accepts this view.
  template <class View>
  static constexpr bool takes = chosen_scorer<Scorer> || std::same_as<View, evidence_type> || std::same_as<View, evidence>;

 private:
  using view_type = view_of<Scorer>;

  /// If `is_policy` is false, the static_asserts in `policy` say why. The session then calls no part, so that the static_asserts are the
  /// only errors.
  static constexpr bool is_policy =
      importance_scorer<Scorer> && any_kind_of_schedule<Schedule> && token_selector<Selector> && aux_store<Store>;

  layer_id layers_of_chunk(phase phase) const noexcept {
    const scorer_needs needs = this->needs();
    const bool of_rows = needs.kind == evidence_kind::window || needs.kind == evidence_kind::hidden;  // about the rows of this step
    if (needs.kind == evidence_kind::hidden && needs.every_layer) return 0;
    layer_id first = first_pruning(policy_.schedule, phase, layers());
    if (needs.kind != evidence_kind::none) first = std::max(first, layer_id{1});
    return of_rows && !needs.every_layer && first < layers() ? first - 1 : first;
  }

  scorer_needs needs() const noexcept { return needs_of(policy_.scorer); }
  bool by_scores() const noexcept { return sees_scores(policy_.schedule); }
  std::size_t most_queries() const noexcept override { return needs().window; }
  std::span<const head_probe> probes_read(layer_id layer) const noexcept override { return probes_of(policy_.scorer, layer); }
  std::optional<head_reduction> heads_read() const noexcept override { return needs().over_heads; }
  void forget_policy() override { policy_ = pristine_; }
  std::unique_ptr<step_machine> clone() const override { return std::make_unique<session>(*this); }

  /// The schedule's answer; `everything` if the schedule must see the scores first.
  std::size_t quota_without_scores(layer_id done) noexcept {
    if constexpr (layer_schedule<Schedule>)
      if (!by_scores()) return checked(policy_.schedule.keep(context(done)), done);
    return everything;
  }

  /// The schedule's answer. If it contradicts the schedule's `first` or `prunes_after`, notes a fault of the step and returns `everything`.
  std::size_t checked(std::size_t quota, layer_id done) noexcept {
    const layer_id first = first_pruning(policy_.schedule, context(done).step, layers());
    if (quota == everything || (quota == all_with_keys ? done >= first : prunes_at(done))) return quota;
    note_fault(done, denied_pruning{done < first ? std::optional(first) : std::nullopt});
    return everything;
  }

  /// Returns whether the schedule says that it could prune by scores after `done` layers.
  bool prunes_at(layer_id done) const noexcept {
    const phase step = context(done).step;
    return done >= first_pruning(policy_.schedule, step, layers()) && could_prune(policy_.schedule, done, step, layers());
  }

  /// Returns whether scores after `done` layers or more can no longer matter: the schedule prunes nothing more by scores in this step, and
  /// the scorer forgets this step's evidence.
  bool no_more_scores(layer_id done) const noexcept {
    if (!needs().of_one_step || by_scores()) return false;
    while (done < layers() && !could_prune(policy_.schedule, done, context(done).step, layers())) ++done;
    return done == layers();
  }

  /// Returns whether the scores decide which tokens go on.
  bool scores_decide() const noexcept { return by_scores() || (quota_ != everything && quota_ != all_with_keys); }

  evidence_kind ask_schedule() noexcept override {
    if constexpr (is_policy) {
      quota_ = quota_without_scores(layers_done() + 1);
      if (needs().kind == evidence_kind::probes && probes_read(layers_done()).empty()) return evidence_kind::none;
      if (no_more_scores(layers_done() + 1)) return evidence_kind::none;
      return needs().every_layer || scores_decide() ? needs().kind : evidence_kind::none;
    } else {
      return evidence_kind::none;
    }
  }

  void prune(const evidence& shown) noexcept override {
    if constexpr (is_policy) prune_by(shown);
  }

  void prune(const chosen_tokens& chosen) noexcept override {
    if constexpr (is_policy) {
      if (const auto fault = fault_of_choice(chosen)) {
        note_fault(layers_done(), wrong_choice{*fault});
        return drop_stuck();
      }
      if constexpr (counting_selector<Selector>) admit_choice(chosen, policy_.selector, policy_.store);
    }
  }

  /// The layers that are done when the choice counts. It is asked for inside the layer, and while the layer is being left.
  layer_id choice_done() const noexcept { return layers_done() + (inside() ? 1 : 0); }

  /// Lists the candidates in the scratch. Returns how many of them stay; nullopt if the engine may not choose.
  std::optional<kept_count> candidates_of_choice() noexcept {
    if (wanted() == evidence_kind::none || needs().every_layer || by_scores()) return std::nullopt;
    const candidates c = list_candidates(choice_done(), quota_);
    keep_ = c.keep;
    return count_of(policy_.selector, c);
  }

  std::optional<selection_quota> open_choice(std::span<candidacy> out) noexcept override {
    if constexpr (is_policy) {
      const std::optional<kept_count> stays = candidates_of_choice();
      if (!stays) return std::nullopt;
      if (out.size() >= active().size())
        for (std::size_t i = 0, e = 0; i < active().size(); ++i) {
          const bool eligible = e < scratch().eligible.size() && scratch().eligible[e] == active()[i];
          out[i] = !eligible ? candidacy::excluded : is_required(e) ? candidacy::required : candidacy::open;
          e += eligible;
        }
      return selection_quota{.count = stays->of(keep_, scratch().eligible.size()),
                             .page = stays->page,
                             .stores_dropped = admits_all(policy_.store) == true,
                             .needs_scores = !admits_all(policy_.store),
                             .row_is_score = needs().row_is_score};
    } else {
      return std::nullopt;
    }
  }

  bool is_required(std::size_t candidate) noexcept {
    return scratch().eligible_scores[candidate] == std::numeric_limits<float>::infinity();
  }

  std::optional<choice_fault> fault_of_choice(const chosen_tokens& chosen) noexcept override {
    const std::optional<selection_quota> quota = open_choice({});
    if (!quota) return choice_not_open{};
    const std::size_t n = active().size();
    if (chosen.indices.size() != quota->count) return wrong_choice_count{quota->count, chosen.indices.size()};
    if (const auto fault = fault_in_list(chosen.indices, n)) return *fault;
    if (chosen.scores.size() != n && (quota->needs_scores || !chosen.scores.empty())) return wrong_choice_scores{n, chosen.scores.size()};
    for (std::size_t i = 0; i < chosen.scores.size(); ++i)
      if (!is_finite(chosen.scores[i])) return wrong_choice_score{active()[i], chosen.scores[i]};
    const std::vector<position>& eligible = scratch().eligible;
    position page = 0;
    bool page_stays = false;
    for (std::size_t i = 0, e = 0, c = 0; i < n; ++i) {
      const position t = active()[i];
      const bool stays = c < chosen.indices.size() && chosen.indices[c] == i;
      c += stays;
      if (e == eligible.size() || eligible[e] != t) {
        if (stays) return wrong_choice_token{t, wrong_choice_token::excluded};
        continue;
      }
      if (is_required(e) && !stays) return wrong_choice_token{t, wrong_choice_token::left_out};
      const auto of_page = static_cast<position>(t / quota->page);
      if (e > 0 && of_page == page && stays != page_stays) return wrong_choice_token{t, wrong_choice_token::torn};
      page = of_page;
      page_stays = stays;
      ++e;
    }
    return std::nullopt;
  }

  std::size_t later_counts(std::span<layer_counts> out) noexcept override {
    if constexpr (is_policy && layer_schedule<Schedule>) {
      if (!admits_all(policy_.store) || !all_will_be_rows()) return 0;
      const std::optional<kept_count> stays = candidates_of_choice();
      if (!stays) return 0;
      const layer_id first = layers_done() + 1;
      std::size_t active = stays->of(keep_, scratch().eligible.size());
      for (layer_id layer = first; layer < layers(); ++layer) {
        const bool last = layer + 1 == layers();
        layer_counts counts{layer, active, last ? outputs() : active, false, active};
        if (!last) {
          layer_context then = context(layer + 1);
          then.active = active;
          const std::size_t quota = policy_.schedule.keep(then);
          if (quota == all_with_keys || (quota != everything && !prunes_at(layer + 1))) return layer - first;
          if (quota != everything) {
            counts.chooses = true;
            counts.kept = stays->of(std::max(std::clamp<std::size_t>(quota, 1, active), outputs()), active);
          }
        }
        if (layer - first < out.size()) out[layer - first] = counts;
        active = counts.kept;
      }
      return layers() - first;
    } else {
      return 0;
    }
  }

  void prune_by(const evidence& shown) noexcept {
    const layer_id done = layers_done();
    if (done == 0) quota_ = needs().kind == evidence_kind::none ? quota_without_scores(0) : everything;
    const bool asked = wanted() != evidence_kind::none;
    const bool scored = asked ? score(shown) : score_without_evidence();
    if (scored && by_scores()) quota_ = checked(ask(policy_.schedule, context(done), scratch().scores), done);
    if (quota_ == all_with_keys && (scored || !asked))
      keep_those_with_keys(policy_.store);
    else if (scored && quota_ != everything)
      select_and_admit(policy_.selector, policy_.store, quota_);
    else
      drop_stuck();
  }

  /// Writes scratch().scores (active). Returns false if the evidence is not what the session wants, or is not finite.
  bool score(const evidence& shown) noexcept {
    const auto whole = [this]<class View>(const View& view) {
      if constexpr (std::same_as<View, window_view>)
        if (view.queries != window()) return false;
      if constexpr (std::same_as<View, probe_view>)
        if (view.probes != probes_read(layers_done() - 1).size()) return false;
      if constexpr (std::same_as<View, hidden_view>)
        if (view.rows.size() != rows()) return false;
      if constexpr (std::same_as<View, id_view>)
        if (view.ids.size() != known()) return false;
      return view.active() == active().size();
    };
    const bool comes = static_cast<evidence_kind>(shown.index()) == wanted() && std::visit(whole, shown);
    if (!comes) {
      note_fault(layers_done(), missed_evidence{wanted(), static_cast<evidence_kind>(shown.index())});
      return false;
    }
    if (const auto number = find_not_finite(shown)) {
      note_fault(layers_done(), wrong_evidence{wanted(), *number});
      return false;
    }
    score_by(shown);
    return true;
  }

  void score_by(const evidence& shown) noexcept {
    scratch().scores.resize(active().size());
    const std::span<float> scores = scratch().scores;
    const layer_id layer = layers_done() - 1;
    if constexpr (chosen_scorer<Scorer>)
      policy_.scorer.score(every_layer<evidence>{shown, layer, memory()}, scores);
    else if constexpr (std::same_as<view_type, evidence_type>)
      policy_.scorer.score(std::get<evidence_type>(shown), scores);
    else
      policy_.scorer.score(view_type{std::get<evidence_type>(shown), layer, memory()}, scores);
  }

  /// Scores without evidence from the engine: by positions, or by the probes of earlier layers. Returns false if the scorer needs evidence,
  /// or if its scores decide nothing.
  bool score_without_evidence() noexcept {
    if (needs().kind == evidence_kind::probes && layers_done() > 0) {
      if (no_more_scores(layers_done())) return false;
      score_by(probe_view{nullptr, 0, 0, active()});
      return true;
    }
    if (needs().kind != evidence_kind::none || !scores_decide()) return false;
    scratch().scores.resize(active().size());
    [[maybe_unused]] const token_view tokens{active(), layers_done(), known()};
    if constexpr (chosen_scorer<Scorer>)
      policy_.scorer.score(every_layer<evidence>{tokens, layers_done(), {}}, std::span(scratch().scores));
    else if constexpr (std::same_as<evidence_type, token_view>)
      policy_.scorer.score(tokens, std::span(scratch().scores));
    return true;
  }

  policy_type pristine_;
  policy_type policy_;
  std::size_t quota_ = everything;  // the schedule's answer: how many tokens go on
  std::size_t keep_ = 0;            // the number that the candidates of a choice show their selector
};

}  // namespace v0
}  // namespace lazyprune
