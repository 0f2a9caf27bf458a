// SPDX-License-Identifier: MIT
// Pseudo-random numbers as a function of their input: SplitMix64 (https://prng.di.unimi.it/splitmix64.c). They are the same on every
// machine.
#pragma once

#include <cstdint>

namespace lazyprune {
inline namespace v0 {

/// Output number n, counted from 0, of the generator that starts at `seed`. Every bit depends on all bits of both arguments.
constexpr std::uint64_t mix(std::uint64_t seed, std::uint64_t n) {
  std::uint64_t z = seed + (n + 1) * 0x9e37'79b9'7f4a'7c15u;
  z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9u;
  z = (z ^ z >> 27) * 0x94d0'49bb'1331'11ebu;
  return z ^ z >> 31;
}

}  // namespace v0
}  // namespace lazyprune
