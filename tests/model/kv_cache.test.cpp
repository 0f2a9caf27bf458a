// SPDX-License-Identifier: MIT
#include <lazyprune/model/kv_cache.hpp>

#include <lazyprune/backend/reference.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

namespace {

/// Returns a configuration with one key/value head.
model_config of_shape(std::size_t layers, std::size_t head_dim) {
  model_config c;
  c.layers = layers;
  c.n_kv_heads = 1;
  c.head_dim = head_dim;
  return c;
}

}  // namespace

TEST_CASE("rows are stored in the order in which they are computed; in each layer a token's slot says where its row is") {
  reference<float> backend{execution{}};
  kv_cache<reference<float>> cache(of_shape(2, 2));
  const std::size_t empty = cache.bytes();
  const auto put = [&](layer_id layer, const std::vector<position>& tokens) {
    std::vector<float> k, v;
    for (const position t : tokens)
      for (const float part : {0.0f, 0.5f}) {
        k.push_back(static_cast<float>(t) + part);
        v.push_back(-static_cast<float>(t) - part);
      }
    cache.put(backend, layer, tokens, {k.data(), tokens.size(), 2, 2}, {v.data(), tokens.size(), 2, 2});
  };
  put(0, {0, 1, 2, 3});
  put(1, {1, 3});
  put(0, {4});
  put(1, {0, 2, 4});  // the rows of revived tokens come later
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
  cache.retain([](layer_id, position) { return false; });
  CHECK(cache.rows(0).size() == 0);
  CHECK(cache.bytes() == full);  // the memory is kept
  put(0, {0, 1, 2, 3});
  CHECK(cache.bytes() == full);
}

TEST_CASE("rows can be stored before their tokens are known: the slots are those of put, and the tokens are named later") {
  reference<float> backend{execution{}};
  kv_cache<reference<float>> cache(of_shape(1, 1));
  const auto put = [&](auto& to, const std::vector<position>& tokens) {
    const std::vector<float> rows(tokens.begin(), tokens.end());
    to.put(backend, 0, tokens, {rows.data(), rows.size(), 1, 1}, {rows.data(), rows.size(), 1, 1});
  };
  put(cache, {0, 2, 3, 5, 6});
  cache.forget(std::vector<position>{0, 3});
  kv_cache<reference<float>> expected = cache, given_up = cache;
  const std::vector<position> tokens{1, 4, 7};
  std::vector<std::uint32_t> slots;
  const std::vector<float> rows(tokens.begin(), tokens.end());
  const auto put_unnamed = [&](auto& to) {  // in two blocks
    to.next_slots(0, 3, slots);
    for (const std::size_t first : {0u, 2u}) {
      const std::size_t count = first == 0 ? 2 : 1;
      const rows_view<const float> some{rows.data() + first, count, 1, 1};
      to.put_unnamed(0, std::span(slots).subspan(first, count),
                     [&](auto& of_layer, auto there) { backend.put(of_layer, there, some, some); });
    }
  };
  put_unnamed(cache);
  cache.name(0, tokens, slots);
  put(expected, tokens);
  put(cache, {8, 9});
  put(expected, {8, 9});
  CHECK(cache.tokens_of_slots(0) == expected.tokens_of_slots(0));
  const std::vector<std::uint32_t> all{0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<float> found(8), wanted(8);
  backend.read_keys(cache.rows(0), all, found.data());
  backend.read_keys(expected.rows(0), all, wanted.data());
  CHECK(found == wanted);

  put_unnamed(given_up);  // the tokens are never named
  given_up.retain([](layer_id, position) { return true; });
  put(given_up, tokens);
  put(given_up, {8, 9});
  CHECK(given_up.tokens_of_slots(0) == expected.tokens_of_slots(0));
}

TEST_CASE("tokens that have no row yet are shown in the slots that put gives them") {
  reference<float> backend{execution{}};
  kv_cache<reference<float>> cache(of_shape(1, 1));
  const auto put = [&](const std::vector<position>& tokens) {
    const std::vector<float> rows(tokens.size());
    cache.put(backend, 0, tokens, {rows.data(), rows.size(), 1, 1}, {rows.data(), rows.size(), 1, 1});
  };
  put({0, 2, 3, 5, 6});
  cache.forget(std::vector<position>{0, 3});
  put({1});  // takes the slot of token 0
  const std::vector<position> all{1, 2, 4, 5, 7, 8, 9};
  std::vector<std::uint32_t> shown, now;
  cache.slots(0, all, shown);
  CHECK(shown == std::vector<std::uint32_t>{0, 1, 2, 3, 5, 6, 7});
  put({4, 7});
  cache.slots(0, all, now);
  CHECK(now == shown);
  put({8, 9});
  cache.slots(0, all, now);
  CHECK(now == shown);
}

TEST_CASE("freed slots are used again, the lowest first; free slots at the end are removed") {
  reference<float> backend{execution{}};
  kv_cache<reference<float>> cache(of_shape(2, 1));
  const auto put = [&](kv_cache<reference<float>>& to, layer_id layer, const std::vector<position>& tokens) {
    std::vector<float> rows;
    for (const position t : tokens) rows.push_back(static_cast<float>(t));
    to.put(backend, layer, tokens, {rows.data(), tokens.size(), 1, 1}, {rows.data(), tokens.size(), 1, 1});
  };
  const auto holds = [&](const kv_cache<reference<float>>& in, layer_id layer, const std::vector<position>& tokens) {
    for (const position t : tokens)
      if (*in.rows(layer).key(in.slot(layer, t)) != static_cast<float>(t)) return false;
    return true;
  };
  put(cache, 0, {0, 1, 2, 3, 4, 5, 6, 7});
  put(cache, 1, {1, 3, 5, 7});
  kv_cache<reference<float>> copy = cache;

  cache.forget(std::vector<position>{3, 6, 9});
  CHECK(cache.rows(0).size() == 8);
  put(cache, 0, {8, 9, 10});
  CHECK(cache.slot(0, 8) == 3);
  CHECK(cache.slot(0, 9) == 6);
  CHECK(cache.slot(0, 10) == 8);
  CHECK(holds(cache, 0, {0, 1, 2, 4, 5, 7, 8, 9, 10}));
  put(cache, 1, {8});
  CHECK(cache.slot(1, 8) == 1);
  CHECK(holds(copy, 0, {0, 1, 2, 3, 4, 5, 6, 7}));  // the shared rows are unchanged

  cache.retain([](layer_id layer, position t) { return layer == 1 || (t != 2 && t < 7); });
  CHECK(cache.rows(0).size() == 6);  // slots up to the last one in use; tokens 0, 1, 4 and 5 have rows
  CHECK(cache.rows(1).size() == 4);
  cache.forget(std::vector<position>{0});
  put(cache, 0, {11, 12, 13, 14});
  CHECK(cache.slot(0, 11) == 0);
  CHECK(cache.slot(0, 12) == 2);
  CHECK(cache.slot(0, 13) == 3);
  CHECK(cache.slot(0, 14) == 6);
  CHECK(holds(cache, 0, {1, 4, 5, 11, 12, 13, 14}));
  CHECK(holds(cache, 1, {1, 5, 7, 8}));
}
