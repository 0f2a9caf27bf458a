// SPDX-License-Identifier: MIT
// SentencePiece's BPE (Llama, Mistral): text to token ids and back. The pair whose piece has the highest score is merged first. Among equal
// scores, the leftmost pair is merged first. A character without a piece falls back to bytes. Control pieces come only from text that the
// caller trusts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/byte_piece.hpp>
#include <lazyprune/text/sentencepiece_model.hpp>
#include <lazyprune/text/tokenizer/added_tokens.hpp>
#include <lazyprune/text/tokenizer/normalizer.hpp>
#include <lazyprune/text/tokenizer/prefix_search.hpp>
#include <lazyprune/text/tokenizer/text_pattern.hpp>

namespace lazyprune {
inline namespace v0 {

class sentencepiece_bpe {
 public:
  /// `adds_bos`: whether a text begins with BOS by default.
  explicit sentencepiece_bpe(sentencepiece_model model, bool adds_bos = true) : model_(std::move(model)), adds_bos_(adds_bos) {
    for (std::size_t i = 0; i < model_.pieces.size(); ++i) {
      const std::string_view text = model_.pieces[i].text;
      const piece_type type = model_.pieces[i].type;
      const auto id = static_cast<token_id>(i);
      if (type == piece_type::normal || type == piece_type::user_defined || type == piece_type::unused) add(text, id);
      has_unused_ = has_unused_ || type == piece_type::unused;
      if (type == piece_type::user_defined) symbols_.push_back({text, id, none});
      if (type == piece_type::control && text == model_.bos_piece) bos_ = id;
      if (type == piece_type::control && text == model_.eos_piece) eos_ = id;
    }
    link_symbols();
    find_marks();
  }
  // No copies: the tables point into the pieces.
  sentencepiece_bpe(const sentencepiece_bpe&) = delete;
  sentencepiece_bpe& operator=(const sentencepiece_bpe&) = delete;
  sentencepiece_bpe(sentencepiece_bpe&&) = default;
  sentencepiece_bpe& operator=(sentencepiece_bpe&&) = default;

  std::size_t size() const { return model_.pieces.size(); }
  std::optional<token_id> bos() const { return bos_; }
  std::optional<token_id> eos() const { return eos_; }
  token_id unknown() const { return model_.unknown; }
  bool adds_bos() const { return adds_bos_ && bos_.has_value(); }
  const sentencepiece_model& model() const { return model_; }

  /// Returns the piece of a token. Throws `error` unless id < size().
  const sentencepiece& piece(token_id id) const {
    if (id >= size()) throw error("tokenizer", "token " + std::to_string(id), "an id below " + std::to_string(size()));
    return model_.pieces[id];
  }

  std::vector<token_id> encode(std::string_view text) const { return encode(text, adds_bos()); }

  /// Returns the token ids of a text. Any bytes are accepted: each byte that is not UTF-8 is read as U+FFFD. The time grows as n log n.
  /// Throws `error` if `with_bos` is true and the model has no BOS token, or if the text has more than 2^30 bytes.
  std::vector<token_id> encode(std::string_view text, bool with_bos) const {
    std::vector<token_id> out;
    if (with_bos) {
      if (!bos_) throw error("tokenizer", "", "a model with a BOS token", "none");
      out.push_back(*bos_);
    }
    merge_stretches(text, out, [](token_id) { return true; });
    return out;
  }

  /// Returns whether the token is a control piece or the unknown piece. Merging never makes such a piece.
  bool is_special(token_id id) const {
    const piece_type type = piece(id).type;
    return type == piece_type::control || type == piece_type::unknown;
  }

  /// Returns the token ids of a text, without BOS. A token for which `reserved(id)` is true is recognised only at ranges for which
  /// `own_at(range)` is true. All special tokens must be reserved. The text between two recognised tokens is encoded by itself.
  template <class Reserved, class OwnAt>
  std::vector<token_id> encode(std::string_view text, const Reserved& reserved, const OwnAt& own_at) const {
    std::vector<token_id> out;
    const auto may_be = [&](token_id id) { return !reserved(id); };
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t size = 0;
      token_id longest = 0;
      marks_.each(text.substr(at), [&](std::size_t bytes, token_id id) {
        if (!reserved(id) || !own_at(text_range{at, at + bytes})) return;
        size = bytes;
        longest = id;
      });
      if (size == 0) {
        ++at;
        continue;
      }
      merge_stretches(text.substr(done, at - done), out, may_be);
      out.push_back(longest);
      if (piece(longest).rstrip) size += detail::leading_space(text.substr(at + size));
      done = at += size;
    }
    merge_stretches(text.substr(done), out, may_be);
    return out;
  }

  /// Calls found(id) for each user-defined piece whose text occurs in `text`, except pieces of white space.
  template <class Found>
  void each_mark(std::string_view text, const Found& found) const {
    for (std::size_t at = 0; at < text.size(); ++at)
      marks_.each(text.substr(at), [&](std::size_t, token_id id) {
        if (!is_special(id)) found(id);
      });
  }

  /// Returns the text of a sequence. `sentencepiece_decoder` decodes one token at a time.
  std::string decode(std::span<const token_id> tokens) const;

 private:
  friend class sentencepiece_decoder;

  static constexpr std::string_view space = "\xe2\x96\x81";        // U+2581, written for a space
  static constexpr std::string_view replacement = "\xef\xbf\xbd";  // U+FFFD
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t most_text = std::size_t{1} << 30;  // bytes; normalization at most triples them, so 32-bit indices suffice

  struct symbol {  // a user-defined piece
    std::string_view text;
    token_id id;
    std::uint32_t shorter;  // the index of the longest other symbol that this one begins with, or none
  };

  struct fragment {  // a node in the list of the text's stretches, from left to right
    std::uint32_t begin, size;
    std::uint32_t previous, next;
    bool whole;  // it is a user-defined piece, which is never merged
  };

  struct pair {  // two neighbours that make a piece
    float score;
    std::uint32_t left, right;
    std::uint32_t size;

    friend bool operator<(const pair& a, const pair& b) { return a.score != b.score ? a.score < b.score : a.left > b.left; }
  };

  /// Returns a number that identifies two neighbouring characters.
  static std::uint64_t joint(std::string_view left, std::string_view right) {
    std::uint64_t bytes = 0;
    for (const std::string_view character : {left, right}) {
      std::uint32_t packed = 0;
      for (const char c : character) packed = packed << 8 | static_cast<unsigned char>(c);
      bytes = bytes << 32 | packed;
    }
    return bytes;
  }

  void add(std::string_view text, token_id id) {
    ids_.emplace(text, id);
    for (std::string_view left; !text.empty();) {
      const std::string_view right = text.substr(0, utf8_length(text[0]));
      if (!left.empty()) joints_.insert(joint(left, right));
      text.remove_prefix(right.size());
      left = right;
    }
  }

  /// Returns the size in bytes of the first stretch that can be merged by itself. The stretch ends between two characters that are
  /// neighbours in no piece. No merge crosses such a border. If the model has unused pieces, the stretch is the whole text,
  /// because an unused piece is split again into the halves from which the last merge made this piece. That merge may be anywhere in the
  /// text.
  std::size_t stretch_of(std::string_view text) const {
    if (has_unused_) return text.size();
    std::size_t begin = 0, end = utf8_length(text[0]);
    while (end < text.size()) {
      const std::size_t size = utf8_length(text[end]);
      if (!joints_.contains(joint(text.substr(begin, end - begin), text.substr(end, size)))) break;
      begin = end;
      end += size;
    }
    return end;
  }

  void link_symbols() {
    std::ranges::sort(symbols_, {}, &symbol::text);
    for (std::uint32_t i = 1; i < symbols_.size(); ++i) {
      std::uint32_t at = i - 1;
      while (at != none && !symbols_[i].text.starts_with(symbols_[at].text)) at = symbols_[at].shorter;
      symbols_[i].shorter = at;
    }
  }

  /// Collects the pieces that `encode` looks for before it merges a text, with plain spaces in place of U+2581.
  void find_marks() {
    std::vector<prefix_search::entry> marks;
    for (const sentencepiece& piece : model_.pieces) {
      const auto id = static_cast<token_id>(&piece - model_.pieces.data());
      if (!is_special(id) && (piece.type != piece_type::user_defined || detail::is_blank(piece.text))) continue;
      if (piece.text.find(space) == piece.text.npos)
        marks.emplace_back(piece.text, id);
      else
        marks.emplace_back(spaced_.emplace_back(text_pattern(std::string(space)).replaced(piece.text, " ")), id);
    }
    marks_ = prefix_search(std::move(marks));
  }

  /// Encodes a text by itself and appends its tokens to `out`. Uses only pieces for which `may_be(id)` is true.
  template <class MayBe>
  void merge_stretches(std::string_view text, std::vector<token_id>& out, const MayBe& may_be) const {
    if (text.size() > most_text)
      throw error("tokenizer", "text", "at most " + std::to_string(most_text) + " bytes", std::to_string(text.size()));
    const std::string normal = normalized(text, may_be);
    bool after_unknown = false;
    for (std::string_view rest = normal; !rest.empty();) {
      const std::string_view stretch = rest.substr(0, stretch_of(rest));
      merge(stretch, out, after_unknown, may_be);
      rest.remove_prefix(stretch.size());
    }
  }

  /// Returns the size in bytes of the longest user-defined piece at the start of the text, or 0. Only pieces for which `may_be(id)` is true
  /// count. The symbols are sorted, and the search begins at the last symbol that is not greater than the text. This symbol begins with
  /// every symbol that the text begins with.
  template <class MayBe>
  std::size_t symbol_prefix(std::string_view text, const MayBe& may_be) const {
    const auto above = std::ranges::upper_bound(symbols_, text, {}, &symbol::text);
    if (above == symbols_.begin()) return 0;
    auto at = static_cast<std::uint32_t>(above - symbols_.begin() - 1);
    while (at != none && !(text.starts_with(symbols_[at].text) && may_be(symbols_[at].id))) at = symbols_[at].shorter;
    return at == none ? 0 : symbols_[at].text.size();
  }

  /// Returns the text with the model's settings applied. Each setting turns on one step: spaces become U+2581, one space is put before the
  /// text, extra spaces are removed.
  template <class MayBe>
  std::string normalized(std::string_view text, const MayBe& may_be) const {
    const std::string_view written = model_.escape_whitespaces ? space : " ";
    const bool trim = model_.remove_extra_whitespaces;
    while (trim && text.starts_with(' ') && symbol_prefix(text, may_be) <= 1) text.remove_prefix(1);
    std::string out;
    if (text.empty()) return out;
    out.reserve(text.size() + text.size() / 2);
    if (model_.add_dummy_prefix) out += written;
    for (bool after_space = trim; !text.empty();) {
      std::size_t length = symbol_prefix(text, may_be);
      if (length == 0) length = utf8_prefix(text);
      std::string_view unit = length == 0 ? replacement : text.substr(0, length);
      text.remove_prefix(std::max<std::size_t>(length, 1));
      if (after_space) unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
      if (unit.empty()) continue;
      for (const char c : unit) c == ' ' ? out += written : out += c;
      after_space = trim && unit.back() == ' ';
    }
    while (trim && std::string_view(out).ends_with(written)) out.resize(out.size() - written.size());
    return out;
  }

  template <class MayBe>
  void merge(std::string_view text, std::vector<token_id>& out, bool& after_unknown, const MayBe& may_be) const {
    std::vector<fragment> fragments;
    for (std::uint32_t at = 0; at < text.size();) {
      const std::size_t known = symbol_prefix(text.substr(at), may_be);
      const auto size = static_cast<std::uint32_t>(known > 0 ? known : utf8_length(text[at]));
      const auto index = static_cast<std::uint32_t>(fragments.size());
      fragments.push_back({at, size, index - 1, index + 1, known > 0});
      at += size;
    }
    fragments.front().previous = none;
    fragments.back().next = none;

    std::priority_queue<pair> pairs;
    std::unordered_map<token_id, std::uint32_t> halves;  // for each unused piece that was made: the size of its left half
    const auto offer = [&](std::uint32_t left, std::uint32_t right) {
      if (left == none || right == none || fragments[left].whole || fragments[right].whole) return;
      const std::uint32_t size = fragments[left].size + fragments[right].size;
      const auto found = ids_.find(text.substr(fragments[left].begin, size));
      if (found == ids_.end() || !may_be(found->second)) return;
      pairs.push({model_.pieces[found->second].score, left, right, size});
      if (model_.pieces[found->second].type == piece_type::unused) halves[found->second] = fragments[left].size;
    };
    for (std::uint32_t i = 1; i < fragments.size(); ++i) offer(i - 1, i);
    while (!pairs.empty()) {
      const pair top = pairs.top();
      pairs.pop();
      fragment &left = fragments[top.left], &right = fragments[top.right];
      if (left.size == 0 || right.size == 0 || left.size + right.size != top.size) continue;  // one of them has been merged since
      left.size = top.size;
      right.size = 0;
      left.next = right.next;
      if (right.next != none) fragments[right.next].previous = top.left;
      offer(left.previous, top.left);
      offer(top.left, left.next);
    }

    std::vector<std::string_view> stack;
    for (std::uint32_t i = 0; i != none; i = fragments[i].next) {
      stack.push_back(text.substr(fragments[i].begin, fragments[i].size));
      while (!stack.empty()) {
        const std::string_view piece = stack.back();
        stack.pop_back();
        const auto found = ids_.find(piece);
        const bool known = found != ids_.end() && may_be(found->second);
        if (known) {
          if (const auto half = halves.find(found->second); half != halves.end()) {  // an unused piece is split back into its two halves
            stack.push_back(piece.substr(half->second));
            stack.push_back(piece.substr(0, half->second));
            continue;
          }
          out.push_back(found->second);
        } else if (model_.byte_fallback) {
          for (const char byte : piece) out.push_back(model_.bytes[static_cast<unsigned char>(byte)]);
        } else if (!after_unknown) {  // a run of unknown characters is one token
          out.push_back(model_.unknown);
        }
        after_unknown = !known;
      }
    }
  }

  sentencepiece_model model_;
  bool adds_bos_;
  std::optional<token_id> bos_, eos_;
  std::unordered_map<std::string_view, token_id> ids_;  // the pieces that merging can make
  std::vector<symbol> symbols_;                         // the user-defined pieces, ascending by text
  prefix_search marks_;                                 // the special pieces, and the user-defined pieces except white space
  std::deque<std::string> spaced_;                      // the texts of marks whose U+2581 became spaces; `marks_` points into these texts
  std::unordered_set<std::uint64_t> joints_;            // the pairs of characters that are neighbours in a piece
  bool has_unused_ = false;
};

/// Decodes one token at a time. Push the prompt first, so that the text after it has the right spaces.
class sentencepiece_decoder {
 public:
  /// The tokenizer must outlive this object. Control pieces become text only if `writes_control` is true.
  explicit sentencepiece_decoder(const sentencepiece_bpe& tokens, bool writes_control = false)
      : tokens_(&tokens), writes_control_(writes_control) {}

