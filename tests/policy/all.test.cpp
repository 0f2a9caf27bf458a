// SPDX-License-Identifier: MIT
#include <lazyprune/policy/all.hpp>

#include <doctest/doctest.h>

#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include <lazyprune/core/concepts.hpp>

namespace {

using namespace lazyprune;

/// Returns to how many of the four kinds P belongs: scorer, schedule, selector, store.
template <class P>
std::size_t kinds() {
  return std::size_t{importance_scorer<P>} + any_kind_of_schedule<P> + token_selector<P> + aux_store<P>;
}

template <class... Policies>
bool each_of_one_kind(part_list<Policies...>) {
  return ((kinds<Policies>() == 1) && ...);
}

template <class P>
bool keeps_everything() {
  constexpr layer_context context{.done = 3, .layers = 8, .active = 100, .known = 100, .step = phase::prefill};
  const std::size_t count = P{}.keep(context);
  return count == everything || count == 100;
}

/// Writes "key=value" for each parameter that a part describes.
struct parameter_list {
  std::ostringstream text{};

  template <class T>
  void write(const T& value) {
    if constexpr (requires { typename T::number; })
      text << static_cast<typename T::number>(value);
    else
      text << value;
  }
  template <class T>
  void write(const std::optional<T>& value) {
    if (value)
      text << "a value";
    else
      text << "nothing";
  }

  template <class T>
  void operator()(parameter_key key, const T& value) {
    text << ' ' << key.name << '=';
    write(value);
  }
  template <class Choice>
  void operator()(parameter_key key, const Choice& value, std::initializer_list<std::string_view> names) {
    text << ' ' << key.name << '=' << names.begin()[static_cast<std::size_t>(value)];
  }
  template <class T>
  void operator()(parameter_key key, const T& value, layer_range) {
    (*this)(key, value);
  }
  template <class One, class Other>
  void just_one(parameter_key key, const std::optional<One>& one, parameter_key other_key, const std::optional<Other>& other) {
    (*this)(key, one);
    (*this)(other_key, other);
  }
};

/// Returns the name of a part and its parameters with their defaults.
template <class P>
std::string described() {
  P part{};
  parameter_list list;
  part.describe(list);
  return std::string(P::name) + list.text.str();
}

template <class... Policies>
std::vector<std::string> each_described(part_list<Policies...>) {
  return {described<Policies>()...};
}

}  // namespace

TEST_CASE("each part describes all its parameters, and has these defaults") {
  CHECK(each_described(all_policies{}) == std::vector<std::string>{
                                              "last_query_attention over=mean",
                                              "accumulated_attention over=sum since=sequence",
                                              "window_attention window=32 kernel=7 pool=max",
                                              "prompt_window_attention window=32 kernel=7 pool=max",
                                              "value_weighted_attention norm=l2",
                                              "key_norm",
                                              "recency",
                                              "random seed=0",
                                              "given_scores scores=nothing",
                                              "calibrated_attention window=64 block=32 probes=nothing following=nothing",
                                              "every n=1 share=1",
                                              "linear from=0 share=1",
                                              "cosine from=0 share=1",
                                              "budget after=0 tokens=nothing cost=nothing",
                                              "adaptive from=1 every=1 mass=0.9 least=0.1",
                                              "top_k",
                                              "top_p mass=1",
                                              "threshold score=-inf",
                                              "blocks size=16",
                                              "keep_all",
                                              "bounded rows=18446744073709551615",
                                              "none for_good=0",
                                          });
}

TEST_CASE("each part in all_policies is of exactly one kind") { CHECK(each_of_one_kind(all_policies{})); }

TEST_CASE("a schedule with default values prunes nothing") {
  CHECK(keeps_everything<every>());
  CHECK(keeps_everything<linear>());
  CHECK(keeps_everything<cosine>());
  CHECK(keeps_everything<budget>());
}
