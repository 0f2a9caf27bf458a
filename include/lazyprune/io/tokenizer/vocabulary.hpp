// SPDX-License-Identifier: MIT
// The pieces of a vocabulary: by id, and the other way round. Ids may leave holes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/io/text.hpp>

namespace lazyprune {
inline namespace v0 {

class vocabulary {
 public:
  static constexpr std::size_t most_ids = std::size_t{1} << 24, most_piece = std::size_t{1} << 16;

  vocabulary() = default;
  // Its table points into its pieces.
  vocabulary(const vocabulary&) = delete;
  vocabulary& operator=(const vocabulary&) = delete;
  vocabulary(vocabulary&&) = default;
  vocabulary& operator=(vocabulary&&) = default;

  /// Throws `error` with no file and no place where a piece stands twice, or is longer than most_piece.
  explicit vocabulary(std::vector<std::optional<std::string>> pieces) : pieces_(std::move(pieces)) {
    ids_.reserve(pieces_.size());
    for (std::size_t id = 0; id < pieces_.size(); ++id) {
      if (!pieces_[id]) continue;
      if (pieces_[id]->size() > most_piece)
        throw error("", "", "pieces of at most " + std::to_string(most_piece) + " bytes", std::to_string(pieces_[id]->size()));
      if (!ids_.emplace(*pieces_[id], static_cast<token_id>(id)).second)
        throw error("", "", "every piece once", in_quotes(*pieces_[id]) + " again");
    }
  }

  /// One more than the largest id.
  std::size_t size() const { return pieces_.size(); }
  /// How many pieces there are.
  std::size_t count() const { return ids_.size(); }

  std::optional<token_id> find(std::string_view piece) const {
    const auto at = ids_.find(piece);
    return at == ids_.end() ? std::nullopt : std::optional(at->second);
  }

  /// The piece with this id; none where there is none.
  std::optional<std::string_view> piece(token_id id) const {
    if (id >= pieces_.size() || !pieces_[id]) return std::nullopt;
    return *pieces_[id];
  }

 private:
  std::vector<std::optional<std::string>> pieces_;
  std::unordered_map<std::string_view, token_id> ids_;
};

}  // namespace v0
}  // namespace lazyprune
