// SPDX-License-Identifier: MIT
#include "serve/scheduler.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <utility>

#include <lazyprune/core/error.hpp>

namespace lazyprune {
namespace program {
namespace {

/// Tells an answer that it failed. A callback that throws is the fault of its own answer.
void tell_failed(const scheduled_answer& answer, const std::exception_ptr& fault) noexcept {
  try {
    answer.failed(fault);
  } catch (...) {
  }
}

/// Tells an answer its end. If that fails, perhaps for lack of memory, tells it so.
void tell_ended(const scheduled_answer& answer, const ended_answer& how) noexcept {
  try {
    answer.ended(how);
  } catch (...) {
    tell_failed(answer, std::current_exception());
  }
}

}  // namespace

scheduler::scheduler(lazyprune::program::engine& engine, scheduler_limits limits)
    : engine_(engine), limits_(limits), batch_(engine.begin_batch(limits.cache_bytes)), thread_([this] { work(); }) {}

scheduler::~scheduler() { end(); }

bool scheduler::load_cache(const std::filesystem::path& file, std::string_view identity) {
  const bool loaded = batch_->load_cache(file, identity);
  const std::lock_guard lock(mutex_);
  counts_.cache_bytes = batch_->cache_bytes();
  return loaded;
}

void scheduler::save_cache(const std::filesystem::path& file, std::string_view identity) { batch_->save_cache(file, identity); }

void scheduler::end() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::optional<std::vector<scheduler::ticket>> scheduler::add(std::vector<scheduled_answer> answers) {
  const std::lock_guard lock(mutex_);
  if (ends_) throw error("server", "", "a request before the server ends", "one after it", error_code::wrong_order);
  for (const scheduled_answer& each : answers)
    if (each.bytes > limits_.bytes) {
      ++counts_.refused;
      throw error("request", "", "an answer whose keys and values take at most " + std::to_string(limits_.bytes) + " bytes",
                  std::to_string(each.bytes), error_code::no_memory);
    }
  if (answers.size() > limits_.waiting + limits_.together)
    throw error("request", "n", "at most " + std::to_string(limits_.waiting + limits_.together) + ", because no more can run and wait",
                std::to_string(answers.size()));
  const std::size_t start_at_once = limits_.together - std::min(limits_.together, counts_.running);
  if (waiting_.size() + answers.size() > limits_.waiting + start_at_once) {
    ++counts_.refused;
    return std::nullopt;
  }
  std::vector<ticket> tickets;
  std::list<waiting_answer> added;
  for (scheduled_answer& each : answers) {
    tickets.push_back(next_ + tickets.size());
    added.push_back({tickets.back(), std::move(each)});
  }
  next_ += tickets.size();
  waiting_.splice(waiting_.end(), added);
  counts_.waiting = waiting_.size();
  wake_.notify_all();
  return tickets;
}

void scheduler::cancel(ticket which) {
  const std::lock_guard lock(mutex_);
  to_cancel_.push_back(which);
  wake_.notify_all();
}

scheduler_counts scheduler::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void scheduler::work() {
  for (;;) {
    std::list<waiting_answer> admitted, late;
    try {
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return ends_ || !waiting_.empty() || !running_.empty(); });
        if (ends_) break;
        late = take_late();
        admitted = admit();
      }
      for (; !late.empty(); late.pop_front()) tell_failed(late.front().what, std::make_exception_ptr(deadline_passed()));
      for (; !admitted.empty(); admitted.pop_front()) start(admitted.front());
      if (!running_.empty()) step();
    } catch (...) {  // no memory, for example for the batch's own lists
      fail_all(std::current_exception());
      batch_.reset();
      const std::lock_guard lock(mutex_);
      counts_.cache_bytes = 0;
    }
    while (!batch_) {
      try {
        batch_ = engine_.begin_batch(limits_.cache_bytes);
      } catch (const std::bad_alloc&) {
        std::this_thread::sleep_for(std::chrono::seconds(1));  // others may give memory back
      }
    }
  }
  const auto ending =
      std::make_exception_ptr(error("server", "", "a request before the server ends", "one that it cannot answer any more"));
  fail_all(ending);
  std::list<waiting_answer> unanswered;
  {
    const std::lock_guard lock(mutex_);
    unanswered.swap(waiting_);
    counts_.waiting = 0;
  }
  for (const waiting_answer& each : unanswered) tell_failed(each.what, ending);
}

void scheduler::fail_all(std::exception_ptr fault) {
  const auto all = std::exchange(running_, {});
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, each] : all) {
      counts_.bytes -= each.what.bytes;
      if (!each.cancelled) ++counts_.failed;
    }
    counts_.running = 0;
  }
  for (const auto& [number, each] : all)
    if (!each.cancelled) tell_failed(each.what, fault);
}

/// Takes the answers that have waited too long, and stops those that have run too long.
std::list<scheduler::waiting_answer> scheduler::take_late() {
  const auto now = std::chrono::steady_clock::now();
  for (auto& [number, each] : running_)
    if (each.what.deadline < now && !std::exchange(each.late, true)) batch_->stop(number);
  std::list<waiting_answer> late;
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto each = next++;
    if (each->what.deadline < now) late.splice(late.end(), waiting_, each);
  }
  counts_.failed += late.size();
  return late;
}

