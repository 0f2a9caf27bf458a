// SPDX-License-Identifier: MIT
// Generation: a prefill of the prompt, then decode steps.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <lazyprune/core/finite.hpp>
#include <lazyprune/model/generation.hpp>
#include <lazyprune/model/prompt_lookup.hpp>
#include <lazyprune/model/sampler.hpp>
#include <lazyprune/model/transformer.hpp>

namespace lazyprune {
inline namespace v0 {

/// Returns the share of (token, layer) pairs that have keys and values, over all layers and the `count` tokens from `first` on.
inline double share_computed(const frontier_table& tokens, std::size_t first, std::size_t count, layer_id layers) {
  std::size_t computed = 0;
  for (std::size_t t = first; t < std::min(first + count, tokens.known()); ++t) computed += tokens.frontier(static_cast<position>(t));
  return static_cast<double>(computed) / static_cast<double>(count * layers);
}

namespace detail {

/// Returns the greatest length that the sequence can reach. Throws if the prompt is empty, or if the prompt and `force` do not fit.
inline std::size_t most_tokens(std::size_t known, std::size_t prompt, std::size_t context, const generation_options& options) {
  const auto at_most = [](std::string_view what, std::size_t most, std::string_view note, std::size_t found) {
    throw error(what, "length", "at most " + std::to_string(most) + " tokens" + std::string(note), std::to_string(found),
                error_code::no_room);
  };
  if (prompt == 0) throw error("prompt", "tokens", "at least one", "none");
  const std::size_t asked = known + prompt;
  if (asked > context) at_most("prompt", context, known > 0 ? " with those before it" : "", asked);
  const std::size_t forced = options.force.size();
  if (forced > 1 && asked + forced - 1 > context) at_most("forced tokens", context, " with the prompt", asked + forced - 1);
  return asked + std::min(forced > 0 ? forced : options.max_new, context - asked);
}

/// Throws if drafts are asked for together with a trace, or if a step over several tokens could give another result than one step for each
/// token.
inline void check_speculation(const any_session& session, const generation_options& options) {
  if (options.speculate == 0) return;
  if (!session.may_speculate())
    throw error("generation", "speculate", "a policy that does nothing in decode steps (prompt_only makes one)",
                "a policy that may prune there, or whose scorer remembers earlier steps", error_code::unsupported);
  if (options.trace || options.trace_logits)
    throw error("generation", "speculate", "no trace, because wrong drafts are taken back", "a trace");
}

/// The last piece of a prompt has at least this many tokens, if the prompt has as many. With 1 or 2 rows, the cpu backend would split the
/// keys differently and add in another order.
inline constexpr std::size_t least_last_piece = 3;

/// Returns how many of the next `unread` tokens of a prompt to read. They are `most`, or all if the last piece would be too short.
constexpr std::size_t piece_of(std::size_t unread, std::size_t most) { return unread < most + least_last_piece ? unread : most; }

/// Reads a prompt in chunks, and leaves the last piece unread in `prompt`. Returns false if the observer stopped a chunk.
template <tensor_backend Backend>
bool read_pieces(workspace<Backend>& work, sequence<Backend>& seq, std::span<const token_id>& prompt, std::size_t chunk,
                 step_observer* observer) {
  for (; chunk > 0 && piece_of(prompt.size(), chunk) < prompt.size(); prompt = prompt.subspan(chunk)) {
    const sequence_step<Backend> step{seq, prompt.first(chunk), phase::prefill, 0, observer};
    if (!forward(work, step)) return false;
  }
  return true;
}

/// Calls `read`, which returns whether it read everything. If it returns false or throws, the sequence forgets the new tokens.
template <tensor_backend Backend, class Read>
bool read_whole(sequence<Backend>& seq, const Read& read) {
  const std::size_t before = seq.known();
  const auto take_back = [&] {
    if (seq.known() > before) seq.truncate(before);
  };
  try {
    if (read()) return true;
  } catch (...) {
    take_back();
    throw;
  }
  take_back();
  return false;
}

/// One generation in progress. Observers point into it, so it cannot be moved.
template <tensor_backend Backend>
class generating {
 public:
  using clock = std::chrono::steady_clock;
  using scalars = std::span<const typename Backend::scalar>;

  generating(lazyprune::workspace<Backend>& work, sequence<Backend>& seq, const generation_options& options)
      : work_(work), seq_(seq), options_(options), choose_(options.sampler), recorder_(options.trace_logits) {}
  generating(const generating&) = delete;
  generating& operator=(const generating&) = delete;

  /// Must be called once, before all other functions. Throws if the prompt or the tokens of `force` cannot be read. Also throws if the
  /// options ask for drafts that are not possible.
  void check(std::span<const token_id> prompt) {
    const model_config& config = work_.model().config;
    before_ = seq_.known();
    before_step_ = seq_.session().stats();
    prompt_tokens_ = prompt.size();
    context_ =
        std::min(options_.context > 0 ? std::min(options_.context, config.max_positions) : config.max_positions, seq_.session().limit());
    most_ = most_tokens(before_, prompt.size(), context_, options_);
    check_speculation(seq_.session(), options_);
    check_step(work_, sequence_step<Backend>{seq_, prompt, phase::prefill, 1, options_.observer});
    check_ids(config, options_.force);
    choose_.accept(seq_.tokens());
    choose_.accept(prompt);
  }

  /// Reads the prompt, after `check`, and chooses the first token.
  void begin(std::span<const token_id> prompt) {
    expect(seq_);
    make_room(prompt);
    if (!goes_on_) return;
    step_observers observers = watching_prompt();
    begin_after(read(prompt, observers));
  }

  /// The maximum number of tokens to generate.
  std::size_t wanted() const { return options_.force.empty() ? options_.max_new : options_.force.size(); }

  /// The greatest length that the sequence can reach.
  std::size_t most() const { return most_; }

  /// Tells a sequence its expected length. This has an effect only before its first token.
  void expect(sequence<Backend>& seq) const { seq.expect(std::max(options_.expected, options_.context > 0 ? context_ : most_)); }

  /// Makes room for the prompt and the tokens to generate.
  void make_room(std::span<const token_id> prompt) {
    if (options_.speculate > 0) {
      said_.assign(seq_.tokens().begin(), seq_.tokens().begin() + static_cast<std::ptrdiff_t>(before_));
      said_.insert(said_.end(), prompt.begin(), prompt.end());
    }
    seq_.make_room(most_);
    goes_on_ = wanted() > 0;
  }

  /// The observers of the steps that read the prompt.
  step_observers watching_prompt() { return {&memory_, &timer_, recorder(), options_.observer}; }

  /// The logits after the prompt, and the time to read it. The logits are empty if an observer stopped the prompt.
  struct prompt_read {
    scalars logits;
    clock::duration passed;
  };

  prompt_read read(std::span<const token_id> prompt, step_observer& observer) {
    const auto start = clock::now();
    work_.reserve(seq_.rope(), most_);
    const scalars logits = read_prompt(prompt, observer);
    return {logits, clock::now() - start};
  }

  /// Chooses the first token. This sequence has read the prompt, or is a fork of a sequence that has.
  void begin_after(const prompt_read& prompt) {
    const auto start = clock::now();
    if (!prompt.logits.empty()) choose(prompt.logits);
    take(prompt.logits, prompt.passed + (clock::now() - start));
  }

  /// Returns whether there are more tokens to generate.
  bool goes_on() const { return goes_on_; }

  /// Runs a decode step of this sequence alone.
  void step() {
    const auto start = clock::now();
    const scalars logits = read_next();
    if (!logits.empty()) choose(logits);
    take(logits, clock::now() - start);
  }

  /// Returns the next step, for a batch. The step reads the last token and drafts of the tokens after it. After running the batch, call
  /// `choose` and `take`.
  sequence_step<Backend> next() {
    before_step_ = seq_.session().stats();
    input_.assign(1, result_.tokens.back());
    if (const std::size_t room = std::min({wanted() - result_.tokens.size(), context_ - seq_.known(), options_.speculate}); room > 1) {
      const std::vector<token_id> draft = prompt_lookup(said_, room - 1);
      input_.insert(input_.end(), draft.begin(), draft.end());
    }
    return {seq_, input_, phase::decode, input_.size(), &in_decode_};
  }

  /// Chooses a token from each row of logits, up to the first token that differs from its draft. Does not change the sequence, so several
  /// threads may choose for different sequences at once.
  void choose(scalars logits) {
    const std::size_t outputs = outputs_of(logits), before = result_.tokens.size();
    chosen_.clear();
    do {
      const std::size_t step = before + chosen_.size();
      const scalars row = logits_of(logits, chosen_.size());
      check_finite(row, step);
      chosen_.push_back(options_.force.empty() ? choose_(row) : options_.force[step]);
      choose_.accept(std::span(&chosen_.back(), 1));
    } while (chosen_.size() < outputs && chosen_.back() == input_[chosen_.size()]);
  }

  /// Ends the generation. A callback of this generation may call it, too: the token for which the callback was called is the last one.
  void stop() {
    result_.reason = finish_reason::stop;
    goes_on_ = false;
  }

  /// Adds the chosen tokens of a step to the result, and forgets the drafts that differ. Empty `logits` mean that an observer stopped the
  /// step.
  void take(scalars logits, clock::duration passed) {
    if (logits.empty()) {
      was_stopped_ = true;
      return stop();
    }
    const bool prefill = result_.tokens.empty();
    (prefill ? result_.prefill_seconds : result_.decode_seconds) += std::chrono::duration<double>(passed).count();
    if (!prefill) ++result_.decode_steps;
    const std::size_t outputs = outputs_of(logits);
    result_.drafted += outputs - 1;
    truncate(seq_.known() - (outputs - chosen_.size()));
    if (!hand_out(logits) || seq_.known() >= context_ || result_.tokens.size() >= wanted()) goes_on_ = false;
  }

  /// Forgets the drafts of a step that was done, but whose tokens were not handed out because something failed.
  void forget_drafts() { truncate(before_ + prompt_tokens_ + result_.tokens.size()); }

  generation result() {
    forget_drafts();
    result_.cost = was_stopped_ ? before_step_ : seq_.session().stats();
    if (seq_.known() > before_)
      result_.share_prompt = share_computed(seq_.session().tokens(), before_, prompt_tokens_, seq_.session().layers());
    result_.memory = memory_.most();
    result_.memory.scratch += work_.bytes(most_);
    result_.sections = timer_.seconds();
    result_.trace = recorder_.take();
    return std::move(result_);
  }

 private:
  step_observer* recorder() { return options_.trace || options_.trace_logits ? &recorder_ : nullptr; }

  /// Reads the prompt and returns the logits after it. They are empty if an observer stopped the prompt.
  scalars read_prompt(std::span<const token_id> prompt, step_observer& observer) {
    scalars logits;
    read_whole(seq_, [&] {
      if (read_pieces(work_, seq_, prompt, options_.chunk, &observer)) logits = forward(work_, seq_, prompt, phase::prefill, &observer);
      return !logits.empty();
    });
    return logits;
  }

  /// Runs the next step and returns the logits after each of its tokens, (input_, vocabulary). They are empty if an observer stopped the
  /// step.
  scalars read_next() {
    const sequence_step<Backend> next_step = next();
    if (input_.size() == 1) return forward(work_, seq_, input_, phase::decode, &in_decode_);
    if (!forward(work_, next_step)) return {};
    return read_logits(work_, 0, input_.size());
  }

  /// Passes the chosen tokens to the result and the caller. If one of them ends the sequence or a callback throws, forgets those after it.
  /// Returns false if one ends the sequence.
  bool hand_out(scalars logits) {
    std::size_t i = 0;
    const auto forget_later_ones = [&] { truncate(seq_.known() - (chosen_.size() - 1 - i)); };
    bool ended = false;
    try {
      if (options_.on_step) options_.on_step(seq_.session());
      for (;; ++i) {
        const scalars row = logits_of(logits, i);
        if (options_.on_logits) options_.on_logits(std::vector<float>(row.begin(), row.end()));
        result_.tokens.push_back(chosen_[i]);
        if (i > 0) ++result_.accepted;
        if (options_.speculate > 0) said_.push_back(chosen_[i]);
        ended = ends(chosen_[i]) || !goes_on_;
        if (ended || i + 1 == chosen_.size()) break;
      }
    } catch (...) {
      forget_later_ones();
      throw;
    }
    if (ended) forget_later_ones();
    return !ended;
  }

  std::size_t outputs_of(scalars logits) const { return logits.size() / work_.model().config.vocabulary; }

  scalars logits_of(scalars logits, std::size_t row) const {
    const std::size_t vocabulary = work_.model().config.vocabulary;
    return logits.subspan(row * vocabulary, vocabulary);
  }

  void truncate(std::size_t known) {
    if (known < seq_.known()) seq_.truncate(known);
  }

  static void check_finite(scalars logits, std::size_t step) {
    if (all_finite(logits)) return;
    const auto wrong = std::ranges::find_if_not(logits, [](auto l) { return is_finite(l); });
    throw error("model", "step " + std::to_string(step) + ": logits", "finite numbers", std::to_string(*wrong));
  }

  /// Returns whether the new token ends the sequence. If so, notes the reason.
  bool ends(token_id next) {
    const auto is_in = [&](const std::vector<token_id>& eos) { return std::ranges::find(eos, next) != eos.end(); };
    if (options_.force.empty() && !options_.ignore_eos && (is_in(work_.model().config.eos) || is_in(options_.eos))) {
      result_.reason = finish_reason::eos;
      return true;
    }
    if (options_.on_token && !options_.on_token(next)) {
      result_.reason = finish_reason::stop;
      return true;
    }
    return false;
  }

  lazyprune::workspace<Backend>& work_;
  sequence<Backend>& seq_;
  const generation_options& options_;
  sampler choose_;
  memory_watch memory_;
  step_timer timer_;
  trace_recorder recorder_;
  step_observers in_decode_{&memory_, recorder(), options_.observer};
  std::size_t before_ = 0, prompt_tokens_ = 0, context_ = 0, most_ = 0;
  bool goes_on_ = false;
  bool was_stopped_ = false;      // an observer stopped the last step, which does not count
  statistics before_step_;        // of the sequence, before the prompt or the last decode step
  std::vector<token_id> said_;    // with speculate: all tokens up to the next one to read; drafts are looked up here
  std::vector<token_id> input_;   // tokens of the current decode step
  std::vector<token_id> chosen_;  // tokens that the last step chose
  generation result_;
};

/// Lets each sequence choose from its logits, on the threads of the backend. Returns for each sequence what its `choose` threw, or null.
template <tensor_backend Backend>
std::vector<std::exception_ptr> choose_together(const workspace<Backend>& work, std::span<generating<Backend>* const> seqs,
                                                std::span<const typename generating<Backend>::scalars> logits) {
  std::vector<std::exception_ptr> faults(seqs.size());
  in_parallel(work.backend(), seqs.size(), [&](std::size_t i) {
    try {
      seqs[i]->choose(logits[i]);
    } catch (...) {
      faults[i] = std::current_exception();
    }
  });
  return faults;
}

/// Runs one decode step of several sequences, as one batch.
template <tensor_backend Backend>
void step_together(workspace<Backend>& work, std::span<generating<Backend>* const> seqs) {
  using clock = typename generating<Backend>::clock;
  using scalars = typename generating<Backend>::scalars;
  const auto start = clock::now();
  std::vector<sequence_step<Backend>> batch;
  std::size_t outputs = 0;
  for (generating<Backend>* seq : seqs) {
    batch.push_back(seq->next());
    outputs += batch.back().outputs;
  }
  std::vector<scalars> logits(seqs.size());  // of each sequence; empty if an observer stopped the batch
  if (forward(work, batch)) {
    scalars rest = read_logits(work, 0, outputs);
    for (std::size_t i = 0; i < seqs.size(); ++i) {
      logits[i] = rest.first(batch[i].outputs * work.model().config.vocabulary);
      rest = rest.subspan(logits[i].size());
    }
    for (const std::exception_ptr& fault : choose_together<Backend>(work, seqs, logits))
      if (fault) std::rethrow_exception(fault);
  }
  const auto passed = clock::now() - start;
  for (std::size_t i = 0; i < seqs.size(); ++i) seqs[i]->take(logits[i], passed);
}

/// Continues sequences until all have ended. Each step is a batch of the sequences that have not ended.
template <tensor_backend Backend>
std::vector<generation> to_their_ends(workspace<Backend>& work, std::deque<generating<Backend>>& seqs) {
  std::vector<generating<Backend>*> open;
  for (generating<Backend>& seq : seqs) open.push_back(&seq);
  try {
    in_one_team(work.backend(), [&] {
      for (;;) {
        std::erase_if(open, [](const generating<Backend>* seq) { return !seq->goes_on(); });
        if (open.empty()) break;
        if (open.size() == 1)
          open.front()->step();
        else
          step_together<Backend>(work, open);
      }
    });
  } catch (...) {
    for (generating<Backend>& seq : seqs) seq.forget_drafts();
    throw;
  }
  std::vector<generation> results;
  for (generating<Backend>& seq : seqs) results.push_back(seq.result());
  return results;
}

}  // namespace detail

/// Reads the beginning of a prompt, in chunks of `chunk` tokens, or in one chunk if `chunk` is 0. Computes everything that does not depend
/// on the query to come. `generate` can then read the rest of the prompt, in this sequence or in forks of it. Returns false if the observer
/// stopped a chunk. Throws as `forward` does. When it returns false or throws, the sequence forgets all new tokens.
template <tensor_backend Backend>
[[nodiscard]] bool read_beginning(workspace<Backend>& work, sequence<Backend>& seq, std::span<const token_id> tokens, std::size_t chunk = 0,
                                  step_observer* observer = nullptr) {
  check_step(work, sequence_step<Backend>{seq, tokens, phase::prefill, 0, observer});
  return detail::read_whole(seq, [&] {
    return detail::read_pieces(work, seq, tokens, chunk, observer) &&
           forward(work, sequence_step<Backend>{seq, tokens, phase::prefill, 0, observer});
  });
}

/// One of several sequences to generate together. The objects that it refers to must stay valid until all sequences are done.
template <tensor_backend Backend>
struct generation_request {
  std::reference_wrapper<sequence<Backend>> seq;
  std::span<const token_id> prompt;
  std::reference_wrapper<const generation_options> options;
};

/// Continues several sequences, which may differ in length, policy and options. `generate` reads the prompts one after another. After that,
/// each decode step is a batch, which reads the weights once for all sequences. Each sequence gets the tokens that it would get alone, if
/// the backend gives a row the same bits in any batch. Four things are different from generating each sequence alone. `decode_seconds` is
/// the time of the batches that the sequence was in. The scratch memory is that of all sequences together. In a batch, an observer gets
/// logits only if its `wants_logits` is true. An observer that stops a decode step ends all sequences of the batch.
/// Throws `error` if a sequence is given twice. Also throws as the other `generate` does. All requests are checked before any prompt is
/// read.
template <tensor_backend Backend>
std::vector<generation> generate(workspace<Backend>& work, std::type_identity_t<std::span<const generation_request<Backend>>> requests) {
  using generating = detail::generating<Backend>;
  std::deque<generating> seqs;
  for (const generation_request<Backend>& r : requests) seqs.emplace_back(work, r.seq, r.options);
  std::set<const sequence<Backend>*> different;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    sequence<Backend>& seq = requests[i].seq;
    if (!different.insert(&seq).second)
      throw error("sequences", "number " + std::to_string(i), "each sequence once",
                  "a sequence of " + std::to_string(seq.known()) + " tokens twice");
    seqs[i].check(requests[i].prompt);
  }
  for (std::size_t i = 0; i < requests.size(); ++i) seqs[i].begin(requests[i].prompt);
  return detail::to_their_ends(work, seqs);
}

/// Continues a new sequence, or one with earlier turns. Reads the prompt, then generates token by token. The last generated token is chosen
/// but not read, so the prompt of the next turn must begin with it. With `speculate`, a step reads drafts (prompt_lookup) after the last
/// token, and then takes wrong drafts back. The tokens and the sequence are the same as without drafts, if the backend gives a row the same
/// bits in any step.
/// Throws `error` if the prompt is empty, does not fit into the context or the session's limit, or has an id outside the vocabulary. The
/// tokens of `force` must fit and be in the vocabulary, too. Throws `error` if the logits are not finite. With `speculate`, throws `error`
/// if the policy could prune in decode steps, if its scorer remembers earlier steps, or if a trace is wanted.
template <tensor_backend Backend>
generation generate(workspace<Backend>& work, sequence<Backend>& seq, std::span<const token_id> prompt, const generation_options& options) {
  const generation_request<Backend> request{seq, prompt, options};
  return std::move(generate(work, std::span(&request, 1)).front());
}

/// Generates several continuations of one prompt, each with its own options. The prompt is read and pruned once, in chunks of the size that
/// the first options give. The first continuation belongs to this sequence. The others belong to forks, which are discarded at the end.
/// Each continuation gets the tokens that it would get alone, and each observer is told about the prompt as if it were alone. There are two
/// exceptions. With LongRoPE, the largest expected length decides the RoPE frequencies of all continuations. An observer that stops the
/// prompt stops all continuations. Decode steps are batches, as in the first `generate`. Throws `error` if one of the options asks for no
/// tokens. This is checked before the prompt is read. Also throws as `generate` does.
template <tensor_backend Backend>
std::vector<generation> generate_alternatives(workspace<Backend>& work, sequence<Backend>& seq, std::span<const token_id> prompt,
                                              std::type_identity_t<std::span<const generation_options>> options) {
  using generating = detail::generating<Backend>;
  std::deque<sequence<Backend>> forks;
  std::deque<generating> seqs;
  for (const generation_options& each : options) {
    if (!seqs.empty()) forks.push_back(seq.fork());
    seqs.emplace_back(work, seqs.empty() ? seq : forks.back(), each);
    seqs.back().check(prompt);
    if (seqs.back().wanted() == 0)
      throw error("alternatives", "number " + std::to_string(seqs.size() - 1), "at least one token to generate", "none");
  }
  if (seqs.empty()) return {};

  std::vector<step_observers> watching;
  std::vector<step_observer*> all;
  watching.reserve(seqs.size());
  for (generating& each : seqs) {
    each.expect(seq);
    all.push_back(&watching.emplace_back(each.watching_prompt()));
  }
  seqs.front().make_room(prompt);
  step_observers observers(all);
  const auto read = seqs.front().read(prompt, observers);
  std::ranges::generate(forks, [&] { return seq.fork(); });
  for (generating& each : seqs) {
    each.make_room(prompt);
    each.begin_after(read);
  }
  return detail::to_their_ends(work, seqs);
}

}  // namespace v0
}  // namespace lazyprune
