// SPDX-License-Identifier: MIT
#include "pages/trace_page.hpp"

#include <doctest/doctest.h>

#include <charconv>

#include <nlohmann/json.hpp>

#include "pages/trace_page_template.hpp"

#include <lazyprune/files/utf8.hpp>

#include <files/support.hpp>
#include <random_trace.hpp>
#include "programs/pages/page_parts.hpp"

namespace {

using namespace lazyprune;
using namespace lazyprune::program;
using lazyprune_test::between;
using lazyprune_test::count;

nlohmann::json data_of(const std::string& page) {
  return nlohmann::json::parse(between(page, "<script type=\"application/json\" id=\"trace\">", "</script>"));
}

std::vector<position> positions_of(const std::string& ranges) {
  std::vector<position> list;
  const char *at = ranges.data(), *end = at + ranges.size();
  while (at < end) {
    position first = 0;
    at = std::from_chars(at, end, first).ptr;
    position last = first;
    if (at < end && *at == '-') at = std::from_chars(at + 1, end, last).ptr;
    for (position p = first; p <= last; ++p) list.push_back(p);
    if (at < end) REQUIRE(*at++ == ',');
  }
  return list;
}

/// Reads the trace back from the page's data. Fields that the script does not need are missing.
std::vector<step_trace> trace_in(const nlohmann::json& data) {
  std::vector<step_trace> steps;
  std::size_t known = 0;
  for (const auto& from : data.at("steps")) {
    step_trace& step = steps.emplace_back();
    step.step = steps.size() - 1;
    step.tokens = from.at("tokens").get<std::vector<token_id>>();
    known += step.tokens.size();
    std::vector<bool> active(known, true);
    for (std::size_t l = 0; l < data.at("layers").get<std::size_t>(); ++l) {
      for (const position p : positions_of(from.at("changes").at(l))) active.at(p) = !active.at(p);
      layer_trace& layer = step.layers.emplace_back();
      for (std::size_t p = 0; p < known; ++p)
        if (active[p]) layer.active.push_back(static_cast<position>(p));
      layer.rows = positions_of(from.at("rows").at(l));
      layer.revived = positions_of(from.at("revived").at(l));
    }
  }
  return steps;
}

/// Two steps of three layers with 4 prompt tokens. The prefill computes 4, 2 and 1 of them; the decode step computes one more at layers 1
/// and 2.
trace_document small_trace() {
  return {.steps = {{.step = 0,
                     .tokens = {10, 11, 12, 13},
                     .layers = {{{0, 1, 2, 3}, {0, 1, 2, 3}, {}}, {{1, 3}, {1, 3}, {}}, {{3}, {3}, {}}},
                     .next = 11,
                     .logits = {},
                     .margin = {}},
                    {.step = 1,
                     .tokens = {11},
                     .layers = {{{0, 1, 2, 3, 4}, {4}, {}}, {{0, 3, 4}, {0, 4}, {0}}, {{0, 4}, {0, 4}, {}}},
                     .next = 99,
                     .logits = {},
                     .margin = {}}},
          .token_texts = {"<s>", " one", " two", " three", " one"},
          .title = "A title",
          .model = "a model",
          .policy = "--stages 1:0.5,2:0.5",
          .answer = "an answer",
          .facts = {{"dense", "2.5 s"}, {"nothing", ""}},
          .next_texts = {},
          .pruned_is_lost = false};
}

}  // namespace

TEST_CASE("the page holds the whole trace, whichever tokens were kept") {
  std::mt19937 random(5);
  for (int run = 0; run < 40; ++run) {
    CAPTURE(run);
    trace_document document;
    document.steps = lazyprune_test::random_trace(random, {.layers = 1 + random() % 6,
                                                           .prompt = 1 + random() % 60,
                                                           .steps = 1 + random() % 8,
                                                           .vocabulary = 0,
                                                           .keep = 0.1 + 0.1 * static_cast<double>(run % 9)});
    std::vector<step_trace> expected = document.steps;
    for (step_trace& step : expected) step.next = 0, step.margin.clear();
    REQUIRE(trace_in(data_of(trace_page(document))) == expected);
  }
  // A trace that breaks the rules works, too: here tokens come back from one layer to the next.
  trace_document odd = small_trace();
  odd.steps[1].layers[0].active = {0, 4};
  odd.steps[0].next = odd.steps[1].next = 0;
  CHECK(trace_in(data_of(trace_page(odd))) == odd.steps);
}

TEST_CASE("the header summarizes the trace") {
  const std::string page = trace_page(small_trace());
  CHECK(between(page, "<title>", "</title>") == "A title");
  CHECK(between(page, "<h1>", "</h1>") == "A title");
  const auto fact = [&](const std::string& label) { return between(page, "<dt>" + label + "</dt><dd>", "</dd>"); };
  CHECK(fact("model") == "a model");
  CHECK(fact("policy") == "--stages 1:0.5,2:0.5");
  CHECK(fact("prompt") == "4 tokens");
  CHECK(fact("steps") == "2");
  CHECK(fact("layers") == "3");
  CHECK(fact("prompt computed in the prefill") == "58.3 %");  // 7 of 12 rows
  CHECK(fact("by the end") == "75.0 %");                      // 9 of 12: the generated token does not count
  CHECK(fact("rows revived") == "1");
  CHECK(fact("dense") == "2.5 s");
  CHECK(count(page, "nothing") == 0);
  CHECK(between(page, "<blockquote dir=\"auto\">", "</blockquote>") == "an answer");
  CHECK(between(page, "aria-label=\"Percent", "\"") ==
        " of the prompt's tokens computed in the prefill, layer 0 first: 100.0 50.0 25.0; by the end: 100.0 75.0 50.0");
  CHECK(count(page, "<b style=\"height:25.0%\"></b><b style=\"height:25.0%\"></b>") == 1);  // the bar of the last layer
}

