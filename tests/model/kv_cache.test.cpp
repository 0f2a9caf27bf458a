// SPDX-License-Identifier: MIT
#include <lazyprune/model/kv_cache.hpp>

#include <lazyprune/backend/reference.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

TEST_CASE("rows lie in the order computed; each token's slot finds its own, layer by layer") {
  model_config c;
  c.layers = 2;
  c.n_kv_heads = 1;
  c.head_dim = 2;
  reference<float> backend{execution{}};
  kv_cache<reference<float>> cache(c);
  const std::size_t empty = cache.bytes();
  const auto append = [&](layer_id layer, const std::vector<position>& tokens) {
    std::vector<float> k, v;
    for (const position t : tokens)
      for (const float part : {0.0f, 0.5f}) {
        k.push_back(static_cast<float>(t) + part);
        v.push_back(-static_cast<float>(t) - part);
      }
    cache.append(backend, layer, tokens, {k.data(), tokens.size(), 2, 2}, {v.data(), tokens.size(), 2, 2});
  };
  append(0, {0, 1, 2, 3});
  append(1, {1, 3});
  append(0, {4});
  append(1, {0, 2, 4});  // revived ones come later
  CHECK(cache.rows(0).size() == 5);
  CHECK(cache.rows(1).size() == 5);
  CHECK(cache.slot(1, 3) == 1);
  CHECK(cache.slot(1, 0) == 2);
  CHECK(cache.bytes() > empty);

  const std::vector<position> wanted{0, 1, 3, 4};
  for (const layer_id layer : {0u, 1u}) {
    std::vector<std::uint32_t> slots;
    cache.slots(layer, wanted, slots);
    std::vector<float> keys(8), values(8);
    backend.read_keys(cache.rows(layer), slots, keys.data());
    backend.read_values(cache.rows(layer), slots, values.data());
    CHECK(keys == std::vector<float>{0.0f, 0.5f, 1.0f, 1.5f, 3.0f, 3.5f, 4.0f, 4.5f});
    CHECK(values == std::vector<float>{-0.0f, -0.5f, -1.0f, -1.5f, -3.0f, -3.5f, -4.0f, -4.5f});
  }
  const std::size_t full = cache.bytes();
  CHECK(full >= cache.rows(0).bytes() + cache.rows(1).bytes() + 2 * 5 * sizeof(std::uint32_t));
  cache.clear();
  CHECK(cache.rows(0).size() == 0);
  CHECK(cache.bytes() == full);  // the memory is kept
  append(0, {0, 1, 2, 3});
  CHECK(cache.bytes() == full);
}
