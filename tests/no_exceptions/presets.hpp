// SPDX-License-Identifier: MIT
// The functions of presets.cpp that main.cpp calls. There are two files, so that two object files contain the same inline functions.
#pragma once

/// How many of the eleven presets plan the right number of rows.
int planning_presets();

/// The number of presets in the registry that plan rows.
int named_presets();

/// Reports an error.
void read_wrong_text();
