// SPDX-License-Identifier: MIT
#include "pages/sweep_page.hpp"

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "pages/sweep_figures.hpp"
#include "programs/pages/page_parts.hpp"

#include <files/support.hpp>

namespace {

using namespace lazyprune;
using namespace lazyprune::program;
using lazyprune_test::between, lazyprune_test::count, lazyprune_test::well_formed_xml;

/// Returns all SVG elements of a page: its charts and legends.
std::vector<std::string> pictures_of(const std::string& page) {
  std::vector<std::string> all;
  for (std::size_t at = page.find("<svg"); at != page.npos; at = page.find("<svg", at + 1))
    all.push_back(page.substr(at, page.find("</svg>", at) + 6 - at));
  return all;
}

/// Checks the properties that every page has.
void check_whole(const std::string& page) {
  for (const std::string& picture : pictures_of(page)) {
    CAPTURE(picture);
    CHECK(well_formed_xml(picture));
  }
  CHECK(well_formed_xml(between(page, "</header>", "</body>")));
  for (const std::string_view none : {"@{", "<script", "src=", "url(", ">nan", "\"nan", " nan", ">inf", "inf\"", "inf "}) {
    CAPTURE(none);
    CHECK(count(page, none) == 0);
  }
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(page.ends_with("</html>\n"));
}

std::string section_of(const std::string& page, const std::string& heading) { return between(page, "<h2>" + heading, "</section>"); }

estimate around(double mean, double half) { return {mean, {mean - half, mean + half}}; }

eval_summary summary(std::string_view task, const estimate& score, std::optional<estimate> speedup = {},
                     std::optional<estimate> lost = {}) {
  eval_summary s;
  s.task = task;
  s.metric = "qa_f1";
  s.n = 10;
  s.score = score;
  s.lost = lost;
  s.speedup_ttft = speedup;
  return s;
}

/// Two tasks of one group and one of another, with dense and two methods at two budgets. static lacks one task at the lower budget.
sweep_table small_table() {
  sweep_table table{"tiny", 4, {}, {}, {}};
  const auto add = [&](std::string method, std::optional<double> budget, std::string policy, const eval_summary& s) {
    table.entries.push_back({std::move(method), budget, std::move(policy), s});
  };
  add("dense", {}, "--policy dense", summary("qasper", {20, {17, 24}}, around(1, 0)));
  add("dense", {}, "--policy dense", summary("narrativeqa", {40, {36, 43}}, around(1, 0)));
  add("dense", {}, "--policy dense", summary("lcc", around(60, 2), around(1, 0)));
  for (const double budget : {0.3, 0.6}) {
    const double speedup = budget < 0.5 ? 3 : 1.5;
    const std::string flags = budget < 0.5 ? "--stages 2:0.2,3:0.2" : "--stages 2:0.5,3:0.5";
    add("lazyllm@2+3", budget, flags, summary("qasper", around(19, 1), around(speedup, 0.1), around(1, 2)));
    add("lazyllm@2+3", budget, flags, summary("narrativeqa", around(39, 1), around(speedup + 1, 0.1), around(1, 0.5)));
    const double lost = budget < 0.5 ? 2.1 : 2;
    add("lazyllm@2+3", budget, flags, summary("lcc", around(60 - lost, 1), around(speedup, 0.1), around(lost, 2)));
    add("static@2", budget, "--policy static", summary("qasper", around(10, 1), around(speedup, 0.1)));
    if (budget > 0.5) add("static@2", budget, "--policy static", summary("narrativeqa", around(20, 1), around(speedup, 0.1)));
    add("static@2", budget, "--policy static", summary("lcc", around(30, 1), around(speedup, 0.1), around(30, 1)));
  }
  return table;
}

}  // namespace

