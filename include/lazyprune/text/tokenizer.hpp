// SPDX-License-Identifier: MIT
// Text to token ids and back, whatever file a model's vocabulary came in: SentencePiece's BPE (tokenizer.model), or the parts that a
// tokenizer.json names. Every member function that is const may be called by any number of threads at a time.
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

/// What a text makes where the text of a special token (a control piece, BOS and their like) stands in it: the token, as transformers and
/// llama.cpp read a raw prompt, or the tokens of its characters, as they read a document that must not control the model.
enum class special_tokens : std::uint8_t { parsed, spelled_out };

/// What becomes of special tokens (control pieces, BOS and their like) in decoded text.
enum class special_text : std::uint8_t { left_out, written };

class tokenizer {
 public:
  /// `adds_bos`: whether a text begins with BOS where the caller does not say.
  explicit tokenizer(sentencepiece_model model, bool adds_bos = true) : how_(sentencepiece_bpe(std::move(model), adds_bos)) {
    bos_ = std::get<sentencepiece_bpe>(how_).bos();
    eos_ = std::get<sentencepiece_bpe>(how_).eos();
  }
  /// A pipeline does not say which of its tokens are BOS and EOS.
  explicit tokenizer(token_pipeline parts, std::optional<token_id> bos = {}, std::optional<token_id> eos = {})
      : how_(std::move(parts)), bos_(bos), eos_(eos) {}

  /// One more than the largest id. There may be ids below that stand for nothing.
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
  /// Whether a text begins with BOS where the caller does not say.
  bool adds_bos() const {
    if (const auto* const parts = pipeline()) return bos_ && std::ranges::find(parts->around.before, *bos_) != parts->around.before.end();
    return std::get<sentencepiece_bpe>(how_).adds_bos();
  }
  /// For people: "BPE, byte-level".
  std::string kind() const { return pipeline() ? pipeline()->kind : "SentencePiece BPE"; }

  /// The token as its file has it; empty where the id stands for nothing. Throws `error` where it is not below size().
  std::string_view piece(token_id id) const {
    if (id >= size()) throw error("tokenizer", "token " + std::to_string(id), "an id below " + std::to_string(size()));
    if (const auto* const parts = pipeline()) return parts->piece(id).value_or("");
    return std::get<sentencepiece_bpe>(how_).piece(id).text;
  }

  /// The token by itself, for people: with its spaces, and U+FFFD for what is not UTF-8.
  std::string label(token_id id) const {
    const std::string_view text = piece(id);
    if (kind().ends_with("byte-level")) return well_formed(from_byte_alphabet(text).value_or(std::string(text)));
    static const text_pattern space{std::string("\xe2\x96\x81")};  // U+2581, which pieces have for a space
    return space.replaced(text, " ");
  }

  /// Whether the token's text is none that a user wrote: it is left out of decoded text.
  bool is_special(token_id id) const {
    if (const auto* const parts = pipeline()) return parts->is_special(id);
    return std::get<sentencepiece_bpe>(how_).piece(id).type == piece_type::control;
  }

  /// With the tokens that the model's own rule puts around a text: BOS, mostly.
  std::vector<token_id> encode(std::string_view text, special_tokens special = special_tokens::parsed) const {
    return encode(text, pipeline() || adds_bos(), special);
  }

  /// Takes any bytes: what is not UTF-8 is read as U+FFFD, byte by byte. Time grows as n log n. `with_special`: with the tokens around it.
  /// Throws `error` where BOS is asked for and there is none.
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

  /// A rendered chat. Its reserved tokens are made of trusted runs alone, and no token is put around it. See text_run for which are
  /// reserved; `template_words` are texts of the template beside those in the runs.
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

  /// The whole text of some tokens; see token_decoder for one at a time.
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

  /// Adds the tokens whose text stands in this one: added ones that are neither special nor white space.
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

/// Decodes token by token. Feed it the prompt first, then begin the answer: it has its spaces right.
class token_decoder {
 public:
  /// The tokenizer must outlive it.
  explicit token_decoder(const tokenizer& tokens, special_text special = special_text::left_out)
      : tokens_(&tokens), writes_special_(special == special_text::written), state_(state_of(tokens, writes_special_)) {}

  /// The text that is certain once this token is known; what may still change is held back. What can never be UTF-8 becomes U+FFFD.
  std::string push(token_id id) {
    if (auto* const state = std::get_if<sentencepiece_decoding>(&state_)) return state->push(id);
    const std::string_view piece = tokens_->piece(id);
    const token_pipeline& parts = *tokens_->pipeline();
    if (!parts.piece(id) || (!writes_special_ && parts.is_special(id))) return "";
    return std::get<decoding>(state_).push(piece);
  }

  /// After a prompt: what is held back is the prompt's, and all text from here on the answer's.
  void begin_answer() { finish(); }

  /// What is held back, at the end of the text.
  std::string finish() {
    return std::visit([](auto& state) { return state.finish(); }, state_);
  }

 private:
  using either = std::variant<sentencepiece_decoding, decoding>;

  static either state_of(const tokenizer& tokens, bool writes_special) {
    if (const auto* const parts = tokens.pipeline()) return decoding(parts->from_pieces);
    return sentencepiece_decoding(std::get<sentencepiece_bpe>(tokens.how_), writes_special);
  }

  const tokenizer* tokens_;
  bool writes_special_;
  either state_;
};

inline std::string tokenizer::decode(std::span<const token_id> tokens, special_text special) const {
  token_decoder decoder(*this, special);
  std::string text;
  for (const token_id id : tokens) text += decoder.push(id);
  return text + decoder.finish();
}

}  // namespace v0
}  // namespace lazyprune
