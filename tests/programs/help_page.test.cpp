// SPDX-License-Identifier: MIT
// Tests that every page of help fits a screen, and that every option is on a page.
#include "programs/program.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace {

std::string page(const std::vector<std::string>& arguments) {
  const program_result result = lazyprune_program(arguments);
  CHECK(result.code == 0);
  CHECK(result.err.empty());
  CHECK(result.out.ends_with('\n'));
  return result.out;
}

std::size_t width(const std::string& text) {
  std::size_t most = 0;
  for (const std::string& line : lines_of(text)) most = std::max(most, line.size());
  return most;
}

/// True if the text has the option itself, and not only a longer option that begins with it.
bool names(const std::string& text, const std::string& option) {
  for (std::size_t at = text.find(option); at != text.npos; at = text.find(option, at + 1)) {
    const std::size_t end = at + option.size();
    if (end == text.size() || std::string(" ,\n").find(text[end]) != std::string::npos) return true;
  }
  return false;
}

const std::string pruning =
    "--policy --stages --schedule --pruning-file --scorer --selector --store --decode --keep-first --keep-last --keep --least-tokens";
const std::string computing = " --no-mmap --backend --dtype --kv --exact --threads";
const std::string generating =
    " --n-predict --predict --ctx-size --force-memory --chunk --speculate --seed --temp --top-k --top-p --min-p --repeat-penalty "
    "--ignore-eos --stop --escape --system --chat-template-file --template-var --document-roles";
const std::string asking =
    " --data --task --limit --n-predict --predict --ctx-size --max-length --chat --chat-template-file --template-var --strict";

/// The long names of all options.
const std::map<std::string, std::string> options{
    {"run",
     "--model --prompt --file --ids --questions --raw --no-parse-special --chat --messages --force-ids --compare --verbose --json "
     "--trace --trace-logits " +
         pruning + computing + generating},
    {"chat", "--model --file --json " + pruning + computing + generating},
    {"compare", "--against --force-plan --tolerance " + pruning},
    {"bench",
     "--model --random-weights --prompts --n-predict --predict --after-each --sequences --repetitions --no-warmup --peak --parts "
     "--output " +
         pruning + computing},
    {"eval", "--model --predictions --method --jobs --out --resume --part --finished --compare --output " + pruning + computing + asking},
    {"calibrate", "--model --file --block --probes --tokens --prompts --out" + computing + asking},
    {"fidelity",
     "--model --file --prefix --places --n-predict --predict --ctx-size --methods --variant --budgets --output --out --resume "
     "--part --finished " +
         pruning + computing},
    {"sweep",
     "--model --file --tokens --prompts --methods --variant --budgets --pruning-file --keep-first --keep-last "
     "--seeds --timed --sensitivity --minutes --out --resume --part --finished" +
         computing + asking},
    {"merge", "--out --output"},
    {"search",
     "--model --file --tokens --prompts --pruning-file --keep-first --keep-last --max-loss --certain --most-stages --tries --jobs "
     "--scorer --selector --store --decode "
     "--minutes --out --resume" +
         computing + asking},
    {"inspect", "--model --no-mmap --ctx-size --json " + pruning},
    {"serve",
     "--model --host --port --api-key-file --n-predict --predict --ctx-size --sequences --cache-memory --cache-file --queue --connections "
     "--most-body --deadline --drain --log --log-texts --force-memory --chat-template-file --template-var --document-roles " +
         pruning + computing},
    {"tokenize",
     "--model --prompt --file --ids --messages --chat-template-file --template-var --jsonl --no-special --no-parse-special "
     "--json"},
    {"help", "--help"}};

}  // namespace

TEST_CASE("the help of the program and of each command fits 40 lines of 100 columns") {
  const std::string program = page({"--help"});
  CHECK(page({"help"}) == program);
  CHECK(program.find("Usage: lazyprune COMMAND") != std::string::npos);
  CHECK(program.find("\n  lazyprune run -m MODEL.gguf -f doc.txt -p ") != std::string::npos);
  std::vector<std::string> pages{program};
  for (const auto& entry : options) {
    const std::string& command = entry.first;
    CAPTURE(command);
    CHECK(program.find("\n  " + command + " ") != std::string::npos);
    pages.push_back(page({command, "--help"}));
    CHECK(pages.back().find("Usage: lazyprune " + command + " ") != std::string::npos);
    CHECK(page({"help", command}) == pages.back());
    if (command != "help") CHECK(pages.back().find("\nExample") != std::string::npos);
  }
  for (const std::string& one : pages) {
    CAPTURE(one);
    CHECK(lines_of(one).size() <= 40);
    CHECK(width(one) <= 100);
  }
}

TEST_CASE("--help-all of a command names all of its options, and --help-all of the program has the pages of all commands") {
  const std::string program = page({"--help-all"});
  CHECK(width(program) <= 100);
  CHECK(program.find(" Most ") == std::string::npos);  // a limit is said in a sentence: "at most N tokens"
  for (const auto& entry : options) {
    const std::string &command = entry.first, &flags = entry.second;
    const std::string all = page({command, "--help-all"});
    CAPTURE(all);
    CHECK(program.find(all) != std::string::npos);
    std::istringstream words(flags);
    for (std::string flag; words >> flag;) CHECK_MESSAGE(names(all, flag), command << ' ' << flag);
    for (const std::string& line : lines_of(all)) {
      if (!line.starts_with("  -")) continue;
      std::istringstream label(line.substr(0, line.find("  ", 2)));
      for (std::string word; label >> word;) {
        if (word.ends_with(',')) word.pop_back();
        if (word.starts_with("--") && !word.starts_with("--help")) CHECK_MESSAGE(names(flags, word), command << ' ' << word);
      }
    }
  }
}

TEST_CASE("`help pruning` describes each pruning option, once for all commands") {
  const std::string text = page({"help", "pruning"});
  CHECK(width(text) <= 100);
  std::istringstream words(pruning);
  for (std::string flag; words >> flag;) {
    CHECK_MESSAGE(text.find("\n  " + flag + " ") != std::string::npos, flag);
    CHECK(page({"run", "--help-all"}).find("\n  " + flag + " ") == std::string::npos);  // this page has only the names
  }
  CHECK(text.find("\nWithout --policy, --stages and --schedule, ") != std::string::npos);  // the default
  for (const char* part : {"\n  lazyllm  ", "\n  static ", "\n  every:n=,share=\n", "\n  last_query_attention:over=mean|max\n",
                           "\n  top_p:mass=\n", "\n  bounded:rows=\n"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
  CHECK(complaint(lazyprune_program({"help", "prunning"})) == complaint_at("help", {", found prunning"}));
}
