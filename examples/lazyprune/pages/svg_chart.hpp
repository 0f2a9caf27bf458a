// SPDX-License-Identifier: MIT
// Line charts as SVG, legible without colour: each series has its own dashes and its own mark.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lazyprune {
namespace program {

/// One direction of a chart, from one tick to another.
struct chart_axis {
  std::string label;
  double first, last;  // in steps
  double step;
  double low() const { return first * step; }
  double high() const { return last * step; }
};

/// The axis over [low, high] with the least step that makes at most six of it: 1, 2 or 5 times a power of ten, not below `least_step`.
chart_axis axis_over(std::string label, double low, double high, double least_step = 0);

struct chart_point {
  double x, y;
  std::string title;  // shown where the pointer is over it
};

struct chart_series {
  std::string name;
  std::size_t style;  // series of one number look alike in all charts
  std::vector<chart_point> points;
};

/// A horizontal line, and the band of what cannot be told from it.
struct chart_level {
  std::string name;
  double y, low, high;
};

/// Points lie within the axes. The series that come first are drawn above the others.
struct chart {
  std::string name;  // for those who cannot see it
  chart_axis x, y;
  std::vector<chart_series> series;
  std::optional<chart_level> level;
};

struct chart_style {
  std::string_view colour, dashes, mark;
  bool filled;
};

/// The first 56 differ in colour and mark; dashes tell neighbours apart.
chart_style style_of(std::size_t number);

/// One <svg> element that needs nothing around it. What is not finite is left out.
std::string svg_chart(const chart& c);

/// What the lines are, as a list: those of the series, then the level's.
std::string chart_legend(std::span<const chart_series> series, const std::optional<chart_level>& level = {});

/// The chart, and what its lines are to the right of it: a file of its own.
std::string svg_chart_with_legend(const chart& c);

}  // namespace program
}  // namespace lazyprune
