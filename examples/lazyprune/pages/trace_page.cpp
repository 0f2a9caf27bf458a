// SPDX-License-Identifier: MIT
#include "pages/trace_page.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <string_view>

#include "pages/html.hpp"
#include "pages/trace_page_template.hpp"
#include "tables/number_text.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/eval/position_ranges.hpp>
#include <lazyprune/files/utf8.hpp>

namespace lazyprune {
namespace program {
namespace {

/// Writes a JSON string that cannot end the script element around it.
std::string script_string(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_prefix(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (length == 0)
      out += "\xef\xbf\xbd";
    else if (byte < 0x20 || byte == '"' || byte == '\\' || byte == '<' || byte == '>' || byte == '&' || byte == 0x7f)
      out.append("\\u00").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
    else
      out.append(text.substr(0, length));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out + '"';
}

/// Writes the list [item(0), item(1), ...] as JSON.
template <class Item>
std::string script_list(std::size_t count, Item item) {
  std::string out = "[";
  for (std::size_t i = 0; i < count; ++i) out.append(i > 0 ? "," : "").append(item(i));
  return out + ']';
}

/// Writes a share in percent with one digit after the point.
std::string percent(std::size_t part, std::size_t whole) {
  const double value = whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  return fixed(value, 1);
}

/// Writes the trace as the page's script reads it. Each layer's active tokens are stored as the difference from the layer before (at layer
/// 0: from all known tokens). Few tokens leave at a time, so the page stays small.
std::string trace_data(const trace_document& document, const std::vector<std::string>& next_texts) {
  const std::vector<step_trace>& steps = document.steps;
  std::size_t known = 0;
  const auto list_of = [](const std::vector<layer_trace>& layers, auto ranges) {
    return script_list(layers.size(), [&](std::size_t l) { return '"' + ranges(l) + '"'; });
  };
  const auto step_data = [&](std::size_t s) {
    const std::vector<layer_trace>& layers = steps[s].layers;
    known += steps[s].tokens.size();
    std::vector<position> before(known), changes;
    std::iota(before.begin(), before.end(), position{0});
    const auto change = [&](std::size_t l) {
      changes.clear();
      std::ranges::set_symmetric_difference(before, layers[l].active, std::back_inserter(changes));
      before = layers[l].active;
      return position_ranges(changes);
    };
    return "\n{\"tokens\":" + script_list(steps[s].tokens.size(), [&](std::size_t i) { return std::to_string(steps[s].tokens[i]); }) +
           ",\"changes\":" + list_of(layers, change) +
           ",\"rows\":" + list_of(layers, [&](std::size_t l) { return position_ranges(layers[l].rows); }) +
           ",\"revived\":" + list_of(layers, [&](std::size_t l) { return position_ranges(layers[l].revived); }) + '}';
  };
  return "{\"layers\":" + std::to_string(steps.front().layers.size()) + ",\"lost\":" + (document.pruned_is_lost ? "true" : "false") +
         ",\"texts\":" + script_list(document.token_texts.size(), [&](std::size_t t) { return script_string(document.token_texts[t]); }) +
         ",\"next\":" + script_list(steps.size(), [&](std::size_t s) { return script_string(next_texts[s]); }) +
         ",\"steps\":" + script_list(steps.size(), step_data) + '}';
}

/// Returns the text of each step's next token.
std::vector<std::string> texts_of_next(const trace_document& document) {
  std::map<token_id, std::string_view> text_of;
  std::size_t at = 0;
  for (const step_trace& step : document.steps)
    for (const token_id id : step.tokens)
      if (const std::size_t t = at++; t < document.token_texts.size()) text_of.emplace(id, document.token_texts[t]);
  std::vector<std::string> texts;
  for (std::size_t s = 0; s < document.steps.size(); ++s) {
    const auto known = text_of.find(document.steps[s].next);
    if (s < document.next_texts.size())
      texts.push_back(document.next_texts[s]);
    else
      texts.push_back(known != text_of.end() ? std::string(known->second) : "id " + std::to_string(document.steps[s].next));
  }
  return texts;
}

/// The number of prompt rows that each layer computed: in the prefill, and in all steps.
struct prompt_rows {
  std::vector<std::size_t> prefill, all;  // (layers)
};

prompt_rows count_prompt_rows(const std::vector<step_trace>& steps) {
  const std::size_t layers = steps.front().layers.size();
  prompt_rows counts{std::vector<std::size_t>(layers), std::vector<std::size_t>(layers)};
  const auto prompt = static_cast<position>(steps.front().tokens.size());
  for (const step_trace& step : steps)
    for (std::size_t l = 0; l < layers; ++l) {
      const std::vector<position>& rows = step.layers[l].rows;
      counts.all[l] += static_cast<std::size_t>(std::ranges::lower_bound(rows, prompt) - rows.begin());
      if (&step == &steps.front()) counts.prefill[l] = counts.all[l];
    }
  return counts;
}

std::string share_bars(const prompt_rows& rows, std::size_t prompt) {
  std::string html;
  for (std::size_t l = 0; l < rows.all.size(); ++l) {
    const std::string prefill = percent(rows.prefill[l], prompt), later = percent(rows.all[l] - rows.prefill[l], prompt);
    html += "<span title=\"layer " + std::to_string(l) + ": " + prefill + " % in the prefill, " + later +
            " % later\"><b style=\"height:" + prefill + "%\"></b><b style=\"height:" + later + "%\"></b></span>\n";
  }
  return html;
}

/// Writes a table with one row per step, for browsers without JavaScript.
std::string trace_table(const trace_document& document, const std::vector<std::string>& next_texts) {
  std::string html;
  std::size_t at = 0;
  for (std::size_t s = 0; s < document.steps.size(); ++s) {
    const step_trace& step = document.steps[s];
    std::size_t rows = 0, revived = 0;
    std::string active, tokens;
    for (const layer_trace& layer : step.layers) {
      rows += layer.rows.size();
      revived += layer.revived.size();
      active += std::to_string(layer.active.size()) + ' ';
    }
    for (const token_id id : step.tokens)
      tokens += at < document.token_texts.size() ? html_text(document.token_texts[at++]) : "id " + std::to_string(id) + ' ';
    html += "<tr><td>" + std::to_string(step.step) + "</td><td>" + tokens + "</td><td>" + std::to_string(rows) + "</td><td>" +
            std::to_string(revived) + "</td><td>" + active + "</td><td>" + html_text(next_texts[s]) + "</td></tr>\n";
  }
  return html;
}

}  // namespace

std::string trace_page(const trace_document& document) {
  const std::vector<step_trace>& steps = document.steps;
  if (steps.empty() || steps.front().layers.empty()) throw error("", "trace", "at least one step of at least one layer", "none");

  const std::size_t layers = steps.front().layers.size(), prompt = steps.front().tokens.size();
  const prompt_rows rows = count_prompt_rows(steps);
  const std::vector<std::string> next_texts = texts_of_next(document);
  std::size_t revived = 0;
  for (const step_trace& step : steps)
    for (const layer_trace& layer : step.layers) revived += layer.revived.size();
  const auto sum = [](const std::vector<std::size_t>& counts) { return std::accumulate(counts.begin(), counts.end(), std::size_t{0}); };

  std::vector<std::pair<std::string, std::string>> facts{
      {"model", document.model},
      {"policy", document.policy},
      {"prompt", std::to_string(prompt) + " tokens"},
      {"steps", std::to_string(steps.size())},
      {"layers", std::to_string(layers)},
      {"prompt computed in the prefill", percent(sum(rows.prefill), prompt * layers) + " %"},
      {"by the end", percent(sum(rows.all), prompt * layers) + " %"},
      {"rows revived", std::to_string(revived)}};
  facts.insert(facts.end(), document.facts.begin(), document.facts.end());

  std::string share_label = "Percent of the prompt's tokens computed in the prefill, layer 0 first:";
  for (const std::size_t count : rows.prefill) share_label += ' ' + percent(count, prompt);
  share_label += "; by the end:";
  for (const std::size_t count : rows.all) share_label += ' ' + percent(count, prompt);

  const std::string title = html_text(document.title.empty() ? "A trace of lazyprune" : document.title);
  const std::string body =
      fill_in(trace_page_body, {{"title", title},
                                {"facts", facts_list(facts)},
                                {"share_label", share_label},
                                {"share_bars", share_bars(rows, prompt)},
                                {"last_layer", std::to_string(layers - 1)},
                                {"answer", document.answer.empty() ? ""
                                                                   : "<section class=\"answer\"><h2>Answer</h2><blockquote dir=\"auto\">" +
                                                                         html_text(document.answer) + "</blockquote></section>\n"},
                                {"table", trace_table(document, next_texts)},
                                {"data", trace_data(document, next_texts)},
                                {"script", trace_page_script}});
  return html_page(title, trace_page_style, body, page_scripts::inline_ones);
}

}  // namespace program
}  // namespace lazyprune
