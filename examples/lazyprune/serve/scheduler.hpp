// SPDX-License-Identifier: MIT
// Answers the requests of many clients in one batch: a thread of its own runs step after step, and requests enter and leave between steps.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/engine.hpp"

#include <lazyprune/core/types.hpp>
#include <lazyprune/model/generation.hpp>
#include <lazyprune/session/any_session.hpp>

namespace lazyprune {
namespace program {

/// Thrown to `scheduled_answer::failed` if an answer takes longer than it may.
struct deadline_passed final : std::runtime_error {
  deadline_passed() : std::runtime_error("the answer took longer than --deadline allows; ask for fewer tokens, or try later") {}
};

/// An answer to generate. The scheduler's thread calls its functions and the callbacks of its options.
struct scheduled_answer {
  any_session session;
  std::vector<token_id> prompt;
  generation_options options;
  std::size_t bytes;                               // the most memory of its keys and values
  std::function<void(const ended_answer&)> ended;  // called once, unless `failed` is
  std::function<void(std::exception_ptr)> failed;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::optional<continued_conversation> conversation{};  // set if the answer goes on in the sequence of the conversation
  bool alternative = false;  // whether its prompt and policy are those of the answer before it in `add`, so that they share the reading
};

struct scheduler_limits {
  std::size_t waiting = 64;         // most answers that wait for others to end
  std::size_t together = 16;        // most answers in a step
  std::size_t bytes = 0;            // most memory of all sequences together
  std::size_t cache_bytes = 0;      // most memory of kept beginnings (answer_batch)
  std::size_t prompt_tokens = 512;  // most prompt tokens in a step
  double longest_step = 2.5;        // a step that also reads prompts takes at most about this many times as long as one that does not
};

/// The counts of a scheduler's work.
struct scheduler_counts {
  std::size_t steps = 0, ended = 0, failed = 0, cancelled = 0, refused = 0;
  std::size_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;  // of ended answers; cached ones are among the prompt tokens
  std::size_t rows = 0, dense_rows = 0;                                    // of ended answers: rows computed, and rows of the dense model
  std::size_t running = 0, waiting = 0, bytes = 0, cache_bytes = 0;        // now
};

class scheduler {
 public:
  using ticket = std::size_t;

  /// The engine must outlive the scheduler.
  scheduler(lazyprune::program::engine& engine, scheduler_limits limits);
  /// See `end`.
  ~scheduler();
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  /// Ends the thread after its current step. Answers that have not ended fail. A second call does nothing.
  void end();

  /// See answer_batch::load_cache. Call it before the first `add`.
  bool load_cache(const std::filesystem::path& file, std::string_view identity);
  /// See answer_batch::save_cache. Call it after `end`.
  void save_cache(const std::filesystem::path& file, std::string_view identity);

  /// Adds all these answers or none. They start in this order. Returns their tickets, or nullopt if too many answers would wait. Throws
  /// `error` if one of them alone needs more memory than there is (no_memory), if they are more than may run and wait together (bad_input),
  /// or after `end` (wrong_order).
  std::optional<std::vector<ticket>> add(std::vector<scheduled_answer> answers);
  /// Ends an answer after the current step. This step may still call its functions; later steps do not.
  void cancel(ticket which);

  scheduler_counts counts() const;

 private:
  struct waiting_answer {
    ticket number;
    scheduled_answer what;
  };
  struct running_answer {
    running_answer(ticket n, scheduled_answer w) : number(n), what(std::move(w)) {}
    ticket number;
    scheduled_answer what;
    bool cancelled = false, late = false;
  };

  void work();
  std::list<waiting_answer> admit();
  std::list<waiting_answer> take_late();
  std::size_t add_to_batch(running_answer& next);
  void start(waiting_answer& next);
  void step();
  void fail_all(std::exception_ptr fault);
  std::size_t prompt_tokens() const;

  lazyprune::program::engine& engine_;
  scheduler_limits limits_;
  std::unique_ptr<answer_batch> batch_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::list<waiting_answer> waiting_;  // moved by splicing, which needs no memory: no answer is lost without being told
  std::vector<ticket> to_cancel_;
  scheduler_counts counts_;
  ticket next_ = 0;
  bool ends_ = false;

  // The thread alone uses these.
  std::map<std::size_t, running_answer> running_;  // by the batch's numbers
  double decode_seconds_ = 0, token_seconds_ = 0;  // of a step without prompts, and of each prompt token in a step
  std::thread thread_;
};

}  // namespace program
}  // namespace lazyprune
