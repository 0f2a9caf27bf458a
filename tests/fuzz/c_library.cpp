// SPDX-License-Identifier: MIT
// The input is a sequence of calls of the C library on up to three sessions: whole steps, single calls in any order, and evidence whose
// sizes may be wrong. Each call answers with a status of one line, and what a session shows lies in memory.
#include <lazyprune/c/lazyprune.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../session/chosen_by_rules.hpp"
#include "fuzzed.hpp"

namespace {

using namespace lazyprune_test;

struct frees {
  void operator()(lazyprune_session* session) const { lazyprune_session_free(session); }
  void operator()(lazyprune_registry* registry) const { lazyprune_registry_free(registry); }
  void operator()(lazyprune_scratch* scratch) const { lazyprune_scratch_free(scratch); }
};

constexpr std::array<const char*, 12> policies{
    "dense",
    "lazyllm --stages 1:0.5,3:0.3",
    "lazyllm_blocks --stages 2:0.4",
    "lazyllm --stages 1:0.5,2:0.5,4:0.2 --decode dense --store bounded:rows=3",
    "static --stages 2:0.5",
    "random --stages 1:0.7,3:0.2",
    "custom --stages 2:0.5 --scorer window_attention:window=3",
    "lazyllm --stages 2:0.5 --scorer prompt_window_attention:window=3",
    "custom --stages 1:0.5 --scorer key_norm",
    "custom --stages 1:0.5 --scorer value_attention",
    "custom --stages 1:0.5 --scorer mine",
    "custom --schedule mine",
};

/// The input as numbers.
class decisions {
 public:
  explicit decisions(std::span<const std::uint8_t> bytes) : left_(bytes) {}

  bool empty() const { return left_.empty(); }
  std::uint8_t byte() {
    if (left_.empty()) return 0;
    const std::uint8_t first = left_.front();
    left_ = left_.subspan(1);
    return first;
  }
  std::size_t below(std::size_t n) { return byte() % n; }

  /// Returns a small size, or sometimes one that no array can have.
  std::size_t size() {
    const std::uint8_t b = byte();
    return b < 200 ? b % 40 : b < 230 ? std::numeric_limits<std::size_t>::max() / (b - 199) : std::size_t{1} << (b - 192);
  }

 private:
  std::span<const std::uint8_t> left_;
};

void check(lazyprune_status status) {
  must(status.code >= LAZYPRUNE_OK && status.code <= LAZYPRUNE_CALLBACK && status.code != LAZYPRUNE_INTERNAL,
       "a status has one of the codes of the header, and shows no defect");
  must(status.message != nullptr && !std::strchr(status.message, '\n'), "a status has a message of one line");
}
bool ok(lazyprune_status status) {
  check(status);
  return status.code == LAZYPRUNE_OK;
}

template <class T>
void touch(const T* items, std::size_t count) {
  volatile std::size_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum = sum + std::hash<std::string_view>()({reinterpret_cast<const char*>(items + i), sizeof(T)});
}

int32_t score_by_position(void*, const lazyprune_shown* shown, float* scores) {
  touch(shown->positions, shown->active);
  for (std::size_t i = 0; i < shown->active; ++i) scores[i] = static_cast<float>(shown->positions[i] * 7 % 11);
  return shown->known % 13 == 12 ? LAZYPRUNE_CALLBACK : LAZYPRUNE_OK;
}
int32_t keep_half(void*, const lazyprune_layer* layer, const float*, std::size_t* kept) {
  if (layer->done > 0) *kept = layer->known % 7 == 6 ? layer->active * 3 : layer->active / 2;
  return LAZYPRUNE_OK;
}

class caller {
 public:
  explicit caller(std::span<const std::uint8_t> bytes) : next_(bytes) {
    lazyprune_registry* registry = nullptr;
    must(ok(lazyprune_registry_create(&registry)), "a registry can be made");
    registry_.reset(registry);
    lazyprune_scorer scorer = LAZYPRUNE_SCORER;
    scorer.wants = LAZYPRUNE_NOTHING;
    scorer.score = score_by_position;
    must(ok(lazyprune_registry_add_scorer(registry, "mine", &scorer)), "a scorer can be added");
    lazyprune_schedule schedule = LAZYPRUNE_SCHEDULE;
    schedule.keep = keep_half;
    must(ok(lazyprune_registry_add_schedule(registry, "mine", &schedule)), "a schedule can be added");
    lazyprune_scratch* scratch = nullptr;
    must(ok(lazyprune_scratch_create(&scratch)), "scratch can be made");
    scratch_.reset(scratch);
  }

