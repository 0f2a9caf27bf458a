// SPDX-License-Identifier: MIT
// Finds all pieces that a text begins with. The pieces are sorted, and a search narrows the range of candidates byte by byte.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

class prefix_search {
 public:
  using entry = std::pair<std::string_view, token_id>;

  prefix_search() = default;
  /// No piece may be empty. The bytes of the pieces must outlive this object. If two pieces are equal, the second is ignored.
  explicit prefix_search(std::vector<entry> pieces) : pieces_(std::move(pieces)) {
    std::ranges::stable_sort(pieces_, {}, &entry::first);
    const auto equal = [](const entry& a, const entry& b) { return a.first == b.first; };
    pieces_.erase(std::unique(pieces_.begin(), pieces_.end(), equal), pieces_.end());
    for (const auto& [piece, id] : pieces_) ++begins_[static_cast<unsigned char>(piece[0]) + std::size_t{1}];
    for (std::size_t byte = 0; byte < 256; ++byte) begins_[byte + 1] += begins_[byte];
  }

  bool empty() const { return pieces_.empty(); }

  /// Calls found(bytes, id) for every piece that the text begins with, the shortest first. `bytes`: the size of the piece.
  template <class Found>
  void each(std::string_view text, const Found& found) const {
    if (text.empty()) return;
    const auto first = static_cast<unsigned char>(text[0]);
    std::span<const entry> in(pieces_.data() + begins_[first], begins_[first + std::size_t{1}] - begins_[first]);
    for (std::size_t size = 1; !in.empty(); ++size) {
      if (in.front().first.size() == size) {
        found(size, in.front().second);
        in = in.subspan(1);
      }
      if (size == text.size()) return;
      const auto byte = static_cast<unsigned char>(text[size]);
      const auto at_byte = [&](const entry& one) { return static_cast<unsigned char>(one.first[size]); };
      const auto begin = std::ranges::lower_bound(in, byte, {}, at_byte);
      in = {begin, std::ranges::upper_bound(begin, in.end(), byte, {}, at_byte)};
    }
  }

 private:
  std::vector<entry> pieces_;
  std::array<std::size_t, 257> begins_{};  // for each first byte: the index of its first piece
};

}  // namespace v0
}  // namespace lazyprune
