// SPDX-License-Identifier: MIT
// The text of a prompt, as editors and shells hand it over.
#pragma once

#include <string>
#include <string_view>

namespace lazyprune {
namespace program {

/// The text of a file, or of stdin where the path is "-". A UTF-8 mark at its beginning is dropped, each CRLF becomes LF, and one line
/// break at its end is dropped. Throws `error` where the file cannot be read, is empty, or is not UTF-8 text but UTF-16 or bytes.
std::string read_prompt(const std::string& path);

/// The same of bytes that were read; `name` is for errors.
std::string prompt_text(std::string bytes, const std::string& name);

/// Replaces \n, \t, \r, \\, \", \' and \xHH by the characters that they stand for, as llama.cpp's -e does. Other backslashes stay.
std::string unescaped(std::string_view text);

}  // namespace program
}  // namespace lazyprune