  void call_all() {
    for (int calls = 0; !next_.empty() && calls < 200; ++calls) call();
  }

 private:
  static constexpr std::uint32_t layers = 5;
  static constexpr std::size_t most_tokens = 120;

  void call() {
    const std::size_t which = next_.below(3);
    if (!sessions_[which]) return create(which);
    lazyprune_session* const s = sessions_[which].get();
    switch (next_.below(20)) {
      case 0:
        return create(which);
      case 1:
        return sessions_[which].reset();
      case 2:
        return clone(which);
      case 3:
        return check(lazyprune_session_reserve(s, next_.below(200)));
      case 4:
        return check(lazyprune_session_reset(s));
      case 5:
        return check(lazyprune_session_abandon(s));
      case 6:
        return check(lazyprune_session_truncate(s, next_.size()));
      case 7:
        return check(lazyprune_session_adopt(s, known(s) > most_tokens ? 0 : next_.below(20)));
      case 8:
        return check(lazyprune_session_take_over(s, sessions_[next_.below(3)].get()));
      case 9:
        return begin(s);
      case 10:
        return enter(s, static_cast<std::uint32_t>(next_.size()));
      case 11:
        return leave(s, false);
      case 12:
        return check(lazyprune_step_finish(s));
      case 13:
        return look(s);
      case 14:
        return describe();
      case 15:
        look_ahead(s, next_.below(8), next_.below(32));
        return foretold_.clear();
      default:
        return whole_step(s);
    }
  }

  void create(std::size_t which) {
    const std::array<std::uint32_t, 3> after{1, 2, 4};
    lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
    options.layers = next_.below(8) == 0 ? static_cast<std::uint32_t>(next_.below(3)) : layers;
    options.max_tokens = next_.below(2) ? 200 : 0;
    if (next_.below(4) == 0) {
      options.attention_after = after.data();
      options.attention_after_count = next_.below(4);
    }
    options.scratch = next_.below(2) ? scratch_.get() : nullptr;
    options.checks = static_cast<std::uint32_t>(next_.below(3));
    if (next_.below(16) == 0) options.struct_size = static_cast<std::uint32_t>(next_.below(sizeof options + 1));  // an older caller's
    lazyprune_session* made = nullptr;
    const bool done =
        ok(lazyprune_session_create(next_.below(8) ? registry_.get() : nullptr, policies[next_.below(policies.size())], &options, &made));
    must(done == (made != nullptr), "a session is made, or the status says why not");
    sessions_[which].reset(made);
  }

  void clone(std::size_t which) {
    lazyprune_session* made = nullptr;
    const bool done = ok(lazyprune_session_clone(sessions_[which].get(), &made));
    must(done == (made != nullptr), "a session is made, or the status says why not");
    if (done) sessions_[next_.below(3)].reset(made);
  }

  std::size_t known(const lazyprune_session* s) const {
    lazyprune_session_state state = LAZYPRUNE_SESSION_STATE;
    must(ok(lazyprune_session_get_state(s, &state)), "the state can be asked for at any time");
    return state.known;
  }

  void begin(lazyprune_session* s) {
    lazyprune_request request = LAZYPRUNE_REQUEST;
    request.phase = static_cast<std::uint32_t>(next_.below(3));
    request.tokens = next_.size();
    request.outputs = next_.size();
    if (request.tokens > 1000 && request.tokens < (std::size_t{1} << 32)) request.tokens = 1;  // memory for so many tokens could be had
    const bool may = ok(lazyprune_step_check(s, &request));
    std::uint32_t count = 0;
    must(ok(lazyprune_step_begin(s, &request, &count)) == may, "step_begin answers as step_check does");
  }

