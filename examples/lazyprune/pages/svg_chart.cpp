// SPDX-License-Identifier: MIT
#include "pages/svg_chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "pages/html.hpp"
#include "tables/number_text.hpp"

namespace lazyprune {
namespace program {

chart_style style_of(std::size_t number) {
  constexpr std::array<std::string_view, 7> colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#a6761d", "#7a4ea3"};
  constexpr std::array<std::string_view, 5> dashes{"none", "7 3", "2 2.5", "9 3 2 3", "5 2 2 2 2 2"};
  constexpr std::array<std::string_view, 8> marks{"M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
                                                  "M-3.6-3.6h7.2v7.2h-7.2z",
                                                  "M0-4.6L4.4 3.4H-4.4z",
                                                  "M0-5L5 0L0 5L-5 0z",
                                                  "M0 4.6L4.4-3.4H-4.4z",
                                                  "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
                                                  "M0-5L1.4-1.6L5-1.5L2.2.8L3.1 4.2L0 2.2L-3.1 4.2L-2.2.8L-5-1.5L-1.4-1.6z",
                                                  "M-3-4.5L0-1.5L3-4.5L4.5-3L1.5 0L4.5 3L3 4.5L0 1.5L-3 4.5L-4.5 3L-1.5 0L-4.5-3z"};
  return {colours[number % colours.size()], dashes[number % dashes.size()], marks[number % marks.size()], number / marks.size() % 2 == 0};
}

namespace {

constexpr std::string_view chart_ink = "#1b2126";

std::string chart_mark(std::size_t style, double x, double y, std::string_view title) {
  const chart_style s = style_of(style);
  std::string out = "<path transform=\"translate(" + fixed(x, 1) + ' ' + fixed(y, 1) + ")\" d=\"";
  out.append(s.mark).append("\" fill=\"").append(s.filled ? s.colour : "#fff").append("\" stroke=\"").append(s.colour);
  return out + "\" stroke-width=\"1.2\"><title>" + html_text(title) + "</title></path>\n";
}

std::string chart_line(std::string_view path, std::string_view colour, std::string_view dashes) {
  std::string out = "<path d=\"";
  out.append(path).append("\" fill=\"none\" stroke=\"").append(colour).append("\" stroke-width=\"1.8\" stroke-dasharray=\"");
  return out.append(dashes).append("\"/>\n");
}

constexpr double chart_width = 380, chart_height = 250;

std::string coordinate(double value) { return fixed(value, 1); }

std::string chart_text(double x, double y, std::string_view more, std::string_view what) {
  return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" " + std::string(more) + '>' + html_text(what) + "</text>\n";
}

/// The number of digits after the point for the ticks of an axis.
int digits_of(const chart_axis& axis) { return std::max(0, -static_cast<int>(std::floor(std::log10(axis.step) + 1e-9))); }

/// The area between the axes of one chart. Converts values to SVG coordinates.
class chart_field {
 public:
  explicit chart_field(const chart& c) : x_(c.x), y_(c.y) {}

  /// Grid lines, ticks and the labels of the axes.
  std::string axes() const {
    std::string out;
    for (double n = y_.first; n <= y_.last; ++n) {  // NOLINT(clang-analyzer-security.FloatLoopCounter): a small whole number
      const double y = y_of(n * y_.step);
      out += rule(left, y, right, y) + chart_text(left - 6, y + 4, "text-anchor=\"end\"", fixed(n * y_.step, digits_of(y_)));
    }
    for (double n = x_.first; n <= x_.last; ++n) {  // NOLINT(clang-analyzer-security.FloatLoopCounter): a small whole number
      const double x = x_of(n * x_.step);
      out += rule(x, top, x, bottom) + chart_text(x, bottom + 16, "text-anchor=\"middle\"", fixed(n * x_.step, digits_of(x_)));
    }
    return out + chart_text((left + right) / 2, chart_height - 8, "text-anchor=\"middle\"", x_.label) +
           chart_text(-(top + bottom) / 2, 12, "transform=\"rotate(-90)\" text-anchor=\"middle\"", y_.label);
  }

  std::string level(const chart_level& l) const {
    if (!std::isfinite(l.y)) return "";
    std::string out;
    const double y = y_of(l.y), upper = y_of(l.high), lower = y_of(l.low);
    if (std::isfinite(upper) && std::isfinite(lower))
      out += "<rect x=\"" + coordinate(left) + "\" y=\"" + coordinate(upper) + "\" width=\"" + coordinate(right - left) + "\" height=\"" +
             coordinate(lower - upper) + "\" fill-opacity=\"0.09\"/>\n";
    return out + chart_line('M' + coordinate(left) + ' ' + coordinate(y) + 'H' + coordinate(right), chart_ink, "none");
  }

