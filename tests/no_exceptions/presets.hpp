// SPDX-License-Identifier: MIT
// The functions of presets.cpp that main.cpp calls. There are two files, so that both contain the inline functions.
#pragma once

/// The number of presets, of eleven, that plan the right number of rows.
int planning_presets();

/// The number of presets in the registry that plan rows.
int named_presets();

/// Reports an error.
void read_wrong_text();
