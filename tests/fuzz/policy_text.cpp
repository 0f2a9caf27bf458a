// SPDX-License-Identifier: MIT
// The input is a policy's text, and in its first byte the number of the model's layers. If parsing it reports no error, a session is made
// from it, and the session's own text gives the same policy.
#include <lazyprune/registry/shipped_policies.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include <lazyprune/registry/make_session.hpp>

#include "fuzzed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lazyprune;
  using namespace lazyprune_test;
  static const policy_registry policies = shipped_policies();
  if (size == 0) return 0;
  const model_layers layers(static_cast<layer_id>(1 + data[0] % 128));
  const bounded_work bounds(size, {.bytes = 512});
  unless_refused([&] {
    const policy_spec spec = parse_policy(text_of({data + 1, size - 1}));
    const any_session session = make_session(spec, layers, {.layers = layers.count}, policies);
    never_refused([&] {
      const std::string whole = text(spec, layers, policies);
      must(text(parse_policy(whole), layers, policies) == whole, "a policy's text gives the same policy");
    });
  });
  return 0;
}
