// SPDX-License-Identifier: MIT
// The pruning that is recommended for a model: lazyprune.json in the model's folder, or a file that the user names. It has stages alone, or
// is the result of `lazyprune calibrate`: stages, and the probes that score tokens at them.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/mapped_file.hpp>
#include <lazyprune/policy/arguments.hpp>
#include <lazyprune/policy/scorer/calibrated_attention.hpp>

namespace lazyprune {
inline namespace v0 {

/// The probes of one model, and how they were found.
struct calibrated_heads {
  std::string model;  // a name, for readers
  std::size_t layers = 0;
  std::size_t heads = 0;                   // query heads of a layer
  std::string fingerprint;                 // of the model: model_fingerprint
  std::size_t window = 64;                 // evidence rows
  std::optional<std::size_t> keep_last{};  // last tokens that always go on; if not set, these are the evidence rows
  std::size_t block = 32;                  // tokens in a block
  std::optional<positive> following{};     // blocks that stay with the block before them
  std::vector<calibrated_probe> probes{};  // ascending layers
  std::string fitted_on;                   // what they were fitted on, for readers

  /// The number of last tokens that always go on.
  std::size_t kept_last() const { return keep_last.value_or(window); }

  /// The tokens from which on these heads prune. In a shorter text, the stages would have little room for tokens other than the last ones.
  std::size_t least_tokens() const { return 8 * kept_last(); }

  /// The text of the scorer that reads these probes, as in calibrated_attention.
  std::string scorer() const {
    return std::string(calibrated_attention::name) + ":window=" + std::to_string(window) + ",block=" + std::to_string(block) +
           ",probes=" + calibration(probes).text() + (following ? ",following=" + std::to_string(*following) : "");
  }

  friend bool operator==(const calibrated_heads&, const calibrated_heads&) = default;
};

struct pruning_file {
  static constexpr std::string_view name = "lazyprune.json";  // in a model's folder
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;

  std::string stages;  // in the syntax of stages::parse
  std::optional<calibrated_heads> heads{};

  /// Throws `error` if the file cannot be read, or is not a JSON object with the one key "stages" or with all keys of a calibration, of
  /// which "keep_last", "following" and the "counts_for" of a probe may be missing.
  static pruning_file read(const std::filesystem::path& path) {
    const mapped_file file(path, file_access::read, most_bytes);
    return parse(file.text(), file.name());
  }

  /// Reads the text of such a file. `file` names it in errors.
  static pruning_file parse(std::string_view text, const std::string& file) {
    const json_value all = json_value::parse(text, file, most_bytes);
    if (all.has("probes"))
      all.allow_only({"version", "model", "window", "keep_last", "block", "following", "stages", "probes", "fitted_on"});
    else
      all.allow_only({"stages"});
    pruning_file result{all.at("stages").string()};
    if (!all.has("probes")) return result;
    all.at("version").whole_number(1, 1);
    const json_value model = all.at("model");
    model.allow_only({"name", "layers", "heads", "fingerprint"});
    constexpr std::size_t most = std::size_t{1} << 20;
    calibrated_heads& heads = result.heads.emplace();
    heads.model = model.at("name").string();
    heads.layers = model.at("layers").whole_number(1, most);
    heads.heads = model.at("heads").whole_number(1, most);
    heads.fingerprint = model.at("fingerprint").string();
    heads.window = all.at("window").whole_number(1, most);
    if (all.has("keep_last")) heads.keep_last = all.at("keep_last").whole_number(0, most);
    heads.block = all.at("block").whole_number(1, most);
    if (all.has("following")) heads.following = all.at("following").whole_number(1, most);
    heads.fitted_on = all.at("fitted_on").string();
    all.at("probes").each_item([&](const json_value& probe) { heads.probes.push_back(probe_in(probe, heads)); });
    try {
      calibration sorted(heads.probes);
      heads.probes.assign(sorted.list().begin(), sorted.list().end());
    } catch (const error& fault) {
      throw error(file, fault);
    }
    return result;
  }

  /// The text of the file, which `read` reads back as the same pruning.
  std::string text() const {
    using json = nlohmann::ordered_json;
    if (!heads) return json{{"stages", stages}}.dump() + "\n";
    const calibrated_heads& h = *heads;
    json probes = json::array();
    for (const calibrated_probe& p : h.probes) {
      probes.push_back({{"after", p.after},
                        {"layer", p.layer},
                        {"head", p.head},
                        {"queries", query_reduction_names[static_cast<std::size_t>(p.queries)]},
                        {"block", block_pooling_names[static_cast<std::size_t>(p.block)]},
                        {"weight", number_in<double>(text_of_number(p.weight)).value()}});  // as few digits as read back as the same float
      if (p.counts_for != counted_block::own) probes.back()["counts_for"] = counted_block_names[static_cast<std::size_t>(p.counts_for)];
    }
    json all{{"version", 1},
             {"model", {{"name", h.model}, {"layers", h.layers}, {"heads", h.heads}, {"fingerprint", h.fingerprint}}},
             {"window", h.window}};
    if (h.keep_last) all["keep_last"] = *h.keep_last;
    all["block"] = h.block;
    if (h.following) all["following"] = std::size_t{*h.following};
    all["stages"] = stages;
    all["probes"] = std::move(probes);
    all["fitted_on"] = h.fitted_on;
    return all.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  }

  friend bool operator==(const pruning_file&, const pruning_file&) = default;

 private:
  template <class Choice, std::size_t Count>
  static Choice choice_in(const json_value& value, const std::array<std::string_view, Count>& names) {
    const std::string& text = value.string();
    for (std::size_t i = 0; i < Count; ++i)
      if (names[i] == text) return static_cast<Choice>(i);
    value.refuse(one_of_names(names));
  }

  static calibrated_probe probe_in(const json_value& probe, const calibrated_heads& heads) {
    probe.allow_only({"after", "layer", "head", "queries", "block", "weight", "counts_for"});
    return {static_cast<layer_id>(probe.at("after").whole_number(1, heads.layers - 1)),
            static_cast<layer_id>(probe.at("layer").whole_number(0, heads.layers - 1)),
            static_cast<std::uint32_t>(probe.at("head").whole_number(0, heads.heads - 1)),
            choice_in<query_reduction>(probe.at("queries"), query_reduction_names),
            choice_in<block_pooling>(probe.at("block"), block_pooling_names),
            static_cast<float>(probe.at("weight").number()),
            probe.has("counts_for") ? choice_in<counted_block>(probe.at("counts_for"), counted_block_names) : counted_block::own};
  }
};

}  // namespace v0
}  // namespace lazyprune
