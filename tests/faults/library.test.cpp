// SPDX-License-Identifier: MIT
// Allocations of the library fail, while it loads a model, answers, and saves. The same objects then give the same bits.
#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/files/byte_file.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/continuous_batch.hpp>
#include <lazyprune/model/prefix_cache.hpp>
#include <lazyprune/text/model_tokenizer.hpp>

#include <doctest/doctest.h>

#include <new>
#include <span>
#include <string>
#include <vector>

#include <counted_allocations.hpp>
#include <files/support.hpp>
#include <model/tiny_model.hpp>
#include <test_data.hpp>

#include "drawn_faults.hpp"

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

/// Makes allocations of `work` fail, each in a call of its own: the first 2,000 and 500 of the others, or a few of both. Calls
/// `after(failed)` after each call; `failed` says whether std::bad_alloc left it. Returns the number of calls.
template <class Work, class After>
std::size_t fail_allocations(const Work& work, const After& after) {
  const std::size_t before = allocations;
  work();
  const std::size_t all = allocations - before, first = std::min<std::size_t>(all, 2000);
  std::vector<std::size_t> chosen = drawn(every_fault() ? first : 20, 1, first + 1);
  for (const std::size_t n : drawn(every_fault() ? 500 : 20, first + 1, all + 1)) chosen.push_back(n);
  after(false);
  CAPTURE(all);  // doctest allocates for the first CAPTURE of a thread
  const std::ptrdiff_t kept = live_allocations;
  for (const std::size_t n : chosen) {
    CAPTURE(n);
    bool failed = false;
    failing = n;
    try {
      work();
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    const bool made = failing == 0;  // the allocation that fails was made
    failing = 0;
    REQUIRE((made || !failed));
    after(failed);
    REQUIRE(live_allocations == kept);
  }
  return chosen.size();
}

std::vector<float> logits_of(const model<cpu>& net, cpu& backend, std::span<const token_id> tokens) {
  workspace<cpu> work(net, backend);
  auto seq = begin(net, lazyllm(stages{{1, 0.5}, {3, 0.5}}));
  const auto logits = forward(work, seq, tokens, phase::prefill);
  return {logits.begin(), logits.end()};
}

void check_loading(const std::filesystem::path& path) {
  cpu backend({.threads = 1});
  const auto tokens = some_tokens(30);
  const auto expected = logits_of(load_model(backend, checkpoint(path)), backend, tokens);
  std::size_t failures = 0;
  fail_allocations([&] { load_model(backend, checkpoint(path)); },
                   [&](bool failed) {
                     failures += failed;
                     REQUIRE(logits_of(load_model(backend, checkpoint(path)), backend, tokens) == expected);
                   });
  CHECK(failures > 10);
}

/// A model that answers prompts as the server does: in a batch, from the beginnings that a cache keeps.
struct answering {
  cpu backend{{.threads = 1}};
  model<cpu> net = tiny_model(backend);
  workspace<cpu> work{net, backend};
  prefix_cache<cpu> cache{std::size_t{1} << 20, 8};

  /// Returns the tokens and logits of the answers to two prompts, which have the same beginning.
  std::vector<std::vector<float>> answers() {
    continuous_batch<cpu> batch(work, {.question_tokens = 8, .before_question = [&](const sequence<cpu>& seq) { cache.keep(seq); }});
    for (const std::size_t more : {3u, 9u}) {
      auto prompt = some_tokens(60 + more);
      generation_options options;
      options.max_new = 3;
      options.trace_logits = true;
      sequence<cpu> seq = cache.begin(net, any_session(lazyllm(stages{{2, 0.5}}), {.layers = 4}), prompt, 80);
      prompt.erase(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(seq.known()));
      batch.add(std::move(seq), std::move(prompt), options);
    }
    std::vector<std::vector<float>> all(2);
    while (!batch.empty())
      for (const ended_sequence<cpu>& each : batch.step(20)) {
        if (each.fault) std::rethrow_exception(each.fault);
        for (const step_trace& step : each.result.trace)
          all[each.number].insert(all[each.number].end(), step.logits.begin(), step.logits.end());
      }
    return all;
  }
};

}  // namespace

