// SPDX-License-Identifier: MIT
#include "questions/run_record.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "commands/flags.hpp"
#include "engine/engine.hpp"
#include "questions/known_tasks.hpp"
#include "questions/results.hpp"
#include "questions/text_digest.hpp"
#include "questions/text_questions.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/json_lines.hpp>
#include <lazyprune/files/read_to_end.hpp>

namespace lazyprune {
namespace program {
namespace {

constexpr std::uint64_t record_version = 1;

nlohmann::ordered_json to_object(const recorded_setting& setting) {
  nlohmann::ordered_json object{{"method", setting.method}};
  if (setting.budget) object["budget"] = *setting.budget;
  object["policy"] = setting.policy;
  if (setting.single) object["single"] = {{"after", setting.single->after}, {"share", double{setting.single->share}}};
  object["repeats"] = setting.repeats;
  return object;
}

/// Bytes that are not UTF-8 become U+FFFD.
std::string text_of(const recorded_setting& setting) {
  return to_object(setting).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

recorded_setting read_setting(const json_value& object, std::size_t layers) {
  recorded_setting setting{.method = object.at("method").string()};
  if (const auto budget = object.find("budget")) setting.budget = budget->number();
  setting.policy = object.at("policy").string();
  if (const auto single = object.find("single")) {
    const json_value share = single->at("share");
    if (!fraction::holds(share.number())) share.refuse(fraction::expected());
    setting.single = stage{static_cast<layer_id>(single->at("after").whole_number(1, layers - 1)), share.number()};
  }
  setting.repeats = object.at("repeats").whole_number(1, 1u << 20);
  return setting;
}

nlohmann::ordered_json to_object(const recorded_sample& sample) {
  nlohmann::ordered_json asks = nlohmann::ordered_json::array();
  for (const std::uint64_t ask : sample.asks) asks.push_back(hex_text(ask));
  return {{"task", sample.task},    {"file", sample.file},   {"number", sample.number},
          {"id", sample.id},        {"asked", sample.asked}, {"digest", hex_text(sample.digest)},
          {"asks", std::move(asks)}};
}

recorded_sample read_sample(const json_value& object) {
  recorded_sample sample{.task = object.at("task").string(),
                         .file = object.at("file").string(),
                         .number = object.at("number").whole_number(),
                         .id = object.at("id").string(),
                         .asked = object.at("asked").string(),
                         .digest = read_hex(object.at("digest"))};
  object.at("asks").each_item([&](const json_value& ask) { sample.asks.push_back(read_hex(ask)); });
  return sample;
}

/// Reads the settings. Those with a single stage come last, and only a sweep has them, or repeats.
void read_settings(const json_value& list, run_record& record) {
  list.each_item([&](const json_value& object) {
    const recorded_setting setting = read_setting(object, record.layers);
    const bool is_single = setting.single.has_value();
    if (record.command != "sweep" && (is_single || setting.repeats > 1)) object.refuse("a setting of " + record.command);
    if (is_single ? record.settings.empty() : !record.settings.empty() && record.settings.back().single)
      object.refuse("the settings with a single stage after the others");
    record.settings.push_back(setting);
  });
  if (record.settings.empty() || (record.command == "eval" && record.settings.size() > 1))
    list.refuse(record.command == "eval" ? "one setting" : "at least one setting");
}

}  // namespace

std::string recorded_sample::name() const {
  const std::string text = task.empty() ? file : "sample " + std::to_string(number) + " of " + file;
  return id.empty() || task.empty() ? text : text + " (" + id + ')';
}

std::vector<std::string> run_record::tasks() const {
  std::vector<std::string> names;
  for (const recorded_sample& sample : samples)
    if (std::ranges::find(names, sample.task) == names.end()) names.push_back(sample.task);
  return names;
}

std::size_t run_record::asks_of_all() const {
  std::size_t asks = 0;
  for (const recorded_setting& setting : settings)
    if (!setting.single) asks += setting.repeats;
  return asks;
}

std::size_t run_record::first_ask(std::size_t setting) const {
  std::size_t first = 0;
  for (std::size_t s = 0; s < setting; ++s) first += settings[s].repeats;
  return first;
}

std::vector<run_place> run_record::in_order() const {
  std::vector<std::size_t> order(samples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t q) { return samples[q].number; });
  const std::size_t of_all = asks_of_all();
  std::vector<run_place> places;
  for (const std::size_t q : order) {
    const auto add = [&](std::size_t first, std::size_t n) {
      for (std::size_t k = 0; k < n; ++k) places.push_back({q, first + (k + q) % n});
    };
    add(0, of_all);
    add(of_all, samples[q].asks.size() - of_all);
  }
  return places;
}

std::string json_of(const run_record& record) {
  nlohmann::ordered_json object{{"version", record_version}, {"command", record.command}, {"part", record.part.text()},
                                {"model", record.model},     {"name", record.name},       {"fingerprint", record.fingerprint},
                                {"layers", record.layers}};
  object["settings"] = nlohmann::ordered_json::array();
  for (const recorded_setting& setting : record.settings) object["settings"].push_back(to_object(setting));
  object["samples"] = nlohmann::ordered_json::array();
  for (const recorded_sample& sample : record.samples) object["samples"].push_back(to_object(sample));
  return object.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

record_file::record_file(const std::string& directory, std::string_view answers, const run_record& record)
    : path_(file_in(directory, record_file_name)), text_(json_of(record)) {
  struct stat status {};
  if (::stat(file_in(directory, answers).c_str(), &status) != 0) write();
}

void record_file::write() {
  if (written_) return;
  write_whole(path_, text_);
  written_ = true;
}

run_record parse_run_record(std::string_view text, const std::string& file) {
  const json_value object = json_value::parse(text, file, longest_json_line);
  object.at("version").whole_number(record_version, record_version);
  run_record record{.command = object.at("command").string(), .model = object.at("model").string()};
  constexpr std::array commands{"eval", "sweep", "fidelity"};
  if (std::ranges::find(commands, record.command) == commands.end()) object.at("command").refuse("eval, sweep or fidelity");
  const auto part = object.at("part");
  record.part = run_part::parse(part.string(), file, part.place());
  record.name = object.at("name").string();
  record.fingerprint = object.at("fingerprint").string();
  record.layers = object.at("layers").whole_number(1, 1u << 20);
  read_settings(object.at("settings"), record);
  const std::size_t of_all = record.asks_of_all(), most = record.first_ask(record.settings.size());
  object.at("samples").each_item([&](const json_value& sample) {
    record.samples.push_back(read_sample(sample));
    const std::size_t asks = record.samples.back().asks.size();
    if (asks != of_all && asks != most) sample.at("asks").refuse(std::to_string(of_all) + " hashes, one for each setting and repeat");
  });
  return record;
}

run_record read_run_record(const std::string& directory) {
  const std::string file = file_in(directory, record_file_name);
  return parse_run_record(read_to_end(file, longest_json_line), file);
}

void check_same_run(const run_record& record, const std::string& directory, const run_record& first, const std::string& first_directory) {
  const auto compare = [&](const std::string& place, const std::string& expected, const std::string& found) {
    if (expected != found)
      throw error(file_in(directory, record_file_name), place, "\"" + expected + "\" as in " + first_directory, '"' + found + '"');
  };
  const auto compare_sizes = [&](const std::string& place, std::size_t expected, std::size_t found) {
    compare("the number of " + place, std::to_string(expected), std::to_string(found));
  };
  compare("command", first.command, record.command);
  compare("model", first.model, record.model);
  compare("fingerprint", first.fingerprint, record.fingerprint);
  for (std::size_t s = 0; s < std::min(first.settings.size(), record.settings.size()); ++s)
    compare("setting " + std::to_string(s + 1), text_of(first.settings[s]), text_of(record.settings[s]));
  compare_sizes("settings", first.settings.size(), record.settings.size());
  for (std::size_t q = 0; q < std::min(first.samples.size(), record.samples.size()); ++q) {
    const recorded_sample &expected = first.samples[q], &found = record.samples[q];
    const auto which = [](const recorded_sample& sample) {  // the file may have another path on another machine
      return "number " + std::to_string(sample.number) + (sample.id.empty() ? "" : ", " + sample.id) + " of task " + sample.task;
    };
    compare("sample " + std::to_string(q + 1), which(expected), which(found));
    compare(found.name(), expected.asked, found.asked);
    compare(found.name() + ": its hash", hex_text(expected.digest), hex_text(found.digest));
    compare_sizes("asks of " + found.name(), expected.asks.size(), found.asks.size());
    for (std::size_t a = 0; a < expected.asks.size(); ++a)
      compare(found.name() + ": ask " + std::to_string(a + 1), hex_text(expected.asks[a]), hex_text(found.asks[a]));
  }
  compare_sizes("samples", first.samples.size(), record.samples.size());
}

const eval_task& recorded_task(const std::string& name) {
  if (const eval_task* task = find_known_task(name)) return *task;
  if (const eval_task* task = find_text_task(name)) return *task;
  throw error(record_file_name, "task", "the name of a task", name);
}

std::uint64_t ask_digest(std::string_view model, std::string_view method, std::string_view asked, std::string_view id,
                         const std::vector<std::string>& answers, bool compared) {
  text_digest digest;
  digest.add(model).add(method).add(asked).add(id).add(compared ? "--compare" : "");
  for (const std::string& answer : answers) digest.add(answer);
  return digest.value();
}

std::string how_computed(const backend_flags& flags) {
  std::string text = " --backend " + flags.backend + " --dtype " + flags.dtype;
  if (flags.kv != "auto") text += " --kv " + flags.kv;
  if (flags.exact) text += " --exact";
  return text;
}

std::string how_timed(const backend_flags& flags, int threads) {
  if (std::string device = device_of(flags); !device.empty()) return device;
  return std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") + std::string(isa_of(flags));
}

void check_timed_alike(const std::string& file, const std::string& place, const std::string& now, const std::string& earlier) {
  if (earlier != now)
    throw error(file, place, "times measured with " + now + ", as this run would add",
                earlier.empty() ? "times of an earlier version, which did not record this" : earlier);
}

}  // namespace program
}  // namespace lazyprune
