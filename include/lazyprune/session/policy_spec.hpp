// SPDX-License-Identifier: MIT
// A policy as the flags of the command line spell it, and what those flags mean for a model of so many layers.
//
//   --policy     lazyllm, static, random, streaming or dense: what the other flags are where they are not given
//   --stages     9:0.7,19:0.5: after 9 layers keep 70 % of the tokens then active, after 19 half of those; empty: never prune
//   --schedule   every, linear, cosine, budget or adaptive, in the place of stages
//   --scorer     last_query_attention, accumulated_attention, window_attention, prompt_window_attention, value_weighted_attention,
//                key_norm, recency, random
//   --selector   top_k, top_p, threshold, blocks
//   --store      keep_all, bounded, none
//   --keep-first, --keep-last   tokens that are never pruned
//   --decode     same; dense: only the prompt is pruned; only: only the steps after it are
//
// Parts are written NAME[:key=value,...]; the keys are the members of the policy of that name.
#pragma once

#include <algorithm>
#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/policy/one_of.hpp>
#include <lazyprune/policy/presets.hpp>
#include <lazyprune/policy/schedule/adaptive.hpp>
#include <lazyprune/policy/schedule/cosine.hpp>
#include <lazyprune/policy/schedule/every.hpp>
#include <lazyprune/policy/schedule/linear.hpp>
#include <lazyprune/policy/scorer/accumulated_attention.hpp>
#include <lazyprune/policy/scorer/key_norm.hpp>
#include <lazyprune/policy/scorer/prompt_window_attention.hpp>
#include <lazyprune/policy/scorer/value_weighted_attention.hpp>
#include <lazyprune/policy/scorer/window_attention.hpp>
#include <lazyprune/policy/selector/blocks.hpp>
#include <lazyprune/policy/selector/threshold.hpp>
#include <lazyprune/policy/selector/top_p.hpp>
#include <lazyprune/policy/store/bounded.hpp>

