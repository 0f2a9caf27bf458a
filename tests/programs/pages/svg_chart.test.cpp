// SPDX-License-Identifier: MIT
#include "pages/svg_chart.hpp"

#include <limits>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "programs/pages/page_parts.hpp"

using namespace lazyprune::program;
using lazyprune_test::between, lazyprune_test::count, lazyprune_test::well_formed_xml;

TEST_CASE("an axis has round ends and steps") {
  const auto is = [](const chart_axis& axis, double first, double last, double step) {
    CHECK(axis.first == doctest::Approx(first));
    CHECK(axis.last == doctest::Approx(last));
    CHECK(axis.step == doctest::Approx(step));
  };
  is(axis_over("", 0.9, 2.35), 1, 5, 0.5);  // the axis is from 0.5 to 2.5
  is(axis_over("", 0, 100), 0, 5, 20);
  is(axis_over("", 91.2, 100), 45, 50, 2);  // the axis begins at 90
  is(axis_over("", -3, 4), -2, 2, 2);
  is(axis_over("", 0.5, 1.1), 5, 11, 0.1);  // at most six steps
  is(axis_over("", 1, 3, 1), 1, 3, 1);      // layers are whole numbers
  is(axis_over("", 2, 2, 1), 2, 3, 1);
  is(axis_over("", 7, 7), 70, 71, 0.1);
  is(axis_over("", 1000, 31000), 0, 4, 10000);
  CHECK(axis_over("x", 0.9, 2.35).low() == doctest::Approx(0.5));
  CHECK(axis_over("x", 0.9, 2.35).high() == doctest::Approx(2.5));
}

TEST_CASE("lines and marks are drawn at the coordinates of their values") {
  const chart drawn{"a chart",
                    {"speed", 0, 5, 2},
                    {"score", 0, 5, 20},
                    {{"one", 0, {{0, 0, "low"}, {5, 50, "middle"}, {10, 100, "high"}}}, {"two", 1, {{2, 80, "lone"}}}},
                    chart_level{"dense", 75, 70, 80}};
  const std::string svg = svg_chart(drawn);
  CHECK(well_formed_xml(svg));
  CHECK(count(svg, "aria-label=\"a chart\"") == 1);
  // The area between the axes is 318 wide, from x = 50, and 198 high, down to y = 208.
  CHECK(count(svg, "<path d=\"M50.0 208.0L209.0 109.0L368.0 10.0\" fill=\"none\" stroke=\"#0072b2\"") == 1);
  CHECK(count(between(svg, "transform=\"translate(209.0 109.0)\"", "</path>"), "<title>middle</title>") == 1);
  CHECK(count(between(svg, "transform=\"translate(113.6 49.6)\"", "</path>"), "<title>lone</title>") == 1);
  CHECK(count(svg, "d=\"M50.0 59.5H368.0\"") == 1);
  CHECK(count(svg, "<rect x=\"50.0\" y=\"49.6\" width=\"318.0\" height=\"19.8\"") == 1);
  CHECK(count(svg, "<text x=\"113.6\" y=\"224.0\" text-anchor=\"middle\">2</text>") == 1);
  CHECK(count(svg, "<text x=\"44.0\" y=\"172.4\" text-anchor=\"end\">20</text>") == 1);
  CHECK(count(svg, ">speed</text>") == 1);
  CHECK(count(svg, ">score</text>") == 1);
  CHECK(svg.find("<title>lone") < svg.find("<title>middle"));  // the first series is drawn last, above the others
}

TEST_CASE("ticks have as many digits as their step needs") {
  const chart drawn{"", axis_over("", 0.5, 1.1), axis_over("", -0.04, 0.05), {}, {}};
  const std::string svg = svg_chart(drawn);
  for (const std::string label : {"0.5", "0.6", "0.7", "0.8", "0.9", "1.0", "1.1"}) CHECK(count(svg, "middle\">" + label + "</text>") == 1);
  for (const std::string label : {"-0.04", "-0.02", "0.00", "0.02", "0.04", "0.06"}) CHECK(count(svg, "end\">" + label + "</text>") == 1);
}

TEST_CASE("a long legend has as many columns as it needs") {
  chart drawn{"", axis_over("", 0, 1), axis_over("", 0, 1), {}, chart_level{"dense", 0.5, 0.4, 0.6}};
  for (std::size_t i = 0; i < 24; ++i) drawn.series.push_back({"s" + std::to_string(i), i, {{0, 0, ""}}});
  const std::string svg = svg_chart_with_legend(drawn);
  CHECK(well_formed_xml(svg));
  CHECK(svg.find("viewBox=\"0 0 950 250\"") != std::string::npos);  // 24 series and the level, twelve per column
  CHECK(count(svg, "<g transform=\"translate(388 240)\">") == 1);
  CHECK(count(svg, "<g transform=\"translate(578 20)\">") == 1);
  CHECK(count(svg, "<g transform=\"translate(768 20)\">") == 1);
  CHECK(count(svg, "<g transform=\"translate(388 260)\">") == 0);
  drawn.series.resize(11);
  CHECK(svg_chart_with_legend(drawn).find("viewBox=\"0 0 570 250\"") != std::string::npos);
}

TEST_CASE("an empty chart, names with markup, and values that are not finite") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const chart_axis axis{"<&\">", 0, 2, 1};
  chart drawn{"a<b", axis, axis, {}, {}};
  CHECK(well_formed_xml(svg_chart(drawn)));
  const std::size_t marks = count(svg_chart(drawn), "<title>");
  CHECK(marks == 0);
  drawn.series = {
      {"x<y", 0, {{nan, 1, "a"}, {1, infinity, "b"}}}, {"]]>", 1, {{1, 1, "<c>"}, {nan, nan, "d"}, {2, 2, "\x01"}}}, {"", 2, {}}};
  drawn.level = chart_level{"<", nan, nan, nan};
  const std::string svg = svg_chart(drawn) + chart_legend(drawn.series, drawn.level);
  CHECK(well_formed_xml(svg));
  CHECK(count(svg, "nan") == 0);
  CHECK(count(svg, "inf") == 0);
  CHECK(count(svg, "<title>&lt;c&gt;</title>") == 1);
  CHECK(count(svg, "<title>\xef\xbf\xbd</title>") == 1);
  CHECK(count(svg, "M209.0 109.0L368.0 10.0") == 1);  // the finite points of the second series
  CHECK(count(svg, "<title>a</title>") == 0);
  CHECK(count(svg, "</svg>x&lt;y</li>") == 1);
}

TEST_CASE("56 series look different; neighbours also differ without colour") {
  std::set<std::string> looks;
  for (std::size_t s = 0; s < 56; ++s) {
    const chart_style style = style_of(s), next = style_of(s + 1);
    looks.insert(std::string(style.colour).append(style.mark));
    CHECK(style.dashes != next.dashes);
    CHECK(style.mark != next.mark);
  }
  CHECK(looks.size() == 56);
}