  /// Returns the text that is final once this token is known. Incomplete UTF-8 is held back. Bytes that cannot become UTF-8 are returned as
  /// U+FFFD.
  std::string push(token_id id) {
    const sentencepiece& piece = tokens_->piece(id);
    std::string out;
    if (piece.type == piece_type::byte) {
      held_ += static_cast<char>(*byte_of_piece(piece.text, hex_letters::upper));
      while (!held_.empty() && held_.size() >= utf8_length(held_[0])) release(out);
      return out;
    }
    out = flush();
    if (dropped_space_ || any_text_) at_start_ = false;
    dropped_space_ = false;
    if (piece.type == piece_type::control) {
      if (!writes_control_) return out;
      at_start_ = false;
      return out += piece.text;
    }
    if (piece.type == piece_type::unknown) {
      out += tokens_->model_.unknown_surface;
    } else {
      append(piece.text, out);
    }
    any_text_ = any_text_ || !out.empty();
    return out;
  }

  /// Returns the text that is held back. Call this at the end of the text, or between stretches that are decoded separately. More tokens
  /// may follow.
  std::string flush() {
    std::string out;
    while (!held_.empty()) release(out);
    return out;
  }

 private:
  void release(std::string& out) {
    const std::size_t length = utf8_prefix(held_);
    out += length == 0 ? sentencepiece_bpe::replacement : std::string_view(held_).substr(0, length);
    held_.erase(0, std::max<std::size_t>(length, 1));
    any_text_ = true;
  }

