// SPDX-License-Identifier: MIT
// The folder that a sweep's or a search's results go to.
#pragma once

#include <string>
#include <string_view>

namespace lazyprune {
namespace program {

/// Makes the folder where it is not there. Throws `error` where it cannot.
void make_directory(const std::string& directory);

std::string file_in(const std::string& directory, std::string_view name);

/// A file with this text, which is whole wherever it exists. Throws `error` as output_file does.
void write_whole(const std::string& file, std::string_view text);

}  // namespace program
}  // namespace lazyprune