/// Takes the answers that can start now, in their order, and drops those that were cancelled.
std::list<scheduler::waiting_answer> scheduler::admit() {
  for (const ticket which : std::exchange(to_cancel_, {})) {
    counts_.cancelled += std::erase_if(waiting_, [&](const waiting_answer& w) { return w.number == which; });
    for (auto& [number, each] : running_)
      if (each.number == which && !std::exchange(each.cancelled, true)) {
        batch_->stop(number);
        ++counts_.cancelled;
      }
  }
  std::list<waiting_answer> admitted;
  while (!waiting_.empty() && running_.size() + admitted.size() < limits_.together &&
         counts_.bytes + waiting_.front().what.bytes <= limits_.bytes) {
    counts_.bytes += waiting_.front().what.bytes;
    admitted.splice(admitted.end(), waiting_, waiting_.begin());
  }
  counts_.waiting = waiting_.size();
  counts_.running = running_.size() + admitted.size();
  return admitted;
}

/// An alternative that starts at once shares the reading of its prompt with the answer before it, whose ticket is one less.
std::size_t scheduler::add_to_batch(running_answer& next) {
  scheduled_answer& what = next.what;
  if (what.conversation) return batch_->add(std::move(what.session), what.prompt, what.options, *what.conversation);
  if (what.alternative)
    for (const auto& [number, answer] : running_)
      if (answer.number + 1 == next.number) return batch_->add_alternative(number, std::move(what.session), what.prompt, what.options);
  return batch_->add(std::move(what.session), what.prompt, what.options);
}

void scheduler::start(waiting_answer& next) {
  std::map<std::size_t, running_answer> made;  // before the batch has the answer, because an allocation may fail
  try {
    made.try_emplace(0, next.number, std::move(next.what));
    const std::size_t number = add_to_batch(made.at(0));
    auto running = made.extract(0);
    running.key() = number;
    running_.insert(std::move(running));
  } catch (...) {
    const scheduled_answer& what = made.empty() ? next.what : made.at(0).what;
    {
      const std::lock_guard lock(mutex_);
      counts_.bytes -= what.bytes;
      counts_.running = running_.size();
      ++counts_.failed;
    }
    tell_failed(what, std::current_exception());
  }
}

/// The number of prompt tokens that the next step should read at most.
std::size_t scheduler::prompt_tokens() const {
  if (batch_->generating() == 0) return limits_.prompt_tokens;  // nobody waits for a next token
  constexpr std::size_t least = 16, untimed = 64;
  if (token_seconds_ <= 0 || decode_seconds_ <= 0) return std::min(untimed, limits_.prompt_tokens);
  const double fits = (limits_.longest_step - 1) * decode_seconds_ / token_seconds_;
  if (fits >= static_cast<double>(limits_.prompt_tokens)) return limits_.prompt_tokens;
  return std::max(least, static_cast<std::size_t>(fits));
}

void scheduler::step() {
  const std::size_t unread = batch_->unread(), generating = batch_->generating();
  const auto start = std::chrono::steady_clock::now();
  std::vector<ended_answer> ended = batch_->step(prompt_tokens());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::size_t read = unread - std::min(unread, batch_->unread());
  // Steps with the last piece of a prompt also compute the layers that the chunks left out, so their times do not show how long a token
  // takes.
  if (unread == 0) {
    if (generating > 0) decode_seconds_ = seconds;  // a step may also only end answers that were stopped
  } else if (read > 0 && ended.empty() && batch_->generating() == generating && (generating == 0 || decode_seconds_ > 0)) {
    token_seconds_ = std::max(seconds - (generating > 0 ? decode_seconds_ : 0), 0.0) / static_cast<double>(read);
  }

  std::vector<running_answer> done;
  done.reserve(ended.size());  // this may fail, but the lines below do not
  {
    const std::lock_guard lock(mutex_);  // the counts change before a client hears of its answer
    for (ended_answer& each : ended) {
      const running_answer& answer = done.emplace_back(std::move(running_.extract(each.number).mapped()));
      counts_.bytes -= answer.what.bytes;
      if (answer.cancelled) continue;
      if (answer.late && each.result.reason == finish_reason::stop && !each.fault) each.fault = std::make_exception_ptr(deadline_passed());
      ++(each.fault ? counts_.failed : counts_.ended);
      counts_.prompt_tokens += answer.what.prompt.size();
      counts_.cached_tokens += each.cached_tokens;
      counts_.generated_tokens += each.result.tokens.size();
      counts_.rows += each.result.cost.rows;
      counts_.dense_rows += each.result.cost.dense_rows;
    }
    ++counts_.steps;
    counts_.cache_bytes = batch_->cache_bytes();
    counts_.running = running_.size();
  }
  for (std::size_t i = 0; i < done.size(); ++i) {
    if (done[i].cancelled) continue;
    if (ended[i].fault)
      tell_failed(done[i].what, ended[i].fault);
    else
      tell_ended(done[i].what, ended[i]);
  }
}

}  // namespace program
}  // namespace lazyprune
