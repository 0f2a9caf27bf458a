// SPDX-License-Identifier: MIT
// The C library: lazyprune/c/lazyprune.h over the C++ sessions. Compile it into a shared library, and hide all else (lazyprune.map):
//   c++ -std=c++20 -O2 -fPIC -shared -fvisibility=hidden -I include lazyprune.cpp -o liblazyprune.so

#define LAZYPRUNE_MAKES_C_LIBRARY
#include <lazyprune/c/lazyprune.h>

#include <lazyprune/registry/make_session.hpp>
#include <lazyprune/registry/shipped_policies.hpp>
#include <lazyprune/session/query_attention.hpp>
#include <lazyprune/version.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

struct lazyprune_registry {
  lazyprune::policy_registry policies;
};

struct lazyprune_scratch {
  std::shared_ptr<lazyprune::selection_scratch> memory;
};

struct lazyprune_session {
  std::shared_ptr<lazyprune::selection_scratch> scratch;  // goes last
  lazyprune::any_session session;

  // The step in progress.
  std::optional<lazyprune::step<lazyprune::any_session>> step{};
  lazyprune::layer_id next = 0;                   // to be entered
  const lazyprune::layer_plan* inside = nullptr;  // of the layer entered
  std::vector<float> probabilities{};             // computed from queries and keys

  void end_step() noexcept {
    step.reset();
    next = 0;
    inside = nullptr;
  }
};

