// SPDX-License-Identifier: MIT
// The input is a config.json. Reading it reports an error, or gives the config of a model that can be built.
#include <lazyprune/files/config_json.hpp>

#include <cstddef>
#include <cstdint>

#include "fuzzed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lazyprune_test;
  const bounded_work bounds(size);
  unless_refused([&] {
    const lazyprune::model_config c =
        lazyprune::model_config_of(lazyprune::json_value::parse(text_of({data, size}), "config.json", 1 << 20));
    must(c.layers > 0 && c.n_heads > 0 && c.n_kv_heads > 0 && c.n_heads % c.n_kv_heads == 0 && c.vocabulary > 0, "the sizes fit together");
  });
  return 0;
}
