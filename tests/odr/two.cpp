// SPDX-License-Identifier: MIT
// The second of two translation units that include every header; see one.cpp.
#include "all_headers.hpp"

int second();

int second() { return 0; }
