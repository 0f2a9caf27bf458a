// SPDX-License-Identifier: MIT
// The decoders of tokenizer.json: they turn the pieces of tokens into text, one token at a time. A Sequence of decoders becomes one list of
// steps. Each step takes pieces and makes pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/byte_piece.hpp>
#include <lazyprune/text/tokenizer/byte_alphabet.hpp>
#include <lazyprune/text/tokenizer/normalizer.hpp>
#include <lazyprune/text/tokenizer/pre_tokenizer.hpp>
#include <lazyprune/text/tokenizer/text_pattern.hpp>
#include <lazyprune/text/tokenizer/unicode.hpp>

namespace lazyprune {
inline namespace v0 {

struct decoder {
  struct join {};  // puts a space between pieces; used if a file has no decoder
  struct replace {
    text_pattern pattern;
    std::string content;
  };
  struct byte_fallback {};  // a run of <0x..> becomes the bytes it names, or one U+FFFD per byte if the run is not UTF-8
  struct fuse {};           // joins all pieces to one
  struct strip {            // removes `character` up to `start` times from the beginning of each piece, up to `stop` times from its end
    std::string character;
    std::size_t start, stop;
  };
  struct byte_level {};  // decodes pieces from the byte alphabet and joins them to one
  struct metaspace {
    std::string replacement;
    bool drops_first;  // in the first piece, `replacement` is dropped instead of becoming a space
  };
  using step = std::variant<join, replace, byte_fallback, fuse, strip, byte_level, metaspace>;

  std::vector<step> steps;
};

namespace detail {

/// Moves bytes from `held` to `out`. Bytes that cannot become UTF-8 are written as U+FFFD. An incomplete character at the end stays in
/// `held`, unless `at_end` is true.
inline void release_utf8(std::string& held, std::string& out, bool at_end) {
  std::string_view rest = held;
  while (!rest.empty()) {
    std::size_t size = utf8_prefix(rest);
    if (size > 0) {
      out += rest.substr(0, size);
    } else {
      size = utf8_beginning(rest);
      if (size == rest.size() && !at_end) break;
      size = std::max<std::size_t>(size, 1);
      out += "\xef\xbf\xbd";
    }
    rest.remove_prefix(size);
  }
  held.erase(0, held.size() - rest.size());
}

}  // namespace detail

/// Decodes one sequence of tokens, piece by piece.
class piece_decoder {
 public:
  /// The decoder must outlive this object.
  explicit piece_decoder(const decoder& how) : how_(&how), states_(how.steps.size()) {}

  /// Returns the text that is final once this piece is known. Throws `error` if a step makes a piece of more than 4096 bytes plus 64 per
  /// byte of all pieces so far.
  std::string push(std::string_view piece) {
    std::string out;
    most_ += 64 * piece.size();
    feed(0, piece, out);
    return out;
  }

  /// Returns the text that is held back. Call this at the end of the sequence, or between stretches that are decoded separately. More
  /// pieces may follow.
  std::string flush() {
    std::string out;
    for (std::size_t at = 0; at < states_.size(); ++at) end(at, out);
    return out;
  }

 private:
  struct state {
    std::string held;
    std::size_t count = 0;  // pieces so far; for strip: characters removed so far
    bool open = false;      // for strip after fuse: another character has come, so no more are removed
  };

  /// Returns whether an earlier step joins all pieces to one, so that this step receives that piece in fragments.
  bool fused_before(std::size_t at) const {
    return std::any_of(how_->steps.begin(), how_->steps.begin() + static_cast<std::ptrdiff_t>(at), [](const decoder::step& one) {
      return std::holds_alternative<decoder::fuse>(one) || std::holds_alternative<decoder::byte_level>(one);
    });
  }

  void feed(std::size_t at, std::string_view piece, std::string& out) {
    if (piece.size() > most_)
      throw error("tokenizer", "decoder", "at most 64 bytes for each byte of the pieces", std::to_string(piece.size()) + " bytes",
                  error_code::unsupported);
    if (at == states_.size()) {
      out += piece;
      return;
    }
    const decoder::step& step = how_->steps[at];
    if (!fused_before(at) || std::holds_alternative<decoder::fuse>(step))
      std::visit([&](const auto& one) { whole(one, at, piece, out); }, step);
    else if (const auto* const strip = std::get_if<decoder::strip>(&step); strip && strip->stop == 0)
      strip_start(*strip, at, piece, out);
    else
      states_[at].held += piece;
  }

  void end(std::size_t at, std::string& out) {
    const decoder::step& step = how_->steps[at];
    state& now = states_[at];
    const bool fuses = std::holds_alternative<decoder::fuse>(step);
    if (fused_before(at) && !fuses) {
      const std::string held = std::exchange(now.held, {});
      const auto* const strip = std::get_if<decoder::strip>(&step);
      if (!strip || strip->stop > 0) std::visit([&](const auto& one) { whole(one, at, held, out); }, step);
    }
    if (std::holds_alternative<decoder::byte_fallback>(step)) flush_bytes(at, out);
    if (std::holds_alternative<decoder::byte_level>(step)) {
      std::string text;
      detail::release_utf8(now.held, text, true);
      feed(at + 1, text, out);
    }
  }

  void whole(const decoder::join&, std::size_t at, std::string_view piece, std::string& out) {
    const bool first = states_[at].count++ == 0;
    feed(at + 1, first ? std::string(piece) : ' ' + std::string(piece), out);
  }
  void whole(const decoder::replace& one, std::size_t at, std::string_view piece, std::string& out) {
    feed(at + 1, one.pattern.replaced(piece, one.content, most_), out);
  }
  void whole(const decoder::byte_fallback&, std::size_t at, std::string_view piece, std::string& out) {
    if (const auto byte = byte_of_piece(piece, hex_letters::both)) {
      states_[at].held += static_cast<char>(*byte);
      return;
    }
    flush_bytes(at, out);
    feed(at + 1, piece, out);
  }
  void whole(const decoder::fuse&, std::size_t at, std::string_view piece, std::string& out) { feed(at + 1, piece, out); }
  void whole(const decoder::strip& one, std::size_t at, std::string_view piece, std::string& out) {
    for (std::size_t i = 0; i < one.start && piece.starts_with(one.character); ++i) piece.remove_prefix(one.character.size());
    for (std::size_t i = 0; i < one.stop && piece.ends_with(one.character); ++i) piece.remove_suffix(one.character.size());
    feed(at + 1, piece, out);
  }
  void whole(const decoder::byte_level&, std::size_t at, std::string_view piece, std::string& out) {
    states_[at].held += from_byte_alphabet(piece).value_or(std::string(piece));
    std::string text;
    detail::release_utf8(states_[at].held, text, false);
    feed(at + 1, text, out);
  }
  void whole(const decoder::metaspace& one, std::size_t at, std::string_view piece, std::string& out) {
    const bool first = states_[at].count++ == 0;
    feed(at + 1, text_pattern(one.replacement).replaced(piece, first && one.drops_first ? "" : " "), out);
  }

  /// Strips the start of a joined piece that arrives in fragments.
  void strip_start(const decoder::strip& one, std::size_t at, std::string_view next, std::string& out) {
    state& now = states_[at];
    for (; !now.open && now.count < one.start && next.starts_with(one.character); ++now.count) next.remove_prefix(one.character.size());
    now.open = now.open || !next.empty();
    feed(at + 1, next, out);
  }

  void flush_bytes(std::size_t at, std::string& out) {
    const std::string bytes = std::exchange(states_[at].held, {});
    if (bytes.empty()) return;
    if (utf8_end(bytes) == bytes.size()) return feed(at + 1, bytes, out);
    for (std::size_t i = 0; i < bytes.size(); ++i) feed(at + 1, "\xef\xbf\xbd", out);
  }

  const decoder* how_;
  std::vector<state> states_;
  std::size_t most_ = 4096;  // limit in bytes for one piece between two steps; grows with the pieces
};

namespace detail {

inline void read_decoder_steps(const json_value& json, const unicode* characters, std::vector<decoder::step>& steps) {
  const json_value kind = json.at("type");
  const std::string& name = kind.string();
  const auto only = [&](std::initializer_list<std::string_view> keys) { json.allow_only(keys, error_code::unsupported); };
  if (name == "Sequence") {
    only({"type", "decoders"});
    json.at("decoders").each_item([&](const json_value& one) { read_decoder_steps(one, characters, steps); });
  } else if (name == "Replace") {
    only({"type", "pattern", "content"});
    steps.push_back(decoder::replace{text_pattern_of(json.at("pattern"), characters), json.at("content").string()});
  } else if (name == "ByteFallback") {
    only({"type"});
    steps.push_back(decoder::byte_fallback{});
  } else if (name == "Fuse") {
    only({"type"});
    steps.push_back(decoder::fuse{});
  } else if (name == "Strip") {
    only({"type", "content", "start", "stop"});
    const json_value content = json.at("content");
    if (content.string().empty() || content.string().size() != utf8_length(content.string()[0])) content.refuse("one character");
    const auto count = [&](std::string_view key) { return static_cast<std::size_t>(json.at(key).whole_number(0, std::size_t{1} << 30)); };
    steps.push_back(decoder::strip{content.string(), count("start"), count("stop")});
  } else if (name == "ByteLevel") {
    only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    steps.push_back(decoder::byte_level{});
  } else if (name == "Metaspace") {
    const pre_tokenizer::metaspace how = metaspace_of(json);
    steps.push_back(decoder::metaspace{how.replacement, how.scheme != pre_tokenizer::prepend_scheme::never});
  } else {
    kind.refuse_unsupported("Replace, ByteFallback, Fuse, Strip, ByteLevel, Metaspace or Sequence");
  }
}

}  // namespace detail

/// Returns the decoder in a tokenizer.json. Throws `error`, with the place, if its kind or one of its options is not supported.
inline decoder decoder_of(const json_value& json, const unicode* characters) {
  decoder out;
  detail::read_decoder_steps(json, characters, out.steps);
  return out;
}

}  // namespace v0
}  // namespace lazyprune
