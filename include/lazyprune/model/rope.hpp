// SPDX-License-Identifier: MIT
// The RoPE frequencies of a model, scaled as its config says. Scaling changes the frequencies; positions stay whole numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

/// The kinds of a model's rotary tables. `extended` is for long sequences, because LongRoPE has other frequencies for them. `windowed` is
/// for layers with a sliding window, which may have their own frequencies. `usual` is for everything else.
enum class rope_kind : std::uint8_t { usual, extended, windowed };
inline constexpr std::size_t rope_kinds = 3;

struct rope_frequencies {
  std::vector<double> radians;  // (head_dim / 2), radians per position; 0: this pair of numbers does not rotate
  double scale = 1.0;           // multiplies cosines and sines
};

namespace detail {

/// The scaled frequency of Llama 3.1. A frequency with a long wave is divided by `factor`, and one with a short wave stays. Between the
/// two, frequencies are interpolated.
inline double llama3_frequency(const rope_config& rope, double frequency) {
  const double wave_length = 2.0 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(rope.original_positions);
  if (wave_length < original / rope.high_frequency) return frequency;
  if (wave_length > original / rope.low_frequency) return frequency / rope.factor;
  const double smooth = (original / wave_length - rope.low_frequency) / (rope.high_frequency - rope.low_frequency);
  return (1.0 - smooth) * frequency / rope.factor + smooth * frequency;
}

/// YaRN (arXiv 2309.00071, section 3.2). Dimensions with more than beta_fast rotations over the original length keep their frequency.
/// Frequencies of dimensions with fewer than beta_slow rotations are divided by `factor`. Between the two bounds, frequencies are
/// interpolated.
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
  if (low == high) high += 0.001;  // avoids a division by zero, as transformers does
  std::vector<double> radians(head_dim / 2);
  for (std::size_t i = 0; i < radians.size(); ++i) {
    const double frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    radians[i] = frequency / rope.factor * ramp + frequency * (1.0 - ramp);
  }
  return radians;
}

}  // namespace detail

/// The frequencies of heads that RoPE rotates as a whole. `extended`: the sequence is longer than the original length.
inline rope_frequencies frequencies_of(const rope_config& rope, std::size_t head_dim, bool extended = false) {
  if (rope.scaling == rope_scaling::yarn) return {detail::yarn_frequencies(rope, head_dim), rope.attention_factor};
  const std::vector<double>& divisors = extended && !rope.long_divisors.empty() ? rope.long_divisors : rope.divisors;
  rope_frequencies result{std::vector<double>(head_dim / 2), rope.attention_factor};
  for (std::size_t i = 0; i < result.radians.size(); ++i) {
    double& frequency = result.radians[i];
    frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    if (!divisors.empty()) frequency /= divisors[i];
    if (rope.scaling == rope_scaling::linear) frequency /= rope.factor;
    if (rope.scaling == rope_scaling::llama3) frequency = detail::llama3_frequency(rope, frequency);
  }
  return result;
}

/// The kind of rotary table for a sequence of `length` tokens, in layers without a window.
inline rope_kind rope_kind_for(const model_config& c, std::size_t length) {
  return c.rope.scaling == rope_scaling::longrope && length > c.rope.original_positions ? rope_kind::extended : rope_kind::usual;
}

/// The frequencies of a model's heads, (head_dim / 2). If only the first rotary_dim numbers of a head rotate, their frequencies come first
/// and the rest are 0.
inline rope_frequencies frequencies_of(const model_config& c, rope_kind kind) {
  const rope_config& rope = kind == rope_kind::windowed && c.window_rope ? *c.window_rope : c.rope;
  rope_frequencies result = frequencies_of(rope, c.rotary_dim ? c.rotary_dim : c.head_dim, kind == rope_kind::extended);
  result.radians.resize(c.head_dim / 2);
  return result;
}

}  // namespace v0
}  // namespace lazyprune
