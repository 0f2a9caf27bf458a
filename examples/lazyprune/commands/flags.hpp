// SPDX-License-Identifier: MIT
// Flags that several commands share.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "questions/run_part.hpp"

namespace lazyprune {
namespace program {

/// Flags that replace a model's chat template or set its variables.
struct template_flags {
  std::string file{};                    // a file with a template that replaces the model's own; empty: the model's own is used
  std::vector<std::string> variables{};  // each KEY=VALUE

  /// The name of a flag that is given; empty: none is.
  std::string_view given() const { return !file.empty() ? "--chat-template-file" : !variables.empty() ? "--template-var" : ""; }
};

struct model_flags {
  std::string path;  // empty: no model is named
  bool no_mmap = false;
  std::string pruning_file{};  // a file with stages that replaces the lazyprune.json in the model's folder; empty: none does
};

struct backend_flags {
  std::string backend = "cpu";
  std::string dtype = "auto";
  std::string kv = "auto";
  int threads = 0;  // 0: all that the process may use
  bool exact = false;
};

/// The flags that choose the questions and say how to ask them.
/// Texts out of which questions are made.
struct text_flags {
  std::vector<std::string> files{};
  std::size_t tokens = 2000;  // in a passage
  std::size_t prompts = 240;  // at most
};

struct question_flags {
  std::vector<std::string> data{};  // the files with the samples
  text_flags texts{};               // without files: the samples are the questions
  std::string task{};               // empty: the task that the data name
  std::string chat = "none";
  template_flags words{};
  std::size_t predict = 0;     // most tokens of an answer; 0: the task's number
  std::size_t context = 0;     // 0: the model's limit
  std::size_t max_length = 0;  // most tokens of a prompt, without those of a chat template; 0: as many as the context allows
  std::size_t limit = 0;       // the number of samples to take from each file; 0: all
  bool strict = false;
  bool needs_answers = true;  // false: a sample without answers is no bad line
};

/// The flags of a run on several machines.
struct part_flags {
  std::optional<run_part> part{};       // none: all samples, and tables at the end
  std::vector<std::string> finished{};  // folders of other parts, whose samples are not answered again

  run_part which() const { return part.value_or(run_part{}); }
};

}  // namespace program
}  // namespace lazyprune
