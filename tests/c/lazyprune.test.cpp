// SPDX-License-Identifier: MIT
// Tests what the header of the C library promises. `pair_of_sessions` makes the same calls on a C session and a C++ session, and compares
// the results.
#include <lazyprune/c/lazyprune.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <lazyprune/lazyprune.hpp>
#include <lazyprune/registry/make_session.hpp>
#include "complaint.hpp"
#include "counted_allocations.hpp"
#include "policies.hpp"
#include "session/chosen_by_rules.hpp"

using namespace lazyprune;
using lazyprune_test::complaint_at;
using lazyprune_test::complaint_line;

namespace {

constexpr layer_id layers = 6;
constexpr std::size_t heads = 4, kv_heads = 2, head_dim = 4, hidden = 8;

struct frees {
  void operator()(lazyprune_session* session) const { lazyprune_session_free(session); }
  void operator()(lazyprune_registry* registry) const { lazyprune_registry_free(registry); }
  void operator()(lazyprune_scratch* scratch) const { lazyprune_scratch_free(scratch); }
};
using session_handle = std::unique_ptr<lazyprune_session, frees>;
using registry_handle = std::unique_ptr<lazyprune_registry, frees>;

void ok(lazyprune_status status) {
  INFO(status.message);
  REQUIRE(status.code == LAZYPRUNE_OK);
  REQUIRE(std::string(status.message).empty());
}

/// Returns the status as "CODE MESSAGE".
complaint_line said(lazyprune_status status) { return {status.code, status.message, std::to_string(status.code) + " "}; }

bool memory_fails = false;  // each allocation of a call fails once, in calls before the one that succeeds
std::size_t failed_calls = 0;

/// Makes a call of the library, which must succeed, and change nothing if its memory fails.
template <std::invocable Call>
void ok(const Call& call) {
  for (std::size_t n = 1; memory_fails; ++n) {
    lazyprune_test::failing = n;
    const lazyprune_status status = call();
    const bool failed = lazyprune_test::failing == 0;
    lazyprune_test::failing = 0;
    if (!failed) return ok(status);
    ++failed_calls;
    REQUIRE(said(status) == complaint_at("", {}, LAZYPRUNE_NO_MEMORY));
  }
  ok(call());
}

session_handle make(const char* policy, const lazyprune_registry* registry = nullptr) {
  lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
  options.layers = layers;
  lazyprune_session* session = nullptr;
  ok([&] { return lazyprune_session_create(registry, policy, &options, &session); });
  return session_handle(session);
}

registry_handle new_registry() {
  lazyprune_registry* registry = nullptr;
  ok([&] { return lazyprune_registry_create(&registry); });
  return registry_handle(registry);
}

float noise(std::size_t i) {
  const double x = std::sin(static_cast<double>(i) * 12.9898) * 43758.5453;
  return static_cast<float>(x - std::floor(x));
}

/// Evidence of every kind for one layer, for both the C and the C++ session. It depends only on the plan and the number of known tokens.
struct made_up {
  std::vector<float> probabilities, keys, values, rows;
  std::vector<token_id> ids;
  const layer_plan& plan;
  evidence_kind wanted;
  std::size_t window, probes;

  made_up(const layer_plan& p, evidence_kind kind, std::size_t queries, std::size_t probe_count, std::size_t known)
      : plan(p), wanted(kind), window(queries), probes(probe_count) {
    const std::size_t n = plan.active.size();
    probabilities.assign(std::max<std::size_t>(window, 1) * heads * n, 0.0f);
    for (std::size_t q = 0; q < probabilities.size() / heads / n; ++q)
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t i = 0; i < n; ++i)
          probabilities[(q * heads + h) * n + i] = noise(plan.active[i] + 300 * (plan.layer + 7 * h + 31 * q + 97 * known));
    for (std::size_t i = 0; i < n * kv_heads * head_dim; ++i) {
      keys.push_back(noise(5 * i + 11 * known) - 0.5f);
      values.push_back(noise(3 * i + 13 * known) - 0.5f);
    }
    for (std::size_t i = 0; i < plan.rows.size() * hidden; ++i) rows.push_back(noise(i + 17 * known));
    for (token_id t = 0; t < known; ++t) ids.push_back(t * 7919 % 97);
  }

  evidence shown() const {
    const attention_view attention{probabilities.data(), heads, plan.active.size(), plan.active};
    switch (wanted) {
      case evidence_kind::none:
        break;
      case evidence_kind::attention:
        return attention;
      case evidence_kind::window:
        return window_view{probabilities.data(), window, heads, plan.active.size(), plan.active};
      case evidence_kind::keys:
        return key_view{keys.data(), kv_heads, head_dim, kv_heads * head_dim, plan.active};
      case evidence_kind::values:
        return value_view{attention, values.data(), kv_heads, head_dim, kv_heads * head_dim};
      case evidence_kind::hidden:
        return hidden_view{rows.data(), hidden, hidden, plan.rows, plan.active};
      case evidence_kind::ids:
        return id_view{ids, plan.active};
      case evidence_kind::probes:
        return probe_view{probabilities.data(), probes, plan.active.size(), plan.active};
    }
    return {};
  }

  lazyprune_evidence shown_in_c() const {
    lazyprune_evidence e = LAZYPRUNE_EVIDENCE;
    e.kind = static_cast<std::uint32_t>(wanted);
    e.data = wanted == evidence_kind::keys ? keys.data() : wanted == evidence_kind::hidden ? rows.data() : probabilities.data();
    e.stride = wanted == evidence_kind::keys ? kv_heads * head_dim : wanted == evidence_kind::hidden ? hidden : plan.active.size();
    e.heads = heads;
    e.queries = wanted == evidence_kind::window ? window : 1;
    e.kv_heads = kv_heads;
    e.head_dim = head_dim;
    e.hidden = hidden;
    e.values = values.data();
    e.values_stride = kv_heads * head_dim;
    e.ids = ids.data();
    e.ids_count = ids.size();
    return e;
  }
};

bool alike(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// A C session and a C++ session. Everything that they return is compared.
class pair_of_sessions {
 public:
  pair_of_sessions(session_handle in_c, any_session in_cpp) : c_(std::move(in_c)), cpp_(std::move(in_cpp)) {}

  pair_of_sessions clone() const {
    lazyprune_session* other = nullptr;
    ok([&] { return lazyprune_session_clone(c_.get(), &other); });
    return {session_handle(other), cpp_.clone()};
  }

  /// Runs the first `depth` layers of a step. If the step has more layers, it is then abandoned.
  void step(const step_request& request, layer_id depth = layers) {
    lazyprune_request r = LAZYPRUNE_REQUEST;
    r.phase = static_cast<std::uint32_t>(request.phase);
    r.tokens = request.tokens;
    r.outputs = request.outputs;
    std::uint32_t layers_of_step = 99;
    ok([&] { return lazyprune_step_begin(c_.get(), &r, &layers_of_step); });
    auto step = cpp_.begin(request);
    REQUIRE(step.layers() == layers_of_step);
    for (layer_id l = 0; l < std::min(layers_of_step, depth); ++l) layer(step, l);
    if (depth < layers_of_step) {
      ok([&] { return lazyprune_session_abandon(c_.get()); });
      cpp_.abandon();
    } else {
      ok([&] { return lazyprune_step_finish(c_.get()); });
      step.finish();
    }
    compare();
  }

  void truncate(std::size_t tokens) {
    ok([&] { return lazyprune_session_truncate(c_.get(), tokens); });
    cpp_.truncate(tokens);
    compare();
  }
  void adopt(std::size_t tokens) {
    ok([&] { return lazyprune_session_adopt(c_.get(), tokens); });
    cpp_.adopt(tokens);
    compare();
  }
  void reset() {
    ok([&] { return lazyprune_session_reset(c_.get()); });
    cpp_.reset();
    compare();
  }
  void take_over(const pair_of_sessions& other) {
    ok([&] { return lazyprune_session_take_over(c_.get(), other.c_.get()); });
    cpp_.take_over(other.cpp_);
    compare();
  }

  std::size_t known() const { return cpp_.known(); }
  std::size_t revived() const { return cpp_.stats().revived; }
  std::size_t stored() const { return cpp_.tokens().stored_count(); }

 private:
  void layer(lazyprune::step<any_session>& step, layer_id l) {
    lazyprune_plan plan = LAZYPRUNE_PLAN;
    ok([&] { return lazyprune_step_enter(c_.get(), l, &plan); });
    const layer_plan& expected = step.enter(l);
    REQUIRE(plan.layer == l);
    REQUIRE(std::ranges::equal(std::span(plan.active, plan.active_count), expected.active));
    REQUIRE(std::ranges::equal(std::span(plan.rows, plan.rows_count), expected.rows));
    for (std::size_t i = 0; i < plan.rows_count; ++i) {
      REQUIRE(plan.sources[i].origin == static_cast<std::uint8_t>(expected.sources[i].from));
      REQUIRE(plan.sources[i].index == expected.sources[i].index);
    }
    REQUIRE(plan.finish == expected.output_rows);
    REQUIRE(plan.wants == static_cast<std::uint32_t>(step.wants()));
    REQUIRE(plan.window == (step.wants() == evidence_kind::window ? step.window() : 0));
    REQUIRE(plan.over_heads == (step.over_heads() ? static_cast<std::uint32_t>(*step.over_heads()) + 1 : 0));

    std::vector<std::uint32_t> pages(64), expected_pages(64);
    std::size_t count = 0;
    ok([&] { return lazyprune_step_pages(c_.get(), 8, pages.data(), pages.size(), &count); });
    REQUIRE(count == step.pages(8, expected_pages));
    REQUIRE(pages == expected_pages);

    REQUIRE(plan.probes_count == step.probes().size());
    REQUIRE((plan.probes != nullptr) == (plan.probes_count > 0));
    REQUIRE(plan.probe_rows == (plan.probes_count > 0 ? step.window() : 0));
    for (std::size_t p = 0; p < plan.probes_count; ++p) {
      const head_probe probe = step.probes()[p];
      constexpr std::uint32_t in_c[] = {LAZYPRUNE_LAST, LAZYPRUNE_MAX, LAZYPRUNE_MEAN};  // in the order of query_reduction
      REQUIRE(plan.probes[p].head == probe.head);
      REQUIRE(plan.probes[p].over_queries == in_c[static_cast<std::size_t>(probe.over)]);
    }

    const made_up numbers(expected, step.wants(), step.window(), step.probes().size(), known());
    const lazyprune_evidence shown = numbers.shown_in_c();
    lazyprune_spills spills = LAZYPRUNE_SPILLS;
    ok([&] { return lazyprune_step_leave(c_.get(), plan.wants == LAZYPRUNE_NOTHING ? nullptr : &shown, &spills); });
    step.leave(numbers.shown());
    REQUIRE(alike(spills.margin, step.margin()));
    REQUIRE(spills.count == step.spills().size());
    for (std::size_t i = 0; i < spills.count; ++i) {
      const spill& s = step.spills()[i];
      REQUIRE(spills.items[i].row == s.row);
      REQUIRE(spills.items[i].slot == s.slot);
      REQUIRE(spills.items[i].origin == static_cast<std::uint8_t>(s.from));
      REQUIRE(spills.items[i].to == static_cast<std::uint8_t>(s.to));
    }
  }

  void compare() const {
    lazyprune_session_state state = LAZYPRUNE_SESSION_STATE;
    ok([&] { return lazyprune_session_get_state(c_.get(), &state); });
    const frontier_table& tokens = cpp_.tokens();
    REQUIRE(state.layers == layers);
    REQUIRE(state.known == cpp_.known());
    REQUIRE(state.slots == tokens.slots());
    REQUIRE(state.stored == tokens.stored_count());
    REQUIRE(state.waiting_slots == tokens.waiting_slots());
    REQUIRE(state.waiting == tokens.waiting_count());
    REQUIRE(state.lost == tokens.lost_count());
    for (position t = 0; t < cpp_.known(); ++t) {
      lazyprune_token token = LAZYPRUNE_TOKEN;
      ok([&] { return lazyprune_session_get_token(c_.get(), t, &token); });
      REQUIRE(token.frontier == tokens.frontier(t));
      REQUIRE((token.place == LAZYPRUNE_STORED) == tokens.stored(t));
      REQUIRE((token.place == LAZYPRUNE_WAITING) == tokens.waiting(t));
      if (tokens.has_slot(t)) REQUIRE(token.slot == tokens.slot(t));
      REQUIRE((token.lost != 0) == tokens.lost(t));
      REQUIRE((token.gone != 0) == tokens.dropped_for_good(t));
      REQUIRE(alike(token.score, tokens.score(t)));
    }
    lazyprune_statistics sums = LAZYPRUNE_STATISTICS;
    ok([&] { return lazyprune_session_get_statistics(c_.get(), &sums); });
    const statistics& expected = cpp_.stats();
    REQUIRE(sums.steps == expected.steps);
    REQUIRE(sums.rows == expected.rows);
    REQUIRE(sums.dense_rows == expected.dense_rows);
    REQUIRE(sums.revived == expected.revived);
    REQUIRE(std::ranges::equal(std::span(sums.prefill_rows, sums.layers), expected.prefill_rows));
    REQUIRE(std::ranges::equal(std::span(sums.prefill_dense_rows, sums.layers), expected.prefill_dense_rows));
    const std::uint32_t* losses = nullptr;
    std::size_t count = 0;
    ok([&] { return lazyprune_session_get_losses(c_.get(), &losses, &count); });
    REQUIRE(std::ranges::equal(std::span(losses, count), cpp_.losses()));
    for (const phase step : {phase::prefill, phase::decode}) {
      std::uint32_t chunk = 99;
      ok([&] { return lazyprune_session_chunk_layers(c_.get(), static_cast<std::uint32_t>(step), &chunk); });
      REQUIRE(chunk == cpp_.chunk_layers(step));
    }
  }

  session_handle c_;
  any_session cpp_;
};

pair_of_sessions both(const char* policy) { return {make(policy), make_session(parse_policy(policy), {.layers = layers}, policies())}; }

}  // namespace