  /// Appends a piece's text with spaces in place of U+2581. At the start of the text, drops one leading space, which encoding may have put
  /// there.
  void append(std::string_view text, std::string& out) {
    const sentencepiece_model& model = tokens_->model_;
    if (at_start_ && (model.add_dummy_prefix || model.remove_extra_whitespaces) && text.starts_with(sentencepiece_bpe::space)) {
      text.remove_prefix(sentencepiece_bpe::space.size());
      dropped_space_ = !model.remove_extra_whitespaces;
    }
    while (!text.empty()) {
      const bool is_space = text.starts_with(sentencepiece_bpe::space);
      out += is_space ? std::string_view(" ") : text.substr(0, 1);
      text.remove_prefix(is_space ? sentencepiece_bpe::space.size() : 1);
    }
  }

  const sentencepiece_bpe* tokens_;
  bool writes_control_;
  std::string held_;            // bytes that may still become a character
  bool at_start_ = true;        // a leading space would be dropped
  bool dropped_space_ = false;  // the last token dropped a space
  bool any_text_ = false;
};

inline std::string sentencepiece_bpe::decode(std::span<const token_id> tokens) const {
  sentencepiece_decoder decoder(*this);
  std::string text;
  for (const token_id id : tokens) text += decoder.push(id);
  return text + decoder.flush();
}

}  // namespace v0
}  // namespace lazyprune
