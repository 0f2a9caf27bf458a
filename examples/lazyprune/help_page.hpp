// SPDX-License-Identifier: MIT
// The pages of help, at most 100 columns wide. An option stands in the group where it belongs, and those that a newcomer needs stand in
// `common_group`: the short page shows that group alone, and `--help-all` shows all groups.
#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

inline constexpr const char* common_group = "Options";
/// Pages of commands name the options of this group. `pruning_page` describes them.
inline constexpr const char* pruning_group = "Pruning";

enum class page_kind { common, all };

/// The page of a command, or of the program. The page of all the program's options ends with the pages of its commands.
std::string help_page(const CLI::App& command, page_kind kind);

/// What `lazyprune help pruning` prints: the options of the group `pruning_group`, and the policies and parts that they can name.
std::string pruning_page(const CLI::App& with_options, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
