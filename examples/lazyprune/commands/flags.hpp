// SPDX-License-Identifier: MIT
// The sub-commands: what each can be told, and what it does. They return the exit code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tables/table.hpp"

#include <lazyprune/model/sampler.hpp>
#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
namespace program {

struct model_flags {
  std::string directory;  // empty: not named
  bool no_mmap = false;
};

struct backend_flags {
  std::string backend = "cpu";
  std::string dtype = "auto";
  int threads = 0;  // 0: all that the process may use
  bool exact = false;
};

struct run_flags {
  model_flags model;
  backend_flags backend;
  lazyprune::policy_spec policy;
  std::optional<std::string> prompt, file;
  std::vector<lazyprune::token_id> ids;
  std::size_t predict = 64;
  std::size_t context = 0;
  lazyprune::sampling sampling;
  bool ignore_eos = false;
  std::vector<std::string> stops;
  std::vector<lazyprune::token_id> force;
  bool compare = false, json = false, trace_logits = false;
  std::string trace;
};

int run(const run_flags& flags);

struct compare_flags {
  std::string a, b;
  double tolerance = 1e-4;
};

int compare(const compare_flags& flags);

struct bench_flags {
  model_flags model;
  std::string shape;  // of random weights; empty: a model
  backend_flags backend;
  lazyprune::policy_spec policy;
  std::vector<std::size_t> prompts{512, 2048};
  std::size_t predict = 64;
  std::vector<int> threads{0};
  std::size_t repetitions = 5;
  bool peak = false;
  bool no_warmup = false;
  table_format output = table_format::md;
};

int bench(const bench_flags& flags);

/// Whose questions are answered, and how they are asked.
struct question_flags {
  std::vector<std::string> data;  // files
  std::string task;               // empty: as the data say
  std::string chat = "none";
  std::size_t predict = 0;     // tokens an answer; 0: as the task says
  std::size_t context = 0;     // 0: the model's
  std::size_t max_length = 0;  // of prompts, before the words of a chat; 0: as the context allows
  std::size_t limit = 0;       // samples a file; 0: all
  bool strict = false;
};

struct eval_flags {
  model_flags model;
  backend_flags backend;
  question_flags questions;  // no data: predictions
  lazyprune::policy_spec policy;
  std::string predictions;  // scored without a model; empty: data
  std::string method;       // in the result; empty: the policy, or the predictions' file
  std::string predicted;    // where predictions go; empty: nowhere
  table_format output = table_format::md;
  bool compare = false, resume = false;
  std::size_t jobs = 1;               // samples at once
  bool fidelity = false;              // texts in the place of data
  std::vector<std::string> texts;     // files
  std::optional<std::string> prefix;  // of a text, what is the prompt: a share, or tokens
};

int eval(const eval_flags& flags);

/// eval --fidelity.
int fidelity(const eval_flags& flags);

struct sweep_flags {
  model_flags model;
  backend_flags backend;
  question_flags questions;
  std::vector<std::string> methods{"lazyllm", "static", "random", "compression"};
  std::vector<double> budgets{0.6, 0.75, 0.9};
  std::size_t seeds = 5;        // of methods that draw
  std::size_t sensitivity = 0;  // samples of each file for single stages at each layer; 0: none
  std::string directory;        // for the results
  bool resume = false;
  bool search = false;      // for stages, in the place of methods at budgets
  std::size_t jobs = 1;     // samples at once
  double max_loss = 1;      // points of score
  std::size_t tries = 100;  // schedules at most
};

int sweep(const sweep_flags& flags);

/// sweep --search.
int search(const sweep_flags& flags);

struct inspect_flags {
  model_flags model;
  std::size_t context = 0;
  bool json = false;
};

int inspect(const inspect_flags& flags);

}  // namespace program
}  // namespace lazyprune
