// SPDX-License-Identifier: MIT
// Writes the results of a sweep or a search into a folder.
#pragma once

#include <string>
#include <string_view>

namespace lazyprune {
namespace program {

/// Makes the folder if it does not exist. Throws `error` if that fails.
void make_directory(const std::string& directory);

std::string file_in(const std::string& directory, std::string_view name);

/// Writes a file with this text. The file never exists half written. Throws `error` as output_file does.
void write_whole(const std::string& file, std::string_view text);

/// Removes a file if it exists. Throws `error` if that fails.
void remove_file(const std::string& file);

}  // namespace program
}  // namespace lazyprune
