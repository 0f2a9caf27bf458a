// SPDX-License-Identifier: MIT
#include <lazyprune/eval/fidelity.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

using namespace lazyprune;

namespace {

constexpr double exact = 1e-12;

step_fidelity one_step(bool agrees, double kl, double dense_loss, double loss) { return {agrees, kl, dense_loss, loss}; }

}  // namespace

TEST_CASE("two models on one token: probabilities 1/2, 1/4, 1/4 and 1/4, 1/2, 1/4") {
  const float two = std::log(2.0f);
  const std::array<float, 3> dense{two, 0, 0}, pruned{3, 3 + two, 3};  // a constant added to all logits changes nothing
  const step_fidelity found = fidelity_of(dense, pruned, 1);
  CHECK_FALSE(found.agrees);
  CHECK(found.kl == doctest::Approx(0.25 * std::log(2.0)).epsilon(1e-6));  // 1/2 log 2 - 1/4 log 2; the logits are floats
  CHECK(found.dense_loss == doctest::Approx(std::log(4.0)).epsilon(1e-6));
  CHECK(found.loss == doctest::Approx(std::log(2.0)).epsilon(1e-6));
  CHECK(fidelity_of(dense, pruned, 2).loss == doctest::Approx(std::log(4.0)).epsilon(1e-6));
}

TEST_CASE("equal logits agree and have a divergence of exactly 0") {
  const std::array<float, 5> logits{0.1f, -7.3f, 2.9f, 1e-9f, 2.9f};
  const step_fidelity found = fidelity_of(logits, logits, 3);
  CHECK(found.agrees);
  CHECK(found.kl == 0.0);
  CHECK(found.loss == found.dense_loss);
}

TEST_CASE("among equal logits the lower id is the likeliest; the divergence may be large") {
  CHECK(fidelity_of(std::array<float, 3>{1, 1, 0}, std::array<float, 3>{2, 1, 2}, 0).agrees);
  CHECK_FALSE(fidelity_of(std::array<float, 3>{1, 1, 0}, std::array<float, 3>{1, 2, 2}, 0).agrees);
  const step_fidelity far = fidelity_of(std::array<float, 2>{2000, 0}, std::array<float, 2>{0, 3000}, 0);
  CHECK(far.kl == 3000.0);  // the pruned model gives exp(-3000) to the token with all probability
  CHECK(far.dense_loss == 0.0);
  CHECK(far.loss == 3000.0);
}

TEST_CASE("the first difference of two lists") {
  using ids = std::vector<token_id>;
  CHECK(first_difference(ids{1, 2, 3}, ids{1, 2, 3}) == std::nullopt);
  CHECK(first_difference(ids{1, 2, 3}, ids{1, 5, 3}) == 1);
  CHECK(first_difference(ids{1, 2, 3}, ids{1, 2}) == 2);
  CHECK(first_difference(ids{}, ids{1}) == 0);
  CHECK(first_difference(ids{}, ids{}) == std::nullopt);
}

TEST_CASE("one text: means over its steps, and their intervals") {
  const std::vector<text_fidelity> one{{.text = "a",
                                        .prompt_tokens = 7,
                                        .steps = {one_step(true, 0.5, 1, 2), one_step(true, 0, 3, 3), one_step(false, 1, 2, 4)},
                                        .parted_at = 2,
                                        .rows = 0.6,
                                        .ttft_s = 0.5,
                                        .dense_ttft_s = 1}};
  const fidelity_summary s = summary_of(one, "p");
  CHECK(s.text == "a");
  CHECK(s.policy == "p");
  CHECK(s.texts == 1);
  CHECK(s.steps == 3);
  CHECK(s.prompt_tokens == 7);
  CHECK(s.agreement.mean == doctest::Approx(2.0 / 3).epsilon(exact));
  CHECK(s.agreement.ci95 == interval{0.0, 1.0});  // a resample that has one step three times is not rare (1 in 27 for each step)
  CHECK(s.kl.mean == 0.5);
  CHECK(s.dense_perplexity.mean == doctest::Approx(std::exp(2.0)).epsilon(exact));
  CHECK(s.perplexity.mean == doctest::Approx(std::exp(3.0)).epsilon(exact));
  CHECK(s.perplexity.ci95.low == doctest::Approx(std::exp(2.0)).epsilon(exact));
  CHECK(s.perplexity.ci95.high == doctest::Approx(std::exp(4.0)).epsilon(exact));
  CHECK(s.equal_texts == 0.0);
  CHECK(s.parted_at == 2);
  CHECK(s.rows == 0.6);
  CHECK(s.ttft_s == 0.5);
  CHECK(s.dense_ttft_s == 1.0);
}

TEST_CASE("several texts: every step has the same weight, and the bootstrap draws whole texts") {
  std::vector<text_fidelity> texts(2);
  texts[0] = {
      .text = "a", .prompt_tokens = 10, .steps = {one_step(false, 3, 1, 1)}, .parted_at = 5, .rows = 0.5, .ttft_s = 1, .dense_ttft_s = 4};
  texts[1] = {.text = "b",
              .prompt_tokens = 20,
              .steps = {one_step(true, 0, 1, 1), one_step(true, 0, 1, 1)},
              .parted_at = {},
              .rows = 1,
              .ttft_s = 3,
              .dense_ttft_s = 4};
  const fidelity_summary s = summary_of(texts, "p");
  CHECK(s.text == "all");
  CHECK(s.texts == 2);
  CHECK(s.steps == 3);
  CHECK(s.prompt_tokens == 15);
  CHECK(s.agreement.mean == doctest::Approx(2.0 / 3).epsilon(exact));
  CHECK(s.agreement.ci95 == interval{0.0, 1.0});  // some resamples have one text twice
  CHECK(s.kl.mean == 1.0);
  CHECK(s.kl.ci95 == interval{0.0, 3.0});
  CHECK(s.perplexity.mean == doctest::Approx(std::exp(1.0)).epsilon(exact));
  CHECK(s.equal_texts == 0.5);
  CHECK(s.parted_at == 5);
  CHECK(s.rows == 0.75);
  CHECK(s.ttft_s == 2.0);
  CHECK(s.dense_ttft_s == 4.0);
  texts[1].parted_at = 3;
  CHECK(summary_of(texts, "p").parted_at == 3);  // the earliest place of the two texts
}