TEST_CASE("C sessions plan as C++ sessions do") {
  std::size_t revived = 0;
  std::mt19937 random(3);
  for (const char* policy : {"lazyllm --stages 2:0.5,4:0.5", "dense", "streaming", "tova", "pyramid_kv", "prompt_distill", "random",
                             "lazyllm --store bounded:rows=9", "custom --scorer key_norm --stages 1:0.4 --store none --decode only",
                             "custom --scorer value_weighted_attention --schedule "
                             "adaptive:mass=0.6,every=2",
                             "custom --scorer accumulated_attention --stages 3:0.3 --keep 2-5 --selector blocks:size=3",
                             "lazyllm --stages 2:0.5,4:0.5 --scorer calibrated_attention:window=3,block=4,"
                             "probes=2.0.1.mean.max@1/2.0.1.max.mean@0.5/2.1.0.last.mean@-0.5/4.2.1.max.max@1"}) {
    CAPTURE(policy);
    pair_of_sessions now = both(policy);
    pair_of_sessions other = both(policy);
    for (int action = 0; action < 60; ++action) {
      const std::size_t tokens = 1 + random() % 12;
      switch (random() % 9) {
        case 0:
          now.step({tokens, phase::prefill, 0});
          break;
        case 1:
          now.step({tokens, phase::prefill, 1 + random() % tokens});
          break;
        case 2:
          now.step({tokens, phase::prefill, random() % 2}, static_cast<layer_id>(random() % layers));
          break;
        case 3:
          now.truncate(random() % (now.known() + 1));
          break;
        case 4:
          now.adopt(tokens);
          break;
        case 5:
          other = now.clone();
          break;
        case 6:
          std::swap(now, other);
          break;
        default:
          now.step({1, phase::decode});
      }
      if (now.known() > 120) now.reset();
    }
    revived += now.revived();
  }
  CHECK(revived > 0);
}

TEST_CASE("if an allocation of a call fails, the call says so and can be made again, with the same results; no memory stays") {
  const auto run = [] {
    std::size_t destroyed = 0;
    lazyprune_scorer scorer = LAZYPRUNE_SCORER;
    scorer.user = &destroyed;
    scorer.score = [](void*, const lazyprune_shown* shown, float* scores) -> std::int32_t {
      std::copy_n(shown->positions, shown->active, scores);
      return LAZYPRUNE_OK;
    };
    scorer.destroy = [](void* count) { ++*static_cast<std::size_t*>(count); };
    {
      const registry_handle registry = new_registry();
      ok([&] { return lazyprune_registry_add_scorer(registry.get(), "newest", &scorer); });
      make("custom --scorer newest --stages 1:0.5", registry.get());
    }
    REQUIRE(destroyed == 1);
    for (const char* policy :
         {"lazyllm --stages 2:0.5,4:0.5", "lazyllm --store bounded:rows=9", "custom --scorer window_attention --stages 1:0.4",
          "custom --scorer accumulated_attention --stages 3:0.3 --keep 2-5 --selector blocks:size=3", "pyramid_kv"}) {
      CAPTURE(policy);
      pair_of_sessions document = both(policy), question = both(policy);
      document.step({40, phase::prefill, 0});
      document.step({20, phase::prefill, 0}, 1);
      question.take_over(document);
      question.step({9, phase::prefill, 1});
      pair_of_sessions answer = question.clone();
      for (int i = 0; i < 3; ++i) answer.step({1, phase::decode});
      answer.truncate(45);
      answer.adopt(4);
      answer.step({3, phase::prefill, 1});
      answer.reset();
      answer.step({12, phase::prefill, 1});
    }
  };
  run();  // allocates what stays, for example the registry of the library's own parts
  const std::ptrdiff_t before = lazyprune_test::live_bytes;
  {
    const struct failing_memory {
      failing_memory() { memory_fails = true; }
      ~failing_memory() { memory_fails = false; }
    } in_this_scope;
    run();
  }
  CHECK(failed_calls > 100);
  CHECK(lazyprune_test::live_bytes == before);
}

TEST_CASE("sessions with other policies take over a document") {
  pair_of_sessions document = both("lazyllm --stages 2:0.5");
  document.step({20, phase::prefill, 0});
  for (const char* policy : {"lazyllm --stages 2:0.3", "lazyllm --stages 4:0.5", "dense"}) {
    pair_of_sessions question = both(policy);
    question.take_over(document);
    question.step({4, phase::prefill, 1});
    question.step({1, phase::decode});
  }
}

TEST_CASE("a custom scorer and schedule are chosen by name") {
  struct seen {
    std::size_t calls = 0, last_known = 0;
    std::vector<std::uint32_t> layers;
  };
  // The scorer does the same as last_query_attention, and the schedule does the same as --stages 2:0.5,4:0.5.
  lazyprune_scorer scorer = LAZYPRUNE_SCORER;
  seen user;
  scorer.wants = LAZYPRUNE_ATTENTION;
  scorer.over_heads = LAZYPRUNE_MEAN;
  scorer.user = &user;
  scorer.score = [](void* data, const lazyprune_shown* shown, float* scores) -> std::int32_t {
    auto& record = *static_cast<seen*>(data);
    ++record.calls;
    record.layers.push_back(shown->done);
    const lazyprune_evidence& e = *shown->evidence;
    const last_query_attention same{};
    same.score(attention_view{e.data, e.heads, e.stride, {shown->positions, shown->active}}, {scores, shown->active});
    return LAZYPRUNE_OK;
  };
  lazyprune_schedule schedule = LAZYPRUNE_SCHEDULE;
  schedule.first = 2;
  schedule.keep = [](void*, const lazyprune_layer* layer, const float* scores, std::size_t* kept) -> std::int32_t {
    CHECK(*kept == LAZYPRUNE_EVERYTHING);
    CHECK(scores == nullptr);
    CHECK(layer->layers == layers);
    CHECK(layer->struct_size >= sizeof(lazyprune_layer));
    if (layer->done == 2 || layer->done == 4) *kept = share_of(0.5, layer->active);
    return LAZYPRUNE_OK;
  };
  const registry_handle registry = new_registry();
  ok(lazyprune_registry_add_scorer(registry.get(), "mine", &scorer));
  ok(lazyprune_registry_add_schedule(registry.get(), "twice", &schedule));
  session_handle mine = make("custom --scorer mine --schedule twice", registry.get());

  pair_of_sessions both_ways(std::move(mine), make_session(parse_policy("lazyllm --stages 2:0.5,4:0.5"), {.layers = layers}, policies()));
  both_ways.step({20, phase::prefill, 0});
  both_ways.step({9, phase::prefill, 1});
  both_ways.step({1, phase::decode});
  CHECK(user.calls == 4);
  CHECK(user.layers == std::vector<std::uint32_t>{2, 4, 2, 4});

  CHECK(said(lazyprune_registry_add_scorer(registry.get(), "mine", &scorer)) == complaint_at("registry: mine"));
  CHECK(said(lazyprune_registry_add_scorer(registry.get(), "My", &scorer)) == complaint_at("registry: name"));
  lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
  options.layers = layers;
  lazyprune_session* none = nullptr;
  CHECK(said(lazyprune_session_create(nullptr, "custom --scorer mine", &options, &none)) ==
        complaint_at("--scorer", {", found mine"}));  // null: the library's own parts
  CHECK(none == nullptr);
}

namespace {

/// Scores each token with a sum of the numbers that are shown for it. Wrong numbers would therefore change the kept tokens.
void sum_of(const lazyprune_shown* shown, float* scores) {
  const lazyprune_evidence* e = shown->evidence;
  for (std::size_t i = 0; i < shown->active; ++i) {
    float sum = 0;
    if (!e) {
      sum = static_cast<float>(shown->positions[i] * 7919 % 101);
    } else if (e->kind == LAZYPRUNE_ATTENTION || e->kind == LAZYPRUNE_WINDOW) {
      for (std::size_t r = 0; r < e->queries * e->heads; ++r) sum += e->data[r * e->stride + i];
    } else if (e->kind == LAZYPRUNE_KEYS) {
      for (std::size_t d = 0; d < e->kv_heads * e->head_dim; ++d) sum += e->data[i * e->stride + d];
    } else if (e->kind == LAZYPRUNE_VALUES) {
      for (std::size_t h = 0; h < e->heads; ++h)
        sum += e->data[h * e->stride + i] * e->values[i * e->values_stride + h * e->kv_heads / e->heads * e->head_dim];
    } else if (e->kind == LAZYPRUNE_HIDDEN) {
      const auto* row = std::find(shown->rows, shown->rows + shown->rows_count, shown->positions[i]);
      if (row != shown->rows + shown->rows_count) sum = e->data[static_cast<std::size_t>(row - shown->rows) * e->stride];
    } else {
      sum = static_cast<float>(e->ids[shown->positions[i]]);
    }
    if (shown->memory) sum = shown->memory[shown->positions[i]] += sum;
    scores[i] = sum;
  }
}

}  // namespace

