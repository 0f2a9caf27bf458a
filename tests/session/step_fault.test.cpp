// SPDX-License-Identifier: MIT
#include <lazyprune/session/step_fault.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include <fault.hpp>

namespace {

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::fault;

fault said(const step_fault& wrong) { return fault(error_of(wrong)); }

}  // namespace

TEST_CASE("the error of a fault names the layer and has a code") {
  CHECK(said({2, missed_evidence{evidence_kind::keys, evidence_kind::attention}}) ==
        at("session: finish", {"layer 1", "keys", ", found attention"}, error_code::wrong_order));
  CHECK(said({1, missed_evidence{evidence_kind::keys, evidence_kind::keys}}) ==
        at("session: finish", {"layer 0", "keys"}, error_code::wrong_order));
  CHECK(said({3, wrong_evidence{evidence_kind::window, {17, -std::numeric_limits<float>::infinity()}}}) ==
        at("session: finish", {"layer 2", "a window of queries", ", found -inf", "17"}));
  CHECK(said({0, wrong_indices{"selector", {.below = 4, .count = 2, .index = 0, .before = 3}}}) ==
        at("session: finish", {"below 4", "selector", "layer 0", ", found 0", "after 3"}));
  CHECK(said({5, denied_pruning{layer_id{9}}}) == at("session: finish", {"before 9", "layer 4"}));
  CHECK(said({2, wrong_choice{choice_not_open{}}}) == at("session: finish", {"layer 1", "quota"}, error_code::wrong_order));
  CHECK(said({2, wrong_choice{wrong_choice_count{5, 7}}}) == at("session: finish", {"5", "layer 1", ", found 7"}));
  CHECK(said({2, wrong_choice{wrong_choice_token{9, wrong_choice_token::left_out}}}) ==
        at("session: finish", {"required", "layer 1", "position 9"}));
  CHECK(said({5, denied_pruning{{}}}) == at("session: finish", {"prunes_after", "layer 4"}));
}
