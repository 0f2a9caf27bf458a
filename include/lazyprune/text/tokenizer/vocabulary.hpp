// SPDX-License-Identifier: MIT
// The pieces of a vocabulary, found by id or by text. Ids may have gaps.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/files/utf8.hpp>

namespace lazyprune {
inline namespace v0 {

class vocabulary {
 public:
  static constexpr std::size_t most_ids = std::size_t{1} << 24, most_piece = std::size_t{1} << 16;

  vocabulary() = default;

  /// `pieces[id]` is the piece with this id, or nullopt if no piece has the id. Throws `error` without file and place if two pieces are
  /// equal, or if a piece has more than `most_piece` bytes.
  explicit vocabulary(std::vector<std::optional<std::string>> pieces) : pieces_(std::move(pieces)) {
    slots_.resize(std::bit_ceil(2 * pieces_.size() + 1));
    for (std::size_t id = 0; id < pieces_.size(); ++id) {
      if (!pieces_[id]) continue;
      if (pieces_[id]->size() > most_piece)
        throw error("", "", "pieces of at most " + std::to_string(most_piece) + " bytes", std::to_string(pieces_[id]->size()));
      const std::uint32_t hash = hash_of(*pieces_[id]);
      slot& at = slots_[place(*pieces_[id], hash)];
      if (at.id != none)
        throw error("", "", "every piece once",
                    "token " + std::to_string(at.id) + " and token " + std::to_string(id) + " are both " + in_quotes(*pieces_[id]));
      at = {hash, static_cast<token_id>(id)};
      ++count_;
    }
  }

  /// Returns one more than the largest id.
  std::size_t size() const { return pieces_.size(); }
  /// Returns the number of pieces.
  std::size_t count() const { return count_; }

  std::optional<token_id> find(std::string_view piece) const {
    if (slots_.empty()) return std::nullopt;
    const token_id id = slots_[place(piece, hash_of(piece))].id;
    return id == none ? std::nullopt : std::optional(id);
  }

  /// Returns the piece with this id, or nullopt if there is none.
  std::optional<std::string_view> piece(token_id id) const {
    if (id >= pieces_.size() || !pieces_[id]) return std::nullopt;
    return *pieces_[id];
  }

 private:
  static constexpr token_id none = std::numeric_limits<token_id>::max();  // no piece has this id

  struct slot {
    std::uint32_t hash = 0;
    token_id id = none;
  };

  static std::uint32_t hash_of(std::string_view piece) { return static_cast<std::uint32_t>(std::hash<std::string_view>()(piece)); }

  /// Returns the index of the piece's slot, or of the free slot for it.
  std::size_t place(std::string_view piece, std::uint32_t hash) const {
    for (std::size_t at = hash;; ++at) {
      const slot& here = slots_[at & (slots_.size() - 1)];
      if (here.id == none || (here.hash == hash && *pieces_[here.id] == piece)) return at & (slots_.size() - 1);
    }
  }

  std::vector<std::optional<std::string>> pieces_;
  /// A hash table with open addressing, for speed: reading one merge looks up three pieces. Its size is a power of two. At most half of the
  /// slots are taken.
  std::vector<slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace v0
}  // namespace lazyprune
