// SPDX-License-Identifier: MIT
#include <lazyprune/registry/part_text.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/policy/schedule/budget.hpp>
#include <lazyprune/policy/schedule/linear.hpp>
#include <lazyprune/policy/scorer/window_attention.hpp>
#include <lazyprune/policy/selector/top_k.hpp>

#include <fault.hpp>

namespace {

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

constexpr pruning_layers where{.layers = 6, .knowing = "random and recency"};

template <class P>
std::string canonical(std::string_view text) {
  P policy{};
  std::vector<parameter> parameters = parameters_of(policy);
  part_text("part", text).read_into(parameters, where);
  return text_of(policy);
}

}  // namespace

TEST_CASE("a flag has hyphens where the name has underscores") {
  CHECK(flag_of("stages") == "--stages");
  CHECK(flag_of("keep_first") == "--keep-first");
}

TEST_CASE("the text of a part has all its parameters, in the order of describe") {
  CHECK(text_of(top_k{}) == "top_k");
  CHECK(text_of(window_attention{.window = 3}) == "window_attention:window=3,kernel=7,pool=max");
  CHECK(text_of(budget({.after = 2, .tokens = 5})) == "budget:after=2,tokens=5");
  CHECK(canonical<window_attention>("window_attention:pool=mean,window=4") == "window_attention:window=4,kernel=7,pool=mean");
  CHECK(canonical<budget>("budget:cost=0.5,after=3") == "budget:after=3,cost=0.5");
  CHECK(part_text("part", "a:b=c").name() == "a");
}

TEST_CASE("the help of a part has its keys, their choices, and alternative keys") {
  window_attention window;
  budget once;
  CHECK(help_of("top_k", {}) == "top_k");
  CHECK(help_of("window_attention", parameters_of(window)) == "window_attention:window=,kernel=,pool=max|mean");
  CHECK(help_of("budget", parameters_of(once)) == "budget:after=,tokens=|cost=");
}

TEST_CASE("the allowed layers depend on the model, the scorer and the parameter") {
  pruning_layers positions = where;
  positions.least = 0;
  CHECK(where.text({}) == "a layer from 1 to 5 (the model has 6; only the scorers random and recency can prune before the first layer)");
  CHECK(positions.text({}) == "a layer from 0 to 5 (the model has 6)");
  CHECK(positions.text({.least = 1}) == where.text({}));
  CHECK(where.text({.least = 0, .before_last = true}) == "a layer from 0 to 4 (the model has 6)");
  CHECK(!where.has(0, {}));
  CHECK(positions.has(0, {}));
  CHECK(where.has(5, {}));
  CHECK(!where.has(6, {}));
  CHECK(!where.has(5, {.before_last = true}));
  CHECK(error_of([&] { canonical<linear>("linear:from=5,share=0.5"); }) ==
        at("--part: linear:from=5,share=0.5", {"0 to 4", "has 6", ", found 5"}));
}
