// SPDX-License-Identifier: MIT
// Streams of bytes in memory, for tests that save and load.
#pragma once

#include <lazyprune/model/byte_stream.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lazyprune_test {

inline lazyprune::byte_writer writer_to(std::string& bytes) {
  return lazyprune::byte_writer([&bytes](std::string_view more) { bytes += more; });
}

inline lazyprune::byte_reader reader_of(std::string bytes) {
  return lazyprune::byte_reader(
      [bytes = std::move(bytes), at = std::size_t{0}](std::span<char> to) mutable {
        const std::size_t count = std::min(to.size(), bytes.size() - at);
        std::copy_n(bytes.data() + at, count, to.data());
        at += count;
        return count;
      },
      "bytes");
}

/// Returns the bytes with the checksum at their end corrected.
inline std::string resealed(std::string bytes) {
  bytes.resize(bytes.size() - sizeof(std::uint64_t));
  lazyprune::detail::byte_checksum sum;
  sum.add(bytes.data(), bytes.size());
  const std::uint64_t number = sum.sum();
  return bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace lazyprune_test