TEST_CASE("a custom scorer is shown the same evidence as a C++ scorer") {
  struct in_cpp {
    scorer_needs wants;
    scorer_needs needs() const { return wants; }
    void score(const every_layer<evidence>& shown, std::span<float> out) {
      lazyprune_shown all{};
      lazyprune_evidence now = LAZYPRUNE_EVIDENCE;
      now.kind = static_cast<std::uint32_t>(wants.kind);
      all.active = out.size();
      const auto positions = [&](std::span<const position> p) { all.positions = p.data(); };
      const auto attention = [&](const attention_view& a) {
        now.data = a.data, now.heads = a.heads, now.stride = a.stride, now.queries = 1;
        positions(a.positions);
      };
      if (const auto* t = std::get_if<token_view>(&shown.now)) positions(t->positions);
      if (const auto* a = std::get_if<attention_view>(&shown.now)) attention(*a);
      if (const auto* w = std::get_if<window_view>(&shown.now)) {
        attention(w->query(0));
        now.queries = w->queries;
      }
      if (const auto* k = std::get_if<key_view>(&shown.now)) {
        now.data = k->data, now.kv_heads = k->kv_heads, now.head_dim = k->head_dim, now.stride = k->stride;
        positions(k->positions);
      }
      if (const auto* v = std::get_if<value_view>(&shown.now)) {
        attention(v->attention);
        now.values = v->values, now.kv_heads = v->kv_heads, now.head_dim = v->head_dim, now.values_stride = v->stride;
      }
      if (const auto* h = std::get_if<hidden_view>(&shown.now)) {
        now.data = h->data, now.stride = h->stride;
        positions(h->positions);
        all.rows = h->rows.data(), all.rows_count = h->rows.size();
      }
      if (const auto* t = std::get_if<id_view>(&shown.now)) {
        now.ids = t->ids.data();
        positions(t->positions);
      }
      if (wants.kind != evidence_kind::none) all.evidence = &now;
      all.memory = shown.memory.data();
      sum_of(&all, out.data());
    }
  };

  for (std::uint32_t kind = LAZYPRUNE_NOTHING; kind <= LAZYPRUNE_IDS; ++kind)
    for (const bool every : {false, true}) {
      if (kind == LAZYPRUNE_NOTHING && every) continue;
      CAPTURE(kind);
      CAPTURE(every);
      lazyprune_scorer scorer = LAZYPRUNE_SCORER;
      scorer.wants = kind;
      scorer.every_layer = every;
      scorer.window = kind == LAZYPRUNE_WINDOW ? 5 : 0;
      scorer.score = [](void*, const lazyprune_shown* shown, float* scores) -> std::int32_t {
        sum_of(shown, scores);
        return LAZYPRUNE_OK;
      };
      const registry_handle registry = new_registry();
      ok(lazyprune_registry_add_scorer(registry.get(), "sums", &scorer));
      policy_registry beside = policies();
      beside.add("sums", any_scorer(in_cpp{{static_cast<evidence_kind>(kind), every, scorer.window}}));
      const char* text = "custom --scorer sums --stages 2:0.5,4:0.6";
      pair_of_sessions pair(make(text, registry.get()), make_session(parse_policy(text), {.layers = layers}, beside));
      for (const std::size_t tokens : {17u, 1u, 1u, 6u, 1u}) pair.step({tokens, tokens > 1 ? phase::prefill : phase::decode});
      CHECK(pair.stored() > 0);
    }
}

TEST_CASE("engines may show queries and keys instead of probabilities") {
  // The C session is shown the queries and keys. The C++ session is shown the probabilities that query_attention computes from them. The
  // first of the two queries does not see the last token.
  session_handle session = make("custom --scorer window_attention:window=2,kernel=1 --stages 1:0.5");
  lazyprune_request request = LAZYPRUNE_REQUEST;
  request.tokens = 6;
  request.outputs = 1;
  std::uint32_t depth = 0;
  ok(lazyprune_step_begin(session.get(), &request, &depth));
  lazyprune_plan plan = LAZYPRUNE_PLAN;
  ok(lazyprune_step_enter(session.get(), 0, &plan));
  REQUIRE(plan.wants == LAZYPRUNE_WINDOW);
  REQUIRE(plan.window == 2);

  std::vector<float> query(2 * heads * head_dim), keys(6 * kv_heads * head_dim);
  for (std::size_t i = 0; i < query.size(); ++i) query[i] = 4 * noise(i) - 2;
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = 4 * noise(100 + i) - 2;
  std::vector<float> probabilities(2 * heads * 6, 0.0f);
  const std::span<const position> active(plan.active, plan.active_count);
  for (std::size_t q = 0; q < 2; ++q)
    query_attention(query.data() + q * heads * head_dim, heads, key_rows<float>{keys.data(), kv_heads, head_dim, kv_heads * head_dim, {}},
                    active.first(5 + q), probabilities.data() + q * heads * 6, 6);
  any_session expected =
      make_session(parse_policy("custom --scorer window_attention:window=2,kernel=1 --stages 1:0.5"), {.layers = layers}, policies());
  auto step = expected.begin({6});
  step.enter(0);
  step.leave(evidence(window_view{probabilities.data(), 2, heads, 6, active}));

  lazyprune_evidence shown = LAZYPRUNE_EVIDENCE;
  shown.kind = LAZYPRUNE_WINDOW;
  shown.heads = heads;
  shown.queries = 2;
  shown.kv_heads = kv_heads;
  shown.head_dim = head_dim;
  shown.query = query.data();
  shown.keys = keys.data();
  lazyprune_spills spills = LAZYPRUNE_SPILLS;
  ok(lazyprune_step_leave(session.get(), &shown, &spills));
  CHECK(spills.margin == step.margin());
  ok(lazyprune_step_enter(session.get(), 1, &plan));
  CHECK(std::ranges::equal(std::span(plan.active, plan.active_count), step.enter(1).active));
  CHECK(plan.active_count == 3);
  ok(lazyprune_session_abandon(session.get()));
}

TEST_CASE("engines may show queries and keys instead of the rows of probes") {
  const char* text =
      "custom --scorer calibrated_attention:window=2,block=1,probes=1.0.1.mean.max@1/1.0.0.max.max@1/1.0.1.last.max@-0.5 "
      "--stages 1:0.5";
  session_handle session = make(text);
  lazyprune_request request = LAZYPRUNE_REQUEST;
  request.tokens = 12;
  request.outputs = 1;
  std::uint32_t depth = 0;
  ok(lazyprune_step_begin(session.get(), &request, &depth));
  lazyprune_plan plan = LAZYPRUNE_PLAN;
  ok(lazyprune_step_enter(session.get(), 0, &plan));
  REQUIRE(plan.wants == LAZYPRUNE_PROBES);
  REQUIRE(plan.window == 0);
  REQUIRE(plan.probes_count == 3);
  REQUIRE(plan.probe_rows == 2);

  std::vector<float> query(2 * heads * head_dim), keys(12 * kv_heads * head_dim), rows(3 * 12);
  for (std::size_t i = 0; i < query.size(); ++i) query[i] = 4 * noise(i) - 2;
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = 4 * noise(100 + i) - 2;
  std::vector<float> probabilities(2 * heads * 12);
  const std::span<const position> active(plan.active, plan.active_count);
  query_attention(query.data(), heads * head_dim, heads, key_rows<float>{keys.data(), kv_heads, head_dim, kv_heads * head_dim, {}}, active,
                  std::span(plan.rows, plan.rows_count).last(2), probabilities.data());
  any_session expected = make_session(parse_policy(text), {.layers = layers}, policies());
  auto step = expected.begin({12});
  step.enter(0);
  for (std::size_t p = 0; p < 3; ++p)
    reduce_queries(&probabilities[step.probes()[p].head * 12], 2, heads * 12, step.probes()[p].over, std::span(rows).subspan(p * 12, 12));
  step.leave(evidence(probe_view{rows.data(), 3, 12, active}));

  lazyprune_evidence shown = LAZYPRUNE_EVIDENCE;
  lazyprune_spills spills = LAZYPRUNE_SPILLS;
  shown.kind = LAZYPRUNE_PROBES;
  CHECK(said(lazyprune_step_leave(session.get(), &shown, &spills)) ==
        complaint_at("evidence: data", {"the rows of plan.probes, or queries and keys", "null"}));
  shown.data = rows.data();
  shown.data_count = 20;
  shown.stride = 12;
  CHECK(said(lazyprune_step_leave(session.get(), &shown, &spills)) == complaint_at("evidence: data", {"probes 3 x active 12", "20"}));
  shown.data = nullptr;
  shown.heads = heads;
  shown.kv_heads = kv_heads;
  shown.head_dim = head_dim;
  shown.query = query.data();
  shown.keys = keys.data();
  ok(lazyprune_step_leave(session.get(), &shown, &spills));
  CHECK(spills.margin == step.margin());
  ok(lazyprune_step_enter(session.get(), 1, &plan));
  CHECK(std::ranges::equal(std::span(plan.active, plan.active_count), step.enter(1).active));
  CHECK(plan.active_count == 6);
  ok(lazyprune_session_abandon(session.get()));
}

TEST_CASE("an engine that chooses by itself gets the plans, spills and statistics of one that shows evidence") {
  for (const char* policy : {"lazyllm --stages 1:0.6,3:0.5", "lazyllm_blocks --stages 2:0.5 --selector blocks:size=4",
                             "custom --stages 1:0.5,4:0.6 --store none --keep-first 3"}) {
    CAPTURE(policy);
    session_handle session = make(policy);
    lazyprune_session* const s = session.get();
    any_session expected = make_session(parse_policy(policy), {.layers = layers}, policies());
    std::size_t choices = 0, ahead = 0;
    for (std::size_t k = 0; k < 6; ++k) {
      lazyprune_request request = LAZYPRUNE_REQUEST;
      request.tokens = k == 0 ? 40 : k == 3 ? 9 : 1;
      request.phase = k == 0 || k == 3 ? LAZYPRUNE_PREFILL : LAZYPRUNE_DECODE;
      request.outputs = 1;
      std::uint32_t depth = 0;
      ok(lazyprune_step_begin(s, &request, &depth));
      auto step = expected.begin({request.tokens, static_cast<phase>(request.phase), 1});
      std::vector<lazyprune_layer_counts> counts(layers);
      std::vector<std::uint32_t> slots(100);
      std::size_t told = 0, saved = 0, told_from = 0;
      for (std::uint32_t l = 0; l < depth; ++l) {
        lazyprune_plan plan = LAZYPRUNE_PLAN;
        ok(lazyprune_step_enter(s, l, &plan));
        const layer_plan& same = step.enter(l);
        const std::size_t n = plan.active_count;
        REQUIRE(std::ranges::equal(std::span(plan.active, n), same.active));
        REQUIRE(std::ranges::equal(std::span(plan.rows, plan.rows_count), same.rows));
        if (told > 0 && l >= told_from) {
          const lazyprune_layer_counts& c = counts[l - told_from];
          REQUIRE(c.layer == l);
          REQUIRE(c.active == n);
          REQUIRE(c.active == plan.rows_count);
          REQUIRE(c.finish == plan.finish);
          REQUIRE((c.chooses != 0) == (plan.quota != 0));
          REQUIRE(c.kept == (plan.quota != 0 ? plan.quota : n));
        }
        std::vector<float> scores(n);
        for (std::size_t i = 0; i < n; ++i) scores[i] = static_cast<float>((plan.active[i] * 37 + l * 11 + k * 5) % 16) / 16;
        lazyprune_evidence shown = LAZYPRUNE_EVIDENCE;
        lazyprune_spills spills = LAZYPRUNE_SPILLS;
        std::vector<std::uint32_t> chosen;
        if (plan.quota != 0) {
          std::vector<candidacy> standing(n);
          ok(lazyprune_step_standing(s, reinterpret_cast<std::uint32_t*>(standing.data()), n));
          chosen =
              lazyprune_test::chosen_by_rules(scores, std::span(plan.active, n), standing, {.count = plan.quota, .page = plan.quota_page});
          shown.kind = plan.wants;
          shown.chosen = chosen.data();
          shown.chosen_count = chosen.size();
          shown.chosen_scores = scores.data();
          ++choices;
          if (told == 0) {
            ok(lazyprune_step_counts(s, counts.data(), counts.size(), &told));
            told_from = l + 1;
            ahead += told;
            if (told > 0) ok(lazyprune_step_slots(s, slots.data(), slots.size()));
          }
        }
        ok(lazyprune_step_leave(s, &shown, &spills));
        step.leave(evidence(attention_view{scores.data(), 1, n, same.active}));
        REQUIRE(spills.count == step.spills().size());
        for (std::size_t i = 0; i < spills.count; ++i) {
          REQUIRE(spills.items[i].row == step.spills()[i].row);
          REQUIRE(spills.items[i].slot == step.spills()[i].slot);
          if (told > 0) REQUIRE(spills.items[i].slot == slots.at(saved++));
        }
        REQUIRE((spills.margin == step.margin() || (std::isnan(spills.margin) && std::isnan(step.margin()))));
      }
      ok(lazyprune_step_finish(s));
      step.finish();
    }
    CHECK(choices >= 6);
    CHECK(ahead > 0);
    lazyprune_statistics cost = LAZYPRUNE_STATISTICS;
    ok(lazyprune_session_get_statistics(s, &cost));
    CHECK(cost.rows == expected.stats().rows);
    CHECK(cost.revived == expected.stats().revived);
  }
}