namespace {

using namespace lazyprune;

// The arrays of a plan are handed out as they are.
static_assert(std::is_standard_layout_v<row_source> && sizeof(row_source) == sizeof(lazyprune_source) &&
              offsetof(row_source, from) == offsetof(lazyprune_source, from) &&
              offsetof(row_source, index) == offsetof(lazyprune_source, index));
static_assert(std::is_standard_layout_v<spill> && sizeof(spill) == sizeof(lazyprune_spill) &&
              offsetof(spill, row) == offsetof(lazyprune_spill, row) && offsetof(spill, slot) == offsetof(lazyprune_spill, slot) &&
              offsetof(spill, from) == offsetof(lazyprune_spill, from) && offsetof(spill, to) == offsetof(lazyprune_spill, to));
static_assert(static_cast<int>(row_source::origin::embedding) == LAZYPRUNE_EMBEDDING &&
              static_cast<int>(row_source::origin::carried) == LAZYPRUNE_CARRIED &&
              static_cast<int>(row_source::origin::stored) == LAZYPRUNE_STORED &&
              static_cast<int>(row_source::origin::waiting) == LAZYPRUNE_WAITING);
static_assert(static_cast<int>(phase::prefill) == LAZYPRUNE_PREFILL && static_cast<int>(phase::decode) == LAZYPRUNE_DECODE);
static_assert(static_cast<int>(evidence_kind::none) == LAZYPRUNE_NOTHING &&
              static_cast<int>(evidence_kind::attention) == LAZYPRUNE_ATTENTION &&
              static_cast<int>(evidence_kind::window) == LAZYPRUNE_WINDOW && static_cast<int>(evidence_kind::keys) == LAZYPRUNE_KEYS &&
              static_cast<int>(evidence_kind::values) == LAZYPRUNE_VALUES && static_cast<int>(evidence_kind::hidden) == LAZYPRUNE_HIDDEN &&
              static_cast<int>(evidence_kind::ids) == LAZYPRUNE_IDS);
static_assert(static_cast<int>(head_reduction::mean) + 1 == LAZYPRUNE_MEAN && static_cast<int>(head_reduction::max) + 1 == LAZYPRUNE_MAX);
static_assert(everything == LAZYPRUNE_EVERYTHING);

uint32_t read_of_heads(std::optional<head_reduction> reduction) {
  return reduction ? static_cast<uint32_t>(*reduction) + 1 : static_cast<uint32_t>(LAZYPRUNE_EACH);
}

// ---- status ----

lazyprune_status failed(int32_t code, const char* message) noexcept {
  thread_local char line[1024];
  std::snprintf(line, sizeof line, "%s", message);
  return {code, line};
}

int32_t code_of(error_code code) {
  switch (code) {
    case error_code::bad_input:
      return LAZYPRUNE_BAD_INPUT;
    case error_code::wrong_order:
      return LAZYPRUNE_WRONG_ORDER;
    case error_code::no_room:
      return LAZYPRUNE_NO_ROOM;
    case error_code::no_memory:
      return LAZYPRUNE_NO_MEMORY;
    case error_code::unsupported:
      return LAZYPRUNE_UNSUPPORTED;
    case error_code::io:
      break;
  }
  return LAZYPRUNE_INTERNAL;
}

/// What every call does.
template <class Work>
lazyprune_status guarded(const Work& work) noexcept {
  try {
    work();
    return {LAZYPRUNE_OK, ""};
  } catch (const error& fault) {
    return failed(code_of(fault.code()), fault.what());
  } catch (const std::bad_alloc&) {
    return failed(LAZYPRUNE_NO_MEMORY, "expected memory, found none");
  } catch (const std::length_error&) {
    return failed(LAZYPRUNE_NO_MEMORY, "expected as many numbers as memory can hold, found more");
  } catch (const std::exception& fault) {
    return failed(LAZYPRUNE_INTERNAL, fault.what());
  }
}

[[noreturn]] void wrong(const char* place, const std::string& expected, const std::string& found) {
  report_error(error(place, "", expected, found));
  std::abort();  // not reached: it throws
}

template <class T>
T& given(T* pointer, const char* name) {
  if (!pointer) wrong(name, "a pointer", "null");
  return *pointer;
}

void not_below(std::size_t found, std::size_t least, const char* place) {
  if (found < least) wrong(place, "at least " + std::to_string(least), std::to_string(found));
}

/// The bytes that a struct had when it came with ABI 0, which its callers have at least: up to the end of what was its last member.
template <class T>
constexpr std::size_t first_size = sizeof(T);
#define LAZYPRUNE_FIRST_SIZE(type, last) \
  template <>                            \
  constexpr std::size_t first_size<type> = offsetof(type, last) + sizeof(type::last)
LAZYPRUNE_FIRST_SIZE(lazyprune_evidence, key_slots);
LAZYPRUNE_FIRST_SIZE(lazyprune_scorer, user);
LAZYPRUNE_FIRST_SIZE(lazyprune_schedule, user);
LAZYPRUNE_FIRST_SIZE(lazyprune_session_options, scratch);
LAZYPRUNE_FIRST_SIZE(lazyprune_session_state, lost);
LAZYPRUNE_FIRST_SIZE(lazyprune_token, reserved);
LAZYPRUNE_FIRST_SIZE(lazyprune_statistics, prefill_dense_rows);
LAZYPRUNE_FIRST_SIZE(lazyprune_request, outputs);
LAZYPRUNE_FIRST_SIZE(lazyprune_plan, window);
LAZYPRUNE_FIRST_SIZE(lazyprune_spills, count);
#undef LAZYPRUNE_FIRST_SIZE

/// The size that a caller says its struct has. One that was never written is likely none that a struct has.
template <class T>
std::size_t size_of(const T* pointer, const char* name) {
  constexpr std::size_t most = 4096;
  const std::size_t size = given(pointer, name).struct_size;
  if (size < first_size<T> || size > most)
    wrong(name, "a struct_size from " + std::to_string(first_size<T>) + " to " + std::to_string(most) + ", as its initializer writes it",
          std::to_string(size));
  return size;
}

/// A struct as its caller knows it: what this library has more of is 0, and what it does not know has to be 0.
template <class T>
T read(const T* pointer, const char* name) {
  const std::size_t size = size_of(pointer, name);
  const auto* bytes = reinterpret_cast<const unsigned char*>(pointer);
  if (size > sizeof(T) && std::any_of(bytes + sizeof(T), bytes + size, [](unsigned char byte) { return byte != 0; }))
    report_error(error(name, "struct_size", std::to_string(sizeof(T)) + ", or no more than zeros behind", std::to_string(size),
                       error_code::unsupported));
  T value{};
  std::memcpy(&value, pointer, std::min(size, sizeof(T)));
  return value;
}

/// A struct of the caller's to be written, who may know less of it or more: checked before anything is done, filled without failing.
template <class T>
class written {
 public:
  written(T* pointer, const char* name) : size_(size_of(pointer, name)), to_(pointer) {}

