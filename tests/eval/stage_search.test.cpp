// SPDX-License-Identifier: MIT
#include <lazyprune/eval/stage_search.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace lazyprune;

namespace {

/// Returns the share of tokens that are active after each layer but the last.
std::vector<double> active_after(const stages& when, layer_id layers) {
  std::vector<double> active;
  double now = 1;
  for (layer_id done = 1; done < layers; ++done) {
    for (const stage& s : when.list())
      if (s.after == done) now *= s.share;
    active.push_back(now);
  }
  return active;
}

/// Returns an evaluation whose score is 100 if each layer has the share of tokens that it needs, else 0.
auto all_or_nothing(std::vector<double> needs) {
  return [needs = std::move(needs)](const stages& when) {
    const std::vector<double> active = active_after(when, static_cast<layer_id>(needs.size() + 1));
    for (std::size_t l = 0; l < needs.size(); ++l)
      if (active[l] < needs[l] - 1e-9) return 0.0;
    return 100.0;
  };
}

/// Returns an evaluation in which each layer loses points in proportion to the share of tokens that it does not see.
auto weighted(std::vector<double> weights) {
  return [weights = std::move(weights)](const stages& when) {
    const std::vector<double> active = active_after(when, static_cast<layer_id>(weights.size() + 1));
    double score = 100;
    for (std::size_t l = 0; l < weights.size(); ++l) score -= weights[l] * (1 - active[l]);
    return score;
  };
}

/// Tries all stages on the grid. Returns the smallest share of rows among the stages that hold.
template <class Evaluate>
double least_rows(const stage_search& how, layer_id layers, Evaluate evaluate) {
  const double bound = evaluate(stages{}) - how.max_loss;
  double least = 1;
  std::vector<std::size_t> digits(layers - 1, 0);
  for (;;) {
    std::vector<stage> list;
    for (std::size_t l = 0; l < digits.size(); ++l)
      if (digits[l] > 0) list.push_back({static_cast<layer_id>(l + 1), how.shares[digits[l] - 1]});
    const stages when(list);
    if (const double rows = rows_share(when, layers); rows < least && evaluate(when) >= bound) least = rows;
    std::size_t l = 0;
    while (l < digits.size() && ++digits[l] > how.shares.size()) digits[l++] = 0;
    if (l == digits.size()) return least;
  }
}

std::string best_of(const stage_search_result& result) { return result.trail[result.best].when.text(); }

}  // namespace

TEST_CASE("the search finds stages that leave each layer just what it needs") {
  const auto found = [](std::vector<double> needs) {
    const auto layers = static_cast<layer_id>(needs.size() + 1);
    const stage_search_result result = stage_search{}(layers, all_or_nothing(std::move(needs)));
    CHECK(result.complete);
    CHECK(result.trail[result.best].score == 100.0);
    CHECK(result.trail[result.best].holds);
    return best_of(result);
  };
  CHECK(found({1, 1, 0.3, 0.3, 0.03}) == "3:0.3,5:0.1");
  CHECK(found({0, 0, 0, 0, 0}) == "1:0.05,2:0.05,3:0.05,4:0.05,5:0.05");
  CHECK(found({1, 1, 1, 1, 1}) == "");
  CHECK(found({0.7, 0.7, 0.7, 0.35, 0.35}) == "1:0.7,4:0.5");
  CHECK(found({1, 1, 1, 1, 1, 1, 1, 1, 0.7, 0.7, 0.7, 0.7, 0.35, 0.35, 0.35}) == "9:0.7,13:0.5");  // every second layer is tried first
}

TEST_CASE("a loss up to the bound is allowed, and the share of rows is at most 0.03 above the smallest on the grid") {
  for (const std::vector<double>& weights : {std::vector<double>{4, 2, 1}, {1, 1, 1}, {0.5, 3, 0.2}, {2, 1, 0.5}, {8, 0, 3}})
    for (const double loss : {0.5, 1.0, 2.0}) {
      const stage_search how{.max_loss = loss};
      const stage_search_result result = how(4, weighted(weights));
      const searched_stages& best = result.trail[result.best];
      CAPTURE(best.when.text());
      CHECK(best.score >= 100 - loss - 1e-6);
      CHECK(best.rows <= least_rows(how, 4, weighted(weights)) + 0.03);
      CHECK(best.rows == doctest::Approx(rows_share(best.when, 4)));
    }
}