  /// Points that are not finite are left out.
  std::string series(const chart_series& s) const {
    std::string path, marks;
    for (const chart_point& point : s.points) {
      if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
      const double x = x_of(point.x), y = y_of(point.y);
      path += (path.empty() ? 'M' : 'L') + coordinate(x) + ' ' + coordinate(y);
      marks += chart_mark(s.style, x, y, point.title);
    }
    if (path.empty()) return "";
    const chart_style style = style_of(s.style);
    return chart_line(path, style.colour, style.dashes) + marks;
  }

 private:
  static constexpr double left = 50, right = 368, top = 10, bottom = 208;

  double x_of(double x) const { return left + (x - x_.low()) / (x_.high() - x_.low()) * (right - left); }
  double y_of(double y) const { return bottom - (y - y_.low()) / (y_.high() - y_.low()) * (bottom - top); }

  static std::string rule(double x, double y, double to_x, double to_y) {
    return "<path d=\"M" + coordinate(x) + ' ' + coordinate(y) + 'L' + coordinate(to_x) + ' ' + coordinate(to_y) +
           "\" stroke=\"#d5dbdf\"/>\n";
  }

  const chart_axis& x_;
  const chart_axis& y_;
};

}  // namespace

chart_axis axis_over(std::string label, double low, double high, double least_step) {
  const double most = 6, span = high > low ? high - low : 1.0, nothing = 1e-9;
  for (double power = std::pow(10.0, std::floor(std::log10(span / most)));; power *= 10)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double step = factor * power, first = std::floor(low / step + nothing);
      const double last = std::max(std::ceil(high / step - nothing), first + 1);
      if (step > least_step - nothing && last - first <= most) return {std::move(label), first, last, step};
    }
}

std::string svg_chart(const chart& c) {
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + fixed(chart_width, 0) + ' ' + fixed(chart_height, 0) +
                    "\" role=\"img\" aria-label=\"" + html_text(c.name) + "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"" +
                    std::string(chart_ink) + "\">\n";
  const chart_field field(c);
  out += field.axes();
  if (c.level) out += field.level(*c.level);
  for (std::size_t s = c.series.size(); s-- > 0;) out += field.series(c.series[s]);
  return out + "</svg>\n";
}

std::string chart_legend(std::span<const chart_series> series, const std::optional<chart_level>& level) {
  const auto item = [](const std::string& drawn, const std::string& name) {
    return "<li><svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 40 14\" width=\"40\" height=\"14\" aria-hidden=\"true\">\n" +
           drawn + "</svg>" + html_text(name) + "</li>\n";
  };
  std::string out = "<ul class=\"legend\">\n";
  for (const chart_series& s : series) {
    const chart_style style = style_of(s.style);
    out += item(chart_line("M0 7H40", style.colour, style.dashes) + chart_mark(s.style, 20, 7, s.name), s.name);
  }
  if (level)
    out += item("<rect width=\"40\" height=\"14\" fill-opacity=\"0.09\"/>\n" + chart_line("M0 7H40", chart_ink, "none"), level->name);
  return out + "</ul>\n";
}

std::string svg_chart_with_legend(const chart& c) {
  constexpr double legend_column_width = 190, line_height = 20, first_line = 20, left = chart_width + 8;
  constexpr auto lines = static_cast<std::size_t>((chart_height - first_line) / line_height) + 1;  // per column
  std::string legend;
  std::size_t items = 0;
  const auto item = [&](const std::string& drawn, const std::string& name) {
    const std::size_t column = items / lines;
    const double x = left + legend_column_width * static_cast<double>(column),
                 y = first_line + line_height * static_cast<double>(items % lines);
    legend += "<g transform=\"translate(" + fixed(x, 0) + ' ' + fixed(y, 0) + ")\">\n" + drawn + "<text x=\"46\" y=\"4\">" +
              html_text(name) + "</text></g>\n";
    ++items;
  };
  for (const chart_series& s : c.series) {
    if (s.points.empty()) continue;
    const chart_style style = style_of(s.style);
    item(chart_line("M0 0H40", style.colour, style.dashes) + chart_mark(s.style, 20, 0, s.name), s.name);
  }
  if (c.level)
    item("<rect y=\"-7\" width=\"40\" height=\"14\" fill-opacity=\"0.09\"/>\n" + chart_line("M0 0H40", chart_ink, "none"), c.level->name);
  const auto columns = static_cast<double>(std::max<std::size_t>((items + lines - 1) / lines, 1));
  const std::string width = fixed(chart_width + legend_column_width * columns, 0), height = fixed(chart_height, 0);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + width + ' ' + height +
         "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"" + std::string(chart_ink) + "\">\n<rect width=\"" + width +
         "\" height=\"" + height + "\" fill=\"#fff\"/>\n<svg width=\"" + fixed(chart_width, 0) + "\" height=\"" + height + "\">\n" +
         svg_chart(c) + "</svg>\n" + legend + "</svg>\n";
}

}  // namespace program
}  // namespace lazyprune
