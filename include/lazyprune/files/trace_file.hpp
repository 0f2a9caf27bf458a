// SPDX-License-Identifier: MIT
// Traces as JSON Lines, one object per step. Other engines write this format, too:
//   {"step":0,"tokens":[1,5,9],"layers":[{"active":[0,1,2],"rows":[0,1,2],"revived":[]}, ...],"next":17}
// Three keys are optional: "logits":[...], "margin":[0.01,null, ...] with one entry for each layer but the last, and in a layer
// "scores":[0.1,0.7,0.2] with one entry for each active position. "scores" may be null if no scores were recorded. Unknown keys are
// ignored.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>

#include <lazyprune/core/finite.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/read_to_end.hpp>
#include <lazyprune/session/trace.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

template <class List, class Append>
void append_list(std::string& out, std::string_view key, const List& list, Append append) {
  out.append("\"").append(key).append("\":[");
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ',';
    append(list[i], i);
  }
  out += ']';
}

/// Appends the shortest digits that read back as the same number. Throws `error` for infinity and NaN, which JSON does not have.
inline void append_exactly(std::string& out, double value, std::size_t step, std::string_view key, std::size_t index) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  const std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
  if (!is_finite(value))
    throw error("", "step " + std::to_string(step) + ": " + std::string(key) + '[' + std::to_string(index) + ']', "a finite number", text);
  out += text == "-0" ? "-0.0" : text;  // readers take "-0" for the integer 0
}

/// Builds a step while its line is parsed. A trace has millions of numbers, so a tree of JSON values would take too much memory.
class trace_line : public strict_json {
 public:
  using strict_json::strict_json;

  /// Returns the parsed step. `tokens_before`: the number of tokens in the steps before it. Throws `error` if a key is missing or values
  /// contradict each other.
  step_trace take(std::size_t tokens_before) {
    require_all(line_keys, 4, seen_, "");
    if (step_.tokens.empty()) fail("tokens", "at least one token", "none");
    if (step_.layers.empty()) fail("layers", "at least one layer", "none");
    if (has(logits) && step_.logits.empty()) fail("logits", "at least one number", "none");
    if (has(margin)) check_count("margin", step_.margin.size(), step_.layers.size() - 1);
    for (std::size_t l = 0; l < step_.layers.size(); ++l) {
      const layer_trace& layer = step_.layers[l];
      const std::string where = "layers[" + std::to_string(l) + "].";
      check_positions(where + "active", layer.active, tokens_before + step_.tokens.size());
      check_positions(where + "rows", layer.rows, tokens_before + step_.tokens.size());
      check_positions(where + "revived", layer.revived, tokens_before + step_.tokens.size());
      check_subset(where + "rows", layer.rows, "active", layer.active);
      check_subset(where + "revived", layer.revived, "rows", layer.rows);
      if (!layer.scores.empty()) check_count(where + "scores", layer.scores.size(), layer.active.size());
    }
    return std::move(step_);
  }
  void check_count(const std::string& where, std::size_t found, std::size_t expected) const {
    if (found != expected) fail(where, std::to_string(expected) + " entries", std::to_string(found));
  }
  void check_step(std::size_t found, std::size_t expected) const {
    if (found != expected) fail("step", std::to_string(expected), std::to_string(found));
  }

  bool null() override { return scalar({}, {}, "null", true); }
  bool boolean(bool value) override { return scalar({}, {}, value ? "true" : "false"); }
  bool number_integer(std::int64_t value) override { return scalar({}, static_cast<double>(value), std::to_string(value)); }
  bool number_unsigned(std::uint64_t value) override { return scalar(value, static_cast<double>(value), {}); }
  bool number_float(double value, const std::string& text) override { return scalar({}, value, text); }
  bool string(std::string& value) override { return scalar({}, {}, in_quotes(value)); }

