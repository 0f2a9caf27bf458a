// SPDX-License-Identifier: MIT
// The C library: it implements lazyprune/c/lazyprune.h with the C++ sessions. Compile it to a shared library that exports only the
// functions of that header (lazyprune.map does this on Linux):
//   c++ -std=c++20 -O2 -fPIC -shared -fvisibility=hidden -Wl,--version-script=lazyprune.map -I include lazyprune.cpp -o liblazyprune.so

#define LAZYPRUNE_MAKES_C_LIBRARY
#include <lazyprune/c/lazyprune.h>

#include <lazyprune/core/finite.hpp>
#include <lazyprune/registry/make_session.hpp>
#include <lazyprune/registry/shipped_policies.hpp>
#include <lazyprune/session/finite_evidence.hpp>
#include <lazyprune/session/query_attention.hpp>
#include <lazyprune/version.hpp>

#include <algorithm>
#include <array>
#include <charconv>
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
#include <variant>
#include <vector>

struct lazyprune_registry {
  lazyprune::policy_registry policies;
};

struct lazyprune_scratch {
  std::shared_ptr<lazyprune::selection_scratch> memory;
};

struct lazyprune_session {
  std::shared_ptr<lazyprune::selection_scratch> scratch;  // destroyed last, because the session uses it
  lazyprune::any_session session;

  // The step in progress.
  std::optional<lazyprune::step<lazyprune::any_session>> step{};
  lazyprune::layer_id next = 0;                   // the next layer to enter
  const lazyprune::layer_plan* inside = nullptr;  // the plan of the layer that was entered and not left, or null
  std::vector<float> probabilities{};             // computed from queries and keys
  std::vector<float> probed{};                    // (probes, active): reduced from `probabilities`
  std::vector<lazyprune_probe> probes{};          // of the entered layer
  std::vector<lazyprune::layer_counts> counts{};  // of the layers after the entered one; has room for all layers of the model
  bool broken = false;                            // a callback failed in this step
  uint32_t checks = 0;                            // lazyprune_session_options::checks

  void end_step() noexcept {
    step.reset();
    next = 0;
    inside = nullptr;
    broken = false;
  }
};

