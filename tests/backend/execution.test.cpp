// SPDX-License-Identifier: MIT
#include <lazyprune/backend/execution.hpp>

#include <doctest/doctest.h>

#include <concepts>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>

#include <fault.hpp>

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

static_assert(std::constructible_from<reference<>, execution> && std::default_initializable<reference<>>);
static_assert(std::constructible_from<cpu, execution> && std::default_initializable<cpu>);

TEST_CASE("cpu has the number of threads that was asked for, by default all that are available; negative numbers are refused") {
  CHECK(cpu(execution{.threads = 3}).threads() == 3);
  CHECK(cpu(execution{}).threads() == detail::available_threads());
  CHECK(cpu().threads() == detail::available_threads());
  CHECK(detail::available_threads() >= 1);
  CHECK(error_of([&] { cpu(execution{.threads = -1}); }) == at("threads", {", found -1"}));
}
