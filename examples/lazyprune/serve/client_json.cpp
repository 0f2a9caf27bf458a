// SPDX-License-Identifier: MIT
#include "serve/client_json.hpp"

#include <string>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/c_locale.hpp>
#include <lazyprune/files/json.hpp>

namespace lazyprune {
namespace program {
namespace {

void check_keys(const nlohmann::json& value) {
  if (value.is_object() && value.size() > most_keys)
    throw error("request", "", "objects of at most " + std::to_string(most_keys) + " keys", std::to_string(value.size()));
  if (value.is_structured())
    for (const nlohmann::json& inside : value) check_keys(inside);
}

}  // namespace

nlohmann::ordered_json read_client_json(std::string_view text) {
  // An ordered object takes quadratic time, and much of the library recurses, so this checks the text with another reader first.
  lazyprune::detail::json_builder builder("request", "");
  lazyprune::detail::parse_strictly(text, builder, "request");
  check_keys(builder.take().root);
  const lazyprune::detail::c_locale numbers;
  return nlohmann::ordered_json::parse(text);
}

}  // namespace program
}  // namespace lazyprune
