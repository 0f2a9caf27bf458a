// SPDX-License-Identifier: MIT
#include "pages/html.hpp"

#include <algorithm>
#include <cstddef>

#include "pages/page_style.hpp"

#include <lazyprune/files/utf8.hpp>

namespace lazyprune {
namespace program {
namespace {

constexpr std::string_view page_frame = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="@{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>@{title}</title>
<style>@{style}</style>
</head>
<body>
@{body}</body>
</html>
)html";

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_prefix(text);
    const char c = text[0];
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    if (length == 0 || control)
      out += "\xef\xbf\xbd";
    else if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else
      out.append(text.substr(0, length));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string fill_in(std::string_view layout, std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  std::string out;
  for (std::size_t mark; (mark = layout.find("@{")) != layout.npos;) {
    const std::size_t end = layout.find('}', mark);
    const std::string_view name = layout.substr(mark + 2, end - mark - 2);
    out.append(layout.substr(0, mark))
        .append(std::ranges::find(values, name, &std::pair<std::string_view, std::string_view>::first)->second);
    layout.remove_prefix(end + 1);
  }
  return out.append(layout);
}

std::string facts_list(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string html;
  for (const auto& [label, value] : facts)
    if (!value.empty()) html += "<div><dt>" + html_text(label) + "</dt><dd>" + html_text(value) + "</dd></div>\n";
  return html;
}

std::string content_policy(page_scripts scripts) {
  std::string policy = "default-src 'none'; style-src 'unsafe-inline'";
  if (scripts != page_scripts::none) policy += "; script-src 'unsafe-inline'";
  if (scripts == page_scripts::inline_with_requests) policy += "; connect-src 'self'";
  return policy;
}

std::string html_page(std::string_view title, std::string_view style, std::string_view body, page_scripts scripts) {
  return fill_in(page_frame,
                 {{"policy", content_policy(scripts)}, {"title", title}, {"style", std::string(page_style).append(style)}, {"body", body}});
}

}  // namespace program
}  // namespace lazyprune