namespace {

/// A step over a prompt, up to layer 1. All `tokens` tokens are active there.
struct entered_layer_1 {
  session_handle session;
  lazyprune_plan plan = LAZYPRUNE_PLAN;
  lazyprune_spills spills = LAZYPRUNE_SPILLS;

  entered_layer_1(session_handle made, std::size_t tokens) : session(std::move(made)) {
    lazyprune_request request = LAZYPRUNE_REQUEST;
    request.tokens = tokens;
    request.outputs = 1;
    std::uint32_t depth = 0;
    ok(lazyprune_step_begin(session.get(), &request, &depth));
    ok(lazyprune_step_enter(session.get(), 0, &plan));
    ok(lazyprune_step_leave(session.get(), nullptr, &spills));
    ok(lazyprune_step_enter(session.get(), 1, &plan));
    REQUIRE(plan.active_count == tokens);
    REQUIRE(plan.wants == LAZYPRUNE_ATTENTION);
  }

  lazyprune_status leave_with(std::span<const std::uint32_t> chosen, const float* scores) {
    lazyprune_evidence e = LAZYPRUNE_EVIDENCE;
    e.kind = plan.wants;
    e.chosen = chosen.data();
    e.chosen_count = chosen.size();
    e.chosen_scores = scores;
    return lazyprune_step_leave(session.get(), &e, &spills);
  }
  /// Shows the attention of one head.
  lazyprune_status leave_showing(std::span<const float> attention) {
    lazyprune_evidence e = LAZYPRUNE_EVIDENCE;
    e.kind = plan.wants;
    e.data = attention.data();
    e.heads = 1;
    e.stride = attention.size();
    return lazyprune_step_leave(session.get(), &e, &spills);
  }
};

}  // namespace