TEST_CASE("if an allocation fails while a folder is loaded, it can be loaded again") { check_loading(pocket_model()); }

TEST_CASE("if an allocation fails while a GGUF file is loaded, it can be loaded again" NEEDS("data")) {
  const auto folder = test_data("gguf");
  if (folder.empty()) return;
  check_loading(folder / "llama-q4_0.gguf");
  check_loading(folder / "llama-q4_k_m.gguf");
}

TEST_CASE("if an allocation fails while a tokenizer is loaded, it can be loaded again") {
  const std::string text = "the old council remembered";
  const std::vector<token_id> expected = load_tokenizer(pocket_model()).encode(text, special_tokens::spelled_out);
  std::size_t failures = 0;
  fail_allocations([&] { load_tokenizer(pocket_model()); },
                   [&](bool failed) {
                     failures += failed;
                     REQUIRE(load_tokenizer(pocket_model()).encode(text, special_tokens::spelled_out) == expected);
                   });
  CHECK(failures > 10);
}

TEST_CASE("if an allocation fails while a batch answers from a prefix cache, the same workspace and cache answer the next batch") {
  const auto expected = answering().answers();
  answering there;
  std::size_t failures = 0;
  fail_allocations(
      [&] {
        there.cache.limit(0);  // so that each call reads the same chunks
        there.cache.limit(std::size_t{1} << 20);
        REQUIRE(there.answers() == expected);
      },
      [&](bool failed) {
        failures += failed;
        REQUIRE(there.answers() == expected);
      });
  CHECK(failures > 10);
}

TEST_CASE("if an allocation fails while a sequence is forked, truncated, saved and loaded, it goes on with the same bits") {
  cpu backend({.threads = 1});
  const auto net = tiny_model(backend);
  workspace<cpu> work(net, backend);
  const auto tokens = some_tokens(40);
  auto seq = begin(net, lazyllm(stages{{2, 0.5}}));
  REQUIRE(forward(work, sequence_step<cpu>{seq, std::span(tokens).first(24), phase::prefill, 0}));
  const auto goes_on = [&](sequence<cpu> from) {
    const auto logits = forward(work, from, std::span(tokens).subspan(from.known()), phase::prefill);
    return std::vector<float>(logits.begin(), logits.end());
  };
  const temporary_folder folder;
  const auto file = folder / "saved";
  const auto save = [&](const sequence<cpu>& what) { write_byte_file(file, [&](byte_writer& to) { what.save(backend, to); }); };
  const auto expected = goes_on(seq.fork());
  const auto shorter = [&] {
    auto some = seq.fork();
    some.truncate(20);
    return some;
  };
  const auto expected_shorter = goes_on(shorter());
  save(seq);
  const std::string whole = read_text(file);
  std::size_t failures = 0;
  fail_allocations(
      [&] {
        const sequence<cpu> some = shorter();
        save(some);
        save(seq);
        read_byte_file(file, [&](byte_reader& from) {
          sequence<cpu>::load(backend, net, any_session(lazyllm(stages{{2, 0.5}}), {.layers = 4}), from);
        });
      },
      [&](bool failed) {
        failures += failed;
        REQUIRE(goes_on(seq.fork()) == expected);
        REQUIRE(goes_on(shorter()) == expected_shorter);
        REQUIRE(folder.files() == 1);
        save(seq);
        REQUIRE(read_text(file) == whole);
        read_byte_file(file, [&](byte_reader& from) {
          REQUIRE(goes_on(sequence<cpu>::load(backend, net, any_session(lazyllm(stages{{2, 0.5}}), {.layers = 4}), from)) == expected);
        });
      });
  CHECK(failures > 10);
}
