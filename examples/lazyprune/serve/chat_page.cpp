// SPDX-License-Identifier: MIT
#include "serve/chat_page.hpp"

#include "pages/html.hpp"
#include "serve/chat_page_template.hpp"

namespace lazyprune {
namespace program {

std::string chat_page() {
  return html_page("lazyprune", chat_page_style, fill_in(chat_page_body, {{"script", chat_page_script}}),
                   page_scripts::inline_with_requests);
}

}  // namespace program
}  // namespace lazyprune