TEST_CASE("a choice under a bounded store needs the scores, and the store ranks the dropped tokens by them") {
  const char* policy = "custom --stages 2:0.5 --store bounded:rows=3";
  entered_layer_1 choosing(make(policy), 12), showing(make(policy), 12);
  CHECK(choosing.plan.quota == 6);
  CHECK(choosing.plan.needs_scores == 1);
  CHECK(choosing.plan.stores_dropped == 0);
  std::size_t known = 77;
  ok(lazyprune_step_counts(choosing.session.get(), nullptr, 0, &known));
  CHECK(known == 0);

  std::vector<float> scores;
  for (std::size_t i = 0; i < 12; ++i) scores.push_back(static_cast<float>(i * 5 % 12) / 12);
  std::vector<candidacy> standing(12, candidacy::open);
  standing.back() = candidacy::required;
  const std::vector<std::uint32_t> chosen =
      lazyprune_test::chosen_by_rules(scores, std::span(choosing.plan.active, 12), standing, {.count = 6});
  CHECK(said(choosing.leave_with(chosen, nullptr)) == complaint_at("session: leave", {"12 scores", ", found 0"}));
  ok(choosing.leave_with(chosen, scores.data()));
  ok(showing.leave_showing(scores));
  REQUIRE(choosing.spills.count == 3);
  REQUIRE(showing.spills.count == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(choosing.spills.items[i].row == showing.spills.items[i].row);
  CHECK(choosing.spills.margin == showing.spills.margin);
}

TEST_CASE("where the number of tokens depends on scores, a choice is refused and the layer can still be left") {
  entered_layer_1 step(make("custom --stages 2:0.6 --selector top_p:mass=0.7"), 8);
  CHECK(step.plan.quota == 0);
  const std::vector<std::uint32_t> chosen{6, 7};
  const std::vector<float> scores(8, 0.125f);
  CHECK(said(step.leave_with(chosen, scores.data())) == complaint_at("session: leave", {"layer 1", "quota"}, LAZYPRUNE_WRONG_ORDER));
  ok(step.leave_showing(scores));
}

namespace {

/// Runs a step with one output, and calls leave(plan, spills) to leave each layer. Returns the codes of all calls together (bitwise or).
/// Allocates nothing itself.
template <class Leave>
std::int32_t codes_of_step(lazyprune_session* s, std::size_t tokens, std::uint32_t phase, const Leave& leave) {
  std::int32_t codes = 0;
  const auto call = [&](lazyprune_status status) { codes |= status.code; };
  lazyprune_request request = LAZYPRUNE_REQUEST;
  request.tokens = tokens;
  request.phase = phase;
  request.outputs = 1;
  std::uint32_t depth = 0;
  call(lazyprune_step_begin(s, &request, &depth));
  for (std::uint32_t l = 0; l < depth; ++l) {
    lazyprune_plan plan = LAZYPRUNE_PLAN;
    lazyprune_spills spills = LAZYPRUNE_SPILLS;
    call(lazyprune_step_enter(s, l, &plan));
    codes |= leave(plan, spills);
  }
  call(lazyprune_step_finish(s));
  return codes;
}

}  // namespace

TEST_CASE("a step with evidence allocates nothing after reserve") {
  constexpr std::size_t most = 61;
  const std::vector<float> numbers(most * heads * kv_heads * head_dim, 0.0625f);
  for (const std::string scorer :
       {"last_query_attention", "window_attention:window=4", "key_norm", "value_weighted_attention", "accumulated_attention",
        "calibrated_attention:window=2,block=1,probes=1.0.1.mean.max@1/1.0.0.max.max@1/1.0.1.last.max@-0.5"}) {
    CAPTURE(scorer);
    const session_handle first = make(("custom --stages 2:0.5 --scorer " + scorer).c_str());
    lazyprune_session* cloned = nullptr;
    ok(lazyprune_session_clone(first.get(), &cloned));
    const session_handle clone(cloned);
    for (lazyprune_session* const s : {first.get(), cloned}) {
      ok(lazyprune_session_reserve(s, most));
      std::size_t shown = 0;
      std::int32_t codes = 0;
      const std::size_t before = lazyprune_test::allocations;
      for (const std::size_t tokens : {most - 1, std::size_t{1}}) {
        const std::uint32_t phase = tokens > 1 ? LAZYPRUNE_PREFILL : LAZYPRUNE_DECODE;
        codes |= codes_of_step(s, tokens, phase, [&](const lazyprune_plan& plan, lazyprune_spills& spills) {
          lazyprune_evidence e = LAZYPRUNE_EVIDENCE;
          e.kind = plan.wants;
          e.data = e.values = numbers.data();
          e.data_count = e.values_count = numbers.size();
          e.stride = plan.wants == LAZYPRUNE_KEYS ? kv_heads * head_dim : plan.active_count;
          e.heads = heads;
          e.queries = plan.wants == LAZYPRUNE_WINDOW ? plan.window : 1;
          e.kv_heads = kv_heads;
          e.head_dim = head_dim;
          e.values_stride = kv_heads * head_dim;
          shown += plan.wants != LAZYPRUNE_NOTHING;
          return lazyprune_step_leave(s, plan.wants == LAZYPRUNE_NOTHING ? nullptr : &e, &spills).code;
        });
      }
      CHECK(lazyprune_test::allocations == before);
      CHECK(codes == LAZYPRUNE_OK);
      CHECK(shown > 0);
    }
  }
}

TEST_CASE("a step with choices allocates nothing after reserve") {
  const std::size_t at_first = lazyprune_test::allocations;
  session_handle session = make("lazyllm --stages 2:0.5,4:0.5");
  if (lazyprune_test::counts_allocations) REQUIRE(lazyprune_test::allocations > at_first);  // the library's allocations are counted
  lazyprune_session* const s = session.get();
  ok(lazyprune_session_reserve(s, 60));
  std::vector<std::uint32_t> standing(60), chosen(60);
  std::vector<lazyprune_layer_counts> counts(layers);
  const std::vector<float> scores(60);
  std::size_t choices = 0, ahead = 0;
  const std::size_t before = lazyprune_test::allocations;
  const std::int32_t codes = codes_of_step(s, 60, LAZYPRUNE_PREFILL, [&](const lazyprune_plan& plan, lazyprune_spills& spills) {
    std::int32_t asked = 0;
    lazyprune_evidence e = LAZYPRUNE_EVIDENCE;
    if (plan.quota > 0) {
      std::size_t known = 0;
      asked = lazyprune_step_standing(s, standing.data(), standing.size()).code |
              lazyprune_step_counts(s, counts.data(), counts.size(), &known).code;
      for (std::size_t i = 0; i < plan.quota; ++i) chosen[i] = static_cast<std::uint32_t>(plan.active_count - plan.quota + i);
      e.kind = plan.wants;
      e.chosen = chosen.data();
      e.chosen_count = plan.quota;
      e.chosen_scores = scores.data();
      ++choices;
      ahead += known;
    }
    return asked | lazyprune_step_leave(s, &e, &spills).code;
  });
  CHECK(lazyprune_test::allocations == before);
  CHECK(codes == LAZYPRUNE_OK);
  CHECK(choices == 2);
  CHECK(ahead == 6);
}

TEST_CASE("if a schedule of the caller fails while it is asked for later layers, the counts are not written") {
  struct schedule_that_fails {
    std::uint32_t fails_after;
    static std::int32_t keep(void* user, const lazyprune_layer* layer, const float*, std::size_t* kept) {
      if (layer->done >= static_cast<schedule_that_fails*>(user)->fails_after) return LAZYPRUNE_CALLBACK;
      *kept = layer->active / 2;
      return LAZYPRUNE_OK;
    }
  } user{layers};
  registry_handle registry = new_registry();
  lazyprune_schedule schedule = LAZYPRUNE_SCHEDULE;
  schedule.first = 2;
  schedule.keep = schedule_that_fails::keep;
  schedule.user = &user;
  ok(lazyprune_registry_add_schedule(registry.get(), "fails", &schedule));
  entered_layer_1 step(make("custom --schedule fails", registry.get()), 40);
  lazyprune_session* const s = step.session.get();
  std::vector<lazyprune_layer_counts> counts(layers);
  std::size_t count = 0;
  ok(lazyprune_step_counts(s, counts.data(), counts.size(), &count));
  CHECK(count == 4);
  CHECK(counts[0].active == 20);
  CHECK(counts[1].active == 10);

  user.fails_after = 4;
  count = 77;
  counts[0].active = 78;
  CHECK(std::string(said(lazyprune_step_counts(s, counts.data(), counts.size(), &count))) == "7 schedule: fails: failed with code 7");
  CHECK(count == 77);
  CHECK(counts[0].active == 78);
  CHECK(said(lazyprune_step_finish(s)) == complaint_at("session: finish", {"abandon"}, LAZYPRUNE_WRONG_ORDER));
  ok(lazyprune_session_abandon(s));
}

TEST_CASE("standing, counts and slots are refused outside a step or a layer") {
  session_handle session = make("lazyllm --stages 2:0.5");
  lazyprune_session* const s = session.get();
  std::uint32_t number = 0;
  std::size_t count = 0;
  lazyprune_layer_counts counts{};
  CHECK(said(lazyprune_step_standing(s, &number, 1)) == complaint_at("session: standing", {}, LAZYPRUNE_WRONG_ORDER));
  CHECK(said(lazyprune_step_counts(s, &counts, 1, &count)) == complaint_at("session: counts", {}, LAZYPRUNE_WRONG_ORDER));
  CHECK(said(lazyprune_step_slots(s, &number, 1)) == complaint_at("session: slots", {}, LAZYPRUNE_WRONG_ORDER));
  lazyprune_request request = LAZYPRUNE_REQUEST;
  request.tokens = 4;
  request.outputs = 1;
  ok(lazyprune_step_begin(s, &request, &number));
  CHECK(said(lazyprune_step_standing(s, &number, 1)) == complaint_at("session: standing", {"quota"}, LAZYPRUNE_WRONG_ORDER));
  ok(lazyprune_step_counts(s, nullptr, 0, &count));
  CHECK(count == 0);
  CHECK(said(lazyprune_step_counts(s, nullptr, 1, &count)) == complaint_at("counts", {"null"}));
  CHECK(said(lazyprune_step_slots(s, nullptr, 1)) == complaint_at("slots", {"null"}));
}

TEST_CASE("a failed call returns a code and a message, and changes nothing") {
  session_handle session = make("lazyllm --stages 2:0.5");
  lazyprune_session* const s = session.get();
  lazyprune_plan plan = LAZYPRUNE_PLAN;
  lazyprune_spills spills = LAZYPRUNE_SPILLS;
  lazyprune_request request = LAZYPRUNE_REQUEST;
  request.tokens = 8;
  std::uint32_t depth = 0;
  std::size_t count = 0;
  CHECK(said(lazyprune_step_enter(s, 0, &plan)) == complaint_at("session: enter", {}, LAZYPRUNE_WRONG_ORDER));
  CHECK(said(lazyprune_step_finish(s)) == complaint_at("session: finish", {}, LAZYPRUNE_WRONG_ORDER));
  CHECK(said(lazyprune_step_pages(s, 4, nullptr, 0, &count)) == complaint_at("session: pages", {}, LAZYPRUNE_WRONG_ORDER));
  CHECK(said(lazyprune_session_truncate(s, 1)) == complaint_at("session: truncate", {"0", ", found 1"}));
  ok(lazyprune_session_adopt(s, 1));
  ok(lazyprune_session_reserve(s, 9));
  ok(lazyprune_session_reserve(s, 0));
  ok(lazyprune_session_adopt(s, 9));
  ok(lazyprune_session_truncate(s, 0));
  ok(lazyprune_session_reserve(s, 9));
  CHECK(said(lazyprune_session_adopt(s, 10)) == complaint_at("session: adopt", {"most 9", ", found 10"}, LAZYPRUNE_NO_ROOM));
  request.phase = 2;
  request.outputs = 1;
  CHECK(said(lazyprune_step_begin(s, &request, &depth)) == complaint_at("phase", {"0 (prefill)", "1 (decode)", ", found 2"}));
  request.phase = LAZYPRUNE_PREFILL;
  request.outputs = LAZYPRUNE_OUTPUTS_UNSET;  // the value that the initializer sets
  CHECK(said(lazyprune_step_begin(s, &request, &depth)) == complaint_at("request: outputs"));
  CHECK(said(lazyprune_step_check(s, &request)) == complaint_at("request: outputs"));
  request.outputs = 9;
  CHECK(said(lazyprune_step_begin(s, &request, &depth)) == complaint_at("session: begin", {"8", ", found 9"}));
  CHECK(said(lazyprune_step_check(s, &request)) == complaint_at("session: begin", {"8", ", found 9"}));
  request.outputs = 1;
  ok(lazyprune_step_check(s, &request));
  ok(lazyprune_step_begin(s, &request, &depth));
  CHECK(said(lazyprune_step_check(s, &request)) == complaint_at("session: begin", {}, LAZYPRUNE_WRONG_ORDER));
  REQUIRE(depth == layers);
  CHECK(said(lazyprune_step_begin(s, &request, &depth)) == complaint_at("session: begin", {}, LAZYPRUNE_WRONG_ORDER));
  CHECK(said(lazyprune_step_enter(s, 1, &plan)) == complaint_at("session: enter", {"layer 0", ", found layer 1"}, LAZYPRUNE_WRONG_ORDER));
  CHECK(said(lazyprune_step_leave(s, nullptr, &spills)) == complaint_at("session: leave", {}, LAZYPRUNE_WRONG_ORDER));
  ok(lazyprune_step_enter(s, 0, &plan));
  CHECK(said(lazyprune_step_enter(s, 1, &plan)) == complaint_at("session: enter", {"layer 0", ", found layer 1"}, LAZYPRUNE_WRONG_ORDER));
  CHECK(said(lazyprune_step_finish(s)) == complaint_at("session: finish", {"all 6", ", found 0"}, LAZYPRUNE_WRONG_ORDER));
  CHECK(said(lazyprune_session_adopt(s, 1)) == complaint_at("session: adopt", {}, LAZYPRUNE_WRONG_ORDER));
  const std::uint32_t query_token = 7;
  const float zero = 0.0f;
  for (const int member : {0, 1, 2}) {  // layer 0 wants nothing
    lazyprune_evidence e = LAZYPRUNE_EVIDENCE;
    if (member == 0) e.chosen = &query_token;
    if (member == 1) e.chosen_count = 1;
    if (member == 2) e.chosen_scores = &zero;
    CHECK(said(lazyprune_step_leave(s, &e, &spills)) == complaint_at("session: leave", {"layer 0", "quota"}, LAZYPRUNE_WRONG_ORDER));
  }
  ok(lazyprune_step_leave(s, nullptr, &spills));
  ok(lazyprune_step_enter(s, 1, &plan));

  // Shows wrong evidence for layer 1. Each fault is reported, and the layer can still be left with correct evidence.
  REQUIRE(plan.wants == LAZYPRUNE_ATTENTION);
  const std::vector<float> numbers(8 * heads, 0.5f);
  const auto leave = [&](auto&& change) {
    lazyprune_evidence e = LAZYPRUNE_EVIDENCE;
    e.kind = LAZYPRUNE_ATTENTION;
    e.data = numbers.data();
    e.stride = 8;
    e.heads = heads;
    change(e);
    return said(lazyprune_step_leave(s, &e, &spills));
  };
  CHECK(said(lazyprune_step_leave(s, nullptr, &spills)) == complaint_at("evidence", {"attention", ", found null"}));
  CHECK(leave([](auto& e) { e.kind = LAZYPRUNE_KEYS; }) == complaint_at("evidence", {"attention", ", found keys"}));
  CHECK(leave([](auto& e) { e.kind = 77; }) == complaint_at("evidence", {"attention", "kind 77"}));
  CHECK(leave([](auto& e) { e.stride = 7; }) == complaint_at("evidence: stride", {"least 8", ", found 7"}));
  CHECK(leave([](auto& e) { e.heads = 0; }) == complaint_at("evidence: heads", {"1 to 65536", ", found 0"}));
  CHECK(leave([](auto& e) { e.data = nullptr; }) == complaint_at("evidence: data", {", found null"}));
  CHECK(leave([](auto& e) { e.data_count = 31; }) ==
        complaint_at("evidence: data", {"queries 1 x heads 4 x active 8", "4 rows of 8 numbers, 8 apart", ", found 31"}));
  CHECK(leave([](auto& e) { e.data_count = 32, e.heads = 32; }) ==
        complaint_at("evidence: data", {"queries 1 x heads 32 x active 8", "32 rows of 8 numbers, 8 apart", ", found 32"}));
  CHECK(leave([](auto& e) { e.data_count = 32, e.stride = 32; }) ==
        complaint_at("evidence: data", {"queries 1 x heads 4 x active 8", "4 rows of 8 numbers, 32 apart", ", found 32"}));
  CHECK(leave([](auto& e) { e.data_count = 32, e.stride = SIZE_MAX; }) == complaint_at("evidence: data", {"queries 1 x heads 4 x "}));
  const std::uint32_t set[] = {0, 7};
  CHECK(plan.quota == 4);
  CHECK(plan.quota_page == 1);
  CHECK(plan.needs_scores == 0);
  CHECK(plan.row_is_score == 1);
  CHECK(plan.stores_dropped == 1);
  const std::uint32_t torn[] = {0, 2, 2, 7}, far[] = {0, 1, 2, 8}, without_query[] = {0, 1, 2, 3};
  const auto choose = [&](auto&& change) {
    return leave([&](auto& e) {
      e.data = nullptr;
      change(e);
    });
  };
  CHECK(choose([&](auto& e) { e.chosen = set, e.chosen_count = 2; }) == complaint_at("session: leave", {"4", ", found 2"}));
  CHECK(choose([&](auto& e) { e.chosen = torn, e.chosen_count = 4; }) == complaint_at("session: leave", {"ascending", "2 after 2"}));
  CHECK(choose([&](auto& e) { e.chosen = far, e.chosen_count = 4; }) == complaint_at("session: leave", {"below 8", ", found 8"}));
  CHECK(choose([&](auto& e) { e.chosen = without_query, e.chosen_count = 4; }) ==
        complaint_at("session: leave", {"required", "position 7"}));
  CHECK(choose([&](auto& e) { e.chosen_count = 4; }) == complaint_at("evidence: chosen", {", found null"}));
  CHECK(choose([&](auto& e) { e.chosen_scores = numbers.data(); }) == complaint_at("evidence: chosen", {", found null"}));
  std::vector<float> not_finite(8);
  not_finite[5] = NAN;
  const std::uint32_t last_four[] = {4, 5, 6, 7};
  CHECK(choose([&](auto& e) { e.chosen = last_four, e.chosen_count = 4, e.chosen_scores = not_finite.data(); }) ==
        complaint_at("session: leave", {"finite", "position 5"}));
  CHECK(leave([&](auto& e) { e.chosen = last_four, e.chosen_count = 4; }) == complaint_at("evidence: data", {"null"}));
  CHECK(choose([&](auto& e) { e.chosen = last_four, e.chosen_count = 4, e.kind = LAZYPRUNE_NOTHING; }) ==
        complaint_at("evidence", {"attention", ", found no evidence"}));
  std::vector<std::uint32_t> standing(8, 77);
  CHECK(said(lazyprune_step_standing(s, standing.data(), 7)) == complaint_at("room", {"least 8", ", found 7"}));
  ok(lazyprune_step_standing(s, standing.data(), 8));
  CHECK(standing == std::vector<std::uint32_t>{0, 0, 0, 0, 0, 0, 0, LAZYPRUNE_REQUIRED});
  CHECK(plan.probes == nullptr);
  CHECK(plan.probes_count == 0);
  CHECK(plan.probe_rows == 0);
  const auto by_keys = [&](auto& e) {
    e.data = nullptr;
    e.query = e.keys = numbers.data();
    e.head_dim = 2;
    e.kv_heads = 2;
  };
  CHECK(leave([&](auto& e) { by_keys(e), e.kv_heads = 0; }) == complaint_at("evidence: kv_heads", {"1 to 65536", ", found 0"}));
  CHECK(leave([&](auto& e) { by_keys(e), e.heads = std::size_t{1} << 62, e.head_dim = 4; }) ==
        complaint_at("evidence: heads", {"1 to 65536", ", found 4611686018427387904"}));
  CHECK(leave([&](auto& e) { by_keys(e), e.kv_heads = 3; }) == complaint_at("evidence: heads", {"3", ", found 4"}));
  CHECK(leave([&](auto& e) { by_keys(e), e.keys_stride = 3; }) == complaint_at("evidence: keys_stride", {"least 4", ", found 3"}));
  CHECK(leave([&](auto& e) { by_keys(e), e.query_stride = 7; }) == complaint_at("evidence: query_stride", {"least 8", ", found 7"}));
  CHECK(leave([&](auto& e) { by_keys(e), e.query_count = 7; }) ==
        complaint_at("evidence: query", {"queries 1 x heads 4 x head_dim 2", "1 rows of 8 numbers, 8 apart", ", found 7"}));
  CHECK(leave([&](auto& e) { by_keys(e), e.keys_count = 31; }) ==
        complaint_at("evidence: keys", {"8 x kv_heads 2 x head_dim 2", "8 rows of 4 numbers, 4 apart", ", found 31"}));
  const std::uint32_t slots[] = {0, 1, 2, 3, 4, 5, 6, 8};
  CHECK(leave([&](auto& e) { by_keys(e), e.key_slots = slots, e.keys_count = 32; }) ==
        complaint_at("evidence: keys", {"9 x kv_heads 2 x head_dim 2", "9 rows of 4 numbers, 4 apart", ", found 32"}));
  CHECK(leave([&](auto& e) { by_keys(e), e.key_slots = slots, e.key_slots_count = 7; }) ==
        complaint_at("evidence: key_slots", {"8", ", found 7"}));
  CHECK(leave([](auto& e) { e.data_count = 32; }) == "0 ");
  for (layer_id l = 2; l < layers; ++l) {
    ok(lazyprune_step_enter(s, l, &plan));
    CHECK(plan.active_count == 4);
    ok(lazyprune_step_leave(s, nullptr, &spills));
  }
  CHECK(said(lazyprune_step_enter(s, layers, &plan)) == complaint_at("session: enter", {"6", ", found layer 6"}, LAZYPRUNE_WRONG_ORDER));
  ok(lazyprune_step_finish(s));

  lazyprune_token token = LAZYPRUNE_TOKEN;
  CHECK(said(lazyprune_session_get_token(s, 8, &token)) == complaint_at("position", {"8", ", found 8"}));
  CHECK(said(lazyprune_session_truncate(nullptr, 0)) == complaint_at("session", {", found null"}));
  CHECK(said(lazyprune_session_clone(s, nullptr)) == complaint_at("out", {", found null"}));
  CHECK(said(lazyprune_session_get_state(s, nullptr)) == complaint_at("out", {", found null"}));
}

TEST_CASE("wrong policies and options are refused") {
  lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
  lazyprune_session* session = nullptr;
  const auto create = [&](const char* policy) { return said(lazyprune_session_create(nullptr, policy, &options, &session)); };
  CHECK(create("lazyllm") == complaint_at("options: layers", {", found 0"}));
  options.layers = layers;
  CHECK(create(nullptr) == complaint_at("policy", {", found null"}));
  CHECK(create("lazy") == complaint_at("--policy", {"lazyllm, "}));
  CHECK(create("lazyllm --stages 9:0.5") == complaint_at("--stages: 9:0.5", {"1 to 5"}));
  CHECK(create("lazyllm --stages") == complaint_at("--stages"));
  const std::uint32_t after[] = {2, 4};
  options.attention_after = after;
  options.attention_after_count = 2;
  CHECK(create("lazyllm --stages 3:0.5") == complaint_at("--stages: 3:0.5", {"2 or 4", "after 3"}, LAZYPRUNE_UNSUPPORTED));
  CHECK(session == nullptr);
  CHECK(create("lazyllm --stages 2:0.5") == "0 ");
  lazyprune_session_free(session);
  lazyprune_session_free(nullptr);

  std::size_t length = 0;
  char text[24];
  ok(lazyprune_policy_text(nullptr, "lazyllm --stages 2:0.5", &options, text, sizeof text, &length));
  CHECK(std::string(text) == "--stages 2:0.5 --scorer");
  CHECK(length == lazyprune::text(parse_policy("lazyllm --stages 2:0.5"), layers, policies()).size());

  std::vector<char> help(1u << 16);
  ok(lazyprune_policy_help(nullptr, help.data(), help.size(), &length));
  const std::string listed = help.data();
  CHECK(listed.size() == length);
  for (const char* line : {"presets: lazyllm: ", "\nscorers: last_query_attention:over=", "\nschedules, in the place of stages: every:",
                           "\nselectors: top_k ", "\nstores: keep_all "})
    CHECK_MESSAGE(listed.find(line) != std::string::npos, line);

  const registry_handle registry = new_registry();
  lazyprune_scorer scorer = LAZYPRUNE_SCORER;
  const auto add = [&] { return said(lazyprune_registry_add_scorer(registry.get(), "mine", &scorer)); };
  CHECK(add() == complaint_at("scorer: score", {", found null"}));
  scorer.score = [](void*, const lazyprune_shown*, float*) -> std::int32_t { return LAZYPRUNE_OK; };
  scorer.wants = LAZYPRUNE_PROBES;
  CHECK(add() == complaint_at("scorer: wants", {"0 to 6", ", found 7 (probes)"}, LAZYPRUNE_UNSUPPORTED));
  scorer.wants = 8;
  CHECK(add() == complaint_at("scorer: wants", {"0 to 6", ", found 8"}));
  scorer.wants = LAZYPRUNE_WINDOW;
  CHECK(add() == complaint_at("scorer: window", {"else 0", ", found 0"}));
  scorer.wants = LAZYPRUNE_NOTHING;
  scorer.every_layer = 1;
  CHECK(add() == complaint_at("scorer: every_layer", {"0", ", found 1"}));
  scorer.every_layer = 0;
  scorer.over_heads = 3;
  CHECK(add() == complaint_at("scorer: over_heads", {"0 to 2", ", found 3"}));
  scorer.over_heads = LAZYPRUNE_MAX;
  for (const std::uint32_t kind : {LAZYPRUNE_NOTHING, LAZYPRUNE_VALUES}) {
    scorer.wants = kind;
    CHECK(add() == complaint_at("scorer: over_heads", {"each (0) unless", ", found 2"}));
  }
  scorer.wants = LAZYPRUNE_ATTENTION;
  scorer.reserved = 1;
  CHECK(add() == complaint_at("scorer: reserved", {"0", ", found 1"}));
  scorer.reserved = 0;
  CHECK(add() == "0 ");
  lazyprune_schedule schedule = LAZYPRUNE_SCHEDULE;
  CHECK(said(lazyprune_registry_add_schedule(registry.get(), "mine", &schedule)) == complaint_at("schedule: keep", {", found null"}));
}

TEST_CASE("a schedule with `after` is called only after the layers listed there, and may be used in a model with sliding windows") {
  static std::vector<std::uint32_t> asked;
  const registry_handle registry = new_registry();
  lazyprune_schedule schedule = LAZYPRUNE_SCHEDULE;
  schedule.keep = [](void*, const lazyprune_layer* layer, const float*, std::size_t* kept) -> std::int32_t {
    asked.push_back(layer->done);
    *kept = layer->active / 2;
    return LAZYPRUNE_OK;
  };
  const auto add = [&](const char* name, std::vector<std::uint32_t> after) {
    schedule.after = after.data();  // the array need not outlive the call
    schedule.after_count = after.size();
    return said(lazyprune_registry_add_schedule(registry.get(), name, &schedule));
  };
  CHECK(add("wrong", {3, 2}) == complaint_at("schedule: after"));
  CHECK(add("after_two", {2}) == "0 ");
  CHECK(add("after_three", {3}) == "0 ");
  schedule.after = nullptr;
  CHECK(said(lazyprune_registry_add_schedule(registry.get(), "after_any", &schedule)) == "0 ");

  const std::uint32_t after[] = {2, 4};
  lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
  options.layers = 6;
  options.attention_after = after;
  options.attention_after_count = 2;
  lazyprune_session* session = nullptr;
  const auto create = [&](const char* policy) { return said(lazyprune_session_create(registry.get(), policy, &options, &session)); };
  CHECK(create("lazyllm --schedule after_three") == complaint_at("--schedule: after_three", {", found after 3"}, LAZYPRUNE_UNSUPPORTED));
  CHECK(create("lazyllm --schedule after_any") == complaint_at("--schedule: after_any", {}, LAZYPRUNE_UNSUPPORTED));
  CHECK(create("lazyllm --schedule after_two") == "0 ");
  lazyprune_session_free(session);
  CHECK(create("lazyllm --schedule after_two --scorer recency") == "0 ");
  CHECK(asked.empty());

  lazyprune_request request = LAZYPRUNE_REQUEST;
  request.tokens = 8;
  request.outputs = 1;
  std::uint32_t count = 0;
  ok(lazyprune_step_begin(session, &request, &count));
  std::vector<std::size_t> active;
  for (std::uint32_t l = 0; l < count; ++l) {
    lazyprune_plan plan = LAZYPRUNE_PLAN;
    lazyprune_spills spills = LAZYPRUNE_SPILLS;
    ok(lazyprune_step_enter(session, l, &plan));
    active.push_back(plan.active_count);
    ok(lazyprune_step_leave(session, nullptr, &spills));
  }
  ok(lazyprune_step_finish(session));
  lazyprune_session_free(session);
  CHECK(asked == std::vector<std::uint32_t>{2});
  CHECK(active == std::vector<std::size_t>{8, 8, 4, 4, 4, 4});
}

namespace {

/// Enters and leaves the first `depth` layers of a step, with the attention of one head, and finishes the step. Returns which call failed
/// first, with its status. If no layer's call fails, returns the status of lazyprune_step_finish.
std::string walk(lazyprune_session* session, std::uint32_t depth, const std::vector<float>& attention) {
  for (std::uint32_t l = 0; l < depth; ++l) {
    lazyprune_plan plan = LAZYPRUNE_PLAN;
    lazyprune_spills spills = LAZYPRUNE_SPILLS;
    lazyprune_status status = lazyprune_step_enter(session, l, &plan);
    if (status.code != LAZYPRUNE_OK) return "enter " + std::to_string(l) + ": " + said(status);
    lazyprune_evidence e = LAZYPRUNE_EVIDENCE;
    e.kind = plan.wants;
    e.data = attention.data();
    e.data_count = attention.size();
    e.heads = 1;
    e.stride = plan.active_count;
    status = lazyprune_step_leave(session, &e, &spills);
    if (status.code != LAZYPRUNE_OK) return "leave " + std::to_string(l) + ": " + said(status);
  }
  return said(lazyprune_step_finish(session));
}

std::string step_of(lazyprune_session* session, std::size_t tokens, std::size_t outputs = 1, std::uint32_t phase = LAZYPRUNE_PREFILL) {
  lazyprune_request request = LAZYPRUNE_REQUEST;
  request.tokens = tokens;
  request.outputs = outputs;
  request.phase = phase;
  std::uint32_t depth = 0;
  ok(lazyprune_step_begin(session, &request, &depth));
  std::vector<float> attention;
  for (std::size_t i = 0; i < 200; ++i) attention.push_back(noise(i));
  return walk(session, depth, attention);
}

/// The state of a session and of all its tokens, as text.
std::vector<std::string> tokens_of(const lazyprune_session* session) {
  lazyprune_session_state state = LAZYPRUNE_SESSION_STATE;
  ok(lazyprune_session_get_state(session, &state));
  std::vector<std::string> all{std::to_string(state.known) + " " + std::to_string(state.stored) + " " + std::to_string(state.waiting) +
                               " " + std::to_string(state.lost)};
  for (std::uint32_t t = 0; t < state.known; ++t) {
    lazyprune_token token = LAZYPRUNE_TOKEN;
    ok(lazyprune_session_get_token(session, t, &token));
    all.push_back(std::to_string(token.frontier) + " " + std::to_string(token.place) + " " + std::to_string(token.lost) + " " +
                  std::to_string(token.gone) + " " + std::to_string(token.score));
  }
  return all;
}

}  // namespace

TEST_CASE("a callback that fails ends the step with its error, and drops nothing") {
  struct caller {
    std::int32_t code = LAZYPRUNE_OK;
    const char* why = "";
  } user;
  lazyprune_scorer scorer = LAZYPRUNE_SCORER;
  scorer.wants = LAZYPRUNE_ATTENTION;
  scorer.user = &user;
  scorer.score = [](void* data, const lazyprune_shown* shown, float* scores) -> std::int32_t {
    const auto& c = *static_cast<const caller*>(data);
    CHECK(shown->message[0] == '\0');
    for (std::size_t i = 0; i < shown->active; ++i) scores[i] = static_cast<float>(i * 7 % 5);
    std::snprintf(shown->message, shown->message_room, "%s", c.why);
    return c.code;
  };
  lazyprune_scorer of_positions = scorer;
  of_positions.wants = LAZYPRUNE_NOTHING;
  lazyprune_schedule schedule = LAZYPRUNE_SCHEDULE;
  schedule.user = &user;
  schedule.first = 2;
  schedule.keep = [](void* data, const lazyprune_layer* layer, const float*, std::size_t* kept) -> std::int32_t {
    const auto& c = *static_cast<const caller*>(data);
    if (layer->done == 2) *kept = layer->active / 2;
    std::snprintf(layer->message, layer->message_room, "%s", c.why);
    return layer->done == 2 ? c.code : LAZYPRUNE_OK;
  };
  lazyprune_schedule seeing = schedule;
  seeing.sees_scores = 1;
  const registry_handle registry = new_registry();
  ok(lazyprune_registry_add_scorer(registry.get(), "mine", &scorer));
  ok(lazyprune_registry_add_scorer(registry.get(), "places", &of_positions));
  ok(lazyprune_registry_add_schedule(registry.get(), "halves", &schedule));
  ok(lazyprune_registry_add_schedule(registry.get(), "seeing", &seeing));

  const std::string last_query = "--scorer last_query_attention";
  for (const auto& row : {std::pair<std::string, std::string>{"--stages 2:0.5 --scorer mine", "leave 1: 77 scorer: mine: "},
                          {"--stages 2:0.5 --scorer mine --store none:for_good=true", "leave 1: 77 scorer: mine: "},
                          {"--stages 2:0.5 --scorer mine --store bounded:rows=2", "leave 1: 77 scorer: mine: "},
                          {"--stages 2:0.5 --scorer mine --keep-first 2 --selector blocks:size=3", "leave 1: 77 scorer: mine: "},
                          {"--schedule adaptive:mass=0.3,from=2,every=9 --scorer mine", "leave 0: 77 scorer: mine: "},
                          {"--schedule seeing --scorer mine", "leave 0: 77 scorer: mine: "},
                          {"--stages 0:0.5 --scorer places", "enter 0: 77 scorer: places: "},
                          {"--stages 2:0.5 --scorer places", "leave 1: 77 scorer: places: "},
                          {"--schedule halves " + last_query, "enter 1: 77 schedule: halves: "},
                          {"--schedule seeing " + last_query, "leave 1: 77 schedule: seeing: "}}) {
    const std::string &policy = row.first, &where = row.second;
    CAPTURE(policy);
    user = {};
    const session_handle session = make(("custom " + policy).c_str(), registry.get());
    lazyprune_session* const s = session.get();
    REQUIRE(step_of(s, 20, 0) == "0 ");
    REQUIRE(step_of(s, 7, 0) == "0 ");
    const auto before = tokens_of(s);
    user = {77, "the disk is full\nsaid it"};
    CHECK(step_of(s, 5) == where + "the disk is full said it");
    lazyprune_plan plan = LAZYPRUNE_PLAN;
    lazyprune_spills spills = LAZYPRUNE_SPILLS;
    lazyprune_request request = LAZYPRUNE_REQUEST;
    std::uint32_t depth = 0;
    request.tokens = request.outputs = 1;
    const auto broken = [](std::string call) { return complaint_at("session: " + call, {"abandon() or reset()"}, LAZYPRUNE_WRONG_ORDER); };
    CHECK(said(lazyprune_step_enter(s, 0, &plan)) == broken("enter"));
    CHECK(said(lazyprune_step_leave(s, nullptr, &spills)) == broken("leave"));
    CHECK(said(lazyprune_step_finish(s)) == broken("finish"));
    CHECK(lazyprune_step_begin(s, &request, &depth).code == LAZYPRUNE_WRONG_ORDER);
    ok(lazyprune_session_abandon(s));
    CHECK(tokens_of(s) == before);
    const std::uint32_t* losses = nullptr;
    std::size_t lost = 99;
    ok(lazyprune_session_get_losses(s, &losses, &lost));
    CHECK(lost == 0);

    // The same step, run again, gives the result that it gives without a failed callback.
    user = {};
    const session_handle fresh = make(("custom " + policy).c_str(), registry.get());
    REQUIRE(step_of(fresh.get(), 20, 0) == "0 ");
    REQUIRE(step_of(fresh.get(), 7, 0) == "0 ");
    CHECK(step_of(s, 5) == "0 ");
    CHECK(step_of(fresh.get(), 5) == "0 ");
    CHECK(tokens_of(s) == tokens_of(fresh.get()));
    lazyprune_session_state state = LAZYPRUNE_SESSION_STATE;
    ok(lazyprune_session_get_state(s, &state));
    CHECK(tokens_of(s) != before);
  }
  user = {LAZYPRUNE_CALLBACK, ""};
  CHECK(step_of(make("custom --stages 1:0.5 --scorer mine", registry.get()).get(), 9) == "leave 0: 7 scorer: mine: failed with code 7");
}

TEST_CASE("a leave that fails in a callback has left its layer, whose keys and values stay") {
  struct caller {
    bool reversed = false;
    std::uint32_t fails_after = 0;  // layers
  } user;
  lazyprune_scorer scorer = LAZYPRUNE_SCORER;
  scorer.wants = LAZYPRUNE_ATTENTION;
  scorer.user = &user;
  scorer.score = [](void* data, const lazyprune_shown* shown, float* scores) -> std::int32_t {
    const auto& c = *static_cast<const caller*>(data);
    for (std::size_t i = 0; i < shown->active; ++i) scores[i] = c.reversed ? -static_cast<float>(i) : static_cast<float>(i);
    return shown->done == c.fails_after ? 77 : LAZYPRUNE_OK;
  };
  const registry_handle registry = new_registry();
  ok(lazyprune_registry_add_scorer(registry.get(), "mine", &scorer));
  const session_handle session = make("custom --stages 1:0.5,3:0.5 --scorer mine", registry.get());
  REQUIRE(step_of(session.get(), 10) == "0 ");
  user = {true, 3};
  CHECK(step_of(session.get(), 1).starts_with("leave 2: 77 "));
  ok(lazyprune_session_abandon(session.get()));
  std::size_t revived = 0;
  for (std::uint32_t t = 0; t < 10; ++t) {
    lazyprune_token token = LAZYPRUNE_TOKEN;
    ok(lazyprune_session_get_token(session.get(), t, &token));
    revived += token.frontier == 3 && token.lost != 0;  // computed in the layer whose leave failed
  }
  CHECK(revived > 0);
}

TEST_CASE("destroy is called once, when the registry and all sessions with the callback have been freed") {
  int destroyed = 0;
  lazyprune_scorer scorer = LAZYPRUNE_SCORER;
  scorer.user = &destroyed;
  scorer.score = [](void*, const lazyprune_shown*, float*) -> std::int32_t { return LAZYPRUNE_OK; };
  scorer.destroy = [](void* user) { ++*static_cast<int*>(user); };
  lazyprune_schedule schedule = LAZYPRUNE_SCHEDULE;
  schedule.user = &destroyed;
  schedule.keep = [](void*, const lazyprune_layer*, const float*, std::size_t*) -> std::int32_t { return LAZYPRUNE_OK; };
  schedule.destroy = scorer.destroy;
  registry_handle registry = new_registry();
  ok(lazyprune_registry_add_scorer(registry.get(), "mine", &scorer));
  ok(lazyprune_registry_add_schedule(registry.get(), "mine", &schedule));
  CHECK(lazyprune_registry_add_scorer(registry.get(), "mine", &scorer).code == LAZYPRUNE_BAD_INPUT);
  CHECK(lazyprune_registry_add_schedule(registry.get(), "My", &schedule).code == LAZYPRUNE_BAD_INPUT);
  CHECK(destroyed == 0);  // a callback that was not added still belongs to the caller
  session_handle session = make("custom --scorer mine --schedule mine", registry.get());
  lazyprune_session* clone = nullptr;
  ok(lazyprune_session_clone(session.get(), &clone));
  registry.reset();
  session.reset();
  CHECK(destroyed == 0);
  lazyprune_session_free(clone);
  CHECK(destroyed == 2);
}

TEST_CASE("an error about evidence that is not finite names the token's position") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const auto leave = [](const char* policy, auto&& change, std::uint32_t checks = 0) {
    lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
    options.layers = layers;
    options.checks = checks;
    lazyprune_session* made = nullptr;
    ok(lazyprune_session_create(nullptr, policy, &options, &made));
    lazyprune_session* copy = nullptr;
    ok(lazyprune_session_clone(made, &copy));
    lazyprune_session_free(made);
    const session_handle session(copy);  // a clone checks what its original checks
    lazyprune_request request = LAZYPRUNE_REQUEST;
    request.tokens = 8;
    request.outputs = 1;
    std::uint32_t depth = 0;
    lazyprune_plan plan = LAZYPRUNE_PLAN;
    lazyprune_spills spills = LAZYPRUNE_SPILLS;
    ok(lazyprune_step_begin(session.get(), &request, &depth));
    ok(lazyprune_step_enter(session.get(), 0, &plan));
    std::vector<float> data(2 * heads * 8, 1.0f / 8), values(8 * kv_heads * head_dim, 1.0f), query(2 * heads * head_dim, 1.0f);
    if (plan.wants == LAZYPRUNE_WINDOW)  // the query before the last does not see the last token
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t i = 0; i < 8; ++i) data[h * 8 + i] = i < 7 ? 1.0f / 7 : 0.0f;
    lazyprune_evidence e = LAZYPRUNE_EVIDENCE;
    e.kind = plan.wants;
    e.data = data.data();
    e.heads = heads;
    e.queries = std::max(1u, plan.window);
    e.kv_heads = kv_heads;
    e.head_dim = head_dim;
    e.hidden = head_dim;
    e.stride = plan.wants == LAZYPRUNE_KEYS ? kv_heads * head_dim : plan.wants == LAZYPRUNE_HIDDEN ? head_dim : 8;
    e.values = values.data();
    e.values_stride = kv_heads * head_dim;
    change(e, data, values, query);
    return said(lazyprune_step_leave(session.get(), &e, &spills));
  };
  const auto in_data = [](std::size_t at, float value) { return [=](auto&, auto& data, auto&, auto&) { data[at] = value; }; };
  const char *attention = "custom --stages 1:0.5", *window = "custom --stages 1:0.5 --scorer window_attention:window=2",
             *keys = "custom --stages 1:0.5 --scorer key_norm", *values = "custom --stages 1:0.5 --scorer value_weighted_attention";
  const auto wrong = [](std::string found) { return complaint_at("evidence: data", {", found " + found}); };
  CHECK(leave(attention, in_data(0, 0.5f)) == "0 ");
  CHECK(leave(attention, in_data(2 * 8 + 5, nan)) == wrong("NaN at position 5, head 2"));
  CHECK(leave(attention, in_data(7, infinity)) == wrong("infinity at position 7, head 0"));
  CHECK(leave(window, in_data(heads * 8 + 3, -infinity)) == wrong("-infinity at position 3, query 1, head 0"));
  CHECK(leave(keys, in_data(6 * kv_heads * head_dim + 1, nan)) == wrong("NaN at position 6"));
  CHECK(leave(values, [&](auto&, auto&, auto& v, auto&) { v[2 * kv_heads * head_dim] = nan; }) ==
        complaint_at("evidence: values", {", found NaN", "position 2"}));
  for (const char* policy : {attention, window, values})
    CHECK(leave(policy, [](auto& e, auto&, auto&, auto&) { e.data = nullptr, e.heads = e.queries = 0; }) == wrong("null"));
  const auto by_keys = [&](std::size_t bad_query, std::size_t bad_key) {
    return [=](lazyprune_evidence& e, auto&, auto& k, auto& q) {
      e.data = nullptr;
      e.query = q.data();
      e.keys = k.data();
      if (bad_query < q.size()) q[bad_query] = nan;
      if (bad_key < k.size()) k[bad_key] = infinity;
    };
  };
  CHECK(leave(attention, by_keys(999, 999)) == "0 ");
  CHECK(leave(attention, by_keys(3, 999)) == complaint_at("evidence: query", {", found NaN", "position 7"}));
  CHECK(leave(window, by_keys(3, 999)) == complaint_at("evidence: query", {", found NaN", "position 6"}));
  CHECK(leave(attention, by_keys(999, 4 * kv_heads * head_dim)) ==
        complaint_at("query_attention: key of the token at position 4", {", found inf"}));

  // With LAZYPRUNE_CHECK_ATTENTION, numbers that cannot be attention are refused.
  CHECK(leave(attention, in_data(0, 1.0f / 8), LAZYPRUNE_CHECK_ATTENTION) == "0 ");
  CHECK(leave(window, in_data(0, 1.0f / 7), LAZYPRUNE_CHECK_ATTENTION) == "0 ");
  CHECK(leave(attention, in_data(8, 2.5f), LAZYPRUNE_CHECK_ATTENTION) == complaint_at("evidence: data", {", found 3.375", "head 1"}));
  CHECK(leave(attention, in_data(9, -0.5f), LAZYPRUNE_CHECK_ATTENTION) ==
        complaint_at("evidence: data", {", found -0.5", "position 1", "head 1"}));
  CHECK(leave(window, in_data(15, 0.25f), LAZYPRUNE_CHECK_ATTENTION) ==
        complaint_at("evidence: data", {"0", ", found 0.25", "position 7", "query 0", "head 1"}));
  const auto one_head = [](float sum) {
    return [=](lazyprune_evidence& e, auto& data, auto&, auto&) {
      e.heads = 1;
      data[0] += sum - 1.0f;
    };
  };
  const char* by_max = "custom --stages 1:0.5 --scorer last_query_attention:over=max";
  CHECK(leave(by_max, one_head(2.0f), LAZYPRUNE_CHECK_ATTENTION) == "0 ");  // the maxima over several heads may sum to more than 1
  CHECK(leave(by_max, one_head(0.9f), LAZYPRUNE_CHECK_ATTENTION) == complaint_at("evidence: data", {", found 0.9", "head 0"}));
  CHECK(leave(attention, one_head(2.0f), LAZYPRUNE_CHECK_ATTENTION) == complaint_at("evidence: data", {", found 2", "head 0"}));
  lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
  lazyprune_session* none = nullptr;
  options.layers = layers;
  options.checks = 2;
  CHECK(said(lazyprune_session_create(nullptr, "dense", &options, &none)) ==
        complaint_at("options: checks", {"1 (attention)", ", found 2"}, LAZYPRUNE_UNSUPPORTED));
}

