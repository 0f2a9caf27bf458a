// SPDX-License-Identifier: MIT
// The functions of presets.cpp that main.cpp calls. They are in a file of their own, so that two object files contain the library's inline
// functions.
#pragma once

/// Returns how many of the eleven presets plan the right number of rows.
int planning_presets();

/// Returns how many presets of the registry plan rows.
int named_presets();

/// Parses the text of a policy that has a mistake, which is reported as an error.
void read_wrong_text();
