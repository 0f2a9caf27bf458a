// SPDX-License-Identifier: MIT
// Computes SHA-256 (FIPS 180-4). Tests compare the hash of a whole tensor with an expected hash.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lazyprune_test {

/// Returns the first 32 bits of the fractional part of a prime's square root (degree 2) or cube root (degree 3). These are the constants
/// of the standard.
inline std::uint32_t root_bits(std::uint32_t prime, unsigned degree) {
  __extension__ using wide = unsigned __int128;
  const auto power = [&](wide x) { return degree == 2 ? x * x : x * x * x; };
  wide root = 0;  // floor(prime^(1/degree) * 2^32)
  for (int bit = 36; bit >= 0; --bit) {
    const wide next = root | wide{1} << bit;
    if (power(next) <= wide{prime} << (32 * degree)) root = next;
  }
  return static_cast<std::uint32_t>(root);
}

inline std::string sha256(std::span<const std::byte> data) {
  std::array<std::uint32_t, 64> k{};
  std::array<std::uint32_t, 8> h{};
  for (std::uint32_t n = 2, found = 0; found < 64; ++n) {
    bool prime = true;
    for (std::uint32_t d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
    if (!prime) continue;
    if (found < 8) h[found] = root_bits(n, 2);
    k[found++] = root_bits(n, 3);
  }
  std::vector<std::byte> bytes(data.begin(), data.end());
  bytes.push_back(std::byte{0x80});
  while (bytes.size() % 64 != 56) bytes.push_back(std::byte{0});
  for (int i = 7; i >= 0; --i) bytes.push_back(static_cast<std::byte>(std::uint64_t{data.size()} * 8 >> 8 * i & 255));

  for (std::size_t at = 0; at < bytes.size(); at += 64) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 64; ++i) w[i / 4] |= std::to_integer<std::uint32_t>(bytes[at + i]) << (24 - 8 * (i % 4));
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] + (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    auto s = h;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t e = s[4], a = s[0];
      const std::uint32_t one = s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + k[i] + w[i];
      const std::uint32_t two = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
      s = {one + two, s[0], s[1], s[2], s[3] + one, s[4], s[5], s[6]};
    }
    for (std::size_t i = 0; i < 8; ++i) h[i] += s[i];
  }
  std::string text;
  for (const std::uint32_t word : h)
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
  return text;
}

}  // namespace lazyprune_test