  void fill(T value) const noexcept {
    value.struct_size = static_cast<uint32_t>(size_);
    std::memcpy(to_, &value, std::min(size_, sizeof(T)));
    if (size_ > sizeof(T)) std::memset(reinterpret_cast<unsigned char*>(to_) + sizeof(T), 0, size_ - sizeof(T));
  }

 private:
  std::size_t size_;
  T* to_;
};

// ---- policies of the caller ----

class caller_scorer {
 public:
  explicit caller_scorer(const lazyprune_scorer& scorer) : scorer_(scorer) {}

  scorer_needs needs() const {
    scorer_needs result{static_cast<evidence_kind>(scorer_.wants), scorer_.every_layer != 0, scorer_.window};
    if (scorer_.over_heads != LAZYPRUNE_EACH) result.over_heads = static_cast<head_reduction>(scorer_.over_heads - 1);
    return result;
  }

  void score(const every_layer<evidence>& shown, std::span<float> out) {
    lazyprune_shown all{};
    all.struct_size = sizeof all;
    all.done = shown.layer + 1;
    all.active = out.size();
    all.positions = positions_of(shown.now).data();
    lazyprune_evidence now = LAZYPRUNE_EVIDENCE;
    now.kind = scorer_.wants;
    std::visit([&](const auto& view) { show(view, all, now); }, shown.now);
    if (needs().every_layer) {
      all.memory = shown.memory.data();
      all.known = shown.memory.size();
    }
    if (now.kind != LAZYPRUNE_NOTHING) all.evidence = &now;
    scorer_.score(scorer_.user, &all, out.data());
  }

 private:
  static void show(const token_view& view, lazyprune_shown& all, lazyprune_evidence&) {
    all.done = view.done;
    all.known = view.known;
  }
  static void show(const attention_view& view, lazyprune_shown&, lazyprune_evidence& now) {
    now.data = view.data;
    now.heads = view.heads;
    now.queries = 1;
    now.stride = view.stride;
  }
  static void show(const window_view& view, lazyprune_shown& all, lazyprune_evidence& now) {
    show(view.query(0), all, now);
    now.queries = view.queries;
  }
  static void show(const key_view& view, lazyprune_shown&, lazyprune_evidence& now) {
    now.data = view.data;
    now.kv_heads = view.kv_heads;
    now.head_dim = view.head_dim;
    now.stride = view.stride;
  }
  static void show(const value_view& view, lazyprune_shown& all, lazyprune_evidence& now) {
    show(view.attention, all, now);
    now.kv_heads = view.kv_heads;
    now.head_dim = view.head_dim;
    now.values = view.values;
    now.values_stride = view.stride;
  }
  static void show(const hidden_view& view, lazyprune_shown& all, lazyprune_evidence& now) {
    now.data = view.data;
    now.hidden = view.hidden;
    now.stride = view.stride;
    all.rows = view.rows.data();
    all.rows_count = view.rows.size();
  }
  static void show(const id_view& view, lazyprune_shown& all, lazyprune_evidence& now) {
    now.ids = view.ids.data();
    now.ids_count = view.ids.size();
    all.known = view.ids.size();
  }

  lazyprune_scorer scorer_;
};
static_assert(chosen_scorer<caller_scorer>);

class caller_schedule {
 public:
  explicit caller_schedule(const lazyprune_schedule& schedule) : schedule_(schedule) {}

  bool sees_scores() const { return schedule_.sees_scores != 0; }
  std::size_t keep(const layer_context& context) const { return keep(context, {}); }
  std::size_t keep(const layer_context& context, std::span<const float> scores) const {
    if (context.done < schedule_.first) return everything;
    const lazyprune_layer layer{sizeof layer,   context.done, context.layers, static_cast<uint32_t>(context.step),
                                context.active, context.known};
    return schedule_.keep(schedule_.user, &layer, scores.data());
  }
  layer_id first(phase, layer_id) const { return schedule_.first; }

