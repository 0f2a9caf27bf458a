// SPDX-License-Identifier: MIT
#include "questions/prediction_log.hpp"

#include <algorithm>
#include <iostream>
#include <string_view>
#include <utility>

#include "questions/side_by_side.hpp"
#include "terminal/columns.hpp"
#include "terminal/progress.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/utf8.hpp>

namespace lazyprune {
namespace program {
namespace {

bool same_sample(const eval_prediction& prediction, const question& asked) {
  return prediction.id == asked.sample.id && prediction.answers == asked.sample.answers;
}

/// The most sequences that a job holds in memory at once.
constexpr std::size_t most_together = 8;

}  // namespace

prediction_log::prediction_log(const runner& run, const std::filesystem::path& path, bool resume) : run_(run), path_(path.string()) {
  if (path.empty()) return;
  file_.emplace(path, resume);
  if (file_->replaces())
    std::cerr << one_line(path_) << ": this file exists and will be replaced (--resume would continue it)" << std::endl;
}

prediction_log::places& prediction_log::places_of(const std::string& name) {
  return places_.try_emplace(name, run_.questions().size()).first->second;
}

const eval_prediction* prediction_log::find(std::size_t question, const std::string& name) const {
  const auto named = places_.find(name);
  if (named == places_.end() || !named->second[question]) return nullptr;
  return &done()[*named->second[question]];
}

void prediction_log::add(const ask& asked, eval_prediction prediction) {
  if (record_) record_->write();
  if (file_)
    file_->add(std::move(prediction));
  else
    kept_.push_back(std::move(prediction));
  places_of(asked.name)[asked.question] = done().size() - 1;
}

void prediction_log::commit(std::span<const ask> order) {
  if (!file_) return;
  if (record_) record_->write();
  std::vector<std::size_t> in_file;
  for (const ask& asked : order) in_file.push_back(places_.at(asked.name)[asked.question].value());
  file_->commit(in_file);
}

void prediction_log::refuse(std::size_t prediction, const mismatch& why) const {
  throw error(path_, "prediction " + std::to_string(prediction + 1), why.expected, why.found);
}

std::optional<prediction_log::mismatch> prediction_log::mismatch_of(const eval_prediction& earlier, const ask& asked) const {
  if (!same_sample(earlier, run_.questions()[asked.question])) return mismatch{"the prediction of a sample in -d", "one of another sample"};
  if (!earlier.cost) return mismatch{"a prediction that this program made", "one of another program"};
  if (earlier.cost->method != asked.name) return mismatch{asked.name, earlier.cost->method};
  const std::string model = well_formed(run_.model().path().string());
  if (earlier.cost->model != model) return mismatch{model, earlier.cost->model};
  const std::string &then = earlier.cost->asked, now = run_.how_asked(asked);
  if (then == now) return std::nullopt;
  return mismatch{now, then.empty() ? "no record of the flags: an earlier version made it" : then};
}

void prediction_log::check_times() const {
  for (std::size_t i = 0; i < done().size(); ++i)
    if (const eval_cost& cost = *done()[i].cost; cost.ttft_s)
      check_timed_alike(path_, "prediction " + std::to_string(i + 1), run_.timed_on(), cost.timed_on);
}

void prediction_log::take_up(std::span<const ask> asks) {
  if (done().size() > asks.size())
    throw error(path_, "", "at most the " + std::to_string(asks.size()) + " predictions of this run", std::to_string(done().size()));
  std::map<std::string_view, std::vector<const ask*>> named;
  for (const ask& asked : asks) named[asked.name].push_back(&asked);
  for (std::size_t i = 0; i < done().size(); ++i) {
    const eval_prediction& earlier = done()[i];
    const auto made = [&](const ask* asked) {
      return same_sample(earlier, run_.questions()[asked->question]) && !find(asked->question, asked->name) &&
             !mismatch_of(earlier, *asked);
    };
    const auto& alike = named[earlier.cost ? earlier.cost->method : ""];
    const auto found = std::ranges::find_if(alike, made);
    if (found == alike.end()) refuse(i, mismatch_of(earlier, asks[i]).value_or(mismatch{"each prediction once", "a second one"}));
    places_of((*found)->name)[(*found)->question] = i;
  }
}

void prediction_log::take_up(bool untimed, const std::function<eval_setting(const eval_prediction&, const std::string&)>& setting_of) {
  for (std::size_t i = 0; i < done().size(); ++i) {
    const eval_prediction& earlier = done()[i];
    ask asked{.question = 0, .setting = setting_of(earlier, "prediction " + std::to_string(i + 1)), .name = {}};
    asked.name = asked.setting.method;
    places& known = places_of(asked.name);
    std::optional<mismatch> why;
    bool found = false;
    for (asked.question = 0; asked.question < known.size() && !found; ++asked.question) {
      if (known[asked.question] || !same_sample(earlier, run_.questions()[asked.question])) continue;
      asked.timed = true;
      auto other = mismatch_of(earlier, asked);
      if (other && untimed) {
        asked.timed = false;
        other = mismatch_of(earlier, asked);
      }
      found = !other;
      if (found) known[asked.question] = i;
      if (!why) why = other;
    }
    if (found) continue;
    if (!why) why = {"a sample in -d that has no prediction yet", earlier.id.empty() ? "none" : "sample " + earlier.id};
    refuse(i, *why);
  }
}

void answer(runner& run, prediction_log& log, std::span<const ask> asks, std::size_t jobs, const std::string& what,
            const std::function<std::vector<eval_prediction>(std::span<const ask>)>& predict, const time_limit* until) {
  std::vector<const ask*> open;
  for (const ask& asked : asks)
    if (!log.find(asked.question, asked.name)) open.push_back(&asked);
  if (open.empty()) return;
  const std::size_t together = std::clamp<std::size_t>((open.size() + jobs - 1) / jobs, 1, most_together);
  std::vector<std::vector<ask>> groups;
  for (const ask* asked : open)
    if (!groups.empty() && groups.back().size() < together && run.together(groups.back().back(), *asked) &&
        (!until || groups.back().back().question == asked->question))
      groups.back().push_back(*asked);
    else
      groups.push_back({*asked});
  run.load(jobs);
  if (std::ranges::any_of(open, [&](const ask* asked) { return run.times(*asked); })) log.check_times();
  progress_bar bar(what);
  std::size_t done = asks.size() - open.size();
  bar.show(done, asks.size());
  const auto take = [&](std::size_t i, std::vector<eval_prediction>&& predictions) {
    for (std::size_t k = 0; k < predictions.size(); ++k) log.add(groups[i][k], std::move(predictions[k]));
    done += predictions.size();
    bar.show(done, asks.size());
  };
  const auto enough = [&](std::size_t i) {
    return until && until->over() && i > 0 && groups[i].front().question != groups[i - 1].front().question;
  };
  side_by_side(
      groups.size(), jobs, [&](std::size_t i) { return predict(groups[i]); }, take, enough);
}

}  // namespace program
}  // namespace lazyprune
