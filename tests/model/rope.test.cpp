// SPDX-License-Identifier: MIT
// Tests the definitions of RoPE scaling. transformer.test.cpp compares the logits of whole models with those of transformers, and so checks
// that the frequencies are equal.
#include <lazyprune/model/rope.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

TEST_CASE("plain: theta to the power of -2i / head_dim") {
  const auto f = frequencies_of({.theta = 100.0}, 8);
  REQUIRE(f.radians.size() == 4);
  CHECK(f.scale == 1.0);
  CHECK(f.radians[0] == 1.0);
  CHECK(f.radians[2] == doctest::Approx(0.1));
  CHECK(f.radians[3] == doctest::Approx(0.0316227766));
}

TEST_CASE("linear: all frequencies are divided by the factor") {
  const auto plain = frequencies_of({.theta = 1e4}, 16),
             scaled = frequencies_of({.theta = 1e4, .scaling = rope_scaling::linear, .factor = 4.0}, 16);
  for (std::size_t i = 0; i < 8; ++i) CHECK(scaled.radians[i] == plain.radians[i] / 4.0);
}

TEST_CASE("divisors: each divides one frequency; linear scaling then divides all of them again") {
  const auto plain = frequencies_of({.theta = 1e4}, 4), divided = frequencies_of({.theta = 1e4, .divisors = {1.0, 8.0}}, 4),
             both = frequencies_of({.theta = 1e4, .scaling = rope_scaling::linear, .factor = 2.0, .divisors = {1.0, 8.0}}, 4);
  CHECK(divided.radians[0] == plain.radians[0]);
  CHECK(divided.radians[1] == plain.radians[1] / 8.0);
  CHECK(both.radians[1] == plain.radians[1] / 16.0);
}

TEST_CASE("longrope: long sequences have other divisors, chosen by the expected length; cosines and sines are scaled") {
  model_config c;
  c.head_dim = 4;
  c.rope = {.theta = 1e4,
            .scaling = rope_scaling::longrope,
            .original_positions = 16,
            .attention_factor = 1.25,
            .divisors = {1.0, 2.0},
            .long_divisors = {4.0, 8.0}};
  CHECK(rope_kind_for(c, 16) == rope_kind::usual);
  CHECK(rope_kind_for(c, 17) == rope_kind::extended);
  const auto usual = frequencies_of(c, rope_kind::usual), extended = frequencies_of(c, rope_kind::extended);
  CHECK(usual.scale == 1.25);
  CHECK(extended.scale == 1.25);
  CHECK(usual.radians == std::vector<double>{1.0, 0.005});
  CHECK(extended.radians == std::vector<double>{0.25, 0.00125});
  c.rope.scaling = rope_scaling::none;
  CHECK(rope_kind_for(c, 17) == rope_kind::usual);
}

TEST_CASE("a part of each head rotates: its frequencies come first, the rest are 0; windows have frequencies of their own") {
  model_config c;
  c.head_dim = 8;
  c.rope.theta = 100.0;
  c.rotary_dim = 4;
  CHECK(frequencies_of(c, rope_kind::usual).radians == std::vector<double>{1.0, 0.1, 0.0, 0.0});
  CHECK(frequencies_of(c, rope_kind::windowed).radians == frequencies_of(c, rope_kind::usual).radians);
  c.window_rope = rope_config{.theta = 4.0};
  CHECK(frequencies_of(c, rope_kind::windowed).radians == std::vector<double>{1.0, 0.5, 0.0, 0.0});
}

TEST_CASE("llama3: the frequencies of short waves stay, those of long waves are divided, and all others lie between the two") {
  const rope_config rope{.theta = 5e5,
                         .scaling = rope_scaling::llama3,
                         .factor = 8.0,
                         .original_positions = 8192,
                         .low_frequency = 1.0,
                         .high_frequency = 4.0};
  const auto plain = frequencies_of({.theta = 5e5}, 128), scaled = frequencies_of(rope, 128);
  bool ramp = false;
  for (std::size_t i = 0; i < 64; ++i) {
    const double wave = 2.0 * std::numbers::pi / plain.radians[i];
    if (wave < 2048.0) CHECK(scaled.radians[i] == plain.radians[i]);
    if (wave > 8192.0) CHECK(scaled.radians[i] == plain.radians[i] / 8.0);
    if (wave > 2048.0 && wave < 8192.0) {
      ramp = true;
      CHECK(scaled.radians[i] < plain.radians[i]);
      CHECK(scaled.radians[i] > plain.radians[i] / 8.0);
    }
    if (i > 0) CHECK(scaled.radians[i] < scaled.radians[i - 1]);
  }
  CHECK(ramp);
}

TEST_CASE("yarn: high frequencies stay, low ones are divided, and cosines and sines are scaled") {
  const rope_config rope{.theta = 1e4, .scaling = rope_scaling::yarn, .factor = 4.0, .original_positions = 2048, .attention_factor = 1.13};
  const auto plain = frequencies_of({.theta = 1e4}, 64), scaled = frequencies_of(rope, 64);
  CHECK(scaled.scale == 1.13);
  CHECK(scaled.radians.front() == plain.radians.front());
  CHECK(scaled.radians.back() == doctest::Approx(plain.radians.back() / 4.0));
  for (std::size_t i = 1; i < 32; ++i) CHECK(scaled.radians[i] < scaled.radians[i - 1]);
}