TEST_CASE("tokens with a score of +infinity do not exceed the budget, and NaN counts as the lowest score") {
  lazyprune_scorer scorer = LAZYPRUNE_SCORER;
  scorer.wants = LAZYPRUNE_NOTHING;
  scorer.score = [](void*, const lazyprune_shown* shown, float* scores) -> std::int32_t {
    for (std::size_t i = 0; i < shown->active; ++i)
      scores[i] = shown->positions[i] % 3 == 0   ? std::numeric_limits<float>::infinity()
                  : shown->positions[i] % 3 == 1 ? std::numeric_limits<float>::quiet_NaN()
                                                 : -1000.0f;
    return LAZYPRUNE_OK;
  };
  const registry_handle registry = new_registry();
  ok(lazyprune_registry_add_scorer(registry.get(), "extreme", &scorer));
  const auto kept = [&](const char* policy, std::size_t tokens, std::size_t outputs) {
    const session_handle session = make(policy, registry.get());
    lazyprune_request request = LAZYPRUNE_REQUEST;
    request.tokens = tokens;
    request.outputs = outputs;
    std::uint32_t depth = 0;
    lazyprune_plan plan = LAZYPRUNE_PLAN;
    lazyprune_spills spills = LAZYPRUNE_SPILLS;
    ok(lazyprune_step_begin(session.get(), &request, &depth));
    for (std::uint32_t l = 0; l < 2; ++l) {
      ok(lazyprune_step_enter(session.get(), l, &plan));
      ok(lazyprune_step_leave(session.get(), nullptr, &spills));
    }
    ok(lazyprune_step_enter(session.get(), 2, &plan));
    return std::vector<std::uint32_t>(plan.active, plan.active + plan.active_count);
  };
  // 12 tokens: infinity at 0, 3, 6, 9; a number at 2, 5, 8; NaN at 1, 4, 7, 10; the query token is 11.
  CHECK(kept("custom --scorer extreme --stages 2:0.25", 12, 1) == std::vector<std::uint32_t>{6, 9, 11});
  CHECK(kept("custom --scorer extreme --stages 2:0.25", 12, 3) == std::vector<std::uint32_t>{9, 10, 11});
  CHECK(kept("custom --scorer extreme --stages 2:0.5", 12, 1) == std::vector<std::uint32_t>{0, 3, 6, 8, 9, 11});
  CHECK(kept("custom --scorer extreme --stages 2:0.75", 12, 1) == std::vector<std::uint32_t>{0, 2, 3, 5, 6, 8, 9, 10, 11});
}

