// SPDX-License-Identifier: MIT
#include "help_page.hpp"

#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "terminal/columns.hpp"

#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/registry/policy_registry.hpp>

namespace lazyprune {
namespace program {
namespace {

constexpr std::size_t page_width = 100, label_columns = 28, command_columns = 13;

/// Returns the text's words in lines of at most `page_width` columns. The first line begins at column `at`, the others at column `indent`.
std::string filled(std::string_view text, std::size_t at, std::size_t indent) {
  std::string lines;
  bool begins = true;
  for (const std::string_view word : split(text, ' ')) {
    if (!begins && at + 1 + columns_of(word) > page_width) {
      lines.append("\n").append(indent, ' ');
      at = indent;
    } else if (!begins) {
      lines += ' ';
      ++at;
    }
    lines += word;
    at += columns_of(word);
    begins = false;
  }
  return lines + '\n';
}

std::string paragraph(std::string_view text, std::size_t indent = 0) { return std::string(indent, ' ') + filled(text, indent, indent); }

/// A label, and its text in a column of its own. A long label has a line of its own.
std::string row(const std::string& label, const std::string& text, std::size_t columns) {
  const std::string start = "  " + label;
  if (text.empty()) return start + '\n';
  const bool fits = columns_of(start) + 2 <= columns;
  return (fits ? left(start, columns) : start + '\n' + std::string(columns, ' ')) + filled(text, columns, columns);
}

/// "-m, --model MODEL". The short page shows the last of several long names.
std::string label_of(const CLI::Option& option, page_kind kind) {
  if (!option.nonpositional()) return option.get_type_name();
  std::string label;
  if (!option.get_snames().empty()) label.append("-").append(option.get_snames().front());
  for (const std::string& name : option.get_lnames())
    if (kind == page_kind::all || name == option.get_lnames().back()) label.append(label.empty() ? "--" : ", --").append(name);
  return option.get_type_size() == 0 ? label : label + ' ' + option.get_type_name();
}

using option_list = std::vector<const CLI::Option*>;

option_list options_in(const CLI::App& command, const std::string& group, bool positional) {
  return command.get_options([&](const CLI::Option* o) { return o->get_group() == group && o->nonpositional() != positional; });
}

std::string rows_of(const option_list& all, page_kind kind) {
  std::string rows;
  for (const CLI::Option* option : all) rows += row(label_of(*option, kind), option->get_description(), label_columns);
  return rows;
}

/// Returns one long name of each option, its last.
std::string names_of(const option_list& all) {
  std::string names;
  for (const CLI::Option* option : all) names.append(names.empty() ? "--" : ", --").append(option->get_lnames().back());
  return names;
}

std::string usage_of(const CLI::App& command) {
  std::string usage = command.get_name();
  for (const CLI::App* above = command.get_parent(); above; above = above->get_parent()) usage = above->get_name() + ' ' + usage;
  if (!command.get_parent()) return usage + " COMMAND [OPTIONS]";
  for (const CLI::Option* argument : options_in(command, common_group, true))
    usage += argument->get_required() ? ' ' + argument->get_type_name() : " [" + argument->get_type_name() + ']';
  return usage + " [OPTIONS]";
}

/// Lists the parts of one kind below the heading: each name with its keys.
template <class Any>
std::string parts_of_a_kind(const char* heading, const parts_of_a_kind<Any>& known) {
  std::string rows = std::string("\n") + heading + ":\n";
  for (const auto& part : known.entries()) rows += "  " + part.help + '\n';
  return rows;
}

}  // namespace

std::string help_page(const CLI::App& command, page_kind kind) {
  const bool is_program = !command.get_parent(), all = kind == page_kind::all;
  std::string page = paragraph(command.get_description()) + "Usage: " + usage_of(command) + '\n';
  if (const option_list arguments = options_in(command, common_group, true); !arguments.empty())
    page += "\nArguments:\n" + rows_of(arguments, kind);
  for (const std::string& group : command.get_groups()) {
    const option_list here = options_in(command, group, false);
    if (here.empty() || group == pruning_group) continue;
    if (all || group == common_group) page += '\n' + group + ":\n" + rows_of(here, kind);
  }
  if (const option_list pruning = options_in(command, pruning_group, false); !pruning.empty())
    page += "\nPruning (`lazyprune help pruning` describes these options):\n" + paragraph(names_of(pruning), 2);
  const std::vector<const CLI::App*> commands = command.get_subcommands([](const CLI::App*) { return true; });
  if (is_program) page += "\nCommands:\n";
  for (const CLI::App* one : commands) page += row(one->get_name(), one->get_description(), command_columns);
  if (const std::string footer = command.get_footer(); !footer.empty()) page += '\n' + footer + '\n';
  if (all)
    for (const CLI::App* one : commands) page += '\n' + std::string(page_width, '-') + "\n\n" + help_page(*one, kind);
  return page;
}

std::string pruning_page(const CLI::App& with_options, const policy_registry& policies) {
  std::string page = paragraph(
      "Layers compute a row for each token. A pruning policy drops tokens between layers, and later layers compute fewer rows. Its "
      "schedule says how many tokens stay after which layers, its scorer ranks them, its selector chooses by these scores, and its "
      "store keeps the rows of dropped tokens so that a later step can revive them. Each command's page names the options that it takes. "
      "The page examples/POLICIES.md describes each policy and each part.");
  page += '\n';
  page += paragraph(
      "Without --policy, --stages and --schedule, the program uses the stages known for the model: those of --pruning-file, of "
      "lazyprune.json in the model's folder, or of its own table of models. `lazyprune inspect` shows them. If they come from a "
      "calibration, it also sets the default of --least-tokens and, without --scorer, those of --scorer, --selector, --decode, "
      "--keep-first and --keep-last. If no stages are known, nothing is pruned, except in sweep, search and fidelity --methods.");
  page += "\nOptions:\n" + rows_of(options_in(with_options, pruning_group, false), page_kind::all);
  page += "\nPolicies (--policy):\n";
  for (const policy_preset& preset : policies.presets()) page += row(preset.name, preset.what, label_columns);
  page += parts_of_a_kind("Schedules (--schedule)", policies.schedules());
  page += parts_of_a_kind("Scorers (--scorer)", policies.scorers());
  page += parts_of_a_kind("Selectors (--selector)", policies.selectors());
  page += parts_of_a_kind("Stores (--store)", policies.stores());
  return page +
         "\nExamples:\n"
         "  lazyprune run -m MODEL.gguf -f doc.txt --policy lazyllm --stages 9:0.7,19:0.5\n"
         "  lazyprune run -m MODEL.gguf -f doc.txt --policy static --scorer window_attention:window=8,kernel=5\n";
}

}  // namespace program
}  // namespace lazyprune