TEST_CASE("an axis of scores spans at least ten points and contains all scores") {
  const auto ends = [](double low, double high) {
    const chart_axis axis = score_axis("score", low, high);
    return std::pair(axis.low(), axis.high());
  };
  CHECK(ends(100, 100) == std::pair(90.0, 100.0));
  CHECK(ends(0, 0) == std::pair(0.0, 10.0));
  CHECK(ends(50, 50) == std::pair(44.0, 56.0));  // 45 to 55, rounded outwards to steps of two
  CHECK(ends(3, 97) == std::pair(0.0, 100.0));
}

TEST_CASE("Table 1: means of groups, bold unless a loss is certain, a dash if a task is missing") {
  const std::string page = sweep_page(small_table());
  check_whole(page);
  CHECK(between(page, "<title>", "</title>") == "Token pruning on tiny: accuracy and speed");
  const std::string table = section_of(page, "Table 1");
  CHECK(table.find("budget 0.6") < table.find("budget 0.3"));  // the larger budget first
  const std::string single = between(table, "<th rowspan=\"3\">Single-Doc QA</th>", "</tbody>");
  // The mean of 20 and 40 is 30. The interval of 20 is 17 to 24, and that of 40 is 36 to 43. Below the scores the distances are 3 and 4,
  // and above them 4 and 3, so the mean's interval ends sqrt(3^2 + 4^2) / 2 = 2.5 below and above the mean.
  CHECK(count(single, "<td class=\"all\" colspan=\"4\">30.0 (27.5–32.5), 1.00x</td>") == 1);
  // The pruned mean's interval has the half width sqrt(1 + 1) / 2 = 0.7. The mean loss is 1 point. Its interval begins
  // sqrt(2^2 + 0.5^2) / 2 = 1.03 lower, below 0, so the loss is not certain and the mean is bold.
  const std::string lazyllm = between(single, "<th>lazyllm@2+3</th>", "</tr>");
  CHECK(count(lazyllm, "<td><b>29.0</b><small>28.3–29.7</small></td>") == 2);
  CHECK(count(lazyllm, "<td>2.00x<small>1.93–2.07</small></td>") == 1);
  CHECK(count(lazyllm, "<td>3.50x<small>3.43–3.57</small></td>") == 1);
  CHECK(between(single, "<th>static@2</th>", "</tr>") ==
        "<td>15.0<small>14.3–15.7</small></td><td>1.50x<small>1.43–1.57</small></td>"
        "<td>–</td><td>–</td>");
  // The intervals of lazyllm's losses begin at 0.1 (budget 0.3) and at 0 (budget 0.6), so only 58.0 is bold. static loses 30 points.
  const std::string code = between(table, "<th rowspan=\"3\">Code</th>", "</tbody>");
  CHECK(count(code, "<b>58.0</b>") == 1);
  CHECK(count(code, "<td>57.9<small>") == 1);
  CHECK(count(code, "<td>30.0<small>") == 2);
  CHECK(count(between(table, "<th rowspan=\"3\">All tasks</th>", "</tbody>"), ">40.0 (") == 1);
}

TEST_CASE("Table 2: tokens computed and the overall speedup") {
  sweep_table table = small_table();
  for (sweep_entry& entry : table.entries) {
    entry.summary.share_computed = around(entry.budget ? 0.5 : 1, 0);
    if (entry.method == "lazyllm@2+3") entry.summary.speedup_total = around(1.25, 0.05);
  }
  const std::string text = section_of(sweep_page(table), "Table 2"), code = between(text, "<th rowspan=\"3\">Code</th>", "</tbody>");
  CHECK(count(code, ">100.0 % (100.0–100.0)</td>") == 1);
  CHECK(count(code, "<td>50.0 %<small>50.0–50.0</small></td><td>1.25x<small>1.20–1.30</small></td>") == 2);
  CHECK(count(code, "<td>50.0 %<small>50.0–50.0</small></td><td>–</td>") == 2);
  CHECK(count(text, "<b>") == 0);
}