 private:
  lazyprune_schedule schedule_;
};
static_assert(chosen_schedule<caller_schedule> && foretelling_schedule<caller_schedule>);

// ---- sessions ----

const policy_registry& policies_of(const lazyprune_registry* registry) {
  static const policy_registry shipped = shipped_policies();
  return registry ? registry->policies : shipped;
}

model_layers layers_of(const lazyprune_session_options& options) {
  not_below(options.layers, 1, "options: layers");
  if (!options.attention_after) return {options.layers};
  return {options.layers, std::vector<layer_id>(options.attention_after, options.attention_after + options.attention_after_count)};
}

phase read_phase(uint32_t value) {
  if (value > LAZYPRUNE_DECODE) wrong("phase", "0 (prefill) or 1 (decode)", std::to_string(value));
  return static_cast<phase>(value);
}

step_request read_request(const lazyprune_request* request) {
  const lazyprune_request r = read(request, "request");
  return {r.tokens, read_phase(r.phase), r.outputs};
}

/// A handle is made whole, or not at all.
template <class Handle, class... Parts>
void hand_out(Handle** out, Parts&&... parts) {
  given(out, "out") = nullptr;
  *out = new Handle{std::forward<Parts>(parts)...};
}

step<any_session>& step_of(lazyprune_session* session, const char* what) {
  if (!given(session, "session").step) report_error(error("session", what, "a step that was begun", "none", error_code::wrong_order));
  return *session->step;
}

// ---- evidence ----

std::string kind_name(uint32_t kind) {
  return kind <= LAZYPRUNE_IDS ? std::string(name_of(static_cast<evidence_kind>(kind))) : "kind " + std::to_string(kind);
}

void require_data(const void* data, const char* place) {
  if (!data) wrong(place, "a pointer to numbers", "null");
}

/// Heads and their sizes: bounded, so that their products do not wrap.
void check_size(std::size_t size, const char* place) {
  constexpr std::size_t most = std::size_t{1} << 16;
  if (size == 0 || size > most) wrong(place, "1 to " + std::to_string(most), std::to_string(size));
}

void check_heads(const lazyprune_evidence& e) {
  check_size(e.heads, "evidence: heads");
  check_size(e.kv_heads, "evidence: kv_heads");
  check_size(e.head_dim, "evidence: head_dim");
  if (e.heads % e.kv_heads != 0)
    wrong("evidence: heads", "a multiple of kv_heads (" + std::to_string(e.kv_heads) + ")", std::to_string(e.heads));
}

/// What the caller's attention yields, or what its queries and keys give: (queries, heads, active).
window_view probabilities_of(lazyprune_session& s, const lazyprune_evidence& e, std::size_t queries) {
  const layer_plan& plan = *s.inside;
  check_size(e.heads, "evidence: heads");
  if (e.data) {
    not_below(e.stride, plan.active.size(), "evidence: stride");
    return {e.data, queries, e.heads, e.stride, plan.active};
  }
  if (!e.query || !e.keys) wrong("evidence: data", "probabilities, or a query and keys", "null");
  check_heads(e);
  const std::size_t query_stride = e.query_stride > 0 ? e.query_stride : e.heads * e.head_dim;
  const std::size_t keys_stride = e.keys_stride > 0 ? e.keys_stride : e.kv_heads * e.head_dim;
  not_below(query_stride, e.heads * e.head_dim, "evidence: query_stride");
  not_below(keys_stride, e.kv_heads * e.head_dim, "evidence: keys_stride");
  s.probabilities.resize(queries * e.heads * plan.active.size());
  const std::span<const uint32_t> slots{e.key_slots, e.key_slots ? plan.active.size() : 0};
  return query_attention(e.query, query_stride, e.heads, key_rows<float>{e.keys, e.kv_heads, e.head_dim, keys_stride, slots}, plan.active,
                         plan.rows.last(queries), s.probabilities.data());
}

evidence read_evidence(lazyprune_session& s, const lazyprune_evidence* pointer) {
  const evidence_kind wanted = s.step->wants();
  if (wanted == evidence_kind::none) return {};
  const auto expected = [&] { return kind_name(static_cast<uint32_t>(wanted)) + ", as the plan wants"; };
  if (!pointer) wrong("evidence", expected(), "null");
  const lazyprune_evidence e = read(pointer, "evidence");
  if (e.kind != static_cast<uint32_t>(wanted)) wrong("evidence", expected(), kind_name(e.kind));
  const layer_plan& plan = *s.inside;
  switch (wanted) {
    case evidence_kind::none:
      break;
    case evidence_kind::attention:
      return probabilities_of(s, e, 1).query(0);
    case evidence_kind::window:
      if (e.queries != s.step->window())
        wrong("evidence: queries", std::to_string(s.step->window()) + ", as the plan's window says", std::to_string(e.queries));
      return probabilities_of(s, e, e.queries);
    case evidence_kind::keys:
      require_data(e.data, "evidence: data");
      check_size(e.kv_heads, "evidence: kv_heads");
      check_size(e.head_dim, "evidence: head_dim");
      not_below(e.stride, e.kv_heads * e.head_dim, "evidence: stride");
      return key_view{e.data, e.kv_heads, e.head_dim, e.stride, plan.active};
    case evidence_kind::values:
      require_data(e.values, "evidence: values");
      check_heads(e);
      not_below(e.values_stride, e.kv_heads * e.head_dim, "evidence: values_stride");
      return value_view{probabilities_of(s, e, 1).query(0), e.values, e.kv_heads, e.head_dim, e.values_stride};
    case evidence_kind::hidden:
      require_data(e.data, "evidence: data");
      not_below(e.hidden, 1, "evidence: hidden");
      not_below(e.stride, e.hidden, "evidence: stride");
      return hidden_view{e.data, e.hidden, e.stride, plan.rows, plan.active};
    case evidence_kind::ids:
      require_data(e.ids, "evidence: ids");
      if (e.ids_count != s.session.known())
        wrong("evidence: ids_count", std::to_string(s.session.known()) + ", one of each known token", std::to_string(e.ids_count));
      return id_view{{e.ids, e.ids_count}, plan.active};
  }
  return {};
}

/// As much of a text as there is room for, with a 0 at its end, and the length of all of it.
void write_text(const std::string& text, char* out, size_t room, size_t* length) {
  given(length, "length");
  if (room > 0) {
    const std::size_t copied = std::min(text.size(), room - 1);
    std::memcpy(&given(out, "out"), text.data(), copied);
    out[copied] = '\0';
  }
  *length = text.size();
}

}  // namespace