  void enter(lazyprune_session* s, std::uint32_t layer) {
    plan_ = LAZYPRUNE_PLAN;
    if (!ok(lazyprune_step_enter(s, layer, &plan_))) {
      plan_ = LAZYPRUNE_PLAN;
      return;
    }
    touch(plan_.active, plan_.active_count);
    touch(plan_.rows, plan_.rows_count);
    touch(plan_.sources, plan_.rows_count);
    touch(plan_.probes, plan_.probes_count);
    must(plan_.finish <= plan_.rows_count && plan_.rows_count <= plan_.active_count, "rows are active, and some of them are finished");
    active_.assign(plan_.active, plan_.active + plan_.active_count);
    stand(s);
    plan_.active = plan_.rows = nullptr;  // valid only until the layer is left
    plan_.sources = nullptr;
    plan_.probes = nullptr;
    std::vector<std::uint32_t> pages(next_.below(8));
    std::size_t count = 0;
    check(lazyprune_step_pages(s, next_.size(), pages.data(), pages.size(), &count));
  }

  /// Asks for the standings of the active tokens.
  void stand(lazyprune_session* s) {
    standing_.assign(active_.size(), lazyprune::candidacy::open);
    auto* const out = reinterpret_cast<std::uint32_t*>(standing_.data());
    must(!ok(lazyprune_step_standing(s, out, standing_.size() - 1)), "the standings need room");
    must(ok(lazyprune_step_standing(s, out, standing_.size())) == (plan_.quota != 0), "there are standings if there is a quota");
    const auto with = [&](lazyprune::candidacy which) { return static_cast<std::size_t>(std::ranges::count(standing_, which)); };
    must(plan_.quota == 0 || with(lazyprune::candidacy::required) <= plan_.quota, "the required tokens go on");
    must(plan_.quota + with(lazyprune::candidacy::excluded) <= active_.size(), "so many tokens can go on");
  }

  /// Asks for the counts of later layers and for the slots of dropped rows, at any time.
  void look_ahead(lazyprune_session* s, std::size_t room, std::size_t rows) {
    foretold_.assign(room, {});
    std::size_t known = 0;
    const bool told = ok(lazyprune_step_counts(s, foretold_.data(), foretold_.size(), &known));
    must(told || known == 0, "a failed call writes nothing");
    must(known < layers, "only later layers are foretold");
    foretold_.resize(std::min(room, known));
    for (std::size_t i = 0; i < foretold_.size(); ++i) {
      const lazyprune_layer_counts& c = foretold_[i];
      must(c.kept <= c.active && c.finish <= c.active && c.kept > 0, "the counts fit together");
      must(c.chooses || c.kept == c.active, "all tokens go on if none is chosen");
      must(i == 0 || (c.layer == foretold_[i - 1].layer + 1 && c.active == foretold_[i - 1].kept), "the layers follow each other");
    }
    slots_.assign(rows, 0);
    if (!ok(lazyprune_step_slots(s, slots_.data(), slots_.size()))) slots_.clear();
    std::vector<std::uint32_t> sorted = slots_;
    std::ranges::sort(sorted);
    must(std::ranges::adjacent_find(sorted) == sorted.end(), "each row gets a slot of its own");
  }

  /// Checks the plan against the counts that were asked for in an earlier layer of the same step.
  void compare_with_foretold() const {
    for (const lazyprune_layer_counts& c : foretold_)
      if (c.layer == plan_.layer) {
        must(c.active == plan_.active_count && c.active == plan_.rows_count && c.finish == plan_.finish,
             "the layer has the foretold tokens");
        must((c.chooses != 0) == (plan_.quota != 0), "the engine may choose where it was foretold");
        must(c.kept == (plan_.quota != 0 ? plan_.quota : c.active), "the foretold number of tokens goes on");
      }
  }

