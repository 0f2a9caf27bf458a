// SPDX-License-Identifier: MIT
// What the HTML pages are put together with: escaped text, layouts with places to fill.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lazyprune {
namespace program {

/// Text that cannot leave its place in HTML, be it an element's or a quoted attribute's: markup as references, bytes that are not
/// UTF-8 and control characters as U+FFFD.
std::string html_text(std::string_view text);

/// The values in their places "@{name}". What is filled in is not looked at again.
std::string fill_in(std::string_view layout, std::initializer_list<std::pair<std::string_view, std::string_view>> values);

/// Labels and values for a <dl class="facts">; those without a value are left out.
std::string facts_list(const std::vector<std::pair<std::string, std::string>>& facts);

/// Which scripts a page's browser may run.
enum class page_scripts : std::uint8_t { none, inline_ones };

/// A whole page. `title` and `body` are HTML; `style` follows the one that all pages have.
std::string html_page(std::string_view title, std::string_view style, std::string_view body, page_scripts scripts = page_scripts::none);

}  // namespace program
}  // namespace lazyprune