TEST_CASE("Figure 5: a chart of the means and one per task, with a line per method through its budgets") {
  const std::string figure = section_of(sweep_page(small_table()), "Figure 5");
  CHECK(count(figure, "<figure>") == 4);
  CHECK(count(figure, "<li>") == 3);
  const std::string lcc = between(figure, "<figcaption>lcc</figcaption>", "</figure>");
  CHECK(count(lcc, "<title>lazyllm@2+3, budget 0.6: score 58.0 (57.0–59.0), TTFT 1.50x (1.40–1.60)</title>") == 1);
  // The x axis is the speedup, from 1 (dense) to 4 (narrativeqa). A step of 1 is 106 units wide. The y axis is the score, from 30 to 70.
  // Ten points are 49.5 units high.
  CHECK(count(lcc, "<path d=\"M103.0 69.4L262.0 69.9\" fill") == 1);
  CHECK(count(lcc, "<path d=\"M103.0 208.0L262.0 208.0\" fill") == 1);
  CHECK(count(lcc, "\">1.0</text>") == 1);
  CHECK(count(lcc, "\">4.0</text>") == 1);
  const std::string narrativeqa = between(figure, "<figcaption>narrativeqa</figcaption>", "</figure>");
  CHECK(count(narrativeqa, "<title>static@2") == 1);
  CHECK(count(between(figure, "<figcaption>all tasks</figcaption>", "</figure>"), "<title>static@2") == 1);

  sweep_table untimed = small_table();
  for (sweep_entry& entry : untimed.entries) entry.summary.speedup_ttft.reset();
  const std::string page = sweep_page(untimed);
  check_whole(page);
  CHECK(count(section_of(page, "Figure 5"), "<svg") == 0);
  CHECK(count(section_of(page, "Figure 5"), "no speedup was measured") == 1);
}

TEST_CASE("Figure 5's first chart is also a file of its own with a legend, unless no speedup was measured") {
  const std::string figure = sweep_figure(small_table());
  CHECK(figure.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 570 250\""));
  CHECK(count(figure, "<svg") == 3);
  CHECK(count(figure, "</svg>") == 3);
  CHECK(count(figure, "aria-label=\"all tasks\"") == 1);
  for (const char* name : {"lazyllm@2+3", "static@2", "dense, and its interval"})
    CHECK(count(figure, ">" + std::string(name) + "</text>") == 1);
  CHECK(figure.find("lazyllm@2+3</text>") < figure.find("static@2</text>"));
  sweep_table untimed = small_table();
  for (sweep_entry& entry : untimed.entries) entry.summary.speedup_ttft.reset();
  CHECK(sweep_figure(untimed).empty());
}

TEST_CASE("Figure 5 leaves out the tasks without a speedup, and draws the others") {
  sweep_table table = small_table();
  for (sweep_entry& entry : table.entries)
    if (entry.summary.task == "narrativeqa") entry.summary.speedup_ttft.reset();
  const std::string page = sweep_page(table), figure = section_of(page, "Figure 5");
  check_whole(page);
  CHECK(count(figure, "<figure>") == 3);
  CHECK(count(figure, "<figcaption>narrativeqa</figcaption>") == 0);
  CHECK(count(figure, "<p>Not drawn, because no speedup was measured: narrativeqa.</p>") == 1);
  // The means of the other two tasks: (20 + 60) / 2 for dense, (19 + 58) / 2 for lazyllm.
  const std::string all = between(figure, "<figcaption>all tasks with times</figcaption>", "</figure>");
  CHECK(count(all, "<title>lazyllm@2+3, budget 0.6: score 38.5 (37.8–39.2), TTFT 1.50x (1.43–1.57)</title>") == 1);
  CHECK(count(all, "<title>static@2") == 2);
  CHECK(count(sweep_figure(table), "aria-label=\"all tasks with times\"") == 1);
  CHECK(count(section_of(sweep_page(small_table()), "Figure 5"), "Not drawn") == 0);

  for (sweep_entry& entry : table.entries)
    if (entry.summary.task == "qasper") entry.summary.speedup_ttft.reset();
  CHECK(count(sweep_figure(table), "aria-label=\"lcc\"") == 1);  // one task needs no mean
}