TEST_CASE("the table for browsers without JavaScript has one row per step") {
  const std::string table = between(trace_page(small_trace()), "<noscript>", "</noscript>");
  CHECK(count(table, "<tr><td>") == 2);
  CHECK(table.find("<tr><td>0</td><td>&lt;s&gt; one two three</td><td>7</td><td>0</td><td>4 2 1 </td><td> one</td></tr>") != table.npos);
  CHECK(table.find("<tr><td>1</td><td> one</td><td>5</td><td>1</td><td>5 3 2 </td><td>id 99</td></tr>") != table.npos);
}

TEST_CASE("the next token's text is the given text, else the text of a token with the same id, else the id") {
  trace_document document = small_trace();
  CHECK(data_of(trace_page(document)).at("next") == nlohmann::json({" one", "id 99"}));
  document.next_texts = {" ONE", " last"};
  CHECK(data_of(trace_page(document)).at("next") == nlohmann::json({" ONE", " last"}));
  document.token_texts.clear();
  document.next_texts.clear();
  const std::string page = trace_page(document);
  CHECK(data_of(page).at("next") == nlohmann::json({"id 11", "id 99"}));
  CHECK(data_of(page).at("texts").empty());
  CHECK(page.find("<td>id 10 id 11 id 12 id 13 </td>") != page.npos);
}

TEST_CASE("texts with markup, control characters and broken UTF-8 are escaped") {
  const std::string nasty = "</script><script>alert(1)</script><!--<b a='\"&amp;\n\t\x01\x7f\\ @{data} \xff\xc3 \xed\xa0\x80 \u2028 \u65e5";
  trace_document document = small_trace();
  document.token_texts = {nasty, nasty, nasty, nasty, nasty};
  document.title = document.model = document.policy = document.answer = nasty;
  document.facts = {{nasty, nasty}};
  document.next_texts = {nasty, nasty};
  const std::string page = trace_page(document);

  CHECK(count(page, "<script") == count(trace_page(small_trace()), "<script"));
  CHECK(count(page, "</script") == 2);
  CHECK(count(page, "<!--") == 0);
  CHECK(count(page, "<b a=") == 0);
  CHECK(lazyprune::utf8_end(page) == page.size());
  CHECK(page.find('\0') == page.npos);

  const std::string text =
      "</script><script>alert(1)</script><!--<b a='\"&amp;\n\t\x01\x7f\\ @{data} \ufffd\ufffd \ufffd\ufffd\ufffd \u2028 \u65e5";
  const nlohmann::json data = data_of(page);
  CHECK(data.at("texts").at(4) == text);
  CHECK(data.at("next").at(1) == text);

  const std::string shown =
      "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;!--&lt;b a=&#39;&quot;&amp;amp;\n\t\ufffd\ufffd\\ @{data} \ufffd\ufffd "
      "\ufffd\ufffd\ufffd \u2028 \u65e5";
  CHECK(between(page, "<h1>", "</h1>") == shown);
  CHECK(page.find("<dt>" + shown + "</dt><dd>" + shown + "</dd>") != page.npos);
  CHECK(between(page, "<blockquote dir=\"auto\">", "</blockquote>") == shown);
}

TEST_CASE("the page is self-contained, and no placeholder is left") {
  const std::string page = trace_page(small_trace());
  for (const char* outside : {"http:", "https:", "src=", "href=", "url(", "@import", "import(", "fetch(", "@{"}) {
    CAPTURE(outside);
    CHECK(count(page, outside) == 0);
  }
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(page.ends_with("</html>\n"));
  // Each element that the script looks up exists.
  const std::string script(lazyprune::program::trace_page_script);
  std::size_t asked = 0;
  for (std::size_t at = script.find("byId('"); at != script.npos; at = script.find("byId('", at + 1), ++asked) {
    const std::string name = script.substr(at + 6, script.find('\'', at + 6) - at - 6);
    CAPTURE(name);
    CHECK(count(page, " id=\"" + name + "\"") == 1);
  }
  CHECK(asked > 20);
}

TEST_CASE("empty parts are left out") {
  trace_document document = small_trace();
  document.title.clear();
  document.model.clear();
  document.answer.clear();
  const std::string page = trace_page(document);
  CHECK(between(page, "<h1>", "</h1>") == "A trace of lazyprune");
  CHECK(count(page, "<dt>model</dt>") == 0);
  CHECK(count(page, "<blockquote") == 0);
}

TEST_CASE("the script knows whether pruned tokens are lost") {
  trace_document document = small_trace();
  CHECK(data_of(trace_page(document)).at("lost") == false);
  document.pruned_is_lost = true;
  CHECK(data_of(trace_page(document)).at("lost") == true);
}

TEST_CASE("a long trace stays below 5 MB") {
  std::mt19937 random(6);
  trace_document document;
  document.steps = lazyprune_test::random_trace(random, {.layers = 32, .prompt = 4000, .steps = 64, .vocabulary = 0, .keep = 0.95});
  document.token_texts.assign(4063, " token");
  const std::string page = trace_page(document);
  CHECK(page.size() < 5'000'000);
}

TEST_CASE("a trace without steps is an error") {
  using lazyprune_test::at;
  using lazyprune_test::error_of;
  CHECK(error_of([] { trace_page({}); }) == at("trace"));
}
