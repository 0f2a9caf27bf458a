// SPDX-License-Identifier: MIT
// The 64-bit FNV-1a hash (http://www.isthe.com/chongo/tech/comp/fnv/). It is the same on every machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace lazyprune {
inline namespace v0 {

/// The hash of the bytes that were added.
class fnv_hash {
 public:
  constexpr void add(unsigned char byte) { value_ = (value_ ^ byte) * 0x100'0000'01b3u; }
  /// Adds the text's bytes, but not its size.
  constexpr void add(std::string_view text) {
    for (const char byte : text) add(static_cast<unsigned char>(byte));
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf2'9ce4'8422'2325u;
};

}  // namespace v0
}  // namespace lazyprune
