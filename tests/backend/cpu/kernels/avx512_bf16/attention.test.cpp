// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx512_bf16/attention.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/contract.hpp>
#include <backend/cpu/kernels/softmax_contract.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("the running softmax with weights in bf16") {
  if (is_missing(isa::avx512_bf16)) return;
  check_attention_kernel(kernels::avx512_bf16::attention);
}

TEST_CASE("the greatest score has a weight of exactly 1, and NaN stays") {
  if (is_missing(isa::avx512_bf16)) return;
  softmax_sample s(kernels::avx512_bf16::attention, 2);
  std::vector<float> scores(2 * softmax_sample::keys, kernels::no_score);
  scores[3] = 2.5f;
  scores[softmax_sample::keys] = std::numeric_limits<float>::quiet_NaN();
  s.take(scores, nullptr, {{0, 1000}, {0, 1000}});
  CHECK(s.weights[3] == 1.0f);
  CHECK(s.total(0) == 1.0);
  CHECK(std::isnan(s.total(1)));
}