  /// Ends a layer with the tokens that an engine chose by random scores. With `right` false, the choice may be wrong.
  void choose(lazyprune_session* s, bool right) {
    const std::vector<float> scores = numbers_of(active_.size());
    std::vector<std::uint32_t> chosen = chosen_by_rules(scores, active_, standing_, {.count = plan_.quota, .page = plan_.quota_page});
    if (!right && next_.below(2)) chosen = positions_of(next_.below(64), active_.size() + 1);
    if (!right && next_.below(4) == 0) chosen.resize(chosen.size() / 2);
    lazyprune_evidence e = LAZYPRUNE_EVIDENCE;
    e.kind = plan_.wants;
    e.chosen = chosen.data();
    e.chosen_count = chosen.size();
    const bool shows = plan_.needs_scores || next_.below(2);
    if (shows) e.chosen_scores = scores.data();
    const bool finite = std::ranges::all_of(scores, [](float score) { return std::isfinite(score); });
    must(leave_with(s, &e) || !right || (shows && !finite), "a choice by the rules is accepted");
  }

  /// Ends a layer. Rows that are stored get the slots that were asked for.
  bool leave_with(lazyprune_session* s, const lazyprune_evidence* e) {
    lazyprune_spills spills = LAZYPRUNE_SPILLS;
    if (!ok(lazyprune_step_leave(s, e, &spills))) return false;
    touch(spills.items, spills.count);
    const auto* const end = spills.items + spills.count;
    for (const auto* spill = spills.items; spill != end && !foretold_.empty(); ++spill)
      if (spill->to == LAZYPRUNE_STORED && plan_.stores_dropped && !slots_.empty()) {
        must(spill->slot == slots_.front(), "a dropped row gets the foretold slot");
        slots_.erase(slots_.begin());
      }
    return true;
  }

  /// Ends a layer. The evidence has the sizes that the plan last entered asks for, or with `right` false may have others. An array has
  /// exactly the memory that its count says.
  void leave(lazyprune_session* s, bool right) {
    if (plan_.quota != 0 && next_.below(2)) return choose(s, right);
    const auto maybe = [&](std::size_t value) { return right || next_.below(4) ? value : next_.size(); };
    lazyprune_evidence e = LAZYPRUNE_EVIDENCE;
    e.kind = static_cast<std::uint32_t>(maybe(plan_.wants));
    const std::size_t active = plan_.active_count, heads = 2, width = 4;
    e.heads = maybe(plan_.wants == LAZYPRUNE_PROBES || plan_.wants == LAZYPRUNE_KEYS ? 0 : heads);
    e.queries = maybe(plan_.wants == LAZYPRUNE_WINDOW ? plan_.window : 0);
    e.kv_heads = maybe(1);
    e.head_dim = maybe(width);
    e.hidden = maybe(8);
    e.stride = maybe(plan_.wants == LAZYPRUNE_KEYS ? width : plan_.wants == LAZYPRUNE_HIDDEN ? 8 : active);
    e.values_stride = maybe(width);
    std::size_t numbers = active * heads;
    if (plan_.wants == LAZYPRUNE_WINDOW) numbers *= plan_.window;
    if (plan_.wants == LAZYPRUNE_KEYS) numbers = active * width;
    if (plan_.wants == LAZYPRUNE_HIDDEN) numbers = plan_.rows_count * 8;
    if (plan_.wants == LAZYPRUNE_PROBES) numbers = plan_.probes_count * active;
    if (!right && next_.below(4) == 0) numbers = next_.below(64);
    const bool computes = next_.below(4) == 0;  // lets the library compute the probabilities
    const std::size_t queries = std::max<std::size_t>(plan_.wants == LAZYPRUNE_WINDOW ? plan_.window : 1, 1);
    const auto data = numbers_of(numbers), values = numbers_of(right ? active * width : next_.below(200)),
               query = numbers_of(right ? queries * heads * width : next_.below(64)),
               keys = numbers_of(right ? active * width : next_.below(200));
    const auto slots = positions_of(right ? active : next_.below(64), std::max<std::size_t>(active, 1)),
               ids = positions_of(right ? known(s) : next_.below(64), 100);
    // A count of 0 would turn the check of the length off.
    const auto give = [](const auto& array, const auto*& pointer, std::size_t& count) {
      if (array.empty()) return;
      pointer = array.data();
      count = array.size();
    };
    if (!computes) give(data, e.data, e.data_count);
    give(values, e.values, e.values_count);
    give(ids, e.ids, e.ids_count);
    give(query, e.query, e.query_count);
    give(keys, e.keys, e.keys_count);
    if (next_.below(2)) give(slots, e.key_slots, e.key_slots_count);
    e.query_stride = maybe(0);
    e.keys_stride = maybe(0);
    (void)leave_with(s, next_.below(8) ? &e : nullptr);
  }

