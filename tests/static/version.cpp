// SPDX-License-Identifier: MIT
// The version numbers and the version string agree. The test is that this file compiles.
#include <string_view>

#include <lazyprune/version.hpp>

#define LAZYPRUNE_TEXT_OF(x) #x
#define LAZYPRUNE_DOTTED(a, b, c) LAZYPRUNE_TEXT_OF(a) "." LAZYPRUNE_TEXT_OF(b) "." LAZYPRUNE_TEXT_OF(c)

static_assert(std::string_view{LAZYPRUNE_VERSION_STRING} ==
              LAZYPRUNE_DOTTED(LAZYPRUNE_VERSION_MAJOR, LAZYPRUNE_VERSION_MINOR, LAZYPRUNE_VERSION_PATCH));