TEST_CASE("a greedy first stage is softened if an exchange leaves fewer rows") {
  // As the only stage, 1:0.5 is best: it computes 0.625 of the rows, and 2:0.3 computes 0.65. But no stage can then be added. If the first
  // stage keeps 70 %, the later layers need fewer tokens.
  const auto score = [](const stages& when) {
    const bool early = active_after(when, 4)[0] < 0.7 - 1e-9;
    return all_or_nothing(early ? std::vector{0.5, 0.5, 0.5} : std::vector{0.7, 0.21, 0.21})(when);
  };
  const stage_search_result result = stage_search{}(4, score);
  CHECK(best_of(result) == "1:0.7,2:0.3");
  CHECK(result.trail[result.best].rows == doctest::Approx((1 + 0.7 + 2 * 0.21) / 4).epsilon(1e-12));
}

TEST_CASE("the dense model is evaluated first, no stages are evaluated twice, and stages that prune harder than failed ones are skipped") {
  std::vector<std::string> asked;
  const auto score = weighted({4, 2, 1, 1, 1});
  const stage_search_result result = stage_search{}(6, [&](const stages& when) {
    asked.push_back(when.text());
    return score(when);
  });
  REQUIRE(asked.size() == result.trail.size());
  CHECK(asked.front() == "");
  for (std::size_t i = 0; i < asked.size(); ++i) {
    CHECK(asked[i] == result.trail[i].when.text());
    CHECK(std::ranges::count(asked, asked[i]) == 1);
    const std::vector<double> active = active_after(result.trail[i].when, 6);
    for (std::size_t before = 0; before < i; ++before) {
      if (result.trail[before].holds) continue;
      const std::vector<double> failed = active_after(result.trail[before].when, 6);
      bool harder = true;
      for (std::size_t l = 0; l < failed.size(); ++l) harder = harder && active[l] <= failed[l] + 1e-12;
      CHECK_FALSE(harder);
    }
  }
  CHECK(stage_search{}(6, score) == result);  // a second search gives the same result
}

TEST_CASE("the search uses no more stages than allowed, and the share of rows is at most 0.01 above the smallest with so few stages") {
  const auto score = all_or_nothing({0.9, 0.63, 0.31});
  const auto stages_tried = [](const stage_search_result& result) {
    std::size_t most = 0;
    for (const searched_stages& tried : result.trail) most = std::max(most, tried.when.list().size());
    return most;
  };
  CHECK(stages_tried(stage_search{}(4, score)) == 3);
  for (const std::size_t most : {1u, 2u}) {
    const stage_search how{.most_stages = most};
    const stage_search_result result = how(4, score);
    CHECK(stages_tried(result) == most);
    const auto few = [&](const stages& when) { return when.list().size() <= most ? score(when) : 0.0; };
    CHECK(result.trail[result.best].rows <= least_rows(how, 4, few) + 0.01);
  }
}

TEST_CASE("a loss that the caller returns decides, whatever the score is") {
  const auto score = weighted({4, 2, 1});
  const auto twice_lost = [&](const stages& when) { return stage_score{score(when), 2 * (100 - score(when))}; };
  stage_search_result found = stage_search{.max_loss = 2}(4, twice_lost);
  const stage_search_result half = stage_search{.max_loss = 1}(4, score);
  for (searched_stages& tried : found.trail) {
    CHECK(tried.loss == 2 * (100 - tried.score));
    tried.loss /= 2;
  }
  CHECK(found == half);
  CHECK(found.best > 0);
  const auto all_lost = [](const stages&) { return stage_score{100, 100}; };  // the dense model holds nevertheless
  const stage_search_result none = stage_search{}(4, all_lost);
  CHECK(best_of(none) == "");
  CHECK(none.trail.front().holds);
  CHECK(none.trail.size() > 1);
}

