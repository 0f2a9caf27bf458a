// SPDX-License-Identifier: MIT
// Draws line charts as SVG. They are legible without colour: each series has its own dashes and its own mark.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lazyprune {
namespace program {

/// An axis of a chart. It begins and ends at a tick.
struct chart_axis {
  std::string label;
  double first, last;  // the first and last tick, in steps
  double step;
  double low() const { return first * step; }
  double high() const { return last * step; }
};

/// Returns the axis over [low, high] with the smallest step that divides it into at most six parts. Steps are 1, 2 or 5 times a power of
/// ten, and at least `least_step`.
chart_axis axis_over(std::string label, double low, double high, double least_step = 0);

struct chart_point {
  double x, y;
  std::string title;  // shown when the pointer is over the mark
};

struct chart_series {
  std::string name;
  std::size_t style;  // number for style_of; series with the same number look alike in all charts
  std::vector<chart_point> points;
};

/// A horizontal line, and a band around it: its confidence interval.
struct chart_level {
  std::string name;
  double y, low, high;
};

/// All points must lie within the axes. Earlier series are drawn above later ones.
struct chart {
  std::string name;  // screen readers read it, too
  chart_axis x, y;
  std::vector<chart_series> series;
  std::optional<chart_level> level;
};

struct chart_style {
  std::string_view colour, dashes, mark;
  bool filled;
};

/// Returns a style. The first 56 differ in colour or mark; neighbours also differ in dashes.
chart_style style_of(std::size_t number);

/// Draws the chart as one self-contained <svg> element. Values that are not finite are left out.
std::string svg_chart(const chart& c);

/// Writes the legend as an HTML list: the series, then the level.
std::string chart_legend(std::span<const chart_series> series, const std::optional<chart_level>& level = {});

/// Draws the chart with its legend at the right, as an SVG file of its own.
std::string svg_chart_with_legend(const chart& c);

}  // namespace program
}  // namespace lazyprune