TEST_CASE("Figure 6: mean scores over layers, one line per share; no chart if no policy with one stage was run") {
  sweep_table table = small_table();
  CHECK(count(section_of(sweep_page(table), "Figure 6"), "<svg") == 0);
  CHECK(count(section_of(sweep_page(table), "Figure 6"), "<table") == 0);
  for (const layer_id after : {3u, 1u})
    for (const double share : {0.1, 0.9})
      for (const std::string_view task : {"qasper", "lcc"})
        if (after == 3 || share > 0.5 || task == "lcc")
          table.sensitivity.push_back({after, share, "", summary(task, around((task == "lcc" ? 50 : 10) * share + after, 3))});
  CHECK(between(section_of(sweep_page(table), "Figure 6"), "<tr><th>dense</th>", "</tr>") == "<td>–</td><td>–</td>");
  table.sensitivity_dense = {summary("qasper", around(20, 3)), summary("lcc", around(50, 3))};
  const std::string page = sweep_page(table), figure = section_of(page, "Figure 6");
  check_whole(page);
  CHECK(count(between(figure, "<tr><th>dense</th>", "</tr>"), "<td>35.0<small>") == 2);  // of sensitivity_dense, not the table's 40
  CHECK(count(figure, "over 2 tasks") == 1);
  CHECK(count(figure, "<th>after 1</th><th>after 3</th>") == 1);
  // The means are 0.9 * 30 + 1, 0.9 * 30 + 3 and 0.1 * 30 + 3. One task is missing after layer 1 at share 0.1.
  CHECK(between(figure, "<tr><th>90 % kept</th>", "</tr>") == "<td>28.0<small>25.9–30.1</small></td><td>30.0<small>27.9–32.1</small></td>");
  CHECK(between(figure, "<tr><th>10 % kept</th>", "</tr>") == "<td>–</td><td>6.0<small>3.9–8.1</small></td>");
  CHECK(count(figure, "<title>90 % kept after layer 1: 28.0 (25.9–30.1)</title>") == 1);
  CHECK(count(figure, "<path d=\"M50.0 69.4L368.0 59.5\"") == 1);  // layers from 1 to 3, scores from 0 to 40
  CHECK(figure.find("90 % kept") < figure.find("10 % kept"));
}

TEST_CASE("Figure 7: layers that have computed the same tokens are one stage") {
  sweep_table table = small_table();
  CHECK(count(section_of(sweep_page(table), "Figure 7"), "<svg") == 0);
  for (sweep_entry& entry : table.entries) {
    if (entry.budget != 0.3) continue;
    const double more = entry.summary.task == "lcc" ? 0.3 : 0;  // adds 0.1 to the mean of three tasks
    entry.summary.usage = {{1, 1, 0.25, 0.25}, {1, 1, 0.25, 0.25 + more}, {1, 1, 0.5, 0.5}};
  }
  const std::string page = sweep_page(table), figure = section_of(page, "Figure 7");
  check_whole(page);
  CHECK(count(figure, "<figure>") == 1);  // only lazyllm methods have a chart; static would also lack a task
  CHECK(count(figure, "<figcaption>lazyllm@2+3, budget 0.3</figcaption>") == 1);
  CHECK(count(figure, "<th>0 %</th><th>50 %</th><th>100 %</th>") == 1);
  CHECK(count(figure, "<td class=\"text\">layers 1–2</td><td>100.0</td><td>100.0</td><td>100.0</td>") == 1);
  CHECK(count(figure, "<td class=\"text\">layer 3</td><td>25.0</td><td>25.0</td><td>50.0</td>") == 1);
  CHECK(count(figure, "<td class=\"text\">layer 4</td><td>25.0</td><td>35.0</td><td>50.0</td>") == 1);
  CHECK(count(figure, "<path d=\"M50.0 158.5L209.0 138.7L368.0 109.0\"") == 1);
  CHECK(count(figure, "<title>layer 4 after 50 % of the generated tokens: 35.0 %</title>") == 1);
}

