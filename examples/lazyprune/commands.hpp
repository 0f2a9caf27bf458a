// SPDX-License-Identifier: MIT
// The sub-commands. Each adds its flags to the program, and what it does if it is the one that was typed.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

/// Returns the exit code.
using action = std::function<int()>;

void add_run(CLI::App& program, action& chosen);
void add_compare(CLI::App& program, action& chosen);
void add_bench(CLI::App& program, action& chosen);
void add_inspect(CLI::App& program, action& chosen);
