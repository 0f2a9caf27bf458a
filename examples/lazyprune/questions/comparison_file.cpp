// SPDX-License-Identifier: MIT
#include "questions/comparison_file.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include "questions/text_digest.hpp"

#include <lazyprune/files/json_lines.hpp>

namespace lazyprune {
namespace program {

recorded_comparison recorded_comparison::read(const json_value& object) {
  recorded_comparison comparison{read_hex(object.at("ask")), {}, {}};
  text_fidelity& value = comparison.value;
  value.text = object.at("text").string();
  value.prompt_tokens = object.at("prompt_tokens").whole_number();
  if (const auto parted = object.find("parted_at")) value.parted_at = parted->whole_number();
  value.rows = object.at("rows").number();
  value.ttft_s = object.at("ttft_s").number();
  value.dense_ttft_s = object.at("dense_ttft_s").number();
  if (const auto timed_on = object.find("timed_on")) comparison.timed_on = timed_on->string();
  object.at("steps").each_item([&](const json_value& step) {
    const std::vector<json_value> numbers = step.items();
    if (numbers.size() != 4) step.refuse("4 numbers: agrees, kl, dense_loss, loss");
    value.steps.push_back({numbers[0].whole_number(0, 1) == 1, numbers[1].number(), numbers[2].number(), numbers[3].number()});
  });
  if (value.steps.empty()) object.at("steps").refuse("at least one step");
  return comparison;
}

bool recorded_comparison::same_but_times(const recorded_comparison& other) const {
  text_fidelity theirs = other.value;
  theirs.text = value.text;
  theirs.ttft_s = value.ttft_s;
  theirs.dense_ttft_s = value.dense_ttft_s;
  return ask == other.ask && value == theirs;
}

std::string recorded_comparison::line() const {
  nlohmann::ordered_json out{{"ask", hex_text(ask)}, {"text", value.text}, {"prompt_tokens", value.prompt_tokens}};
  if (value.parted_at) out["parted_at"] = *value.parted_at;
  out["rows"] = value.rows;
  out["ttft_s"] = value.ttft_s;
  out["dense_ttft_s"] = value.dense_ttft_s;
  if (!timed_on.empty()) out["timed_on"] = timed_on;
  for (const step_fidelity& step : value.steps) out["steps"].push_back({step.agrees ? 1 : 0, step.kl, step.dense_loss, step.loss});
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

comparison_file::comparison_file(const std::filesystem::path& path, bool resume)
    : file_(path, resume, [this](const std::filesystem::path& earlier) {
        line_reader lines(earlier, longest_json_line);
        done_ = read_json_lines<recorded_comparison>(lines, recorded_comparison::read);
      }) {}

void comparison_file::add(recorded_comparison comparison) {
  file_.add(comparison.line());
  done_.push_back(std::move(comparison));
}

}  // namespace program
}  // namespace lazyprune