namespace {

using namespace lazyprune;

// The C structs have the layout of the C++ types, and the C constants have the C++ values. So a plan's arrays are handed out without a
// copy.
static_assert(std::is_standard_layout_v<row_source> && sizeof(row_source) == sizeof(lazyprune_source) &&
              offsetof(row_source, from) == offsetof(lazyprune_source, origin) &&
              offsetof(row_source, index) == offsetof(lazyprune_source, index));
static_assert(std::is_standard_layout_v<spill> && sizeof(spill) == sizeof(lazyprune_spill) &&
              offsetof(spill, row) == offsetof(lazyprune_spill, row) && offsetof(spill, slot) == offsetof(lazyprune_spill, slot) &&
              offsetof(spill, from) == offsetof(lazyprune_spill, origin) && offsetof(spill, to) == offsetof(lazyprune_spill, to));
static_assert(static_cast<int>(row_source::origin::embedding) == LAZYPRUNE_EMBEDDING &&
              static_cast<int>(row_source::origin::carried) == LAZYPRUNE_CARRIED &&
              static_cast<int>(row_source::origin::stored) == LAZYPRUNE_STORED &&
              static_cast<int>(row_source::origin::waiting) == LAZYPRUNE_WAITING);
static_assert(static_cast<int>(phase::prefill) == LAZYPRUNE_PREFILL && static_cast<int>(phase::decode) == LAZYPRUNE_DECODE);
static_assert(static_cast<int>(evidence_kind::none) == LAZYPRUNE_NOTHING &&
              static_cast<int>(evidence_kind::attention) == LAZYPRUNE_ATTENTION &&
              static_cast<int>(evidence_kind::window) == LAZYPRUNE_WINDOW && static_cast<int>(evidence_kind::keys) == LAZYPRUNE_KEYS &&
              static_cast<int>(evidence_kind::values) == LAZYPRUNE_VALUES && static_cast<int>(evidence_kind::hidden) == LAZYPRUNE_HIDDEN &&
              static_cast<int>(evidence_kind::ids) == LAZYPRUNE_IDS && static_cast<int>(evidence_kind::probes) == LAZYPRUNE_PROBES);
static_assert(static_cast<int>(head_reduction::mean) + 1 == LAZYPRUNE_MEAN && static_cast<int>(head_reduction::max) + 1 == LAZYPRUNE_MAX);
static_assert(sizeof(candidacy) == sizeof(uint32_t) && static_cast<int>(candidacy::open) == LAZYPRUNE_OPEN &&
              static_cast<int>(candidacy::required) == LAZYPRUNE_REQUIRED && static_cast<int>(candidacy::excluded) == LAZYPRUNE_EXCLUDED);
static_assert(everything == LAZYPRUNE_EVERYTHING && all_with_keys == LAZYPRUNE_ALL_WITH_KEYS);

uint32_t read_of_heads(std::optional<head_reduction> reduction) {
  return reduction ? static_cast<uint32_t>(*reduction) + 1 : static_cast<uint32_t>(LAZYPRUNE_EACH);
}

uint32_t over_queries(query_reduction reduction) {
  switch (reduction) {
    case query_reduction::last:
      return LAZYPRUNE_LAST;
    case query_reduction::max:
      return LAZYPRUNE_MAX;
    case query_reduction::mean:
      break;
  }
  return LAZYPRUNE_MEAN;
}

// ---- status ----

constexpr std::size_t line_room = 1024;

lazyprune_status failed(int32_t code, const char* message) noexcept {
  thread_local char line[line_room];
  std::snprintf(line, sizeof line, "%s", message);
  return {code, 0, line};
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

/// The failure of a callback. Policies cannot throw, so the failure is kept here until the call that asked the policy returns. It needs no
/// destructor: a thread-local object with a destructor would keep the library loaded after dlclose.
struct callback_failure {
  int32_t code;
  std::array<char, line_room> message;
};
thread_local std::optional<callback_failure> failed_callback;
static_assert(std::is_trivially_destructible_v<std::optional<callback_failure>>);

constexpr std::size_t message_room = 512;

/// Runs `callback(message)`. Returns whether it succeeded, and remembers a failure in `failed_callback`. `message` has room for
/// `message_room` bytes.
template <class Callback>
bool succeeds(const char* kind, const std::string& name, const Callback& callback) {
  std::array<char, message_room> message{};
  const int32_t code = callback(message.data());
  if (code == LAZYPRUNE_OK) return true;
  message.back() = '\0';
  for (char& c : message)
    if (c == '\n' || c == '\r') c = ' ';
  if (!message[0]) std::snprintf(message.data(), message.size(), "failed with code %d", static_cast<int>(code));
  callback_failure& failure = failed_callback.emplace(callback_failure{code, {}});
  std::snprintf(failure.message.data(), failure.message.size(), "%s: %s: %s", kind, name.c_str(), message.data());
  return false;
}

/// Runs a call of the library and turns exceptions into a status.
template <class Work>
lazyprune_status guarded(const Work& work) noexcept {
  try {
    work();
    return {LAZYPRUNE_OK, 0, ""};
  } catch (const callback_failure& fault) {
    return failed(fault.code, fault.message.data());
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
  std::abort();  // not reached: report_error throws
}

template <class T>
T& given(T* pointer, const char* name) {
  if (!pointer) wrong(name, "a pointer", "null");
  return *pointer;
}

void not_below(std::size_t found, std::size_t least, const char* place) {
  if (found < least) wrong(place, "at least " + std::to_string(least), std::to_string(found));
}

/// The size in bytes that a struct had in ABI 1: up to the end of its last member at that time. Every caller's struct is at least this
/// large.
template <class T>
constexpr std::size_t first_size = sizeof(T);
// NOLINTBEGIN(bugprone-macro-parentheses): `last` names a member
#define LAZYPRUNE_FIRST_SIZE(type, last) \
  template <>                            \
  constexpr std::size_t first_size<type> = offsetof(type, last) + sizeof(type::last)
// NOLINTEND(bugprone-macro-parentheses)
LAZYPRUNE_FIRST_SIZE(lazyprune_evidence, chosen_scores);
LAZYPRUNE_FIRST_SIZE(lazyprune_scorer, destroy);
LAZYPRUNE_FIRST_SIZE(lazyprune_schedule, destroy);
LAZYPRUNE_FIRST_SIZE(lazyprune_session_options, reserved);
LAZYPRUNE_FIRST_SIZE(lazyprune_session_state, lost);
LAZYPRUNE_FIRST_SIZE(lazyprune_token, reserved);
LAZYPRUNE_FIRST_SIZE(lazyprune_statistics, prefill_dense_rows);
LAZYPRUNE_FIRST_SIZE(lazyprune_request, outputs);
LAZYPRUNE_FIRST_SIZE(lazyprune_plan, quota);
LAZYPRUNE_FIRST_SIZE(lazyprune_spills, count);
#undef LAZYPRUNE_FIRST_SIZE

/// Returns the struct_size that the caller set. Throws `error` for sizes that no version has. An uninitialized struct_size is usually such
/// a size.
template <class T>
std::size_t size_of(const T* pointer, const char* name) {
  constexpr std::size_t most = 4096;
  const std::size_t size = given(pointer, name).struct_size;
  if (size < first_size<T> || size > most)
    wrong(name, "a struct_size from " + std::to_string(first_size<T>) + " to " + std::to_string(most) + ", as its initializer writes it",
          std::to_string(size));
  return size;
}

/// Returns a copy of the caller's struct. Members that the caller does not know are 0. Throws `error` if a member that this library does
/// not know is not 0.
template <class T>
T read(const T* pointer, const char* name) {
  const std::size_t size = size_of(pointer, name);
  const auto* bytes = reinterpret_cast<const unsigned char*>(pointer);
  if (size > sizeof(T) && std::any_of(bytes + sizeof(T), bytes + size, [](unsigned char byte) { return byte != 0; }))
    report_error(
        error(name, "struct_size", std::to_string(sizeof(T)) + ", or only zeros after it", std::to_string(size), error_code::unsupported));
  T value{};
  std::memcpy(&value, pointer, std::min(size, sizeof(T)));
  return value;
}

/// A struct of the caller that the library fills. The caller's version of this struct may be shorter or longer. The constructor checks the
/// struct's size before the call does anything, so `fill` cannot fail.
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

/// Owns the caller's `user` pointer after `take()`: calls `destroy(user)` when the last policy that uses the pointer is destroyed. If
/// adding the policy fails, `take()` is not called, and the pointer still belongs to the caller.
class callers_own {
 public:
  callers_own(const char* name, void* user, void (*destroy)(void*)) : name_(name), user_(user), destroy_(destroy) {}
  callers_own(const callers_own&) = delete;
  callers_own& operator=(const callers_own&) = delete;
  ~callers_own() {
    if (destroy_ && taken_) destroy_(user_);
  }

  void take() noexcept { taken_ = true; }
  const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
  void* user_;
  void (*destroy_)(void*);
  bool taken_ = false;
};

class caller_scorer {
 public:
  caller_scorer(const lazyprune_scorer& scorer, std::shared_ptr<callers_own> own) : scorer_(scorer), own_(std::move(own)) {}

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
    all.message_room = message_room;
    const bool scored = succeeds("scorer", own_->name(), [&](char* message) {
      all.message = message;
      return scorer_.score(scorer_.user, &all, out.data());
    });
    if (!scored) std::ranges::fill(out, 0.0f);  // these scores decide nothing: see every_token_if_failed
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
  static void show(const probe_view&, lazyprune_shown&, lazyprune_evidence&) {}  // no scorer of the caller has probes
  static void show(const id_view& view, lazyprune_shown& all, lazyprune_evidence& now) {
    now.ids = view.ids.data();
    now.ids_count = view.ids.size();
    all.known = view.ids.size();
  }

  lazyprune_scorer scorer_;
  std::shared_ptr<callers_own> own_;
};
static_assert(chosen_scorer<caller_scorer>);

class caller_schedule {
 public:
  caller_schedule(const lazyprune_schedule& schedule, std::shared_ptr<callers_own> own) : schedule_(schedule), own_(std::move(own)) {
    if (schedule.after) after_.emplace(schedule.after, schedule.after + schedule.after_count);
    schedule_.after = nullptr;  // the caller may free its array after the call
  }

  bool sees_scores() const { return schedule_.sees_scores != 0; }
  std::size_t keep(const layer_context& context) const { return keep(context, {}); }
  std::size_t keep(const layer_context& context, std::span<const float> scores) const {
    if (!prunes_after(context.done, context.step, context.layers) || failed_callback) return everything;
    lazyprune_layer layer{};
    layer.struct_size = sizeof layer;
    layer.done = context.done;
    layer.layers = context.layers;
    layer.phase = static_cast<uint32_t>(context.step);
    layer.active = context.active;
    layer.known = context.known;
    layer.message_room = message_room;
    std::size_t kept = everything;
    const bool answered = succeeds("schedule", own_->name(), [&](char* message) {
      layer.message = message;
      return schedule_.keep(schedule_.user, &layer, scores.data(), &kept);
    });
    return answered ? kept : everything;
  }
  layer_id first(phase, layer_id) const { return schedule_.first; }

  bool prunes_after(layer_id done, phase, layer_id) const {
    return done >= schedule_.first && (!after_ || std::ranges::binary_search(*after_, done));
  }

 private:
  lazyprune_schedule schedule_;
  std::shared_ptr<callers_own> own_;
  std::optional<std::vector<layer_id>> after_;
};
static_assert(chosen_schedule<caller_schedule> && foretelling_schedule<caller_schedule>);

/// Selects like the policy's selector, but keeps every token if the scorer failed, because the scores then mean nothing.
struct every_token_if_failed {
  any_selector selector;

  std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const {
    if (!failed_callback) return selector.select(c, kept);
    for (std::size_t i = 0; i < c.scores.size(); ++i) kept[i] = static_cast<std::uint32_t>(i);
    return c.scores.size();
  }
  std::optional<kept_count> count(const candidates& c) const { return selector.count(c); }
};
static_assert(counting_selector<every_token_if_failed>);

/// Runs work that may call the caller's callbacks. If a callback fails, marks the step as broken and throws the callback's failure.
template <class Work>
void asking(lazyprune_session& session, const Work& work) {
  failed_callback.reset();
  work();
  if (!failed_callback) return;
  session.broken = true;
  const callback_failure fault = *failed_callback;
  failed_callback.reset();
  throw fault;
}

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
  if (r.outputs == LAZYPRUNE_OUTPUTS_UNSET)
    wrong("request: outputs", "1 for the last piece of a prompt or a generated token, or 0 for a piece that more pieces follow", "none");
  return {r.tokens, read_phase(r.phase), r.outputs};
}

/// Writes a new handle to `*out`, or null if an exception is thrown.
template <class Handle, class... Parts>
void hand_out(Handle** out, Parts&&... parts) {
  given(out, "out") = nullptr;
  *out = new Handle{std::forward<Parts>(parts)...};
}

/// Writes a new session to `*out`, or null if an exception is thrown. Later steps need no memory for their counts and probes. `probes`: the
/// largest number of probes of a layer.
void hand_out_session(lazyprune_session** out, const std::shared_ptr<selection_scratch>& scratch, any_session session, std::size_t probes,
                      uint32_t checks) {
  given(out, "out") = nullptr;
  lazyprune_session* made = nullptr;
  hand_out(&made, scratch, std::move(session));
  std::unique_ptr<lazyprune_session> handle(made);
  handle->counts.reserve(handle->session.layers());
  handle->probes.reserve(probes);
  handle->checks = checks;
  *out = handle.release();
}

step<any_session>& step_of(lazyprune_session* session, const char* what) {
  if (!given(session, "session").step) report_error(error("session", what, "a step that was begun", "none", error_code::wrong_order));
  if (session->broken)
    report_error(error("session", what, "abandon() or reset()", "a step in which a callback failed", error_code::wrong_order));
  return *session->step;
}

// ---- evidence ----

std::string kind_name(uint32_t kind) {
  return kind <= LAZYPRUNE_PROBES ? std::string(name_of(static_cast<evidence_kind>(kind))) : "kind " + std::to_string(kind);
}

void require_data(const void* data, const char* place) {
  if (!data) wrong(place, "a pointer to numbers", "null");
}

/// Checks a number of heads or the width of a head. The limit keeps products of these sizes from overflowing.
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

/// An array of the caller: rows of `width` numbers. Rows begin `stride` numbers apart.
struct callers_rows {
  const float* data;
  std::size_t count;  // size of the array in numbers; 0: unknown
  std::size_t rows;
  std::size_t width;
  std::size_t stride;
};

/// Returns whether an array of `count` numbers holds `rows` rows. The arithmetic cannot overflow.
bool holds(std::size_t count, std::size_t rows, std::size_t width, std::size_t stride) {
  return rows == 0 || (count >= width && (rows == 1 || stride <= (count - width) / (rows - 1)));
}

/// Throws `error` if the array is too short for its rows. `shape()` describes the rows in the message. It is called for the error only,
/// because a step without errors may not allocate.
template <class Shape>
void check_count(const callers_rows& r, const char* place, const Shape& shape) {
  if (r.count == 0 || holds(r.count, r.rows, r.width, r.stride)) return;
  const bool by_bytes =
      r.stride % sizeof(float) == 0 && r.stride / sizeof(float) >= r.width && holds(r.count, r.rows, r.width, r.stride / sizeof(float));
  wrong(place,
        shape() + ", that is " + std::to_string(r.rows) + " rows of " + std::to_string(r.width) + " numbers, " + std::to_string(r.stride) +
            " apart",
        std::to_string(r.count) + " numbers" + (by_bytes ? " (strides count floats, not bytes)" : ""));
}

/// Returns the index of the first number that is not finite, or nullopt if all are finite.
std::optional<std::size_t> not_finite(const float* data, std::size_t count) {
  if (lazyprune::all_finite(std::span<const float>(data, count))) return {};
  return static_cast<std::size_t>(std::find_if(data, data + count, [](float x) { return !is_finite(x); }) - data);
}

std::string at_position(float found, position token) {
  return std::string(is_nan(found) ? "NaN" : found > 0 ? "infinity" : "-infinity") + " at position " + std::to_string(token);
}

/// Throws `error` if a number is not finite. Row i belongs to `tokens[i]`.
void check_finite(const callers_rows& r, std::span<const position> tokens, const char* place) {
  for (std::size_t i = 0; i < r.rows; ++i)
    if (const auto at = not_finite(r.data + i * r.stride, r.width))
      wrong(place, "finite numbers", at_position(r.data[i * r.stride + *at], tokens[i]));
}

std::string row_of_head(std::size_t row, std::size_t heads, std::size_t queries) {
  return (queries > 1 ? "query " + std::to_string(row / heads) + ", " : "") + "head " + std::to_string(row % heads);
}

/// Throws `error` if one of the probabilities (queries, heads, active) is not finite.
void check_finite(const window_view& p) {
  for (std::size_t r = 0; r < p.queries * p.heads; ++r)
    if (const auto at = not_finite(p.data + r * p.stride, p.active()))
      wrong("evidence: data", "finite numbers",
            at_position(p.data[r * p.stride + *at], p.positions[*at]) + ", " + row_of_head(r, p.heads, p.queries));
}

/// Does the checks of LAZYPRUNE_CHECK_ATTENTION. `last`: the positions of the queries. `is_maximum`: each row is the maximum over the
/// heads, so it sums to 1 or more.
void check_attention(const window_view& p, std::span<const position> last, bool is_maximum) {
  constexpr double tolerance = 0.02;  // more than the error of rounding to bfloat16
  const auto text = [](double number) {
    std::array<char, 32> digits{};  // std::snprintf would write the decimal point of the process's locale
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, std::chars_format::general, 6).ptr;
    return std::string(digits.data(), end);
  };
  for (std::size_t r = 0; r < p.queries * p.heads; ++r) {
    const float* row = p.data + r * p.stride;
    const position query = last[r / p.heads];
    double sum = 0.0;
    for (std::size_t i = 0; i < p.active(); ++i) {
      const auto refuse = [&](const char* expected) {
        wrong("evidence: data", expected,
              text(row[i]) + " at position " + std::to_string(p.positions[i]) + ", " + row_of_head(r, p.heads, p.queries));
      };
      if (row[i] < 0.0f) refuse("probabilities");
      if (p.positions[i] > query && row[i] != 0.0f) refuse("0 where the query does not see the token");
      sum += row[i];
    }
    if (sum < 1.0 - tolerance || (sum > 1.0 + tolerance && !is_maximum))
      wrong("evidence: data", "probabilities that sum to 1 over the active tokens",
            text(sum) + " in " + row_of_head(r, p.heads, p.queries));
  }
}

/// Computes probabilities (queries, heads, active) from the caller's queries and keys.
window_view computed_probabilities(lazyprune_session& s, const lazyprune_evidence& e, std::size_t queries) {
  const layer_plan& plan = *s.inside;
  const std::size_t active = plan.active.size(), width = e.kv_heads * e.head_dim;
  const callers_rows query{e.query, e.query_count, queries, e.heads * e.head_dim,
                           e.query_stride > 0 ? e.query_stride : e.heads * e.head_dim};
  callers_rows keys{e.keys, e.keys_count, active, width, e.keys_stride > 0 ? e.keys_stride : width};
  not_below(query.stride, query.width, "evidence: query_stride");
  not_below(keys.stride, keys.width, "evidence: keys_stride");
  check_count(query, "evidence: query", [&] {
    return "queries " + std::to_string(queries) + " x heads " + std::to_string(e.heads) + " x head_dim " + std::to_string(e.head_dim);
  });
  if (e.key_slots && e.key_slots_count > 0 && e.key_slots_count != active)
    wrong("evidence: key_slots", std::to_string(active) + ", one for each active token", std::to_string(e.key_slots_count));
  if (e.key_slots) keys.rows = *std::max_element(e.key_slots, e.key_slots + active) + std::size_t{1};
  check_count(keys, "evidence: keys", [&] {
    return (e.key_slots ? "slots up to the last of key_slots, " : "a slot for each active token, ") + std::to_string(keys.rows) +
           " x kv_heads " + std::to_string(e.kv_heads) + " x head_dim " + std::to_string(e.head_dim);
  });
  check_finite(query, plan.rows.last(queries), "evidence: query");

  s.probabilities.resize(queries * e.heads * active);
  const std::span<const uint32_t> slots{e.key_slots, e.key_slots ? active : 0};
  return query_attention(e.query, query.stride, e.heads, key_rows<float>{e.keys, e.kv_heads, e.head_dim, keys.stride, slots}, plan.active,
                         plan.rows.last(queries), s.probabilities.data());
}

void require_attention(const lazyprune_evidence& e) {
  if (!e.data && (!e.query || !e.keys)) wrong("evidence: data", "probabilities, or a query and keys", "null");
}

/// Returns the caller's probabilities (queries, heads, active), or computes them from the caller's queries and keys.
window_view probabilities_of(lazyprune_session& s, const lazyprune_evidence& e, std::size_t queries) {
  const layer_plan& plan = *s.inside;
  const std::size_t active = plan.active.size();
  check_size(e.heads, "evidence: heads");
  if (!e.data) {
    check_heads(e);
    return computed_probabilities(s, e, queries);
  }
  not_below(e.stride, active, "evidence: stride");
  check_count({e.data, e.data_count, queries * e.heads, active, e.stride}, "evidence: data", [&] {
    return "queries " + std::to_string(queries) + " x heads " + std::to_string(e.heads) + " x active " + std::to_string(active);
  });
  const window_view shown{e.data, queries, e.heads, e.stride, plan.active};
  check_finite(shown);
  if ((s.checks & LAZYPRUNE_CHECK_ATTENTION) != 0)
    check_attention(shown, plan.rows.last(queries), e.heads == 1 && s.step->over_heads() == head_reduction::max);
  return shown;
}

/// Checks keys or values of the active tokens, or hidden states of the rows.
template <class Shape>
void check_rows(const callers_rows& r, std::span<const position> tokens, const char* place, const Shape& shape) {
  check_count(r, place, shape);
  check_finite(r, tokens, place);
}

/// Returns the caller's rows (probes, active), or computes them from the caller's queries and keys.
probe_view probes_of(lazyprune_session& s, const lazyprune_evidence& e) {
  const layer_plan& plan = *s.inside;
  const std::size_t active = plan.active.size(), count = s.step->probes().size();
  if (e.data) {
    not_below(e.stride, active, "evidence: stride");
    const callers_rows rows{e.data, e.data_count, count, active, e.stride};
    check_count(rows, "evidence: data", [&] { return "probes " + std::to_string(count) + " x active " + std::to_string(active); });
    for (std::size_t p = 0; p < count; ++p)
      if (const auto at = not_finite(e.data + p * e.stride, active))
        wrong("evidence: data", "finite numbers",
              at_position(e.data[p * e.stride + *at], plan.active[*at]) + ", probe " + std::to_string(p));
    return {e.data, count, e.stride, plan.active};
  }
  if (!e.query || !e.keys) wrong("evidence: data", "the rows of plan.probes, or queries and keys", "null");
  check_heads(e);
  const window_view all = computed_probabilities(s, e, s.step->window());
  s.probed.resize(count * active);
  for (std::size_t p = 0; p < count; ++p) {
    const head_probe probe = s.step->probes()[p];
    if (probe.head >= e.heads)
      wrong("evidence: heads", "more than " + std::to_string(probe.head) + ", a probe's head", std::to_string(e.heads));
    reduce_queries(all.data + probe.head * all.stride, all.queries, all.heads * all.stride, probe.over, {&s.probed[p * active], active});
  }
  return {s.probed.data(), count, active, plan.active};
}

/// The evidence of a layer, or the tokens that the engine chose.
using shown_by_engine = std::variant<evidence, chosen_tokens>;

bool has_choice(const lazyprune_evidence& e) { return e.chosen || e.chosen_count > 0 || e.chosen_scores; }

/// Returns the engine's choice. Throws `error` if it is wrong.
chosen_tokens choice_of(lazyprune_session& s, const lazyprune_evidence& e) {
  if (s.step->quota()) {
    if (!e.chosen) wrong("evidence: chosen", "a pointer to indices", "null");
    if (e.data) wrong("evidence: data", "null, as there is a choice", "a pointer");
  }
  const std::size_t active = s.inside->active.size();
  const chosen_tokens chosen{{e.chosen, e.chosen_count}, {e.chosen_scores, e.chosen_scores ? active : 0}};
  s.step->check(chosen);
  return chosen;
}

shown_by_engine read_evidence(lazyprune_session& s, const lazyprune_evidence* pointer) {
  const evidence_kind wanted = s.step->wants();
  if (wanted == evidence_kind::none && (!pointer || !has_choice(read(pointer, "evidence")))) return {};
  const auto expected = [&] { return kind_name(static_cast<uint32_t>(wanted)) + ", as the plan wants"; };
  if (!pointer) wrong("evidence", expected(), "null");
  const lazyprune_evidence e = read(pointer, "evidence");
  if (wanted != evidence_kind::none && e.kind != static_cast<uint32_t>(wanted)) wrong("evidence", expected(), kind_name(e.kind));
  if (has_choice(e)) return choice_of(s, e);
  const layer_plan& plan = *s.inside;
  const auto heads_shape = [&] {
    return "active " + std::to_string(plan.active.size()) + " x kv_heads " + std::to_string(e.kv_heads) + " x head_dim " +
           std::to_string(e.head_dim);
  };
  switch (wanted) {
    case evidence_kind::none:
      break;
    case evidence_kind::attention:
      require_attention(e);
      return evidence(probabilities_of(s, e, 1).query(0));
    case evidence_kind::window:
      require_attention(e);
      if (e.queries != s.step->window())
        wrong("evidence: queries", std::to_string(s.step->window()) + ", as the plan's window says", std::to_string(e.queries));
      return evidence(probabilities_of(s, e, e.queries));
    case evidence_kind::keys:
      require_data(e.data, "evidence: data");
      check_size(e.kv_heads, "evidence: kv_heads");
      check_size(e.head_dim, "evidence: head_dim");
      not_below(e.stride, e.kv_heads * e.head_dim, "evidence: stride");
      check_rows({e.data, e.data_count, plan.active.size(), e.kv_heads * e.head_dim, e.stride}, plan.active, "evidence: data", heads_shape);
      return evidence(key_view{e.data, e.kv_heads, e.head_dim, e.stride, plan.active});
    case evidence_kind::values:
      require_data(e.values, "evidence: values");
      require_attention(e);
      check_heads(e);
      not_below(e.values_stride, e.kv_heads * e.head_dim, "evidence: values_stride");
      check_rows({e.values, e.values_count, plan.active.size(), e.kv_heads * e.head_dim, e.values_stride}, plan.active, "evidence: values",
                 heads_shape);
      return evidence(value_view{probabilities_of(s, e, 1).query(0), e.values, e.kv_heads, e.head_dim, e.values_stride});
    case evidence_kind::hidden:
      require_data(e.data, "evidence: data");
      not_below(e.hidden, 1, "evidence: hidden");
      not_below(e.stride, e.hidden, "evidence: stride");
      check_rows({e.data, e.data_count, plan.rows.size(), e.hidden, e.stride}, plan.rows, "evidence: data",
                 [&] { return "rows " + std::to_string(plan.rows.size()) + " x hidden " + std::to_string(e.hidden); });
      return evidence(hidden_view{e.data, e.hidden, e.stride, plan.rows, plan.active});
    case evidence_kind::ids:
      require_data(e.ids, "evidence: ids");
      if (e.ids_count != s.session.known())
        wrong("evidence: ids_count", std::to_string(s.session.known()) + ", one for each known token", std::to_string(e.ids_count));
      return evidence(id_view{{e.ids, e.ids_count}, plan.active});
    case evidence_kind::probes:
      return evidence(probes_of(s, e));
  }
  return {};
}

/// Writes as much of `text` to `out` as fits into `room` bytes together with a final 0. Writes the length of the whole text to `*length`.
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
    if (s.wants == LAZYPRUNE_PROBES)
      report_error(error("scorer", "wants", "a kind of evidence that a scorer of the caller can ask for, 0 to 6", "7 (probes)",
                         error_code::unsupported));
    if (s.wants > LAZYPRUNE_IDS) wrong("scorer: wants", "a kind of evidence, 0 to 6", std::to_string(s.wants));
    if ((s.wants == LAZYPRUNE_WINDOW) != (s.window > 0))
      wrong("scorer: window", "at least 1 if the scorer wants a window, else 0", std::to_string(s.window));
    if (s.wants == LAZYPRUNE_NOTHING && s.every_layer != 0)
      wrong("scorer: every_layer", "0 for a scorer that wants no evidence", std::to_string(s.every_layer));
    if (!s.score) wrong("scorer: score", "a function", "null");
    if (s.over_heads > LAZYPRUNE_MAX)
      wrong("scorer: over_heads", "each, their mean or their maximum, 0 to 2", std::to_string(s.over_heads));
    if (s.over_heads != LAZYPRUNE_EACH && s.wants != LAZYPRUNE_ATTENTION && s.wants != LAZYPRUNE_WINDOW)
      wrong("scorer: over_heads", "each (0) unless the scorer wants attention or a window", std::to_string(s.over_heads));
    if (s.reserved != 0) wrong("scorer: reserved", "0", std::to_string(s.reserved));
    const auto own = std::make_shared<callers_own>(&given(name, "name"), s.user, s.destroy);
    given(registry, "registry").policies.add(name, any_scorer(caller_scorer(s, own)));
    own->take();
  });
}

