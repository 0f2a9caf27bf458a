// SPDX-License-Identifier: MIT
// Converts text to token ids and back. One class covers both kinds of tokenizer: SentencePiece's BPE (tokenizer.model), and the pipeline of
// a tokenizer.json. Any number of threads may call const member functions at the same time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/sentencepiece_model.hpp>
#include <lazyprune/text/text_run.hpp>
#include <lazyprune/text/tokenizer/sentencepiece_bpe.hpp>
#include <lazyprune/text/tokenizer/text_pattern.hpp>
#include <lazyprune/text/tokenizer/token_pipeline.hpp>

namespace lazyprune {
inline namespace v0 {

/// How `encode` reads the text of a special token (a control piece, BOS, ...). `parsed`: the text becomes that token. transformers and
/// llama.cpp read a raw prompt in this way. `spelled_out`: the text is encoded like any other. A document that must not control the model
/// needs this.
enum class special_tokens : std::uint8_t { parsed, spelled_out };

/// Whether decoded text shows special tokens (control pieces, BOS, ...).
enum class special_text : std::uint8_t { left_out, written };

class tokenizer {
 public:
  /// `adds_bos`: whether a text begins with BOS by default.
  explicit tokenizer(sentencepiece_model model, bool adds_bos = true) : how_(sentencepiece_bpe(std::move(model), adds_bos)) {
    bos_ = std::get<sentencepiece_bpe>(how_).bos();
    eos_ = std::get<sentencepiece_bpe>(how_).eos();
  }
  /// `bos` and `eos` are arguments because a pipeline does not know which of its tokens they are.
  explicit tokenizer(token_pipeline parts, std::optional<token_id> bos = {}, std::optional<token_id> eos = {})
      : how_(std::move(parts)), bos_(bos), eos_(eos) {}

  /// Returns one more than the largest id. Some ids below it may have no token.
  std::size_t size() const {
    return std::visit([](const auto& how) { return how.size(); }, how_);
  }
  std::optional<token_id> bos() const { return bos_; }
  std::optional<token_id> eos() const { return eos_; }
  std::optional<token_id> unknown() const {
    if (const auto* const parts = pipeline()) return std::visit([](const auto& model) { return unknown_of(model); }, parts->model);
    return std::get<sentencepiece_bpe>(how_).unknown();
  }
  bool byte_fallback() const {
    if (const auto* const parts = pipeline()) return std::visit([](const auto& model) { return falls_back(model); }, parts->model);
    return std::get<sentencepiece_bpe>(how_).model().byte_fallback;
  }
  /// Returns whether a text begins with BOS by default.
  bool adds_bos() const {
    if (const auto* const parts = pipeline()) return bos_ && std::ranges::find(parts->around.before, *bos_) != parts->around.before.end();
    return std::get<sentencepiece_bpe>(how_).adds_bos();
  }
  /// A description for people, such as "BPE, byte-level".
  std::string kind() const { return pipeline() ? pipeline()->kind : "SentencePiece BPE"; }

  /// Returns the token as its file spells it, or an empty string if the id has no token. Throws `error` unless id < size().
  std::string_view piece(token_id id) const {
    if (id >= size()) throw error("tokenizer", "token " + std::to_string(id), "an id below " + std::to_string(size()));
    if (const auto* const parts = pipeline()) return parts->piece(id).value_or("");
    return std::get<sentencepiece_bpe>(how_).piece(id).text;
  }

  /// Returns the text of one token for people: with plain spaces, and with U+FFFD for bytes that are not UTF-8.
  std::string label(token_id id) const {
    const std::string_view text = piece(id);
    if (kind().ends_with("byte-level")) return well_formed(from_byte_alphabet(text).value_or(std::string(text)));
    static const text_pattern space{std::string("\xe2\x96\x81")};  // U+2581 stands for a space in pieces
    return space.replaced(text, " ");
  }

  /// Returns whether the token is special (a control piece, BOS, ...). Decoded text leaves such tokens out by default.
  bool is_special(token_id id) const {
    if (const auto* const parts = pipeline()) return parts->is_special(id);
    return std::get<sentencepiece_bpe>(how_).piece(id).type == piece_type::control;
  }

  /// Returns the token ids of a text, with the tokens that the model puts around a text by default (mostly BOS).
  std::vector<token_id> encode(std::string_view text, special_tokens special = special_tokens::parsed) const {
    return encode(text, pipeline() || adds_bos(), special);
  }

  /// Returns the token ids of a text. `with_special`: whether to add the tokens that the model puts around a text. Any bytes are accepted:
  /// each byte that is not UTF-8 is read as U+FFFD. The time grows as n log n. Throws `error` if `with_special` is true and a SentencePiece
  /// model has no BOS token, or if the text has more than 2^30 bytes.
  std::vector<token_id> encode(std::string_view text, bool with_special, special_tokens special = special_tokens::parsed) const {
    const bool parses = special == special_tokens::parsed;
    const auto own_at = [&](text_range) { return parses; };
    const auto* const parts = pipeline();
    if (!parts) {
      const auto& how = std::get<sentencepiece_bpe>(how_);
      std::vector<token_id> ids = how.encode(
          text, [&](token_id id) { return how.is_special(id); }, own_at);
      if (!with_special) return ids;
      if (!bos_) throw error("tokenizer", "", "a model with a BOS token", "none");
      ids.insert(ids.begin(), *bos_);
      return ids;
    }
    check_size(text);
    const std::string sound = utf8_end(text) == text.size() ? std::string() : well_formed(text);
    if (!sound.empty()) text = sound;
    std::vector<token_id> ids = parses ? parts->encode(text)
                                       : parts->encode(
                                             text, [&](token_id id) { return is_special(id); }, own_at);
    if (!with_special) return ids;
    ids.insert(ids.begin(), parts->around.before.begin(), parts->around.before.end());
    ids.insert(ids.end(), parts->around.after.begin(), parts->around.after.end());
    return ids;
  }

  /// Returns the token ids of a rendered chat. Reserved tokens come only from trusted runs (text_run.hpp says which tokens are reserved).
  /// No token is put around the chat. `template_words`: texts of the template beyond those in the runs.
  std::vector<token_id> encode(std::span<const text_run> runs, std::string_view template_words = {}) const {
    std::string text;
    std::vector<text_range> trusted;
    for (const text_run& run : runs) {
      const std::string sound = well_formed(run.text);
      if (run.trusted) trusted.push_back({text.size(), text.size() + sound.size()});
      text += sound;
    }
    check_size(text);
    std::unordered_set<token_id> marks;
    add_marks(template_words, marks);
    for (const auto& [begin, end] : trusted) add_marks(std::string_view(text).substr(begin, end - begin), marks);
    const auto own_at = [&](text_range range) {
      const auto behind = std::ranges::upper_bound(trusted, range.begin, {}, &text_range::begin);
      return behind != trusted.begin() && range.end <= std::prev(behind)->end;
    };
    if (const auto* const parts = pipeline())
      return parts->encode(
          text, [&](token_id id) { return is_special(id) || marks.contains(id); }, own_at);
    const auto& how = std::get<sentencepiece_bpe>(how_);
    return how.encode(
        text, [&](token_id id) { return how.is_special(id) || marks.contains(id); }, own_at);
  }

  /// Returns the text of a sequence. `token_decoder` decodes one token at a time.
  std::string decode(std::span<const token_id> tokens, special_text special = special_text::left_out) const;

 private:
  friend class token_decoder;

  static constexpr std::size_t most_text = std::size_t{1} << 30;

  const token_pipeline* pipeline() const { return std::get_if<token_pipeline>(&how_); }

  static std::optional<token_id> unknown_of(const bpe& model) { return model.options().unknown; }
  static std::optional<token_id> unknown_of(const unigram& model) { return model.unknown(); }
  static bool falls_back(const bpe& model) { return model.options().byte_fallback; }
  static bool falls_back(const unigram& model) { return model.byte_fallback(); }

  static void check_size(std::string_view text) {
    if (text.size() > most_text)
      throw error("tokenizer", "text", "at most " + std::to_string(most_text) + " bytes", std::to_string(text.size()));
  }

  /// Adds to `marks` the ids of the added tokens whose text occurs in `text`. Leaves out special tokens and tokens of white space.
  void add_marks(std::string_view text, std::unordered_set<token_id>& marks) const {
    const auto add = [&](token_id id) { marks.insert(id); };
    if (const auto* const parts = pipeline())
      parts->added.each_mark(text, add);
    else
      std::get<sentencepiece_bpe>(how_).each_mark(text, add);
  }

  std::variant<sentencepiece_bpe, token_pipeline> how_;
  std::optional<token_id> bos_, eos_;
};

/// Decodes one token at a time. Push the prompt first and then call begin_answer(), so that the answer begins with the right spaces.
class token_decoder {
 public:
  /// The tokenizer must outlive this object.
  explicit token_decoder(const tokenizer& tokens, special_text special = special_text::left_out)
      : tokens_(&tokens), writes_special_(special == special_text::written), state_(state_of(tokens, writes_special_)) {}

  /// Returns the text that is final once this token is known. Text that may still change is held back. Bytes that cannot become UTF-8 are
  /// returned as U+FFFD.
  std::string push(token_id id) {
    if (auto* const state = std::get_if<sentencepiece_decoder>(&state_)) return state->push(id);
    const std::string_view piece = tokens_->piece(id);
    const token_pipeline& parts = *tokens_->pipeline();
    if (!parts.piece(id) || (!writes_special_ && parts.is_special(id))) return "";
    return std::get<piece_decoder>(state_).push(piece);
  }

  /// Call this after the prompt. It drops the held-back text, which belongs to the prompt, so that all later text is the answer's.
  void begin_answer() { flush(); }

  /// Returns the text that is held back. Call this at the end of the text.
  std::string flush() {
    return std::visit([](auto& state) { return state.flush(); }, state_);
  }

 private:
  using either = std::variant<sentencepiece_decoder, piece_decoder>;

  static either state_of(const tokenizer& tokens, bool writes_special) {
    if (const auto* const parts = tokens.pipeline()) return piece_decoder(parts->from_pieces);
    return sentencepiece_decoder(std::get<sentencepiece_bpe>(tokens.how_), writes_special);
  }

  const tokenizer* tokens_;
  bool writes_special_;
  either state_;
};

inline std::string tokenizer::decode(std::span<const token_id> tokens, special_text special) const {
  token_decoder decoder(*this, special);
  std::string text;
  for (const token_id id : tokens) text += decoder.push(id);
  return text + decoder.flush();
}

}  // namespace v0
}  // namespace lazyprune
