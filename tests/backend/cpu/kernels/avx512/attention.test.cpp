// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx512/attention.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/contract.hpp>
#include <backend/cpu/kernels/softmax_contract.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/attention.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("the running softmax in AVX-512") {
  if (is_missing(isa::avx512)) return;
  check_attention_kernel(kernels::avx512::attention);
}

TEST_CASE("AVX-512 gives the bits of AVX2") {
  if (is_missing(isa::avx2) || is_missing(isa::avx512)) return;
  softmax_sample narrow(kernels::avx2::attention, 21), wide(kernels::avx512::attention, 21);
  for (std::uint32_t block = 0; block < 3; ++block) {
    const auto scores = normal_floats(21 * softmax_sample::keys, block, 30);
    std::vector<std::int32_t> ranks(softmax_sample::keys);
    std::vector<kernels::rank_range> seen(21);
    for (std::size_t k = 0; k < ranks.size(); ++k) ranks[k] = static_cast<std::int32_t>(k * 37 % 100);
    for (std::size_t r = 0; r < seen.size(); ++r)  // with ranks, every third row sees no key
      seen[r] = {static_cast<std::int32_t>(r % 2 * 20), static_cast<std::int32_t>(r % 3 * 40)};
    const std::int32_t* some = block == 2 ? nullptr : ranks.data();
    CHECK(narrow.take(scores, some, seen) == wide.take(scores, some, seen));
    CHECK(narrow.largest == wide.largest);
    CHECK(narrow.fade == wide.fade);
    CHECK(narrow.mass == wide.mass);
    CHECK(narrow.weights == wide.weights);
  }
  auto a = normal_floats(37, 1), b = a;
  narrow.kernel.exponentiate(a.data(), 37, 5.5f, 0.3f);
  wide.kernel.exponentiate(b.data(), 37, 5.5f, 0.3f);
  CHECK(a == b);
  auto c = normal_floats(2 * 32, 2, 3), d = c;
  narrow.kernel.soft_cap(c.data(), 32, 2, 1, 30.0f);
  wide.kernel.soft_cap(d.data(), 32, 2, 1, 30.0f);
  CHECK(c == d);
}
