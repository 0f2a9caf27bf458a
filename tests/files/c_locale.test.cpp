// SPDX-License-Identifier: MIT
// This test also runs in a process whose locale has a comma as the decimal point (conditions.cmake).
#include <lazyprune/files/c_locale.hpp>

#include <doctest/doctest.h>

#include <locale.h>

#include <cstdlib>
#include <string>

TEST_CASE("a thread reads numbers with a decimal point while c_locale exists, and has its own locale afterwards") {
  const std::string before = ::localeconv()->decimal_point;
  const locale_t own = ::uselocale(nullptr);
  for (int i = 0; i < 2; ++i) {
    const lazyprune::detail::c_locale c;
    CHECK(std::strtod("0.5", nullptr) == 0.5);
    CHECK(std::string(::localeconv()->decimal_point) == ".");
    const lazyprune::detail::c_locale within;
    CHECK(std::strtod("0.5", nullptr) == 0.5);
  }
  CHECK(::uselocale(nullptr) == own);
  CHECK(std::string(::localeconv()->decimal_point) == before);
  CHECK((std::strtod("0.5", nullptr) == 0.5) == (before == "."));
}