TEST_CASE("steps may come in any order") {
  // Runs a decode step first, then a chunk after a finished prompt. Adopts tokens after other tokens and after a chunk. Compares all
  // results with those of C++.
  pair_of_sessions sessions = both("lazyllm --stages 2:0.5");
  sessions.step({1, phase::decode});
  sessions.step({9, phase::prefill, 1});
  sessions.step({6, phase::prefill, 0});
  sessions.adopt(4);
  sessions.step({5, phase::prefill, 1});
  sessions.step({1, phase::decode});
  CHECK(sessions.known() == 26);

  // A later turn that is read in chunks gives the same result as the turn in one step.
  const session_handle cut = make("lazyllm --stages 2:0.5"), whole = make("lazyllm --stages 2:0.5");
  for (lazyprune_session* s : {cut.get(), whole.get()}) REQUIRE(step_of(s, 9) == "0 ");
  REQUIRE(step_of(cut.get(), 6, 0) == "0 ");
  REQUIRE(step_of(cut.get(), 5) == "0 ");
  REQUIRE(step_of(whole.get(), 11) == "0 ");
  CHECK(tokens_of(cut.get()) == tokens_of(whole.get()));
}

TEST_CASE("abandon loses revived rows that were not saved again") {
  const session_handle session = make("lazyllm --stages 2:0.5");
  lazyprune_session* const s = session.get();
  REQUIRE(step_of(s, 12) == "0 ");
  lazyprune_request request = LAZYPRUNE_REQUEST;
  request.tokens = request.outputs = 1;
  request.phase = LAZYPRUNE_DECODE;
  std::uint32_t depth = 0;
  ok(lazyprune_step_begin(s, &request, &depth));
  const std::vector<float> attention(200, 0.5f);
  CHECK(walk(s, 3, attention).starts_with("2 session: finish: "));  // only layers 0 to 2 have run; layer 2 revived rows
  const auto before = tokens_of(s);
  ok(lazyprune_session_abandon(s));
  lazyprune_session_state state = LAZYPRUNE_SESSION_STATE;
  ok(lazyprune_session_get_state(s, &state));
  CHECK(state.known == 12);
  CHECK(state.lost > 0);  // the rows that this step revived are lost, because they have no slot any more
  for (std::uint32_t t = 0; t < 12; ++t) {
    lazyprune_token token = LAZYPRUNE_TOKEN;
    ok(lazyprune_session_get_token(s, t, &token));
    CHECK((token.lost != 0) == (token.frontier == 3));
  }
}

