// SPDX-License-Identifier: MIT
// The second of two translation units that include every header. one.cpp is the first.
#include "all_headers.hpp"

int second();

int second() { return 0; }
