// SPDX-License-Identifier: MIT
#include "words/prompt_text.hpp"

#include <charconv>
#include <cstddef>

#include <unistd.h>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/read_to_end.hpp>
#include <lazyprune/files/utf8.hpp>

namespace lazyprune {
namespace program {
namespace {

/// Throws `error` if the text begins with a byte order mark of UTF-16, as Windows writes it, or has a NUL byte. Without the mark, UTF-16
/// still shows in English text, because every other byte is NUL.
void refuse_other_encodings(std::string_view text, const std::string& name) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    throw error(name, "", "a text in UTF-8; convert it with iconv", "UTF-16");
  if (const std::size_t nul = text.find('\0'); nul != text.npos)
    throw error(name, "byte " + std::to_string(nul), "a text in UTF-8", "a NUL byte, as in UTF-16 and binary files");
}

}  // namespace

std::string prompt_text(std::string bytes, const std::string& name) {
  refuse_other_encodings(bytes, name);
  bytes.erase(0, bytes.size() - without_utf8_mark(bytes).size());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != '\r' || i + 1 == bytes.size() || bytes[i + 1] != '\n') bytes[kept++] = bytes[i];
  bytes.resize(kept);
  if (bytes.ends_with('\n')) bytes.pop_back();
  if (bytes.empty()) throw error(name, "", "a text", "nothing");
  return bytes;
}

std::string read_prompt(const std::string& path) {
  if (path != "-") return prompt_text(read_to_end(path, most_streamed_bytes), path);
  return prompt_text(read_to_end(STDIN_FILENO, "stdin", most_streamed_bytes), "stdin");
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    constexpr std::string_view letters = "nrt\\\"'", characters = "\n\r\t\\\"'";
    const char letter = text[i + 1];
    if (const std::size_t known = letters.find(letter); known != letters.npos) {
      out += characters[known];
      ++i;
      continue;
    }
    unsigned byte = 0;
    const char* const digits = text.data() + i + 2;
    if (letter == 'x' && text.size() - i >= 4 && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      out += static_cast<char>(byte);
      i += 3;
    } else {
      out += '\\';
    }
  }
  return out;
}

}  // namespace program
}  // namespace lazyprune
