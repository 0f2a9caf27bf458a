// SPDX-License-Identifier: MIT
// Continuous batching (Yu et al., "Orca", OSDI 2022): sequences generate together, and enter and leave between steps.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <lazyprune/model/generator.hpp>
#include <lazyprune/model/resumable_forward.hpp>

namespace lazyprune {
inline namespace v0 {

/// A sequence that has left a continuous_batch.
template <tensor_backend Backend>
struct ended_sequence {
  std::size_t number;  // what `add` returned
  generation result;
  sequence<Backend> seq;
  statistics shared;         // the part of the result's cost that another sequence in the batch has paid; see `add_alternative`
  std::exception_ptr fault;  // what ended the sequence, if its own step or one of its callbacks threw; otherwise null
};

/// Sequences that generate together. Each step is one batch: the next tokens of all sequences that have read their prompts, and pieces of
/// the prompts that wait, in the order in which they were added. The last piece of a prompt may also run all earlier tokens of the prompt
/// through the layers that its chunks left out. If these are more rows than a step may have, the last piece pauses between layers
/// (resumable_forward): each step first runs its batch, and then some layers of the last piece. Later prompts wait. Each sequence gets the
/// tokens that it would get alone (`generate`), if the backend gives a row the same bits in any batch. `generation_options::chunk` has no
/// effect, because `step` says how much of a prompt it reads. The workspace must outlive this object, and nothing else may use it in a
/// step. One thread at a time may call this object's functions, also `stop`.
template <tensor_backend Backend>
class continuous_batch {
 public:
  /// A step reads at least this many prompt tokens, because a shorter piece could change the result.
  static constexpr std::size_t least_prompt_tokens = detail::least_last_piece;

  struct batch_options {
    /// If a step could read the rest of a prompt, and the rest has at least twice this many tokens, the step leaves this many for the last
    /// piece. So `before_question` gets a sequence that has read nearly the whole prompt. 0: the step reads the rest.
    std::size_t question_tokens = 0;
    /// Called before the step with the last piece of a prompt, if pieces before it were read. A sequence without earlier turns has
    /// then read only chunks, so it can be forked under other policies (sequence::fork).
    std::function<void(const sequence<Backend>&)> before_question{};
  };

  explicit continuous_batch(workspace<Backend>& work, batch_options options = {}) : work_(work), options_(std::move(options)) {}

  /// Adds a sequence, which may have earlier turns, with its next prompt. Returns a number by which to name it. Throws what `generate`
  /// throws for this prompt and these options, and then adds nothing. `prefill_seconds` of the result count from this call.
  std::size_t add(sequence<Backend> seq, std::vector<token_id> prompt, generation_options options) {
    members_.emplace_back(work_, next_, std::move(seq), std::move(prompt), std::move(options));
    try {
      members_.back().enter(work_);
    } catch (...) {
      members_.pop_back();
      throw;
    }
    return next_++;
  }

  /// Like `add`, for another answer to the prompt of the sequence with this number. `seq` is like that sequence was when it was added. If
  /// that sequence has not read its prompt yet, this one waits for it, and then is a fork of it. Otherwise it reads the prompt itself. It
  /// also does so if that sequence leaves before, or has another rotary table, because their expected lengths differ (LongRoPE).
  std::size_t add_alternative(std::size_t number, sequence<Backend> seq, std::vector<token_id> prompt, generation_options options) {
    const std::size_t added = add(std::move(seq), std::move(prompt), std::move(options));
    const auto reader = std::ranges::find(members_, number, &member::number);
    if (reader != members_.end() && !reader->unread.empty() && !members_.back().unread.empty())
      members_.back().reader = reader->reader ? reader->reader : &*reader;
    return added;
  }

  /// Makes a sequence leave at the next `step`, which computes nothing more for it. Its result has the reason `stop`. Does nothing if the
  /// sequence has left, or has ended by itself. Callbacks may stop all sequences, also their own. If one is called for a token of its own
  /// sequence, this token is the last one.
  void stop(std::size_t number) {
    for (member& m : members_)
      if (m.number == number && m.stays()) m.leave();
  }

  bool empty() const { return members_.empty(); }
  std::size_t size() const { return members_.size(); }

  /// The number of prompt tokens that steps have still to read.
  std::size_t unread() const {
    std::size_t tokens = 0;
    for (const member& m : members_)
      if (m.reads()) tokens += m.unread.size();
    return tokens;
  }

  /// The number of sequences that have read their prompts, and generate a token in each step.
  std::size_t generating() const {
    return static_cast<std::size_t>(std::ranges::count_if(members_, [](const member& m) { return m.generates(); }));
  }

  /// Runs one step, which reads at most `prompt_tokens` tokens of prompts, and up to two more if they end a prompt. If a last piece is
  /// paused, the step runs its next layer, and more layers while these have at most about `prompt_tokens` rows times the number of the
  /// model's layers. `prompt_tokens` counts as `least_prompt_tokens` if it is less. Returns the sequences that have ended, and those that
  /// were stopped. If the step throws, it is abandoned, and each sequence then runs its part of the step alone. So a sequence whose step
  /// fails leaves with its fault, and the others go on. If a sequence cannot repeat its part with the same result, it leaves with the
  /// fault, too: abandoning the step lost tokens or dropped them for good, the scorer remembers the step, or the step was already done
  /// (step_observer::step_ends threw). An observer that stops a step ends all sequences of this step.
  std::vector<ended_sequence<Backend>> step(std::size_t prompt_tokens) {
    drop_stopped();
    prompt_tokens = std::max(prompt_tokens, least_prompt_tokens);
    const std::vector<part> parts = next_parts(prompt_tokens);
    in_one_team(work_.backend(), [&] {
      run(parts);
      drop_stopped();  // a callback may have stopped the paused sequence
      if (paused_) resume(prompt_tokens * work_.model().config.layers);
      drop_stopped();
    });
    std::vector<ended_sequence<Backend>> ended;
    for (auto m = members_.begin(); m != members_.end();) {
      if (m->stays()) {
        ++m;
        continue;
      }
      for (member& other : members_)
        if (other.reader == &*m) other.reader = nullptr;
      ended.push_back({m->number, m->run.result(), std::move(m->seq), std::move(m->shared), m->fault});
      m = members_.erase(m);
    }
    return ended;
  }

 private:
  using generation_run = detail::generating<Backend>;
  using clock = typename generation_run::clock;
  using scalars = typename generation_run::scalars;

  struct member {
    std::size_t number;
    sequence<Backend> seq;
    std::vector<token_id> prompt;
    generation_options options;
    generation_run run;
    std::optional<step_observers> in_prompt{};
    std::span<const token_id> unread{};  // the end of the prompt; empty after the prompt was read
    typename clock::time_point added = clock::now();
    std::size_t before;        // the tokens of earlier turns
    member* reader = nullptr;  // the sequence that reads this one's prompt
    statistics shared{};       // of ended_sequence
    std::exception_ptr fault{};

    member(workspace<Backend>& work, std::size_t n, sequence<Backend> s, std::vector<token_id> p, generation_options o)
        : number(n), seq(std::move(s)), prompt(std::move(p)), options(std::move(o)), run(work, seq, options), before(seq.known()) {}

    void enter(workspace<Backend>& work) {
      run.check(prompt);
      run.expect(seq);
      run.make_room(prompt);
      work.reserve(seq.rope(), run.most());
      in_prompt.emplace(run.watching_prompt());
      if (run.goes_on()) unread = prompt;
    }

    void leave() {
      unread = {};
      run.stop();
    }

    /// Leaves because an observer has stopped the step.
    void leave_stopped_step() {
      unread = {};
      run.take({}, {});
    }

    void fail() {
      fault = std::current_exception();
      leave();
    }

    bool stays() const { return run.goes_on(); }
    bool generates() const { return stays() && unread.empty(); }
    bool reads() const { return stays() && !unread.empty() && !reader; }
  };

  /// One sequence's part of a step.
  struct part {
    member* whose;
    sequence_step<Backend> step;
    std::size_t known;  // tokens of the sequence before the step
    std::size_t lost;   // tokens that no later step can compute further, or that are dropped for good, before the step
    std::size_t rows;   // rows that the session planned before the step

    /// Returns whether the sequence can run the abandoned step again, with the same result: the step was not done, no tokens were lost or
    /// dropped for good, and the scorer remembers nothing of the step.
    bool repeatable() const {
      const any_session& session = whose->seq.session();
      return whose->seq.known() == known && lost_in(session) == lost && !(session.remembers() && session.stats().rows > rows);
    }
  };
  static part part_of(member& m, const sequence_step<Backend>& step) {
    const any_session& session = m.seq.session();
    return {&m, step, m.seq.known(), lost_in(session), session.stats().rows};
  }
  static std::size_t lost_in(const any_session& session) { return session.tokens().lost_count() + session.tokens().gone_count(); }

  /// The last piece of a prompt that pauses between layers.
  struct paused_piece {
    member* whose;
    resumable_forward<Backend> pass;
    paused_piece(member* m, workspace<Backend>& work, const sequence_step<Backend>& step) : whose(m), pass(work, step) {}
  };

  /// Returns the parts of the next step's batch. Begins a last piece that is to pause between layers.
  std::vector<part> next_parts(std::size_t prompt_tokens) {
    std::vector<part> parts;
    const std::size_t most_rows = prompt_tokens;
    if (paused_) prompt_tokens = 0;
    for (member& m : members_) {
      if (m.generates()) {
        parts.push_back(part_of(m, m.run.next()));
      } else if (m.reads()) {
        if (prompt_tokens < least_prompt_tokens) continue;  // this prompt waits for those before it
        const std::size_t count = piece_of(m.unread.size(), prompt_tokens);
        const bool last = count == m.unread.size();
        if (last && m.seq.known() > m.before && options_.before_question) options_.before_question(m.seq);
        if (!m.reads()) continue;  // the callback has stopped it
        const sequence_step<Backend> step{m.seq, m.unread.first(count), phase::prefill, last ? 1u : 0u, &*m.in_prompt};
        if (last && m.seq.known() + count >= most_rows + least_prompt_tokens && runs_earlier_rows(m.seq)) {
          begin_paused(m, step);
          prompt_tokens = 0;
          continue;
        }
        prompt_tokens -= std::min(count, prompt_tokens);
        parts.push_back(part_of(m, step));
      }
    }
    std::erase_if(parts, [](const part& p) { return !p.whose->stays(); });  // before_question has stopped these
    return parts;
  }

  /// Returns whether a step with outputs may also run rows of earlier tokens. The chunks left them out, or they are revived.
  bool runs_earlier_rows(const sequence<Backend>& seq) const {
    return seq.session().chunk_layers(phase::prefill) < work_.model().config.layers;
  }

  /// Chooses the first token of a sequence that has read its prompt, and of those that have waited for it.
  void begin_after_prompt(member& m, scalars logits) {
    for (member& other : members_) {
      if (other.reader != &m) continue;
      other.reader = nullptr;
      if (!other.stays() || other.seq.rope() != m.seq.rope()) continue;
      try {
        const statistics own = other.seq.session().stats();
        other.seq = m.seq.fork();
        other.shared = m.seq.session().stats() - own;
        other.unread = {};
        other.run.begin_after({logits, clock::now() - other.added});
      } catch (...) {
        other.fail();
      }
    }
    if (m.stays()) m.run.begin_after({logits, clock::now() - m.added});  // a callback of the others may have stopped it
  }

  /// Abandons the paused piece if its sequence was stopped.
  void drop_stopped() {
    if (paused_ && !paused_->whose->stays()) paused_.reset();
  }

  void begin_paused(member& m, const sequence_step<Backend>& step) {
    try {
      paused_.emplace(&m, work_, step);
    } catch (...) {
      m.fail();
    }
  }

  /// Runs the next layers of the paused piece, about `most_rows` rows.
  void resume(std::size_t most_rows) {
    member& m = *paused_->whose;
    try {
      if (!paused_->pass.resume(most_rows)) return;
      const bool stopped = paused_->pass.stopped();
      paused_.reset();
      if (!m.stays()) return;
      if (stopped) return m.leave_stopped_step();
      m.unread = {};
      begin_after_prompt(m, read_logits(work_, 0, 1));
    } catch (...) {
      paused_.reset();
      m.fail();
    }
  }

  /// Returns how many of a prompt's `unread` tokens the step reads.
  std::size_t piece_of(std::size_t unread, std::size_t most) const {
    const std::size_t question = options_.question_tokens;
    const std::size_t count = detail::piece_of(unread, most);
    return question > 0 && count == unread && unread >= 2 * question ? unread - question : count;
  }

  void run(std::span<const part> parts) {
    if (parts.empty()) return;
    const auto start = clock::now();
    std::vector<sequence_step<Backend>> steps;
    std::size_t outputs = 0;
    for (const part& p : parts) {
      steps.push_back(p.step);
      outputs += p.step.outputs;
    }
    scalars logits;
    try {
      if (!forward(work_, steps)) {
        for (const part& p : parts) p.whose->leave_stopped_step();
        return;
      }
      if (outputs > 0) logits = read_logits(work_, 0, outputs);
    } catch (...) {
      const bool alone = parts.size() == 1;
      for (const part& p : parts) {
        if (!alone && p.repeatable())
          run(std::span(&p, 1));
        else
          p.whose->fail();
      }
      return;
    }
    std::vector<member*> generating;
    std::vector<generation_run*> runs;
    std::vector<scalars> to_choose_from;
    for (const part& p : parts) {
      const scalars own = logits.first(p.step.outputs * work_.model().config.vocabulary);
      logits = logits.subspan(own.size());
      member& m = *p.whose;
      if (!m.stays()) continue;  // a callback has stopped it
      if (m.unread.empty()) {
        generating.push_back(&m);
        runs.push_back(&m.run);
        to_choose_from.push_back(own);
        continue;
      }
      m.unread = m.unread.subspan(p.step.tokens.size());
      guarded(m, [&] {
        if (m.unread.empty()) begin_after_prompt(m, own);
      });
    }
    const std::vector<std::exception_ptr> faults = detail::choose_together<Backend>(work_, runs, to_choose_from);
    for (std::size_t i = 0; i < runs.size(); ++i)
      guarded(*generating[i], [&] {
        if (faults[i]) std::rethrow_exception(faults[i]);
        if (generating[i]->stays()) runs[i]->take(to_choose_from[i], clock::now() - start);
      });
  }

  /// Calls work(). If it throws, the sequence leaves with this fault.
  template <class Work>
  static void guarded(member& m, const Work& work) {
    try {
      work();
    } catch (...) {
      m.fail();
    }
  }

  workspace<Backend>& work_;
  batch_options options_;
  std::list<member> members_;             // a list, because observers point into a member
  std::optional<paused_piece> paused_{};  // after members_, so that it is destroyed before them
  std::size_t next_ = 0;
};

}  // namespace v0
}  // namespace lazyprune
