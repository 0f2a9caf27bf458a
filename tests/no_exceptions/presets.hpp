// SPDX-License-Identifier: MIT
// What main.cpp calls of presets.cpp: two translation units, so that both hold what is inline.
#pragma once

/// How many of the eleven presets plan the rows that they should.
int planning_presets();

/// How many presets that the registry names plan rows.
int named_presets();

/// Reports an error.
void read_wrong_text();
