// SPDX-License-Identifier: MIT
// Streams of bytes in memory, for tests that save and load.
#pragma once

#include <lazyprune/model/byte_stream.hpp>

#include <algorithm>
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

}  // namespace lazyprune_test
