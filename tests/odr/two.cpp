// SPDX-License-Identifier: MIT
// The second of two translation units with every header.
#include "all_headers.hpp"

int second();

int second() { return 0; }
