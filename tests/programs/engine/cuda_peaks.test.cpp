// SPDX-License-Identifier: MIT
#include "engine/cuda_peaks.hpp"

#include <doctest/doctest.h>

using namespace lazyprune;
using namespace lazyprune::program;

TEST_CASE("the peaks of an A100 and an H100, computed from their properties, match the data sheets") {
  const gpu_properties a100{80, 108, 1410000, 1593000, 5120}, h100{90, 132, 1830000, 2619000, 5120};
  CHECK(peaks_of(a100, dtype::bf16)->arithmetic == doctest::Approx(312e12).epsilon(0.001));
  CHECK(peaks_of(a100, dtype::f32)->arithmetic == doctest::Approx(19.5e12).epsilon(0.001));
  CHECK(peaks_of(a100, dtype::bf16)->reading == doctest::Approx(2039e9).epsilon(0.001));
  CHECK(peaks_of(h100, dtype::bf16)->arithmetic == doctest::Approx(989e12).epsilon(0.001));
  CHECK(peaks_of(h100, dtype::f32)->arithmetic == doctest::Approx(61.8e12).epsilon(0.001));  // the data sheet has 66.9e12, at 1,980 MHz
  CHECK(peaks_of(h100, dtype::f32)->reading == doctest::Approx(3352e9).epsilon(0.001));
  CHECK(peaks_of(h100, dtype::bf16)->instruction == "bf16 on tensor cores");
}

TEST_CASE("the peaks of other GPUs are not known") {
  CHECK(!peaks_of({86, 84, 1800000, 8001000, 384}, dtype::bf16));
  CHECK(!peaks_of({100, 148, 1965000, 3996000, 8192}, dtype::bf16));
}
