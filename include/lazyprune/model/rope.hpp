// SPDX-License-Identifier: MIT
// Rotary frequencies of a model, stretched as its config says. Positions stay whole numbers: scaling works on the frequencies.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

struct rope_frequencies {
  std::vector<double> radians;  // (head_dim / 2), per position
  double scale = 1.0;           // of the cosines and sines
};

namespace detail {

/// Llama 3.1: wave lengths beyond the original length are stretched, short ones kept, those between interpolated.
inline double llama3_frequency(const rope_config& rope, double frequency) {
  const double wave_length = 2.0 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(rope.original_positions);
  if (wave_length < original / rope.high_frequency) return frequency;
  if (wave_length > original / rope.low_frequency) return frequency / rope.factor;
  const double smooth = (original / wave_length - rope.low_frequency) / (rope.high_frequency - rope.low_frequency);
  return (1.0 - smooth) * frequency / rope.factor + smooth * frequency;
}

/// YaRN (arXiv 2309.00071, section 3.2): dimensions that turn more than beta_fast times over the original length are kept, those
/// that turn less than beta_slow times are stretched, a ramp between.
inline std::vector<double> yarn_frequencies(const rope_config& rope, std::size_t head_dim) {
  const auto dimension_of = [&](double rotations) {
    return static_cast<double>(head_dim) * std::log(static_cast<double>(rope.original_positions) / (rotations * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(rope.theta));
  };
  double low = dimension_of(rope.beta_fast), high = dimension_of(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim) - 1.0);
  if (low == high) high += 0.001;  // as transformers does: no division by zero
  std::vector<double> radians(head_dim / 2);
  for (std::size_t i = 0; i < radians.size(); ++i) {
    const double frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    radians[i] = frequency / rope.factor * ramp + frequency * (1.0 - ramp);
  }
  return radians;
}

}  // namespace detail

inline rope_frequencies frequencies_of(const rope_config& rope, std::size_t head_dim) {
  if (rope.scaling == rope_scaling::yarn) return {detail::yarn_frequencies(rope, head_dim), rope.attention_factor};
  rope_frequencies result{std::vector<double>(head_dim / 2)};
  for (std::size_t i = 0; i < result.radians.size(); ++i) {
    double& frequency = result.radians[i];
    frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    if (!rope.divisors.empty()) frequency /= rope.divisors[i];
    if (rope.scaling == rope_scaling::linear) frequency /= rope.factor;
    if (rope.scaling == rope_scaling::llama3) frequency = detail::llama3_frequency(rope, frequency);
  }
  return result;
}

}  // namespace v0
}  // namespace lazyprune
