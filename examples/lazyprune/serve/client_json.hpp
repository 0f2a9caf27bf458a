// SPDX-License-Identifier: MIT
// Reads JSON from strangers, within bounds.
#pragma once

#include <cstddef>
#include <string_view>

#include <nlohmann/json.hpp>

namespace lazyprune {
namespace program {

inline constexpr std::size_t most_keys = 1024;  // of one object, because ordered objects are searched key by key

/// Parses a JSON text. The keys of objects keep their order. Throws `error` that names the byte or the key if the text is not strict JSON,
/// has more than 64 levels, or has an object with more than `most_keys` keys or with a key twice.
nlohmann::ordered_json read_client_json(std::string_view text);

}  // namespace program
}  // namespace lazyprune
