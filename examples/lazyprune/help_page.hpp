// SPDX-License-Identifier: MIT
// The pages of help, at most 100 columns wide. The options that a newcomer needs are in `common_group`; each other option is in the group
// of its topic. The short page describes only `common_group`, and `--help-all` describes all groups except `pruning_group`.
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
/// The page of a command only names the options of this group. `pruning_page` describes them.
inline constexpr const char* pruning_group = "Pruning";

enum class page_kind { common, all };

/// The page of a command, or of the program. The program's page of all options ends with the pages of its commands.
std::string help_page(const CLI::App& command, page_kind kind);

/// Returns the text of `lazyprune help pruning`: the options of the group `pruning_group`, and the policies and parts that they can name.
std::string pruning_page(const CLI::App& with_options, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