TEST_CASE("first_after says after how many layers a stage can still hold when other stages have failed") {
  const stage_search how, some{.after = std::vector<layer_id>{2, 5}};
  CHECK(how.first_after({{2, 0.9}}, 6) == 3);
  CHECK(how.first_after({{2, 0.7}}, 6) == 0);  // stages with larger shares after this layer might hold
  CHECK(how.first_after({{2, 0.9}, {3, 0.9}}, 6) == 0);
  CHECK(how.first_after({}, 6) == 0);
  CHECK(how.first_after({{5, 0.9}}, 6) == 6);
  CHECK(some.first_after({{2, 0.9}}, 6) == 5);
  CHECK(some.first_after({{5, 0.9}}, 6) == 6);

  const auto score = all_or_nothing({1, 1, 1, 1, 0.8, 0.4, 0.4, 0.2, 0.2});
  const stage_search_result result = how(10, score);
  layer_id first = 0;
  for (const searched_stages& tried : result.trail) {
    if (!tried.when.list().empty()) CHECK(tried.when.list().front().after >= first);
    if (!tried.holds) first = std::max(first, how.first_after(tried.when, 10));
  }
  CHECK(first == 5);
}

TEST_CASE("most_evaluations and `enough` limit the evaluations, and the result is the best found by then") {
  std::size_t asked = 0;
  const auto counted = [&](const stages&) { return ++asked, 100.0; };
  const stage_search_result result = stage_search{.most_evaluations = 5}(32, counted);
  CHECK(asked == 5);
  CHECK_FALSE(result.complete);
  CHECK(result.trail.size() == 5);
  CHECK(result.trail[result.best].rows < 1.0);
  for (const searched_stages& tried : result.trail) CHECK(tried.rows >= result.trail[result.best].rows);

  std::vector<stages> refused;
  const auto enough = [&](const stages& when) {
    if (asked >= 10) refused.push_back(when);
    return asked >= 10;
  };
  const stage_search_result ended = stage_search{.enough = enough}(32, counted);  // five more evaluations
  CHECK(asked == 10);
  CHECK_FALSE(ended.complete);
  CHECK(ended.trail == result.trail);
  CHECK(ended.best == result.best);
  CHECK(!refused.empty());
  CHECK(stage_search{.enough = [](const stages&) { return true; }}(32, counted).trail.size() == 1);  // the dense model is never skipped

  const stage_search_result one = stage_search{.most_evaluations = 1}(32, [](const stages&) { return 50.0; });
  CHECK(best_of(one) == "");
  CHECK(one.best == 0);
}

TEST_CASE("stages stand only after the given layers, and move from one of them to the next") {
  const stage_search how{.shares = {0.5, 0.1}, .after = std::vector<layer_id>{2, 5}};
  std::vector<stages> tried;
  const auto needs = all_or_nothing({1, 0.5, 0.5, 0.5, 0.1, 0.05});
  const auto result = how(7, [&](const stages& when) {
    tried.push_back(when);
    return needs(when);
  });
  CHECK(result.trail[result.best].when == stages{{2, 0.5}, {5, 0.5}});
  CHECK(tried.size() > 3);
  for (const stages& when : tried)
    for (const stage& s : when.list()) CHECK((s.after == 2 || s.after == 5));
}

TEST_CASE("a model of one layer cannot be pruned") {
  const stage_search_result result = stage_search{}(1, [](const stages&) { return 70.0; });
  CHECK(result.trail == std::vector<searched_stages>{{stages{}, 1.0, 70.0, 0.0, true}});
  CHECK(result.complete);
}

TEST_CASE("the Pareto front of rows and score") {
  const std::vector<searched_stages> tried{{stages{}, 1.0, 90, 0, true},           {stages{{1, 0.5}}, 0.6, 80, 10, false},
                                           {stages{{2, 0.5}}, 0.7, 80, 10, false}, {stages{{3, 0.5}}, 0.8, 92, -2, true},
                                           {stages{{4, 0.5}}, 0.6, 85, 5, true},   {stages{{5, 0.5}}, 0.9, 91, -1, true}};
  CHECK(best_trades(tried) == std::vector<searched_stages>{tried[4], tried[3]});
  CHECK(best_trades({}).empty());
}

TEST_CASE("shares that do not descend within (0, 1) are refused") {
  const auto any = [](const stages&) { return 100.0; };
  for (const std::vector<double>& shares :
       {std::vector<double>{0.5, 0.5}, {0.5, 0.7}, {1.0, 0.5}, {0.5, 0.0}, {std::numeric_limits<double>::quiet_NaN()}})
    CHECK_THROWS_AS(stage_search{.shares = shares}(6, any), error);
}
