// SPDX-License-Identifier: MIT
#include <lazyprune/core/fnv_hash.hpp>

#include <doctest/doctest.h>

namespace {

std::uint64_t hash_of(std::string_view text) {
  lazyprune::fnv_hash hash;
  hash.add(text);
  return hash.value();
}

}  // namespace

TEST_CASE("the hash has the values of FNV-1a's reference implementation") {
  CHECK(hash_of("") == 0xcbf29ce484222325u);
  CHECK(hash_of("a") == 0xaf63dc4c8601ec8cu);
  CHECK(hash_of("foobar") == 0x85944171f73967e8u);
}

TEST_CASE("bytes may be added one by one, and bytes above 127 are unsigned") {
  lazyprune::fnv_hash hash;
  hash.add('f');
  hash.add("ooba");
  hash.add('r');
  CHECK(hash.value() == hash_of("foobar"));
  lazyprune::fnv_hash high;
  high.add(static_cast<unsigned char>(0xff));
  CHECK(high.value() == hash_of("\xff"));
}
