// SPDX-License-Identifier: MIT
// The first of two translation units with every header.
#include "all_headers.hpp"

int second();

int main() { return second(); }
