// SPDX-License-Identifier: MIT
#include <lazyprune/registry/shipped_policies.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace {

using namespace lazyprune;

const policy_registry shipped = shipped_policies();

/// The names in backticks in the second column of the first table in POLICIES.md, grouped by the first column.
struct named {
  std::set<std::string> scorers, schedules, selectors, stores;
};

named names_in_guide() {
  std::ifstream file(LAZYPRUNE_SOURCE_DIR "/examples/POLICIES.md");
  REQUIRE(file);
  named all;
  std::set<std::string>* decision = nullptr;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| **scorer**")) decision = &all.scorers;
    if (line.starts_with("| **schedule**")) decision = &all.schedules;
    if (line.starts_with("| **selector**")) decision = &all.selectors;
    if (line.starts_with("| **store**")) decision = &all.stores;
    if (!line.starts_with("| ")) decision = nullptr;
    if (!decision) continue;
    std::istringstream column(line.substr(line.find('|', 1) + 1));
    std::string cell;
    std::getline(column, cell, '|');
    for (std::size_t at = cell.find('`'); at != cell.npos; at = cell.find('`', at)) {
      const std::size_t end = cell.find('`', at + 1);
      decision->insert(cell.substr(at + 1, end - at - 1));
      at = end + 1;
    }
  }
  return all;
}

/// The presets in the first column of the second table, in its order.
std::string presets_in_guide() {
  std::ifstream file(LAZYPRUNE_SOURCE_DIR "/examples/POLICIES.md");
  std::string all, line;
  while (std::getline(file, line) && !line.starts_with("| preset |")) {
  }
  std::getline(file, line);
  while (std::getline(file, line) && line.starts_with("| `")) all.append(line, 3, line.find('`', 3) - 3).append(" ");
  return all;
}

std::string list(const std::set<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all.append(all.empty() ? "" : ", ").append(name);
  return all;
}

std::string names(auto&& kind, std::initializer_list<const char*> others) {
  std::set<std::string> all(others.begin(), others.end());
  for (const auto& entry : kind.entries()) all.emplace(entry.name);
  return list(all);
}

}  // namespace

TEST_CASE("the table in POLICIES.md has every part that ships, and no other names") {
  const named guide = names_in_guide();
  CHECK(list(guide.scorers) == names(shipped.scorers(), {}));
  // The registry lists none of these four: `stages` has a flag of its own, and the others wrap schedules.
  CHECK(list(guide.schedules) == names(shipped.schedules(), {"stages", "prompt_only", "prompt_sets", "by_phase", "at_least"}));
  CHECK(list(guide.selectors) == names(shipped.selectors(), {"protect"}));
  CHECK(list(guide.stores) == names(shipped.stores(), {}));
}

TEST_CASE("the table in POLICIES.md has every preset, in the order of the registry") {
  std::string all;
  for (const policy_preset& preset : shipped.presets()) all.append(preset.name).append(" ");
  CHECK(presets_in_guide() == all);
}

TEST_CASE("the help lists the shipped presets and parts in a fixed order") {
  CHECK(shipped.preset_help().starts_with(
      "lazyllm: prunes the prompt and every step, and pruned tokens can come back; lazyllm_blocks: lazyllm in blocks of 32 tokens; "
      "static: prunes only the prompt, and pruned tokens are lost; "
      "random: static, but drops random tokens before the first layer; "
      "streaming: sees the first 4 tokens and the latest ones, 1,024 in all (budget:after=0,tokens=1024); "
      "fastv: static, keeps half of the tokens after 2 layers; "
      "pyramid_drop: static, keeps half of the remaining tokens after each quarter of the layers; "
      "tova: keeps 512 tokens after half of the layers, only during generation; "
      "pyramid_kv: static, keeps fewer tokens at each layer, down to a tenth; "
      "prompt_distill: keeps 1,024 tokens of the prompt after two fifths of the layers; dense: prunes nothing"));
  CHECK(shipped.schedules().help().starts_with(
      "every:n=,share= linear:from=,share= cosine:from=,share= budget:after=,tokens=|cost= adaptive:from=,every=,mass=,least="));
  CHECK(shipped.scorers().help().starts_with(
      "last_query_attention:over=mean|max accumulated_attention:over=sum|max,since=sequence|step "
      "window_attention:window=,kernel=,pool=max|mean prompt_window_attention:window=,kernel=,pool=max|mean "
      "value_weighted_attention:norm=l2|l1 key_norm recency random:seed= given_scores:scores= "
      "calibrated_attention:window=,block=,probes=,following="));
  CHECK(shipped.selectors().help().starts_with("top_k top_p:mass= threshold:score= blocks:size="));
  CHECK(shipped.stores().help().starts_with("keep_all bounded:rows= none:for_good=false|true"));
}