  bool key(std::string& name) override {
    if (skipped_ > 0) return true;
    const bool in_layer = at_ == place::layer;
    const auto first = in_layer ? layer_keys.begin() : line_keys.begin();
    const auto last = in_layer ? layer_keys.end() : line_keys.end();
    const auto found = std::find(first, last, name);
    member_ = static_cast<std::size_t>(found - first);
    unknown_ = found == last;
    unsigned& seen = in_layer ? seen_in_layer_ : seen_;
    if (!unknown_ && (seen >> member_ & 1u)) fail(here(), "the key once", "it twice in one object");
    if (!unknown_) seen |= 1u << member_;
    return true;
  }
  bool start_object(std::size_t) override {
    enter();
    if (skip()) {
      ++skipped_;
    } else if (at_ == place::text) {
      at_ = place::line;
    } else {
      if (at_ != place::layers) refuse("an object");
      step_.layers.emplace_back();
      seen_in_layer_ = 0;
      at_ = place::layer;
    }
    return true;
  }
  bool end_object() override {
    leave();
    if (skipped_ > 0) {
      --skipped_;
      return true;
    }
    unknown_ = false;
    if (at_ == place::line) {
      at_ = place::text;
    } else {
      require_all(layer_keys, 3, seen_in_layer_, "layers[" + std::to_string(step_.layers.size() - 1) + ']');
      at_ = place::layers;
    }
    return true;
  }
  bool start_array(std::size_t) override {
    enter();
    if (skip()) {
      ++skipped_;
    } else if (at_ == place::layer) {
      at_ = member_ == scores ? place::scores : place::positions;
    } else {
      if (at_ != place::line || member_ == step || member_ == next) refuse("an array");
      at_ = member_ == tokens ? place::tokens : member_ == layers ? place::layers : member_ == logits ? place::logits : place::margin;
    }
    return true;
  }
  bool end_array() override {
    leave();
    if (skipped_ > 0)
      --skipped_;
    else
      at_ = at_ == place::positions || at_ == place::scores ? place::layer : place::line;
    return true;
  }

 private:
  enum class place : std::uint8_t { text, line, tokens, layers, layer, positions, scores, logits, margin };
  enum layer_member : std::size_t { active, rows, revived, scores };              // the first three are required
  enum line_member : std::size_t { step, tokens, layers, next, logits, margin };  // the first four are required
  static constexpr std::array<std::string_view, 6> line_keys{"step", "tokens", "layers", "next", "logits", "margin"};
  static constexpr std::array<std::string_view, 4> layer_keys{"active", "rows", "revived", "scores"};

  bool has(line_member member) const { return seen_ >> member & 1u; }
  bool skip() const { return skipped_ > 0 || unknown_; }

  std::vector<position>& positions() {
    layer_trace& layer = step_.layers.back();
    return member_ == 0 ? layer.active : member_ == 1 ? layer.rows : layer.revived;
  }

  /// Returns the place of the value that comes next, for errors.
  std::string here() {
    const auto entry = [](std::string_view list, std::size_t index) { return std::string(list) + '[' + std::to_string(index) + ']'; };
    const std::string layer = entry("layers", std::max<std::size_t>(step_.layers.size(), 1) - 1) + '.';
    switch (at_) {
      case place::text:
        return "";
      case place::line:
        return std::string(line_keys[member_]);
      case place::tokens:
        return entry("tokens", step_.tokens.size());
      case place::layers:
        return entry("layers", step_.layers.size());
      case place::layer:
        return layer + std::string(layer_keys[member_]);
      case place::positions:
        return entry(layer + std::string(layer_keys[member_]), positions().size());
      case place::scores:
        return entry(layer + "scores", step_.layers.back().scores.size());
      case place::logits:
        return entry("logits", step_.logits.size());
      case place::margin:
        return entry("margin", step_.margin.size());
    }
    return "";
  }
  [[noreturn]] void refuse(std::string_view found) { fail(here(), expected(), found); }
  std::string_view expected() const {
    switch (at_) {
      case place::text:
      case place::layers:
        return "an object";
      case place::line:
        return member_ == step ? "a whole number" : member_ == next ? "a token id" : "an array";
      case place::tokens:
        return "a token id";
      case place::layer:
        return member_ == scores ? "an array or null" : "an array";
      case place::positions:
        return "a position, a whole number";
      case place::scores:
        return "a number, as a float";
      case place::logits:
        return "a number";
      case place::margin:
        return "a number or null";
    }
    return "";
  }

  bool scalar(std::optional<std::uint64_t> whole, std::optional<double> number, std::string_view found, bool is_null = false) {
    if (skip() || (at_ == place::layer && member_ == scores && is_null)) return true;  // null: no scores recorded
    const bool small = whole && *whole <= std::numeric_limits<std::uint32_t>::max();
    if (at_ == place::positions && small)
      positions().push_back(static_cast<position>(*whole));
    else if (at_ == place::scores && number && std::abs(*number) <= std::numeric_limits<float>::max())
      step_.layers.back().scores.push_back(static_cast<float>(*number));
    else if (at_ == place::tokens && small)
      step_.tokens.push_back(static_cast<token_id>(*whole));
    else if (at_ == place::logits && number)
      step_.logits.push_back(*number);
    else if (at_ == place::margin && (number || is_null))
      step_.margin.push_back(number);
    else if (at_ == place::line && member_ == step && whole)
      step_.step = *whole;
    else if (at_ == place::line && member_ == next && small)
      step_.next = static_cast<token_id>(*whole);
    else
      refuse(whole ? std::to_string(*whole) : found);
    return true;
  }