TEST_CASE("all results and settings are in tables") {
  const std::string page = sweep_page(small_table());
  const std::string results = section_of(page, "All results"), settings = section_of(page, "The settings");
  CHECK(count(results, "<tr><th>") == 1 + 14);
  CHECK(count(results,
              "<tr><th>lcc</th><td "
              "class=\"text\">static@2</td><td>0.6</td><td>10</td><td>30.0<small>29.0–31.0</small></td><td>30.0<small>29.0–31.0</small></"
              "td>") == 1);
  CHECK(count(results, "<td>1.0<small>-1.0 to 3.0</small></td>") == 2);
  CHECK(count(settings, "<tr><th>") == 1 + 5);
  CHECK(count(settings, "<tr><th>lazyllm@2+3</th><td>0.3</td><td class=\"flags\"><code>--stages 2:0.2,3:0.2</code></td></tr>") == 1);
  CHECK(count(page, "<dt>lazyllm</dt>") == 1);
  CHECK(count(page, "<dt>static</dt>") == 1);
  CHECK(count(page, "<dt>random</dt>") == 0);
}

TEST_CASE("the page says how many samples were timed, if not all were") {
  sweep_table table = small_table();
  const auto facts = [&] { return between(sweep_page(table), "<dl class=\"facts\">", "</dl>"); };
  CHECK(count(facts(), "<dt>times</dt>") == 0);  // a table without times
  for (sweep_entry& entry : table.entries) entry.summary.timed = 10;
  CHECK(count(facts(), "<dt>times</dt>") == 0);
  for (sweep_entry& entry : table.entries) entry.summary.timed = entry.summary.task == "lcc" ? 10 : 4;
  check_whole(sweep_page(table));
  CHECK(count(facts(), "<dt>times</dt><dd>over 18 of 30 samples</dd>") == 1);
}

TEST_CASE("a table with one entry has a page; an empty table is an error") {
  check_whole(sweep_page({"tiny", 4, {{"dense", {}, "", summary("lcc", around(100, 0))}}, {}, {}}));
  check_whole(sweep_page({"tiny", 4, {{"lazyllm@2", 0.5, "", summary("lcc", around(0, 0), around(2, 0))}}, {}, {}}));
  CHECK(section_of(sweep_page({"tiny", 4, {{"lazyllm@2", 0.5, "", summary("lcc", around(0, 0), around(2, 0))}}, {}, {}}), "Figure 5")
            .find("<figure>") != std::string::npos);
  CHECK(lazyprune_test::error_of([] { sweep_page({"tiny", 4, {}, {}, {}}); }) == lazyprune_test::at("sweep"));
}

TEST_CASE("names with markup, and numbers that are not finite") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  sweep_table table{"</title><script>", 2, {}, {}, {}};
  eval_summary bad = summary("<img alt=x>", around(nan, 0), around(infinity, 1));
  bad.metric = "<i>";
  bad.usage = {{nan, nan}, {1, infinity}};
  table.entries.push_back({"<dense>", {}, "", bad});
  table.entries.push_back({"lazyllm@\"1\"", 0.5, "--p \"<&>\"", bad});
  table.sensitivity.push_back({1, 0.5, "", bad});
  const std::string page = sweep_page(table);
  check_whole(page);
  CHECK(count(page, "<img") == 0);
  CHECK(count(page, "&lt;img alt=x&gt;") > 0);
  CHECK(count(page, "<code>--p &quot;&lt;&amp;&gt;&quot;</code>") == 1);
}
