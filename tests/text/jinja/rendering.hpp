// SPDX-License-Identifier: MIT
// Helpers of the template tests. They render a template with variables, and return a text, runs, or an error as one line.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include <lazyprune/text/chat_template.hpp>

#include "files/support.hpp"

namespace lazyprune_test {

inline std::tm july() { return lazyprune::jinja::template_time("1721984703"); }  // 2024-07-26 09:05:03

inline lazyprune::rendered_chat render(std::string_view source, std::string_view variables = "{}") {
  const lazyprune::jinja::value all = lazyprune::jinja::read_json(variables, "variables", 1 << 20);
  lazyprune::chat_request request;
  for (const auto& [name, item] : all.dict()->entries) request.set(name.text()->bytes(), item);
  request.set_own("bos_token", "<s>");
  return lazyprune::chat_template(std::string(source), "t").render(request, july);
}

/// Returns the rendered text, or the error as one line.
inline fault rendered(std::string_view source, std::string_view variables = "{}") {
  fault shown;
  const fault said = error_of([&] { shown.assign(render(source, variables).text()); });
  return said == "no error" ? shown : said;
}

/// Returns the rendered text with the user's runs in braces: "<|user|>{Hi}".
inline std::string runs(std::string_view source, std::string_view variables = "{}") {
  const lazyprune::rendered_chat chat = render(source, variables);
  std::string shown;
  for (const lazyprune::text_run& run : chat.runs()) shown += run.trusted ? std::string(run.text) : '{' + std::string(run.text) + '}';
  return shown;
}

}  // namespace lazyprune_test