namespace lazyprune {
inline namespace v0 {

/// The flags as they were given. Those that are not given are the preset's.
struct policy_spec {
  std::string preset{};  // empty: lazyllm
  std::optional<std::string> stages{};
  std::optional<std::string> schedule{};
  std::optional<std::string> scorer{};
  std::optional<std::string> selector{};
  std::optional<std::string> store{};
  std::optional<std::size_t> keep_first{};
  std::optional<std::size_t> keep_last{};
  std::optional<std::string> decode{};

  friend bool operator==(const policy_spec&, const policy_spec&) = default;
};

using scorer_choice = std::variant<last_query_attention, accumulated_attention, window_attention, prompt_window_attention,
                                   value_weighted_attention, key_norm, recency, random_score>;
using plain_schedule = one_of<stages, every, linear, cosine, budget>;
using schedule_choice = std::variant<plain_schedule, adaptive>;
using selector_choice = one_of<top_k, top_p, threshold, blocks>;
using store_choice = one_of<keep_all, bounded, none>;

/// Which steps are pruned, by the values of --decode: same, dense and only.
enum class pruned_steps : std::uint8_t { all, prefill, decode };

/// What the flags mean.
struct policy_parts {
  scorer_choice scorer;
  schedule_choice schedule;
  selector_choice selector;
  store_choice store;
  std::size_t keep_first;
  std::size_t keep_last;
  pruned_steps when;
  std::string text;  // the flags that make it, all of them; "--policy dense" where nothing is ever pruned

  friend bool operator==(const policy_parts&, const policy_parts&) = default;
};

namespace detail {

/// The layers done at which pruning means something.
struct layer_range {
  layer_id least;  // 0 where the scorer knows something before the first layer
  layer_id most;
  layer_id layers;

  std::string text() const {
    return "a layer from " + std::to_string(least) + " to " + std::to_string(most) + " (the model has " + std::to_string(layers) +
           (least == 0 ? ")" : "; before the first only the scorers random and recency know anything)");
  }
};

/// "NAME:key=value,...": read key by key, checked, and written back with every key that the part has.
class part_text {
 public:
  part_text(std::string_view flag, std::string_view text) : flag_(flag), text_(text) {
    const std::size_t colon = text.find(':');
    name_ = text.substr(0, colon);
    canonical_ = name_;
    if (colon == text.npos) return;
    if (colon + 1 == text.size()) fail("key=value after the colon", "nothing");
    for (const std::string_view piece : split(text.substr(colon + 1), ',')) {
      const std::size_t equals = piece.find('=');
      if (equals == piece.npos || equals == 0) fail("key=value", piece.empty() ? "nothing" : piece);
      if (value_of(piece.substr(0, equals))) fail("each key once", piece.substr(0, equals));
      values_.emplace_back(piece.substr(0, equals), piece.substr(equals + 1));
    }
  }

  std::string_view name() const { return name_; }
  const std::string& canonical() const { return canonical_; }

  /// The keys that this part has. Throws where the text has another.
  part_text& allow(std::initializer_list<std::string_view> keys) {
    for (const auto& [key, value] : values_)
      if (std::ranges::find(keys, key) == keys.end()) fail(keys.size() == 0 ? "no key" : one_of_names(keys), key);
    return *this;
  }
  bool has(std::string_view key) const { return value_of(key).has_value(); }

  double share(std::string_view key, std::optional<double> otherwise = {}) {
    return number<double>(key, otherwise, "a share in (0, 1]", [](double v) { return v > 0.0 && v <= 1.0; });
  }
  std::size_t count(std::string_view key, std::optional<std::size_t> otherwise = {}) {
    return number<std::size_t>(key, otherwise, "a whole number of at least 1", [](std::size_t v) { return v > 0; });
  }
  template <std::integral T>
  T whole(std::string_view key, std::optional<T> otherwise = {}) {
    return number<T>(key, otherwise, "a whole number", [](T) { return true; });
  }
  /// So many layers done, where a schedule can prune.
  layer_id layer(std::string_view key, layer_range range, std::optional<layer_id> otherwise = {}) {
    return number<layer_id>(key, otherwise, range.text(), [&](layer_id v) { return v >= range.least && v <= range.most; });
  }
  float real(std::string_view key) {
    return number<float>(key, std::nullopt, "a number", [](float) { return true; });
  }
  std::size_t kernel(std::string_view key, std::size_t otherwise) {
    return number<std::size_t>(key, otherwise, "an odd number from 1 to " + std::to_string(pooling_kernel::largest),
                               [](std::size_t v) { return v % 2 == 1 && v <= pooling_kernel::largest; });
  }
  /// An enumerator by its name; the names are in its order, and the first is the default.
  template <class Enum>
  Enum choice(std::string_view key, std::initializer_list<std::string_view> names) {
    const std::string_view name = value_of(key).value_or(*names.begin());
    const auto at = std::ranges::find(names, name);
    if (at == names.end()) fail_value(key, one_of_names(names), name);
    note(key, name);
    return static_cast<Enum>(at - names.begin());
  }

  static std::string one_of_names(std::initializer_list<std::string_view> names) {
    std::string all = "one of ";
    for (const std::string_view name : names) all.append(name == *names.begin() ? "" : ", ").append(name);
    return all;
  }

  [[noreturn]] void unknown_name(std::initializer_list<std::string_view> names) const {
    throw error(flag_, "", one_of_names(names), name_.empty() ? "nothing" : name_);
  }
  [[noreturn]] void fail(std::string_view expected, std::string_view found) const { throw error(flag_, text_, expected, found); }

 private:
  std::optional<std::string_view> value_of(std::string_view key) const {
    for (const auto& [k, v] : values_)
      if (k == key) return v;
    return std::nullopt;
  }

  template <class T, class Check>
  T number(std::string_view key, std::optional<T> otherwise, const std::string& expected, Check fits) {
    const auto text = value_of(key);
    if (!text && !otherwise) fail("the key " + std::string(key), "none");
    const auto value = text ? number_in<T>(*text) : otherwise;
    if (!value || !fits(*value)) fail_value(key, expected, text ? *text : text_of_number(*value));
    note(key, text_of_number(*value));
    return *value;
  }
  void note(std::string_view key, std::string_view value) {
    canonical_.append(canonical_ == name_ ? ":" : ",").append(key).append("=").append(value);
  }
  [[noreturn]] void fail_value(std::string_view key, const std::string& expected, std::string_view found) const {
    fail(expected + " for " + std::string(key), found.empty() ? "nothing" : found);
  }

  std::string flag_, text_, name_, canonical_;
  std::vector<std::pair<std::string, std::string>> values_;
};

template <class Scorer>
void read_window(part_text& p, Scorer& s) {
  s.window = p.allow({"window", "kernel", "pool"}).count("window", s.window);
  s.kernel = p.kernel("kernel", s.kernel);
  s.pool = p.choice<pooling>("pool", {"max", "mean"});
}

inline scorer_choice read_scorer(part_text& p) {
  if (p.name() == "last_query_attention") return last_query_attention{p.allow({"over"}).choice<head_reduction>("over", {"mean", "max"})};
  if (p.name() == "accumulated_attention") {
    accumulated_attention s;
    s.over = p.allow({"over", "since"}).choice<layer_reduction>("over", {"sum", "max"});
    s.since = p.choice<memory_span>("since", {"sequence", "step"});
    return s;
  }
  if (p.name() == "window_attention") {
    window_attention s;
    read_window(p, s);
    return s;
  }
  if (p.name() == "prompt_window_attention") {
    prompt_window_attention s;
    read_window(p, s);
    return s;
  }
  if (p.name() == "value_weighted_attention") return value_weighted_attention{p.allow({"norm"}).choice<vector_norm>("norm", {"l2", "l1"})};
  if (p.name() == "key_norm") return p.allow({}), key_norm{};
  if (p.name() == "recency") return p.allow({}), recency{};
  if (p.name() == "random") return random_score{p.allow({"seed"}).whole<std::uint64_t>("seed", 0)};
  p.unknown_name({"last_query_attention", "accumulated_attention", "window_attention", "prompt_window_attention",
                  "value_weighted_attention", "key_norm", "recency", "random"});
}

inline schedule_choice read_schedule(part_text& p, layer_range where) {
  layer_range falling = where;  // has to begin before the last layer
  falling.least = 0;
  falling.most = std::max(where.most, 1u) - 1;
  layer_range distance = where;
  distance.least = 1;
  if (p.name() == "every") {
    const lazyprune::positive n = p.allow({"n", "share"}).layer("n", distance);
    return plain_schedule(every{n, p.share("share")});
  }
  if (p.name() == "linear") {
    const layer_id from = p.allow({"from", "share"}).layer("from", falling, 0);
    return plain_schedule(linear{from, p.share("share")});
  }
  if (p.name() == "cosine") {
    const layer_id from = p.allow({"from", "share"}).layer("from", falling, 0);
    return plain_schedule(cosine{from, p.share("share")});
  }
  if (p.name() == "budget") {
    budget_target target{.after = p.allow({"after", "tokens", "cost"}).layer("after", where)};
    if (p.has("tokens") == p.has("cost")) p.fail("either tokens or cost", p.has("cost") ? "both" : "neither");
    if (p.has("tokens")) target.tokens = p.count("tokens");
    if (p.has("cost")) target.cost = p.share("cost");
    return plain_schedule(budget(target));
  }
  if (p.name() == "adaptive") {
    adaptive s;
    s.from = p.allow({"from", "every", "mass", "least"}).layer("from", where, s.from);
    s.every = p.count("every", s.every);
    s.mass = p.share("mass", s.mass);
    s.least = p.share("least", s.least);
    return s;
  }
  p.unknown_name({"every", "linear", "cosine", "budget", "adaptive"});
}

inline selector_choice read_selector(part_text& p) {
  if (p.name() == "top_k") return p.allow({}), top_k{};
  if (p.name() == "top_p") return top_p{p.allow({"mass"}).share("mass")};
  if (p.name() == "threshold") return threshold{p.allow({"score"}).real("score")};
  if (p.name() == "blocks") return blocks{p.allow({"size"}).count("size", blocks{}.size)};
  p.unknown_name({"top_k", "top_p", "threshold", "blocks"});
}

inline store_choice read_store(part_text& p) {
  if (p.name() == "keep_all") return p.allow({}), keep_all{};
  if (p.name() == "bounded") return bounded{p.allow({"rows"}).whole<std::size_t>("rows")};
  if (p.name() == "none") return p.allow({}), none{};
  p.unknown_name({"keep_all", "bounded", "none"});
}

inline pruned_steps read_decode(std::string_view text) {
  if (text == "same") return pruned_steps::all;
  if (text == "dense") return pruned_steps::prefill;
  if (text == "only") return pruned_steps::decode;
  throw error("--decode", "", part_text::one_of_names({"same", "dense", "only"}), text);
}

/// All flags of the preset (policy/presets.hpp), for a model of so many layers.
inline policy_spec flags_of_preset(std::string_view name, layer_id layers) {
  policy_spec flags;
  flags.preset = name.empty() ? "lazyllm" : name;
  flags.stages = lazyllm_stages(layers).text();
  flags.scorer = "last_query_attention";
  flags.selector = "top_k";
  flags.store = "keep_all";
  flags.keep_first = flags.keep_last = 0;
  flags.decode = "same";
  if (flags.preset == "lazyllm") return flags;
  if (flags.preset == "dense") {
    flags.stages = "";
    flags.scorer = "recency";
    return flags;
  }
  flags.store = "none";
  if (flags.preset == "streaming") {
    flags.stages.reset();
    flags.schedule = "budget:after=0,tokens=1024";
    flags.scorer = "recency";
    flags.keep_first = 4;
    return flags;
  }
  flags.decode = "dense";
  if (flags.preset == "static") return flags;
  if (flags.preset == "random") {
    flags.stages = "0:0.7";
    flags.scorer = "random";
    return flags;
  }
  throw error("--policy", "", part_text::one_of_names({"lazyllm", "static", "random", "streaming", "dense"}), name);
}

/// The preset's flags, and in their place those that are given.
inline policy_spec complete(const policy_spec& given, layer_id layers) {
  if (given.stages && given.schedule) throw error("--schedule", "", "either --stages or --schedule", "both");
  if (given.preset == "dense" && (given.schedule || (given.stages && !given.stages->empty())))
    throw error("--policy", "dense", "no --stages and no --schedule, it never prunes", given.schedule ? *given.schedule : *given.stages);
  policy_spec flags = flags_of_preset(given.preset, layers);
  if (given.stages || given.schedule) flags.stages = given.stages, flags.schedule = given.schedule;
  if (given.scorer) flags.scorer = given.scorer;
  if (given.selector) flags.selector = given.selector;
  if (given.store) flags.store = given.store;
  if (given.keep_first) flags.keep_first = given.keep_first;
  if (given.keep_last) flags.keep_last = given.keep_last;
  if (given.decode) flags.decode = given.decode;
  return flags;
}

inline stages read_stages(const std::string& text, layer_range where) {
  stages list = stages::parse(text);
  for (const stage& s : list.list())
    if (s.after < where.least || s.after > where.most) throw error("--stages", text, where.text(), std::to_string(s.after));
  return list;
}

}  // namespace detail

/// The parts of the policy, for a model of so many layers. Throws `error` with the flag and the place in it that is wrong.
inline policy_parts parts_of(const policy_spec& spec, layer_id layers) {
  const policy_spec flags = detail::complete(spec, layers);
  detail::part_text scorer("--scorer", *flags.scorer), selector("--selector", *flags.selector), store("--store", *flags.store);
  policy_parts parts{.scorer = detail::read_scorer(scorer),
                     .schedule = plain_schedule(stages{}),
                     .selector = detail::read_selector(selector),
                     .store = detail::read_store(store),
                     .keep_first = *flags.keep_first,
                     .keep_last = *flags.keep_last,
                     .when = detail::read_decode(*flags.decode),
                     .text = "--policy dense"};

  const bool of_positions = std::holds_alternative<recency>(parts.scorer) || std::holds_alternative<random_score>(parts.scorer);
  const detail::layer_range where{.least = of_positions ? 0u : 1u, .most = std::max(layers, 1u) - 1, .layers = layers};
  std::string schedule_text;
  if (flags.schedule) {
    detail::part_text schedule("--schedule", *flags.schedule);
    parts.schedule = detail::read_schedule(schedule, where);
    schedule_text = "--schedule " + schedule.canonical();
  } else {
    const stages list = detail::read_stages(*flags.stages, where);
    if (list.list().empty()) {
      parts.scorer = recency{};  // asks the engine for no evidence
      return parts;
    }
    parts.schedule = plain_schedule(list);
    schedule_text = "--stages " + list.text();
  }
  parts.text = schedule_text + " --scorer " + scorer.canonical() + " --selector " + selector.canonical() + " --store " + store.canonical() +
               " --keep-first " + std::to_string(parts.keep_first) + " --keep-last " + std::to_string(parts.keep_last) + " --decode " +
               *flags.decode;
  return parts;
}

/// The flags that make the policy, all of them; "--policy dense" where it never prunes. Throws like `parts_of`.
inline std::string text(const policy_spec& spec, layer_id layers) { return parts_of(spec, layers).text; }

/// What to call it: "dense" where it never prunes, the preset, or "custom" where parts are given and no preset.
inline std::string name_of(const policy_spec& spec) {
  if (spec.stages && spec.stages->empty()) return "dense";
  if (!spec.preset.empty()) return spec.preset;
  return spec.schedule || spec.scorer || spec.selector || spec.store || spec.decode ? "custom" : "lazyllm";
}

/// That, and the flags that are given: "lazyllm --stages 3:0.3,5:0.1".
inline std::string short_text(const policy_spec& spec) {
  std::string out = name_of(spec);
  if (out == "dense") return out;
  const auto add = [&](std::string_view flag, const auto& value) {
    if (!value) return;
    out.append(" ").append(flag).append(" ");
    if constexpr (std::same_as<decltype(value), const std::optional<std::size_t>&>)
      out += std::to_string(*value);
    else
      out += *value;
  };
  add("--stages", spec.stages);
  add("--schedule", spec.schedule);
  add("--scorer", spec.scorer);
  add("--selector", spec.selector);
  add("--store", spec.store);
  add("--keep-first", spec.keep_first);
  add("--keep-last", spec.keep_last);
  add("--decode", spec.decode);
  return out;
}

}  // namespace v0
}  // namespace lazyprune
