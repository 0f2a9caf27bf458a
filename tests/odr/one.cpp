// SPDX-License-Identifier: MIT
// The first of two translation units that include every header. two.cpp is the second.
#include "all_headers.hpp"

int second();

int main() { return second(); }
