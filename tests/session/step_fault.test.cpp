// SPDX-License-Identifier: MIT
#include <lazyprune/session/step_fault.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace {

using namespace lazyprune;

std::string said(const step_fault& fault, error_code code) {
  const error told = error_of(fault);
  CHECK(told.code() == code);
  return told.what();
}

}  // namespace

TEST_CASE("a fault in words, with the layer and a code to act on") {
  CHECK(said({2, missed_evidence{evidence_kind::keys, evidence_kind::attention}}, error_code::wrong_order) ==
        "session: finish: expected layer 1 left with keys, found attention");
  CHECK(said({1, missed_evidence{evidence_kind::keys, evidence_kind::keys}}, error_code::wrong_order) ==
        "session: finish: expected layer 0 left with keys, found another number of tokens or queries");
  CHECK(said({3, wrong_evidence{evidence_kind::window, {17, -std::numeric_limits<float>::infinity()}}}, error_code::bad_input) ==
        "session: finish: expected finite numbers in the evidence after layer 2 (a window of queries), found -inf for the token at "
        "position 17");
  CHECK(said({0, wrong_indices{"selector", {.below = 4, .count = 2, .index = 0, .before = 3}}}, error_code::bad_input) ==
        "session: finish: expected ascending indices below 4 from the selector before layer 0, found 0 after 3");
  CHECK(said({5, early_schedule{9}}, error_code::bad_input) ==
        "session: finish: expected a schedule that prunes nothing before 9 layers are done, as its `first` says, found fewer tokens "
        "wanted after layer 4");
}