  std::vector<float> numbers_of(std::size_t count) {
    std::vector<float> numbers(count);
    for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i * 5 % 17) * 0.01f;
    if (count > 0 && next_.below(16) == 0) numbers[next_.byte() % count] = std::bit_cast<float>(0x7f800000u + next_.byte());  // inf or NaN
    return numbers;
  }
  std::vector<std::uint32_t> positions_of(std::size_t count, std::size_t below) {
    std::vector<std::uint32_t> positions(count);
    for (std::size_t i = 0; i < count; ++i) positions[i] = static_cast<std::uint32_t>(i % below);
    if (count > 0 && next_.below(16) == 0) positions[next_.byte() % count] = next_.byte() * 0x01010101u;
    return positions;
  }

  void whole_step(lazyprune_session* s) {
    if (known(s) > most_tokens) return check(lazyprune_session_truncate(s, next_.below(60)));
    lazyprune_request request = LAZYPRUNE_REQUEST;
    request.phase = static_cast<std::uint32_t>(next_.below(2));
    request.tokens = 1 + next_.below(12);
    request.outputs = next_.below(request.tokens + 1);
    std::uint32_t count = 0;
    if (!ok(lazyprune_step_begin(s, &request, &count))) return;
    foretold_.clear();
    for (std::uint32_t layer = 0; layer < count; ++layer) {
      enter(s, layer);
      compare_with_foretold();
      if (foretold_.empty() && plan_.quota != 0) look_ahead(s, layers, 64);
      leave(s, true);
    }
    foretold_.clear();
    check(lazyprune_step_finish(s));
  }

  void look(lazyprune_session* s) {
    lazyprune_token token = LAZYPRUNE_TOKEN;
    check(lazyprune_session_get_token(s, static_cast<std::uint32_t>(next_.size()), &token));
    lazyprune_statistics counts = LAZYPRUNE_STATISTICS;
    if (ok(lazyprune_session_get_statistics(s, &counts))) {
      touch(counts.prefill_rows, counts.layers);
      touch(counts.prefill_dense_rows, counts.layers);
    }
    const std::uint32_t* losses = nullptr;
    std::size_t lost = 0;
    if (ok(lazyprune_session_get_losses(s, &losses, &lost))) touch(losses, lost);
    std::uint32_t depth = 0;
    check(lazyprune_session_chunk_layers(s, static_cast<std::uint32_t>(next_.below(3)), &depth));
  }

  void describe() {
    std::vector<char> text(next_.byte());
    std::size_t length = 0;
    lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
    options.layers = layers;
    check(lazyprune_policy_text(registry_.get(), policies[next_.below(policies.size())], &options, text.data(), text.size(), &length));
    check(lazyprune_policy_help(registry_.get(), text.data(), text.size(), &length));
  }

  decisions next_;
  std::unique_ptr<lazyprune_registry, frees> registry_;
  std::unique_ptr<lazyprune_scratch, frees> scratch_;
  std::array<std::unique_ptr<lazyprune_session, frees>, 3> sessions_;
  lazyprune_plan plan_ = LAZYPRUNE_PLAN;
  // These belong to the layer that was last entered. Only whole_step() keeps numbers in foretold_ and slots_.
  std::vector<std::uint32_t> active_;
  std::vector<lazyprune::candidacy> standing_;
  std::vector<lazyprune_layer_counts> foretold_;
  std::vector<std::uint32_t> slots_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const bounded_work bounds(size, {.bytes = 256, .microseconds = 2000});
  caller({data, size}).call_all();
  return 0;
}
