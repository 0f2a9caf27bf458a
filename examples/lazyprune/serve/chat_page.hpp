// SPDX-License-Identifier: MIT
// The page of `lazyprune serve`: a conversation about a document, with times, rates and a picture of the kept tokens.
#pragma once

#include <string>

namespace lazyprune {
namespace program {

/// Writes the page. It asks the server that it came from, so it needs page_scripts::inline_with_requests.
std::string chat_page();

}  // namespace program
}  // namespace lazyprune
