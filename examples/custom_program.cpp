// SPDX-License-Identifier: MIT
// The whole command line with a scorer of one's own beside those of the library: --help lists it, and it is chosen like any other.
//   custom_program run -f examples/pocket/prompts/profile.txt --compare --stages 2:0.4,4:0.2 --scorer loudest_head:from=2

#include <lazyprune/registry/policy_registry.hpp>
#include <lazyprune/registry/shipped_policies.hpp>

#include <algorithm>
#include <cstdint>

#include "program.hpp"

namespace {

/// A token matters if one of the heads from number `from` on looks at it.
struct loudest_head {
  static constexpr std::string_view name = "loudest_head";
  std::uint32_t from = 0;

  void score(const lazyprune::attention_view& attention, std::span<float> out) const {
    std::ranges::fill(out, 0.0f);
    for (std::size_t h = from; h < attention.heads; ++h)
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::max(out[i], attention(h, i));
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("from", from);
  }
};

}  // namespace

int main(int argc, char** argv) {
  lazyprune::policy_registry policies = lazyprune::shipped_policies();
  policies.add<loudest_head>();
  return lazyprune::program::run_program(argc, argv, policies);
}
