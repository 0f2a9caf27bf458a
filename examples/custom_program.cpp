// SPDX-License-Identifier: MIT
// The whole command line with a scorer of one's own beside those of the library: --help lists it, and it is chosen like any other.
//   custom_program run -f examples/pocket/prompts/profile.txt --compare --stages 2:0.4,4:0.2 --scorer loud_neighbours:carry=0.8

#include <lazyprune/registry/policy_registry.hpp>
#include <lazyprune/registry/shipped_policies.hpp>

#include <algorithm>

#include "program.hpp"

namespace {

/// A token matters if any head looks at it hard, or if the one before it does: answers tend to follow what is found.
struct loud_neighbours {
  static constexpr std::string_view name = "loud_neighbours";
  float carry = 0.5f;

  void score(const lazyprune::attention_view& attention, std::span<float> out) const {
    std::ranges::fill(out, 0.0f);
    for (std::size_t h = 0; h < attention.heads; ++h)
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::max(out[i], attention(h, i));
    for (std::size_t i = out.size(); i-- > 1;) out[i] = std::max(out[i], carry * out[i - 1]);
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("carry", carry);
  }
};

}  // namespace

int main(int argc, char** argv) {
  lazyprune::policy_registry policies = lazyprune::shipped_policies();
  policies.add<loud_neighbours>();
  return lazyprune::program::run_program(argc, argv, policies);
}