TEST_CASE("structs of callers that are newer or older than the library") {
  struct newer {
    lazyprune_request known = LAZYPRUNE_REQUEST;
    std::size_t more = 0;
  } request;
  request.known.struct_size = sizeof request;
  request.known.tokens = 3;
  request.known.outputs = 1;
  const session_handle session = make("dense");
  std::uint32_t depth = 0;
  request.more = 1;
  CHECK(said(lazyprune_step_begin(session.get(), &request.known, &depth)) ==
        complaint_at("request: struct_size", {"24", ", found 32"}, LAZYPRUNE_UNSUPPORTED));
  request.more = 0;
  ok(lazyprune_step_begin(session.get(), &request.known, &depth));
  ok(lazyprune_session_abandon(session.get()));
  request.known.struct_size = 8;
  CHECK(said(lazyprune_step_begin(session.get(), &request.known, &depth)) == complaint_at("request", {"24 to 4096", ", found 8"}));

  request.known.struct_size = 1u << 30;  // the library must not write this
  CHECK(said(lazyprune_step_begin(session.get(), &request.known, &depth)) == complaint_at("request", {"24 to 4096", ", found 1073741824"}));

  struct newer_state {
    lazyprune_session_state known = LAZYPRUNE_SESSION_STATE;
    std::size_t more = 99;
  } state;
  state.known.struct_size = sizeof state;
  ok(lazyprune_session_get_state(session.get(), &state.known));
  CHECK(state.known.struct_size == sizeof state);
  CHECK(state.known.layers == layers);
  CHECK(state.more == 0);
}

TEST_CASE("sessions that share a scratch outlive its handle") {
  lazyprune_scratch* scratch = nullptr;
  ok(lazyprune_scratch_create(&scratch));
  lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
  options.layers = layers;
  options.max_tokens = 40;
  options.scratch = scratch;
  lazyprune_session *one = nullptr, *two = nullptr;
  const char* const policy = "lazyllm --stages 2:0.5";
  ok(lazyprune_session_create(nullptr, policy, &options, &one));
  ok(lazyprune_session_create(nullptr, policy, &options, &two));
  lazyprune_scratch_free(scratch);
  for (lazyprune_session* session : {one, two}) {
    pair_of_sessions pair(session_handle(session), make_session(parse_policy(policy), {.layers = layers, .max_tokens = 40}, policies()));
    pair_of_sessions copy = pair.clone();
    pair.step({20});
    copy.step({30});
  }
}

TEST_CASE("the test runs with the grown library if LAZYPRUNE_GROWN is set, else with the library of this build") {
  lazyprune_request request[8] = {LAZYPRUNE_REQUEST};
  request[0].tokens = 1;
  request[0].outputs = 1;
  request[0].struct_size = sizeof request;
  reinterpret_cast<unsigned char*>(request)[sizeof(lazyprune_request)] = 1;  // sets a member that only the grown library has
  std::uint32_t depth = 0;
  const session_handle session = make("dense");
  CHECK(lazyprune_step_begin(session.get(), request, &depth).code ==
        (std::getenv("LAZYPRUNE_GROWN") ? LAZYPRUNE_OK : LAZYPRUNE_UNSUPPORTED));
}

TEST_CASE("the library has the version and the ABI of the header") {
  CHECK(std::string(lazyprune_version()) == LAZYPRUNE_VERSION_STRING);
  CHECK(lazyprune_abi() == LAZYPRUNE_ABI);
}