extern "C" {

const char* lazyprune_version(void) { return LAZYPRUNE_VERSION_STRING; }
uint32_t lazyprune_abi(void) { return LAZYPRUNE_ABI; }

lazyprune_status lazyprune_registry_create(lazyprune_registry** out) {
  return guarded([&] { hand_out(out, shipped_policies()); });
}

void lazyprune_registry_free(lazyprune_registry* registry) { delete registry; }

lazyprune_status lazyprune_registry_add_scorer(lazyprune_registry* registry, const char* name, const lazyprune_scorer* scorer) {
  return guarded([&] {
    const lazyprune_scorer s = read(scorer, "scorer");
    if (s.wants > LAZYPRUNE_IDS) wrong("scorer: wants", "a kind of evidence, 0 to 6", std::to_string(s.wants));
    if ((s.wants == LAZYPRUNE_WINDOW) != (s.window > 0))
      wrong("scorer: window", "queries where it wants a window, else 0", std::to_string(s.window));
    if (s.wants == LAZYPRUNE_NOTHING && s.every_layer != 0)
      wrong("scorer: every_layer", "0 of a scorer that wants no evidence", std::to_string(s.every_layer));
    if (!s.score) wrong("scorer: score", "a function", "null");
    if (s.over_heads > LAZYPRUNE_MAX)
      wrong("scorer: over_heads", "each, their mean or their maximum, 0 to 2", std::to_string(s.over_heads));
    if (s.reserved != 0) wrong("scorer: reserved", "0", std::to_string(s.reserved));
    given(registry, "registry").policies.add(&given(name, "name"), any_scorer(caller_scorer(s)));
  });
}

lazyprune_status lazyprune_registry_add_schedule(lazyprune_registry* registry, const char* name, const lazyprune_schedule* schedule) {
  return guarded([&] {
    const lazyprune_schedule s = read(schedule, "schedule");
    if (s.reserved != 0) wrong("schedule: reserved", "0", std::to_string(s.reserved));
    if (!s.keep) wrong("schedule: keep", "a function", "null");
    given(registry, "registry").policies.add(&given(name, "name"), any_schedule(caller_schedule(s)));
  });
}

lazyprune_status lazyprune_scratch_create(lazyprune_scratch** out) {
  return guarded([&] { hand_out(out, std::make_shared<selection_scratch>()); });
}

void lazyprune_scratch_free(lazyprune_scratch* scratch) { delete scratch; }

lazyprune_status lazyprune_session_create(const lazyprune_registry* registry, const char* policy, const lazyprune_session_options* options,
                                          lazyprune_session** out) {
  return guarded([&] {
    const lazyprune_session_options o = read(options, "options");
    const policy_spec spec = parse_policy(&given(policy, "policy"));
    const auto scratch = o.scratch ? o.scratch->memory : nullptr;
    hand_out(out, scratch,
             make_session(spec, layers_of(o), {.layers = o.layers, .max_tokens = o.max_tokens, .scratch = scratch.get()},
                          policies_of(registry)));
  });
}

void lazyprune_session_free(lazyprune_session* session) { delete session; }

lazyprune_status lazyprune_policy_text(const lazyprune_registry* registry, const char* policy, const lazyprune_session_options* options,
                                       char* out, size_t room, size_t* length) {
  return guarded([&] {
    const lazyprune_session_options o = read(options, "options");
    write_text(text(parse_policy(&given(policy, "policy")), layers_of(o), policies_of(registry)), out, room, length);
  });
}

lazyprune_status lazyprune_policy_help(const lazyprune_registry* registry, char* out, size_t room, size_t* length) {
  return guarded([&] {
    const policy_registry& all = policies_of(registry);
    write_text("presets: " + all.preset_help() + "\nscorers: " + all.scorers().help() + "\nschedules, in the place of stages: " +
                   all.schedules().help() + "\nselectors: " + all.selectors().help() + "\nstores: " + all.stores().help() + "\n",
               out, room, length);
  });
}

lazyprune_status lazyprune_session_clone(const lazyprune_session* session, lazyprune_session** out) {
  return guarded([&] { hand_out(out, given(session, "session").scratch, session->session.clone()); });
}

lazyprune_status lazyprune_session_reserve(lazyprune_session* session, size_t max_tokens) {
  return guarded([&] { given(session, "session").session.reserve(max_tokens); });
}

lazyprune_status lazyprune_session_reset(lazyprune_session* session) {
  return guarded([&] {
    given(session, "session").session.reset();
    session->end_step();
  });
}

lazyprune_status lazyprune_session_abandon(lazyprune_session* session) {
  return guarded([&] {
    given(session, "session").session.abandon();
    session->end_step();
  });
}

lazyprune_status lazyprune_session_truncate(lazyprune_session* session, size_t tokens) {
  return guarded([&] { given(session, "session").session.truncate(tokens); });
}

lazyprune_status lazyprune_session_adopt(lazyprune_session* session, size_t tokens) {
  return guarded([&] { given(session, "session").session.adopt(tokens); });
}

lazyprune_status lazyprune_session_take_over(lazyprune_session* session, const lazyprune_session* other) {
  return guarded([&] { given(session, "session").session.take_over(given(other, "other").session); });
}

lazyprune_status lazyprune_session_chunk_layers(const lazyprune_session* session, uint32_t phase, uint32_t* layers) {
  return guarded([&] { given(layers, "layers") = given(session, "session").session.chunk_layers(read_phase(phase)); });
}

lazyprune_status lazyprune_session_get_state(const lazyprune_session* session, lazyprune_session_state* out) {
  return guarded([&] {
    const any_session& s = given(session, "session").session;
    const frontier_table& tokens = s.tokens();
    written(out, "out")
        .fill({0, s.layers(), s.known(), tokens.slots(), tokens.stored_count(), tokens.waiting_slots(), tokens.waiting_count(),
               tokens.lost_count()});
  });
}

lazyprune_status lazyprune_session_get_token(const lazyprune_session* session, uint32_t position, lazyprune_token* out) {
  return guarded([&] {
    const frontier_table& t = given(session, "session").session.tokens();
    if (position >= t.known()) wrong("position", "below the tokens known (" + std::to_string(t.known()) + ")", std::to_string(position));
    const bool has_slot = t.has_slot(position);
    const uint32_t place = !has_slot ? LAZYPRUNE_CARRIED : t.waiting(position) ? LAZYPRUNE_WAITING : LAZYPRUNE_STORED;
    written(out, "out")
        .fill({0, t.frontier(position), place, has_slot ? t.slot(position) : 0, t.lost(position) ? 1u : 0u, t.gone(position) ? 1u : 0u,
               t.score(position), 0});
  });
}

lazyprune_status lazyprune_session_get_statistics(const lazyprune_session* session, lazyprune_statistics* out) {
  return guarded([&] {
    const any_session& s = given(session, "session").session;
    const statistics& sums = s.stats();
    written(out, "out")
        .fill({0, s.layers(), sums.steps, sums.rows, sums.dense_rows, sums.revived, sums.prefill_rows.data(),
               sums.prefill_dense_rows.data()});
  });
}

lazyprune_status lazyprune_session_get_losses(const lazyprune_session* session, const uint32_t** positions, size_t* count) {
  return guarded([&] {
    const std::span<const position> losses = given(session, "session").session.losses();
    given(count, "count");
    given(positions, "positions") = losses.data();
    *count = losses.size();
  });
}

lazyprune_status lazyprune_step_check(const lazyprune_session* session, const lazyprune_request* request) {
  return guarded([&] { given(session, "session").session.check(read_request(request)); });
}

lazyprune_status lazyprune_step_begin(lazyprune_session* session, const lazyprune_request* request, uint32_t* layers) {
  return guarded([&] {
    const step_request r = read_request(request);
    given(layers, "layers");
    given(session, "session").step.emplace(session->session.begin(r));
    *layers = session->step->layers();
  });
}

lazyprune_status lazyprune_step_enter(lazyprune_session* session, uint32_t layer, lazyprune_plan* out) {
  return guarded([&] {
    step<any_session>& step = step_of(session, "enter");
    const auto out_of_order = [&](const std::string& expected) {
      report_error(error("session", "enter", expected, "layer " + std::to_string(layer), error_code::wrong_order));
    };
    if (session->inside) out_of_order("layer " + std::to_string(session->inside->layer) + " left");
    if (session->next == step.layers()) out_of_order("no layer, all " + std::to_string(step.layers()) + " are left");
    if (layer != session->next) out_of_order("layer " + std::to_string(session->next));
    const written to(out, "out");
    const layer_plan& plan = step.enter(layer);
    session->inside = &plan;
    to.fill({0, plan.layer, plan.active.data(), plan.active.size(), plan.rows.data(),
             reinterpret_cast<const lazyprune_source*>(plan.sources.data()), plan.rows.size(), plan.finish,
             static_cast<uint32_t>(step.wants()), step.wants() == evidence_kind::window ? static_cast<uint32_t>(step.window()) : 0,
             read_of_heads(step.over_heads()), 0});
  });
}

lazyprune_status lazyprune_step_pages(const lazyprune_session* session, size_t size, uint32_t* pages, size_t room, size_t* count) {
  return guarded([&] {
    not_below(size, 1, "size");
    if (room > 0) given(pages, "pages");
    if (!given(session, "session").step) report_error(error("session", "pages", "a step that was begun", "none", error_code::wrong_order));
    given(count, "count") = session->step->pages(size, {pages, room});
  });
}

lazyprune_status lazyprune_step_leave(lazyprune_session* session, const lazyprune_evidence* shown, lazyprune_spills* out) {
  return guarded([&] {
    step<any_session>& step = step_of(session, "leave");
    if (!session->inside) report_error(error("session", "leave", "a layer that was entered", "none", error_code::wrong_order));
    const written to(out, "out");
    step.leave(read_evidence(*session, shown));
    session->inside = nullptr;
    ++session->next;
    to.fill({0, step.margin(), reinterpret_cast<const lazyprune_spill*>(step.spills().data()), step.spills().size()});
  });
}

lazyprune_status lazyprune_step_finish(lazyprune_session* session) {
  return guarded([&] {
    step<any_session>& step = step_of(session, "finish");
    if (session->inside || session->next < step.layers())
      report_error(error("session", "finish", "all " + std::to_string(step.layers()) + " layers left", std::to_string(session->next),
                         error_code::wrong_order));
    step.finish();
    session->end_step();
  });
}

}  // extern "C"
