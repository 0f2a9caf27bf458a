// SPDX-License-Identifier: MIT
#include "questions/run_part.hpp"

#include <array>

#include <doctest/doctest.h>

#include "questions/text_digest.hpp"

#include <fault.hpp>

using namespace lazyprune::program;

TEST_CASE("a part is K/N, with a K from 1 to N") {
  CHECK(run_part::parse("2/3") == run_part{2, 3});
  CHECK(run_part::parse("1/1") == run_part{});
  CHECK(run_part{2, 3}.text() == "2/3");
  for (const char* wrong : {"", "2", "2/", "/3", "0/3", "4/3", "-1/3", "1/0", "2/3/4", "2 / 3", "1.5/3", "a/b"}) {
    CAPTURE(wrong);
    CHECK(lazyprune_test::error_of([&] { run_part::parse(wrong); }) == lazyprune_test::at("--part", {"K/N"}));
  }
}

TEST_CASE("each sample belongs to one part of N, and the parts have about the same size") {
  constexpr std::size_t samples = 4000;
  for (const std::size_t of : {1u, 3u, 7u}) {
    std::array<std::size_t, 7> sizes{};
    for (std::size_t i = 0; i < samples; ++i) {
      std::size_t parts = 0;
      for (std::size_t k = 1; k <= of; ++k)
        if (run_part{k, of}.has(digest_of("sample " + std::to_string(i)))) {
          ++parts;
          ++sizes[k - 1];
        }
      CHECK(parts == 1);
    }
    for (std::size_t k = 0; k < of; ++k) CHECK(static_cast<double>(sizes[k] * of) == doctest::Approx(samples).epsilon(0.15));
  }
}
