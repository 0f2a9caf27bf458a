// SPDX-License-Identifier: MIT
// Reads the text of a prompt and removes what editors and shells add to it.
#pragma once

#include <string>
#include <string_view>

namespace lazyprune {
namespace program {

/// Returns the text of a file, or of stdin if the path is "-". Drops a UTF-8 byte order mark at the beginning and one line break at the
/// end, and turns each CRLF into LF. Throws `error` if the file cannot be read, is empty, is in UTF-16 or has NUL bytes.
std::string read_prompt(const std::string& path);

/// The same for bytes that were already read; errors call them `name`.
std::string prompt_text(std::string bytes, const std::string& name);

/// Replaces \n, \t, \r, \\, \", \' and \xHH with the characters that they stand for, as llama.cpp's -e does. Other backslashes stay.
std::string unescaped(std::string_view text);

}  // namespace program
}  // namespace lazyprune