  template <std::size_t N>
  void require_all(const std::array<std::string_view, N>& keys, std::size_t count, unsigned seen, const std::string& where) const {
    for (std::size_t k = 0; k < count; ++k)
      if (!(seen >> k & 1u)) fail(where, "the key " + in_quotes(keys[k]), "none");
  }
  void check_positions(const std::string& where, const std::vector<position>& list, std::size_t known) const {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const bool ascending = i == 0 || list[i] > list[i - 1];
      if (ascending && list[i] < known) continue;
      fail(where + '[' + std::to_string(i) + ']',
           ascending ? "one of the " + std::to_string(known) + " positions known so far" : "ascending positions",
           std::to_string(list[i]) + (ascending ? "" : " after " + std::to_string(list[i - 1])));
    }
  }
  void check_subset(const std::string& where, const std::vector<position>& part, std::string_view name,
                    const std::vector<position>& whole) const {
    if (std::ranges::includes(whole, part)) return;
    const auto outside = std::ranges::find_if(part, [&](position p) { return !std::ranges::binary_search(whole, p); });
    fail(where, "positions that are also in " + in_quotes(name), std::to_string(*outside));
  }

  step_trace step_{};
  place at_ = place::text;
  std::size_t member_ = 0;                 // last key, as index into line_keys or layer_keys
  bool unknown_ = false;                   // the last key is not in that list
  std::size_t skipped_ = 0;                // open objects and arrays in the value of an unknown key
  unsigned seen_ = 0, seen_in_layer_ = 0;  // bit k: key k has occurred
};

}  // namespace detail

/// Returns the step as a line of a trace, without a line break. Throws `error` if a logit, margin or score is infinite or NaN.
inline std::string to_line(const step_trace& step) {
  std::string out = "{\"step\":" + std::to_string(step.step) + ',';
  const auto whole = [&](std::uint32_t value, std::size_t) { out += std::to_string(value); };
  detail::append_list(out, "tokens", step.tokens, whole);
  out += ',';
  detail::append_list(out, "layers", step.layers, [&](const layer_trace& layer, std::size_t) {
    out += '{';
    detail::append_list(out, "active", layer.active, whole);
    out += ',';
    detail::append_list(out, "rows", layer.rows, whole);
    out += ',';
    detail::append_list(out, "revived", layer.revived, whole);
    if (!layer.scores.empty()) {
      out += ',';
      detail::append_list(out, "scores", layer.scores,
                          [&](float score, std::size_t i) { detail::append_exactly(out, score, step.step, "scores", i); });
    }
    out += '}';
  });
  out += ",\"next\":" + std::to_string(step.next);
  if (!step.margin.empty()) {
    out += ',';
    detail::append_list(out, "margin", step.margin, [&](const std::optional<double>& margin, std::size_t i) {
      if (margin)
        detail::append_exactly(out, *margin, step.step, "margin", i);
      else
        out += "null";
    });
  }
  if (!step.logits.empty()) {
    out += ',';
    detail::append_list(out, "logits", step.logits,
                        [&](double logit, std::size_t i) { detail::append_exactly(out, logit, step.step, "logits", i); });
  }
  return out + '}';
}

/// Reads all steps of a trace from a file or pipe. Throws `error` if the file is missing, a line is not a valid step, or the steps do not
/// fit together. An example of an error is "t.jsonl: line 3: layers[2].rows: expected ..., found ...". Throws `error` of code io if reading
/// fails.
inline std::vector<step_trace> read_trace(const std::filesystem::path& path) {
  const std::string file = path.string(), all = read_to_end(path);
  std::string_view rest = all;
  rest = rest.substr(0, rest.find_last_not_of(" \t\r\n") + 1);
  if (rest.empty()) throw error(file, "", "at least one step", "an empty file");

  std::vector<step_trace> steps;
  std::size_t tokens = 0, vocabulary = 0;
  while (!rest.empty()) {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    const std::string where = "line " + std::to_string(steps.size() + 1);
    detail::trace_line line(file, where);
    detail::parse_strictly(text, line, file, where);
    step_trace& step = steps.emplace_back(line.take(tokens));

    line.check_step(step.step, steps.size() - 1);
    line.check_count("layers", step.layers.size(), steps.front().layers.size());
    if (!step.logits.empty()) {
      if (vocabulary > 0) line.check_count("logits", step.logits.size(), vocabulary);
      vocabulary = step.logits.size();
    }
    tokens += step.tokens.size();
  }
  return steps;
}

}  // namespace v0
}  // namespace lazyprune
