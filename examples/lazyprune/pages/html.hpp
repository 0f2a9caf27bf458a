// SPDX-License-Identifier: MIT
// Helpers for the HTML pages: escaped text, and layouts with placeholders.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lazyprune {
namespace program {

/// Escapes text for an HTML element or a quoted attribute. Markup becomes character references. Control characters and bytes that are not
/// UTF-8 become U+FFFD.
std::string html_text(std::string_view text);

/// Replaces each placeholder "@{name}" with its value. Placeholders inside values are not replaced.
std::string fill_in(std::string_view layout, std::initializer_list<std::pair<std::string_view, std::string_view>> values);

/// Writes labels and values for a <dl class="facts">. Pairs with an empty value are left out.
std::string facts_list(const std::vector<std::pair<std::string, std::string>>& facts);

/// The scripts that a browser may run in a page: none, the page's inline scripts, or inline scripts that may send requests to the page's
/// own server.
enum class page_scripts : std::uint8_t { none, inline_ones, inline_with_requests };

/// Returns the content security policy of a page with these scripts. It also allows inline styles, and forbids everything else.
std::string content_policy(page_scripts scripts);

/// Writes a whole page. `title` and `body` are HTML. `style` is the page's own CSS; it is put after the common style.
std::string html_page(std::string_view title, std::string_view style, std::string_view body, page_scripts scripts = page_scripts::none);

}  // namespace program
}  // namespace lazyprune