lazyprune_status lazyprune_registry_add_schedule(lazyprune_registry* registry, const char* name, const lazyprune_schedule* schedule) {
  return guarded([&] {
    const lazyprune_schedule s = read(schedule, "schedule");
    if (s.reserved != 0) wrong("schedule: reserved", "0", std::to_string(s.reserved));
    if (!s.keep) wrong("schedule: keep", "a function", "null");
    if (s.after && !std::is_sorted(s.after, s.after + s.after_count)) wrong("schedule: after", "ascending numbers", "another order");
    const auto own = std::make_shared<callers_own>(&given(name, "name"), s.user, s.destroy);
    given(registry, "registry").policies.add(name, any_schedule(caller_schedule(s, own)));
    own->take();
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
    if ((o.checks & ~static_cast<uint32_t>(LAZYPRUNE_CHECK_ATTENTION)) != 0)
      report_error(error("options", "checks", "1 (attention), or 0", std::to_string(o.checks), error_code::unsupported));
    if (o.reserved != 0) wrong("options: reserved", "0", std::to_string(o.reserved));
    const auto scratch = o.scratch ? o.scratch->memory : nullptr;
    policy_parts parts = parts_of(spec, layers_of(o), policies_of(registry));
    parts.selector = any_selector(every_token_if_failed{std::move(parts.selector)});
    const any_scorer scorer = parts.scorer;
    any_session made = make_session(std::move(parts), {.layers = o.layers, .max_tokens = o.max_tokens, .scratch = scratch.get()});
    std::size_t probes = 0;
    for (layer_id l = 0; l < o.layers; ++l) probes = std::max(probes, scorer.probes(l).size());
    hand_out_session(out, scratch, std::move(made), probes, o.checks);
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
  return guarded([&] {
    hand_out_session(out, given(session, "session").scratch, session->session.clone(), session->probes.capacity(), session->checks);
  });
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
        .fill({0, t.frontier(position), place, has_slot ? t.slot(position) : 0, t.lost(position) ? 1u : 0u,
               t.dropped_for_good(position) ? 1u : 0u, t.score(position), 0});
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
    if (session->inside) out_of_order("layer " + std::to_string(session->inside->layer) + " to be left first");
    if (session->next == step.layers()) out_of_order("finish, as all " + std::to_string(step.layers()) + " layers were left");
    if (layer != session->next) out_of_order("layer " + std::to_string(session->next));
    const written to(out, "out");
    asking(*session, [&] { session->inside = &step.enter(layer); });
    const layer_plan& plan = *session->inside;
    lazyprune_plan all = LAZYPRUNE_PLAN;
    all.layer = plan.layer;
    all.active = plan.active.data();
    all.active_count = plan.active.size();
    all.rows = plan.rows.data();
    all.rows_count = plan.rows.size();
    all.sources = reinterpret_cast<const lazyprune_source*>(plan.sources.data());
    all.finish = plan.output_rows;
    all.wants = static_cast<uint32_t>(step.wants());
    all.window = step.wants() == evidence_kind::window ? static_cast<uint32_t>(step.window()) : 0;
    all.over_heads = read_of_heads(step.over_heads());
    session->probes.clear();
    for (const head_probe& p : step.probes()) session->probes.push_back({p.head, over_queries(p.over)});
    all.probes = session->probes.empty() ? nullptr : session->probes.data();
    all.probes_count = session->probes.size();
    all.probe_rows = session->probes.empty() ? 0 : step.window();
    if (const auto quota = step.quota()) {
      all.quota = quota->count;
      all.quota_page = static_cast<uint32_t>(std::min<std::size_t>(quota->page, UINT32_MAX));
      all.needs_scores = quota->needs_scores ? 1 : 0;
      all.row_is_score = quota->row_is_score ? 1 : 0;
      all.stores_dropped = quota->stores_dropped ? 1 : 0;
    }
    to.fill(all);
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

lazyprune_status lazyprune_step_standing(lazyprune_session* session, uint32_t* standing, size_t room) {
  return guarded([&] {
    step<any_session>& step = step_of(session, "standing");
    given(standing, "standing");
    if (!step.quota()) report_error(error("session", "standing", "a layer with a quota", "none", error_code::wrong_order));
    not_below(room, session->inside->active.size(), "room");
    (void)step.quota({reinterpret_cast<candidacy*>(standing), room});
  });
}

lazyprune_status lazyprune_step_counts(lazyprune_session* session, lazyprune_layer_counts* counts, size_t room, size_t* count) {
  return guarded([&] {
    step<any_session>& step = step_of(session, "counts");
    if (room > 0) given(counts, "counts");
    given(count, "count");
    std::vector<layer_counts>& all = session->counts;
    all.resize(std::min<std::size_t>(room, step.layers()));
    std::size_t known = 0;
    asking(*session, [&] { known = step.counts(all); });
    for (std::size_t i = 0; i < std::min(known, all.size()); ++i)
      counts[i] = {all[i].layer, all[i].chooses ? 1u : 0u, all[i].active, all[i].output_rows, all[i].kept};
    *count = known;
  });
}

lazyprune_status lazyprune_step_slots(const lazyprune_session* session, uint32_t* slots, size_t count) {
  return guarded([&] {
    if (count > 0) given(slots, "slots");
    if (!given(session, "session").step) report_error(error("session", "slots", "a step that was begun", "none", error_code::wrong_order));
    for (std::size_t i = 0; i < count; ++i) slots[i] = session->step->slot_after(i);
  });
}

lazyprune_status lazyprune_step_leave(lazyprune_session* session, const lazyprune_evidence* shown, lazyprune_spills* out) {
  return guarded([&] {
    step<any_session>& step = step_of(session, "leave");
    if (!session->inside) report_error(error("session", "leave", "a layer that was entered", "none", error_code::wrong_order));
    const written to(out, "out");
    const shown_by_engine seen = read_evidence(*session, shown);
    asking(*session, [&] { std::visit([&](const auto& what) { step.leave(what); }, seen); });
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
